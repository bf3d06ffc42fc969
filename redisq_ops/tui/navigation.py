"""Changes the queue and view that the dashboard shows: to others, back, forward, to any id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from redisq_ops.ops.inspect.snapshot import View
from redisq_ops.ops.terminal import printable
from redisq_ops.tui.keys.key_refusals import nothing_selected
from redisq_ops.tui.navigation_history import NavigationHistory, VisitedPlace
from redisq_ops.tui.screens.detail_screen import DetailScreen
from redisq_ops.tui.screens.opened_screen import Opened, OpenedScreen
from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.views import AllDeadView, GroupsView
from redisq_ops.tui.views.consumers import parted

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Counts
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.ops.filter.ast import Query

    from .dashboard import Dashboard


class Navigation:
    """Opens queues, views and details, and goes back to the places left before."""

    def __init__(self, app: Dashboard) -> None:
        self._app = app
        self._history = NavigationHistory()
        self._left: VisitedPlace | None = None
        """the place that the present step leaves"""
        self._back: View | None = None
        """the view whose row opened this one, where Esc leads back to"""

    @property
    def here(self) -> VisitedPlace:
        view = self._app.current
        queue = None if view.of_all_queues else self._app.queue
        return VisitedPlace(view.name_, queue, view.filter, view.table.identity, view.title)

    @property
    def crumbs(self) -> str:
        return self._history.crumbs(self.here)

    def leaving(self) -> None:
        """Called before the queue or the view changes; both may change in one step."""
        if self._left is None:
            self._left = self.here

    def arrived(self) -> None:
        """The step that `leaving` began is over."""
        if self._left is not None and self._left != self.here:
            self._history.leave(self._left)
        self._left = None

    def back(self) -> str:
        """Go to the place before; returns why not, empty if it worked."""
        return self._return(self._history.back(self.here))

    def forward(self) -> str:
        """Go to the place that `back` left; returns why not, empty if it worked."""
        return self._return(self._history.forward(self.here))

    def _return(self, place: VisitedPlace | None) -> str:
        if place is None:
            return "there is no such place."
        self._left = place  # it is in the history already
        self.open_place(place.view, place.queue, place.filter, place.row)
        return ""

    async def jump(self, address: str) -> str:
        """Open the queue, request or entry of an address or id; returns why not, or ''."""
        from redisq_ops.core.model.errors import RedisqError
        from redisq_ops.core.redis.operation import arun

        source = self._app.source
        if source.connected is None:
            return "there is no server yet."
        deployment = source.connected.deployment
        try:
            place = await arun(deployment.client, located(deployment, address))
        except RedisqError as error:
            return str(error)
        if source is self._app.source:
            self.open_place(place.view, place.queue, row=place.row)
            if place.row is not None:
                self.open_detail(place.row)
        return ""

    # --- views and queues ----------------------------------------------------------------------

    def open_view(self, name: View) -> None:
        """Show a view of the queue that a screen is about; from a view of all queues, of the queue
        under the cursor."""
        app, opened = self._app, self._app.opened
        if app.snapshot is None:
            app.refuse("The queues have not been read yet.")
            return
        if opened is not None:
            self.choose(opened.queue)
        elif app.current.of_all_queues and not app.views[name].of_all_queues:
            if app.current.stands_for:
                app.refuse(nothing_selected(app))
                return
            under = app.current.row_queue
            self.choose(under or app.queue or next((q.name for q in app.queues), None))
        self.show_view(name)

    def show_view(self, name: View) -> None:
        """Show a view of the queue that is open, in front of all screens."""
        app = self._app
        self.close_screens()
        self.leaving()
        app.drop_unreadable_filter()
        app.show_only(name)
        self._back = None
        if name == "overview" and app.queue is not None:
            app.current.table.go_to(app.queue)
        self.arrived()
        app.refresh_bindings()
        app.look()

    def next_queue(self, step: int) -> None:
        """Show the same view of another queue, ``step`` further in the list of names."""
        app = self._app
        names = [queue.name for queue in app.queues]
        if app.current.of_all_queues:
            app.refuse("Tab goes from queue to queue once one is open: Enter opens one.")
        elif not names or names == [app.queue]:
            app.refuse("There is no other queue.")
        else:
            at = names.index(app.queue) if app.queue in names else -step
            self.choose(names[(at + step) % len(names)])
            self.show_view(app.view)

    def leave(self) -> None:
        """Esc: stop a change; else drop the filter, scan or marks; else go to the overview."""
        app = self._app
        view = app.current
        if app.changes.running:
            app.changes.stopping = True
        elif app.drop_unreadable_filter():
            app.look()
        elif view.everything:
            view.everything = False
            app.say_status()
        elif isinstance(view, GroupsView) and view.whole is not None:
            view.take(None)
            app.say_status()
        elif view.filter is not None:
            view.narrow(None)
            if self._back is not None:
                self.show_view(self._back)
            app.look()
        elif view.table.marks:
            view.table.mark(())
        elif app.view != "overview":
            self.show_view("overview")
        else:
            app.refuse("Esc: there is no place to go back to; q quits.")

    def choose(self, queue: str | None) -> None:
        """Open this queue: all views but the overview show it."""
        if queue != self._app.queue:
            self.leaving()
            self._app.show_queue(queue)

    def go_home(self) -> None:
        """Show the queue's dead entries if there are any, else its main view."""
        app = self._app
        has = app.open_queue.features if app.open_queue else frozenset()
        self.show_view(home_view(has, app.counts))

    def open_row(self, opened: PagedTable.Opened) -> None:
        """Open the row's queue, details or list."""
        app = self._app
        if opened.table is not app.current.table:
            return  # a click on another view was faster
        if app.view == "overview" and app.current.stands_for:
            app.overview.fold(opened.identity, None)
        elif app.view == "overview":
            self.choose(opened.identity)
            self.go_home()
        elif isinstance(app.current, AllDeadView):
            self._open_cell(app.current)
        elif app.view == "groups":
            self.narrowed("dead", f"group={opened.identity}")
        elif app.view == "consumers":
            group, name = parted(opened.identity)
            whole = name if group is None else f"{group}:{name}"
            self.narrowed("pending", f'consumer="{whole}"')
        elif app.view == "clients":
            self.narrowed("waiting", f'client="{opened.identity}"')
        elif app.preview.display and (app.current.named_rows or not app.preview.by_itself):
            app.preview.enter()
        elif app.current.named_rows:
            app.refuse("Enter: p shows the details of the row.")
        else:
            self.open_detail(opened.identity)

    def _open_cell(self, view: AllDeadView) -> None:
        """Show the dead letters of the row under the cursor; Esc leads back."""
        if (group := view.item) is not None:
            self.choose(group.queue)
            self.narrowed("dead", group.where or f"group={group.fingerprint}")

    def open_detail(self, id: str) -> None:
        """Show all details of an entry or request of the open queue."""
        app = self._app
        assert app.queue is not None
        app.open_screen(DetailScreen(Opened(app.queue, id), app.new_line()))
        app.poller.wake()

    def open_place(
        self, view: View, queue: str | None, filter: Query | None = None, row: str | None = None
    ) -> None:
        """Show a view of a queue, with the cursor on a row; for the overview with a queue, show
        that queue's main view."""
        if queue is not None:
            self.choose(queue)
        if view == "overview" and queue is not None:
            self.go_home()
        else:
            self.show_view(view)
        if filter is not None:
            self._app.current.narrow(filter)
            self._app.look()
        if row is not None:
            self._app.current.table.go_to(row)

    def narrowed(self, view: View, expression: str) -> None:
        """Show another view, filtered by ``expression``; Esc leads back."""
        from redisq_ops.ops.filter.parser import FilterError, parse

        app = self._app
        try:
            query = parse(expression)
        except FilterError as error:  # a consumer's name may be any bytes
            app.notify(printable(error.why), severity="warning", markup=False)
            return
        came = app.view
        self.show_view(view)
        self._back = came
        app.current.narrow(query)
        app.poller.wake()
        app.say_status()

    def close_screens(self) -> None:
        """Leave all dialogs and screens over the view."""
        while len(self._app.screen_stack) > 1:
            self._app.screen.dismiss(None)  # type: ignore[unused-awaitable]

    def close_dialogs(self) -> None:
        """Leave the dialogs in front; one that asks whether to change something gets a No."""
        app = self._app
        while len(app.screen_stack) > 1 and not isinstance(app.screen, OpenedScreen):
            app.screen.dismiss(None)  # type: ignore[unused-awaitable]


