"""`N`: the dead letters of a queue are known until a time, and no trouble until then."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.operation import arun, together
from redisq_ops.ops.change.acknowledge import acknowledge, acknowledge_preview, dead_letters
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.tui.change import asked_values
from redisq_ops.tui.change.run_change import asked
from redisq_ops.tui.change.value_dialog import WantedValue
from redisq_ops.tui.views.delayed import moment

if TYPE_CHECKING:
    from .changes import Changes

USUAL = "3d"
"""what the dialog suggests"""


async def acknowledge_dead(changes: Changes, name: str) -> bool:
    """Ask until when, and then say that the entries which are dead now are known."""
    client, zone = changes.deployment.client, changes.zone
    queue = await arun(client, changes.deployment.queue(name))
    reads = together(server_ms(), queue.counts.op(), queue.now.op())
    at_ms, counts, now_ms = await arun(client, reads)
    if not dead_letters(queue, counts):
        changes.tell(f"{queue.name} has no dead letters.", False)
        return False

    def until_ms(text: str) -> int:
        until = asked_values.ready_ms(text, now_ms, utc=zone is UTC)
        if until <= now_ms:
            raise BadInput(f"{text}: that is over already")
        return until

    async def take(text: str) -> int:
        return until_ms(text)

    title = f"The dead letters of {queue.name} are known until when?"
    wanted = WantedValue(
        title, "3d  09:00", lambda text: f"until {moment(until_ms(text), zone)}", start=USUAL
    )
    until = await asked_values.value(changes, wanted, take)
    if until is None or not await changes.ask(asked(acknowledge_preview(queue, counts, until))):
        return False
    author = Author.here(changes.why)
    outcome = await arun(client, acknowledge(queue, author, counts, at_ms, until))
    changes.last_op = outcome.op or changes.last_op
    changes.tell(f"The dead letters of {queue.name} are known until {moment(until, zone)}.")
    return outcome.op is not None
