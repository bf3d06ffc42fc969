"""A prepared change at the speed that was chosen in its dialog."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.change.canary_rules import Limits
from redisq_ops.ops.change.prepare import PreparedChange, prepare
from redisq_ops.ops.change.scope import WholeState
from redisq_ops.ops.change.watched_replay import WatchedReplay
from redisq_ops.ops.filter.selection import Selection

if TYPE_CHECKING:
    from redisq_ops.ops.change.runner import Run

    from .changes import Changes


async def change_at_speed(changes: Changes, prepared: PreparedChange) -> Run:
    """The run of the change at that speed; raises `Refused` for a rate above the allowed one."""
    speed, request = changes.speed, prepared.request
    request = replace(request, rate=changes.guard.rate(speed.rate), by_ids=speed.watches)
    if speed.watches and isinstance(prepared.scope, WholeState):
        # Canary and ramp follow entries by id. Entries that came after the dialog's count stay out.
        preparing = prepare(request, shown=changes.redaction.text)
        by_ids = await arun(changes.deployment.client, preparing)
        assert isinstance(by_ids.scope, Selection)
        by_ids.scope.high_water_ms = prepared.scope.high_water_ms
        prepared = by_ids
    prepared = replace(prepared, request=request)
    change = prepared.run(changes.why)
    if not speed.watches:
        return change
    return WatchedReplay(change, Limits(canary=speed.canary, rate=request.rate))


def state_of(run: Run) -> str:
    """How a canary or ramp stands; empty for other changes."""
    return str(run) if isinstance(run, WatchedReplay) else ""


def why_stopped(run: Run) -> str:
    """Why a canary or ramp stopped by itself; empty if it didn't."""
    if isinstance(run, WatchedReplay) and run.course.phase == "stopped":
        return f"stopped by itself: {run.course.why}"
    return ""