def home_view(features: frozenset[str], counts: Counts | None) -> View:
    """The view that Enter on a queue opens: dead entries first, then the first view of its kind
    that has entries. Numbers that are unknown count as none."""
    if counts is not None and counts.of("dead"):
        return "dead"
    if "HasRequests" in features:
        return "requests"
    usual: Literal["delayed", "dead"] = "delayed" if "HasTimeline" in features else "dead"
    states: tuple[Literal["delayed", "dead", "waiting", "pending"], ...]
    states = (usual, "waiting", "pending")
    for state in states:
        if counts is not None and counts.of(state):
            return state
    return usual


async def located(deployment: Deployment, address: str) -> VisitedPlace:
    """The view and row of the entry or request of an address or id; without a row: the queue.

    Raises the errors of `Deployment.resolve`, and `NotFound` if the entry is gone.
    """
    from redisq_ops.core.engine.optional_features import HasDoneEntries, HasRequests
    from redisq_ops.core.model.errors import NotFound

    found = await deployment.resolve(address)
    queue, id = found.queue, found.id
    if id is None:
        return VisitedPlace("overview", queue.name)
    if isinstance(queue, HasRequests) and await queue.request.op(id) is not None:
        return VisitedPlace("requests", queue.name, row=id)
    entry = await queue.get.op(id)
    if entry is None:
        raise NotFound(f"{found} is not here: it never was, or it is done and removed")
    # Where no view lists done entries, their details can be opened from any view.
    unlisted = entry.state == "done" and not isinstance(queue, HasDoneEntries)
    return VisitedPlace("waiting" if unlisted else entry.state, queue.name, row=id)
