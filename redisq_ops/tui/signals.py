"""Lets signals end the dashboard in order, so that the terminal is restored."""

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
"""after a hang-up of the terminal: time for the last output, then the process exits"""


def end_on_signals(app: App[Any]) -> None:
    """Leave the dashboard after a signal, with the exit code 128 + the signal's number."""
    loop = asyncio.get_running_loop()

    def end(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:  # a write to the lost terminal may block for ever
            timer = threading.Timer(_GONE_S, os._exit, [128 + number])
            timer.daemon = True
            timer.start()
        loop.call_soon_threadsafe(lambda: app.exit(return_code=128 + number))

    for number in ENDING:
        signal.signal(number, end)


def terminal_lent() -> AbstractContextManager[None]:
    """While another program has the terminal, Ctrl+C has an effect on that program only."""
    # Handled, not ignored: a started program would inherit "ignored".
    return handled(lambda *_: None, (signal.SIGINT, signal.SIGQUIT))
