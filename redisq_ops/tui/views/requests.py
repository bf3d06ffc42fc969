"""`3`: requests, open ones first: how far they are and who works on them."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.model.entry import Request
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import short_count
from redisq_ops.tui.charts.blocks import bar
from redisq_ops.tui.table.table_model import Cell, TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, PART, WARN, weighted

from .base import Items, QueueView, SortOrder
from .dead_letters import ago

BAR = 8


def settled_share(request: Request) -> float:
    """The settled part of a request, from 0 to 1. Entries that a cancellation put into the trash
    don't count, so the share shows the progress before it."""
    return _settled(request) / request.total if request.total else 1.0


def _settled(request: Request) -> int:
    removed = 0 if request.state == "cancelled" else request.trash
    return request.done + request.dead + removed


class RequestsView(QueueView):
    name_ = "requests"
    title = "requests"
    short = "req"
    about = "Requests, open ones first"
    needs = "HasRequests"
    has_details = True
    holds = "requests"
    columns = (
        TableColumn("id", "request", 26, flex=1),
        TableColumn("state", "state", 9),
        TableColumn("priority", "prio", 4, align="right"),
        TableColumn("held", "held/limit", 10, align="right"),
        TableColumn("free", "free", 4, align="right", priority=5),
        TableColumn("progress", "progress", BAR + 5, priority=1),
        TableColumn("total", "total", 6, align="right", priority=2),
        TableColumn("waiting", "wait", 6, align="right", priority=3),
        TableColumn("delayed", "delay", 6, align="right", priority=6),
        TableColumn("done", "done", 6, align="right", priority=4),
        TableColumn("dead", "dead", 5, align="right", priority=1),
        TableColumn("age", "age", 7, align="right"),
    )
    orders = (
        SortOrder("age", words="open first, by age", back="settled first"),
        SortOrder("id", lambda r: r.id),
        SortOrder("state", lambda r: (r.settled, r.paused, r.state)),
        SortOrder("priority", lambda r: (r.settled, r.priority, r.created_ms)),
        SortOrder("held", lambda r: r.pending, True),
        SortOrder("free", lambda r: r.tokens, True),
        SortOrder("progress", settled_share, True),
        SortOrder("total", lambda r: r.total, True),
        SortOrder("waiting", lambda r: r.waiting, True),
        SortOrder("delayed", lambda r: r.delayed, True),
        SortOrder("done", lambda r: r.done, True),
        SortOrder("dead", lambda r: r.dead, True),
    )
    empty = "no requests: type :submit FILE --queue QUEUE to make one"

    def items(self, snapshot: Snapshot) -> Items:
        return Items(snapshot.start, snapshot.total, snapshot.requests)

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        request: Request = item
        return TableRow(
            request.id,
            (
                request.id,
                state_cell(request),
                str(request.priority),
                held_cell(request),
                number(request.tokens, OK),
                progress_cell(request),
                short_count(request.total),
                number(request.waiting, ""),
                number(request.delayed, DELAYED),
                number(request.done, OK),
                number(request.dead, DEAD),
                ago(request.created_ms, snapshot),
            ),
            DIM if request.settled else "",
        )


def state_cell(request: Request) -> Cell:
    """The state in a word; ``paused`` goes before other open states."""
    if request.paused and not request.settled:
        return ("paused", WARN)
    return (request.state, {"done": OK, "cancelled": BAD}.get(request.state, ""))


def held_cell(request: Request) -> Cell:
    """Tokens held of those the limit allows."""
    return (f"{request.pending}/{request.limit}", HELD if request.pending else DIM)


def number(value: int | None, style: str) -> Cell:
    """A short number, `weighted` by its magnitude; ``?`` for unknown."""
    return ("?", DIM) if value is None else (short_count(value), weighted(value, style))


def progress_cell(request: Request) -> Cell:
    """The settled share, as a bar and in percent; 100 % means all."""
    settled = _settled(request)
    percent = 100 if settled >= request.total else min(99, 100 * settled // request.total)
    return (f"{bar(settled, request.total, BAR)} {percent:>3}%", DIM if request.settled else PART)
