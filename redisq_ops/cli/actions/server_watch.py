"""Say that the server does not answer, while Spark's tasks wait for it: their own log is hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from redisq_ops.core.model.errors import RedisqError, Unreachable

PERIOD_S = 3.0


@contextmanager
def server_watched(
    ask: Callable[[], object], say: Callable[[str], object], period_s: float = PERIOD_S
) -> Iterator[None]:
    """In the block, call ``ask`` every ``period_s``; say when it begins or ceases to raise
    `Unreachable`."""
    over = Event()

    def watch() -> None:
        answered = True
        while not over.wait(period_s):
            try:
                ask()
            except Unreachable as error:
                if answered and not over.is_set():
                    say(f"{str(error).rstrip('.')}; tasks try again for up to a minute")
                answered = False
            except RedisqError:
                return  # such as a user who may not ask
            else:
                if not answered:
                    say("the server answers again")
                answered = True

    # It isn't joined: a server that hangs would hold up the end.
    Thread(target=watch, name="server-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
