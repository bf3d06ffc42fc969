"""Selections: the identities of the entries that a filter accepts, to change them later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import GONE, Entry, Request, State
from redisq_ops.core.model.quoting import bytes_of, text
from redisq_ops.core.redis.operation import together

from .filter import Filter
from .scan import Scan

TIMED = ("waiting", "delayed")
"""states in which an entry may have no record: its time distinguishes it from a later entry of the
same id"""


Keep = Callable[[list[Entry], list[bytes]], None]
"""gets some entries, and of each its `selected_stamp`"""


def _identity(entry: Entry) -> str:
    timed = entry.at_ms is not None and entry.state in TIMED
    line = f"{entry.id} {entry.at_ms}" if timed else entry.id
    return f"{line} {GONE}" if entry.orphan else line


@dataclass(slots=True)
class Selection:
    """The identities of the selected entries, stored compactly by pages, with counts and samples.

    ``complete`` is False if ``max`` or the window ended the scan before the end of the state.
    """

    queue: Queue[Any]
    state: State
    filter: Filter
    high_water_ms: int
    """entries that entered the state after this time are not selected"""
    pages: list[bytes] = field(default_factory=list)
    """lines of ``ID``, in `TIMED` states ``ID TIME``; behind them `GONE` for an orphan"""
    stamps: list[bytes] = field(default_factory=list)
    """for each page the entries' `selected_stamp`, as lines; empty where no entry has one"""
    count: int = 0
    scanned: int = 0
    total: int = 0
    """entries in the state, of which ``scanned`` were read"""
    exact: bool = True
    """False: ``total`` is a lower bound, see `Scan`"""
    complete: bool = True
    sample: list[Entry] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    elsewhere: list[Entry] = field(default_factory=list)
    """named entries in another state, which are not selected"""
    unreadable: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """ids left out because their records are corrupt, or gone"""
    remarks: tuple[str, ...] = ()
    """sentences: why nothing matched, how far the window reached, what was left out"""

    def keep(self, entries: list[Entry], stamps: list[bytes]) -> None:
        """Store the identities of entries that were added."""
        if entries:
            self.pages.append(bytes_of("\n".join(map(_identity, entries))))
            self.stamps.append(b"\n".join(stamps) if any(stamps) else b"")

    def add(self, entries: list[Entry]) -> None:
        self.count += len(entries)
        self.sample += entries[: max(0, 10 - len(self.sample))]
        for entry in entries:
            reason = entry.reason or (entry.error.type if entry.error else None)
            if reason:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def identities(self) -> Iterator[tuple[str, int | None, bool, bytes]]:
        """Every id in the server's order, in `TIMED` states the entry's time (ms), whether it is an
        orphan, and its stamp."""
        for page, stamps in zip(self.pages, self.stamps, strict=True):
            lines = text(page).split("\n")
            each = stamps.split(b"\n") if stamps else [b""] * len(lines)
            for line, stamp in zip(lines, each, strict=True):
                id, *more = line.split(" ")
                orphan = more[-1:] == [GONE]
                at = more[: len(more) - orphan]
                yield id, int(at[0]) if at else None, orphan, stamp

    def ids(self) -> list[str]:
        """Every id; for small selections and tests."""
        return [id for id, *_ in self.identities()]


async def select(
    queue: Queue[Any],
    state: State,
    filter: Filter,
    progress: Callable[[int, int | None], None] | None = None,
    *,
    each: Callable[[list[Entry]], Awaitable[None]] | None = None,
    keep: Keep | None = None,
    now_ms: int | None = None,
    orphans: bool = False,
    target: str = "",
) -> Selection:
    """Read a state and keep the identities that the filter accepts; changes nothing.

    ``progress`` is called with (scanned, total or None) after each page; an exception from it ends
    the scan. ``each`` gets the selected entries page by page. ``keep`` gets them too; then the
    selection itself has no ids, and what is in memory doesn't grow with it. ``orphans``: as of
    `Scan`. ``target``: the state to which the entries will go; empty: unknown.
    """
    now = await queue.now.op() if now_ms is None else now_ms
    scan = Scan(queue, state, filter, now, orphans=orphans, brief=True)
    selection = Selection(queue, state, filter, now)
    keep = keep or selection.keep
    while not scan.over:
        found = await scan.step()
        if found and found[0].state == "waiting":
            if isinstance(queue, HasRequests):
                found = await _dated(queue, found)
            found = await _came_before(queue, found, now)
        if each is not None:
            await each(found)
        selection.add(found)
        keep(found, [queue.selected_stamp(entry, target, now) for entry in found])
        if progress is not None:
            progress(scan.scanned, scan.expected)
    selection.scanned, selection.total, selection.exact = scan.scanned, scan.total, scan.exact
    selection.complete, selection.remarks = scan.complete, scan.remarks
    selection.elsewhere, selection.unreadable = scan.elsewhere, scan.unreadable
    return selection


async def _dated(queue: HasRequests[Any], entries: list[Entry]) -> list[Entry]:
    """Waiting entries with the time their request began: an id may come again."""
    ids = sorted({entry.id.rpartition("/")[0] for entry in entries})
    requests: list[Request | None] = await together(queue.request.op(id) for id in ids)
    began = {r.id: r.created_ms for r in requests if r is not None}
    return [replace(entry, at_ms=began.get(entry.id.rpartition("/")[0])) for entry in entries]


async def _came_before(queue: Queue[Any], entries: list[Entry], moment_ms: int) -> list[Entry]:
    """Waiting entries without those that arrived after ``moment_ms``. A time in the future is from
    a clock that ran ahead: that entry stays."""
    if all((entry.at_ms or 0) <= moment_ms for entry in entries):
        return entries
    now = await queue.now.op()
    return [entry for entry in entries if not moment_ms < (entry.at_ms or 0) <= now]
