"""What an expression may ask about an entry: one table, from which the page of it is made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal

from redisq_ops.core.model.entry import Entry, State

from ..groups.fingerprint import fingerprint
from .time import moment_ms

Need = Literal["payload", "priority"]
"""what has to be fetched besides the entry's own record"""
Path = tuple[str | int, ...]
MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class EntryContext:
    """What an entry doesn't know of itself: where it is, and the priorities of requests there."""

    queue: str | None = None
    kind: str | None = None
    priorities: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


NOWHERE: Final = EntryContext()


class EntryFields:
    """One entry at one moment of the server's clock, while it is being asked about."""

    def __init__(
        self,
        entry: Entry,
        now_ms: int,
        place: EntryContext = NOWHERE,
        words: Sequence[str] | None = None,
    ) -> None:
        self.entry = entry
        self.now_ms = now_ms
        self.place = place
        self._words = words

    @property
    def words(self) -> Sequence[str]:
        """Where a word without a field is looked for."""
        if self._words is not None:
            return self._words
        error = self.entry.error
        return (self.entry.id,) if error is None else (self.entry.id, error.type, error.message)

    @property
    def request(self) -> str | None:
        request, _, number = self.entry.id.rpartition("/")
        return request if request and number.isdigit() else None

    @property
    def number(self) -> int | None:
        number = self.entry.id.rpartition("/")[2]
        # Longer ones are nobody's numbers, and Python refuses to read them.
        return int(number) if self.request is not None and len(number) < 20 else None

    @cached_property
    def text(self) -> str | None:
        """The payload as text; bytes that are none as they are shown, ``\\xff``."""
        payload = self.entry.payload
        return None if payload is None else payload.decode("utf-8", "backslashreplace")

    @cached_property
    def document(self) -> Any:
        """The payload as JSON, or `MISSING`."""
        if self.entry.payload is None:
            return MISSING
        try:
            return json.loads(self.entry.payload.decode(), parse_constant=_refused)
        except (ValueError, RecursionError):  # not UTF-8, not JSON, or a number without end
            return MISSING

    def at(self, path: Path) -> Any:
        """What is there in the payload, or `MISSING`."""
        found = self.document
        for step in path:
            if isinstance(step, str):
                found = found.get(step, MISSING) if isinstance(found, dict) else MISSING
            else:
                there = isinstance(found, list) and step < len(found)
                found = found[step] if there else MISSING
        return found


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


