"""Report an unreachable server while Spark's tasks wait for it: their own log is hidden."""

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
    """In the block, call ``ask`` every ``period_s`` seconds; ``say`` when it begins to raise
    `Unreachable`, and when it no longer does."""
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
                return  # for example, the user has no right to ask
            else:
                if not answered:
                    say("the server answers again")
                answered = True

    # The thread isn't joined: a server that hangs would delay the end.
    Thread(target=watch, name="server-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
