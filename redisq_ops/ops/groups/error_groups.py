"""Entries by what went wrong: one pass over a state, a group for each kind of error.

Memory is bounded however many entries and errors there are; what isn't exact then says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State

from ..filter.scan import Filter, Scan
from ..redaction import NO_REDACTION, Redaction
from .fingerprint import fingerprint, normal
from .heavy_hitters import Names

KEPT = 1000
"""groups that are kept; twice as many are there for a while"""
MESSAGE = 500
"""characters of a sample's message that are shown"""
REMEMBERED = 4096
"""characters of it that are kept: it is redacted before it is cut"""


@dataclass(slots=True)
class ErrorGroup:
    """Entries whose error is the same but for numbers, ids, addresses and the like."""

    fingerprint: str
    type: str | None
    """the error's; None: they have no error, and share a reason"""
    form: str
    """the message with what differs folded, or the reason"""
    exact: bool = True
    """no entry of it went uncounted; otherwise there are at least ``count``"""
    count: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    sample: str = ""
    """the id of the latest"""
    message: str = ""
    """what the latest says, as it stands"""
    reasons: dict[str, int] = field(default_factory=dict)
    """failed | lost | rejected, and how many"""
    clients: Names = field(default_factory=Names)
    requests: Names = field(default_factory=Names)

    @property
    def lost(self) -> int:
        """How many of them died because workers were lost with them."""
        return self.reasons.get("lost", 0)

    def add(self, entry: Entry) -> None:
        self.count += 1
        since = entry.since_ms
        if since is not None:
            if self.first_ms is None or since < self.first_ms:
                self.first_ms = since
            if self.last_ms is None or since >= self.last_ms:
                self.last_ms = since
                self._sample(entry)
        if not self.sample:
            self._sample(entry)
        reason = entry.reason
        if reason is not None and (reason in self.reasons or len(self.reasons) < 8):
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if entry.client is not None:
            self.clients.add(entry.client)
        request = entry.id.rpartition("/")[0]
        if request:
            self.requests.add(request)

    def _sample(self, entry: Entry) -> None:
        self.sample = entry.id
        self.message = entry.error.message[:REMEMBERED] if entry.error is not None else ""

    def shown(self, redaction: Redaction) -> ErrorGroup:
        """As it may be shown. The form is made of the redacted message: what a pattern means is
        no longer there when numbers are folded away."""
        message = redaction.text(self.message)
        type = self.type and redaction.text(self.type)
        form = self.form if self.type is None else normal(message)
        return replace(
            self, type=type, message=message[:MESSAGE],
            form=redaction.text(form if message != self.message else self.form),
        )  # fmt: skip


@dataclass(slots=True)
class Others:
    """What is in none of the groups that are kept: the smallest went here."""

    count: int = 0
    groups: int = 0
    """how many groups that was, at least"""


class ErrorGroups:
    """Groups of entries as they are told of; the largest, where there are too many."""

    def __init__(self, kept: int = KEPT, redaction: Redaction = NO_REDACTION) -> None:
        self.kept = kept
        self.redaction = redaction
        self.total = 0
        self.others = Others()
        self._groups: dict[str, ErrorGroup] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        groups = self._groups
        for entry in entries:
            name = fingerprint(entry)
            group = groups.get(name)
            if group is None:
                if len(groups) >= 2 * self.kept:
                    groups = self._without_the_smallest()
                group = groups[name] = self._new(name, entry)
            group.add(entry)
            self.total += 1

    def _new(self, name: str, entry: Entry) -> ErrorGroup:
        exact = not self.others.groups  # it may have been here before and gone to the others
        if entry.error is None:
            return ErrorGroup(name, None, entry.reason or "no error known", exact)
        return ErrorGroup(name, entry.error.type, normal(entry.error), exact)

    def _without_the_smallest(self) -> dict[str, ErrorGroup]:
        ranked = _ranked(self._groups.values())
        for group in ranked[self.kept :]:
            self.others.count += group.count
            # One that comes and goes again is the same: only those that never were here count.
            self.others.groups += group.exact
        self._groups = {group.fingerprint: group for group in ranked[: self.kept]}
        return self._groups

    def ranked(self) -> list[ErrorGroup]:
        """The kept groups as they may be shown, largest first; among equals the latest first."""
        if len(self._groups) > self.kept:
            self._without_the_smallest()
        return [group.shown(self.redaction) for group in _ranked(self._groups.values())]


def _ranked(groups: Iterable[ErrorGroup]) -> list[ErrorGroup]:
    return sorted(groups, key=lambda group: (-group.count, -(group.last_ms or 0)))


class Grouping:
    """Groups the entries of a state that a filter accepts. Drive `step` until `over`."""

    def __init__(
        self,
        queue: Queue[Any],
        state: State,
        filter: Filter,
        now_ms: int,
        kept: int = KEPT,
    ) -> None:
        self.queue = queue
        self.state = state
        self.groups = ErrorGroups(kept, filter.redaction)
        self.now_ms = now_ms
        self._filter = filter
        self.scan = Scan(queue, state, filter, now_ms, partly=True)

    @property
    def over(self) -> bool:
        return self.scan.over

    @property
    def scanned(self) -> int:
        return self.scan.scanned

    @property
    def total(self) -> int:
        """Entries of the state, as of the latest page."""
        return self.scan.total

    @property
    def complete(self) -> bool:
        """Whether all of the state was looked at."""
        windowed = self._filter.window is not None and not self.scan.read_all
        return self.scan.over and self.scan.complete and not windowed

    async def step(self) -> None:
        """One page."""
        self.groups.add([entry for entry in await self.scan.step() if not entry.problem])


async def groups(
    queue: Queue[Any],
    state: State = "dead",
    filter: Filter | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Grouping:
    """All groups of a state; ``progress`` is told (scanned, total) after each page."""
    grouping = Grouping(queue, state, filter or Filter(), await queue.now.op())
    while not grouping.over:
        await grouping.step()
        if progress is not None:
            progress(grouping.scanned, grouping.scan.expected)
    return grouping
