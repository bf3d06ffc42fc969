"""Records, payloads and results of requests, read by id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ...engine.optional_features import HasPriorityLevels, HasRequests
from ...model.entry import Request, RequestState
from ...model.errors import NotFound
from ...model.quoting import text
from ...redis.operation import C_co, Call, attempt, operation, together
from . import stream

_RECORD = (
    "state",
    "priority",
    "limit",
    "paused",
    "total",
    "waiting",
    "pending",
    "delayed",
    "done",
    "dead",
    "trash",
    "purged",
    "tok",
    "created",
    "added",
    "closed",
    "bytes",
    "dropped",
    "digest",
    "moving",
    "follows",
    "then",
)
_TEXTS = ("state", "digest", "follows", "then")


class RequestRecords(HasRequests[C_co], HasPriorityLevels[C_co]):
    """A request queue: what other reads look up by id."""

    @operation
    async def request(self, id: str) -> Request | None:
        return await self._record(id)

    def _record(self, id: str) -> Call[Request | None]:
        key = self.keys["r_"] + id

        def read(reply: list[bytes | None]) -> Request | None:
            row = dict(zip(_RECORD, reply, strict=True))
            if row["state"] is None:
                return None
            n = {name: int(row[name] or 0) for name in _RECORD if name not in _TEXTS}
            state = cast("RequestState", row["state"].decode())
            trash, waiting = n["trash"] + n["purged"], n["waiting"]
            if state == "cancelled":
                trash, waiting = trash + waiting, 0
            return Request(
                id,
                state,
                n["priority"],
                n["limit"],
                bool(n["paused"]),
                n["total"],
                waiting,
                n["pending"],
                n["delayed"],
                n["done"],
                n["dead"],
                trash,
                n["tok"],
                n["created"],
                n["added"] or None,
                n["closed"] or None,
                n["bytes"],
                n["dropped"],
                (row["digest"] or b"").decode(),
                n["moving"],
                text(row["follows"] or b""),
                text(row["then"] or b""),
            )

        return Call(("HMGET", key, *_RECORD), read, key=key)

    @property
    def _end_channels(self) -> str:
        return self.keys["r_"]

    async def _awaited(self, ids: Sequence[str]) -> list[Request]:
        records = await together(self.request.op(id) for id in ids)
        return [found(record, id, self.name) for record, id in zip(records, ids, strict=True)]

    @operation
    def traceparent(self, id: str) -> Call[str | None]:
        """The W3C trace context with which a request was submitted; None: without one."""
        key = self.keys["r_"] + id
        return Call(("HGET", key, "trace"), lambda found: found and found.decode(), key=key)

    async def _importer(self, id: str) -> str:
        """The import that created a request; empty: no import did."""
        key = self.keys["r_"] + id
        return await Call(("HGET", key, "op"), lambda found: (found or b"").decode(), key=key)

    async def _readable(self, member: bytes) -> Request | Exception | None:
        try:
            asked: Call[Request | None] = self._record(member.decode())
        except UnicodeDecodeError as error:  # no submission can have such an id
            return error
        said: Request | Exception | None = await attempt(asked)
        return said

    async def _results(self, id: str, start: int, max: int, mark: str = "") -> list[bytes | None]:
        """Results of ``max`` numbers from ``start`` on, None for each without one. With the
        ``mark`` ``-`` the marks of sub-requests that were deleted for good."""
        base = f"{self.keys['res_']}{id}:"
        parts: list[list[bytes | None]] = await together(
            Call(("HMGET", f"{base}{piece}", *(f"{mark}{n}" for n in ns)), list[Any], key=base)
            for piece, ns in _pieces(range(start, start + max))
        )
        return [value for part in parts for value in part]

    async def _holder(self, id: str) -> RequestRecords[Any]:
        """The queue that has a request: this one, or one of its shards."""
        return self

    async def _purged_numbers(self, id: str, start: int, max: int) -> list[bool]:
        """Which of the sub-requests from ``start`` on were deleted for good."""
        return [kept is not None for kept in await self._results(id, start, max, "-")]

    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for payload in await self._payloads_or_errors(ids):
            if isinstance(payload, Exception):
                raise payload
            found.append(payload)
        return found

    async def _payloads_or_errors(self, ids: Sequence[str]) -> list[bytes | Exception | None]:
        if not ids:
            return []
        places = [id.rpartition("/") for id in ids]
        key = self.keys["edited"]
        found, edited = await together(
            together(stream.payload(self.keys["s_"] + rid, n) for rid, _, n in places),
            Call(("HMGET", key, *ids), list[bytes | None], key=key),
        )
        return [
            other if other is not None else payload
            for payload, other in zip(found, edited, strict=True)
        ]


def found(request: Request | None, id: str, queue: str) -> Request:
    if request is None:
        raise NotFound(f"no request {id} in queue {queue}")
    return request


def _pieces(numbers: range) -> Iterator[tuple[int, range]]:
    """The hashes that have results of these numbers, 1,000 in each, with the numbers of each."""
    for piece in range(numbers.start // 1000, (numbers.stop - 1) // 1000 + 1):
        yield piece, range(max(numbers.start, 1000 * piece), min(numbers.stop, 1000 * piece + 1000))
