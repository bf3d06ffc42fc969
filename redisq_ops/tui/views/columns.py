"""The columns of the views: each says once what it shows of an item and how it sorts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from redisq_ops.ops.terminal import age, short_count
from redisq_ops.tui.table.table_model import Cell, TableColumn
from redisq_ops.tui.theme import DIM, weighted


@dataclass(frozen=True, slots=True)
class Column(TableColumn):
    """A column of a view: its cells, and how it sorts."""

    cell: Callable[[Any, Any], Cell] | None = None
    """makes a cell of an item and the view that draws it; without it the view draws whole rows"""
    by: Callable[[Any], Any] | None = None
    """what is compared to sort by the column, with None last; None: it can't be sorted by"""
    falls: bool = False
    """whether the largest value is shown first then"""


class Seen(Protocol):
    """What was read from the server at one moment."""

    @property
    def now_ms(self) -> int: ...


def texts(
    key: str, title: str, width: int, of: Callable[[Any], str | None], none: Cell = "-", **more: Any
) -> Column:
    """A column of texts; ``none`` replaces one that is missing."""
    return Column(key, title, width, lambda item, _: of(item) or none, of, **more)


def numbers(
    key: str, title: str, width: int, of: Callable[[Any], int | None], style: str = "", **more: Any
) -> Column:
    """A column of numbers, the largest first."""

    def cell(item: Any, _: object) -> Cell:
        return number(of(item), style)

    return Column(key, title, width, cell, of, align="right", falls=True, **more)


def ages(key: str, title: str, width: int, of: Callable[[Any], int | None], **more: Any) -> Column:
    """A column that says how long ago times were."""
    made: dict[str, Any] = {"by": of, "align": "right", **more}
    return Column(key, title, width, lambda item, view: ago(of(item), view), **made)


def number(value: int | None, style: str) -> Cell:
    """A short number, `weighted` by its magnitude; ``?`` for unknown."""
    return ("?", DIM) if value is None else (short_count(value), weighted(value, style))


def ago(ms: int | None, seen: Seen) -> str:
    """How long ago a time was, by the server's clock."""
    return "-" if ms is None else age(max(0, seen.now_ms - ms))
