"""``--watch``: repeat a look, redrawn in place on a terminal, one after the other in a pipe."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime
from itertools import chain

from rich.console import Console
from rich.live import Live
from rich.text import Text

from redisq_ops.core.model.errors import BadInput, Unreachable, translate
from redisq_ops.ops.filter.time import duration_ms

LEAST_MS = 100


def repeat(look: Callable[[], object], every: str, json: bool) -> int:
    """Run ``look`` every so often until Ctrl+C; what it prints is one frame.

    A server that goes away after the first frame is tried again. ``json``: nothing but the lines of
    ``look`` goes to stdout. Raises `BadInput` for a bad span, and whatever ``look`` raises.
    """
    pause_ms = duration_ms(every)
    if pause_ms < LEAST_MS:
        raise BadInput(f"--watch {every}: at least {LEAST_MS}ms")
    frames = _frames(look, every, pause_ms)
    if json or not sys.stdout.isatty():
        for frame, lost in frames:
            sys.stdout.write("" if lost else frame if json else frame + "\n")
            sys.stdout.flush()
            sys.stderr.write(lost)
    first, _ = next(frames)  # of a mistake nothing is drawn
    with Live(console=Console(), auto_refresh=False, vertical_overflow="crop") as live:
        live.console.show_cursor(True)  # or a signal that ends this process would leave it hidden
        for frame, lost in chain([(first, "")], frames):
            live.update(Text(frame + lost, no_wrap=True, overflow="ellipsis"), refresh=True)
    return 0


def _frames(look: Callable[[], object], every: str, pause_ms: int) -> Iterator[tuple[str, str]]:
    """What ``look`` printed last, and a line that says so while the server can't be reached."""
    frame, lost = "", ""
    while True:
        try:
            printed = io.StringIO()
            with redirect_stdout(printed), redirect_stderr(printed):
                look()
            frame, lost, seen = printed.getvalue(), "", datetime.now()
        except Exception as error:
            known = translate(error)
            if not frame or not isinstance(known, Unreachable):
                raise
            lost = f"redisq: {known}; seen at {seen:%H:%M:%S}, trying again every {every}\n"
        yield frame, lost
        time.sleep(pause_ms / 1000)
