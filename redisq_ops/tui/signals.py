"""Signals that end the dashboard end it in order: the terminal is as it was before."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from textual.app import App

from redisq_ops.core.signals import handled

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_GONE_S = 3.0
"""how long a terminal that hung up may take what is still to be written to it"""


def end_on_signals(app: App[Any]) -> None:
    """Leave the dashboard when asked to from outside, with 128 + the signal's number."""
    loop = asyncio.get_running_loop()

    def end(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:  # nobody may be left who reads what we write, nor ever will be
            timer = threading.Timer(_GONE_S, os._exit, [128 + number])
            timer.daemon = True
            timer.start()
        loop.call_soon_threadsafe(lambda: app.exit(return_code=128 + number))

    for number in ENDING:
        signal.signal(number, end)


def terminal_lent() -> AbstractContextManager[None]:
    """While another program has the terminal, Ctrl+C is for that one alone."""
    # Handled, not ignored: a program that is started would inherit that.
    return handled(lambda *_: None, (signal.SIGINT, signal.SIGQUIT))
