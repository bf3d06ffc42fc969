"""The line that guides through an incident: the problem, the next key, the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from rich.text import Text
from textual.screen import Screen
from textual.widgets import Static

from redisq_ops.ops.inspect.snapshot import View
from redisq_ops.tui.theme import DIM, HELD, OK
from redisq_ops.tui.views import numbered

if TYPE_CHECKING:
    from redisq_ops.ops.deployment import Deployment

    from .app import Top

CHECK_S = 0.5
"""seconds between two looks at the server's state"""


class GuideStep(Protocol):
    """One problem to solve, and its place."""

    @property
    def problem(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def view(self) -> View:
        """The view in which it is solved."""
        ...

    @property
    def press(self) -> str:
        """The key that solves it there, and on which row."""
        ...

    def done(self, deployment: Deployment) -> Awaitable[bool]:
        """Describes the read that tells whether it is solved."""
        ...


class GuideStrip(Static):
    """Shows the first step that isn't done. The server's state alone decides that."""

    DEFAULT_CSS = """
    GuideStrip { height: auto; max-height: 2; padding: 0 1; background: $primary-muted;
                 text-overflow: ellipsis; }
    """

    def __init__(self, incidents: Sequence[Sequence[GuideStep]]) -> None:
        """``incidents``: the steps of each."""
        super().__init__(markup=False)
        self.steps = [step for steps in incidents for step in steps]
        self._places = [
            f"{nth} of {len(incidents)}" + (f", step {k} of {len(steps)}" if len(steps) > 1 else "")
            for nth, steps in enumerate(incidents, 1)
            for k in range(1, len(steps) + 1)
        ]
        self.at = 0
        """the step that is shown; after the last one all are done"""
        self.keys = 0
        """keys pressed until all were done"""
        self.seconds = 0.0
        """how long that took"""
        self._began = 0.0

    @property
    def solved(self) -> bool:
        return self.at == len(self.steps)

    def count_key(self) -> None:
        if not self.solved:
            self.keys += 1

    def on_mount(self) -> None:
        self._began = self.top.clock()
        self.set_interval(0.1, self.say)
        self.run_worker(self._watch())

    @property
    def top(self) -> Top:
        return cast("Top", self.app)

    def say(self) -> None:
        """Show the step and the next key, which depends on the open queue and view."""
        text = self._line()
        if text != self.content:
            self.update(text)

    async def _watch(self) -> None:
        from redisq_ops.core.model.errors import RedisqError
        from redisq_ops.core.redis.operation import arun

        while not self.solved:
            connected = self.top.source.connected
            done = False
            if connected is not None:
                deployment = connected.deployment
                step = cast("Any", self.steps[self.at].done(deployment))
                with suppress(RedisqError):  # the dashboard shows the error
                    done = await arun(deployment.client, step)
            if done:
                self.at += 1
                self.seconds = self.top.clock() - self._began
            else:
                await asyncio.sleep(CHECK_S)

    def _line(self) -> Text:
        if self.solved:
            count = f"{self.keys} key{'' if self.keys == 1 else 's'}"
            text = Text.assemble(("Solved", f"bold {OK}"), f" in {count}, {_time(self.seconds)}. ")
            return text.append("q leaves the demo.", DIM)
        step = self.steps[self.at]
        return Text.assemble(
            (f"{self._places[self.at]}: ", f"bold {HELD}"),
            f"{step.problem}. ",
            (f"Press {self._next(step)}.", HELD),
        )

    def _next(self, step: GuideStep) -> str:
        app = self.top
        if len(app.screen_stack) > 1:
            return _in_dialog(app.screen)
        if app.view == "overview":
            here = app.current.table.identity == step.queue
            key = step.press if step.view == "overview" else _key(step.view)
            return key if here else f"j or k until the cursor is on {step.queue}, then {key}"
        if app.queue != step.queue or step.view == "overview":
            return "1 for all queues"
        return step.press if app.view == step.view else _key(step.view)


def _in_dialog(screen: Screen[Any]) -> str:
    # These load the Redis client, which takes longer than the first frame.
    from redisq_ops.tui.change.confirm_dialog import Confirm
    from redisq_ops.tui.change.undo_screen import UndoScreen

    if isinstance(screen, Confirm):
        return "y"
    return "Enter" if isinstance(screen, UndoScreen) else "Esc to go back"


def _key(view: View) -> str:
    return next(key for key, one in numbered() if one.name_ == view)


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} m {rest} s" if minutes else f"{rest} s"
