"""Which entries an action is about: a state of a queue and a filter, the same set that is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, Page, State
from redisq_ops.core.model.errors import BadInput, Refused, WrongKind
from redisq_ops.core.model.quoting import bytes_of, text
from redisq_ops.core.redis.operation import together

from ..redaction import MASK, NOTHING, Redaction
from ..terminal import age, count
from .ast import Query
from .fields import NOWHERE, EntryContext
from .regex import BadRegex, Regex, regex

PAGE = 250
"""entries looked at in a call: while the server enlarges a table, each read moves some of it along,
and 500 of a million keep Valkey for 2 ms then"""
WITH_PAYLOADS = 100
"""a page where payloads are fetched: each may have a mebibyte"""
_PRIORITIES = 10_000
"""requests whose priorities are kept during a scan"""
_DEARER = 20
"""looking an entry up costs about so much more than finding it in a page (8 commands to 1/100)"""


def pattern(text: str) -> Regex:
    """A regular expression, or one line that says where it is wrong."""
    if not text:  # a variable of a script that isn't set
        raise BadInput("--match '': every entry has an empty text; leave --match out to mean all")
    try:
        return regex(text)
    except BadRegex as error:
        at = f" column {error.at + 1}:" if error.at is not None else ""
        raise BadInput(f"--match {text!r}:{at} {error}") from error


@dataclass(frozen=True, slots=True)
class Filter:
    """What narrows a state down. An empty filter is the whole state.

    ``ids`` and ``requests`` name entries, and all entries of requests: either is enough.
    ``clients``: whose entries, where a queue has clients.
    ``match`` looks at id, error type and message; ``older_than_ms`` at the time in the present
    state (an entry that only ever waited doesn't know it and is left out); ``max`` caps.
    ``where`` is an expression; all of these have to hold.
    ``window``: only the first so many of the state are looked at; below 0 only the latest.
    ``redaction`` leaves out of its words what isn't to be shown: they are in plans, exports' heads
    and the journal.
    """

    ids: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    match: Regex | None = None
    older_than_ms: int | None = None
    max: int | None = None
    clients: tuple[str, ...] = ()
    where: Query | None = None
    window: int | None = None
    redaction: Redaction = field(default=NOTHING, compare=False, repr=False)

    def accepts(self, entry: Entry, now_ms: int, place: EntryContext = NOWHERE) -> bool:
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
        if self.match is not None:
            error = entry.error
            words = (entry.id,) if error is None else (entry.id, error.type, error.message)
            if not any(map(self.match.search, words)):
                return False
        return self.where is None or self.where.accepts(entry, now_ms, place)

    def other(self, state: State) -> str:
        """Why nothing in this state can be meant, if its expression is about other states."""
        about = None if self.where is None else self.where.states
        if about is None or state in about:
            return ""
        if not about:
            return "the expression is about no state at all: an entry is in one at a time"
        return f"the expression is about {' or '.join(sorted(about))} entries, not {state} ones"

    def __str__(self) -> str:
        said = []
        named = (("", self.ids), ("request ", self.requests), ("client ", self.clients))
        for what, names in named:
            if names:
                said.append(what + ", ".join(names[:3]) + (", …" if len(names) > 3 else ""))
        if self.where is not None:
            words = self.where.words(self.redaction.hides, MASK)
            said.append(f"where {self.redaction.text(words)}")
        if self.match is not None:
            said.append(f"match {self.redaction.text(self.match.pattern)!r}")
        if self.older_than_ms is not None:
            said.append(f"older than {age(self.older_than_ms)}")
        if self.window is not None:
            which = "latest" if self.window < 0 else "first"
            said.append(f"among the {which} {count(abs(self.window))}")
        if self.max is not None:
            said.append(f"at most {self.max:,}")
        return ", ".join(said) or "all"


class Scan:
    """Looks through a state by pages of 250; `step` until `over`.

    Payloads are fetched only where the expression or, with ``payloads``, the caller wants them, the
    priorities of requests where the expression does.
    Named entries are looked up, not searched for; ``elsewhere`` are those of the filter's ids that
    are in another state. ``complete`` is False when ``max`` or the window ended the scan before the
    state's end.
    """

    def __init__(
        self,
        queue: Queue[Any],
        state: State,
        filter: Filter,
        now_ms: int,
        *,
        payloads: bool = False,
        partly: bool = False,
    ) -> None:
        self.queue = queue
        self.state = state
        self.filter = filter
        self.now_ms = now_ms
        self.found = self.scanned = self.total = 0
        self.exact = True
        """whether ``total`` is all there is; else it is what was seen so far"""
        self.problem: str | None = None
        """what of the state can't be read; without ``partly`` that refuses the scan, as it must
        where something is then done to what was found"""
        self.corrupt: list[str] = []
        """entries whose records are corrupt: without ``partly`` they are left out, since nobody can
        tell whether the filter means them"""
        self.elsewhere: list[Entry] = []
        self.over, self.complete = bool(filter.other(state)), True
        needs = frozenset() if filter.where is None else filter.where.needs
        self._payloads = payloads or "payload" in needs
        self._requests = queue if isinstance(queue, HasRequests) else None
        self._asks_requests = "priority" in needs and self._requests is not None
        self._priorities: dict[str, int] = {}
        self._partly = partly
        self._place = EntryContext(queue.name, queue.kind, self._priorities)
        self._cursor: str | None = None
        self._from: int | None = None
        """the rank at which the window begins, where it isn't the first one"""
        self._ids: Iterator[str] | None = None
        self._begun = False

    async def step(self) -> list[Entry]:
        """Those of the next page that the filter accepts, in the server's order."""
        if self.over:
            return []
        if not self._begun:
            await self._begin()
        entries = await (self._page() if self._ids is None else self._named(self._ids))
        corrupt = {entry.id for entry in entries if entry.problem}
        if not self._partly:
            # What has a blank or a line end in it is no id of ours, and can't be named in a change.
            corrupt |= {entry.id for entry in entries if " " in entry.id or "\n" in entry.id}
            entries = [entry for entry in entries if entry.id not in corrupt]
        self.corrupt += sorted(corrupt)
        if self._asks_requests:
            await self._learn_priorities(entries)
        accepted = [e for e in entries if self.filter.accepts(e, self.now_ms, self._place)]
        left = len(accepted) if self.filter.max is None else self.filter.max - self.found
        if self.filter.max is not None and len(accepted) >= left:
            self.complete = self.complete and self.over and len(accepted) == left
            self.over = True
        self.found += len(accepted[:left])
        return accepted[:left]

    @property
    def unread(self) -> str:
        """What of the state couldn't be read, in one line; empty where all could."""
        return "; ".join(filter(None, (self.problem, _corrupt(self.corrupt))))

    @property
    def looked(self) -> str:
        """How far the window went, where there is one."""
        return _looked(self.filter, self.scanned, self.total, self.exact)

    @property
    def of(self) -> str:
        """How many there are in the state, ``≥`` where no more than that is known."""
        return at_least(self.total, self.exact)

    @property
    def through(self) -> bool:
        """Whether all of the state was looked at."""
        return self.exact and self.scanned >= self.total

    @property
    def expected(self) -> int | None:
        """How many a progress is of; None while that isn't known."""
        return self.total if self.exact else None

    async def _begin(self) -> None:
        """Decide whether to look entries up or to look through the state."""
        self._begun = True
        filter, where = self.filter, self.filter.where
        if filter.window is not None:
            if filter.window < 0:
                await self._from_the_end(-filter.window)
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
            # What a cancelled request takes along is found in the trash by its id, but not in its
            # pages; and other programs' layouts are not looked through to their end for an id.
            self._look_up(where.ids)
        elif not filter.ids:
            wanted = filter.requests or (None if where is None else where.requests)
            if wanted and self._requests is not None:
                await self._look_up_requests(self._requests, wanted)

    def _look_up(self, ids: Sequence[str]) -> None:
        once = tuple(dict.fromkeys(ids))
        self._ids, self.total = iter(once), len(once)

    async def _look_up_requests(self, queue: HasRequests[Any], ids: Sequence[str]) -> None:
        """Their entries one by one, where that is less than looking through the whole state."""
        if self.state not in ("pending", "delayed", "dead"):
            return
        once = tuple(dict.fromkeys(ids))[:PAGE]
        if len(once) < len(ids):
            return
        records = await together(queue.request.op(id) for id in once)
        totals = {r.id: r.total for r in records if r is not None and getattr(r, self.state)}
        number = (await self.queue.counts.op(self.now_ms)).of(self.state) or 0
        if sum(totals.values()) * _DEARER < number:
            self._ids = (f"{id}/{n}" for id, total in totals.items() for n in range(1, total + 1))
            self.total = sum(totals.values())
            self.over = not totals

    async def _from_the_end(self, most: int) -> None:
        if self.state == "waiting":
            raise BadInput(
                "the latest of what waits can't be told: --window N counts from the front, and "
                "--where 'state:dead' (or pending, delayed, trash) leaves out what waits"
            )
        number = (await self.queue.counts.op(self.now_ms)).of(self.state)
        if number is None:
            raise Refused(f"how many are {self.state} can't be known of queue {self.queue.name}")
        self._from = max(0, number - most)

    async def _page(self) -> Sequence[Entry]:
        most = WITH_PAYLOADS if self._payloads else PAGE
        if self.filter.window is not None:
            most = min(most, abs(self.filter.window) - self.scanned)
        start = None
        if self._cursor is None and self._from is not None:
            start = self._from + self.scanned
        page: Page = await self.queue.page.op(self.state, self._cursor, most, start, self._payloads)
        if page.problem and not self._partly:
            raise WrongKind(page.problem)
        if page.problem and page.problem not in (self.problem or ""):
            self.problem = f"{self.problem}; {page.problem}" if self.problem else page.problem
        self.scanned += len(page.entries)
        self.total = max(page.total, self.scanned)
        # Read to its end from its beginning it is known how many there are.
        self.exact = page.exact or (page.cursor is None and self._from is None and not self.problem)
        self._cursor = page.cursor
        self.over = page.cursor is None
        if start is not None and page.cursor is None:  # other layouts' windows have no cursor
            self.over = not page.entries or start + len(page.entries) >= page.total
        if self.filter.window is not None and self.scanned >= abs(self.filter.window):
            self.over, self.complete = True, self.over and not self._from
        return page.entries

    async def _named(self, ids: Iterator[str]) -> Sequence[Entry]:
        batch = list(islice(ids, WITH_PAYLOADS if self._payloads else PAGE))
        found = await together(self.queue.get.op(id) for id in batch)
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
        asked = sorted(wanted - self._priorities.keys())
        assert self._requests is not None
        found = await together(self._requests.request.op(id) for id in asked)
        self._priorities.update({r.id: r.priority for r in found if r is not None})


def at_least(number: int, exact: bool) -> str:
    """A number, or what it is at least."""
    return f"{'' if exact else '≥'}{count(number)}"


def _corrupt(ids: Sequence[str]) -> str:
    named = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
    noun = "entry has a corrupt record" if len(ids) == 1 else "entries have corrupt records"
    return f"{count(len(ids))} {noun} ({named})" if ids else ""


def _looked(filter: Filter, scanned: int, total: int, exact: bool) -> str:
    if filter.window is None:
        return ""
    return f"looked at {count(scanned)} of {at_least(total, exact)}"


TIMED = ("waiting", "delayed")
"""states in which entries may have no record, so that a later one of the same id is told from an
earlier one by its time"""


def _identity(entry: Entry) -> str:
    timed = entry.at_ms is not None and entry.state in TIMED
    return f"{entry.id} {entry.at_ms}" if timed else entry.id


@dataclass(slots=True)
class Selection:
    """The identities a filter chose, kept small: by pages, and what they are like.

    ``complete`` is False when ``max`` or the window ended the scan before the state's end.
    """

    queue: Queue[Any]
    state: State
    filter: Filter
    high_water_ms: int
    """entries that came into the state after this moment are not meant"""
    pages: list[bytes] = field(default_factory=list)
    """lines of an id, and a blank and the entry's time in `TIMED` states"""
    count: int = 0
    scanned: int = 0
    total: int = 0
    """entries in the state, of which ``scanned`` were looked at"""
    exact: bool = True
    """whether ``total`` is all there is, see `Scan`"""
    complete: bool = True
    sample: list[Entry] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    elsewhere: list[Entry] = field(default_factory=list)
    """named entries that are in another state, and so not chosen"""
    corrupt: list[str] = field(default_factory=list)
    """entries that are left out because their records are corrupt"""

    def add(self, entries: list[Entry]) -> None:
        if entries:
            self.pages.append(bytes_of("\n".join(map(_identity, entries))))
        self.count += len(entries)
        self.sample += entries[: max(0, 10 - len(self.sample))]
        for entry in entries:
            reason = entry.reason or (entry.error.type if entry.error else None)
            if reason:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1

    @property
    def remarks(self) -> tuple[str, ...]:
        """What has to be said beside how many were found: how far was looked, and why nowhere."""
        other = self.filter.other(self.state)
        looked = "" if other else _looked(self.filter, self.scanned, self.total, self.exact)
        left_out = _corrupt(self.corrupt)
        left_out = left_out and f"{left_out}: left out"
        return tuple(said for said in (other, looked, left_out) if said)

    def identities(self) -> Iterator[tuple[str, int | None]]:
        """Every id in the server's order, with what tells the entry from a later one of that id."""
        for page in self.pages:
            for line in text(page).split("\n"):
                id, _, at = line.partition(" ")
                yield id, int(at) if at else None

    def ids(self) -> list[str]:
        """Every id; for small selections and tests."""
        return [id for id, _ in self.identities()]


async def select(
    queue: Queue[Any],
    state: State,
    filter: Filter,
    progress: Callable[[int, int | None], None] | None = None,
) -> Selection:
    """Look through a state and keep what the filter accepts.

    ``progress`` is told (scanned, total or None) after each page; raising from it, or Ctrl+C, ends
    the scan without any effect on the queue.
    """
    now = await queue.now.op()
    scan = Scan(queue, state, filter, now)
    chosen = Selection(queue, state, filter, now)
    while not scan.over:
        chosen.add(await scan.step())
        if progress is not None:
            progress(scan.scanned, scan.expected)
    chosen.scanned, chosen.complete, chosen.elsewhere = scan.scanned, scan.complete, scan.elsewhere
    chosen.corrupt = scan.corrupt
    chosen.total, chosen.exact = scan.total, scan.exact
    return chosen


def paced(
    progress: Callable[[int, int | None], None],
    rate: float | None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Callable[[int, int | None], None]:
    """``progress`` that also waits, so that not more than ``rate`` entries a second are looked at.

    For one scan, in a process that has nothing else to do meanwhile.
    """
    if rate is None:
        return progress
    began = clock()

    def told(scanned: int, total: int | None) -> None:
        progress(scanned, total)
        if total is None or scanned < total:
            sleep(max(0.0, began + scanned / rate - clock()))

    return told
