"""Waits for requests to end.

A publication is a hint, the request's record is the truth. A waiter subscribes, reads the record
once the subscription is confirmed, and reads it again after each message and every few seconds. So
a lost message costs at most these seconds, and a waiter that comes late returns at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from time import monotonic
from typing import Any

from redis.exceptions import NoPermissionError, RedisError

from ...model.entry import Request
from ...model.settings import BATCH
from ...redis.operation import AsyncClient, BlockingClient, arun, run, together
from ...redis.server_errors import translate
from . import RequestQueue
from .records import found

REREAD_S = 2.0

Progress = Callable[[Request], None]


def wait(
    queue: RequestQueue[BlockingClient],
    ids: Sequence[str],
    timeout_s: float | None = None,
    *,
    progress: Progress | None = None,
    reread_s: float = REREAD_S,
) -> Iterator[Request]:
    """Wait for requests: yields the final `Request` of each as soon as it is done or cancelled.

    ``progress`` is called with every record that is read, at least every ``reread_s`` seconds.
    Raises `NotFound` for an unknown id, TimeoutError after ``timeout_s`` seconds, naming the open
    requests, and `Unreachable`. Waiting again loses nothing.

        for request in wait(queue, ["monday", "tuesday"], timeout_s=60):
            print(request.id, request.done, request.dead)
    """
    watch = _Watch(queue, ids, timeout_s, progress, reread_s)
    with _our_errors(), closing(_pubsub(queue.client)) as pubsub:
        pubsub.subscribe(*watch.channels())
        while watch.open:
            with watch.perhaps_deaf():
                message = pubsub.get_message(timeout=watch.patience())
                while watch.note_hint(message):
                    message = pubsub.get_message(timeout=0)
            while due := watch.due():
                read = together(queue.request.op(id) for id in due)
                yield from watch.seen(due, run(queue.client, read))
            watch.check_time()


async def async_wait(
    queue: RequestQueue[AsyncClient],
    ids: Sequence[str],
    timeout_s: float | None = None,
    *,
    progress: Progress | None = None,
    reread_s: float = REREAD_S,
) -> AsyncIterator[Request]:
    """As `wait`, for asyncio: ``async for request in async_wait(queue, ["monday"])``."""
    watch = _Watch(queue, ids, timeout_s, progress, reread_s)
    with _our_errors():
        await queue.client.initialize()  # a Cluster's pub/sub asks for slots before it knows any
        async with aclosing(_pubsub(queue.client)) as pubsub:
            await pubsub.subscribe(*watch.channels())
            while watch.open:
                with watch.perhaps_deaf():
                    message = await pubsub.get_message(timeout=watch.patience())
                    while watch.note_hint(message):
                        message = await pubsub.get_message(timeout=0)
                while due := watch.due():
                    read = together(queue.request.op(id) for id in due)
                    for request in watch.seen(due, await arun(queue.client, read)):
                        yield request
                watch.check_time()


class _Watch:
    """The requests that are waited for, and when to read them; without I/O."""

    def __init__(
        self,
        queue: RequestQueue[Any],
        ids: Sequence[str],
        timeout_s: float | None,
        progress: Progress | None,
        reread_s: float,
    ) -> None:
        self._queue, self._progress, self._reread_s = queue, progress, reread_s
        self.open = dict.fromkeys(ids)  # a set that keeps its order
        self._hinted: dict[str, None] = {}
        now = monotonic()
        self._ends = None if timeout_s is None else now + timeout_s
        self._was_late = False
        self._reread_at = now + reread_s

    def channels(self) -> list[str]:
        # Without ids, a channel that nobody publishes to: subscribing to none is an error.
        return [self._queue.keys["r_"] + id for id in self.open or [""]]

    def patience(self) -> float:
        """Seconds until silence is a reason to act."""
        until = self._reread_at if self._ends is None else min(self._reread_at, self._ends)
        return max(0.0, until - monotonic())

    def note_hint(self, message: dict[str, Any] | None) -> bool:
        """Take a message as a hint, also the confirmation of a (new) subscription."""
        if message is None:
            return False
        id = message["channel"].decode().removeprefix(self._queue.keys["r_"])
        if id in self.open:
            self._hinted[id] = None
        return True

    @contextmanager
    def perhaps_deaf(self) -> Iterator[None]:
        """Without the right to subscribe, reading every few seconds is left."""
        try:
            yield
        except NoPermissionError:
            self._hinted.update(self.open)

    def due(self) -> list[str]:
        """Ids to read now, a page at most; each of them once more before the time-out."""
        now = monotonic()
        if now >= self._reread_at or (self._is_late(now) and not self._was_late):
            self._hinted.update(self.open)
            self._reread_at = now + self._reread_s
            self._was_late = self._is_late(now)
        page = list(self._hinted)[:BATCH]
        for id in page:
            del self._hinted[id]
        return page

    def _is_late(self, now: float) -> bool:
        return self._ends is not None and now >= self._ends

    def seen(self, ids: Sequence[str], records: Sequence[Request | None]) -> Iterator[Request]:
        for id, record in zip(ids, records, strict=True):
            request = found(record, id, self._queue.name)
            if self._progress:
                self._progress(request)
            if request.settled and id in self.open:
                del self.open[id]
                self._hinted.pop(id, None)
                yield request

    def check_time(self) -> None:
        if self.open and self._was_late:
            some = " ".join(list(self.open)[:5]) + (" …" if len(self.open) > 5 else "")
            raise TimeoutError(f"still open: {len(self.open)} of the requests: {some}")


def _pubsub(client: Any) -> Any:
    return client.pubsub()


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise translate(error) from error
