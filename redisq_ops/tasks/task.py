"""One task: a function with its retry policy, and how it is called later."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from redisq_ops.core.model.clock import checked_moment
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.ulid import ulid

from .backoff import Backoff, Span, seconds, waits
from .codec import Call, Next, Raw, Signature, encoded
from .job import Batch, Job

if TYPE_CHECKING:
    from .registry import Tasks

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Step:
    """A call that follows another one, see `Task.after`."""

    task: Task[Any, Any]
    kwargs: dict[str, Raw]
    into: str | None


class Task(Generic[P, R]):
    """A function that can be called later; called like the function, it runs here and now.

    ``retries``: attempts after the first one; None: the queue's setting ``max_failures`` alone
    decides. ``backoff``: see `Backoff`. ``timeout``: seconds or a timedelta for an attempt.
    """

    def __init__(
        self,
        owner: Tasks,
        function: Callable[P, Any],
        name: str | None = None,
        *,
        retries: int | None = None,
        backoff: Backoff | None = None,
        timeout: Span | None = None,
        priority: str | None = None,
    ) -> None:
        self.owner, self.function = owner, function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.is_async = inspect.iscoroutinefunction(function)
        most = DEFAULTS.max_failures - 1
        if retries is not None and not (type(retries) is int and 0 <= retries <= most):
            raise BadInput(f"task {self.name}: retries must be 0 to {most}, not {retries!r}")
        self.retries = retries
        self.backoff = None if backoff is None else waits(backoff)
        self.timeout_s = None if timeout is None else seconds(timeout, "timeout")
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
        datetime): not earlier. ``unique``: a text; while a job of this task with the same text is
        there and not done, no second one is added. ``priority``: a level of `Tasks`. ``then``: what
        follows, as `after` makes it, or several in turn. Returns a `Job`. Raises `BadArguments`
        before anything is sent, and what `DelaySet.schedule` raises.

            thumbnail.submit("a.png", width=100, in_=60, unique="a.png")
        """
        entry, times, job = self._planned(args, kwargs)
        (said,) = self.owner.queue(job.queue).schedule([entry], **times)
        return job if said.word == "ok" else replace(job, created=False, then=())

    async def asubmit(self, *args: Any, **kwargs: Any) -> Job[R]:
        """As `submit`, for asyncio."""
        if self.owner.stage is not None:
            return self.submit(*args, **kwargs)
        entry, times, job = self._planned(args, kwargs)
        (said,) = await self.owner.aqueue(job.queue).schedule([entry], **times)
        return job if said.word == "ok" else replace(job, created=False, then=())

    def job(self, id: str, priority: str | None = None) -> Job[R]:
        """A job of this task that was submitted before; nothing is asked of the server."""
        level = self.priority if priority is None else self.owner.level(priority)
        return Job(id, level, self, created=False)

    def map(self, values: Iterable[Any], *, limit: int = 100, **kwargs: Any) -> Batch[R]:
        """Call the function later with each of the values as its first argument; ``kwargs`` are
        the others. One request in the queue ``NAME.map``: at most ``limit`` calls run at a time.

            batch = thumbnail.map(["a.png", "b.png"], width=100)
            print(batch.progress().done, batch.results(timeout=60))
        """
        calls = [
            encoded(Call(self.name, Raw(self.signature.encode((value,), kwargs))))
            for value in values
        ]
        id = f"{self.name}~{ulid()}"
        self.owner.maps().submit(calls, id=id, limit=limit)
        return Batch(id, self)

    def after(self, into: str | None = None, **kwargs: Any) -> Step:
        """This task as a call that follows another: ``into`` names the argument that gets the
        result before it; the others are given here.

            fetch.submit("https://…", then=[thumbnail.after("path", width=100)])
        """
        return Step(self, self.signature.encode_some(into, kwargs), into)

    def _planned(
        self, args: Any, kwargs: dict[str, Any]
    ) -> tuple[tuple[str, bytes], dict[str, Any], Job[R]]:
        """What is sent for a call: the entry, its time; and the job with those that follow it."""
        in_: Span | None = kwargs.pop("in_", None)
        at: datetime | None = kwargs.pop("at", None)
        unique: str | None = kwargs.pop("unique", None)
        priority: str | None = kwargs.pop("priority", None)
        then: Step | Sequence[Step] = kwargs.pop("then", [])
        level = self.priority if priority is None else self.owner.level(priority)
        times: dict[str, Any] = {}
        if in_ is not None and at is not None:
            raise BadInput("in_ or at: give one of them")
        if unique == "":
            raise BadInput("unique is empty: give a text, or leave it out")
        if in_ is not None:
            times["after_ms"] = timedelta(seconds=seconds(in_, "in_"))
        if at is not None:
            if not isinstance(at, datetime):
                raise BadInput(f"at is an aware datetime, not {type(at).__name__}")
            times["at_ms"] = checked_moment(at, "at")
        id = f"{self.name}~{ulid() if unique is None else unique}"
        checked_name(id, "unique" if unique is not None else "task")
        kept = self.signature.encode(args, kwargs)
        following, then_jobs = list[Next](), list[Job[Any]]()
        job = last = Job(id, level, self)
        for step in [then] if isinstance(then, Step) else then:
            to = step.task
            last = Job(f"{to.name}~{ulid()}", to.priority, to, after=last)
            then_jobs.append(last)
            following.append(Next(to.name, last.id, last.queue, step.kwargs, step.into))
        payload = encoded(Call(self.name, Raw(kept), following))
        return (id, payload), times, replace(job, then=tuple(then_jobs))
