"""Error groups: the entries of a state, counted in one pass by the fingerprint of their error, and
by their task or other fields where that is asked for.

Memory is bounded for any number of entries and errors; counts that are not exact are marked.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import BadInput

from ..filter.filter import Filter
from ..filter.parser import parse
from ..filter.scan import Scan
from ..redaction import NO_REDACTION, Redaction
from .fingerprint import fingerprint, normalized
from .group_by import BY_ERROR, GroupBy, GroupValue
from .heavy_hitters import DistinctNames

KEPT = 1000
"""groups kept; up to twice as many between two cuts"""
MESSAGE = 500
"""characters of a sample message that are shown"""
MESSAGE_STORED = 4096
"""characters of it that are stored, since it is redacted before it is cut"""


@dataclass(slots=True)
class ErrorGroup:
    """Entries with the same error, except for numbers, ids, addresses and the like; with the same
    values too, if they are grouped by fields."""

    fingerprint: str
    """empty: the entries are not grouped by error"""
    type: str | None
    """type of the error; None: the entries have no error but the same reason"""
    form: str
    """normal form of the message, or the reason"""
    exact: bool = True
    """False: ``count`` is a lower bound"""
    count: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    sample: str = ""
    """id of the latest entry"""
    message: str = ""
    """message of the latest entry, not redacted"""
    reasons: dict[str, int] = field(default_factory=dict)
    """failed | lost | rejected -> number of entries"""
    clients: DistinctNames = field(default_factory=DistinctNames)
    requests: DistinctNames = field(default_factory=DistinctNames)
    ids: list[str] = field(default_factory=list)
    """ids of its entries, where they are kept; see `all_ids`"""
    queue: str | None = None
    """the queue they are in, if entries of several queues are grouped"""
    values: tuple[str | None, ...] = ()
    """what they have in the fields they are grouped by; None: unknown, or nothing"""
    where: str | None = None
    """the filter that selects exactly these entries; None: none can, or redaction hides a value"""
    tasks: DistinctNames = field(default_factory=DistinctNames)
    errors: DistinctNames = field(default_factory=DistinctNames)
    """their fingerprints, if they are not grouped by error"""
    times: array[int] | None = None
    """when its entries came into the state (ms), as far as that is known; None: not kept"""

    @property
    def all_ids(self) -> tuple[str, ...]:
        """The ids of all its entries; empty if only some or none are kept."""
        return tuple(self.ids) if self.exact and len(self.ids) == self.count else ()

    @property
    def task(self) -> str | None:
        """The task of all its entries; None: they have several, or none is known."""
        known = self.tasks.top(1)
        return known[0][0] if known and known[0][1] == self.count else None

    @property
    def lost(self) -> int:
        """How many died because their lease expired too often."""
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
            if self.times is not None:
                self.times.append(since)
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
        self.message = entry.error.message[:MESSAGE_STORED] if entry.error is not None else ""

    def redacted(self, redaction: Redaction) -> ErrorGroup:
        """The group as it may be shown. Its form is made of the redacted message, since a pattern
        may no longer match after numbers are replaced."""
        message = redaction.text(self.message)
        type = self.type and redaction.text(self.type)
        form = self.form if self.type is None else normalized(message)
        return replace(
            self,
            type=type,
            message=message[:MESSAGE],
            form=redaction.text(form if message != self.message else self.form),
        )


@dataclass(slots=True)
class OtherGroups:
    """Entries of the groups that were dropped as the smallest."""

    count: int = 0
    groups: int = 0
    """number of these groups, at least"""


class ErrorGroups:
    """Groups entries by error, or as ``by`` says; keeps the largest ``kept`` groups, the first
    ``ids`` ids and, with ``times``, a time of each entry."""

    def __init__(
        self,
        kept: int = KEPT,
        redaction: Redaction = NO_REDACTION,
        ids: int = 0,
        by: GroupBy = BY_ERROR,
        times: bool = False,
    ) -> None:
        self.kept = kept
        self._ids_left = ids
        self._times = times
        self.redaction = redaction
        self.by = by
        self.total = 0
        self.others = OtherGroups()
        self._groups: dict[Any, ErrorGroup] = {}

    def add(self, entries: Iterable[Entry], queue: str | None = None) -> None:
        """Count entries; ``queue``: make other groups of those of other queues."""
        groups, by = self._groups, self.by
        for entry in entries:
            name = fingerprint(entry)
            values = by.values(entry, self.redaction) if by.fields else ()
            key = (queue, name if by.error else "", values)
            group = groups.get(key)
            if group is None:
                if len(groups) >= 2 * self.kept:
                    groups = self._drop_smallest()
                group = groups[key] = self._new(name, entry, values)
                group.queue = queue
            group.add(entry)
            if entry.task is not None:
                group.tasks.add(self.redaction.text(entry.task))
            if not by.error:
                group.errors.add(name)
            if self._ids_left:
                group.ids.append(entry.id)
                self._ids_left -= 1
            self.total += 1

    def _new(self, name: str, entry: Entry, values: tuple[GroupValue, ...]) -> ErrorGroup:
        exact = not self.others.groups  # it may be one that was dropped
        if not self.by.error:
            group = ErrorGroup("", None, "", exact)
        elif entry.error is None:
            group = ErrorGroup(name, None, entry.reason or "no error known", exact)
        else:
            group = ErrorGroup(name, entry.error.type, normalized(entry.error), exact)
        group.times = array("q") if self._times else None
        group.values = tuple(value.text for value in values)
        conditions = [f"group={name}"] if self.by.error else []
        if all(value.where for value in values):
            where = " ".join([*conditions, *(value.where or "" for value in values)])
            group.where = where if _selects(where, entry) else None
        return group

    def _drop_smallest(self) -> dict[Any, ErrorGroup]:
        ranked = _ranked(self._groups.values())
        for group in ranked[self.kept :]:
            self.others.count += group.count
            # A group that was dropped before is not counted again.
            self.others.groups += group.exact
        least = {id(group) for group in ranked[self.kept :]}
        self._groups = {k: group for k, group in self._groups.items() if id(group) not in least}
        return self._groups

    def ranked(self) -> list[ErrorGroup]:
        """The groups, redacted, the largest first and of equal ones the latest first."""
        if len(self._groups) > self.kept:
            self._drop_smallest()
        return [group.redacted(self.redaction) for group in _ranked(self._groups.values())]


def _selects(where: str, entry: Entry) -> bool:
    """Whether a filter made of the entry's values selects it: texts may be any bytes."""
    try:
        return parse(where).accepts(entry, 0)
    except BadInput:
        return False


def _ranked(groups: Iterable[ErrorGroup]) -> list[ErrorGroup]:
    return sorted(groups, key=lambda group: (-group.count, -(group.last_ms or 0)))


class Grouping:
    """Groups the entries of a state that a filter accepts. Call `step` until `over` is True."""

    def __init__(
        self,
        queue: Queue[Any],
        state: State,
        filter: Filter,
        now_ms: int,
        ids: int = 0,
        groups: ErrorGroups | None = None,
    ) -> None:
        """``groups``: those to which the entries are added; None: new ones."""
        self.queue = queue
        self.state = state
        self.groups = groups or ErrorGroups(redaction=filter.redaction, ids=ids)
        self.now_ms = now_ms
        self._filter = filter
        needs = self.groups.by.needs
        self.scan = Scan(queue, state, filter, now_ms, needs=needs, partly=True, brief=True)

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
        """Whether the whole state was read."""
        windowed = self._filter.window is not None and not self.scan.read_all
        return self.scan.over and self.scan.complete and not windowed

    async def step(self) -> None:
        """Read one page."""
        self.groups.add([entry for entry in await self.scan.step() if not entry.problem])
