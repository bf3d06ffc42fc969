"""One change at a time: from a Shift key to the toast that says how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from redisq_ops.ops.terminal import printable

if TYPE_CHECKING:
    from redisq_ops.core.queue import Verb
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.tui.confirm import Question
    from redisq_ops.tui.views import QueueView

    from .app import Top

_EVERY_S = 0.1


class Changes:
    """Runs a change in the background; Esc stops it between two steps.

    What a change does is in `act`, loaded with the first one: it brings the Redis client.
    """

    def __init__(self, app: Top) -> None:
        self._app = app
        self.progress = ""
        """how far the running change is; empty: none runs"""
        self.stopping = False
        self.last_op: str | None = None
        """the latest change made here"""
        self._said_at = 0.0

    # --- what keys ask for ---------------------------------------------------------------------

    def move(self, verb: str, view: QueueView) -> None:
        """A verb for the marked entries, else the one under the cursor, or all that match."""
        queue, state, ids = self._app.queue, view.state, view.chosen
        if queue is None or state is None or not (ids or view.everything):
            return self._nothing()

        async def run() -> bool:
            from . import act

            match = view.filter if view.everything else None
            scope = act.Scope(queue, state, () if view.everything else ids, match)
            return await act.move(self, cast("Verb", verb), scope)

        self._start(run, view)

    def hold(self, view: QueueView) -> None:
        """Hold or resume queues in the overview, requests in their views, else this queue."""
        queue = self._app.queue
        names = view.chosen if view.needs or view.state is None else (queue,) if queue else ()
        if not names:
            return self._nothing()

        async def run() -> bool:
            from . import act

            if view.needs and queue:
                return await act.hold_requests(self, queue, names)
            return await act.hold_queues(self, names)

        self._start(run, view)

    def undo(self, queue: str | None) -> None:
        """Take back the latest change of this session, else of this queue, else of all."""

        async def run() -> bool:
            from . import act

            return await act.undo(self, queue)

        self._start(run, None)

    # --- what a running change uses ------------------------------------------------------------

    @property
    def deployment(self) -> Deployment:
        """Where it goes."""
        assert self._app.source.connected is not None
        return self._app.source.connected.deployment

    async def ask(self, question: Question) -> bool:
        from .confirm import Confirm

        self.progress, self.stopping = "", False
        return await self._app.push_screen_wait(Confirm(question))

    def say(self, progress: str) -> None:
        """How far it is. It takes thousands of steps a second: drawing each would be the work."""
        now = self._app.clock()
        begins, self.progress = not self.progress, f"{progress}; Esc stops"
        if begins or now - self._said_at > _EVERY_S:
            self._said_at = now
            self._app.say_status()

    def tell(self, words: str, good: bool = True) -> None:
        """A toast: how it ended."""
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

    def _nothing(self) -> None:
        self.tell("Nothing is under the cursor: it went away, or there is nothing.", False)

    def _start(self, run: Callable[[], Awaitable[bool]], view: QueueView | None) -> None:
        if self._app.source.connected is None:
            return self.tell("There is no server yet.", False)
        if self.running:
            return self.tell("One change at a time: Esc stops the running one.", False)
        self.stopping = False
        self._app.run_worker(self._run(run, view), group="change")
        return None

    async def _run(self, run: Callable[[], Awaitable[bool]], view: QueueView | None) -> None:
        changed = False
        try:
            changed = await run()
        except Exception as error:  # a change that fails must not take the dashboard along
            self.tell(" ".join(str(error).split()) or type(error).__name__, False)
        finally:
            self.progress = ""
            if view is not None:
                view.everything = False
                if changed:  # after a No the marks are still wanted
                    view.table.mark(())
            self._app.say_status()
            self._app.poller.wake()
