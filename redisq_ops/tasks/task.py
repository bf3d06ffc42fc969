"""One task: a function with its retry policy, and how it is called later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from redisq_ops.core.model.clock import Moment, Seconds, checked_moment, checked_seconds
from redisq_ops.core.model.entry import EntryOutcome
from redisq_ops.core.model.errors import BadInput, Unreadable
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.model.retry_policy import Backoff, RetryPolicy
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.ulid import ulid
from redisq_ops.core.model.validation import listed, validated
from redisq_ops.core.queues.request.outcomes import SubRequestOutcome
from redisq_ops.core.worker.handler import is_async, yields

from .codec import Call, Next, Raw, Signature, packed
from .job import Batch, Job, JobFailed, JobGone

if TYPE_CHECKING:
    from .registry import Tasks

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Step:
    """A call that follows another one, see `Task.after`."""

    task: Task[Any, Any]
    kwargs: Raw
    into: str | None


class Task(Generic[P, R]):
    """A function that can be called later; called like the function, it runs here and now.

    ``retries``: attempts after the first one; None: the queue's setting ``max_failures`` alone
    decides. ``backoff``: as of a `RetryPolicy`. ``timeout``: seconds or a timedelta for an attempt.
    """

    @validated
    def __init__(
        self,
        owner: Tasks,
        function: Callable[P, Any],
        name: str | None = None,
        *,
        retries: int | None = None,
        backoff: Backoff | None = None,
        timeout: Seconds | None = None,
        priority: str | None = None,
    ) -> None:
        if not callable(function):
            raise BadInput(f"a task is a function, not a {type(function).__name__}")
        self.owner, self.function = owner, function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        if yields(function):
            raise BadInput(f"task {self.name} yields: a task returns its result")
        self.is_async = is_async(function)
        most = DEFAULTS.max_failures - 1
        if retries is not None and not 0 <= retries <= most:
            raise BadInput(f"task {self.name}: retries must be 0 to {most}, not {retries}")
        self.retry = RetryPolicy(None if retries is None else retries + 1, backoff)
        self.timeout_s = None if timeout is None else checked_seconds(timeout, "timeout", 0.001)
        self.priority = owner.level(priority)
        self.signature = Signature(self.name, function)
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name} of {self.owner.name}>"

    def submit(self, *args: Any, **kwargs: Any) -> Job[R]:
        """Call the function later, in a worker, with these arguments.

        Options beside the arguments: ``in_`` (seconds or a timedelta) or ``at`` (an aware
        datetime, or Unix seconds): not earlier. ``expires``: a time like ``at``; a job that no
        worker took by then is dead, and says so. ``unique``: a text of printable ASCII without
        space { } * | /; while a job of this task with the same text is there and not done, no
        second one is added to its level. ``priority``: a level of `Tasks`. ``for_client``: a name;
        clients take turns, so that none waits for all jobs of another, but there are no times and
        levels. ``then``: what follows, as `after` makes it, or several in turn. Returns a `Job`.
        Raises `BadArguments` before anything is sent, and what `TakesEntries.add_entries` raises.

            thumbnail.submit("a.png", width=100, in_=60, unique="a.png")
        """
        entry, place, job = self._plan(args, **kwargs)
        (word,) = self.owner.queues.queue(job.queue).add_entries([entry], **place)
        return job if word == "ok" else replace(job, created=False, then=())

    async def asubmit(self, *args: Any, **kwargs: Any) -> Job[R]:
        """As `submit`, for asyncio."""
        entry, place, job = self._plan(args, **kwargs)
        queue = await self.owner.queues.aqueue(job.queue)
        (word,) = await queue.add_entries([entry], **place)
        return job if word == "ok" else replace(job, created=False, then=())

    @validated
    def job(self, id: str, priority: str | None = None, for_client: str | None = None) -> Job[R]:
        """A job of this task that was submitted before, with the same options; nothing is asked of
        the server."""
        return Job(id, self._queue(priority, for_client), self, created=False)

    def map(
        self,
        values: Iterable[Any],
        *,
        limit: int = 100,
        then: Step | Sequence[Step] = (),
        **kwargs: Any,
    ) -> Batch[R]:
        """Call the function later with each of the values as its first argument; ``kwargs`` are
        the others. One request in the queue ``NAME.map``: at most ``limit`` calls run at a time.
        ``then``: what follows once all are done, as `after` makes it, with the list of results; or
        several in turn. It is a request that the server keeps paused until the last call ends.

            batch = thumbnail.map(["a.png", "b.png"], width=100, then=album.after("sizes"))
            print(batch.progress().done, batch.results(timeout=60), batch.then[0].result())
        """
        steps = _steps(then)
        calls = [
            packed(Call(self.name, self.signature.encode((value,), kwargs)))
            for value in listed(values, "values")
        ]
        id = f"{self.name}~{ulid()}"
        maps = self.owner.queues.queue(self.owner.map_name)
        maps.submit(calls, id=id, limit=limit)
        if not steps:
            return Batch(id, self)
        first, *more = steps
        to, request = first.task, f"{first.task.name}~{ulid()}"
        job: Job[Any] = Job(f"{request}/1", maps.name, to)
        calls_after, jobs = _following(job, more)
        payload = Call(to.name, first.kwargs, calls_after, id, first.into)
        maps.submit([packed(payload)], id=request, follows=id)
        return Batch(id, self, (job, *jobs))

    def after(self, into: str | None = None, **kwargs: Any) -> Step:
        """This task as a call that follows another: ``into`` names the argument that gets the
        result before it; the others are given here.

            fetch.submit("https://…", then=[thumbnail.after("path", width=100)])
        """
        return Step(self, self.signature.encode((), kwargs, into), into)

    def value(self, id: str, end: EntryOutcome | SubRequestOutcome) -> R:
        """What a job that has ended returned; raises as `Job.result` does."""
        if end.state == "dead":
            raise JobFailed(id, end.reason, end.error)
        if end.result is None:
            purged = end.state == "trash"
            why = "was purged or cancelled" if purged else "isn't kept, or no longer"
            raise JobGone(f"the result of job {id} {why}")
        try:
            return cast(R, self.signature.result(end.result))
        except ValueError as error:
            what = f"job {id} returned something else than {self.name} declares"
            raise Unreadable(f"{what}: {error}") from None

    @validated
    def _plan(
        self,
        args: Any,
        /,
        *,
        in_: Seconds | None = None,
        at: Moment | None = None,
        unique: str | None = None,
        priority: str | None = None,
        then: Step | Sequence[Step] = (),
        for_client: str | None = None,
        expires: Moment | None = None,
        **kwargs: Any,
    ) -> tuple[tuple[str, bytes], dict[str, Any], Job[R]]:
        """What is sent for a call: the entry and its place; and the job with those that follow."""
        if for_client is not None and (in_, at, priority) != (None, None, None):
            raise BadInput("for_client: clients take turns: leave in_, at and priority out")
        if in_ is not None and at is not None:
            raise BadInput("in_ or at: give one of them")
        after = None if in_ is None else checked_seconds(in_, "in_")
        id = f"{self.name}~{ulid() if unique is None else checked_name(unique, 'unique')}"
        kept = self.signature.encode(args, kwargs)
        job: Job[R] = Job(id, self._queue(priority, for_client), self)
        following, jobs = _following(job, _steps(then))
        until = None if expires is None else checked_moment(expires, "expires")
        payload = packed(Call(self.name, kept, following, expires=until))
        place = {"client": for_client, "at": at, "after": after}
        return (id, payload), place, replace(job, then=jobs)

    def _queue(self, priority: str | None, client: str | None) -> str:
        if client is not None:
            return self.owner.fair_name
        return self.priority if priority is None else self.owner.level(priority)


def _steps(then: Step | Sequence[Step]) -> Sequence[Step]:
    steps = [then] if isinstance(then, (Step, Task)) else listed(then, "then")
    for step in steps:
        if not isinstance(step, Step):
            raise BadInput(f"then has {step!r:.60}: write what follows as TASK.after(ARGUMENT)")
    return steps


def _following(last: Job[Any], steps: Iterable[Step]) -> tuple[list[Next], tuple[Job[Any], ...]]:
    """The calls that follow a job in turn, and their jobs."""
    calls, jobs = list[Next](), list[Job[Any]]()
    for step in steps:
        to = step.task
        last = Job(f"{to.name}~{ulid()}", to.priority, to, after=last)
        jobs.append(last)
        calls.append(Next(to.name, last.id, last.queue, step.kwargs, step.into))
    return calls, tuple(jobs)
