"""The worker: one loop that settles finished entries and takes the next, in one round trip."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from math import inf
from queue import Empty, SimpleQueue
from random import random as unseeded
from time import monotonic, sleep
from typing import Any

from redis import Redis, RedisCluster
from redis.exceptions import RedisError

from ..engine.queue import Queue
from ..engine.registry import server_ms
from ..engine.task_counts import RunCounts, report
from ..engine.worker_register import WorkerRegistration
from ..model.clock import FELL_MS, Seconds, checked_seconds, duration_ms
from ..model.entry import Limit, Settlement, TakeResult
from ..model.errors import BadInput, Forbidden, RedisqError, Refused, Unreadable
from ..model.keys import checked_consumer
from ..model.settings import DEFAULTS, LEASE_S, MAX_BATCH
from ..model.validation import listed, validated
from ..redis import acl_rights
from ..redis.operation import BlockingClient, Description, run
from ..signals import handled, signal_name
from .exchange_threads import Answer, ExchangeThreads
from .executors import Slots, slots
from .handler import Handler, TaskRules, Work, as_handler
from .health import Endpoint, Page
from .lease_renewal import LeaseRenewal
from .queue_source import QueueRotation, QueueSource, Redacted, Tally, address, log, settlements
from .reconnect import ReconnectingConnection
from .retry import Random, decided, failed, timed_out
from .sole_run import LOST_BEFORE, SoleRun
from .upkeep import UPKEEP_S, Upkeep
from .wake_up import WakeUp, WakeUpListener

LINGER_S = 0.05
"""how long a finished entry waits for others of its batch, to be settled with them"""
_MOST_SLOTS = 1000
_LAST_REPLIES_S = 1.0
"""how long a worker that stops waits for replies of the server"""

Ended = tuple[Work, Settlement | None]
Message = Ended | WakeUp | Answer | Exception | None


class Worker:
    """Runs a handler for each entry of one or several queues on one server, at least once.

        def handle(work):  # or: async def
            return work.payload.upper()  # the result; None: no result

        Worker(RequestQueue(connect(), "mail"), handle, concurrency=8).run()

    An exception is a failure: the entry is retried after a back-off, and dead after 20 failures.
    `Retry` and `Reject` decide otherwise. Leases are renewed while handlers run. An entry that lost
    its lease twice runs alone, for a minute at most: what kills its process takes no other entry
    with it.

    ``concurrency``: handlers that run at a time, 1 to 1000, in threads or, if ``async``, as tasks.
    ``batch``: 1 to 500; the worker holds up to ``concurrency`` × ``batch`` entries, and entries
    that finish together are settled together. More throughput, but a longer wait for entries behind
    slow ones. ``lease``, ``grace``, ``timeout``: seconds or a timedelta. ``consumer``: its name; by
    default from host and process id.

    ``timeout``: fail an entry whose handler takes longer. Tasks are cancelled and programs
    killed; a thread can't be, and its slot stays in use until the handler returns.

    ``grace``: the first `stop`, SIGTERM or SIGINT takes no more entries, releases those that
    haven't begun, and waits that long for the others; then it releases these too, without counting
    an attempt. The second signal doesn't wait.

    ``burst``: end when all queues are empty and nothing of this worker is left. It waits where
    other workers keep a request at its limit or a client at its cap, and doesn't wait for delayed,
    paused or blocked entries, nor for those that others hold.

    ``in_order``: take from the first queue that has entries, in the order given; else queues take
    turns.

    ``ping``: where ``GET /healthz`` is answered: a port, for this machine only, or ``host:port``,
    which also becomes the consumer's name, for a `LeaseReclaimer`. ``pages``: further pages there,
    by path. ``redacted``: changes a `Failure` before it is logged; a message may quote a payload.
    ``random``: for tests.

    An idle worker starts new entries at once. With several queues on a Cluster it listens to one at
    a time, 5 s each: run a process per queue there. Raises `BadInput` for bad arguments.
    """

    @validated
    def __init__(
        self,
        queues: Queue[BlockingClient] | Sequence[Queue[BlockingClient]],
        handler: Callable[[Work], Any] | Handler,
        *,
        consumer: str | None = None,
        concurrency: int = 1,
        batch: int = 1,
        lease: Seconds = LEASE_S,
        grace: Seconds = 25,
        timeout: Seconds | None = None,
        burst: bool = False,
        in_order: bool = False,
        ping: int | str | None = None,
        pages: Mapping[str, Page] | None = None,
        redacted: Redacted = lambda failure: failure,
        random: Random = unseeded,
    ) -> None:
        several = _checked_queues(queues)
        if not 1 <= concurrency <= _MOST_SLOTS or not 1 <= batch <= MAX_BATCH:
            raise BadInput(f"concurrency must be 1 to {_MOST_SLOTS}, and batch 1 to {MAX_BATCH}")
        lease_ms = duration_ms(lease, "lease", least_ms=1)
        grace_s = checked_seconds(grace, "grace")
        timeout_s = None if timeout is None else checked_seconds(timeout, "timeout", 0.001)
        self._endpoint = None if ping is None else Endpoint(ping, self._health, pages)
        host = socket.gethostname()
        address = self._endpoint.name if self._endpoint else None
        self.consumer = checked_consumer(consumer or address or f"{host}.{os.getpid()}")
        self._client = several[0].client
        self._sources = QueueRotation(several, lease_ms, redacted, in_order)
        registration = WorkerRegistration(self.consumer, concurrency * batch, host, os.getpid())
        self._handler = as_handler(handler)
        self._runs = RunCounts()
        self._upkeep = Upkeep(
            registration,
            self._sources,
            reports=self._reports,
            burst=burst,
            random=random,
        )
        self._listens = 0
        """how often it listened to wake lists"""
        rules = self._handler.tasks.values()
        self._own_times = any(task.timeout_s is not None for task in rules)
        self._timed = timeout_s is not None or self._own_times
        _refuse_lost_results(several, self._handler)
        self._concurrency, self._batch, self._lease_ms = concurrency, batch, lease_ms
        self._grace_s, self._timeout_s, self._burst = grace_s, timeout_s, burst
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._turn = threading.RLock()  # held by the thread that does the loop's work
        rest = self._wait if batch == 1 else sleep
        self._connection = ReconnectingConnection(self._client, random, rest, self._has_given_up)
        self._exchanges: ExchangeThreads
        self._slots: Slots
        self._listener: WakeUpListener
        self._listening = False
        self._overdue: set[Work] = set()  # failed by time-out, but the handler still runs
        self._sole = SoleRun()
        self._stops = 0
        self._begun = False
        self._why = "no entry is left to take"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave_by = inf
        self._quick = False  # whether the latest full batch was done within LINGER_S
        self._quiet_until = 0.0
        self._wakes_at = 0.0  # when the loop's thread ends its wait without a message
        self._limits: list[Limit] | None = None  # limits that a burst waits for; None: not read yet
        self._refused: Refused | None = None

    def stop(self, why: str = "stop()") -> None:
        """Stop gracefully; called again: at once. Safe in signal handlers and other threads.

        ``why``: for the log and the `Tally`; that of the last call counts.
        """
        if not self._stops:
            self._leave_by = monotonic() + self._grace_s
        self._why = why
        self._stops += 1
        self._inbox.put(None)

    async def run_async(self) -> Tally:
        """Work until `stop`, or until this task is cancelled; ``async`` handlers run in its loop.

        Cancelled, it stops as at SIGTERM, and raises CancelledError when that is done: await it, or
        the task, to the end. Cancelled again, it doesn't wait for handlers. If `asyncio.run` ends
        before, it cancels the handlers, too; their entries are given back. Signals are up to the
        program. Raises what `run` raises.
        """
        self._loop = asyncio.get_running_loop()
        ended = Future[Tally]()

        def work() -> None:
            try:
                ended.set_result(self.run())
            except BaseException as error:
                ended.set_exception(error)

        threading.Thread(target=work, name="redisq-worker", daemon=True).start()
        waiting = asyncio.wrap_future(ended)
        cancelled: asyncio.CancelledError | None = None
        while not waiting.done():
            try:
                await asyncio.wait([waiting])  # which it doesn't cancel
            except asyncio.CancelledError as error:
                cancelled = error
                self.stop("cancelled")
        if cancelled is not None:
            raise cancelled from waiting.exception()
        return waiting.result()

    def run(self) -> Tally:
        """Work until `stop`. In the main thread SIGTERM and SIGINT stop it.

        Logs when it begins and when it ends, with what it did. Raises `Unreachable` where there is
        no server at the start; later it waits for the server. Raises `Forbidden` where the server's
        ACL doesn't allow the work, or no longer allowed the last results to be sent; and
        `SchemaTooNew` or `WrongKind`; `Refused` where it met an entry that only its program's own
        workers may run. Call it once per worker.
        """
        post = self._inbox.put
        self._exchanges = ExchangeThreads(1 if self._batch == 1 else 2, self._connection, post)
        only_slot = self._concurrency == self._batch == 1 and not self._handler.is_async
        ended = self._exchange_in_slot if only_slot else post
        self._slots = slots(self._concurrency, self._handler, ended, self._loop)
        self._listener = WakeUpListener(self._client, post, lambda: self._free() > 0)
        renewal = LeaseRenewal(self._sources, self._lease_ms)
        in_main_thread = threading.current_thread() is threading.main_thread()
        with handled(self._signalled) if in_main_thread else nullcontext():
            try:
                self._ask_rights()
                self._begun = True
                self._log_start()
                self._serve()
            except BaseException as error:
                self._why = type(error).__name__
                raise
            finally:
                self._leave()
                renewal.close()
                self._listener.close()
                if self._endpoint:
                    self._endpoint.close()
                tally = self._sources.tally(self._why)
                if self._begun:
                    log.info("stopped, %s", tally)
        if self._refused is not None:
            raise self._refused
        return tally

    def _signalled(self, number: int, _frame: object) -> None:
        self.stop(signal_name(number))

    def _log_start(self) -> None:
        """Log what is in force."""
        if not log.isEnabledFor(logging.INFO):
            return
        timeout = "no time-out" if self._timeout_s is None else f"time-out {self._timeout_s:g} s"
        log.info(
            "started as %s: concurrency %d (%s), batch %d, lease %g s, grace %g s, %s",
            self.consumer,
            self._concurrency,
            "tasks" if self._handler.is_async else "threads",
            self._batch,
            self._lease_ms / 1000,
            self._grace_s,
            "time-outs of the tasks" if self._own_times else timeout,
        )
        for source in self._sources:
            try:
                settings = run(self._client, source.queue.settings.op())
                text = _retries(source.queue, settings, bool(self._handler.tasks))
            except RedisqError as error:  # work doesn't need them
                text = f"its settings can't be read: {error}"
            log.info("queue %s: %s", source.queue.name, text)

    def _ask_rights(self) -> None:
        for source in self._sources:
            if warning := run(self._client, acl_rights.to_work(source.queue)):
                log.warning(warning)

    # --- the loop ------------------------------------------------------------------------------

    def _serve(self) -> None:
        withdrawn = False
        while True:
            try:
                with self._turn:
                    self._confirm_end()
                    patience = self._patience()
                    self._wakes_at = monotonic() + patience
                self._wait(patience)
                with self._turn:
                    if self._stops and not withdrawn:
                        withdrawn = True
                        self._give_back(begun=False)
                        if begun := len(self._sources.unsettled()):
                            text = "stopping, %s: %d running, which have %g s to end"
                            log.info(text, self._why, begun, self._grace_s)
                    if self._is_done():
                        return
                    self._sources.bring_back(monotonic())
                    if not self._stops and monotonic() >= self._upkeep.due_at:
                        self._exchanges.send(self._upkeep.asks(), self._upkeep_done)
                    self._start_alone()
                    if self._exchange_is_due(monotonic()):
                        self._exchange()
            except (RedisqError, RedisError):
                if not self._stops:
                    raise
                return

    def _exchange_in_slot(self, ended: Ended) -> None:
        """Settle and take the next entry in the only slot's thread.

        Handing over to the loop's thread and back would take as long as the exchange itself. The
        loop is woken if nothing runs afterwards, or if a time-out ends before it would wake.
        """
        if self._stops or not self._turn.acquire(blocking=False):
            self._inbox.put(ended)
            return
        try:
            self._handler_ended(*ended)
            if self._exchange_is_due(monotonic()):
                self._exchange()
            due = min([*self._time_outs(), *self._sources.aside_until()], default=inf)
            if not self._sources.running() or due < self._wakes_at:
                self._inbox.put(None)
        except Exception as error:
            self._inbox.put(error)
        finally:
            self._turn.release()

    def _is_done(self) -> bool:
        """Whether the loop ends: stopped or, in a burst, with all queues confirmed empty."""
        if self._sources.held() or self._exchanges.busy:
            return self._is_late()
        return self._stops > 0 or (self._burst and self._limits == [])

    def _confirm_end(self) -> None:
        """Before a burst ends, take from every queue once more with nothing in progress.

        An earlier reply is older than what was settled since (which makes room under a limit), and
        than what handlers submitted since.
        """
        if not self._burst or self._stops or self._sources.held() or self._exchanges.busy:
            return
        unsure = [source for source in self._sources if not source.empty]
        for source in unsure:
            source.look_at = 0.0
        if not unsure and self._limits is None:
            asks = [source.queue.limits_reached.op(MAX_BATCH) for source in self._sources]
            self._exchanges.send(asks, self._read_limits)

    def _read_limits(self, replies: list[Any]) -> None:
        if any(isinstance(answer, Exception) for answer in replies):
            for source in self._sources:
                source.empty = False  # check all queues again
        else:
            self._limits = [limit for limits in replies for limit in limits]
        self._quiet_until = monotonic() + self._connection.pause_for(replies, work=False)

    def _is_late(self) -> bool:
        return self._stops > 1 or (self._stops > 0 and monotonic() >= self._leave_by)

    def _has_given_up(self) -> bool:
        """Whether there is no reason left to wait for a lost server."""
        return self._is_late() or (self._stops > 0 and not self._sources.held())

    def _free(self) -> int:
        """How many more entries may be taken; finished ones don't count."""
        if self._stops or self._sole.on:
            return 0
        room = (self._concurrency - len(self._overdue) + self._quick) * self._batch
        return room - self._sources.running() - self._sources.asked()

    def _exchange_is_due(self, now: float) -> bool:
        """Whether to exchange now; while another exchange is in progress only for whole batches."""
        if now < self._quiet_until or self._exchanges.busy >= self._exchanges.size:
            return False
        free, running = self._free(), self._sources.running()
        due = free > 0 and any(source.is_due(now) for source in self._sources)
        if (due and free >= self._batch) or self._sources.finished() >= self._batch:
            return True
        since, idle = self._sources.since, running < self._concurrency
        waits = since is not None and (idle or now - since >= LINGER_S)
        return not self._exchanges.busy and (waits or (due and idle))

    def _patience(self) -> float:
        """Seconds until the loop has something to do, unless a message comes before."""
        now = monotonic()
        if self._exchange_is_due(now) or self._is_done():
            return 0.0
        until = [self._leave_by if self._stops else self._upkeep.due_at]
        until += self._time_outs()
        until += self._sources.aside_until()
        if self._sole.ends_at > now:
            until.append(self._sole.ends_at)
        if not self._exchanges.busy:  # its reply comes as a message
            if self._sources.since is not None:
                until.append(max(self._quiet_until, self._sources.since + LINGER_S))
            if self._wants_work():
                until += [max(self._quiet_until, source.look_at) for source in self._sources]
                self._listen()
        return max(0.0, min(until) - now)

    def _time_outs(self) -> list[float]:
        """When handlers will have taken too long."""
        if not self._timed or self._handler.is_async:  # tasks have time-outs of their own
            return []
        now = monotonic()
        limited = (w for w in self._sources.unsettled() if w.timeout_s is not None)
        return [(w.started or now) + (w.timeout_s or 0.0) for w in limited]

    def _wants_work(self) -> bool:
        """Whether there is room for a whole batch, or an idle slot."""
        free = self._free()
        idle = self._sources.running() < self._concurrency
        return free >= self._batch or (free > 0 and idle)

    def _listen(self) -> None:
        if self._listening:
            return
        self._listening = True
        lists = list(self._sources.by_wake_list())
        if isinstance(self._client, RedisCluster):
            # There a command can't have keys of several slots: one list at a time.
            self._listens += 1
            lists = [lists[self._listens % len(lists)]]
        self._listener.listen(lists)

    def _wait(self, seconds: float) -> None:
        """Wait for messages, and fail handlers that take too long."""
        self._receive(seconds)
        with self._turn:
            self._expire()

    def _receive(self, patience: float) -> None:
        try:
            message = self._inbox.get(timeout=patience) if patience else self._inbox.get_nowait()
            with self._turn:
                while True:
                    self._read(message)
                    message = self._inbox.get_nowait()
        except Empty:
            pass

    def _read(self, message: Message) -> None:
        if isinstance(message, WakeUp):
            self._woken(message)
        elif isinstance(message, Answer):
            self._exchanges.hear(message)
        elif isinstance(message, Exception):
            raise message
        elif message is not None:
            self._handler_ended(*message)

    def _woken(self, woken: WakeUp) -> None:
        self._listening = False
        # Hints can be lost: after a while without one, take from one queue anyway.
        source = self._sources.by_wake_list().get(woken.key or "") or self._sources.look_up()
        source.look_at, source.woken = 0.0, True

    def _handler_ended(self, work: Work, settlement: Settlement | None) -> None:
        self._sole.ended(work)
        if work.settlement is not None:  # timed out or given back before
            self._overdue.discard(work)
        elif work.lost or settlement is None:
            self._sources.drop(work)
        else:
            self._finish(work, settlement)
            if work.goes_on:
                self._note_overdue(work)

    def _finish(self, work: Work, settlement: Settlement) -> None:
        name, task = self._task(work)
        if task is not None and settlement.outcome != "release":
            seconds = (work.ended or monotonic()) - (work.started or 0.0)
            failed = settlement.outcome not in ("ack", "result")
            self._runs.add(work.queue, name, seconds, failed)
        if settlement.outcome == "fail":
            queue = self._sources.queue(work.queue)
            if not queue.owner:  # else its program's back-off decides
                own = None if task is None else task.retry
                settlement = decided(settlement, own, queue.retry)
        self._sources.finish(work, settlement)

    def _task(self, work: Work) -> tuple[str, TaskRules | None]:
        """The name of its task, and the task; None: the handler has none for it."""
        name, _, _ = work.id.partition("~")
        return name, self._handler.tasks.get(name)

    def _reports(self) -> list[Description[None]]:
        """The runs of tasks since the last report, of each queue."""
        queue, release = self._sources.queue, self._handler.release
        return [report(queue(name), runs, release) for name, runs in self._runs.take().items()]

    def _expire(self) -> None:
        """Fail entries whose handlers take too long. Tasks have time-outs of their own."""
        if not self._timed or self._handler.is_async:
            return
        now = monotonic()
        for work in self._sources.unsettled():
            limit = work.timeout_s
            if limit is None or work.started is None or work.started + limit > now:
                continue
            self._note_overdue(work)
            error = timed_out(limit)
            work.error, work.ended = error, now
            self._finish(work, failed(work.delivery, error))
            if self._handler.abort:
                self._handler.abort(work)

    def _note_overdue(self, work: Work) -> None:
        """Its handler goes on, and keeps its slot."""
        self._overdue.add(work)
        if len(self._overdue) == self._concurrency:
            log.error("every slot is taken by a handler that outran its time-out")

    # --- exchanges with the server -------------------------------------------------------------

    def _exchange(self) -> None:
        """Settle what is finished, and take from the queue whose turn it is."""
        now = monotonic()
        settling = [(s, works) for s in self._sources if (works := s.to_settle())]
        if finished := [work for _, works in settling for work in works]:
            whole = len(finished) >= self._batch > 1
            self._quick = whole and now - (finished[0].started or 0.0) < LINGER_S
        free = min(self._free(), MAX_BATCH, self._concurrency * self._batch)
        source = self._sources.next([s for s, _ in settling]) if free > 0 else None
        alone = not self._sources.held() and not self._exchanges.busy
        self._sources.since = now if self._sources.finished() else None
        # One call settles and takes if only this queue has finished entries.
        at_once = [source] == [s for s, _ in settling] and not self._connection.troubled
        asks: list[Description[Any]] = []
        if not at_once:
            asks += [s.queue._settle_each(settlements(works)) for s, works in settling]
        if source:
            asks.append(source.ask(free, self.consumer, settling[0][1] if at_once else ()))

        def done(replies: list[Any]) -> None:
            found = _both_replies(replies[0]) if at_once else replies
            self._exchange_done(settling, source, free, alone, found)

        self._exchanges.send(asks, done)

    def _exchange_done(
        self,
        settling: Sequence[tuple[QueueSource, list[Work]]],
        source: QueueSource | None,
        asked: int,
        alone: bool,
        replies: list[Any],
    ) -> None:
        """``alone``: nothing else was in progress when the exchange began."""
        if source:
            source.asked -= asked
            taken = replies[-1]
            if isinstance(taken, TakeResult):
                self._take_done(source, asked, alone, taken)
            elif isinstance(taken, Unreadable) and not self._burst and self._connection.met:
                # Nothing was taken; the worker goes on with its other queues.
                source.set_aside(taken)
                replies = [*replies[:-1], None]
        errors = [
            one.settled(works, words)
            for (one, works), words in zip(settling, replies, strict=False)
        ]
        if self._sources.since is None and self._sources.finished():
            self._sources.since = monotonic()
        self._start_alone()
        failed = [*filter(None, errors), *replies[len(settling) :]]
        self._quiet_until = monotonic() + self._connection.pause_for(failed, work=True)

    def _take_done(self, source: QueueSource, asked: int, alone: bool, taken: TakeResult) -> None:
        source.plenty = len(taken.deliveries) == asked
        self._took(source, taken)
        source.empty = alone and not taken.deliveries and not taken.more
        self._limits = None
        if taken.deliveries:  # their handlers may submit to any queue
            for other in self._sources:
                other.empty = False
        if len(taken.deliveries) < asked and not taken.more:
            self._ask_limits(source)

    def _ask_limits(self, source: QueueSource) -> None:
        """Once in a while, find out whether slots are idle only because of a limit."""
        now = monotonic()
        if now < source.limits_at or self._stops or self._idle_slots() < 1:
            return
        source.limits_at = now + UPKEEP_S

        def tell(replies: list[Any]) -> None:
            if isinstance(replies[0], list) and (idle := self._idle_slots()) > 0:
                source.tell_limits(replies[0], idle, self._concurrency)

        self._exchanges.send([source.queue.limits_reached.op()], tell)

    def _idle_slots(self) -> int:
        return self._concurrency - len(self._overdue) - self._sources.running()

    def _upkeep_done(self, replies: list[Any]) -> None:
        self._upkeep.read(replies)
        if self._burst and any(replies[1:]):  # a run of a periodic entry may wait now
            for source in self._sources:
                source.empty, source.look_at = False, 0.0
        self._quiet_until = monotonic() + self._connection.pause_for(replies, work=False)

    def _took(self, source: QueueSource, taken: TakeResult) -> None:
        """Start the taken entries, and note when to look at the queue again."""
        works = [
            Work(delivery, source.renew, delivery.deadline_ms - source.lease_ms)
            for delivery in taken.deliveries
        ]
        if self._timed:
            for work in works:
                _, task = self._task(work)
                own = None if task is None else task.timeout_s
                work.timeout_s = self._timeout_s if own is None else own
        source.held.update(works)
        if works or taken.more or source.woken:
            source.look_at = 0.0
        elif taken.look_again_ms is None:
            source.look_at = inf
        else:  # a millisecond later, so that the same time isn't tried twice
            source.look_at = (taken.look_again_ms + 1) / 1000 - self._upkeep.clock_s
            if source.look_at < monotonic() - FELL_MS / 1000:  # the server's clock was set back
                source.look_at = monotonic() + LINGER_S
                self._exchanges.send([server_ms()], self._upkeep.read_clock)
        if not self._stops:
            self._leave_to_owner(source.queue, works)
        if self._stops:
            self._give_back(begun=False)
        elif works:
            self._start(works)

    def _start(self, works: Sequence[Work]) -> None:
        """Run handlers. Of entries that lost their leases before, one waits until nothing else is
        held; others go back to the front of their queue."""
        beside = []
        for work in works:
            if work.delivery.lost < LOST_BEFORE:
                beside.append(work)
            elif not self._sole.admit(work):
                self._sources.finish(work, Settlement(work.delivery, "release"))
        self._slots.start(beside)

    def _start_alone(self) -> None:
        if (work := self._sole.due(self._sources.held())) is not None:
            self._slots.start([work])

    def _leave_to_owner(self, queue: Queue[BlockingClient], works: Sequence[Work]) -> None:
        """Stop if a worker of the queue's program must run one of these.

        Given back, it is the next of its queue again, so this worker could not go on.
        """
        for work in works:
            if why := queue.left_to_owner(work.delivery):
                self._refused = Refused(
                    f"{address(work)} is back in its queue: {why}. Leave {queue.name} to"
                    f" {queue.owner}, or give such jobs a queue of their own"
                )
                return self.stop(f"{work.id} is not for this worker")

    # --- stopping ------------------------------------------------------------------------------

    def _give_back(self, begun: bool) -> None:
        """Release entries whose handlers have not begun or, with ``begun``, all."""
        for work in self._sources.unsettled():
            if begun or work.started is None:
                self._sources.finish(work, Settlement(work.delivery, "release"))

    def _leave(self) -> None:
        """Release all entries, without counting an attempt and without waiting for handlers."""
        self._stops = max(1, self._stops)
        self._exchanges.send(self._upkeep.leave(), lambda _: None)
        self._exchanges.close(_LAST_REPLIES_S)
        for _ in range(1 + self._exchanges.busy):  # each reply may be an error
            with suppress(RedisqError, RedisError):
                self._receive(0.0)
        running = [work for work in self._sources.unsettled() if work.started is not None]
        self._give_back(begun=True)
        for work in running:
            if self._handler.abort:
                self._handler.abort(work)
        self._slots.close()
        self._connection.close()
        for source in self._sources:
            source.bring_back()
            error: Exception | None = None
            try:
                while works := source.to_settle():
                    words = run(self._client, source.queue._settle_each(settlements(works)))
                    error = next((word for word in words if isinstance(word, Exception)), error)
                    rest = len(source.finished)
                    source.settled(works, words)
                    del source.finished[: len(source.finished) - rest]  # those are not sent again
            except (RedisqError, RedisError) as lost:
                error = lost
            if error is not None:
                n = len(source.held)
                log.warning("%d results could not be sent; their leases will expire: %s", n, error)
                if isinstance(error, Forbidden):
                    self._refused = error

    def _health(self) -> dict[str, Any]:
        held, queues = self._sources.held(), self._sources.names
        return {"consumer": self.consumer, "queues": queues, "held": held}


