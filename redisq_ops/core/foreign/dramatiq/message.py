"""A message as Dramatiq's Redis broker keeps it: JSON, or the bytes of another encoder."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ...model.entry import Failure
from ..json_text import decoded, encoded
from ..tracebacks import failure_of

_SHOWN = ("actor_name", "args", "kwargs", "message_id")
_HIDDEN = ("redis_message_id", "traceback", "eta", "requeue_timestamp")
"""options that are shown as columns, or are Dramatiq's own"""
_COUNTED = ("retries", "traceback", "requeue_timestamp")
"""options that Dramatiq's `Retries` adds to a message that failed"""
_ETA = re.compile(rb'"eta": ?(\d{1,15})')


@dataclass(frozen=True, slots=True)
class Message:
    data: bytes
    fields: dict[str, Any] | None
    """None: it isn't JSON"""

    @classmethod
    def read(cls, data: bytes) -> Message:
        found = decoded(data)
        sound = isinstance(found, dict) and isinstance(found.get("options"), dict)
        return cls(data, found if sound else None)

    @property
    def options(self) -> dict[str, Any]:
        return self.fields["options"] if self.fields else {}

    def number(self, option: str) -> int | None:
        return _number(self.options.get(option))

    @property
    def sent_ms(self) -> int | None:
        """When it was sent, or came back for another attempt."""
        sent = self.fields.get("message_timestamp") if self.fields else None
        return self.number("requeue_timestamp") or _number(sent)

    def shown(self) -> bytes:
        """Shown as the payload: actor, arguments, id and options. Bytes of another encoder are
        shown as they are."""
        if self.fields is None:
            return self.data
        shown = {name: self.fields.get(name) for name in _SHOWN}
        options = {name: value for name, value in self.options.items() if name not in _HIDDEN}
        return encoded(shown | {"options": options})

    def error(self) -> Failure | None:
        """The error of the attempt before the last one; Dramatiq keeps the last one's nowhere."""
        traceback = self.options.get("traceback")
        return failure_of(traceback) if isinstance(traceback, str) else None

    # --- what is written -------------------------------------------------------------------------

    def for_replay(self) -> bytes:
        """The message as before its first attempt; its own bytes if it can't be rewritten."""
        return self._rewritten(_COUNTED) or self.data

    def for_now(self) -> bytes | None:
        """A delayed message as its worker sends it when due; None: it can't be rewritten."""
        name = self.fields.get("queue_name") if self.fields else None
        if not isinstance(name, str) or "eta" not in self.options:
            return None
        return self._rewritten(("eta",), queue_name=name.removesuffix(".DQ"))

    def _rewritten(self, without: tuple[str, ...], **changed: str) -> bytes | None:
        """The message without these options. None: Dramatiq would encode the rest differently."""
        if self.fields is None or _encoded(self.fields) != self.data:
            return None
        left = {name: value for name, value in self.options.items() if name not in without}
        return _encoded(self.fields | changed | {"options": left})

    def put_off(self, at_ms: int) -> bytes | None:
        """The same bytes with another time; None: it isn't certain which bytes are the time."""
        for found in _ETA.finditer(self.data):
            begin, end = found.span(1)
            other = Message.read(self.data[:begin] + b"1" + self.data[end:])
            if other.number("eta") == 1 and self.number("eta") == int(found[1]) != 1:
                return b"%s%d%s" % (self.data[:begin], at_ms, self.data[end:])
        return None


def _encoded(fields: dict[str, Any]) -> bytes:
    try:
        return json.dumps(fields, separators=(",", ":")).encode()
    except RecursionError:
        return b""


def _number(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**53 else None
