"""`3`: requests, open ones first: how far they are and who works on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from redisq_ops.core.model.entry import Request
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import short_count
from redisq_ops.tui.charts.blocks import bar
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, PART, WARN

from .base import Items, QueueView, SortOrder
from .columns import Column, ages, numbers, texts

BAR = 8


def _settled_share(request: Request) -> float:
    """The settled part of a request, from 0 to 1. Entries that a cancellation put into the trash
    don't count, so the share shows the progress before it."""
    return _settled(request) / request.total if request.total else 1.0


def _settled(request: Request) -> int:
    removed = 0 if request.state == "cancelled" else request.trash
    return request.done + request.dead + removed


def _state(request: Request, _: object) -> Cell:
    """The state in a word; ``paused`` goes before other open states."""
    if request.paused and not request.settled:
        return ("paused", WARN)
    return (request.state, {"done": OK, "cancelled": BAD}.get(request.state, ""))


def _total(request: Request, _: object) -> Cell:
    return short_count(request.total)


def _turn(request: Request) -> tuple[bool, int, int]:
    return request.settled, request.priority, request.created_ms


def _held(request: Request, _: object) -> Cell:
    """Tokens held of those the limit allows."""
    return (f"{request.pending}/{request.limit}", HELD if request.pending else DIM)


def _progress(request: Request, _: object) -> Cell:
    """The settled share, as a bar and in percent; 100 % means all."""
    settled = _settled(request)
    percent = 100 if settled >= request.total else min(99, 100 * settled // request.total)
    return (f"{bar(settled, request.total, BAR)} {percent:>3}%", DIM if request.settled else PART)


ID: Final = texts("id", "request", 26, lambda r: r.id, flex=1)
STATE: Final = Column("state", "state", 9, _state, lambda r: (r.settled, r.paused, r.state))
PRIORITY: Final = Column("priority", "prio", 4, lambda r, _: str(r.priority), _turn, align="right")
HELD_OF_LIMIT: Final = Column(
    "held", "held/limit", 10, _held, lambda r: r.pending, align="right", falls=True
)
FREE: Final = numbers("free", "free", 4, lambda r: r.tokens, OK, priority=5)
PROGRESS: Final = Column(
    "progress", "progress", BAR + 5, _progress, _settled_share, priority=1, falls=True
)
WAITING: Final = numbers("waiting", "wait", 6, lambda r: r.waiting, priority=3)
AGE: Final = ages("age", "age", 7, lambda r: r.created_ms)


class RequestsView(QueueView):
    name_ = "requests"
    title = "requests"
    short = "req"
    about = "Requests, open ones first"
    needs = "HasRequests"
    has_details = True
    holds = "requests"
    columns = (
        ID,
        STATE,
        PRIORITY,
        HELD_OF_LIMIT,
        FREE,
        PROGRESS,
        replace(numbers("total", "total", 6, lambda r: r.total, priority=2), cell=_total),
        WAITING,
        numbers("delayed", "delay", 6, lambda r: r.delayed, DELAYED, priority=6),
        numbers("done", "done", 6, lambda r: r.done, OK, priority=4),
        numbers("dead", "dead", 5, lambda r: r.dead, DEAD, priority=1),
        AGE,
    )
    usual = SortOrder("age", words="open first, by age", back="settled first")
    empty = "no requests: type :submit FILE --queue QUEUE to make one"

    def items(self, snapshot: Snapshot) -> Items:
        return Items(snapshot.start, snapshot.total, snapshot.requests)

    def row_style(self, item: Any) -> str:
        return DIM if item.settled else ""
