"""The dashboard: one poller, its latest snapshot, and the views and bars that draw it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import App, ComposeResult
from textual.containers import Container
from textual.filter import LineFilter, Monochrome
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from redisq_ops.ops.inspect.snapshot import ExplainSubject, ListedQueue, Snapshot, View, Viewport
from redisq_ops.ops.terminal import printable
from redisq_ops.tui.alerts import AlertWatch, alert_text, notify_terminal
from redisq_ops.tui.bars import Bars
from redisq_ops.tui.change.changes import Changes
from redisq_ops.tui.command.command_line import CommandInput, RowAddresses
from redisq_ops.tui.command.command_runner import CommandRunner
from redisq_ops.tui.command.context_screen import ContextScreen
from redisq_ops.tui.dashboard_settings import DashboardSettings
from redisq_ops.tui.guide import GuideStep, GuideStrip
from redisq_ops.tui.host import FIRST, Host
from redisq_ops.tui.input_order import InputOrder
from redisq_ops.tui.keys.key_footer import KeyFooter
from redisq_ops.tui.marks import Mark, Marks
from redisq_ops.tui.navigation import Navigation
from redisq_ops.tui.poller import Missed, Poller, SnapshotFetched, SnapshotSource
from redisq_ops.tui.samples import Samples
from redisq_ops.tui.screens.detail_screen import DetailScreen
from redisq_ops.tui.screens.explain_screen import ExplainScreen
from redisq_ops.tui.screens.explanations import Explanations
from redisq_ops.tui.screens.opened_screen import Opened, OpenedScreen
from redisq_ops.tui.screens.preview_pane import PreviewPane, PreviewSubject
from redisq_ops.tui.screens.server_screen import ServerScreen
from redisq_ops.tui.signals import end_on_signals
from redisq_ops.tui.table.filter_input import FilterInput
from redisq_ops.tui.theme import COLORS, NO_COLOR, THEMES, ThemeColors
from redisq_ops.tui.views import (
    ALL,
    AllDeadView,
    ChangeTarget,
    ChartsView,
    GroupsView,
    OverviewView,
    QueueView,
)
from redisq_ops.tui.views.base import redaction_of
from redisq_ops.tui.views.entry_view import EntryView

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Counts
    from redisq_ops.ops.check.standing import Standing


class Dashboard(App[Exception]):
    """What the dashboard shows. Ends with None, or with the error that made it useless to go on."""

    CSS_PATH = "top.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-below"), (140, "-beside")]  # noqa: RUF012 (declared so by App)
    TITLE = "redisq-top"
    ENABLE_COMMAND_PALETTE = False

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
        guide: Sequence[Sequence[GuideStep]] = (),
    ) -> None:
        """``interval``: seconds; ``queue``: opened at once; ``host``: runs commands and opens other
        servers; ``clock``: measures ages on the screen; ``guide``: the steps of each of a
        demo's incidents."""
        self._theme_colors = {name: ThemeColors(name) for name in COLORS}
        super().__init__()
        self.settings = settings or DashboardSettings()
        for theme in THEMES.values():
            self.register_theme(theme)
        # Before anything is mounted: a later choice would style every widget a second time.
        self.theme = self.settings.theme
        self.stylesheet.set_variables(self.get_css_variables())
        self.source = source
        self.interval = interval
        self.queue = queue
        """the open queue, which all views but the overview show"""
        self.view: View = "overview"
        self._read_only = read_only
        self.zone = zone
        self.clock = clock
        self.snapshot: Snapshot | None = None
        self.problem: Exception | None = None
        """why the latest poll brought no snapshot"""
        self.poller = Poller(source, self.viewport, self.post_message, interval)
        self.changes = Changes(self)
        self.host = host or Host()
        self.navigation, self.explanations = Navigation(self), Explanations(self)
        self.marks = Marks()
        self.refused = ""
        """why the latest key had no effect"""
        self._order = InputOrder(self)
        self._in_terminal = False
        self._opened = queue is None
        self.seen_at: float | None = None
        self.bars = Bars(self)
        self.field = FilterInput()
        self.commands = CommandRunner(self)
        self._typed = list[str]()
        """the commands typed so far"""
        self._line = self.new_line()
        self.guide = GuideStrip(guide) if guide else None
        self.overview, self.charts, self.all_dead = OverviewView(), ChartsView(), AllDeadView()
        own = (self.overview, self.all_dead, self.charts)
        others = (view() for view in ALL if view not in map(type, own))
        self.views: dict[View, QueueView] = {view.name_: view for view in (*own, *others)}
        self._switcher = ContentSwitcher(self.overview, initial="overview", id="views")
        self.preview = PreviewPane()
        self.preview.mode = self.settings.preview
        self.split = Container(self._switcher, self.preview, id="split")

    def compose(self) -> ComposeResult:
        yield from (self.bars.banner, self.bars.tabs, *([self.guide] if self.guide else []))
        yield from (self.bars.notice, self.split, self.field)
        yield from (self._line.completions, self._line, self.bars.status)
        yield KeyFooter()

    def run(self, *args: Any, **options: Any) -> Exception | None:
        self._in_terminal = True
        return super().run(*args, **options)

    def on_load(self) -> None:
        if self._in_terminal:  # before the terminal is changed
            end_on_signals(self)

    def on_mount(self) -> None:
        self.set_keymap(dict(self.settings.keys))
        for name, columns in self.settings.columns.items():
            self.views[name].table.keep_columns(columns)
        if self.settings.dead_by != self.all_dead.column:
            self.all_dead.divide(self.settings.dead_by)
        self.current.table.focus()
        # After `fg` the screen is empty, and Textual would draw only what changes.
        self.app_resume_signal.subscribe(self, lambda _: self._redraw())
        self.set_interval(1.0, self.tick)
        self._watch_for_alerts()
        self.run_worker(self.poller.run(), group="poller")
        self.tick()

    def _mount_views(self) -> None:
        """Mount the views that are not open, after the first frame: it appears sooner."""
        rest = [view for view in self.views.values() if not view.is_attached]
        for view in rest:
            view.display = False
        if rest:
            self._switcher.mount(*rest)  # type: ignore[unused-awaitable]

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        grey = self.current_theme.dark and any(isinstance(one, Monochrome) for one in filters)
        own = (self._theme_colors.get(name) for name in (NO_COLOR if grey else "", self.theme))
        return [*filter(None, own), *filters]

    def _redraw(self) -> None:
        for widget in self.screen.walk_children():
            widget.refresh()
        self.refresh(layout=True)

    def _fatal_error(self) -> None:
        """Leave after a crash, without the local variables that Textual prints: they may hold
        payloads."""
        from rich.traceback import Traceback

        self.bell()
        self.panic(Traceback(show_locals=False))

    # --- snapshots -------------------------------------------------------------------------------

    @property
    def current(self) -> QueueView:
        return self.views[self.view]

    def viewport(self) -> Viewport:
        """What the poller reads for the screen."""
        view = self.current
        start, end = view.window
        buckets = max(10, min(200, self.size.width - 2))
        return Viewport(
            view.name_,
            self.queue,
            start,
            end,
            view.descending,
            buckets,
            self._read_in_full,
            view.fetched,
            self._explained,
            self.zone,
            view.in_sight,
            view.charts,
            any(isinstance(screen, ServerScreen) for screen in self.screen_stack),
            view.bar_ms,
            self.all_dead.column if view in (self.all_dead, self.overview) else "",
        )

    @property
    def _read_in_full(self) -> str | None:
        """The entry or request that a screen or the preview shows."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, DetailScreen):
                return screen.entry.wanted
        return self.preview.wanted

    @property
    def _explained(self) -> ExplainSubject | None:
        """The subject of the topmost explanation."""
        explaining = (s.about for s in reversed(self.screen_stack) if isinstance(s, ExplainScreen))
        return next(explaining, None)

    def on_snapshot_fetched(self, seen: SnapshotFetched) -> None:
        if not self.screen_stack or seen.source is not self.source:
            return  # the dashboard ends, or has switched to another server
        first, self.snapshot = self.snapshot is None, seen.snapshot
        self.charts.samples.record(seen.snapshot)
        self.overview.new_dead.record(seen.snapshot)
        self.seen_at, self.problem = self.clock(), None
        if first:
            self._connected()
        with self.batch_update():
            if self.answered:
                self.current.show(seen.snapshot)
                self.preview.show(seen.snapshot)
            for screen in self.screen_stack:
                if isinstance(screen, (OpenedScreen, ServerScreen)):
                    screen.show(seen.snapshot)
            self.tick()
            if self.focused is None and len(self.screen_stack) == 1:
                self.current.table.focus()  # a hidden table can't take the focus

    @property
    def answered(self) -> bool:
        """Whether the latest snapshot is of the open view and queue."""
        if self.snapshot is None:
            return False
        viewport = self.snapshot.viewport
        return viewport.view == self.view and (
            viewport.queue == self.queue or self.current.of_all_queues
        )

    def on_missed(self, missed: Missed) -> None:
        from redisq_ops.core.model.errors import BadInput

        if not self.screen_stack or missed.source is not self.source:
            return
        if self.snapshot is None and self.problem is None:
            self._collect_garbage()
        if isinstance(missed.error, BadInput) and self.snapshot is None:
            self.exit(missed.error)
        self.problem = missed.error
        self.tick()

    def _collect_garbage(self) -> None:
        """From now on collect garbage, though rarely, and not among the objects of the modules:
        that would take a fifth of the CPU time of a refresh."""
        if self._in_terminal:
            gc.freeze()
            gc.set_threshold(10_000)
            gc.enable()

    def _connected(self) -> None:
        self._collect_garbage()
        if self.read_only:
            self.refresh_bindings()
        if self.source.warning is not None:
            self.notify(self.source.warning, severity="warning", markup=False, timeout=30)
        self.call_after_refresh(self._mount_views)
        if self._opened or self.snapshot is None:
            return
        self._opened = True
        if self.snapshot.queue is None:
            name, self.queue = printable(self.queue or ""), None
            self.notify(f"no queue {name!r} here", severity="error", markup=False)
        else:
            self.navigation.go_home()

    # --- what is shown ---------------------------------------------------------------------------

    def drop_unreadable_filter(self) -> bool:
        """Remove a filter with an error when its line is left; False: there is none."""
        if not self.field.problem:
            return False
        self.field.display = False
        self.current.narrow(None)
        return True

    def show_only(self, name: View) -> None:
        """Put one view in front of the others."""
        self._mount_views()
        self.field.display = False
        self.current.everything = False
        self.view = self._switcher.current = name

    def show_queue(self, queue: str | None) -> None:
        """Open another queue, with empty views."""
        own = [view for view in self.views.values() if not view.of_all_queues]
        self.marks.put_away(self.queue, own)
        self.queue = queue
        for view in own:
            view.forget()
        self.marks.bring_back(queue, own)

    def new_line(self) -> CommandInput:
        """A line for commands, for one more screen."""
        return CommandInput(self.commands.completed, self._typed)

    @property
    def command(self) -> CommandInput:
        """The line for commands of the screen over the view, or else of the view."""
        screen = self.opened_screen
        return self._line if screen is None else screen.line

    def open_screen(
        self, screen: Screen[None], closed: Callable[[None], None] | None = None
    ) -> None:
        # Not awaited: the screen is mounted by this message loop.
        self.push_screen(screen, closed)  # type: ignore[unused-awaitable]

    def drop_scan(self, changed_in: QueueView | None) -> None:
        """Drop what a search has found, and the groups of a full scan if the change was made in
        another view: they are outdated."""
        for view in self.views.values():
            if isinstance(view, EntryView) and view.found is not None:
                view.take(None)
        groups = self.views["groups"]
        if changed_in is not groups and isinstance(groups, GroupsView) and groups.whole:
            groups.take(None)

    def look(self) -> None:
        """Focus what the screen in front lists, and poll at once."""
        if isinstance(self.screen, OpenedScreen):
            self.screen.take_focus()
        else:
            self.current.table.focus()
        self.tick()
        self.poller.wake()

    def tick(self) -> None:
        """Redraw what depends on the time or on keys rather than on a snapshot."""
        self.bars.tick()

    def say_status(self) -> None:
        """Redraw the status line: a problem, a running change, or the position in the list."""
        self.bars.say_status()

    def refuse(self, why: str) -> None:
        """Say why a key has no effect."""
        self.refused = why
        if why and len(self.screen_stack) > 1:  # the line above the keys is behind a dialog
            self.notify(why, severity="warning", markup=False, timeout=3)
        self.say_status()

    # --- what is open ----------------------------------------------------------------------------

    @property
    def open_queue(self) -> ListedQueue | None:
        return self.listed(self.queue)

    def listed(self, name: str | None) -> ListedQueue | None:
        """The queue of that name, if it exists."""
        return next((queue for queue in self.queues if queue.name == name), None)

    @property
    def queues(self) -> tuple[ListedQueue, ...]:
        """All queues of the server, by name."""
        return self.snapshot.queues if self.snapshot else ()

    @property
    def under_cursor(self) -> ListedQueue | None:
        """The queue that a digit opens from a view of all queues."""
        under = (self.current if self.current.of_all_queues else self.overview).row_queue
        return self.listed(under)

    @property
    def counts(self) -> Counts | None:
        """The counts of the open queue; those of the overview until they are read."""
        seen = self.snapshot
        if seen is not None and seen.viewport.queue == self.queue and seen.counts is not None:
            return seen.counts
        return self.overview.counts_of(self.queue)

    @property
    def preview_subject(self) -> PreviewSubject | None:
        """What the preview shows: the row under the cursor or, for a group, its latest entry."""
        view, seen = self.current, self.current.snapshot
        if not view.has_preview or self.bars.notice.display:
            return None
        queue, item = self.queue, view.item
        if view.has_details or view.read_by_row:
            shown = view.subject if view.has_details else view.table.identity
            return PreviewSubject(view.name_, queue, shown, item)
        if item is None or seen is None:
            return PreviewSubject(view.name_, queue, None, sections=list)
        if view is self.overview:
            chart = partial(self.overview.preview_chart, item, seen)
            return PreviewSubject(view.name_, None, item.title, chart=chart)
        sections = partial(view.preview_sections, item, seen)
        return PreviewSubject(view.name_, queue, view.table.identity, sections=sections)

    @property
    def marked(self) -> tuple[Mark, ...]:
        """What is marked, in all views and queues."""
        return tuple(self.marks.all(self.queue, list(self.views.values())))

    @property
    def opened_screen(self) -> OpenedScreen | None:
        """The topmost screen about an entry, request or queue; None: the view is in front."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, OpenedScreen)), None)

    @property
    def opened(self) -> Opened | None:
        """What that screen is about."""
        screen = self.opened_screen
        return None if screen is None else screen.opened

    @property
    def acting(self) -> QueueView:
        """The view whose keys apply: the open one, or the one that lists what a screen shows."""
        opened = self.opened
        return self.current if opened is None else self.views[opened.view or "overview"]

    @property
    def acting_queue(self) -> str | None:
        """The queue that these keys are about."""
        opened = self.opened
        return self.queue if opened is None else opened.queue

    @property
    def chosen(self) -> tuple[str, ...]:
        """What the next key is about: what a screen shows, or else the rows of the view."""
        opened = self.opened
        if opened is None:
            return self.current.chosen
        return (opened.queue,) if opened.view is None else (opened.id or "",)

    @property
    def target(self) -> ChangeTarget | None:
        """The entries that the next change applies to; None: there are none."""
        state = self.acting.state
        if self.opened is None:
            return self.current.target
        return None if state is None else ChangeTarget(state, self.chosen)

    @property
    def addresses(self) -> RowAddresses:
        opened = self.opened
        if opened is not None:
            whole = opened.queue if opened.id is None else f"{opened.queue}/{opened.id}"
            return RowAddresses((whole,), opened.queue)
        view, under = self.current, self.current.chosen
        if view.holds == "queues":
            return RowAddresses(under, view.row_queue)
        if view.named_rows and view.holds != "periodic":
            return RowAddresses(under, self.queue)
        if view.of_all_queues:
            return RowAddresses((), view.row_queue)
        if self.queue is None or (view.state is None and view.holds == "queue"):
            return RowAddresses((), self.queue)  # its rows are no entries
        return RowAddresses(tuple(f"{self.queue}/{id}" for id in under), self.queue)

    @property
    def read_only(self) -> bool:
        """Whether changes are refused; known once connected, before the first snapshot."""
        connected = self.source.connected
        return self._read_only or (connected is not None and connected.read_only)

    # --- server ----------------------------------------------------------------------------------

    def switch_server(self, context: str) -> None:
        """Switch to another context's server; screens, queue, filters and notifications of this one
        are dropped."""
        if self.changes.running:
            self.refuse("A change is running here: Esc stops it, then :ctx leaves.")
            return
        source = self.host.open_context(context)
        self.navigation.close_screens()
        for group in ("poller", "jump", "marks"):
            self.workers.cancel_group(self, group)
        self.source, self.snapshot, self.problem, self.seen_at = source, None, None, None
        self.queue, self.view = None, "overview"
        for view in self.views.values():
            view.forget()
        self.charts.samples = Samples()
        self.clear_notifications()  # they name changes that could be undone there
        self.changes, self.navigation, self.marks = Changes(self), Navigation(self), Marks()
        self._opened = True
        self._switcher.current = "overview"
        frozen, interval = self.poller.frozen, self.poller.interval
        self.poller = Poller(source, self.viewport, self.post_message, interval)
        self.poller.frozen = frozen
        self.run_worker(self.poller.run(), group="poller")
        self._watch_for_alerts()
        self.refresh_bindings()
        self.look()

    def choose_context(self) -> None:
        """List the contexts, and switch to the chosen one."""
        connected = self.source.connected
        open_one = FIRST if connected is None else connected.context
        answers = self.snapshot is not None and self.problem is None
        screen = ContextScreen(self.host.contexts(), open_one, answers)

        def chosen(name: str | None) -> None:
            if name is not None and name != open_one:
                self.commands.run(f"ctx {name}")

        self.push_screen(screen, chosen)  # type: ignore[unused-awaitable]

    def _watch_for_alerts(self) -> None:
        """Begin to watch this server for new trouble, if the configuration file asks for it."""
        if self.settings.alerts is not None:
            watch = AlertWatch(self.settings.alerts)
            self.run_worker(watch.run(self.source, self._alert), group="alerts", exclusive=True)

    def _alert(self, found: Sequence[Standing]) -> None:
        text, redaction = alert_text(found), redaction_of(self)
        text = text if redaction is None else redaction.text(text)
        self.notify(text, title="New trouble", severity="warning", markup=False, timeout=30)
        if self.settings.alerts is not None and self._driver is not None:
            notify_terminal(self._driver.write, text, self.settings.alerts.notify)

    def refresh_every(self, seconds: float) -> None:
        self.interval = self.poller.interval = seconds
        self.poller.frozen = False
        self.poller.wake()
        self.notify(f"refreshed every {seconds:g} s", markup=False)
