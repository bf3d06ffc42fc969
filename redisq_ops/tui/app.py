"""`redisq-top`: one poller, one snapshot, and the views that draw it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.actions import parse as parse_action
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.events import Event, Key, Paste
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Footer, Input, Static

from redisq_ops.ops.inspect.snapshot import ExplainSubject, ListedQueue, Snapshot, View, Viewport
from redisq_ops.ops.terminal import printable
from redisq_ops.tui import keys
from redisq_ops.tui.banner import Banner, State, Tabs, TabsState
from redisq_ops.tui.changes import Changes
from redisq_ops.tui.command_line import CommandInput, RowAddresses, parsed
from redisq_ops.tui.detail_screen import DetailScreen
from redisq_ops.tui.explain_screen import WhyScreen
from redisq_ops.tui.filter_input import FilterInput
from redisq_ops.tui.guide import GuideStep, GuideStrip
from redisq_ops.tui.help import HelpScreen
from redisq_ops.tui.input_order import InputOrder
from redisq_ops.tui.poller import Missed, Poller, SnapshotFetched, SnapshotSource
from redisq_ops.tui.signals import end_on_signals
from redisq_ops.tui.table import PagedTable
from redisq_ops.tui.theme import REDISQ
from redisq_ops.tui.views import (
    ALL,
    Consumers,
    GroupsView,
    OverviewView,
    PeriodicView,
    QueueView,
    numbered,
)
from redisq_ops.tui.views.consumers import parted

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Counts
    from redisq_ops.core.model.states import Verb

_LAST = {
    "move": " --to ",
    "delay reschedule": " --in ",
    "request limit": " ",
    "request priority": " ",
    "request cancel": "",
    "trash restore": "",
}
"""command that a key begins -> what comes behind the rows"""
_OF_CLIENTS = {
    "request limit": "client cap",
    "request priority": "client weight",
    "request cancel": "client block",
}
"""the same keys for clients"""
NOTHING = "Nothing is under the cursor: the list is empty, or the entry went away (✗)."


class Top(App[Exception]):
    """The dashboard. Ends with None, or with the error that made it useless to go on."""

    CSS_PATH = "top.tcss"
    TITLE = "redisq-top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*keys.LOOK, *keys.CHANGE, *keys.LEAVE]

    def __init__(
        self,
        source: SnapshotSource,
        *,
        interval: float = 1.0,
        queue: str | None = None,
        read_only: bool = False,
        zone: tzinfo | None = None,
        clock: Callable[[], float] = time.monotonic,
        guide: Sequence[GuideStep] = (),
    ) -> None:
        """``interval`` in seconds; ``queue`` is opened at once; ``clock`` only measures; ``guide``:
        the steps of a demo's incidents."""
        super().__init__()
        self.source = source
        self.interval = interval
        self.queue = queue
        """what all views but the overview are about"""
        self.view: View = "overview"
        self._read_only = read_only
        self.zone = zone
        self.clock = clock
        self.snapshot: Snapshot | None = None
        self.problem: Exception | None = None
        """why the latest look brought no picture"""
        self.poller = Poller(source, self.viewport, self.post_message, interval)
        self.changes = Changes(self)
        self.refused = ""
        """why the latest key did nothing"""
        self._order = InputOrder(self)
        self._in_terminal = False
        self._opened = queue is None
        self._detail: str | None = None
        self._why: ExplainSubject | None = None
        self._back: View | None = None
        """the view whose row opened this one, where Esc leads back to"""
        self._seen_at: float | None = None
        # Held, not queried: messages still come while the screen is being taken apart at the end.
        self._banner, self._tabs, self._field = Banner(), Tabs(), FilterInput()
        self._command = CommandInput()
        self.guide = GuideStrip(guide) if guide else None
        self._notice = Static(id="notice", markup=False)
        self._status = Static(id="status", markup=False)
        self._overview = OverviewView()
        others = (view() for view in ALL if view is not OverviewView)
        self._views: dict[View, QueueView] = {
            view.name_: view for view in (self._overview, *others)
        }
        self._switcher = ContentSwitcher(*self._views.values(), initial="overview", id="views")

    def compose(self) -> ComposeResult:
        yield from (self._banner, self._tabs, *([self.guide] if self.guide else []))
        yield from (self._notice, self._switcher, self._field, self._command, self._status)
        yield Footer(compact=True, show_command_palette=False)

    def run(self, *args: Any, **options: Any) -> Exception | None:
        self._in_terminal = True
        return super().run(*args, **options)

    def on_load(self) -> None:
        if self._in_terminal:  # before the terminal is changed
            end_on_signals(self)

    def on_mount(self) -> None:
        self.register_theme(REDISQ)
        self.theme = REDISQ.name
        self.current.table.focus()
        # After `fg` the terminal shows nothing of ours, and only what changes would be drawn.
        self.app_resume_signal.subscribe(self, lambda _: self._redraw())
        self.set_interval(1.0, self.tick)
        # After the first frame: what the poller loads takes longer than drawing it.
        self.call_after_refresh(self.run_worker, self.poller.run(), group="poller")
        self.tick()

    def _redraw(self) -> None:
        for widget in self.screen.walk_children():
            widget.refresh()
        self.refresh(layout=True)

    def _fatal_error(self) -> None:
        """Leave after a crash. Textual's own trace quotes local variables, and so payloads."""
        from rich.traceback import Traceback

        self.bell()
        self.panic(Traceback(show_locals=False))

    # --- input ---------------------------------------------------------------------------------

    async def on_event(self, event: Event) -> None:
        if self._order.holds(event):
            return
        if isinstance(event, Key) and not event.is_forwarded:
            self.refused = ""
            if self.guide:
                self.guide.count_key()
        await super().on_event(event)

    def on_key(self, key: Key) -> None:
        """Comes here before the app's own bindings, unless a widget has used it."""
        active = self.active_bindings.get(key.key)
        acts = active is not None and active.enabled
        self._refuse("" if acts else self._why_not(key))

    def on_paste(self, paste: Paste) -> None:
        self._refuse("Text is pasted into a line for text: / opens the filter.")

    def _refuse(self, why: str) -> None:
        """Say why a key does nothing."""
        self.refused = why
        if why and len(self.screen_stack) > 1:  # the line above the keys is behind a dialog
            self.notify(why, severity="warning", markup=False, timeout=3)
        self.say_status()

    def _why_not(self, key: Key) -> str:
        sign = keys.sign(key.key, key.character)
        if len(self.screen_stack) > 1:
            return f"{sign} has no meaning here."
        if self.focused is self._field:
            return f"{sign} has no meaning in a filter: Enter keeps it, Esc drops it."
        if self.focused is self._command:
            return f"{sign} has no meaning in a command: Enter runs it, Esc drops it."
        for binding in (*keys.LOOK, *keys.CHANGE, *keys.LEAVE):
            if key.key in binding.key.split(","):
                _, action, parameters = parse_action(binding.action)
                why = self._unfit(action, parameters) or self._forbidden(action)
                return f"{sign} {binding.description}: {why}"
        return f"{sign} has no meaning here: ? lists the keys."

    # --- pictures ------------------------------------------------------------------------------

    @property
    def current(self) -> QueueView:
        return self._views[self.view]

    def viewport(self) -> Viewport:
        """What the poller asks for."""
        view = self.current
        start, end = view.window
        buckets = max(10, min(200, self.size.width - 2))
        return Viewport(
            view.name_, self.queue, start, end, view.descending, buckets, self._detail,
            view.fetched, self._why, self.zone,
        )  # fmt: skip

    def on_snapshot_fetched(self, seen: SnapshotFetched) -> None:
        if not self.screen_stack:  # it came while we were leaving
            return
        first, self.snapshot = self.snapshot is None, seen.snapshot
        self._seen_at, self.problem = self.clock(), None
        if first:
            self._connected()
        with self.batch_update():
            if self.answered:
                self.current.show(seen.snapshot)
            for screen in self.screen_stack:
                if isinstance(screen, (DetailScreen, WhyScreen)):
                    screen.show(seen.snapshot)
            self.tick()

    @property
    def answered(self) -> bool:
        """Whether the latest picture is of the view that is open."""
        if self.snapshot is None:
            return False
        viewport = self.snapshot.viewport
        return viewport.view == self.view and (
            viewport.queue == self.queue or viewport.view == "overview"
        )

    def on_missed(self, missed: Missed) -> None:
        from redisq_ops.core.model.errors import BadInput

        if not self.screen_stack:
            return
        if isinstance(missed.error, BadInput) and self.snapshot is None:
            self.exit(missed.error)
        self.problem = missed.error
        self.tick()

    def _connected(self) -> None:
        if self.read_only:
            self.refresh_bindings()
        if self.source.warning is not None:
            self.notify(self.source.warning, severity="warning", markup=False, timeout=30)
        if self._opened or self.snapshot is None:
            return
        self._opened = True
        if self.snapshot.queue is None:
            name, self.queue = printable(self.queue or ""), None
            self.notify(f"no queue {name!r} here", severity="error", markup=False)
        else:
            self._go_home()

    def tick(self) -> None:
        """Say again what depends on the time or on keys rather than on a picture."""
        silent = None if self._seen_at is None else self.clock() - self._seen_at
        failing, connected = self.problem is not None, self.source.connected
        queue = self._chosen if self.view != "overview" else None
        counts = self._counts if queue else None
        stale = silent is not None and (failing or silent > 2 * self.interval + 1)
        self._banner.state = State(
            connected.label if connected else "",
            queue,
            counts,
            self.snapshot.now_ms if self.snapshot else None,
            self.read_only,
            int(silent or 0) if stale else None,
            failing,
            self.zone,
            connected.word if connected else "",
            connected.color if connected else "",
            self._overview.in_trouble if self.view == "overview" and self.answered else None,
        )
        self._tabs.state = TabsState(self.view, queue or self._under_cursor, counts)
        self._say_notice()
        self.say_status()

    def _say_notice(self) -> None:
        """One line in place of a view that can't be shown."""
        said, view, snapshot = "", self.current, self.snapshot
        if (
            view.name_ != "overview"
            and snapshot is not None
            and snapshot.viewport.queue == self.queue
        ):
            queue = snapshot.queue
            if self.queue is None:
                said = "There is no queue here yet."
            elif queue is None or snapshot.problem is not None:
                said = snapshot.problem or f"no queue {self.queue!r} here"
            elif not view.offered_by(queue):
                said = f"{queue.name} is a {queue.kind} queue: it has no {view.title}."
        self._notice.update(printable(said))
        self._notice.display = bool(said)
        self._switcher.display = not said

    def say_status(self) -> None:
        """The line above the keys: a problem, a running change, or where we are."""
        busy = self.changes.progress or self._field.pointed(self.size.width - 2)
        said = [busy] if busy else [] if self._notice.display else list(self.current.status)
        if self.refused and not busy:
            said = [self.refused]
        counts = self._counts if self.view != "overview" else None
        if counts is not None and counts.problem and not busy:
            said.append(counts.problem)
        if self.problem is not None and not self.changes.progress:
            said = [" ".join(str(self.problem).split()) or type(self.problem).__name__]
        self._status.update(printable(" · ".join(said)))
        loud = bool(busy or self.refused) or self.current.everything
        self._status.set_class(loud, "-loud")
        self._status.set_class(self.problem is not None, "-bad")

    # --- moving about --------------------------------------------------------------------------

    def action_view(self, name: View) -> None:
        if self.snapshot is None:
            self._refuse("There is no picture of the server yet.")
            return
        if self.view == "overview" and name != "overview":
            under = self.current.table.identity
            self._choose(under or self.queue or next((q.name for q in self._queues), None))
        self._show_view(name)

    def _show_view(self, name: View) -> None:
        self._drop_unreadable()
        self._field.display = False
        self.current.everything = False
        self.view, self._back = name, None
        self._switcher.current = name
        if name == "overview" and self.queue is not None:
            self.current.table.go_to(self.queue)
        self.refresh_bindings()
        self._look()

    def _drop_unreadable(self) -> bool:
        """A filter that can't be read is none, once its line is left by other ways than Enter."""
        if not self._field.problem:
            return False
        self._field.display = False
        self.current.narrow(None)
        return True

    def on_tabs_chosen(self, chosen: Tabs.Chosen) -> None:
        self.action_view(chosen.view)

    def action_queue(self, step: int) -> None:
        names = [queue.name for queue in self._queues]
        if self.view == "overview":
            self._refuse("Tab goes from queue to queue once one is open: Enter opens one.")
        elif not names or names == [self.queue]:
            self._refuse("There is no other queue.")
        else:
            at = names.index(self.queue) if self.queue in names else -step
            self._choose(names[(at + step) % len(names)])
            self._show_view(self.view)

    def action_leave(self) -> None:
        view = self.current
        if self.changes.progress:
            self.changes.stopping = True
        elif self._drop_unreadable():
            self._look()
        elif view.everything:
            view.everything = False
            self.say_status()
        elif isinstance(view, GroupsView) and view.whole is not None:
            view.take(None)
            self.say_status()
        elif view.filter is not None:
            view.narrow(None)
            if self._back is not None:
                self._show_view(self._back)
            self._look()
        elif view.table.marks:
            view.table.mark(())
        elif self.view != "overview":
            self._show_view("overview")
        else:
            self._refuse("Esc: there is nothing to go back from; q quits.")

    def _choose(self, queue: str | None) -> None:
        if queue != self.queue:
            self.queue = queue
            for view in self._views.values():
                if view.name_ != "overview":
                    view.forget()

    def _go_home(self) -> None:
        """The view that shows what this queue is about."""
        has = self._chosen.features if self._chosen else frozenset()
        home: View = (
            "requests" if "HasRequests" in has else "delayed" if "HasTimeline" in has else "dead"
        )
        self._show_view(home)

    @property
    def _chosen(self) -> ListedQueue | None:
        return next((queue for queue in self._queues if queue.name == self.queue), None)

    @property
    def _under_cursor(self) -> ListedQueue | None:
        """The queue that a digit opens from the overview."""
        under = self._overview.table.identity
        return next((queue for queue in self._queues if queue.name == under), None)

    @property
    def _counts(self) -> Counts | None:
        """The counts of the queue that is open; before they are read, those of the overview."""
        seen = self.snapshot
        if seen is not None and seen.viewport.queue == self.queue and seen.counts is not None:
            return seen.counts
        return self._overview.counts_of(self.queue)

    @property
    def _queues(self) -> tuple[ListedQueue, ...]:
        return self.snapshot.queues if self.snapshot else ()

    def _look(self) -> None:
        self.current.table.focus()
        self.tick()
        self.poller.wake()

    def on_paged_table_opened(self, opened: PagedTable.Opened) -> None:
        if self.view == "overview":
            self._choose(opened.identity)
            self._go_home()
        elif self.view == "groups":
            self._narrowed("dead", f"group={opened.identity}")
        elif self.view == "consumers":
            group, name = parted(opened.identity)
            whole = name if group is None else f"{group}:{name}"
            self._narrowed("pending", f'consumer="{whole}"')
        elif self.view == "clients":
            self._narrowed("waiting", f'client="{opened.identity}"')
        elif self.current.named_rows:
            self._refuse("Enter: the row shows all that is known of it.")
        else:
            self._detail = opened.identity
            self._open(DetailScreen(opened.identity, self.zone), self._left_detail)
            self.poller.wake()

    def _narrowed(self, view: View, expression: str) -> None:
        """Another view of what a row stands for; Esc leads back."""
        from redisq_ops.ops.filter.parser import FilterError, parse

        try:
            query = parse(expression)
        except FilterError as error:  # a consumer's name may be any bytes
            self.notify(printable(error.why), severity="warning", markup=False)
            return
        came = self.view
        self._show_view(view)
        self._back = came
        self.current.narrow(query)
        self.poller.wake()
        self.say_status()

    def on_paged_table_wanted(self) -> None:
        self.poller.wake()

    def on_paged_table_nothing_selected(self) -> None:
        self._refuse(NOTHING)

    def on_paged_table_moved(self) -> None:
        self.tick()

    def on_paged_table_marked(self) -> None:
        self.current.everything = False
        self.say_status()

    def on_resize(self) -> None:
        if self.snapshot is not None:
            self.poller.wake()

    def _open(
        self, screen: ModalScreen[None], closed: Callable[[None], None] | None = None
    ) -> None:
        # Not awaited: its mounting needs this very message loop.
        self.push_screen(screen, closed)  # type: ignore[unused-awaitable]

    def _left_detail(self, _: None) -> None:
        self._detail = None

    # --- filter, order, clipboard, help --------------------------------------------------------

    def action_filter(self) -> None:
        view = self.current
        self._field.begin(view.filter, entries=view.state is not None, utc=self.zone is UTC)

    @on(FilterInput.Narrowed)
    def narrow(self, narrowed: FilterInput.Narrowed) -> None:
        self.current.narrow(narrowed.query)
        self.poller.wake()
        self.say_status()

    @on(Input.Submitted, "#filter")
    def keep_filter(self) -> None:
        self._field.display = False
        self._look()

    def action_sort(self) -> None:
        self.current.next_order()
        self._look()

    def action_turn(self) -> None:
        self.current.turn_order()
        self._look()

    def on_paged_table_header_clicked(self, clicked: PagedTable.HeaderClicked) -> None:
        self.current.sort_by(clicked.key)
        self._look()

    def action_only_trouble(self) -> None:
        """In the overview all queues again, or only those in trouble; elsewhere go there."""
        overview = self._overview
        if self.view == "overview" or not overview.only_trouble:
            overview.toggle_trouble()
        if self.view != "overview":
            self._show_view("overview")
        self._look()

    def action_yank(self) -> None:
        if (identity := self.current.table.identity) is not None:
            copied = self.current.copied(identity)
            self.copy_to_clipboard(copied)
            self.notify(f"copied {printable(copied)}", markup=False)
        else:
            self._refuse(NOTHING)

    def action_explain(self) -> None:
        """What is under the cursor, or open; where nothing is, the queue."""
        view = self.current
        if self.view == "overview":
            under = view.table.identity
            about = ExplainSubject(under) if under else None
        else:
            id = self._detail if self._detail is not None else view.subject
            about = ExplainSubject(self.queue, id) if self.queue else None
        if about is None:
            self._refuse(NOTHING)
            return
        self._why = about
        self._open(WhyScreen(about, self.zone), self._left_why)
        self.poller.wake()

    def _left_why(self, _: None) -> None:
        self._why = None

    def action_scan(self) -> None:
        if isinstance(self.current, GroupsView):
            self.changes.scan(self.current)

    def drop_scan(self, changed_in: QueueView | None) -> None:
        """Show no groups of a scan that a change elsewhere has made untrue."""
        groups = self._views["groups"]
        if changed_in is not groups and isinstance(groups, GroupsView) and groups.whole:
            groups.take(None)

    def action_help(self) -> None:
        self._open(HelpScreen())

    # --- changes -------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        """Whether nothing may be changed here; known with the connection, before any picture."""
        connected = self.source.connected
        return self._read_only or (connected is not None and connected.read_only)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False hides a key that means nothing here, None greys out what is not allowed."""
        if self.focused in (self._field, self._command):
            return False
        if action in ("queue", "filter", "command"):  # asked before a dialog's own Tab and /
            return len(self.screen_stack) == 1
        if self._unfit(action, parameters):
            return False
        return None if self._forbidden(action) else True

    def _unfit(self, action: str, parameters: tuple[object, ...]) -> str:
        """Why an action means nothing in this view or for this queue; empty if it means something.

        What an action needs a row for is not asked here: it says so itself.
        """
        view, queue = self.current, self._chosen
        kind = f"a {queue.kind} queue" if queue else "this queue"
        match action:
            case "everything" if view.state is None or not view.verbs:
                return "it is for lists of entries that can be changed together."
            case "move" if not self._can(verb := str(parameters[0])):
                if verb not in view.verbs:
                    return f"not in this view: {_where(verb)}."
                return f"{kind} can't do that to {view.state} entries."
            case "edit" if not self._edits:
                if not view.edits:
                    return "payloads are edited in the views of dead and delayed entries: 5 and 6."
                return f"{kind} has no payloads that can be edited here."
            case "scan" if not isinstance(view, GroupsView):
                return "it groups dead letters: 7."
            case "begin" if why := self._unfit_command(str(parameters[0])):
                return why
            case "hold" if not self._holdable:
                return f"{kind} can't be paused by redisq."
        return ""

    def _unfit_command(self, verb: str) -> str:
        """As `_unfit`, for a command that is begun by a key."""
        view, queue = self.current, self._chosen
        if verb in _OF_CLIENTS and self.view == "clients":
            return ""
        if verb.startswith("request ") and view.holds != "requests":
            return "it is for requests (2, 3) and clients (c)."
        if verb == "delay reschedule" and view.state != "delayed":
            return "only for delayed entries (view 6)."
        if verb == "delay reschedule" and queue and not queue.actions.get("reschedule"):
            return f"a {queue.kind} queue keeps its entries' times itself."
        if verb == "trash restore" and view.state != "trash":
            return "it is for the trash: 0."
        if verb == "move" and view.state not in ("waiting", "delayed", "dead"):
            return "it is for waiting, delayed and dead entries."
        return ""

    def _forbidden(self, action: str) -> str:
        """Why a change isn't allowed now; empty if it is, or changes nothing."""
        if action not in ("everything", "move", "edit", "hold", "undo", "begin"):
            return ""
        if self.read_only:
            return "this dashboard is read-only."
        # A click leads out of a line that can't be read: what is filtered by isn't what it says.
        return "the filter can't be read: Esc drops it." if self._field.problem else ""

    def _can(self, verb: str) -> bool:
        """Whether a verb means something to what this view lists, in this kind of queue."""
        view, queue = self.current, self._chosen
        if view.state is None or queue is None:  # what a consumer holds can be taken in any
            return verb in view.verbs
        return verb in view.verbs and view.state in queue.actions.get(cast("Verb", verb), ())

    @property
    def _holdable(self) -> bool:
        """Whether one of the queues that a hold would be for has flags of ours."""
        view = self.current
        names = view.chosen if view.holds == "queues" else (self.queue,)
        chosen = [queue for queue in self._queues if queue.name in names]
        return not chosen or any(queue.has_settings for queue in chosen)

    @property
    def _edits(self) -> bool:
        view, queue = self.current, self._chosen
        return view.edits and (queue is None or view.state in queue.editable_states)

    def action_everything(self) -> None:
        self.current.everything = not self.current.everything
        self.say_status()

    def action_move(self, verb: str) -> None:
        self.current.table.stay()
        if isinstance(self.current, Consumers):
            self.changes.take_over(verb, self.current)
        elif isinstance(self.current, PeriodicView):
            self.changes.periodic("run" if verb == "requeue" else "rm", self.current)
        else:
            self.changes.move(verb, self.current)

    def action_edit(self) -> None:
        self.current.table.stay()
        self.changes.edit(self.current)

    def action_hold(self) -> None:
        self.current.table.stay()
        if isinstance(self.current, PeriodicView):
            self.changes.periodic("hold", self.current)
        else:
            self.changes.hold(self.current)

    def action_command(self) -> None:
        self._command.begin()

    def action_begin(self, verb: str) -> None:
        """A command for the rows that are meant, up to what only the person knows."""
        self.current.table.stay()
        if self.view == "clients":
            self._command.begin(f"{_OF_CLIENTS[verb]} %q %{_LAST[verb]}")
        else:
            self._command.begin(f"{verb} %{_LAST[verb]}")

    def action_export(self) -> None:
        """The entries of the view, or of the whole queue, that the filter matches."""
        view = self.current
        where = f" --where {shlex.quote(view.filter.text)}" if view.filter and view.state else ""
        state = f" --state {view.state}" if view.state else ""
        self._command.begin(f"export %q{state}{where} -o ")

    @on(Input.Submitted, "#command")
    def run_command(self) -> None:
        line = self._command.end()
        self._look()
        if not line:
            return
        try:
            words = parsed(line, self._addresses)
        except ValueError as error:
            self._refuse(f":{line}: {error}")
            return
        if words:
            self.changes.command(words)

    @property
    def _addresses(self) -> RowAddresses:
        view, under = self.current, self.current.chosen
        if view.holds == "queues":
            return RowAddresses(under, under[0] if under else None)
        if view.named_rows and view.holds != "periodic":
            return RowAddresses(under, self.queue)
        if self.queue is None or (view.state is None and view.holds == "queue"):
            return RowAddresses((), self.queue)  # its rows are no entries
        return RowAddresses(tuple(f"{self.queue}/{id}" for id in under), self.queue)

    def action_undo(self) -> None:
        self.changes.undo(None if self.view == "overview" else self.queue)

    async def action_quit(self) -> None:
        if self.changes.progress:
            self.changes.tell("A change is running: Esc stops it, then q leaves.", False)
        else:
            self.exit()


def _where(verb: str) -> str:
    """The views in which entries can be moved like that, with their keys."""
    views = [f"{digit} ({view.title})" for digit, view in numbered() if verb in view.verbs]
    return "see " + ", ".join(views)
