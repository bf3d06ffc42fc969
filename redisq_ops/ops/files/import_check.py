"""Check all of a file that `Export` wrote, before anything of it is imported."""

from __future__ import annotations

import base64
import binascii
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, BinaryIO, cast

from redisq_ops.core.engine.optional_features import HasClients, HasRequests
from redisq_ops.core.engine.queue_classes import queue_class
from redisq_ops.core.model.entry import Entry, Failure, State
from redisq_ops.core.model.errors import BadInput, Refused, SchemaTooNew
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.queues.request.submission import checked_limit, checked_priority

from ..ndjson import END, at_line, lines
from ..terminal import count
from ..typed_json import json_object
from .export import EXPORT, REQUEST, STATES

LONGEST = 128 << 20
"""bytes of a line: each byte of a payload of 16 MiB may take six, and the line has an error, too"""
_SUB_REQUEST = re.compile(r"[^/]+/[1-9][0-9]{0,13}")
"""a request's id and a number in it, which can be written in only one way"""


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A line of a file that is an entry."""

    number: int
    """of the line, from 1"""
    entry: Entry
    priority: int = 0
    limit: int = 0
    total: int = 0
    """of its request, where it has one"""


@dataclass(slots=True)
class Content:
    """What a file has for one queue."""

    queue: str
    kind: str
    states: dict[State, int] = field(default_factory=dict)
    bytes: int = 0
    requests: dict[str, list[array[int]]] = field(default_factory=dict)
    """request -> three arrays with an item for each sub-request, in order: its number, the offset
    of its line, the line's number"""
    totals: dict[str, int] = field(default_factory=dict)
    """request -> how many sub-requests it had"""
    doubles: dict[str, int] = field(default_factory=dict)
    """request -> how many of its lines have a later one of the same sub-request"""

    @property
    def entries(self) -> int:
        return sum(self.states.values())


@dataclass(slots=True)
class FileContents:
    """What is in a file, by reading all of it once; only the places of requests are kept.

    ``whole`` is False when the end of an export is missing.
    """

    contents: dict[str, Content] = field(default_factory=dict)
    whole: bool = True

    @classmethod
    def of(
        cls, file: BinaryIO, name: str, progress: Callable[[int], None] = lambda lines: None
    ) -> FileContents:
        """`BadInput` if any line can't be used, naming the first; `Refused` for a redacted one."""
        whole_file = cls()
        wrong: list[str] = []
        redacted = content = None
        inside: int | None = None
        for number, offset, line in lines(file, name, LONGEST):
            if number % 1000 == 0:
                progress(number)
            try:
                found = parsed(line, content.kind if content else None)
                if isinstance(found, Content):
                    whole_file.whole = whole_file.whole and inside is None
                    content, inside = whole_file.contents.setdefault(found.queue, found), 0
                    if content.kind != found.kind:
                        raise BadInput(f"queue {found.queue} is of two kinds in this file")
                elif isinstance(found, ImportRow):
                    assert content is not None
                    inside = (inside or 0) + 1
                    _counted(content, replace(found, number=number), offset)
                else:
                    whole_file.whole = whole_file.whole and inside == found
                    inside = None
            except _Redacted:
                redacted = redacted or number
            except (BadInput, SchemaTooNew) as error:
                wrong.append(at_line(name, number, error))
        if wrong:
            more = f" (and {count(len(wrong) - 1)} more lines)" if len(wrong) > 1 else ""
            raise BadInput(f"{wrong[0]}{more}; nothing was imported")
        if redacted:
            why = "its payload or error was redacted when it was exported"
            way = "export with --raw-payloads; nothing was imported"
            raise Refused(at_line(name, redacted, f"{why}: {way}"))
        if content is None:
            raise BadInput(f"{name} is not an export: it has no line that says so")
        whole_file.whole = whole_file.whole and inside is None
        for content in whole_file.contents.values():
            _ordered(content)
        return whole_file


def _counted(content: Content, row: ImportRow, offset: int) -> None:
    entry = row.entry
    content.states[entry.state] = content.states.get(entry.state, 0) + 1
    content.bytes += len(entry.payload or b"")
    if issubclass(_class_of(content.kind), HasRequests):
        rid, _, n = entry.id.rpartition("/")
        places = content.requests.setdefault(rid, [array("q"), array("q"), array("q")])
        for place, value in zip(places, (int(n), offset, row.number), strict=True):
            place.append(value)
        content.totals[rid] = max(row.total, content.totals.get(rid, 0))


