"""The worker's exchanges with the server: two at a time, while its loop goes on, or one."""

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
    """What came of an exchange: the answers, or why there are none in place of each."""

    then: Then
    said: list[Any]


class ExchangeThreads:
    """``size`` exchanges at a time, each in a thread, which posts an `Answer` for the loop to hear.

    A single one takes place in the loop's own thread instead: where there is nothing to do
    meanwhile, handing it over would only cost time (a fifth, with a batch of 1).

    ``busy`` counts exchanges that aren't heard yet; the loop's own thread keeps it.
    """

    def __init__(
        self, size: int, line: ReconnectingConnection, post: Callable[[Answer], None]
    ) -> None:
        self.size, self.busy = size, 0
        self._line, self._post = line, post
        self._asked: SimpleQueue[tuple[Sequence[Description[Any]], Then] | None] = SimpleQueue()
        self._threads = [
            Thread(target=self._serve, name=f"redisq-lane-{n}", daemon=True)
            for n in range(size if size > 1 else 0)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, asks: Sequence[Description[Any]], then: Then) -> None:
        """One round trip; what is answered is given to ``then``, now or by `hear`."""
        self.busy += 1
        if self._threads:
            self._asked.put((asks, then))
        else:
            self.hear(self._exchanged(asks, then))

    def hear(self, answer: Answer) -> None:
        self.busy -= 1
        answer.then(answer.said)

    def _exchanged(self, asks: Sequence[Description[Any]], then: Then) -> Answer:
        try:
            return Answer(then, self._line.ask(asks))
        except Exception as error:  # the loop's to judge
            return Answer(then, [error] * len(asks))

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            self._post(self._exchanged(*asked))

    def close(self, within_s: float) -> None:
        """Let those end that are under way; one that hangs is left behind."""
        for _ in self._threads:
            self._asked.put(None)
        until = monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
