"""The scan that finds the entries of a state that a filter accepts.

The same scan selects the entries that are shown and those that are changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import GONE, Counts, Entry, Page, State
from redisq_ops.core.model.errors import BadInput, Refused, WrongKind
from redisq_ops.core.redis.operation import together

from ..terminal import count
from .fields import EntryContext, EntryFields, Need
from .filter import Filter

PAGE = 250
"""entries read by one call: while Valkey resizes a hash table every read moves a part of it,
and 500 of a million take 2 ms"""
WITH_PAYLOADS = 100
"""entries read by one call with payloads, of up to a mebibyte each, where no page is bounded by its
bytes"""
_PRIORITIES = 10_000
"""priorities cached during a scan"""
_LOOKUP_COST = 20
"""reading one entry by id costs about this many times its share of a page"""
_PARTLY = "partly"
"""entries that match because what the filter excludes was not read"""
WHOLE = "whole"
"""entries with a record in a state of which only orphans can be purged"""
_UNREADABLE = {
    "corrupt": ("entry has a corrupt record", "entries have corrupt records"),
    "long": ("entry is too long to be read", "entries are too long to be read"),
    _PARTLY: (
        "entry may match what is excluded: it is too long to be read as a whole",
        "entries may match what is excluded: they are too long to be read as a whole",
    ),
    WHOLE: ("entry has its record, and stays", "entries have their records, and stay"),
    GONE: (
        "entry is only an id without a record, and can only be purged",
        "entries are only ids without records, and can only be purged",
    ),
}


class Scan:
    """Reads a state by pages of 250 entries. Call `step` until `over` is True.

    Payloads and the priorities of requests are read only if the expression needs them or ``needs``
    names them. Entries that the filter names are read by id; ``elsewhere`` are those
    found in another state. ``complete`` is False if ``max`` or the window ended the scan before the
    end of the state.

    ``partly``: continue past what can't be read; otherwise that is `WrongKind`, since a change must
    not act on a part. ``orphans``: entries of which only the id is left can be changed, too.
    ``brief``: as of `Queue.page`. ``counts``: of the queue, if they were just read.
    """

    def __init__(
        self,
        queue: Queue[Any],
        state: State,
        filter: Filter,
        now_ms: int,
        *,
        needs: frozenset[Need] = frozenset(),
        partly: bool = False,
        orphans: bool = False,
        brief: bool = False,
        counts: Counts | None = None,
    ) -> None:
        self.queue = queue
        self.state = state
        self.filter = filter
        self.now_ms = now_ms
        self.found = self.scanned = self.total = 0
        self.exact = True
        """False: ``total`` counts only what was seen so far"""
        self.problem: str | None = None
        """what of the state can't be read, with ``partly``"""
        self.unreadable: dict[str, list[str]] = {name: [] for name in _UNREADABLE}
        """why -> ids of entries that are left out: the record is corrupt, too long to be read, or
        gone (with ``partly`` these stay, as do those `_PARTLY` read); or the entry is `WHOLE`"""
        self.partly: list[str] = []
        """ids of records whose too long fields were not read"""
        self.elsewhere: list[Entry] = []
        self.over, self.complete = bool(filter.state_mismatch(state)), True
        if filter.where is not None:
            needs |= filter.where.needs
        self._absent = [] if filter.where is None else list(filter.where.compared)
        """fields of the expression that no entry had so far"""
        self._payloads = "payload" in needs
        self._requests = queue if isinstance(queue, HasRequests) else None
        self._needs_priorities = "priority" in needs and self._requests is not None
        self._priorities: dict[str, int] = {}
        self._partly = partly
        self._orphans = orphans
        self._brief = brief
        self._counts = counts
        self._only_orphans = orphans and state in queue.orphan_states
        self._context = EntryContext(queue.name, queue.kind, self._priorities)
        self._cursor: str | None = None
        self._start: int | None = None
        """rank at which a window of the latest entries begins"""
        self._latest = False
        """whether such a window is read at once: ranks don't tell which entries are the latest"""
        self._ids: Iterator[str] | None = None
        self._begun = False

    async def step(self) -> list[Entry]:
        """The accepted entries of the next page, in the server's order."""
        if self.over:
            return []
        if not self._begun:
            await self._begin()
        entries = await (self._page() if self._ids is None else self._named(self._ids))
        odd = [entry for entry in entries if entry.problem or entry.orphan]
        orphans = set() if self._orphans else {entry.id for entry in odd if entry.orphan}
        corrupt = {entry.id for entry in odd if not entry.orphan}
        unread = {entry.id for entry in odd if entry.unread}
        if not self._partly:
            # An id with a space or a line end can't be named in a change.
            corrupt |= {entry.id for entry in entries if " " in entry.id or "\n" in entry.id}
            left_out = corrupt | orphans
            entries = [entry for entry in entries if entry.id not in left_out]
        self.unreadable["corrupt"] += sorted(corrupt - unread)
        self.unreadable["long"] += sorted(unread)
        self.unreadable[GONE] += sorted(orphans)
        self.partly += [entry.id for entry in entries if entry.partly]
        if self._needs_priorities:
            await self._learn_priorities(entries)
        accepted = [e for e in entries if self.filter.accepts(e, self.now_ms, self._context)]
        where = self.filter.where
        if where is not None and not self._partly:
            unsure = {e.id for e in accepted if e.partly and where.unsure(self.fields(e))}
            self.unreadable[_PARTLY] += sorted(unsure)
            accepted = [entry for entry in accepted if entry.id not in unsure]
        if self._only_orphans:
            self.unreadable[WHOLE] += [entry.id for entry in accepted if not entry.orphan]
            accepted = [entry for entry in accepted if entry.orphan]
        if not accepted and self._absent:
            seen = [self.fields(entry) for entry in entries]
            self._absent = [f for f in self._absent if not any(f.among(each) for each in seen)]
        left = len(accepted) if self.filter.max is None else self.filter.max - self.found
        if self.filter.max is not None and len(accepted) >= left:
            self.complete = self.complete and self.over and len(accepted) == left
            self.over = True
        self.found += len(accepted[:left])
        return accepted[:left]

    def saw(self, entries: Iterable[Entry]) -> None:
        """Remember which of these entries could not be read, or only in part, after the scan."""
        for entry in entries:
            if entry.problem and not entry.orphan:
                self.unreadable["long" if entry.unread else "corrupt"].append(entry.id)
            if entry.partly:
                self.partly.append(entry.id)

    def fields(self, entry: Entry) -> EntryFields:
        """The fields of an entry of this scan."""
        return EntryFields(entry, self.now_ms, self._context)

    @property
    def unread(self) -> str:
        """What could not be read, in one line; '' if everything could."""
        partly = _named(self.partly, "read without what is too long")
        return "; ".join(filter(None, (self.problem, *self._unreadable(), partly)))

    @property
    def absent(self) -> list[str]:
        """Fields that no entry has, if entries were looked at and none matched; otherwise none."""
        return [one.name for one in self._absent] if self.scanned and not self.found else []

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences: why nothing matched, how far the window reached, what was left out."""
        mismatch = self.filter.state_mismatch(self.state)
        lacks = (f"no {self.state} entry that was read has {name}" for name in self.absent)
        left_out = (f"{some}: left out" for some in self._unreadable())
        unlisted = "" if self.found else self.queue.unlisted.get(self.state, "")
        remarks = (mismatch, "" if mismatch else self.window_text, *lacks, *left_out, unlisted)
        return tuple(remark for remark in remarks if remark)

    def _unreadable(self) -> Iterator[str]:
        for word, ids in self.unreadable.items():
            one, some = _UNREADABLE[word]
            if ids:
                yield _named(ids, one if len(ids) == 1 else some)

    @property
    def window_text(self) -> str:
        """How far the window reached; '' without a window."""
        if self.filter.window is None:
            return ""
        return f"examined {count(self.scanned)} of {self.total_text}"

    @property
    def total_text(self) -> str:
        """The number of entries in the state, with ``≥`` if it is a lower bound."""
        return at_least(self.total, self.exact)

    @property
    def read_all(self) -> bool:
        """Whether the whole state was read."""
        return self.exact and self.scanned >= self.total

    @property
    def expected(self) -> int | None:
        """The total for a progress display; None if unknown."""
        return self.total if self.exact else None

    async def _begin(self) -> None:
        """Decide whether to read entries by id or to read the whole state."""
        self._begun = True
        filter, where = self.filter, self.filter.where
        if filter.window is not None:
            if filter.window < 0:
                await self._start_from_the_end(-filter.window)
            return
        if filter.ids and not filter.requests:
            self._look_up(filter.ids)
        elif (
            where is not None
            and where.ids is not None
            and not filter.requests
            and self.state != "trash"
            and self.queue.by_id
        ):
            # Trash of a cancelled request is readable by id, but is not in the pages of the trash.
            # In other programs' queues a read by id can be a search.
            self._look_up(where.ids)
        elif not filter.ids:
            wanted = filter.requests or (None if where is None else where.requests)
            if wanted and self._requests is not None:
                await self._look_up_requests(self._requests, wanted)

    def _look_up(self, ids: Sequence[str]) -> None:
        distinct = tuple(dict.fromkeys(ids))
        self._ids, self.total = iter(distinct), len(distinct)

    async def _look_up_requests(self, queue: HasRequests[Any], ids: Sequence[str]) -> None:
        """Read the requests' entries by id, if that costs less than reading the whole state."""
        if self.state not in ("pending", "delayed", "dead"):
            return
        distinct = tuple(dict.fromkeys(ids))[:PAGE]
        if len(distinct) < len(ids):
            return
        records = await together(queue.request.op(id) for id in distinct)
        totals = {r.id: r.total for r in records if r is not None and getattr(r, self.state)}
        number = (await self.queue.counts.op(self.now_ms)).of(self.state) or 0
        if sum(totals.values()) * _LOOKUP_COST < number:
            self._ids = (f"{id}/{n}" for id, total in totals.items() for n in range(1, total + 1))
            self.total = sum(totals.values())
            self.over = not totals

    async def _start_from_the_end(self, most: int) -> None:
        if self.state == "waiting":
            raise BadInput(
                "waiting entries have no latest ones: use --window N for the first N, or leave "
                "waiting out with --where 'state:dead' (or pending, delayed, trash)"
            )
        counts = self._counts or await self.queue.counts.op(self.now_ms)
        number = counts.of(self.state)
        if number is None:
            raise Refused(
                f"queue {self.queue.name} does not show how many entries are {self.state}, which a "
                "window of the latest ones needs"
            )
        self._start = max(0, number - most)
        self._latest = not self.queue.ranked(self.state)

    async def _page(self) -> Sequence[Entry]:
        most = WITH_PAYLOADS if self._payloads and not self.queue.bounds_pages else PAGE
        if self.filter.window is not None:
            most = min(most, abs(self.filter.window) - self.scanned)
        start = None
        if self._cursor is None and self._start is not None:
            start = self._start + self.scanned
        page: Page
        if self._latest and self.filter.window is not None:
            page = await self.queue.latest.op(self.state, -self.filter.window, self._payloads)
        else:
            page = await self.queue.page.op(
                self.state, self._cursor, most, start, self._payloads, brief=self._brief
            )
        if page.problem and not self._partly:
            raise WrongKind(page.problem)
        if page.problem and page.problem not in (self.problem or ""):
            self.problem = f"{self.problem}; {page.problem}" if self.problem else page.problem
        self.scanned += len(page.entries)
        self.total = max(page.total, self.scanned)
        # A state read from beginning to end has been counted.
        self.exact = page.exact or (
            page.cursor is None and self._start is None and not self.problem
        )
        self._cursor = page.cursor
        self.over = page.cursor is None
        if start is not None and page.cursor is None:  # pages by rank may lack a cursor
            self.over = not page.entries or start + len(page.entries) >= page.total
        if self._latest:
            self.over, self.complete = True, self.read_all
        elif self.filter.window is not None and self.scanned >= abs(self.filter.window):
            self.over, self.complete = True, self.over and not self._start
        return page.entries

    async def _named(self, ids: Iterator[str]) -> Sequence[Entry]:
        batch = list(islice(ids, WITH_PAYLOADS if self._payloads else PAGE))
        found = await self.queue.get_many.op(batch, self.state)
        self.scanned += len(batch)
        self.over = self.scanned >= self.total
        known = [entry for entry in found if entry is not None]
        if self.filter.ids:
            self.elsewhere += [entry for entry in known if entry.state != self.state]
        return [entry for entry in known if entry.state == self.state]

    async def _learn_priorities(self, entries: Sequence[Entry]) -> None:
        wanted = {entry.id.rpartition("/")[0] for entry in entries} - {""}
        if len(self._priorities) + len(wanted) > _PRIORITIES:
            self._priorities.clear()
        missing = sorted(wanted - self._priorities.keys())
        assert self._requests is not None
        found = await together(self._requests.request.op(id) for id in missing)
        self._priorities.update({r.id: r.priority for r in found if r is not None})


def at_least(number: int, exact: bool) -> str:
    """A number, with ``≥`` if it is a lower bound."""
    return f"{'' if exact else '≥'}{count(number)}"


def _named(ids: Sequence[str], noun: str) -> str:
    named = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
    return f"{count(len(ids))} {noun} ({named})" if ids else ""
