"""`redisq group`: consumer groups of plain streams, and what all of them are done with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.exit_codes import INTERRUPTED
from redisq_ops.ops.filter.time import duration_ms

from ..confirm_and_run import (
    agreed,
    confirm_and_run,
    drive,
    ended,
    nothing_matched,
    tell_interrupted,
)
from ..options import QUEUE, Go, argument, command, option
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.change.consumer_groups import GroupVerb

commands = typer.Typer()
group = typer.Typer()
commands.add_typer(group, name="group")
_CHANGE = "Plan Outcome"
_GROUP = argument("GROUP", "Consumer group.")
_POSITION = argument(
    "POSITION",
    "`start` or `end` of the stream, the id of an entry (the group goes on behind it), or a time "
    "(the group goes on with the first entry from then on).",
)


@command(group, "create", prints=_CHANGE)
def create(
    s: Session, *, name: str = QUEUE, group: str = _GROUP, position: str = _POSITION, go: Go
) -> int:
    """Create a consumer group. Undo removes it, unless somebody has used it.

    Examples:
      redisq group create stream:orders audit start
      redisq group create stream:orders audit end --dry-run
    """
    return _change(s, "create", name, group, go, position)


@command(group, "move", prints=_CHANGE)
def move(
    s: Session, *, name: str = QUEUE, group: str = _GROUP, position: str = _POSITION, go: Go
) -> int:
    """Move a consumer group to another place in its stream: back, to receive entries again, or
    forward, to skip some. What is pending stays so. Undo moves it back, unless it was read since.

    Examples:
      redisq group move stream:orders billing 2026-11-29T03:12:00+01:00 --dry-run
      redisq group move stream:orders billing 1795532724128-0
      redisq group move stream:orders billing end --yes
    """
    return _change(s, "move", name, group, go, position)


@command(group, "rm", prints=_CHANGE)
def rm(s: Session, *, name: str = QUEUE, group: str = _GROUP, go: Go) -> int:
    """Remove a consumer group that has no entries pending. The step that removes it checks that
    again. Undo creates it at the same place, without its consumers.

    Examples:
      redisq group rm stream:orders audit --dry-run
    """
    return _change(s, "rm", name, group, go)


def _change(s: Session, verb: GroupVerb, at: str, group: str, go: Go, where: str = "") -> int:
    from redisq_ops.ops.change.consumer_groups import carry_out_group, group_preview, prepare_group

    queue = s.run(s.deployment.queue(at))
    change = s.run(prepare_group(queue, verb, group, where, utc=s.utc))
    return confirm_and_run(s, group_preview(change), go, partial(carry_out_group, change))


@command(group, "trim", prints=_CHANGE)
def trim(
    s: Session,
    *,
    name: str = QUEUE,
    older: str | None = option("--older-than", "SPAN", "Keep what was added since then."),
    go: Go,
) -> int:
    """Remove the entries at the beginning of a stream that every consumer group has received and
    acknowledged. Each step checks that again. There is no undo.

    Examples:
      redisq group trim stream:orders --dry-run
      redisq group trim stream:orders --older-than 7d --yes
    """
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.consumer_groups import TrimSteps, prepare_trim, trim_preview
    from redisq_ops.ops.change.runner import ChangeRun

    older_ms = 0 if older is None else duration_ms(older)
    queue = s.run(s.deployment.queue(name))
    found = s.run(prepare_trim(queue, older_ms))
    preview = trim_preview(found)
    if not found.most:
        return nothing_matched(s, [preview], go.dry_run)
    if not agreed(s, [preview], go):
        return 0
    change = ChangeRun(TrimSteps(found), Author.here(go.reason))
    finished = drive(s, change, f"trim {queue.name}", s.again)
    ended(s, change.outcome, f"trimmed entries of {queue.name}", undo=False)
    if not finished:
        tell_interrupted(s, change.outcome, s.again)
    return change.outcome.exit_code if finished else INTERRUPTED
