"""A worker's connection: continues after an outage without doing anything twice.

A round whose replies were lost is sent again unchanged, with the same caller slots and numbers. The
server then carries out the calls that it hasn't had, and repeats its replies to the others. New
calls would take other entries: those of the lost reply would come back when their leases expire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from ..model.errors import Forbidden, Refused, Unreachable, Unreadable
from ..redis.operation import (
    BlockingClient,
    Description,
    PinnedConnection,
    Round,
    attempt,
    exchange,
    run,
    together,
    user,
)
from ..redis.server_errors import translate
from .queue_source import log
from .retry import Random

_LONGEST_PAUSE_S = 5.0
_POLL_S = 0.1


class ReconnectingConnection:
    """Sends rounds to the server from any thread, and waits for a server that is down.

    ``rest`` is called to let seconds pass; ``given_up`` returns True to stop waiting.
    """

    def __init__(
        self,
        client: BlockingClient,
        random: Random,
        rest: Callable[[float], None],
        given_up: Callable[[], bool],
    ) -> None:
        self._client, self._random = client, random
        self._rest, self._given_up = rest, given_up
        self._idle: list[PinnedConnection] = []
        """connections that no thread uses now"""
        self._lock = Lock()  # guards the state below, which all threads change
        self._met = self._admitted = False
        self._since: float | None = None
        self._pause_s = 0.0

    @property
    def troubled(self) -> bool:
        """Whether the last round was refused or failed."""
        return self._since is not None

    @property
    def met(self) -> bool:
        """Whether the server has ever carried out a whole round."""
        return self._met

    def ask(self, asks: Sequence[Description[Any]]) -> list[Any]:
        """Make one round trip, waiting while the server is down. A refused call raises its error if
        it is the only one, else the error is its result."""
        pinned = self._pinned()
        try:
            connection = _Insistent(pinned or self._client, self._wait)
            if len(asks) > 1:
                return run(self._client, together(map(attempt, asks)), connection)
            return [run(self._client, asks[0], connection)]
        finally:
            if pinned:
                self._idle.append(pinned)

    def _pinned(self) -> PinnedConnection | None:
        """A connection for one thread at a time; None: the client of a Cluster finds its own."""
        if not isinstance(self._client, Redis):
            return None
        try:
            return self._idle.pop()
        except IndexError:
            return PinnedConnection(self._client)

    def close(self) -> None:
        """Give the connections back to the client."""
        while self._idle:
            self._idle.pop().close()

    def pause_for(self, replies: Sequence[Any], *, work: bool) -> float:
        """Seconds to wait where a call was refused for now (a full server, a replica); else 0.

        Raises an error that waiting can't mend. ``work``: whether entries were taken or settled.
        """
        refused = next((answer for answer in replies if isinstance(answer, Exception)), None)
        if refused:
            return self._pause(refused)
        with self._lock:
            self._met = True
            self._admitted = self._admitted or work
            if self._since is not None:
                log.warning("it works again after %.1f s", monotonic() - self._since)
            self._since, self._pause_s = None, 0.0
        return 0.0

    def _pause(self, error: Exception) -> float:
        if isinstance(error, Forbidden):
            error.tell(user(self._client))
        with self._lock:
            # A user who could work before may get the rights back; one who never could won't.
            rights = isinstance(error, Forbidden) and self._admitted
            passing = (
                isinstance(error, (Unreachable, Unreadable, RedisError))
                or type(error) is Refused
                or rights
            )
            if not passing or not self._met or self._given_up():
                raise error
            if self._since is None:
                self._since = monotonic()
                log.warning("%s; trying again until it works", error)
            self._pause_s = min(_LONGEST_PAUSE_S, max(0.1, 2 * self._pause_s))
            return self._pause_s * (0.5 + self._random() / 2)

    def _wait(self, error: Exception) -> None:
        until = monotonic() + self._pause(error)
        while (left := until - monotonic()) > 0 and not self._given_up():
            self._rest(min(left, _POLL_S))


class _Insistent:
    """Sends each round until it is answered.

    ``pause`` is called after each failure: it waits, or raises to give up.
    """

    __slots__ = ("_connection", "_pause")

    def __init__(
        self, connection: PinnedConnection | BlockingClient, pause: Callable[[Exception], None]
    ) -> None:
        self._connection, self._pause = connection, pause

    def exchange(self, calls: Round) -> list[Any]:
        while True:
            try:
                if isinstance(self._connection, PinnedConnection):
                    return self._connection.exchange(calls)
                return exchange(self._connection, calls)
            except Exception as error:
                failure = translate(error)
                if not isinstance(failure, (Unreachable, RedisError)):
                    raise
                self._pause(failure)
