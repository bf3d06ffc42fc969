"""Error groups: the entries of a state, counted by the fingerprint of their error in one pass.

Memory is bounded for any number of entries and errors; counts that are not exact are marked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State

from ..filter.filter import Filter
from ..filter.scan import Scan
from ..redaction import NO_REDACTION, Redaction
from .fingerprint import fingerprint, normalized
from .heavy_hitters import DistinctNames

KEPT = 1000
"""groups kept; up to twice as many between two cuts"""
MESSAGE = 500
"""characters of a sample message that are shown"""
MESSAGE_STORED = 4096
"""characters of it that are stored, since it is redacted before it is cut"""


@dataclass(slots=True)
class ErrorGroup:
    """Entries with the same error, except for numbers, ids, addresses and the like."""

    fingerprint: str
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

    @property
    def all_ids(self) -> tuple[str, ...]:
        """The ids of all its entries; empty if only some or none are kept."""
        return tuple(self.ids) if self.exact and len(self.ids) == self.count else ()

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
    """Groups entries by error; keeps the largest ``kept`` groups, and the first ``ids`` ids."""

    def __init__(self, kept: int = KEPT, redaction: Redaction = NO_REDACTION, ids: int = 0) -> None:
        self.kept = kept
        self._ids_left = ids
        self.redaction = redaction
        self.total = 0
        self.others = OtherGroups()
        self._groups: dict[str, ErrorGroup] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        groups = self._groups
        for entry in entries:
            name = fingerprint(entry)
            group = groups.get(name)
            if group is None:
                if len(groups) >= 2 * self.kept:
                    groups = self._drop_smallest()
                group = groups[name] = self._new(name, entry)
            group.add(entry)
            if self._ids_left:
                group.ids.append(entry.id)
                self._ids_left -= 1
            self.total += 1

    def _new(self, name: str, entry: Entry) -> ErrorGroup:
        exact = not self.others.groups  # it may be one that was dropped
        if entry.error is None:
            return ErrorGroup(name, None, entry.reason or "no error known", exact)
        return ErrorGroup(name, entry.error.type, normalized(entry.error), exact)

    def _drop_smallest(self) -> dict[str, ErrorGroup]:
        ranked = _ranked(self._groups.values())
        for group in ranked[self.kept :]:
            self.others.count += group.count
            # A group that was dropped before is not counted again.
            self.others.groups += group.exact
        self._groups = {group.fingerprint: group for group in ranked[: self.kept]}
        return self._groups

    def ranked(self) -> list[ErrorGroup]:
        """The groups, redacted, the largest first and of equal ones the latest first."""
        if len(self._groups) > self.kept:
            self._drop_smallest()
        return [group.redacted(self.redaction) for group in _ranked(self._groups.values())]


def _ranked(groups: Iterable[ErrorGroup]) -> list[ErrorGroup]:
    return sorted(groups, key=lambda group: (-group.count, -(group.last_ms or 0)))


class Grouping:
    """Groups the entries of a state that a filter accepts. Call `step` until `over` is True."""

    def __init__(
        self, queue: Queue[Any], state: State, filter: Filter, now_ms: int, ids: int = 0
    ) -> None:
        self.queue = queue
        self.state = state
        self.groups = ErrorGroups(redaction=filter.redaction, ids=ids)
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
        """Whether the whole state was read."""
        windowed = self._filter.window is not None and not self.scan.read_all
        return self.scan.over and self.scan.complete and not windowed

    async def step(self) -> None:
        """Read one page."""
        self.groups.add([entry for entry in await self.scan.step() if not entry.problem])
