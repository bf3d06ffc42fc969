"""Which entries an action is about: a state of a queue and a filter, the same set that is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.errors import BadInput
from redisq_ops.core.io import together
from redisq_ops.core.queue import Queue
from redisq_ops.core.values import Entry, Page, State

from .terminal import age

PAGE = 500


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression, or one line that says where it is wrong."""
    try:
        return re.compile(text)
    except re.error as error:
        at = f" at column {error.pos + 1}" if error.pos is not None else ""
        raise BadInput(f"--match {text!r}: {error.msg}{at}") from error
    except OverflowError as error:
        raise BadInput(f"--match {text!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class Filter:
    """What narrows a state down. An empty filter is the whole state.

    ``ids`` and ``requests`` name entries, and all entries of requests: either is enough.
    ``clients``: whose entries, where a queue has clients.
    ``match`` looks at id, error type and message; ``older_than_ms`` at the time in the present
    state (an entry that only ever waited doesn't know it and is left out); ``max`` caps.
    """

    ids: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    match: re.Pattern[str] | None = None
    older_than_ms: int | None = None
    max: int | None = None
    clients: tuple[str, ...] = ()

    def accepts(self, entry: Entry, now_ms: int) -> bool:
        if self.clients and entry.client not in self.clients:
            return False
        named = self.ids or self.requests
        request = entry.id.rpartition("/")[0]
        if named and entry.id not in self.ids and request not in self.requests:
            return False
        if self.older_than_ms is not None and (
            entry.since_ms is None or now_ms - entry.since_ms < self.older_than_ms
        ):
            return False
        if self.match is None or self.match.search(entry.id):
            return True
        error = entry.error
        return error is not None and bool(
            self.match.search(error.type) or self.match.search(error.message)
        )

    def __str__(self) -> str:
        said = []
        named = (("", self.ids), ("request ", self.requests), ("client ", self.clients))
        for what, names in named:
            if names:
                said.append(what + ", ".join(names[:3]) + (", …" if len(names) > 3 else ""))
        if self.match is not None:
            said.append(f"match {self.match.pattern!r}")
        if self.older_than_ms is not None:
            said.append(f"older than {age(self.older_than_ms)}")
        if self.max is not None:
            said.append(f"at most {self.max:,}")
        return ", ".join(said) or "all"


class Scan:
    """Looks through a state by pages of 500; `step` until `over`.

    Named ids are looked up, not searched for; ``elsewhere`` are those in another state.
    ``complete`` is False when ``max`` ended the scan before the state's end.
    """

    def __init__(self, queue: Queue[Any], state: State, filter: Filter, now_ms: int) -> None:
        self.queue = queue
        self.state = state
        self.filter = filter
        self.now_ms = now_ms
        self.found = self.scanned = self.total = 0
        self.elsewhere: list[Entry] = []
        self.over, self.complete = False, True
        self._cursor: str | None = None

    async def step(self) -> list[Entry]:
        """Those of the next page that the filter accepts, in the server's order."""
        look = self._named if self.filter.ids and not self.filter.requests else self._page
        accepted = [e for e in await look() if self.filter.accepts(e, self.now_ms)]
        left = len(accepted) if self.filter.max is None else self.filter.max - self.found
        if self.filter.max is not None and len(accepted) >= left:
            self.complete = self.over and len(accepted) == left
            self.over = True
        self.found += len(accepted[:left])
        return accepted[:left]

    async def _page(self) -> Sequence[Entry]:
        page: Page = await self.queue.page.op(self.state, self._cursor, PAGE)
        self.scanned += len(page.entries)
        self.total = max(page.total, self.scanned)
        self._cursor = page.cursor
        self.over = page.cursor is None
        return page.entries

    async def _named(self) -> Sequence[Entry]:
        ids = tuple(dict.fromkeys(self.filter.ids))
        batch = ids[self.scanned : self.scanned + PAGE]
        found = await together(self.queue.get.op(id) for id in batch)
        self.scanned += len(batch)
        self.total = len(ids)
        self.over = self.scanned == self.total
        known = [entry for entry in found if entry is not None]
        self.elsewhere += [entry for entry in known if entry.state != self.state]
        return [entry for entry in known if entry.state == self.state]


@dataclass(slots=True)
class Selection:
    """The identities a filter chose, kept small: ids by pages, and what they are like.

    ``complete`` is False when ``max`` ended the scan before the state's end.
    """

    queue: Queue[Any]
    state: State
    filter: Filter
    high_water_ms: int
    """entries that came into the state after this moment are not meant"""
    pages: list[bytes] = field(default_factory=list)
    count: int = 0
    scanned: int = 0
    complete: bool = True
    sample: list[Entry] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    elsewhere: list[Entry] = field(default_factory=list)
    """named entries that are in another state, and so not chosen"""

    def add(self, entries: list[Entry]) -> None:
        if entries:
            self.pages.append("\n".join(entry.id for entry in entries).encode())
        self.count += len(entries)
        self.sample += entries[: max(0, 10 - len(self.sample))]
        for entry in entries:
            reason = entry.reason or (entry.error.type if entry.error else None)
            if reason:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def ids(self) -> list[str]:
        """Every id, in the server's order; for small selections and tests."""
        return [id for page in self.pages for id in page.decode().split("\n")]


async def select(
    queue: Queue[Any],
    state: State,
    filter: Filter,
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    """Look through a state and keep what the filter accepts.

    ``progress`` is told (scanned, total) after each page; raising from it, or Ctrl+C, ends the
    scan without any effect on the queue.
    """
    now = await queue.now.op()
    scan = Scan(queue, state, filter, now)
    chosen = Selection(queue, state, filter, now)
    while not scan.over:
        chosen.add(await scan.step())
        if progress is not None:
            progress(scan.scanned, scan.total)
    chosen.scanned, chosen.complete, chosen.elsewhere = scan.scanned, scan.complete, scan.elsewhere
    return chosen