def _checked_queues(
    queues: Queue[BlockingClient] | Sequence[Queue[BlockingClient]],
) -> Sequence[Queue[BlockingClient]]:
    """One queue or several, if one worker can take from them all; else `BadInput`."""
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
        raise BadInput("the queues of one worker must share one client")
    if len({queue.name for queue in several}) < len(several):
        raise BadInput("a queue is named twice; a worker takes each queue once")
    return several


def _retries(queue: Queue[Any], settings: dict[str, str], tasks: bool) -> str:
    """When an entry of the queue is dead, in words."""
    failures = settings.get("max_failures", DEFAULTS.max_failures)
    lost = settings.get("max_lost", DEFAULTS.max_lost)
    after = f"after {failures} failures" if queue.counts_failures else f"as {queue.owner} decides"
    if tasks:
        after = f"after the retries of its task, at most {failures} failures"
    return f"an entry is dead {after}, or after {lost} lost leases"


def _refuse_lost_results(queues: Sequence[Queue[Any]], handler: Handler) -> None:
    """Raise `BadInput` where a handler says that it returns results and a queue keeps none."""
    lossy = [queue.name for queue in queues if not queue.keeps_results]
    if handler.returns and lossy:
        raise BadInput(
            f"the handler returns a result, and queue {lossy[0]} keeps none: let it return None, "
            "or use a request queue, a delay set or a fair queue"
        )


def _both_replies(reply: Any) -> list[Any]:
    """The reply of a call that settles and takes, as if these were two calls."""
    return [reply, reply] if isinstance(reply, Exception) else list(reply)
