"""What a worker does with a job: find the task, call it, keep its result, submit what follows."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from redisq_ops import Reject, Work
from redisq_ops.core.model.settings import MAX_RESULT
from redisq_ops.core.worker.daemon_threads import DaemonThreads

from .codec import Call, encoded, packed, read_call, with_argument
from .task import Task

if TYPE_CHECKING:
    from .registry import Tasks

log = logging.getLogger("redisq_ops.tasks")


class UnknownTask(Reject):
    """The code of this worker has no such task."""


class UnfitArguments(Reject):
    """The arguments don't fit the task in the code of this worker."""


class UnfitResult(Reject):
    """What the task returned can't be kept."""


class Expired(Reject):
    """The job was not to begin so late."""


class Runner:
    """Runs jobs: in the worker's threads or, if one of the tasks is async, in its event loop; other
    tasks run in ``threads`` threads then."""

    def __init__(self, owner: Tasks, threads: int) -> None:
        self._owner, self._tasks = owner, owner.tasks
        self.is_async = any(task.is_async for task in self._tasks.values())
        self._threads = DaemonThreads(threads, "redisq-task")

    def call(self, work: Work) -> bytes:
        """Run a job; returns its result as it is kept."""
        try:
            call = self._read(work)
            task, kwargs = self._begun(work, call)
            result = task.function(**kwargs)
            data = self._kept(work, task, call, result)
        except BaseException as error:
            self._tell("failed", work, error)
            raise
        self._tell("after", work, result)
        return data

    async def acall(self, work: Work) -> bytes:
        """As `call`, in an event loop."""
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._threads)
        try:
            # What follows a batch reads its results.
            after_map = work.queue == self._owner.map_name
            call = await in_thread(self._read, work) if after_map else self._read(work)
            task, kwargs = self._begun(work, call)
            if task.is_async:
                result = await task.function(**kwargs)
            else:
                result = await work.run_in(self._threads, partial(task.function, **kwargs))
            keep = partial(self._kept, work, task, call, result)
            data = await in_thread(keep) if call.then else keep()
        except BaseException as error:
            self._tell("failed", work, error)
            raise
        self._tell("after", work, result)
        return data

    def _read(self, work: Work) -> Call:
        """The call, with the results of the batch that it follows."""
        try:
            call = read_call(work.payload)
        except ValueError as error:
            raise UnknownTask(f"the payload calls no task: {error}") from None
        if call.batch is None:
            return call
        results = list[bytes]()
        for part in self._owner.queues.queue(self._owner.map_name).results(call.batch):
            if part.result is None:
                first = "replay that entry" if part.state == "dead" else "wait until it is done"
                raise UnfitArguments(
                    f"this job needs the result of {call.batch}/{part.number}, which is "
                    f"{part.state}: {first}, then replay this job"
                )
            results.append(part.result)
        given = with_argument(call.kwargs, call.into, b"[%b]" % b",".join(results))
        return Call(call.task, given, call.then)

    def _begun(self, work: Work, call: Call) -> tuple[Task[Any, Any], dict[str, Any]]:
        """The task of a call, and its arguments; raises a `Reject` for what is too late, or what
        this code doesn't know."""
        if call.expires is not None and work.taken_ms > call.expires:
            raise Expired(
                f"{work.taken_ms - call.expires:,} ms too late; to run it all the same, edit "
                "`expires` in its payload, then replay"
            )
        task = self._tasks.get(call.task)
        if task is None:
            raise UnknownTask(
                f"this worker's code has no task {call.task!r} in {self._owner.name} (it has "
                f"{', '.join(self._tasks)}); start workers that have it, then replay"
            )
        try:
            kwargs = task.signature.decode(call.kwargs)
        except ValueError as error:
            raise UnfitArguments(
                f"task {task.name}, in this worker's code: {error}; start workers whose code fits, "
                "or edit the payload, then replay"
            ) from None
        for hook in self._owner.hooks["before"]:
            hook(work)
        return task, kwargs

    def _kept(self, work: Work, task: Task[Any, Any], call: Call, result: Any) -> bytes:
        """A result as it is kept; submits the call that follows with it, under the id that it got
        when the chain was submitted: if this attempt is repeated, it is there."""
        if work.over:
            raise TimeoutError(f"task {task.name} returned after this attempt had ended")
        try:
            data = encoded(result)
        except (TypeError, ValueError, NotImplementedError) as error:
            what = f"task {task.name} returned {type(result).__name__}"
            raise UnfitResult(f"{what}: {error}") from None
        if len(data) > MAX_RESULT:
            raise UnfitResult(f"task {task.name} returned over {MAX_RESULT:,} bytes")
        if call.then:
            step, *more = call.then
            kwargs = with_argument(step.kwargs, step.into, data)
            payload = packed(Call(step.task, kwargs, more))
            self._owner.queues.queue(step.queue).add_entries([(step.id, payload)])
        return data

    def _tell(self, when: str, *args: Any) -> None:
        for hook in self._owner.hooks[when]:
            try:
                hook(*args)
            except Exception:
                log.exception("hook %s of %s failed", hook, self._owner.name)
