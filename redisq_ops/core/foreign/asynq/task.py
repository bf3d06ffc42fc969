"""A task as asynq keeps it: a hash, whose field ``msg`` is a `TaskMessage` of Protocol Buffers.

The numbers of a message's fields are those of asynq's ``internal/proto/asynq.proto``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...model.entry import Failure
from ...redis.parsers import moment
from ..job_hashes import JobHash, Note
from ..json_text import decoded, encoded
from .protobuf import Message

FIELDS = ("msg", "state", "pending_since", "unique_key", "group", "result")
_LOST = "asynq: task lease expired"
_NUMBERS = {"retry": 5, "retried": 6, "timeout": 8, "deadline": 9, "retention": 12}
_TEXTS = {"unique_key": 10, "group": 14}


@dataclass(frozen=True, slots=True)
class Task(JobHash):
    """``until_ms``: when asynq takes it back, if it is pending. ``message`` is empty, and the
    ``problem`` says why, if it can't be read."""

    until_ms: int | None
    message: Message
    headers: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None

    @classmethod
    def read(cls, values: Mapping[str, bytes | None], until_ms: int | None = None) -> Task:
        msg = values["msg"]
        if not msg or isinstance(msg, Note):
            why = msg.decode() if msg else "its task has lost its message"
            return cls(values, until_ms, Message(), problem=why)
        try:
            message = Message(msg)
            headers = {one.text(1): one.text(2) for one in message.messages(15)}
            return cls(values, until_ms, message, headers)
        except ValueError as error:
            return cls(values, until_ms, Message(), problem=f"its task's message: {error}")

    def ms(self, field: int) -> int | None:
        """A time (s); 0 stands for none."""
        return moment(self.message.number(field) * 1000) or None

    def error(self) -> Failure | None:
        """The latest failure, of which asynq keeps the text only."""
        why = self.message.text(7)
        return Failure("error", why) if why else None

    def failures(self, archived_ms: int | None) -> tuple[int, int, str | None]:
        """How often the task failed, how often it was lost with its server (only the last time is
        known), and why it is dead. asynq doesn't count the failure that archives a task, and an
        operator can archive one, too."""
        failed = archived_ms is not None and self.ms(11) == archived_ms
        lost = self.message.text(7) == _LOST
        retried = max(0, self.message.number(6, 32)) + failed
        why = ("lost" if lost else "failed") if failed else "rejected"
        return max(0, retried - lost), int(lost), None if archived_ms is None else why

    def shown(self) -> bytes:
        """Shown as the payload: type, data, options and headers."""
        message = self.message
        shown: dict[str, Any] = {"type": message.text(1), "data": _data(message.data(2))}
        shown |= {name: message.number(n) for name, n in _NUMBERS.items() if message.number(n)}
        shown |= {name: message.text(n) for name, n in _TEXTS.items() if message.text(n)}
        return encoded(shown | {"headers": self.headers} if self.headers else shown)


def _data(data: bytes) -> Any:
    return decoded(data, data.decode("utf-8", "backslashreplace"))
