"""A worker's line to the server: goes on after an outage without doing anything twice.

A round whose replies were lost is sent again as it was: the same callers with the same numbers, so
the server carries out what it hasn't yet and repeats the answers of what it has. Describing the
operations anew would take new numbers, and the deliveries of a lost reply would be lost leases.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar, cast

from redis.exceptions import RedisError

from ..errors import Refused, Unreachable
from ..handler import Random
from ..io import BlockingClient, Description, Replies, Round, attempt, run, together
from .source import log

T = TypeVar("T")

_LONGEST_PAUSE_S = 5.0


class Line:
    """``rest`` is called to let some seconds pass, ``given_up`` whether to go on trying."""

    def __init__(
        self,
        client: BlockingClient,
        random: Random,
        rest: Callable[[float], None],
        given_up: Callable[[], bool],
    ) -> None:
        self._client, self._random = client, random
        self._rest, self._given_up = rest, given_up
        self._met = False
        self._since: float | None = None
        self._pause_s = 0.0

    def ask(self, asks: Sequence[Description[Any]]) -> list[Any]:
        """One round trip, waiting out an absent server; what was refused is an error as a value."""
        return run(self._client, insistent(together(map(attempt, asks)), self._pause))

    def heed(self, said: Sequence[Any]) -> None:
        """Rest if something was refused for now (a full server, a replica); raise if for good."""
        refused = next((answer for answer in said if isinstance(answer, Exception)), None)
        if refused:
            self._pause(refused)
            return
        self._met = True
        if self._since is not None:
            log.warning("the server answers again after %.1f s", monotonic() - self._since)
        self._since, self._pause_s = None, 0.0

    def _pause(self, error: Exception) -> None:
        passing = isinstance(error, (Unreachable, RedisError)) or type(error) is Refused
        if not passing or not self._met or self._given_up():
            raise error
        if self._since is None:
            self._since = monotonic()
            log.warning("%s; trying again until it works", error)
        self._pause_s = min(_LONGEST_PAUSE_S, max(0.1, 2 * self._pause_s))
        self._rest(self._pause_s * (0.5 + self._random() / 2))


async def insistent(description: Coroutine[Any, Any, T], pause: Callable[[Exception], None]) -> T:
    """``description``, each round as often as it takes; ``pause`` waits, or raises to give up."""
    return await _Insistence(description, pause)


class _Insistence(Generic[T]):
    def __init__(
        self, description: Coroutine[Any, Any, T], pause: Callable[[Exception], None]
    ) -> None:
        self._description = description
        self._pause = pause

    def __await__(self) -> Generator[Round, Replies, T]:
        description = self._description
        try:
            calls = description.send(None)
            while True:
                try:
                    replies = yield calls
                except (Unreachable, RedisError) as error:
                    self._pause(error)
                else:
                    calls = description.send(replies)
        except StopIteration as stop:
            return cast(T, stop.value)
        finally:
            description.close()
