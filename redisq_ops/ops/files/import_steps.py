"""Puts the entries of a file into a queue, in small batches: only one is in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer import import_entries
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import Exists, QueueClosed, QueueFull, Refused
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import together

from ..change import audit_log
from ..change.steps import ChangeSteps
from ..required_features import requests_of
from ..terminal import count
from .import_check import Content, ImportRow, own, parsed
from .import_preview import accepted, undoable
from .submit import Submission

BATCH = 100
"""entries that an import looks up and puts in at once"""
BYTES = 256 * 1024
"""bytes of payloads in one call of an import; a larger payload is sent alone"""

Problem = Callable[[int, str, str], None]
"""called for a line that isn't imported: its number, the entry's id, and why"""


def _distinct(
    rows: Sequence[ImportRow],
) -> tuple[dict[str, ImportRow], list[tuple[ImportRow, str, str]]]:
    """The first row of each id; and the others, each with a word and why it is skipped."""
    fresh: dict[str, ImportRow] = {}
    skipped: list[tuple[ImportRow, str, str]] = []
    for row in rows:
        first = fresh.setdefault(row.entry.id, row)
        if first is row:
            continue
        if _content(first.entry) == _content(row.entry):
            skipped.append((row, "same", ""))
        else:
            why = f"its id is on line {first.number:,} too, with another payload"
            skipped.append((row, "exists", why))
    return fresh, skipped


def _content(entry: Entry) -> tuple[bytes, str | None]:
    """What two entries must share to count as the same: payload and client."""
    return entry.payload or b"", entry.client


@dataclass(slots=True)
class _UnderWay:
    """The request that is being put in."""

    job: Submission
    places: list[tuple[int, int]]
    first: ImportRow
    before: int
    """sub-requests that were there already"""
    revives: bool
    """whether the request was cancelled, and is brought back"""
    inverse: str
    """what undoes it; empty: it was there before"""

    @property
    def done(self) -> int:
        return max(0, self.job.sent - self.before)


class ImportSteps(ChangeSteps):
    """Add one queue's part of a file to a queue.

    An entry that the queue has counts as ``same`` with an equal payload, as ``exists`` with
    another; both stay as they are. So a second run adds what is missing. An entry in the trash, or
    of a cancelled request, comes back. The inverse of a batch is in the audit log before the batch
    is sent.
    """

    def __init__(
        self,
        file: BinaryIO,
        content: Content,
        queue: Queue[Any],
        *,
        as_waiting: bool = False,
        problem: Problem = lambda line, id, why: None,
    ) -> None:
        what = f"{count(content.entries)} entries of {content.queue}"
        super().__init__(queue, "import", content.entries, what)
        self.content = content
        self._file = file
        self._states = frozenset[State]() if as_waiting else accepted(queue)
        self._size = BATCH
        self._paced = 0
        """entries that steps have returned as dealt with"""
        self._problem = problem
        self._inverses: list[str] = []
        self._keep = undoable(content)
        self._rows = own(file, content)
        self._ahead: list[ImportRow] = []
        self._requests = deque(content.requests.items())
        """those that are not yet dealt with"""
        self._under_way: _UnderWay | None = None

    async def step(self, size: int) -> int | None:
        self._size = min(self._size, size)
        try:
            if isinstance(self.queue, RequestQueue):
                more = await self._request(self.queue)
            else:
                more = await self._batch()
        except (QueueFull, QueueClosed) as refusal:
            more = self._no_more(refusal)
        if not more:
            return None
        handled = self.outcome.handled - self._paced
        self._paced += handled
        return handled

    async def reached(self) -> int:
        """After an interruption: how many entries were put in; what was under way is read again."""
        try:
            if self._under_way is not None:
                await self._looked_at(self._under_way)
            elif self._ahead:
                await self._batch()  # sent again: the queue repeats its reply
        except Refused:  # full, or closed: then nothing of it is in
            pass
        await audit_log.note(self.queue, self.op, **self._fields())
        return self._done

    async def end(self) -> dict[str, str | int]:
        return self._fields()

    @property
    def _done(self) -> int:
        return self.outcome.done + (self._under_way.done if self._under_way else 0)

    def _fields(self, *coming: str) -> dict[str, str | int]:
        """Fields of the audit log: the inverses, with those of what is sent next (``coming``).
        Scripts count ``done`` of entries that are in no request."""
        now = [self._under_way.inverse] if self._under_way and self._under_way.inverse else []
        fields: dict[str, str | int] = {"inverse": "\n".join([*self._inverses, *now, *coming])}
        return fields | ({"done": self._done} if self.content.requests else {})

    def _skip(self, row: ImportRow, word: str, why: str) -> None:
        self.outcome.skip(word)
        if word != "same":
            self._problem(row.number, row.entry.id, why)

    def _no_more(self, refusal: Refused) -> bool:
        """Whether to go on with single entries, since a full queue may have room for some of a
        batch. If not, report what is left."""
        if self._size > 1 and isinstance(refusal, QueueFull) and self._ahead:
            self._size = 1
            return True
        word = "full" if isinstance(refusal, QueueFull) else "closed"
        left = self.outcome.matched - self.outcome.handled
        first = next(iter(self._ahead), None) or next(self._rows, None)
        if first is not None:
            self._problem(first.number, first.entry.id, f"{refusal}; it and what follows is left")
        self.outcome.skip(word, left)
        return False

    # --- entries by themselves -----------------------------------------------------------------

    def _next(self) -> list[ImportRow]:
        """What goes in next. Kept until it is in: a step that is tried again has the same rows."""
        volume = sum(len(row.entry.payload or b"") for row in self._ahead)
        while len(self._ahead) < self._size and volume < BYTES:
            row = next(self._rows, None)
            if row is None:
                break
            self._ahead.append(row)
            volume += len(row.entry.payload or b"")
        return self._ahead[: self._size]

    async def _batch(self) -> bool:
        rows = self._next()
        if not rows:
            return False
        fresh, _ = _distinct(rows)
        if self._keep:
            coming = (self._inverse("importing", row) for row in fresh.values())
            await audit_log.note(self.queue, self.op, **self._fields(*coming))
        # Named after its first line, a batch that is sent again is known as the same step.
        words = await import_entries(
            self.queue, self.op, rows[0].number, [self._as(r.entry) for r in fresh.values()]
        )
        # Where the queue was full, or closed, after a part of them, the others stay ahead.
        fresh, skipped = _distinct([row for row in rows if row.entry.id in words])
        taken = [row for id, row in fresh.items() if words[id] == "exists"]
        found = await self.queue.get_many.op([row.entry.id for row in taken])
        for row, there in zip(taken, found, strict=True):
            del fresh[row.entry.id]
            entry = row.entry
            if there is None:
                skipped.append((row, "exists", "its id was here just now"))
            elif _content(there) == _content(entry):
                if there.state != "trash":
                    skipped.append((row, "same", ""))
                else:
                    skipped.append((row, "exists", "it is on its way to another queue"))
            else:
                why = f"its id is here ({there.state}), with another payload"
                skipped.append((row, "exists", why))
        inverses = [self._inverse("imported", row) for row in fresh.values()]
        left = [row for row in rows if row.entry.id not in words]
        done, ahead = self.outcome.done + len(fresh), left + self._ahead[len(rows) :]
        # Assigned without a call between them: Ctrl+C must not find them counted and still ahead.
        self.outcome.done, self._ahead = done, ahead
        if self._keep:
            self._inverses += inverses
        for each in skipped:
            self._skip(*each)
        return True

    def _inverse(self, verb: str, row: ImportRow) -> str:
        return f"{verb} {self.op} {row.entry.id} {row.entry.digest}"

    def _as(self, entry: Entry) -> Entry:
        """An entry in the state it will have here."""
        if entry.state in self._states:
            return entry
        return replace(
            entry,
            state="waiting",
            at_ms=None,
            since_ms=None,
            failures=0,
            lost=0,
            reason=None,
            error=None,
        )

    # --- requests ------------------------------------------------------------------------------

    async def _request(self, queue: RequestQueue[Any]) -> bool:
        """A step of the request that is under way: its sub-requests in order, numbered from 1."""
        if not self._requests:
            return False
        now = self._under_way
        if now is None:
            now = await self._begin_request(queue)
            coming = [now.inverse] if now.inverse else []
            await audit_log.note(self.queue, self.op, **self._fields(*coming))
            self._under_way = now
        try:
            more = await now.job.step()
        except Exists:
            self._over(now)
            await self._compared(queue, now.places)
            return True
        except (QueueFull, QueueClosed) as refusal:
            await self._looked_at(now)  # of the chunks in the step, one may be in
            there = max(now.job.sent, now.before)
            self._over(now, there > now.before)
            self._problem(now.first.number, now.job.id, f"{refusal}; {count(there)} of it are in")
            self.outcome.done += there - now.before
            self.outcome.skip("same", now.before)
            word = "full" if isinstance(refusal, QueueFull) else "closed"
            self.outcome.skip(word, len(now.places) - there)
            return True
        if now.revives and not now.job.cancelled and now.job.done is None:
            await self._looked_at(now)
        if not more:
            self._over(now, True)
            self.outcome.skip("same", now.before)
            self.outcome.done += len(now.places) - now.before
        return True

    async def _begin_request(self, queue: RequestQueue[Any]) -> _UnderWay:
        rid, (_, offsets, lines) = self._requests[0]
        places = list(zip(offsets, lines, strict=True))
        first = next(self._read(places))
        known = await queue.request.op(rid)
        payloads = (row.entry.payload or b"" for row in self._read(places))
        job = Submission(
            queue,
            payloads,
            id=rid,
            priority=first.priority,
            limit=first.limit,
            op=self.op,
            seq=len(self.content.requests) - len(self._requests) + 1,
        )
        revives = known is not None and known.state == "cancelled"
        inverse = f"cancel {rid}" if revives else f"cancel {rid} {self.op}" if not known else ""
        before = 0 if known is None or revives else known.total
        return _UnderWay(job, places, first, before, revives, inverse if self._keep else "")

    def _over(self, now: _UnderWay, some: bool = False) -> None:
        """Finish a request, and skip the lines that repeat its sub-requests. ``some``: this import
        added some of it."""
        self._under_way = None
        self._requests.popleft()
        if some and now.inverse:
            self._inverses.append(now.inverse)
        self.outcome.skip("same", self.content.doubles.get(now.job.id, 0))

    async def _looked_at(self, now: _UnderWay) -> None:
        """Learn from the request how much of it is there."""
        found = await requests_of(self.queue).request.op(now.job.id)
        if found is None or found.state == "cancelled":
            now.job.sent = now.before
            return
        if now.revives:  # what was done before its cancel stays as it is
            now.before, now.revives = found.total - found.waiting, False
        now.job.sent = found.total

    async def _compared(self, queue: RequestQueue[Any], places: Sequence[tuple[int, int]]) -> None:
        """A request with that id has other content: report of each entry whether it is the same."""
        for low in range(0, len(places), BATCH):
            rows = list(self._read(places[low : low + BATCH]))
            known = await together(queue.get.op(row.entry.id) for row in rows)
            for row, there in zip(rows, known, strict=True):
                here = there is not None and there.state != "trash"
                if here and there.payload == row.entry.payload:
                    self._skip(row, "same", "")
                elif there is None or there.state == "trash":
                    self._skip(row, "exists", "its request is here, and it was purged or moved")
                else:
                    self._skip(row, "exists", "its request is here, with other content")

    def _read(self, places: Sequence[tuple[int, int]]) -> Iterator[ImportRow]:
        for offset, number in places:
            self._file.seek(offset)
            row = parsed(self._file.readline(), self.content.kind)
            assert isinstance(row, ImportRow)
            yield replace(row, number=number)
