"""The worker's exchanges with the server: one in the loop itself, or two at a time in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

from ..redis.operation import Description
from .reconnect import ReconnectingConnection

Then = Callable[[list[Any]], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The replies of an exchange; an exception in the place of each that failed."""

    then: Then
    replies: list[Any]


class ExchangeThreads:
    """``size`` exchanges at a time, each in a thread that posts an `Answer` to the loop.

    With ``size`` 1 the exchange takes place in the loop's own thread: there is nothing else to do
    meanwhile, and a thread would cost a fifth of the throughput (with a batch of 1).

    ``busy``: exchanges whose answer the loop hasn't handled yet; only its own thread changes it.
    """

    def __init__(
        self, size: int, connection: ReconnectingConnection, post: Callable[[Answer], None]
    ) -> None:
        self.size, self.busy = size, 0
        self._connection, self._post = connection, post
        self._asked: SimpleQueue[tuple[Sequence[Description[Any]], Then] | None] = SimpleQueue()
        self._threads = [
            Thread(target=self._serve, name=f"redisq-lane-{n}", daemon=True)
            for n in range(size if size > 1 else 0)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, asks: Sequence[Description[Any]], then: Then) -> None:
        """Begin one round trip; ``then`` gets the replies, now or when the loop calls `hear`."""
        self.busy += 1
        if self._threads:
            self._asked.put((asks, then))
        else:
            self.hear(self._exchanged(asks, then))

    def hear(self, answer: Answer) -> None:
        self.busy -= 1
        answer.then(answer.replies)

    def _exchanged(self, asks: Sequence[Description[Any]], then: Then) -> Answer:
        try:
            return Answer(then, self._connection.ask(asks))
        except Exception as error:  # the loop decides what to do about it
            return Answer(then, [error] * len(asks))

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            self._post(self._exchanged(*asked))

    def close(self, within_s: float) -> None:
        """Wait up to ``within_s`` for the exchanges in progress."""
        for _ in self._threads:
            self._asked.put(None)
        until = monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
