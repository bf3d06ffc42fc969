"""``--watch``: repeats a command, redrawn in place on a terminal, in a pipe one after the other."""

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

from redisq_ops.core.model.errors import BadInput, Unreachable
from redisq_ops.core.redis.server_errors import translate
from redisq_ops.ops.filter.time import duration_ms

LEAST_MS = 100


def repeat(command: Callable[[], object], every: str, json: bool) -> int:
    """Run ``command`` at intervals of ``every`` until Ctrl+C; each output is one frame.

    After the first frame, a server that can't be reached is tried again. ``json``: only the lines
    of ``command`` go to stdout. Raises `BadInput` for a bad span, and whatever ``command`` raises.
    """
    pause_ms = duration_ms(every)
    if pause_ms < LEAST_MS:
        raise BadInput(f"--watch {every}: at least {LEAST_MS}ms")
    frames = _frames(command, every, pause_ms, json)
    if json or not sys.stdout.isatty():
        for frame, lost in frames:
            sys.stdout.write("" if lost else frame if json else frame + "\n")
            sys.stdout.flush()
            sys.stderr.write(lost)
    first, _ = next(frames)  # if the first run fails, nothing is drawn
    with Live(console=Console(), auto_refresh=False) as live:
        live.console.show_cursor(True)  # a signal that ends this process would leave it hidden
        for frame, lost in chain([(first, "")], frames):
            # The error comes first: the end of a long frame is out of sight.
            shown = _cut(lost + frame, live.console.height - 1)
            live.update(Text(shown, no_wrap=True, overflow="ellipsis"), refresh=True)
    return 0


def _cut(frame: str, height: int) -> str:
    """The lines that fit, and the number of the others."""
    lines = frame.splitlines()
    if len(lines) <= height:
        return frame
    kept = lines[: max(0, height - 1)]
    return "\n".join([*kept, f"… {len(lines) - len(kept):,} more lines"])


def _frames(
    command: Callable[[], object], every: str, pause_ms: int, json: bool
) -> Iterator[tuple[str, str]]:
    """The latest output of ``command``, and an error line while the server can't be reached."""
    frame, lost = "", ""
    while True:
        try:
            printed = io.StringIO()
            with redirect_stdout(printed), redirect_stderr(sys.stderr if json else printed):
                command()
            frame, lost, seen = printed.getvalue(), "", datetime.now()
        except Exception as error:
            known = translate(error)
            if not frame or not isinstance(known, Unreachable):
                raise
            lost = f"redisq: seen at {seen:%H:%M:%S}, trying again every {every}: {known}\n"
        yield frame, lost
        time.sleep(pause_ms / 1000)
