"""`redisq-top`: one poller, one snapshot, and the views that draw it."""

from __future__ import annotations

import gc
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.actions import parse as parse_action
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Event, Key, Paste
from textual.filter import LineFilter
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Footer, Input

from redisq_ops.ops.inspect.snapshot import ExplainSubject, ListedQueue, Snapshot, View, Viewport
from redisq_ops.ops.terminal import kind_of, printable
from redisq_ops.tui import keys
from redisq_ops.tui.alerts import AlertWatch, alert_text, notify_terminal
from redisq_ops.tui.banner import Banner, FixedText, State, Tabs, TabsState
from redisq_ops.tui.changes import Changes
from redisq_ops.tui.command_line import (
    NOT_HERE,
    CommandInput,
    CompletionList,
    RowAddresses,
)
from redisq_ops.tui.command_runner import CommandRunner
from redisq_ops.tui.dashboard_settings import DashboardSettings
from redisq_ops.tui.detail_screen import DetailScreen
from redisq_ops.tui.entry_tree import EntryTree
from redisq_ops.tui.explain_screen import ExplainScreen
from redisq_ops.tui.filter_input import FilterInput
from redisq_ops.tui.guide import GuideStep, GuideStrip
from redisq_ops.tui.help import HelpScreen
from redisq_ops.tui.host import Host
from redisq_ops.tui.input_order import InputOrder
from redisq_ops.tui.key_refusals import OF_CLIENTS, forbidden, unfit
from redisq_ops.tui.navigation import Navigation
from redisq_ops.tui.poller import Missed, Poller, SnapshotFetched, SnapshotSource
from redisq_ops.tui.preview_pane import PreviewPane, PreviewSubject
from redisq_ops.tui.samples import Samples
from redisq_ops.tui.saved_filters import SavedFiltersScreen
from redisq_ops.tui.section_tree import SearchInput
from redisq_ops.tui.signals import end_on_signals
from redisq_ops.tui.table import PagedTable
from redisq_ops.tui.theme import COLORS, THEMES, ThemeColors
from redisq_ops.tui.views import (
    ALL,
    ChartsView,
    Consumers,
    GroupsView,
    OverviewView,
    PeriodicView,
    QueueView,
)
from redisq_ops.tui.views.consumers import parted

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Counts
    from redisq_ops.ops.check.findings import Standing
    from redisq_ops.ops.filter.ast import Query

_LAST = {
    "move": " --to ",
    "delay reschedule": " --in ",
    "request limit": " ",
    "request priority": " ",
    "request cancel": "",
    "trash restore": "",
}
"""command that a key begins -> what comes behind the rows"""
_BEFORE_DIALOGS = ("queue", "filter", "command", "command_palette")
"""actions whose keys are asked before a dialog's own Tab and /"""
NOTHING = "Nothing is under the cursor: the list is empty, or the entry went away (✗)."


