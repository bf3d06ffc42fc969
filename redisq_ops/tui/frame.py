"""One frame of the dashboard as plain text, without a terminal."""

from __future__ import annotations

import asyncio
from typing import Any

from textual._context import visible_screen_stack
from textual.app import App
from textual.strip import Strip

from .app import Top

_STAGES = 5
"""rounds until a snapshot is drawn: rows, layout, sizes, columns of these sizes"""


def frame(app: Top, size: tuple[int, int]) -> str:
    """The first complete frame of the view to open, on ``size`` cells; raises the error that
    prevents a snapshot."""
    return asyncio.run(_frame(app, size))


async def _frame(app: Top, size: tuple[int, int]) -> str:
    async with app.run_test(size=size) as pilot:
        # The first snapshot is of the overview, even if a queue is to be opened.
        while not app.answered or (app.snapshot is not None and app.snapshot.incomplete):
            if app.problem is not None:
                raise app.problem
            await asyncio.sleep(0.01)
        app.clear_notifications()
        # In each round all widgets handle the messages in their queues. One pause alone may end
        # between two stages on a busy machine.
        for _ in range(_STAGES):
            await pilot.pause(0)
        await pilot.pause()
        return text(app)


def text(app: App[Any]) -> str:
    """What is on the screen now, line by line."""
    return "\n".join(strip.text.rstrip() for strip in strips(app)).rstrip() + "\n"


def strips(app: App[Any]) -> list[Strip]:
    """The lines on the screen now, with the screens behind a dialog."""
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()
