"""Tasks that real RQ workers run in the tests."""

import os
import signal
import time


def fine(n: int) -> int:
    return n


def fails(what: str) -> None:
    raise ValueError(f"no {what}")


def vanishes() -> None:
    """Its work horse dies as if the kernel had killed it."""
    os.kill(os.getpid(), signal.SIGKILL)


def lasts() -> None:
    time.sleep(600)
