"""`*`: what is marked in all views and queues, as the server has it now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from textual import on

from redisq_ops.core.model.entry import Entry, Request
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.terminal import age
from redisq_ops.tui.marks import Found, Mark, looked_up
from redisq_ops.tui.screens.list_screen import ListScreen
from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.table.table_model import Cell, TableColumn, TableRow
from redisq_ops.tui.theme import BAD, WARN

if TYPE_CHECKING:
    from ..dashboard import Dashboard


class MarksScreen(ListScreen):
    """The row of the mark to open. Space takes marks away; they are marks again if it is pressed
    again before the list is left."""

    COLUMNS = (
        TableColumn("queue", "queue", 16, flex=1),
        TableColumn("view", "marked in", 10),
        TableColumn("id", "id", 30, flex=3),
        TableColumn("state", "state now", 20),
        TableColumn("since", "since", 8, align="right"),
    )
    title_ = "Marked"
    hint = "Enter opens it; Space takes the mark away, or sets it again; Esc goes back"

    def __init__(self, app: Dashboard, marks: Sequence[Mark], found: Mapping[Mark, Found]) -> None:
        super().__init__([_row(app, mark, found) for mark in marks])
        self._marks = {mark.name: mark for mark in marks}

    def on_mount(self) -> None:
        super().on_mount()
        self.table.mark(self._marks)

    @on(PagedTable.Marked)
    def choose_marks(self, marked: PagedTable.Marked) -> None:
        """Mark in the views what is marked here."""
        app = cast("Dashboard", self.app)
        left = (self._marks[name] for name in marked.marks)
        app.marks.set(left, app.queue, list(app.views.values()))


def _row(app: Dashboard, mark: Mark, looked: Mapping[Mark, Found]) -> TableRow:
    view, since = app.views[mark.view], "-"
    state: Cell = "-"
    now_ms = app.snapshot.now_ms if app.snapshot else 0
    if mark in looked:
        found = looked[mark]
        if isinstance(found, (Entry, Request)):
            at = found.since_ms if isinstance(found, Entry) else found.created_ms
            since = "-" if at is None else age(max(0, now_ms - at))
            moved = view.state is not None and found.state != view.state
            state = (found.state, WARN if moved else "")
        else:
            state = ("gone", BAD) if found is None else (f"unknown: {found}", WARN)
    elif view.holds == "queues":
        state = "" if app.listed(mark.identity) else ("gone", BAD)
    return TableRow(mark.name, (mark.queue or "-", view.title, mark.identity, state, since))


async def list_marks(app: Dashboard) -> None:
    """Show the list, then open what is chosen."""
    connected, marks = app.source.connected, app.marked
    if connected is None:
        return
    states = {
        name: None if view.holds == "requests" else view.state
        for name, view in app.views.items()
        if view.holds == "requests" or view.state
    }
    units = [mark for mark in marks if mark.view in states]
    deployment = connected.deployment
    try:
        found = await arun(deployment.client, looked_up(deployment, units, states))
    except RedisqError as error:
        app.refuse(str(error))
        return
    name = await app.push_screen_wait(MarksScreen(app, marks, found))
    mark = next((mark for mark in marks if mark.name == name), None)
    if mark in units:
        await app.commands.jump(mark.address)
    elif mark is not None:
        app.navigation.open_place(mark.view, mark.queue, row=mark.identity)
