"""One change at a time: from a Shift key to the toast that says how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from redisq_ops.ops.terminal import printable
from redisq_ops.tui.keys.key_refusals import OF_CLIENTS, nothing_selected
from redisq_ops.tui.marks import marks_in
from redisq_ops.tui.views.consumers import parted

if TYPE_CHECKING:
    from datetime import tzinfo

    from redisq_ops.core.model.states import Verb
    from redisq_ops.core.model.worker_command import WorkerWord
    from redisq_ops.core.queues.request.queue import Control
    from redisq_ops.ops.change.audit_log import Operation
    from redisq_ops.ops.change.consumer_groups import GroupVerb
    from redisq_ops.ops.change.limits import Guard
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.ops.inspect.snapshot import ListedQueue
    from redisq_ops.ops.redaction import Redaction
    from redisq_ops.tui.change.confirm_dialog import Question
    from redisq_ops.tui.change.speed_fields import ChangeSpeed
    from redisq_ops.tui.change.value_dialog import WantedValue
    from redisq_ops.tui.views import GroupsView, QueueView
    from redisq_ops.tui.views.entry_view import EntryView

    from ..dashboard import Dashboard

_EVERY_S = 0.1


class Changes:
    """Runs a change in the background; Esc stops it between two steps.

    What a change does is in `run_change`, loaded with the first one: it brings the Redis client.
    """

    def __init__(self, app: Dashboard) -> None:
        self._app = app
        self.progress = ""
        """how far the running change is; empty: none runs"""
        self.stopping = False
        self.why = ""
        """the reason given for the running change"""
        self.speed: ChangeSpeed
        """the speed set in the dialog; known once somebody was asked"""
        self.complete = False
        """whether the latest change went through to its end"""
        self.last_op: str | None = None
        """the latest change made here"""
        self._said_at = 0.0
        self._place: object = None
        """what was in front when the running change was asked for"""

    # --- what keys ask for ---------------------------------------------------------------------

    def move(self, verb: str, view: QueueView) -> None:
        """Carry out a verb on the view's target: all, the marked or the current entries."""
        if why := view.refusal:
            return self.tell(why, False)
        target, chosen = self._app.target, self._app.chosen
        queue = target.queue if target and target.queue else self._app.acting_queue
        if queue is None or target is None:
            return self._nothing()

        async def run() -> bool:
            from . import run_change

            changed = await run_change.move(self, cast("Verb", verb), queue, target)
            if changed:
                view.acted_on(chosen if self.complete else ())
            return changed

        self._start(run, view)

    def take_over(self, verb: str, view: QueueView) -> None:
        """Claim the entries that a consumer holds, let them wait again, or (``purge``) acknowledge
        them."""
        if (one := self._one("One consumer at a time: take the marks away.")) is None:
            return

        from . import run_change

        queue, (group, name) = one[0], parted(one[1])
        does = "acknowledge" if verb == "purge" else verb
        self._start(lambda: run_change.take_over(self, does, queue, group, name), view)

    def group(self, verb: GroupVerb, view: QueueView) -> None:
        """Move or remove the consumer group of the row under the cursor."""
        queue, chosen = self._app.queue, view.chosen
        if queue is None or not chosen:
            return self._nothing()
        groups = {parted(identity)[0] or "" for identity in chosen}
        if len(groups) > 1:
            return self.tell("One group at a time: take the marks away.", False)

        async def run() -> bool:
            from .consumer_groups import change_group

            return await change_group(self, queue, groups.pop(), verb)

        self._start(run, view)
        return None

    def set_rule(self, verb: Control, view: QueueView) -> None:
        """Cancel a request, or set its limit or priority; of a client: block, cap or weight."""
        if (one := self._one("One at a time: take the marks away.")) is None:
            return

        from . import suggested_change

        rule = OF_CLIENTS[f"request {verb}"].removeprefix("client ")
        if view.name_ == "clients":
            self._start(lambda: suggested_change.ask_client(self, *one, rule), view)
        else:
            self._start(lambda: suggested_change.ask_request(self, *one, verb), view)

    def export(self, view: QueueView) -> None:
        """Write the view's entries that match the filter, or the whole queue, to a file."""
        queue, state, where = self._app.addresses.queue, view.state, None
        if state is not None:
            where = view.filter
        if queue is None:
            return self._nothing()

        from . import export

        self._start(lambda: export.export(self, queue, state, where), None)
        return None

    def edit(self, view: QueueView) -> None:
        """Edit the payload of the entry under the cursor in the user's editor."""
        state = view.state
        noun = {"dead": "dlq", "delayed": "delay"}.get(state or "", state)
        one = self._one(f"One entry at a time here; for many: redisq {noun} edit --patch")
        if one is None or state is None:
            return

        from . import run_change

        queue, id = one
        self._start(lambda: run_change.edit(self, queue, state, id), view)

    def scan(self, view: GroupsView) -> None:
        """Group all dead letters, page by page; Esc stops it. Nothing is changed."""
        queue = self._app.queue
        if queue is None:
            return self._nothing()

        async def run() -> bool:
            from . import run_change

            found = await run_change.group_all(self, queue)
            if found is not None and self._app.queue == queue:
                view.take(found)
            return False

        self._start(run, None)

    def search(self, view: EntryView) -> None:
        """Search all entries of the view's state for those that match its filter; Esc stops it.
        Nothing is changed."""
        queue, state, query = self._app.queue, view.state, view.filter
        if queue is None or state is None or query is None:
            return self._nothing()

        async def run() -> bool:
            from .search import search

            found = await search(self, queue, state, query)
            if found is not None and self._app.queue == queue and view.filter == query:
                view.take(found)
            return False

        self._start(run, None)

    def hold(self, view: QueueView) -> None:
        """Hold or resume queues in the overview, requests in their views, else this queue."""
        queue = self._app.acting_queue
        names = (queue,) if view.holds == "queue" and queue else self._app.chosen
        if not names:
            return self._nothing()

        from . import run_change

        if view.holds == "requests" and queue:
            self._start(lambda: run_change.hold_requests(self, queue, names), view)
        else:
            about_rows = view.holds == "queue"
            self._start(lambda: run_change.hold_queues(self, names), view if about_rows else None)

    def periodic(self, verb: str, view: QueueView) -> None:
        """Pause or resume (``hold``), ``run`` or remove (``rm``) the periodic entry under the
        cursor."""
        if (one := self._one("One periodic entry at a time: take the marks away.")) is None:
            return

        async def run() -> bool:
            from .periodic import change_periodic

            return await change_periodic(self, *one, verb, self._app.zone)

        self._start(run, view)

    def command_worker(self, word: WorkerWord, view: QueueView) -> None:
        """Send a command to the worker under the cursor, or to the one that has the entry there."""
        if (one := self._one("One at a time: take the marks away.")) is None:
            return

        async def run() -> bool:
            from .worker_command import command_worker

            return await command_worker(self, one[0], word, one[1])

        self._start(run, view)

    def acknowledge(self, queue: str | None) -> None:
        """Say that the dead letters of a queue are known until a time."""
        if queue is None:
            return self._nothing()

        async def run() -> bool:
            from .acknowledge import acknowledge_dead

            return await acknowledge_dead(self, queue)

        self._start(run, None)

    def undo(self, queue: str | None) -> None:
        """Take back one of the latest changes of this queue, or of all."""

        from . import run_change

        self._start(lambda: run_change.undo(self, queue), None)

    def suggested(self, change: Callable[[Changes], Awaitable[bool]]) -> None:
        """Start a change that an explanation suggests."""
        self._start(lambda: change(self), None)

    def command(self, words: Sequence[str]) -> None:
        """Run a command of `redisq`, which has the terminal until it ends."""
        from redisq_ops.tui.command.command_line import run_in_terminal

        if self.running:
            return self.tell("One change at a time: Esc stops the running one.", False)
        run = partial(run_in_terminal, read_only=self._app.read_only)
        self._run_command(words, run, self._ran)
        return None

    def page(self, words: Sequence[str]) -> None:
        """Show the output of a `redisq` command in the user's pager."""
        from redisq_ops.tui.command.command_line import run_in_pager

        self._run_command(words, run_in_pager, self._app.poller.wake)

    def _run_command(
        self,
        words: Sequence[str],
        run: Callable[[Sequence[str], Sequence[str]], str],
        ended: Callable[[], None],
    ) -> None:
        """Call ``run`` with the words and this server's options; it returns what went wrong.
        Where the terminal can't be left, as in a browser, show the output on a screen."""
        from textual.app import SuspendNotSupported

        app, connected = self._app, self._app.source.connected
        if connected is None:
            return self.tell("The server has not answered yet.", False)
        try:
            with app.suspend():
                failed = run(words, connected.options)
        except SuspendNotSupported:
            from redisq_ops.tui.screens.output_screen import OutputScreen

            screen = OutputScreen(words, connected.options, app.read_only)
            return app.open_screen(screen, lambda _: ended())
        app.refresh(layout=True)
        if failed:
            self.tell(failed, False)
        return ended()

    def _ran(self) -> None:
        """A command has ended, and may have changed something."""
        self._app.drop_scan(None)
        self._app.poller.wake()

    # --- for a running change ------------------------------------------------------------------

    @property
    def queues(self) -> tuple[ListedQueue, ...]:
        """All queues of the server."""
        return self._app.queues

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of dates on the screen; None: local."""
        return self._app.zone

    @property
    def clock(self) -> Callable[[], float]:
        """Measures spans of time, in seconds."""
        return self._app.clock

    @property
    def deployment(self) -> Deployment:
        """The deployment that changes are made in."""
        assert self._app.source.connected is not None
        return self._app.source.connected.deployment

    @property
    def guard(self) -> Guard:
        """The limits for changes in this deployment."""
        from redisq_ops.ops.change.limits import FREE

        assert self._app.source.connected is not None
        return self._app.source.connected.guard or FREE

    @property
    def redaction(self) -> Redaction:
        """The rules for hiding parts of payloads and texts."""
        from redisq_ops.ops.redaction import NO_REDACTION

        assert self._app.source.connected is not None
        return self._app.source.connected.redaction or NO_REDACTION

    async def ask(self, question: Question, entries: int = 1) -> bool:
        """Ask whether to change ``entries`` entries; raises `Refused` for more than the limit."""
        from .confirm_dialog import Confirm

        self._check_wanted()
        self.guard.checked([{"matched": entries}])
        asked = replace(question, typed=self.guard.typed(None, question.typed), why=True)
        dialog = Confirm(asked)
        yes = await self._app.push_screen_wait(dialog)
        self.why, self.speed = dialog.why, dialog.speed
        return yes

    def _check_wanted(self) -> None:
        """Raise `Stopped` if Esc was pressed, or the user went on to something else: what is typed
        by now is no answer to a dialog."""
        from textual.widgets import Input

        from .run_change import Stopped

        self.progress = ""
        types = isinstance(self._app.focused, Input)
        if self.stopping or types or self._in_front() != self._place:
            raise Stopped

    def _in_front(self) -> object:
        return self._app.opened_screen, self._app.view, self._app.queue

    async def value(self, wanted: WantedValue) -> str | None:
        """Ask for a value; None: the dialog was closed without one."""
        from .value_dialog import ValueDialog

        self._check_wanted()
        return await self._app.push_screen_wait(ValueDialog(wanted))

    async def choose(self, operations: Sequence[Operation], now_ms: int) -> str | None:
        """Let the user pick the operation to undo; returns its id, None for none."""
        from .undo_screen import UndoScreen

        self._check_wanted()
        able = [operation.id for operation in operations if operation.undoable]
        first = self.last_op if self.last_op in able else next(iter(able), None)
        return await self._app.push_screen_wait(UndoScreen(operations, now_ms, first))

    async def edited(self, payload: bytes) -> bytes:
        """The payload as edited in the user's editor, which has the terminal meanwhile; where that
        can't be left, in the dashboard's own."""
        from textual.app import SuspendNotSupported

        from redisq_ops.ops.change import editor
        from redisq_ops.tui.signals import terminal_lent

        try:
            with self._app.suspend(), terminal_lent():
                return editor.edited(payload)
        except SuspendNotSupported:
            from .edit_screen import EditScreen

            return await self._app.push_screen_wait(EditScreen(payload))
        finally:
            self._app.refresh(layout=True)

    def say(self, progress: str) -> None:
        """Show the progress, but not at every step: drawing thousands a second is too slow."""
        now = self._app.clock()
        begins, self.progress = not self.progress, f"{progress}; Esc stops"
        if begins or now - self._said_at > _EVERY_S:
            self._said_at = now
            self._app.say_status()

    def tell(self, words: str, good: bool = True) -> None:
        """Show how a change ended, as a notification."""
        self._app.notify(
            "\n".join(map(printable, words.split("\n"))),
            severity="information" if good else "warning",
            markup=False,
            timeout=8,
        )

    # --- running -------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return any(w.group == "change" and w.is_running for w in self._app.workers)

    def _one(self, several: str) -> tuple[str, str] | None:
        """The queue and the row that a key for one row is about; else None, after telling why:
        ``several`` if more are marked."""
        queue, chosen = self._app.acting_queue, self._app.chosen
        if queue is not None and len(chosen) == 1:
            return queue, chosen[0]
        if queue is None or not chosen:
            self._nothing()
        else:
            self.tell(several, False)
        return None

    def _nothing(self) -> None:
        self.tell(nothing_selected(self._app), False)

    def _start(self, run: Callable[[], Awaitable[bool]], view: QueueView | None) -> None:
        if self._app.source.connected is None:
            self.tell("The server has not answered yet.", False)
            return None
        if self.running:
            return self.tell("One change at a time: Esc stops the running one.", False)
        self.stopping, self.why, self._place = False, "", self._in_front()
        if self._app.opened is not None:
            view = None  # the marks of its rows are of other entries
        self._app.run_worker(self._run(run, view), group="change")
        return None

    async def _run(self, run: Callable[[], Awaitable[bool]], view: QueueView | None) -> None:
        changed, app = False, self._app
        marks = [] if view is None else marks_in(view, app.queue)
        try:
            changed = await run()
        except Exception as error:  # a failed change must not end the dashboard
            self.tell(" ".join(str(error).split()) or type(error).__name__, False)
        finally:
            self.progress = ""
            if changed:
                app.drop_scan(view)
                # Other marks stay, also those of another queue that is open by now.
                app.marks.take_away(marks, app.queue, list(app.views.values()))
            if view is not None:
                view.everything = False
            app.say_status()
            app.poller.wake()
