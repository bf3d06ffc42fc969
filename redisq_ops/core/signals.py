"""Signals that are handled for a while."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT)
"""what ends a program in order"""


def signal_name(number: int) -> str:
    """SIGKILL, …; of a real-time signal, which has no name, its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def handled(
    handler: Callable[[int, FrameType | None], object], signals: tuple[int, ...] = STOPPING
) -> Iterator[None]:
    """Call ``handler`` for these signals until the end of the block. In the main thread only."""
    before = [signal.signal(number, handler) for number in signals]
    try:
        yield
    finally:
        for number, earlier in zip(signals, before, strict=True):
            signal.signal(number, earlier)
