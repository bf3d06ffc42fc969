"""Tasks that real RQ workers run in the tests."""

import os
import signal
import time

import redis


def fine(n: int) -> int:
    return n


def fails(what: str) -> None:
    raise ValueError(f"no {what}")


def vanishes() -> None:
    """Its work horse dies as if the kernel had killed it."""
    os.kill(os.getpid(), signal.SIGKILL)


def lasts() -> None:
    time.sleep(600)


def counts(port: int, id: str) -> None:
    """Says that it ran, and fails the first time."""
    with redis.Redis(port=port) as client:
        if client.hincrby("ran", id) == 1:
            raise RuntimeError("the first time")
