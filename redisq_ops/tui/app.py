"""`redisq-top`: one poller, one snapshot, six views that draw it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Coroutine
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Footer, Input, Static

from redisq_ops.ops.snapshot import Listed, Snapshot, View, Wish
from redisq_ops.ops.terminal import printable
from redisq_ops.tui.banner import Banner, State, Tabs
from redisq_ops.tui.detail import DetailScreen
from redisq_ops.tui.help import HelpScreen
from redisq_ops.tui.poller import Missed, Poller, Seen, Source
from redisq_ops.tui.table import PagedTable
from redisq_ops.tui.theme import REDISQ
from redisq_ops.tui.views import ALL, QueueView

if TYPE_CHECKING:
    from redisq_ops.core.queue import Verb
    from redisq_ops.ops.deployment import Deployment


_BY_NAME = {view.name_: view for view in ALL}


class Field(Input):
    """Where the filter is typed; it takes effect with every letter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep this filter"),
        Binding("escape", "drop", "Drop it"),
    ]

    def action_drop(self) -> None:
        self.value = ""
        self.post_message(self.Submitted(self, ""))


class Top(App[Exception]):
    """The dashboard. Ends with None, or with the error that made it useless to go on."""

    CSS_PATH = "top.tcss"
    TITLE = "redisq-top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(key), f"view('{view.name_}')", view.about, show=False)
            for key, view in enumerate(ALL, 1)
        ),
        Binding("tab,right_square_bracket", "queue(1)", "Next queue", show=False, priority=True),
        Binding(
            "shift+tab,left_square_bracket",
            "queue(-1)",
            "Previous queue",
            show=False,
            priority=True,
        ),
        Binding("slash", "filter", "Filter", tooltip="Show only what a regular expression matches"),
        Binding("s", "sort", "Sort", tooltip="Sort in the next way there is"),
        Binding("y", "yank", "Copy", show=False, tooltip="Copy the id to the clipboard"),
        Binding(
            "A",
            "everything",
            "All matching",
            tooltip="Aim the next key at all that match",
        ),
        Binding(
            "R", "act('requeue')", "Requeue", tooltip="Requeue: pending or delayed → waiting now"
        ),
        Binding("C", "act('claim')", "Claim", tooltip="Claim: pending → yours, receipt void"),
        Binding("P", "act('replay')", "Replay", tooltip="Replay: dead → waiting, attempts afresh"),
        Binding("X", "act('purge')", "Purge", tooltip="Purge: any → trash, until undo expires"),
        Binding("H", "hold", "Hold", tooltip="Hold or resume the queue, or the requests"),
        Binding("U", "undo", "Undo", tooltip="Undo the latest change"),
        Binding(
            "escape", "leave", "Back", show=False, tooltip="Stop a change, drop the filter, go back"
        ),
        Binding("question_mark", "help", "Help", tooltip="These keys"),
        Binding("q,ctrl+c", "quit", "Quit", tooltip="Leave the dashboard"),
    ]

    def __init__(
        self,
        source: Source,
        *,
        interval: float = 1.0,
        queue: str | None = None,
        read_only: bool = False,
        zone: tzinfo | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.source = source
        self.interval = interval
        self.view: View = "overview"
        self.queue = queue
        self.read_only = read_only
        self.zone = zone
        self.snapshot: Snapshot | None = None
        self.everything = False
        self.stopping = False
        self.last_op: str | None = None
        """the latest change made here"""
        self.clock = clock
        self._opened = queue is None
        self._detail: str | None = None
        self._seen_at: float | None = None
        self.problem: Exception | None = None
        self._progress = ""
        self._said_at = 0.0
        self._warned: str | None = None
        # Held, not queried: messages still come while the screen is being taken apart at the end.
        self._views = {view.name_: view() for view in ALL}
        self._banner, self._tabs = Banner(), Tabs()
        self._notice, self._status = (
            Static(id="notice", markup=False),
            Static(id="status", markup=False),
        )
        self._field = Field(id="filter", compact=True, placeholder="regular expression: id, error")
        self._switcher = ContentSwitcher(*self._views.values(), initial="overview", id="views")
        self.poller = Poller(source, self.wish, self.post_message, interval)

    def compose(self) -> ComposeResult:
        yield from (self._banner, self._tabs, self._notice, self._switcher, self._field)
        yield self._status
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.register_theme(REDISQ)
        self.theme = REDISQ.name
        self._field.display = self._notice.display = self._field.cursor_blink = False
        self.current.table.focus()
        self.set_interval(1.0, self.tick)
        # After the first frame: what the poller loads takes longer than drawing it.
        self.call_after_refresh(self.run_worker, self.poller.run(), group="poller")
        self.tick()

    # --- what is on the screen -----------------------------------------------------------------

    @property
    def current(self) -> QueueView:
        return self._views[self.view]

    def wish(self) -> Wish:
        """What the poller asks for."""
        view = self.current
        start, end = view.window
        buckets = max(10, min(200, self.size.width - 2))
        return Wish(view.name_, self.queue, start, end, view.descending, buckets, self._detail)

    def on_seen(self, seen: Seen) -> None:
        snapshot, self._seen_at, self.problem = seen.snapshot, self.clock(), None
        self.snapshot = snapshot
        if self.source.connected is not None and self.source.connected.read_only:
            self.read_only = True
        if self.source.warning is not None and self.source.warning != self._warned:
            self._warned = self.source.warning
            self.notify(self._warned, severity="warning", markup=False, timeout=30)
        if not self._opened:
            self._open_wished(snapshot)
        with self.batch_update():
            about = snapshot.wish.queue if self.view != "overview" else self.queue
            if (snapshot.wish.view, about) == (self.view, self.queue):
                self.current.show(snapshot)
            if isinstance(self.screen, DetailScreen):
                self.screen.show(snapshot)
            self.tick()

    def on_missed(self, missed: Missed) -> None:
        from redisq_ops.core.errors import BadInput

        if isinstance(missed.error, BadInput) and self.snapshot is None:
            self.exit(missed.error, return_code=2)
        self.problem = missed.error
        self.tick()

    def tick(self) -> None:
        """Say again what depends on time or state rather than on a snapshot."""
        snapshot = self.snapshot
        silent = None if self._seen_at is None else self.clock() - self._seen_at
        failing = self.problem is not None
        stale = silent is not None and (failing or silent > 2 * self.interval + 1)
        connected = self.source.connected
        self._banner.state = State(
            connected.label if connected else "", self.queue, snapshot, self.read_only,
            int(silent or 0) if stale else None, failing, self.zone,
        )  # fmt: skip
        self._tabs.state = (self.view, snapshot)
        self._say_notice()
        self._say_status()

    def _say_notice(self) -> None:
        said, view, snapshot = "", self.current, self.snapshot
        if view.name_ != "overview" and snapshot is not None:
            if self.queue is None:
                said = "There is no queue here yet."
            elif snapshot.wish.queue == self.queue:
                queue = snapshot.queue
                if queue is None or snapshot.problem is not None:
                    said = snapshot.problem or f"no queue {self.queue!r} here"
                elif view.needs is not None and view.needs not in queue.capabilities:
                    said = f"{queue.name} is a {queue.kind} queue: it has no {view.title}."
        self._notice.update(printable(said))
        self._notice.display = bool(said)
        self._switcher.display = not said

    def _say_status(self) -> None:
        said = (
            [self._progress]
            if self._progress
            else []
            if self._notice.display
            else self.current.status
        )
        if self.everything and not self._progress:
            said.insert(0, "ALL that match: a Shift key acts on every one, Esc on none")
        if self.problem is not None:
            said = [" ".join(str(self.problem).split()) or type(self.problem).__name__]
        self._status.update(printable(" · ".join(said)))
        self._status.set_class(self.everything or bool(self._progress), "-loud")
        self._status.set_class(self.problem is not None, "-bad")

    # --- moving about --------------------------------------------------------------------------

    def action_view(self, name: View) -> None:
        if name != "overview" and self.queue is None:
            self.queue = self.current.table.identity or next(
                (queue.name for queue in self._queues), None
            )
        self.everything = False
        self._end_filter()
        self.view = name
        self._switcher.current = name
        self.refresh_bindings()
        self._look()

    def on_tabs_chosen(self, chosen: Tabs.Chosen) -> None:
        self.action_view(chosen.view)

    def action_queue(self, step: int) -> None:
        names = [queue.name for queue in self._queues]
        if names and self.view != "overview":
            at = names.index(self.queue) if self.queue in names else -step
            self._choose(names[(at + step) % len(names)])

    def action_leave(self) -> None:
        if self._progress:
            self.stopping = True
        elif self.everything:
            self.everything = False
            self.tick()
        elif self.current.filter is not None:
            self.current.narrow(None)
            self._look()
        elif self.current.table.marks:
            self.current.table.mark(())
        elif self.view != "overview":
            self.action_view("overview")

    def on_paged_table_opened(self, opened: PagedTable.Opened) -> None:
        if self.view == "overview":
            self._choose(opened.identity)
            self._go_home()
        else:
            self._detail = opened.identity
            self._open(DetailScreen(opened.identity, self.zone), self._detail_closed)
            self.poller.wake()

    def on_paged_table_wanted(self) -> None:
        self.poller.wake()

    def on_paged_table_moved(self) -> None:
        self._say_status()

    def on_paged_table_marked(self) -> None:
        self.everything = False
        self._say_status()

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.height < 12, "-short")
        if self.snapshot is not None:
            self.poller.wake()

    def _detail_closed(self, _: None) -> None:
        self._detail = None

    @property
    def _queues(self) -> tuple[Listed, ...]:
        return self.snapshot.queues if self.snapshot else ()

    def _choose(self, queue: str) -> None:
        if queue != self.queue:
            self.queue = queue
            self.everything = False
            self._end_filter()
            for view in self._views.values():
                if view.name_ != "overview":
                    view.forget()
        self._look()

    def _go_home(self) -> None:
        """The first view that shows what this queue is about."""
        chosen = next((queue for queue in self._queues if queue.name == self.queue), None)
        has = chosen.capabilities if chosen else frozenset()
        home: View = "requests" if "requests" in has else "delayed" if "timeline" in has else "dead"
        self.action_view(home)

    def _open_wished(self, snapshot: Snapshot) -> None:
        self._opened = True
        if snapshot.queue is not None:
            self._go_home()
        else:
            self.notify(f"no queue {printable(self.queue or '')!r} here", severity="error",
                        markup=False)  # fmt: skip
            self.queue = None

    def _look(self) -> None:
        self.current.table.focus()
        self.tick()
        self.poller.wake()

    # --- filter, order, clipboard, help --------------------------------------------------------

    def action_filter(self) -> None:
        now = self.current.filter
        self._field.value = now.pattern if now else ""
        self._field.display = True
        self._field.focus()

    @on(Input.Changed, "#filter")
    def typed(self, changed: Input.Changed) -> None:
        if changed.input.display:
            self.everything = False
            try:
                pattern = re.compile(changed.value) if changed.value else None
            except re.error as error:
                self._progress = f"not a regular expression yet: {error.msg}"
            else:
                self._progress = ""
                self.current.narrow(pattern)
                self.poller.wake()
            self._say_status()

    @on(Input.Submitted, "#filter")
    def kept(self) -> None:
        self._end_filter()
        self._look()

    def _end_filter(self) -> None:
        if self._field.display:
            self._progress = ""
            self._field.display = False

    def action_sort(self) -> None:
        self.current.next_order()
        self._look()

    def action_yank(self) -> None:
        if (identity := self.current.table.identity) is not None:
            self.copy_to_clipboard(identity)
            self.notify(f"copied {printable(identity)}", markup=False)

    def action_help(self) -> None:
        self._open(HelpScreen())

    def _open(
        self, screen: ModalScreen[None], closed: Callable[[None], None] | None = None
    ) -> None:
        # Not awaited: its mounting needs this very message loop.
        self.push_screen(screen, closed)  # type: ignore[unused-awaitable]

    # --- changes -------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False hides a key that means nothing here, None greys out what is not allowed."""
        if isinstance(self.focused, Field):
            return False
        if action == "queue":  # asked before a dialog's own Tab
            return len(self.screen_stack) == 1
        if action not in ("act", "everything", "hold", "undo"):
            return True
        verbs = _BY_NAME[self.view].verbs
        if action == "everything" and not verbs:
            return False
        if action == "act" and parameters[0] not in verbs:
            return False
        return None if self.read_only else True

    @property
    def deployment(self) -> Deployment:
        """Where changes go."""
        assert self.source.connected is not None
        return self.source.connected.deployment

    def say(self, progress: str) -> None:
        """Show how far a change is, in place of the status line."""
        started, self._progress = bool(self._progress) != bool(progress), progress
        # A change takes thousands of steps a second; drawing each would be most of its work.
        if started or self.clock() - self._said_at > 0.1:
            self._said_at = self.clock()
            self._say_status()

    def tell(self, words: str, good: bool = True) -> None:
        """A toast: how something ended."""
        self.notify(printable_lines(words), severity="information" if good else "warning",
                    markup=False, timeout=8)  # fmt: skip

    def action_everything(self) -> None:
        self.everything = not self.everything
        self._say_status()

    def action_act(self, verb: str) -> None:
        view = self.current
        ids = () if self.everything else self._chosen
        if self.queue is None or view.state is None or not (ids or self.everything):
            return

        async def run() -> None:
            from . import act

            scope = act.Scope(self.queue or "", view.state or "dead", ids,
                              view.filter if self.everything else None)  # fmt: skip
            await act.move(self, cast("Verb", verb), scope)

        self._change(run)

    def action_hold(self) -> None:
        view = self.current
        requests = view.needs is not None
        name = view.table.identity if self.view == "overview" else self.queue
        ids = self._chosen if requests else ()
        if name is None or (requests and not ids):
            return

        async def run() -> None:
            from . import act

            await (act.hold_requests(self, name, ids) if requests else act.hold_queue(self, name))

        self._change(run)

    def action_undo(self) -> None:
        async def run() -> None:
            from . import act

            await act.undo(self, None if self.view == "overview" else self.queue)

        self._change(run)

    @property
    def _chosen(self) -> tuple[str, ...]:
        """The marked rows, else the one under the cursor."""
        table = self.current.table
        if table.marks:
            return tuple(sorted(table.marks))
        if table.identity is None:
            self.tell("Nothing is under the cursor: its entry went away.", False)
            return ()
        return (table.identity,)

    def _change(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if any(worker.group == "act" and worker.is_running for worker in self.workers):
            self.tell("One change at a time: Esc stops the running one.", False)
            return
        self.stopping = False
        self.run_worker(self._guarded(run), group="act")

    async def _guarded(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await run()
        except Exception as error:
            from .act import Stopped

            if isinstance(error, Stopped):
                self.tell("Stopped; nothing was changed.", False)
            else:
                self.notify(printable(str(error)), severity="error", markup=False, timeout=8)
        finally:
            self.everything = False
            self.say("")
            self.current.table.mark(())
            self.poller.wake()


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))
