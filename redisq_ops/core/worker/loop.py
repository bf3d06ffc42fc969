"""The worker: one loop that settles what is finished and takes what is next, in one round trip."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from queue import Empty, SimpleQueue
from random import random as unseeded
from time import monotonic, sleep
from typing import Any

from redis import Redis, RedisCluster
from redis.exceptions import RedisError

from ..engine.queue import Queue
from ..engine.registry import server_ms
from ..model.clock import FELL_MS, Duration, checked_ms
from ..model.entry import Limit, Settlement, TakeResult
from ..model.errors import BadInput, Forbidden, RedisqError, Unreadable
from ..model.keys import checked_consumer
from ..model.settings import LEASE_MS, MAX_BATCH
from ..model.validation import listed
from ..redis import acl_rights
from ..redis.operation import BlockingClient, Description, run
from .exchange_threads import Answer, ExchangeThreads
from .executors import Slots, slots
from .handler import Handler, Random, Work, as_handler, timed_out
from .health import Endpoint
from .heartbeat import Heartbeat
from .queue_source import QueueSource, Redacted, Sources, log, settlements
from .reconnect import ReconnectingConnection
from .transfer_recovery import TransferRecoverer
from .wake_up import Doorbell, Rung

UPKEEP_S = 30.0
MUCH = 40
LINGER_S = 0.05
"""how long a finished entry of a batch may wait for company before it is settled"""
_MOST_SLOTS = 1000
_LAST_WORD_S = 1.0
"""how long one that leaves waits for what the server is saying"""

Message = tuple[Work, Settlement | None] | Rung | Answer | None


class Worker:
    """Runs a handler for every entry of some queues (on one server), at least once each.

    ``concurrency`` handlers run at a time, in threads or, if ``async``, as tasks; up to
    ``concurrency`` × ``batch`` entries are held, and those that finish together are settled
    together. While a batch of 2 or more takes less than `LINGER_S`, another one is fetched ahead.

    ``timeout_s`` fails an entry whose handler takes longer. A thread can't be ended from outside:
    its slot stays taken until the handler returns; tasks are cancelled, programs killed.

    An idle worker starts what arrives at once; one with several queues of a Cluster listens to one
    at a time, for `IDLE_BLOCK_MS` each, so there a process per queue is quicker.

    The first `stop` (SIGTERM, SIGINT) takes nothing more, gives back what wasn't begun, and waits
    ``grace_s`` for the rest; what is unfinished then is given back without counting as an attempt.
    The second one doesn't wait. ``ping`` (a port, or ``host:port``) answers a `Monitor`, and names
    the consumer by that address.

    ``burst`` ends when all queues were found empty with nothing of this worker's under way. It
    waits for its turn where a request is at its limit, or a client at its cap, by the work of
    others; not for what is delayed, paused or blocked, nor for what others have.

    The log shows type and message of failures (at debug level the traceback, too) as ``redacted``
    returns them; a message may quote a payload.
    """

    def __init__(
        self,
        queues: Queue[BlockingClient] | Sequence[Queue[BlockingClient]],
        handler: Callable[[Work], Any] | Handler,
        *,
        consumer: str | None = None,
        concurrency: int = 1,
        batch: int = 1,
        lease_ms: Duration = LEASE_MS,
        grace_s: float = 25.0,
        timeout_s: float | None = None,
        burst: bool = False,
        ping: int | str | None = None,
        redacted: Redacted = lambda failure: failure,
        random: Random = unseeded,
    ) -> None:
        several = [queues] if isinstance(queues, Queue) else listed(queues, "a worker's queues")
        for queue in several:
            if not isinstance(queue, Queue):
                raise BadInput(
                    f"a worker needs queues, not {type(queue).__name__}: "
                    "Worker(RequestQueue(connect(URL), NAME), handler)"
                )
        if not several:
            raise BadInput("a worker needs a queue")
        if not isinstance(several[0].client, (Redis, RedisCluster)):
            raise BadInput("a worker wants a client made by connect(); its handlers may be async")
        if any(queue.client is not several[0].client for queue in several):
            raise BadInput("the queues of one worker share one client")
        if len({queue.name for queue in several}) < len(several):
            raise BadInput("a worker is given each queue once")
        if not 1 <= concurrency <= _MOST_SLOTS or not 1 <= batch <= MAX_BATCH:
            raise BadInput(f"concurrency is 1 to {_MOST_SLOTS}, batch 1 to {MAX_BATCH}")
        lease_ms = checked_ms(lease_ms, "lease_ms")
        if lease_ms < 1 or grace_s < 0 or (timeout_s is not None and timeout_s <= 0):
            raise BadInput("lease, grace and time-out are positive")
        self._endpoint = None if ping is None else Endpoint(ping, self._health)
        fallback = f"{socket.gethostname()}.{os.getpid()}"
        named = consumer or (self._endpoint.name if self._endpoint else fallback)
        self.consumer = checked_consumer(named)
        self._client = several[0].client
        self._sources = Sources(several, lease_ms, redacted)
        self._lists = deque(self._sources.by_wake_list)
        self._handler = as_handler(handler)
        self._concurrency, self._batch, self._lease_ms = concurrency, batch, lease_ms
        self._grace_s, self._timeout_s, self._burst = grace_s, timeout_s, burst
        self._random = random
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        rest = self._meanwhile if batch == 1 else sleep
        self._line = ReconnectingConnection(self._client, random, rest, self._has_given_up)
        self._lanes: ExchangeThreads
        self._slots: Slots
        self._bell: Doorbell
        self._listening = False
        self._overdue: set[Work] = set()
        self._clock_s = 0.0  # the server's clock minus ours; for knowing when to look, no more
        self._upkeep_at = 0.0
        self._recoveries = TransferRecoverer()
        self._stops = 0
        self._leave_by = inf
        self._quick = False
        self._quiet_until = 0.0
        self._limits: list[Limit] | None = None  # what a burst waits for; None: to be asked
        self._refused: Forbidden | None = None

    def stop(self) -> None:
        """Begin to end; called again: end at once. Safe in signal handlers and other threads."""
        if not self._stops:
            self._leave_by = monotonic() + self._grace_s
        self._stops += 1
        self._inbox.put(None)

    def run(self) -> None:
        """Work until stopped. In the main thread SIGTERM and SIGINT stop it meanwhile.

        Raises `Unreachable` if there is no server to begin with; one that goes away later is
        waited for. Raises `Forbidden` if the server's ACL doesn't let the user work on a queue, or
        if results couldn't be told at the end because it no longer did. Raises what waiting can't
        mend: `SchemaTooNew`, `WrongKind`, a programming error. A worker runs once.
        """
        post = self._inbox.put
        self._lanes = ExchangeThreads(1 if self._batch == 1 else 2, self._line, post)
        self._slots = slots(self._concurrency, self._handler, post, self._random, self._timeout_s)
        self._bell = Doorbell(self._client, post, lambda: self._free() > 0)
        heartbeat = Heartbeat(self._sources, self._lease_ms)
        with self._signals():
            try:
                self._ask_rights()
                self._serve()
            finally:
                self._leave()
                heartbeat.close()
                self._bell.close()
                if self._endpoint:
                    self._endpoint.close()
        if self._refused is not None:
            raise self._refused

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        which = (signal.SIGTERM, signal.SIGINT)
        before = [signal.signal(number, lambda *_: self.stop()) for number in which]
        try:
            yield
        finally:
            for number, handler in zip(which, before, strict=True):
                signal.signal(number, handler)

    def _ask_rights(self) -> None:
        for source in self._sources:
            if warning := run(self._client, acl_rights.to_work(source.queue)):
                log.warning(warning)

    # --- the loop ------------------------------------------------------------------------------

    def _serve(self) -> None:
        withdrawn = False
        while True:
            try:
                self._confirm_end()
                self._meanwhile(self._patience())
                if self._stops and not withdrawn:
                    withdrawn = True
                    self._give_back(begun=False)
                if self._is_done():
                    return
                if not self._stops and monotonic() >= self._upkeep_at:
                    self._upkeep()
                if self._turn_is_due(monotonic()):
                    self._turn()
            except (RedisqError, RedisError):
                if not self._stops:
                    raise
                return

    def _is_done(self) -> bool:
        if self._sources.held() or self._lanes.busy:
            return self._is_late()
        return self._stops > 0 or (self._burst and self._limits == [])

    def _confirm_end(self) -> None:
        """Before a burst ends, ask every queue once more with nothing of ours under way.

        An answer from before is older than what was settled (which makes room under a limit) or
        submitted by a handler since.
        """
        if not self._burst or self._stops or self._sources.held() or self._lanes.busy:
            return
        unsure = [source for source in self._sources if not source.empty]
        for source in unsure:
            source.look_at = 0.0
        if not unsure and self._limits is None:
            asks = [source.queue.limits_reached.op(MAX_BATCH) for source in self._sources]
            self._lanes.send(asks, self._told_limits)

    def _told_limits(self, said: list[Any]) -> None:
        if any(isinstance(answer, Exception) for answer in said):
            for source in self._sources:
                source.empty = False  # begin the end anew
        else:
            self._limits = [limit for limits in said for limit in limits]
        self._quiet_until = monotonic() + self._line.heed(said, work=False)

    def _is_late(self) -> bool:
        return self._stops > 1 or (self._stops > 0 and monotonic() >= self._leave_by)

    def _has_given_up(self) -> bool:
        return self._is_late() or (self._stops > 0 and not self._sources.held())

    def _free(self) -> int:
        """How many more entries may be asked for; those finished don't count."""
        if self._stops:
            return 0
        room = (self._concurrency - len(self._overdue) + self._quick) * self._batch
        return room - self._sources.running() - self._sources.asked()

    def _turn_is_due(self, now: float) -> bool:
        """Beside one that is under way, a turn is for whole batches only."""
        if now < self._quiet_until or self._lanes.busy >= self._lanes.size:
            return False
        free, running = self._free(), self._sources.running()
        due = free > 0 and any(source.is_due(now) for source in self._sources)
        if (due and free >= self._batch) or self._sources.finished() >= self._batch:
            return True
        since, idle = self._sources.since, running < self._concurrency
        waits = since is not None and (idle or now - since >= LINGER_S)
        return not self._lanes.busy and (waits or (due and idle))

    def _patience(self) -> float:
        """How long nothing but a message needs the loop, s."""
        now = monotonic()
        if self._turn_is_due(now) or self._is_done():
            return 0.0
        until = [self._leave_by if self._stops else self._upkeep_at]
        if self._timeout_s is not None:
            until += [(w.started or now) + self._timeout_s for w in self._sources.unsettled()]
        if not self._lanes.busy:  # whose answer is a message
            if self._sources.since is not None:
                until.append(max(self._quiet_until, self._sources.since + LINGER_S))
            if self._wants_work():
                until += [max(self._quiet_until, source.look_at) for source in self._sources]
                self._listen()
        return max(0.0, min(until) - now)

    def _wants_work(self) -> bool:
        """Room for a whole batch, or a slot with nothing to do."""
        free = self._free()
        idle = self._sources.running() < self._concurrency
        return free >= self._batch or (free > 0 and idle)

    def _listen(self) -> None:
        if self._listening:
            return
        self._listening = True
        # Different slots of a Cluster can't be in one command: one list at a time there.
        self._lists.rotate(-1)
        cluster = isinstance(self._client, RedisCluster)
        self._bell.listen([self._lists[0]] if cluster else list(self._lists))

    def _meanwhile(self, seconds: float) -> None:
        """Wait for a message, and see to what has ended or takes too long."""
        self._receive(seconds)
        self._expire()

    def _receive(self, patience: float) -> None:
        try:
            message = self._inbox.get(timeout=patience) if patience else self._inbox.get_nowait()
            while True:
                if isinstance(message, Rung):
                    self._rung(message)
                elif isinstance(message, Answer):
                    self._lanes.hear(message)
                elif message is not None:
                    self._ended(*message)
                message = self._inbox.get_nowait()
        except Empty:
            pass

    def _rung(self, rung: Rung) -> None:
        self._listening = False
        # Hints can be lost: when nobody rings for long, one queue is looked at without.
        rang = self._sources.by_wake_list[rung.key] if rung.key else self._sources.first
        rang.look_at, rang.rung = 0.0, True

    def _ended(self, work: Work, settlement: Settlement | None) -> None:
        if work.settlement is not None:  # timed out or given back before
            self._overdue.discard(work)
        elif work.lost or settlement is None:
            self._sources.drop(work)
        else:
            self._sources.finish(work, settlement)

    def _expire(self) -> None:
        """Fail what takes too long. (Tasks see to it themselves.)"""
        if self._timeout_s is None or self._handler.is_async:
            return
        late = monotonic() - self._timeout_s
        for work in self._sources.unsettled():
            if work.started is None or work.started > late:
                continue
            self._overdue.add(work)
            settlement = timed_out(work.delivery, self._timeout_s, self._random)
            self._sources.finish(work, settlement)
            if self._handler.abort:
                self._handler.abort(work)
            if len(self._overdue) == self._concurrency:
                log.error("every slot is taken by a handler that outran its time-out")

    # --- talking to the server -----------------------------------------------------------------

    def _turn(self) -> None:
        """Tell what is finished, and take from the queue whose turn it is."""
        now = monotonic()
        telling = [(s, works) for s in self._sources if (works := s.to_tell())]
        asks: list[Description[Any]] = [s.queue.settle.op(settlements(w)) for s, w in telling]
        if told := [work for _, works in telling for work in works]:
            whole = len(told) >= self._batch > 1
            self._quick = whole and now - (told[0].started or 0.0) < LINGER_S
        free = min(self._free(), MAX_BATCH, self._concurrency * self._batch)
        source = self._sources.next([s for s, _ in telling]) if free > 0 else None
        alone = not self._sources.held() and not self._lanes.busy
        if source:
            asks.append(source.ask(free, self.consumer))
        self._sources.since = now if self._sources.finished() else None
        self._lanes.send(asks, lambda said: self._turned(telling, source, free, alone, said))

    def _turned(
        self,
        telling: Sequence[tuple[QueueSource, list[Work]]],
        source: QueueSource | None,
        asked: int,
        alone: bool,
        said: list[Any],
    ) -> None:
        """``alone``: nothing else of this worker's was under way when that was sent."""
        if source:
            source.asked -= asked
            taken = said[-1]
            if isinstance(taken, TakeResult):
                source.plenty = len(taken.deliveries) == asked
                self._took(source, taken)
                source.empty = alone and not taken.deliveries and not taken.more
                self._limits = None
                if taken.deliveries:  # whose handlers may submit to any queue
                    for other in self._sources:
                        other.empty = False
                if len(taken.deliveries) < asked and not taken.more:
                    self._ask_limits(source)
            elif isinstance(taken, Unreadable) and not self._burst and self._line.met:
                # Nothing was taken. The other queues go on.
                source.set_aside(taken)
                said = [*said[:-1], None]
        for (teller, works), words in zip(telling, said, strict=False):
            teller.told(works, words)
        if self._sources.since is None and self._sources.finished():
            self._sources.since = monotonic()
        self._quiet_until = monotonic() + self._line.heed(said, work=True)

    def _ask_limits(self, source: QueueSource) -> None:
        """Find out, once in a while, whether slots stay idle only because of a limit."""
        now = monotonic()
        if now < source.limits_at or self._stops or self._idle_slots() < 1:
            return
        source.limits_at = now + UPKEEP_S

        def tell(said: list[Any]) -> None:
            if isinstance(said[0], list) and (idle := self._idle_slots()) > 0:
                source.tell_limits(said[0], idle, self._concurrency)

        self._lanes.send([source.queue.limits_reached.op()], tell)

    def _idle_slots(self) -> int:
        return self._concurrency - len(self._overdue) - self._sources.running()

    def _upkeep(self) -> None:
        """Set our watch, and do for each queue what is to be done from time to time."""
        asks: list[Description[Any]] = [server_ms()]
        if self._upkeep_at:
            asks += [_kept_up(source.queue, self._recoveries) for source in self._sources]
        # The first one at any moment of its turn, lest a fleet that starts together stay so.
        self._upkeep_at = monotonic() + UPKEEP_S * (1.0 if self._upkeep_at else self._random())
        self._lanes.send(asks, self._zset_range)

    def _ask_clock(self) -> None:
        self._lanes.send([server_ms()], self._told_clock)

    def _told_clock(self, said: list[Any]) -> None:
        if not isinstance(said[0], Exception):
            self._clock_s = said[0] / 1000 - monotonic()

    def _zset_range(self, said: list[Any]) -> None:
        self._told_clock(said)
        if any(isinstance(went, int) and went >= MUCH for went in said[1:]):
            self._upkeep_at = monotonic() + 1.0  # there is more where that came from
        self._quiet_until = monotonic() + self._line.heed(said, work=False)

    def _took(self, source: QueueSource, taken: TakeResult) -> None:
        works = [Work(delivery, source.renew) for delivery in taken.deliveries]
        source.held.update(works)
        if works or taken.more or source.rung:
            source.look_at = 0.0
        elif taken.look_again_ms is None:
            source.look_at = inf
        else:  # a millisecond later, lest the same moment be looked at again and again
            source.look_at = (taken.look_again_ms + 1) / 1000 - self._clock_s
            if source.look_at < monotonic() - FELL_MS / 1000:  # the server's clock was set back
                source.look_at = monotonic() + LINGER_S
                self._ask_clock()
        if self._stops:
            self._give_back(begun=False)
        elif works:
            self._slots.start(works)

    # --- leaving -------------------------------------------------------------------------------

    def _give_back(self, begun: bool) -> None:
        for work in self._sources.unsettled():
            if begun or work.started is None:
                self._sources.finish(work, Settlement(work.delivery, "release"))

    def _leave(self) -> None:
        """Give everything back; without counting, and without waiting for anybody."""
        self._stops = max(1, self._stops)
        self._lanes.close(_LAST_WORD_S)
        for _ in range(1 + self._lanes.busy):  # an answer may be that there is no server
            with suppress(RedisqError, RedisError):
                self._receive(0.0)
        running = [work for work in self._sources.unsettled() if work.started is not None]
        self._give_back(begun=True)
        for work in running:
            if self._handler.abort:
                self._handler.abort(work)
        self._slots.close()
        for source in self._sources:
            try:
                while works := source.to_tell():
                    source.told(works, source.queue.settle(settlements(works)))
            except (RedisqError, RedisError) as error:
                n = len(source.finished)
                log.warning("%d results couldn't be told, their leases will run out: %s", n, error)
                if isinstance(error, Forbidden):
                    self._refused = error

    def _health(self) -> dict[str, Any]:
        held, queues = self._sources.held(), self._sources.names
        return {"consumer": self.consumer, "queues": queues, "held": held}


async def _kept_up(queue: Queue[BlockingClient], recoveries: TransferRecoverer) -> int:
    """A queue's upkeep; none of one that doesn't exist yet: keys come after the registry entry."""
    if not await queue.exists.op():
        return 0
    went: int = await queue.upkeep.op()
    await recoveries.look(queue)
    return went
