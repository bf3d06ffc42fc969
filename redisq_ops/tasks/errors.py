"""What tasks and their callers raise."""

from __future__ import annotations

from redisq_ops.core.model.entry import LEASES_LOST, Failure
from redisq_ops.core.model.errors import BadInput, NotFound, RedisqError


class BadArguments(BadInput, TypeError):
    """The arguments don't fit the task's signature; nothing was submitted."""


class JobFailed(RedisqError):
    """The job is dead. ``type``, ``message`` and ``traceback`` are those of the error in the
    worker, as text; ``reason``: failed | lost | rejected."""

    def __init__(self, job: str, reason: str | None, error: Failure | None) -> None:
        self.job, self.reason = job, reason
        said = error or Failure("")
        self.type, self.message, self.traceback = said.type, said.message, said.traceback
        why = LEASES_LOST if reason == "lost" else f"reason: {reason or 'unknown'}"
        super().__init__(f"job {job} is dead: {said.line or why}")


class JobGone(NotFound):
    """The queue doesn't have the job: it was removed, or its result is kept no longer."""
