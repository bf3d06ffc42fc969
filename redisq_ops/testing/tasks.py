"""Runs tasks in the process of a test, at once and without a server.

    from redisq_ops.testing.tasks import at_once

    def test_thumbnails() -> None:
        with at_once(jobs) as stage:
            job = thumbnail.submit("a.png", in_=60)
            stage.advance(60)
            assert job.result() == Size(200, 100)

Arguments and results become JSON and are read again, as on a server. What `map` and `cron` do needs
a server: `redisq_ops.testing.fixtures`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from redisq_ops.core.model.clock import Moment, Seconds, checked_moment, duration_ms, wall_ms
from redisq_ops.core.model.entry import Delivery, EntryOutcome, Failure
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.retry_policy import RetryPolicy
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.worker.handler import Handler, Work, perform
from redisq_ops.tasks.queues import JobQueues
from redisq_ops.tasks.registry import Tasks


@contextmanager
def at_once(tasks: Tasks) -> Iterator[Stage]:
    """Run each job when it is submitted, or when its time comes, see `Stage.advance`."""
    before, stage = tasks.queues, Stage(tasks)
    tasks.queues = stage
    try:
        yield stage
    finally:
        tasks.queues = before


class Stage(JobQueues):
    """Jobs, and a clock that stands still until it is advanced."""

    def __init__(self, tasks: Tasks) -> None:
        super().__init__({}, tasks.url, tasks.prefix)
        self._tasks = tasks
        self._due: dict[str, tuple[int, Delivery]] = {}
        self._outcomes: dict[str, EntryOutcome] = {}
        self._running: set[str] = set()
        self.now_ms = wall_ms()

    def advance(self, span: Seconds) -> None:
        """Let time pass, in seconds or as a timedelta; jobs and retries that become due run."""
        end = self.now_ms + duration_ms(span, "span")
        while due := [at for at, _ in self._due.values() if at <= end]:
            self.now_ms = max(self.now_ms, min(due))
            self._run_due()
        self.now_ms = end

    def queue(self, name: str) -> Stage:
        if name == self._tasks.map_name:
            raise BadInput("map needs a server: see redisq_ops.testing.fixtures")
        return self

    def declare_periodics(self, *args: Any) -> None:
        raise BadInput("workers and schedules need a server: see redisq_ops.testing.fixtures")

    async def aqueue(self, name: str) -> _Awaited:
        return _Awaited(self.queue(name))

    def add_entries(
        self,
        entries: Sequence[tuple[str, bytes]],
        client: str | None = None,
        at: Moment | None = None,
        after: Seconds | None = None,
    ) -> list[str]:
        ((id, payload),) = entries
        ready = self.now_ms + duration_ms(after or 0, "after")
        if at is not None:
            ready = checked_moment(at, "at")
        there = self._outcomes.get(id)
        if id in self._due or id in self._running or (there is not None and there.state == "dead"):
            return ["exists"]
        job = Delivery(self._tasks.name, id, payload, "", 0, 0, 0, "test", client)
        self._due[id] = (ready, job)
        self._run_due()
        return ["ok"]

    def outcomes(self, ids: Sequence[str]) -> list[EntryOutcome]:
        return [self._outcome(id) for id in ids]

    def _outcome(self, id: str) -> EntryOutcome:
        if id in self._due:
            at, _ = self._due[id]
            return EntryOutcome(id, "waiting" if at <= self.now_ms else "delayed")
        return self._outcomes.get(id, EntryOutcome(id, None))

    def ended(self, queue: str, id: str, timeout: Seconds | None) -> EntryOutcome:
        outcome = self._outcome(id)
        if not outcome.settled:
            raise TimeoutError(f"still open: 1 of 1: {id}; its time comes with `advance`")
        return outcome

    async def aended(self, queue: str, id: str, timeout: Seconds | None) -> EntryOutcome:
        return self.ended(queue, id, timeout)

    def _run_due(self) -> None:
        while due := sorted((at, id) for id, (at, _) in self._due.items() if at <= self.now_ms):
            _, delivery = self._due.pop(due[0][1])
            self._running.add(delivery.id)
            try:
                self._run(delivery)
            finally:
                self._running.discard(delivery.id)

    def _run(self, delivery: Delivery) -> None:
        work = Work(delivery, lambda works: [True] * len(works), self.now_ms)
        # Each job gets threads of its own: it may submit others, which run while it does.
        handler = self._tasks.handler(1)
        end = perform(replace(handler, call=partial(_call, handler)), work)
        task = handler.tasks.get(work.task or "")
        policy = (task and task.retry) or RetryPolicy()
        error = Failure.decoded(end.value)
        again = delivery._replace(failures=delivery.failures + 1)
        if end.outcome == "result":
            self._outcomes[delivery.id] = EntryOutcome(delivery.id, "done", end.value)
        elif end.outcome == "fail" and again.failures < (policy.attempts or DEFAULTS.max_failures):
            wait = policy.wait_s(again.failures) if end.delay is None else end.delay
            self._due[delivery.id] = (self.now_ms + duration_ms(wait, "delay"), again)
        else:
            reason = "rejected" if end.outcome == "reject" else "failed"
            self._outcomes[delivery.id] = EntryOutcome(delivery.id, "dead", None, reason, error)


class _Awaited:
    """A stage as asyncio's callers see it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def add_entries(self, *args: Any, **place: Any) -> list[str]:
        return self._stage.add_entries(*args, **place)


def _call(handler: Handler, work: Work) -> Any:
    """The result of a handler; that of an async one also where a loop runs in this thread."""
    if not handler.is_async:
        return handler.call(work)
    from threading import Thread

    found: list[Any] = []
    here = copy_context()  # the job that runs

    def run() -> None:
        try:
            found.append((here.run(asyncio.run, handler.call(work)), None))
        except BaseException as error:
            found.append((None, error))

    thread = Thread(target=run)
    thread.start()
    thread.join()
    result, error = found[0]
    if error is not None:
        raise error
    return result