class Top(App[Exception]):
    """The dashboard. Ends with None, or with the error that made it useless to go on."""

    CSS_PATH = "top.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-below"), (140, "-beside")]  # noqa: RUF012 (declared so by App)
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
        host: Host | None = None,
        settings: DashboardSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        guide: Sequence[GuideStep] = (),
    ) -> None:
        """``interval`` in seconds; ``queue`` is opened at once; ``host`` knows the commands and the
        other servers; ``clock`` only measures; ``guide``: the steps of a demo's incidents."""
        self._theme_colors = {name: ThemeColors(name) for name in COLORS}
        super().__init__()
        self.source = source
        self.interval = interval
        self.queue = queue
        """what all views but the overview are about"""
        self.view: View = "overview"
        self._read_only = read_only
        self.zone = zone
        self.clock = clock
        self.settings = settings or DashboardSettings()
        self.snapshot: Snapshot | None = None
        self.problem: Exception | None = None
        """why the latest look brought no picture"""
        self.poller = Poller(source, self.viewport, self.post_message, interval)
        self.changes = Changes(self)
        self.host = host or Host()
        self.navigation = Navigation(self)
        self.refused = ""
        """why the latest key did nothing"""
        self._order = InputOrder(self)
        self._in_terminal = False
        self._opened = queue is None
        self._detail: str | None = None
        self._back: View | None = None
        """the view whose row opened this one, where Esc leads back to"""
        self._seen_at: float | None = None
        # Held, not queried: messages still come while the screen is being taken apart at the end.
        self._banner, self._tabs, self._field = Banner(), Tabs(), FilterInput()
        self.commands = CommandRunner(self)
        self._completions = CompletionList()
        self._command = CommandInput(self.commands.completed, self._completions)
        self.guide = GuideStrip(guide) if guide else None
        self._notice, self._status = FixedText("notice"), FixedText("status")
        self._overview, self._charts = OverviewView(), ChartsView()
        others = (view() for view in ALL if view not in (OverviewView, ChartsView))
        self._views: dict[View, QueueView] = {
            view.name_: view for view in (self._overview, *others, self._charts)
        }
        self._switcher = ContentSwitcher(*self._views.values(), initial="overview", id="views")
        self._preview = PreviewPane()
        self._split = Container(self._switcher, self._preview, id="split")

    def compose(self) -> ComposeResult:
        yield from (self._banner, self._tabs, *([self.guide] if self.guide else []))
        yield from (self._notice, self._split, self._field)
        yield from (self._completions, self._command, self._status)
        yield Footer(compact=True, show_command_palette=False)

    def run(self, *args: Any, **options: Any) -> Exception | None:
        self._in_terminal = True
        return super().run(*args, **options)

    def on_load(self) -> None:
        if self._in_terminal:  # before the terminal is changed
            end_on_signals(self)

    def on_mount(self) -> None:
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = self.settings.theme
        self.set_keymap(dict(self.settings.keys))
        for name, columns in self.settings.columns.items():
            self._views[name].table.keep_columns(columns)
        self.current.table.focus()
        # After `fg` the terminal shows nothing of ours, and only what changes would be drawn.
        self.app_resume_signal.subscribe(self, lambda _: self._redraw())
        self.set_interval(1.0, self.tick)
        self._watch_for_alerts()
        # After the first frame: what the poller loads takes longer than drawing it.
        self.call_after_refresh(self.run_worker, self.poller.run(), group="poller")
        self.tick()

    def get_line_filters(self) -> Sequence[LineFilter]:
        own = self._theme_colors.get(self.theme)
        return [*([own] if own else []), *super().get_line_filters()]

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
        self.refuse("" if acts else self._why_not(key))

    def on_paste(self, paste: Paste) -> None:
        self.refuse("Text is pasted into a line for text: / opens the filter.")

    def refuse(self, why: str) -> None:
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
        for binding in self.key_bindings:
            if key.key in binding.key.split(","):
                _, action, parameters = parse_action(binding.action)
                why = self.why_unfit(action, parameters)
                return f"{sign} {binding.description}: {why}"
        return f"{sign} has no meaning here: ? lists the keys."

    @property
    def key_bindings(self) -> tuple[Binding, ...]:
        """Every key, as the configuration file has it."""
        chosen = self.settings.keys
        return tuple(replace(one, key=chosen.get(one.id or "", one.key)) for one in keys.ALL)

    def why_unfit(self, action: str, parameters: tuple[object, ...]) -> str:
        """Why a key's action can't be done now; empty if it can."""
        return unfit(self, action, parameters) or self.forbidden(action)

    def forbidden(self, action: str) -> str:
        """Why a change isn't allowed now; empty if it is, or changes nothing."""
        return forbidden(action, self.read_only, self._field.problem)

    def begin_line(self, start: str) -> None:
        """Begin a command for the person to end."""
        self._command.begin(start)

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
            view.name_, self.queue, start, end, view.descending, buckets, self._read_in_full,
            view.fetched, self._explained, self.zone, view.in_sight,
            view.charts, view.bar_ms,
        )  # fmt: skip

    @property
    def _read_in_full(self) -> str | None:
        """The entry or request that a screen or the preview shows."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, DetailScreen):
                return screen.entry.wanted
        return self._preview.wanted

    @property
    def _explained(self) -> ExplainSubject | None:
        """What the latest explanation on the screen is about."""
        explaining = (s.about for s in reversed(self.screen_stack) if isinstance(s, ExplainScreen))
        return next(explaining, None)

    def on_snapshot_fetched(self, seen: SnapshotFetched) -> None:
        if not self.screen_stack or seen.source is not self.source:
            return  # it came while we were leaving, or going to another server
        first, self.snapshot = self.snapshot is None, seen.snapshot
        self._charts.samples.record(seen.snapshot)
        self._seen_at, self.problem = self.clock(), None
        if first:
            self._connected()
        with self.batch_update():
            if self.answered:
                self.current.show(seen.snapshot)
                self._preview.show(seen.snapshot)
                self.navigation.fetched()
            for screen in self.screen_stack:
                if isinstance(screen, (DetailScreen, ExplainScreen)):
                    screen.show(seen.snapshot)
            self.tick()
            if self.focused is None and len(self.screen_stack) == 1:
                self.current.table.focus()  # it could not have it before it was shown

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

        if not self.screen_stack or missed.source is not self.source:
            return
        if isinstance(missed.error, BadInput) and self.snapshot is None:
            self.exit(missed.error)
        self.problem = missed.error
        self.tick()

    def _connected(self) -> None:
        if self._in_terminal:
            # All modules are loaded. Searched for garbage over and over, with what each refresh
            # makes, they cost a fifth of the CPU time.
            gc.freeze()
            gc.set_threshold(10_000)
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
        queue = self.open_queue if self.view != "overview" else None
        counts = self._counts if queue else None
        frozen = silent is not None and self.poller.frozen and not failing
        stale = silent is not None and not frozen and (failing or silent > 2 * self.interval + 1)
        self._banner.state = State(
            connected.label if connected else "",
            queue,
            counts,
            self.snapshot.now_ms // 1000 * 1000 if self.snapshot else None,
            self.read_only,
            int(silent or 0) if stale else None,
            failing,
            self.zone,
            connected.word if connected else "",
            connected.color if connected else "",
            self._overview.in_trouble if self.view == "overview" and self.answered else None,
            self.navigation.crumbs,
            int(silent or 0) if frozen else None,
        )
        self._tabs.state = TabsState(self.view, queue or self._under_cursor, counts)
        self._say_notice()
        self._preview.follow(self._previewed)
        self.say_status()

    def _say_notice(self) -> None:
        """One line in place of a view that can't be shown."""
        said, view, snapshot = "", self.current, self.snapshot
        if snapshot is None:
            said = self._nothing_seen()
        elif view.name_ != "overview" and snapshot.viewport.queue == self.queue:
            queue = snapshot.queue
            if self.queue is None:
                said = "There is no queue here yet."
            elif queue is None or snapshot.problem is not None:
                said = snapshot.problem or f"no queue {self.queue!r} here"
            elif not view.offered_by(queue):
                said = f"{queue.name} is {kind_of(queue.kind)}: it has no {view.title}."
        self._notice.show("\n".join(map(printable, said.split("\n"))))
        self._notice.display = bool(said)
        self._split.display = not said

    def _nothing_seen(self) -> str:
        """What stands in place of the first picture, as long as there is none."""
        if self.problem is None:
            return "Reading the queues …"
        from redisq_ops.core.model.errors import Forbidden

        lines = [f"There is no picture of the server yet: {self.problem}"]
        if isinstance(self.problem, Forbidden):
            lines.append("`redisq acl viewer` prints the ACL rule that a user needs to look.")
        lines.append(f"It is asked again every {self.interval:g} s. q leaves.")
        return "\n".join(lines)

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
        self._status.show(printable(" · ".join(said)))
        loud = bool(busy or self.refused) or self.current.everything
        self._status.set_class(loud, "-loud")
        self._status.set_class(self.problem is not None, "-bad")

    # --- moving about --------------------------------------------------------------------------

    def action_view(self, name: View) -> None:
        if self.snapshot is None:
            self.refuse("There is no picture of the server yet.")
            return
        if self.view == "overview" and name != "overview":
            under = self.current.table.identity
            self._choose(under or self.queue or next((q.name for q in self.queues), None))
        self.show_view(name)

    def show_view(self, name: View) -> None:
        self.navigation.leaving()
        self._drop_unreadable()
        self._field.display = False
        self.current.everything = False
        self.view, self._back = name, None
        self._switcher.current = name
        if name == "overview" and self.queue is not None:
            self.current.table.go_to(self.queue)
        self.navigation.arrived()
        self.refresh_bindings()
        self.look()

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
        names = [queue.name for queue in self.queues]
        if self.view == "overview":
            self.refuse("Tab goes from queue to queue once one is open: Enter opens one.")
        elif not names or names == [self.queue]:
            self.refuse("There is no other queue.")
        else:
            at = names.index(self.queue) if self.queue in names else -step
            self._choose(names[(at + step) % len(names)])
            self.show_view(self.view)

    def action_leave(self) -> None:
        view = self.current
        if self.changes.progress:
            self.changes.stopping = True
        elif self._drop_unreadable():
            self.look()
        elif view.everything:
            view.everything = False
            self.say_status()
        elif isinstance(view, GroupsView) and view.whole is not None:
            view.take(None)
            self.say_status()
        elif view.filter is not None:
            view.narrow(None)
            if self._back is not None:
                self.show_view(self._back)
            self.look()
        elif view.table.marks:
            view.table.mark(())
        elif self.view != "overview":
            self.show_view("overview")
        else:
            self.refuse("Esc: there is nothing to go back from; q quits.")

    def _choose(self, queue: str | None) -> None:
        if queue != self.queue:
            self.navigation.leaving()
            self.queue = queue
            for view in self._views.values():
                if view.name_ != "overview":
                    view.forget()

    def _go_home(self) -> None:
        """The view that shows what this queue is about."""
        has = self.open_queue.features if self.open_queue else frozenset()
        home: View = (
            "requests" if "HasRequests" in has else "delayed" if "HasTimeline" in has else "dead"
        )
        self.show_view(home)

    @property
    def open_queue(self) -> ListedQueue | None:
        return next((queue for queue in self.queues if queue.name == self.queue), None)

    @property
    def _under_cursor(self) -> ListedQueue | None:
        """The queue that a digit opens from the overview."""
        under = self._overview.table.identity
        return next((queue for queue in self.queues if queue.name == under), None)

    @property
    def _counts(self) -> Counts | None:
        """The counts of the queue that is open; before they are read, those of the overview."""
        seen = self.snapshot
        if seen is not None and seen.viewport.queue == self.queue and seen.counts is not None:
            return seen.counts
        return self._overview.counts_of(self.queue)

    @property
    def queues(self) -> tuple[ListedQueue, ...]:
        """All there are, by name."""
        return self.snapshot.queues if self.snapshot else ()

    def look(self) -> None:
        self.current.table.focus()
        self.tick()
        self.poller.wake()

    def on_paged_table_opened(self, opened: PagedTable.Opened) -> None:
        if opened.table is not self.current.table:
            return  # a click on another view was faster
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
        elif self._preview.display:
            self._preview.enter()
        elif self.current.named_rows:
            self.refuse("Enter: the row shows all that is known of it.")
        else:
            self.open_detail(opened.identity)

    def open_detail(self, id: str) -> None:
        """Show all that is known of an entry or request of the queue that is open."""
        self._detail = id
        self._open(DetailScreen(id), self._left_detail)
        self.poller.wake()

    def open_place(self, view: View, queue: str | None, filter: Query | None = None) -> None:
        """Show a view of a queue; the overview of a queue is what that queue is about."""
        if queue is not None:
            self._choose(queue)
        if view == "overview" and queue is not None:
            self._go_home()
        else:
            self.show_view(view)
        if filter is not None:
            self.current.narrow(filter)
            self.look()

    def action_go_back(self) -> None:
        self.refuse(self.navigation.back())

    def action_go_forward(self) -> None:
        self.refuse(self.navigation.forward())

    def _narrowed(self, view: View, expression: str) -> None:
        """Another view of what a row stands for; Esc leads back."""
        from redisq_ops.ops.filter.parser import FilterError, parse

        try:
            query = parse(expression)
        except FilterError as error:  # a consumer's name may be any bytes
            self.notify(printable(error.why), severity="warning", markup=False)
            return
        came = self.view
        self.show_view(view)
        self._back = came
        self.current.narrow(query)
        self.poller.wake()
        self.say_status()

    def on_paged_table_wanted(self) -> None:
        self.poller.wake()

    def on_paged_table_nothing_selected(self) -> None:
        self.refuse(NOTHING)

    def on_paged_table_moved(self) -> None:
        self.tick()

    def on_paged_table_marked(self) -> None:
        self.current.everything = False
        self.say_status()

    # --- preview -------------------------------------------------------------------------------

    @property
    def _previewed(self) -> PreviewSubject | None:
        """The row under the cursor, where rows are entries or requests."""
        view = self.current
        if not view.has_details or self._notice.display:
            return None
        return PreviewSubject(view.name_, self.queue, view.table.identity)

    def action_preview(self) -> None:
        self._preview.open = not self._preview.open
        self.look()

    def on_preview_pane_wanted(self) -> None:
        self.poller.wake()

    def on_preview_pane_left(self) -> None:
        self.screen.set_focus(self.current.table)

    def on_entry_tree_filter_wanted(self, wanted: EntryTree.FilterWanted) -> None:
        """Show only entries that match one more condition; the cursor stays on its own."""
        from redisq_ops.ops.filter.parser import FilterError, parse

        view = self.current
        if view.state is None:
            self.notify("Only lists of entries can be filtered so.", severity="warning")
            return
        before, more = view.filter.text if view.filter else "", wanted.condition
        if more in before:
            self.notify("The list is filtered by this already.", severity="warning")
            return
        text = f"({before}) {more}" if " or " in before.lower() else f"{before} {more}"
        try:
            query = parse(text.strip(), utc=self.zone is UTC)
        except FilterError as error:
            self.notify(printable(error.why), severity="warning", markup=False)
            return
        if isinstance(self.screen, DetailScreen):
            self.screen.dismiss(None)  # type: ignore[unused-awaitable]
        view.narrow(query, keep=True)
        self.poller.wake()
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
        self.look()

    def action_sort(self) -> None:
        self.current.next_order()
        self.look()

    def action_turn(self) -> None:
        self.current.turn_order()
        self.look()

    def on_paged_table_header_clicked(self, clicked: PagedTable.HeaderClicked) -> None:
        self.current.sort_by(clicked.key)
        self.look()

    def action_zoom(self, step: int) -> None:
        if why := self.current.zoom(step):
            self.refuse(f"Zoom: {why}")
        else:
            self.look()

    def action_all_queues(self) -> None:
        if self.view != "charts":
            self.refuse("a: only charts (v) can be of all queues together.")
        else:
            self._charts.toggle_all_queues()
            self.look()

    def action_only_trouble(self) -> None:
        """In the overview all queues again, or only those in trouble; elsewhere go there."""
        overview = self._overview
        if self.view == "overview" or not overview.only_trouble:
            overview.toggle_trouble()
        if self.view != "overview":
            self.show_view("overview")
        self.look()

    def action_yank(self) -> None:
        if (identity := self.current.table.identity) is not None:
            copied = self.current.copied(identity)
            self.copy_to_clipboard(copied)
            self.notify(f"copied {printable(copied)}", markup=False)
        else:
            self.refuse(NOTHING)

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
            self.refuse(NOTHING)
            return
        self._explain(about)

    def _explain(self, about: ExplainSubject) -> None:
        self._open(ExplainScreen(about, self.zone), lambda _: self.poller.wake())
        self.poller.wake()

    def on_explain_screen_suggested(self, suggested: ExplainScreen.Suggested) -> None:
        """The dialog of a command that helps, or else its line."""
        from redisq_ops.ops.hint import words_of
        from redisq_ops.tui.suggested_change import suggested_change

        words, _ = words_of(suggested.command)
        if words[:1] == ["explain"]:
            queue, _, id = words[1].partition("/")
            self._explain(ExplainSubject(queue, id or None))
        elif words[:1] and words[0] in NOT_HERE:
            self.copy_to_clipboard(suggested.command)
            self.notify(f"copied: {NOT_HERE[words[0]]}", markup=False)
        elif self.read_only:
            self.refuse("this dashboard is read-only.")
        elif change := suggested_change(suggested.command):
            self.changes.suggested(change)
        else:
            self._close_screens()
            self._command.begin(suggested.command.removeprefix("redisq "))

    def on_explain_screen_followed(self, followed: ExplainScreen.Followed) -> None:
        """Where a name of an explanation leads."""
        link = followed.link
        if link.explain is not None:
            self._explain(link.explain)
            return
        self._close_screens()
        self._choose(followed.queue)
        if link.filter:
            self._narrowed(link.view, link.filter)
        else:
            self.show_view(link.view)
            self.current.keep(link.row)

    def _close_screens(self) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()  # type: ignore[unused-awaitable]
        self._detail = None

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
        """False hides a key that means nothing here or ever, None greys out what isn't allowed
        now. Pressed, either says why."""
        if self.focused in (self._field, self._command) or isinstance(self.focused, SearchInput):
            return False
        if action == "filter" and self._preview.has_focus_within:
            return False  # / searches there
        if action in _BEFORE_DIALOGS:
            return len(self.screen_stack) == 1
        if unfit(self, action, parameters):
            return False
        if self.forbidden(action):
            return False if self.read_only else None
        return True

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
            self._command.begin(f"{OF_CLIENTS[verb]} %q %{_LAST[verb]}")
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
        self.look()
        if line:
            self.commands.run(line)

    def switch_server(self, context: str) -> None:
        """Leave this server for that of another context; nothing of this one is kept."""
        if self.changes.running:
            self.refuse("A change is running here: Esc stops it, then :ctx leaves.")
            return
        source = self.host.open_context(context)
        self.workers.cancel_group(self, "poller")
        self.workers.cancel_group(self, "jump")
        self.source, self.snapshot, self.problem, self._seen_at = source, None, None, None
        self.queue, self.view, self._back = None, "overview", None
        for view in self._views.values():
            view.forget()
        self._charts.samples = Samples()
        self.clear_notifications()  # they name changes that could be undone there
        self.changes, self.navigation = Changes(self), Navigation(self)
        self._opened = True
        self._switcher.current = "overview"
        frozen, interval = self.poller.frozen, self.poller.interval
        self.poller = Poller(source, self.viewport, self.post_message, interval)
        self.poller.frozen = frozen
        self.run_worker(self.poller.run(), group="poller")
        self._watch_for_alerts()
        self.refresh_bindings()
        self.look()

    def _watch_for_alerts(self) -> None:
        """Begin to look for new trouble on this server, if the configuration file says so."""
        if self.settings.alerts is not None:
            watch = AlertWatch(self.settings.alerts)
            self.run_worker(watch.run(self.source, self._alert), group="alerts", exclusive=True)

    def _alert(self, found: Sequence[Standing]) -> None:
        text = alert_text(found)
        self.notify(text, title="New trouble", severity="warning", markup=False, timeout=30)
        if self.settings.alerts is not None and self._driver is not None:
            notify_terminal(self._driver.write, text, self.settings.alerts.notify)

    def action_saved_filter(self) -> None:
        self.push_screen(SavedFiltersScreen(self.settings.filters), self.commands.apply_filter)  # type: ignore[unused-awaitable]

    def action_command_palette(self) -> None:
        from textual.command import CommandPalette

        from redisq_ops.tui.command_palette import DashboardPalette

        if len(self.screen_stack) == 1:
            self._open(CommandPalette(providers=[DashboardPalette], placeholder="Find …"))

    def refresh_every(self, seconds: float) -> None:
        self.interval = self.poller.interval = seconds
        self.poller.frozen = False
        self.poller.wake()
        self.notify(f"refreshed every {seconds:g} s", markup=False)

    def action_freeze(self) -> None:
        """Look no more by itself, so that the screen holds still; again: go on."""
        self.poller.frozen = not self.poller.frozen
        if not self.poller.frozen:
            self.poller.wake()
        self.tick()

    def action_page(self) -> None:
        """What is under the cursor in the person's pager."""
        rows, queue = self.addresses.rows, self.addresses.queue
        if self.view in ("levels", "requests") and rows:
            words = ["inspect", "request", rows[0]]
        elif self.current.state is not None and rows:
            words = ["inspect", "entry", rows[0]]
        elif queue is not None:
            words = ["inspect", "queue", queue]
        else:
            self.refuse(NOTHING)
            return
        self.changes.page(words)

    @property
    def addresses(self) -> RowAddresses:
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
