"""Commands to workers of other programs from the dashboard: quiet, stop, end the run of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.worker_command import (
    command_preview,
    heard_by,
    prepare_command,
    send_command,
)
from redisq_ops.tui.change.run_change import asked

if TYPE_CHECKING:
    from redisq_ops.core.model.worker_command import WorkerWord

    from .changes import Changes


async def command_worker(changes: Changes, queue_name: str, word: WorkerWord, target: str) -> bool:
    """Send a command to a worker, or to the one that runs an entry."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(queue_name))
    change = await arun(client, prepare_command(queue, word, target))
    if not await changes.ask(asked(command_preview(change), danger=word != "quiet")):
        return False
    outcome, heard = await arun(client, send_command(change, Author.here(changes.why)))
    changes.tell(f"{change.what}: {heard_by(heard)}\n{outcome.op}")
    return True