Kind = Literal["text", "state", "number", "bytes", "span", "left", "moment", "json"]
"""``span``: how long something has lasted; ``left``: how long until, below 0 when it is over"""
TAKES: Mapping[Kind, tuple[str, ...]] = {
    "text": ("=", "!=", "~", "!~"),
    "state": ("=", "!="),
    "number": ("=", "!=", ">", ">=", "<", "<="),
    "bytes": ("=", "!=", ">", ">=", "<", "<="),
    "span": (">", ">=", "<", "<="),
    "left": (">", ">=", "<", "<="),
    "moment": (">", ">=", "<", "<="),
    "json": ("=", "!=", ">", ">=", "<", "<=", "~", "!~"),
}
LOOKS: Mapping[Kind, str] = {
    "text": "text",
    "state": "a state",
    "number": "a whole number",
    "bytes": "512, 10k, 2M (1,024 and 1,048,576 bytes)",
    "span": "90s, 5m, 2h, 3d, 1h30m",
    "left": "90s, 5m, 2h; -5m when it is over",
    "moment": "2026-11-20T03:12:00+01:00, or 03:12, the latest one",
    "json": "text, a number, true, false, null",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A name in an expression. ``read`` gives texts, an integer (ms, bytes), or None: unknown."""

    name: str
    kind: Kind
    what: str
    read: Callable[[EntryFields], Any] = field(compare=False)
    need: Need | None = None
    path: Path = ()
    """where in a JSON payload it is; empty: it isn't a place in one"""


def _one(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else (text,)


def _error(seen: EntryFields) -> tuple[str, ...] | None:
    error = seen.entry.error
    if error is None:
        return None
    return error.type, error.message, f"{error.type}: {error.message}"


def _group(seen: EntryFields) -> tuple[str] | None:
    entry = seen.entry
    # Dead letters without an error are groups too: by their reason, or by having none.
    known = entry.error is not None or entry.reason is not None or entry.state == "dead"
    return (fingerprint(entry),) if known else None


def _age(seen: EntryFields) -> int | None:
    since = seen.entry.since_ms
    return None if since is None else seen.now_ms - since


def _left(*states: State) -> Callable[[EntryFields], int | None]:
    def read(seen: EntryFields) -> int | None:
        entry = seen.entry
        if entry.at_ms is None or entry.state not in states:
            return None
        return entry.at_ms - seen.now_ms

    return read


def _priority(seen: EntryFields) -> int | None:
    return None if seen.request is None else seen.place.priorities.get(seen.request)


_ALL = (
    Field("id", "text", "the id, `REQUEST/N` for a sub-request", lambda s: (s.entry.id,)),
    Field("state", "state", "the state", lambda s: (s.entry.state,)),
    Field("queue", "text", "the queue's name", lambda s: _one(s.place.queue)),
    Field("kind", "text", "the queue's kind: `request`, `delay` …", lambda s: _one(s.place.kind)),
    Field("request", "text", "the request it belongs to", lambda s: _one(s.request)),
    Field("number", "number", "its number in that request", lambda s: s.number),
    Field(
        "priority", "number", "the priority of that request, 0 first", _priority, need="priority"
    ),
    Field("client", "text", "whose work it is, in a fair queue", lambda s: _one(s.entry.client)),
    Field("consumer", "text", "who has it, or had it last", lambda s: _one(s.entry.consumer)),
    Field(
        "reason",
        "text",
        "why it is dead: `failed`, `lost`, `rejected`; `invalid`: no id of ours, pushed by others",
        lambda s: _one(s.entry.reason),
    ),
    Field("error", "text", "the last error: its type, its message, or `TYPE: MESSAGE`", _error),
    Field(
        "error.type",
        "text",
        "the type of the last error",
        lambda s: None if s.entry.error is None else (s.entry.error.type,),
    ),
    Field(
        "error.message",
        "text",
        "its message",
        lambda s: None if s.entry.error is None else (s.entry.error.message,),
    ),
    Field(
        "group",
        "text",
        "the fingerprint of its error",
        _group,
    ),
    Field("age", "span", "how long it has been in its state", _age),
    Field("ready", "left", "how long until it is ready", _left("waiting", "delayed")),
    Field("lease", "left", "how long its lease lasts", _left("pending")),
    Field("since", "moment", "when it came into its state", lambda s: s.entry.since_ms),
    Field("first", "moment", "first delivered, since a replay", lambda s: s.entry.first_ms),
    Field("failures", "number", "how often its handler failed", lambda s: s.entry.failures),
    Field("lost", "number", "how often its lease ran out", lambda s: s.entry.lost),
    Field("attempts", "number", "both together", lambda s: s.entry.attempts),
    Field(
        "deliveries",
        "number",
        "deliveries as the stream's own list counts them, where there is one",
        lambda s: s.entry.deliveries,
    ),
    Field(
        "op",
        "text",
        "the operator's change that touched it last, while untouched since",
        lambda s: _one(s.entry.op),
    ),
    Field(
        "size",
        "bytes",
        "bytes of its payload",
        lambda s: None if s.entry.payload is None else len(s.entry.payload),
        need="payload",
    ),
    Field("payload", "text", "its payload as text", lambda s: _one(s.text), need="payload"),
)
FIELDS: Mapping[str, Field] = {each.name: each for each in _ALL}


def within(path: Path) -> Field:
    """The field of a place in JSON payloads."""
    what = "what is there in its payload, where that is JSON"
    return Field("payload" + spelt(path), "json", what, lambda s: s.at(path), "payload", path)


def spelt(path: Path) -> str:
    """``.a.b[0]."a key"``, as it is read back."""
    said = ""
    for step in path:
        if isinstance(step, int):
            said += f"[{step}]"
        elif step and all(c.isascii() and (c.isalnum() or c in "_-") for c in step):
            said += f".{step}"
        else:
            said += f".{quoted(step)}"
    return said


def quoted(text: str) -> str:
    r"""In quotes, ``"`` and ``\`` behind a ``\``."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True, slots=True)
class FilterValue:
    """A value as it was written. Unquoted, ``*`` stands for any text, and words may be JSON's."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        return quoted(self.text) if self.quoted else self.text

    @property
    def glob(self) -> bool:
        return not self.quoted and "*" in self.text

    def fits(self, text: str) -> bool:
        """Whether a text is this one; each ``*`` any part of it, without ever going back."""
        if not self.glob:
            return text == self.text
        first, *between, last = self.text.split("*")
        if len(text) < len(first) + len(last):
            return False
        if not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in between:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    @property
    def number(self) -> int | float | None:
        """The number it is, if it is written as JSON writes numbers."""
        if self.quoted:
            return None
        return as_number(self.text)

    def equals(self, found: Any) -> bool:
        """Whether it is what a JSON payload holds. A quoted value is a text only."""
        if isinstance(found, str):
            return self.fits(found)
        if self.quoted:
            return False
        if found is None or isinstance(found, bool):
            return self.text == json.dumps(found)
        return isinstance(found, (int, float)) and self.number == found


@lru_cache(1024)
def as_number(text: str) -> int | float | None:
    return written_number(text)


def written_number(text: str) -> int | float | None:
    """The number that a text is, as JSON writes numbers."""
    try:
        found = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or math.isinf(found):
        return None
    return found


@lru_cache(64)
def moment(text: str, now_ms: int, utc: bool) -> int:
    """`moment_ms`; a whole scan asks at one moment."""
    return moment_ms(text, now_ms, utc=utc)
