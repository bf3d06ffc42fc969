"""Changes of periodic entries from the dashboard: pause, resume, run once, remove."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.periodic import carry_out, periodic_preview, prepare_change
from redisq_ops.ops.required_features import with_periodic
from redisq_ops.tui.change.run_change import asked, tell_one

if TYPE_CHECKING:
    from datetime import tzinfo

    from .changes import Changes

PAST = {"pause": "is paused", "resume": "is resumed", "run": "runs now", "rm": "is removed"}


async def change_periodic(
    changes: Changes, queue_name: str, name: str, verb: str, zone: tzinfo | None
) -> bool:
    """Change one periodic entry. ``verb``: hold (pause or resume), run or rm; dates are shown in
    ``zone``. Returns whether anything was changed."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(queue_name))
    if verb == "hold":
        entry = await arun(client, with_periodic(queue).get_periodic.op(name))
        verb = "resume" if entry is not None and entry.paused else "pause"
    change = await arun(client, prepare_change(queue, name, verb))
    preview = periodic_preview(change, utc=zone is UTC, shown=changes.redaction.text)
    if not await changes.ask(asked(preview, danger=verb == "rm")):
        return False
    outcome = await arun(client, carry_out(change, Author.here(changes.why)))
    return tell_one(changes, outcome, f"{name} {PAST[verb]}")
