"""Waits for requests, and for entries whose results are kept, to end.

A publication is a hint, the record is the truth. A waiter subscribes, reads the record
once the subscription is confirmed, and reads it again after each message and every few seconds. So
a lost message costs at most these seconds, and a waiter that comes late returns at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager, suppress
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from redis.exceptions import NoPermissionError, RedisError

from ..model.clock import Seconds, checked_seconds, countdown
from ..model.entry import Request
from ..model.errors import BadInput
from ..model.settings import BATCH
from ..model.validation import listed
from ..redis.operation import AsyncClient, BlockingClient, Description, arun, mode, run
from ..redis.server_errors import translate

REREAD_S = 2.0

Progress = Callable[[Request], None]


class Awaited(Protocol):
    """What is read of something that ends: a `Request`, or an `EntryOutcome`."""

    @property
    def settled(self) -> bool: ...


A = TypeVar("A", bound=Awaited)
C = TypeVar("C", covariant=True)


class HasEnds(Protocol[C, A]):
    """A queue whose requests or entries can be waited for."""

    @property
    def client(self) -> C: ...
    @property
    def _end_channels(self) -> str:
        """What the names of channels begin with; the id follows."""

    def _awaited(self, ids: Sequence[str]) -> Description[list[A]]:
        """Read what may have ended; raises `NotFound` for an unknown id of a request."""


def wait(
    queue: HasEnds[BlockingClient, A],
    ids: str | Iterable[str],
    timeout: Seconds | None = None,
    *,
    progress: Callable[[A], None] | None = None,
    reread: Seconds = REREAD_S,
) -> Iterator[A]:
    """Wait for requests: yields the final `Request` of each as soon as it is done or cancelled.
    Of a delay set or fair queue: for entries, and yields an `EntryOutcome` of each that is done,
    dead or gone.

    ``ids``: one id, or several. ``progress`` is called with every record that is read, at least
    every ``reread``. Both times: seconds or a timedelta. Raises `BadInput` for other arguments at
    once; while it waits `NotFound` for an unknown request, TimeoutError after ``timeout``, naming
    the open ones, and `Unreachable`. Waiting again loses nothing. In an ``async`` handler it is a
    `BadInput`: it would stop the worker's event loop.

        for request in wait(queue, ["monday", "tuesday"], timeout=60):
            print(request.id, request.done, request.dead)
    """
    _refuse_in_async_handler()
    return _ends(queue, _Watch(queue, ids, timeout, progress, reread, "blocking"))


def _ends(queue: HasEnds[BlockingClient, A], watch: _Watch[A]) -> Iterator[A]:
    with _our_errors(), closing(_pubsub(queue.client)) as pubsub:
        pubsub.subscribe(*watch.channels())
        while watch.open:
            with watch.perhaps_deaf():
                message = pubsub.get_message(timeout=watch.patience())
                while watch.note_hint(message):
                    message = pubsub.get_message(timeout=0)
            while due := watch.due():
                yield from watch.seen(due, run(queue.client, queue._awaited(due)))
            watch.check_time()


def async_wait(
    queue: HasEnds[AsyncClient, A],
    ids: str | Iterable[str],
    timeout: Seconds | None = None,
    *,
    progress: Callable[[A], None] | None = None,
    reread: Seconds = REREAD_S,
) -> AsyncIterator[A]:
    """As `wait`, for asyncio: ``async for request in async_wait(queue, ["monday"])``."""
    return _async_ends(queue, _Watch(queue, ids, timeout, progress, reread, "async"))


async def _async_ends(queue: HasEnds[AsyncClient, A], watch: _Watch[A]) -> AsyncIterator[A]:
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
                    for ended in watch.seen(due, await arun(queue.client, queue._awaited(due))):
                        yield ended
                watch.check_time()


def end_of(queue: Any, id: str, timeout: Seconds | None = None) -> Any:
    """Wait for one request or entry, as `wait` does; of a sub-request, REQUEST/N, its outcome once
    the request has ended."""
    request, _, part = id.partition("/")
    end = next(iter(wait(queue, request, timeout)))
    return queue.outcomes([id])[0] if part else end


async def async_end_of(queue: Any, id: str, timeout: Seconds | None = None) -> Any:
    """As `end_of`, for asyncio."""
    request, _, part = id.partition("/")
    end = await anext(async_wait(queue, request, timeout))
    return (await queue.outcomes([id]))[0] if part else end


class _Watch(Generic[A]):
    """What is waited for, and when to read it; without I/O."""

    def __init__(
        self,
        queue: HasEnds[Any, A],
        ids: str | Iterable[str],
        timeout: Seconds | None,
        progress: Callable[[A], None] | None,
        reread: Seconds,
        wanted: str,
    ) -> None:
        if not hasattr(queue, "_end_channels"):
            kinds = "a request queue, a delay set or a fair queue"
            raise BadInput(f"queue must be {kinds}, not {type(queue).__name__}")
        if (is_ := mode(queue.client)) != wanted:
            raise BadInput(
                f"queue has a client that is {is_}: wait is for connect(), and async_wait"
                " for aconnect()"
            )
        if progress is not None and not callable(progress):
            raise BadInput(f"progress must be a function, not {type(progress).__name__}")
        self._channels, self._progress = queue._end_channels, progress
        self._reread_s = reread_s = checked_seconds(reread, "reread")
        names = [ids] if isinstance(ids, str) else listed(ids, "ids")
        for id in names:
            if not isinstance(id, str):
                raise BadInput(f"ids must be texts (str), not {type(id).__name__}")
        self.open = dict.fromkeys(names)  # a set that keeps its order
        self._asked = len(self.open)
        self._hinted: dict[str, None] = {}
        self._left = countdown(timeout)
        self._was_late = False
        self._reread_at = monotonic() + reread_s

    def channels(self) -> list[str]:
        # Without ids, a channel that nobody publishes to: subscribing to none is an error.
        return [self._channels + id for id in self.open or [""]]

    def patience(self) -> float:
        """Seconds until silence is a reason to act."""
        reread, left = max(0.0, self._reread_at - monotonic()), self._left()
        return reread if left is None else min(reread, left)

    def note_hint(self, message: dict[str, Any] | None) -> bool:
        """Take a message as a hint, also the confirmation of a (new) subscription."""
        if message is None:
            return False
        id = message["channel"].decode().removeprefix(self._channels)
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
        now, late = monotonic(), self._left() == 0.0
        if now >= self._reread_at or (late and not self._was_late):
            self._hinted.update(self.open)
            self._reread_at, self._was_late = now + self._reread_s, late
        page = list(self._hinted)[:BATCH]
        for id in page:
            del self._hinted[id]
        return page

    def seen(self, ids: Sequence[str], records: list[A]) -> Iterator[A]:
        for id, record in zip(ids, records, strict=True):
            if self._progress:
                self._progress(record)
            if record.settled and id in self.open:
                del self.open[id]
                self._hinted.pop(id, None)
                yield record

    def check_time(self) -> None:
        if self.open and self._was_late:
            some = " ".join(list(self.open)[:5]) + (" …" if len(self.open) > 5 else "")
            raise TimeoutError(f"still open: {len(self.open)} of {self._asked}: {some}")


def _refuse_in_async_handler() -> None:
    """A wait in a worker's event loop stops all of its handlers, the awaited one among them."""
    with suppress(RuntimeError):
        loop = asyncio.get_running_loop()
        from ..worker.handler import RUNNING  # loaded already where it matters

        work = RUNNING.get()
        if work is not None and work.loop is loop:
            instead = "await async_wait(…) or job.aresult(), or use asyncio.to_thread"
            raise BadInput(f"to wait here stops the worker's event loop: {instead}")


def _pubsub(client: Any) -> Any:
    return client.pubsub()


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise translate(error) from error
