"""The fields of filter expressions, in one table that the page of the filter language shows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal

from redisq_ops.core.model.entry import ARGUMENTS, Entry, State

from ..groups.fingerprint import fingerprint
from .time import moment_ms

Need = Literal["record", "payload", "priority"]
"""what has to be read of an entry: its whole record, however long, or what is stored beside it"""
Path = tuple[str | int, ...]
MISSING: Final = object()
"""the value of a place in JSON that does not exist"""


@dataclass(frozen=True, slots=True)
class EntryContext:
    """What an entry's record lacks: its queue, and the priorities of the queue's requests."""

    queue: str | None = None
    kind: str | None = None
    priorities: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


NO_CONTEXT: Final = EntryContext()


class EntryFields:
    """One entry at one time of the server's clock, with the values of its fields."""

    def __init__(
        self,
        entry: Entry,
        now_ms: int,
        context: EntryContext = NO_CONTEXT,
        words: Sequence[str] | None = None,
    ) -> None:
        self.entry = entry
        self.now_ms = now_ms
        self.context = context
        self._words = words

    @property
    def words(self) -> Sequence[str]:
        """The texts in which a word without a field is searched."""
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
        # Python refuses to parse numbers of thousands of digits.
        return int(number) if self.request is not None and len(number) < 20 else None

    @cached_property
    def text(self) -> str | None:
        """The payload as text, invalid UTF-8 as ``\\xff``; None: no payload."""
        payload = self.entry.payload
        return None if payload is None else payload.decode("utf-8", "backslashreplace")

    @cached_property
    def document(self) -> Any:
        """The payload as JSON, or `MISSING`."""
        if self.entry.payload is None:
            return MISSING
        try:
            return json.loads(self.entry.payload.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested too deep
            return MISSING

    def at(self, path: Path) -> Any:
        """The value at a place in the JSON payload, or `MISSING`."""
        return _value_at(self.document, path)

    def argument(self, path: Path) -> Any:
        """The value at a place in the task's arguments, or `MISSING`."""
        if self.entry.task is None:
            return MISSING
        found = (_argument_in(self.at((name,)), path) for name in ARGUMENTS)
        return next((value for value in found if value is not MISSING), MISSING)


def _argument_in(held: Any, path: Path) -> Any:
    """The value at a place in one of the members `ARGUMENTS`."""
    first, *rest = path
    if isinstance(held, list) and isinstance(first, str):
        if first.isascii() and first.isdigit():
            return _value_at(held, (int(first), *rest))
        return _value_at(held[0] if len(held) == 1 else MISSING, path)
    return _value_at(held, path)


def _value_at(found: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, str):
            found = found.get(step, MISSING) if isinstance(found, dict) else MISSING
        else:
            exists = isinstance(found, list) and step < len(found)
            found = found[step] if exists else MISSING
    return found


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


Kind = Literal["text", "state", "number", "bytes", "span", "left", "moment", "json"]
"""``span``: how long something has lasted; ``left``: time until something, negative if past"""
OPERATORS: Mapping[Kind, tuple[str, ...]] = {
    "text": ("=", "!=", "~", "!~"),
    "state": ("=", "!="),
    "number": ("=", "!=", ">", ">=", "<", "<="),
    "bytes": ("=", "!=", ">", ">=", "<", "<="),
    "span": (">", ">=", "<", "<="),
    "left": (">", ">=", "<", "<="),
    "moment": (">", ">=", "<", "<="),
    "json": ("=", "!=", ">", ">=", "<", "<=", "~", "!~"),
}
VALUE_FORMS: Mapping[Kind, str] = {
    "text": "text",
    "state": "a state",
    "number": "a whole number",
    "bytes": "512, 10k, 2M (1,024 and 1,048,576 bytes)",
    "span": "90s, 5m, 2h, 3d, 1h30m",
    "left": "90s, 5m, 2h; -5m: 5 minutes ago",
    "moment": "2026-11-20T03:12:00+01:00, or 03:12 (the latest)",
    "json": "text, a number, true, false, null",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an expression. ``read`` returns texts, an integer (ms, bytes) or None."""

    name: str
    kind: Kind
    what: str
    read: Callable[[EntryFields], Any] = field(compare=False)
    need: Need | None = None
    places: tuple[Path, ...] = ()
    """where in a JSON payload its value may be; empty for all other fields"""

    def among(self, fields: EntryFields) -> bool:
        """Whether an entry has it; null in JSON is a value."""
        return self.read(fields) is not (MISSING if self.kind == "json" else None)


def _texts(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else (text,)


def _error(fields: EntryFields) -> tuple[str, ...] | None:
    error = fields.entry.error
    if error is None:
        return None
    return error.type, error.message, f"{error.type}: {error.message}"


def _group(fields: EntryFields) -> tuple[str] | None:
    entry = fields.entry
    # Dead letters without an error are grouped by their reason, or by having none.
    known = entry.error is not None or entry.reason is not None or entry.state == "dead"
    return (fingerprint(entry),) if known else None


def _age(fields: EntryFields) -> int | None:
    since = fields.entry.since_ms
    return None if since is None else fields.now_ms - since


def _left(*states: State) -> Callable[[EntryFields], int | None]:
    def read(fields: EntryFields) -> int | None:
        entry = fields.entry
        if entry.at_ms is None or entry.state not in states:
            return None
        return entry.at_ms - fields.now_ms

    return read


def _release(fields: EntryFields) -> Any:
    found = fields.argument(("release",))
    return fields.at(("release",)) if found is MISSING else found


def _priority(fields: EntryFields) -> int | None:
    return None if fields.request is None else fields.context.priorities.get(fields.request)


def _error_part(name: str) -> Callable[[EntryFields], tuple[str] | None]:
    def read(fields: EntryFields) -> tuple[str] | None:
        return None if fields.entry.error is None else (getattr(fields.entry.error, name),)

    return read


def _attempts(name: str) -> Callable[[EntryFields], int | None]:
    def read(fields: EntryFields) -> int | None:
        number: int = getattr(fields.entry, name)
        return number if fields.entry.counted else None

    return read


def _size(fields: EntryFields) -> int | None:
    return None if fields.entry.payload is None else len(fields.entry.payload)


_ALL = (
    Field("id", "text", "the id, `REQUEST/N` for a sub-request", lambda s: (s.entry.id,)),
    Field("state", "state", "the state", lambda s: (s.entry.state,)),
    Field("queue", "text", "the queue's name", lambda s: _texts(s.context.queue)),
    Field(
        "kind", "text", "the kind of queue: `request`, `delay` …", lambda s: _texts(s.context.kind)
    ),
    Field(
        "task",
        "text",
        "the name of its task, in queues of task programs such as Celery",
        lambda s: _texts(s.entry.task),
    ),
    Field("request", "text", "its request", lambda s: _texts(s.request)),
    Field("number", "number", "its number in the request", lambda s: s.number),
    Field("priority", "number", "the priority of the request, 0 first", _priority, need="priority"),
    Field("client", "text", "its client, in a fair queue", lambda s: _texts(s.entry.client)),
    Field(
        "consumer", "text", "the consumer that has or had it", lambda s: _texts(s.entry.consumer)
    ),
    Field(
        "reason",
        "text",
        "why it is dead: `failed`, `lost`, `rejected`; `invalid`: pushed with an invalid id; in "
        "any state `gone`: its record is gone, only its id is left",
        lambda s: _texts(s.entry.reason),
    ),
    Field("error", "text", "the last error: its type, its message, or `TYPE: MESSAGE`", _error),
    Field("error.type", "text", "the type of the last error", _error_part("type")),
    Field("error.message", "text", "the message of the last error", _error_part("message")),
    Field("group", "text", "the fingerprint of its error", _group),
    Field("age", "span", "how long it has been in its state", _age),
    Field(
        "run",
        "span",
        "how long its latest run took, where its program keeps that",
        lambda s: s.entry.run_ms,
    ),
    Field("ready", "left", "time until it is ready", _left("waiting", "delayed")),
    Field("lease", "left", "time until its lease ends", _left("pending")),
    Field("since", "moment", "when it entered its state", lambda s: s.entry.since_ms),
    Field("first", "moment", "first delivery (since a replay)", lambda s: s.entry.first_ms),
    Field("failures", "number", "failures of its handler", _attempts("failures")),
    Field("lost", "number", "leases that expired", _attempts("lost")),
    Field("attempts", "number", "`failures` + `lost`", _attempts("attempts")),
    Field(
        "deliveries",
        "number",
        "deliveries, as a stream's pending list counts them",
        lambda s: s.entry.deliveries,
    ),
    Field(
        "op",
        "text",
        "the operator's change that last changed it, unless something else did since",
        lambda s: _texts(s.entry.op),
    ),
    Field("size", "bytes", "size of its payload", _size, need="payload"),
    Field("payload", "text", "its payload as text", lambda s: _texts(s.text), need="payload"),
    Field(
        "release",
        "json",
        "the release that it names: `arg.release`, else `payload.release`",
        _release,
        need="payload",
        places=(*((name, "release") for name in ARGUMENTS), ("release",)),
    ),
)
FIELDS: Mapping[str, Field] = {each.name: each for each in _ALL}


def payload_field(path: Path) -> Field:
    """The field for a place in JSON payloads."""
    what = "the value at this place, if the payload is JSON"
    return Field(
        "payload" + path_text(path), "json", what, lambda s: s.at(path), "payload", (path,)
    )


def argument_field(path: Path) -> Field:
    """The field for a place in the arguments of tasks."""
    what = "the value of this argument of its task"
    places = tuple((name, *path) for name in ARGUMENTS)
    name = "arg" + path_text(path)
    return Field(name, "json", what, lambda s: s.argument(path), "payload", places)


PLACES: Mapping[str, Callable[[Path], Field]] = {"payload": payload_field, "arg": argument_field}
"""fields with a path behind their names"""


def path_text(path: Path) -> str:
    """The path as expressions write it: ``.a.b[0]."a key"``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step and all(c.isascii() and (c.isalnum() or c in "_-") for c in step):
            text += f".{step}"
        else:
            text += f".{quoted(step)}"
    return text


def quoted(text: str) -> str:
    r"""The text in quotes, with ``"`` and ``\`` escaped by a ``\``."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True, slots=True)
class FilterValue:
    """A value in an expression. Unquoted, ``*`` matches any text, and a number, ``true``, ``false``
    or ``null`` matches that of JSON."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        return quoted(self.text) if self.quoted else self.text

    @property
    def glob(self) -> bool:
        return not self.quoted and "*" in self.text

    def matches(self, text: str) -> bool:
        """Whether it matches a whole text; never backtracks, so the time is linear."""
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
        """Its number, if it is written as a number of JSON; None otherwise."""
        if self.quoted:
            return None
        return _cached_number(self.text)

    def equals(self, found: Any) -> bool:
        """Whether it equals a value of a JSON payload. A quoted value equals only text."""
        if isinstance(found, str):
            return self.matches(found)
        if self.quoted:
            return False
        if found is None or isinstance(found, bool):
            return self.text == json.dumps(found)
        return isinstance(found, (int, float)) and self.number == found


@lru_cache(1024)
def _cached_number(text: str) -> int | float | None:
    return json_number(text)


def json_number(text: str) -> int | float | None:
    """The number that a text is in JSON; None: it is none."""
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or math.isinf(found):
        return None
    return found


@lru_cache(64)
def moment(text: str, now_ms: int, utc: bool) -> int:
    """`moment_ms`, cached: a whole scan uses the same ``now_ms``."""
    return moment_ms(text, now_ms, utc=utc)
