"""Views of error groups, with how many entries of each died since the last look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Final

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count
from redisq_ops.tui.new_dead import NewDead, NewInGroup, new_in_groups
from redisq_ops.tui.table.table_model import Cell

from .base import QueueView, SortOrder
from .columns import Column
from .delayed import moment

if TYPE_CHECKING:
    from redisq_ops.ops.groups.error_groups import ErrorGroup


def counted(group: ErrorGroup, _: object) -> Cell:
    """How many entries it has."""
    return f"{'' if group.exact else '≥'}{count(group.count)}"


def _new(group: ErrorGroup, view: NewGroupsView) -> Cell:
    """How many of it are new."""
    new = view.new_in(group)
    return "" if new is None else new.cell


def error_words(group: ErrorGroup, _: object = None) -> str:
    """The error of its entries: type and form."""
    return group.form if group.type is None else f"{group.type}: {group.form}"


def field_words(group: ErrorGroup) -> str:
    """The values of the fields besides the task; empty: they have none."""
    values = group.values[1:]
    return ", ".join(value or "-" for value in values) if any(values) else ""


def first_death(group: ErrorGroup, now_ms: int, zone: tzinfo | None) -> str:
    """The time of day of the first death, before today with the date; ``≤``: then or earlier;
    empty: unknown."""
    if group.first_ms is None:
        return ""
    first, now = (moment(ms, zone) for ms in (group.first_ms, now_ms))
    short = first[11:16] if first[:10] == now[:10] else first[5:16]
    return short if group.exact else f"≤{short}"


NEW: Final = Column("new", "new", 5, _new, align="right", priority=2, optional=True)
ERROR: Final = Column("error", "error", 34, error_words, lambda g: (g.type or "", g.form), flex=5)
LARGEST: Final = SortOrder("count", None, True, "largest first", "smallest first")


class NewGroupsView(QueueView):
    """A view with the column ``new``."""

    def __init__(self) -> None:
        super().__init__()
        self._new: dict[str, NewInGroup | None] = {}
        """row -> how many of it are new; None, or no row: unknown"""
        self.orders = (*self.orders, SortOrder("new", self._new_number, True))

    def _count_new(
        self, groups: Sequence[ErrorGroup], all_read: bool, queue: str | None, snapshot: Snapshot
    ) -> None:
        """Count the new ones in the groups of a queue; ``all_read``: not only the latest."""
        new = new_in_groups(groups, all_read, self._since_ms(queue, snapshot))
        self._new |= zip(map(self.identity, groups), new, strict=True)

    def _since_ms(self, queue: str | None, snapshot: Snapshot) -> int:
        seen: NewDead = self.app.overview.new_dead  # type: ignore[attr-defined]
        return seen.since_ms(queue, snapshot.now_ms)

    def new_in(self, group: ErrorGroup) -> NewInGroup | None:
        """How many of it are new; None: unknown."""
        return self._new.get(self.identity(group))

    def _new_number(self, group: ErrorGroup) -> int | None:
        new = self.new_in(group)
        return None if new is None else new.number
