"""Views of error groups, with how many entries of each died since the last look."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.tui.new_dead import NewDead, NewInGroup, new_in_groups
from redisq_ops.tui.table.table_model import Cell

from .base import QueueView, SortOrder

if TYPE_CHECKING:
    from redisq_ops.ops.groups.error_groups import ErrorGroup


class NewGroupsView(QueueView):
    """A view with the column ``new``."""

    def __init__(self) -> None:
        super().__init__()
        self._new: dict[str, NewInGroup | None] = {}
        """row -> how many of it are new; None, or no row: unknown"""
        self.orders = (*self.orders, SortOrder("new", self._new_number, True))

    @staticmethod
    @abstractmethod
    def _row_of(group: ErrorGroup) -> str:
        """The identity of a group's row."""

    def _count_new(
        self, groups: Sequence[ErrorGroup], all_read: bool, queue: str | None, snapshot: Snapshot
    ) -> None:
        """Count the new ones in the groups of a queue; ``all_read``: not only the latest."""
        new = new_in_groups(groups, all_read, self._since_ms(queue, snapshot))
        self._new |= zip(map(self._row_of, groups), new, strict=True)

    def _since_ms(self, queue: str | None, snapshot: Snapshot) -> int:
        seen: NewDead = self.app.overview.new_dead  # type: ignore[attr-defined]
        return seen.since_ms(queue, snapshot.now_ms)

    def _new_number(self, group: ErrorGroup) -> int | None:
        new = self._new.get(self._row_of(group))
        return None if new is None else new.number

    def _new_cell(self, group: ErrorGroup) -> Cell:
        new = self._new.get(self._row_of(group))
        return "" if new is None else new.cell
