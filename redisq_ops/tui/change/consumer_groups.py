"""Changes of consumer groups from the dashboard: move, remove."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.consumer_groups import (
    POSITIONS,
    GroupVerb,
    carry_out_group,
    group_preview,
    prepare_group,
)
from redisq_ops.tui.change.run_change import asked, tell_one

from .asked_values import value
from .value_dialog import WantedValue

if TYPE_CHECKING:
    from .changes import Changes


async def change_group(changes: Changes, name: str, group: str, verb: GroupVerb) -> bool:
    """Move a group to a position that is asked for, or remove it; returns whether that was done."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))
    utc = changes.zone is UTC
    change = await arun(client, prepare_group(queue, "rm", group)) if verb == "rm" else None
    if change is None:
        wanted = WantedValue(f"Move group {group} to where?", POSITIONS, str)
        change = await value(
            changes,
            wanted,
            lambda where: arun(client, prepare_group(queue, "move", group, where, utc=utc)),
        )
    if change is None or not await changes.ask(asked(group_preview(change), danger=verb == "rm")):
        return False
    outcome = await arun(client, carry_out_group(change, Author.here(changes.why)))
    return tell_one(changes, outcome, f"{group} was {'removed' if verb == 'rm' else 'moved'}")