def _ordered(content: Content) -> None:
    """Sort lines by the sub-request's number, and keep only the latest line of each. An entry that
    changes its state during an export is in the file twice, and would be done twice."""
    for rid, places in content.requests.items():
        numbers = places[0]
        if all(low < high for low, high in pairwise(numbers)):
            continue
        order = sorted(range(len(numbers)), key=numbers.__getitem__)  # of equal ones by line
        kept = [k for k, after in pairwise(order) if numbers[k] != numbers[after]] + order[-1:]
        if len(kept) < len(order):
            content.doubles[rid] = len(order) - len(kept)
        content.requests[rid] = [array("q", (place[k] for k in kept)) for place in places]


class _Redacted(Exception):
    """A line with redacted values."""


def own(file: BinaryIO, content: Content) -> Iterator[ImportRow]:
    """The entries of one queue, in the file's order. Entries of other queues, which may be of
    another kind, are skipped."""
    inside = False
    for number, _, line in lines(file, content.queue, LONGEST):
        row = json_object(line)
        if row.get("redisq") == EXPORT.name:
            inside = row["queue"] == content.queue
        elif inside and row.get("redisq") is None:
            yield replace(_row_of(row, content.kind), number=number)


def parsed(line: bytes, kind: str | None) -> Content | ImportRow | int | None:
    """A line: where a section begins, an entry, how many entries a section had at its end."""
    row = json_object(line)
    word = row.get("redisq")
    if word == END:
        return _number(row, "entries")
    if word is not None:
        EXPORT.take_head(row)
        queue, its = row.get("queue"), row.get("kind")
        if not isinstance(queue, str) or not isinstance(its, str):
            raise BadInput("says neither queue nor kind")
        return Content(queue, its)
    if row.get("redacted"):
        raise _Redacted
    if kind is None:
        raise BadInput("an entry before any line that says which queue it is from")
    return _row_of(row, kind)


def _class_of(kind: str) -> type:
    """The class of a kind's queues, which says what their entries have."""
    return queue_class(kind) or object


def _row_of(row: dict[str, Any], kind: str) -> ImportRow:
    state = row.get("state")
    if state not in STATES:
        raise BadInput(f"state must be one of {', '.join(STATES)}, not {state!r}")
    id = row.get("id")
    if not isinstance(id, str):
        raise BadInput("it has no id")
    for part in id.split("/"):
        checked_name(part, "id")
    payload, client = _payload(row, id), row.get("client")
    if client is not None:
        checked_name(client if isinstance(client, str) else "", "client name")
    elif issubclass(_class_of(kind), HasClients):
        raise BadInput(f"{id} has no client, and a {kind} queue's entries have one")
    reason = row.get("reason")
    if reason is not None:
        checked_name(reason if isinstance(reason, str) else "", "reason")
    failure = _failure(row, id)
    since, ready = _number(row, "since_ms"), _number(row, "ready_ms")
    entry = Entry(
        id,
        cast(State, state),
        at_ms=since if state in ("dead", "trash") else ready,
        since_ms=since,
        payload=payload,
        failures=_number(row, "failures") or 0,
        lost=_number(row, "lost") or 0,
        first_ms=_number(row, "first_ms"),
        reason=reason,
        error=failure,
        client=client if issubclass(_class_of(kind), HasClients) else None,
    )
    if not issubclass(_class_of(kind), HasRequests):
        if "/" in id:
            raise BadInput(f"{id} is no entry of a {kind} queue")
        return ImportRow(0, entry)
    request = row.get("request")
    if not _SUB_REQUEST.fullmatch(id) or not isinstance(request, dict):
        raise BadInput(f"{id} is no sub-request, or doesn't say its request's priority and limit")
    priority, limit, total = (_number(request, name) or 0 for name in REQUEST)
    return ImportRow(0, entry, checked_priority(priority), checked_limit(limit), total)


def _payload(row: dict[str, Any], id: str) -> bytes:
    payload = row.get("payload")
    if "payload_b64" in row:
        try:
            return base64.b64decode(row["payload_b64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise BadInput(f"payload_b64 of {id} is not base64") from error
    if not isinstance(payload, str):
        raise BadInput(f"{id} has no payload")
    try:
        return payload.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"payload of {id} is not text: {error.reason}") from error


def _failure(row: dict[str, Any], id: str) -> Failure | None:
    error = row.get("error")
    if error is not None and not isinstance(error, dict):
        raise BadInput(f"error of {id} must be an object with type, message and traceback")
    if not error:
        return None
    return Failure(*(str(error.get(name) or "") for name in ("type", "message", "traceback")))


def _number(row: dict[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**14:
        raise BadInput(f"{name} must be a whole number, not {value!r}")
    return value
