"""Changes of consumer groups: create, move, remove; and trimming what all groups are done with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from redisq_ops.core.engine.optional_features import HasConsumerGroups
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.consumer_load import GroupPosition, GroupPositions, StreamId
from redisq_ops.core.model.errors import BadInput, Exists, NotFound, Refused
from redisq_ops.core.model.quoting import bytes_of, legal, raw_of
from redisq_ops.core.redis.operation import together

from ..hint import hint
from ..required_features import with_consumer_groups
from ..terminal import count
from .allowed import ensure_changeable
from .audit_log import Author
from .control import SettingsSteps
from .outcome import ChangeOutcome
from .preview import Preview
from .runner import ChangeRun, take_all
from .steps import ChangeSteps

GroupVerb = Literal["create", "move", "rm"]
POSITIONS = "start, end, an id, or a time"


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A change of a consumer group that was checked; nothing is written yet."""

    queue: HasConsumerGroups[Any]
    verb: GroupVerb
    group: str
    before: GroupPosition | None
    """None: there is no such group yet"""
    to: StreamId | None
    """the entry behind which it goes on; None: it is removed"""
    seen: GroupPositions

    @property
    def was(self) -> StreamId | None:
        return None if self.before is None else self.before.last

    @property
    def same(self) -> bool:
        """Nothing has to be changed."""
        return self.was == self.to


async def prepare_group(
    queue: Queue[Any], verb: GroupVerb, group: str, where: str = "", *, utc: bool = False
) -> GroupChange:
    """Check a change of a consumer group; reads only. ``where``: one of `POSITIONS`.

    Raises `BadInput` for a position that isn't in the stream, `NotFound`, `Exists`, and `Refused`
    for the removal of a group that has entries pending.
    """
    streams, name = with_consumer_groups(queue), legal(raw_of(group))
    await ensure_changeable(queue)
    seen, now = await together(streams.group_positions.op(), queue.now.op())
    before = next((each for each in seen.groups if each.group == name), None)
    to = None if verb == "rm" else streams.position(_where(where, now, utc), seen.end)
    change = GroupChange(streams, verb, name, before, to, seen)
    if not name:
        raise BadInput("a group needs a name")
    if verb == "create":
        if before is not None and not change.same:
            move = hint("group", "move", queue.name, name, where)
            raise Exists(f"queue {queue.name} has a group {name} at {before.last}: {move}")
    elif before is None:
        there = ", ".join(each.group for each in seen.groups[:10]) or "none"
        raise NotFound(f"queue {queue.name} has no consumer group {name}; there are: {there}")
    elif verb == "rm" and before.pending:
        settle = hint("workers", "ls", queue.name, group=name)
        raise Refused(
            f"group {name} of queue {queue.name} has {state_pending(before.pending)}, which would "
            f"be lost with it: claim or acknowledge them first ({settle} lists them)"
        )
    return change


def state_pending(n: int) -> str:
    return f"{count(n)} pending {'entry' if n == 1 else 'entries'}"


def _where(text: str, now_ms: int, utc: bool) -> str | int:
    from ..filter.time import moment_ms

    if text in ("start", "end") or re.fullmatch(r"\d{1,20}(-\d{1,20})?", text):
        return text
    try:
        return moment_ms(text, now_ms, utc=utc)
    except BadInput as error:
        raise BadInput(f"no position: {POSITIONS} ({error})") from error


def group_preview(change: GroupChange) -> Preview:
    """What a change of a consumer group will do; ``matched`` is 0 if nothing would change."""
    before, to, queue = change.before, change.to, change.queue.name
    does = "remove" if change.verb == "rm" else change.verb
    what = f"{does} consumer group {change.group} of queue {queue}"
    facts = {
        "verb": f"group-{change.verb}",
        "queue": queue,
        "group": change.group,
        "matched": int(not change.same),
        "was": None if change.was is None else str(change.was),
        "to": None if to is None else str(to),
    }
    lines = ["nothing would change"] if change.same else [*_consequences(change, before, to)]
    return Preview(what, tuple(lines), facts=facts)


def _consequences(
    change: GroupChange, before: GroupPosition | None, to: StreamId | None
) -> Sequence[str]:
    seen = change.seen
    if before is None:
        assert to is not None
        receives = "all that comes behind it"
        if to == seen.end:
            receives = "what is added from now on"
        elif not any(to):
            receives = f"all {count(seen.length)} entries of the stream"
        return [f"at {to}: it receives {receives}", "undo removes it, unless somebody has used it"]
    stays = [f"{state_pending(before.pending)} stay with their consumers"] if before.pending else []
    if to is None:
        lag = "unknown" if before.lag is None else count(before.lag)
        them = f"{count(before.consumers)} {'consumer' if before.consumers == 1 else 'consumers'}"
        gone = f"with its {them}: one that still reads gets an error"
        return [
            f"it is at {before.last}, lag {lag} (not delivered yet), nothing pending",
            *([gone] if before.consumers else []),
            "it is removed only if nothing is pending then; undo creates it at the same place",
        ]
    how = "what comes between is delivered again, also what it has acknowledged"
    if to > before.last:
        skipped = before.lag if to == seen.end else None
        n = "" if skipped is None else f" ({count(skipped)} entries)"
        how = f"what comes between{n} is never delivered to it"
    return [f"from {before.last} to {to}", how, *stays]


async def carry_out_group(change: GroupChange, author: Author) -> ChangeOutcome:
    """Carry a change out, with its inverse in the audit log."""
    if change.same:
        return ChangeOutcome(None, 0)
    queue, group, was, to = change.queue, change.group, change.was, change.to
    read = change.before and change.before.read

    async def step(op: str, number: int) -> bool:
        word = await queue.place_group.op(group, was, to)
        if word == "holds":
            raise NotFound(f"group {group} has entries pending by now: it was left as it is")
        if word == "changed":
            raise NotFound(f"group {group} was read or changed by somebody else just now")
        return True

    places = [str(each or "-") for each in (to, was, read)]
    inverse = " ".join(["place", quote(bytes_of(group), safe="%"), *places])
    what = f"group {group}{f' from {was}' if was else ''}{f' to {to}' if to else ''}"
    steps = SettingsSteps(queue, f"group-{change.verb}", what, [step], lambda op: inverse)
    return await take_all(ChangeRun(steps, author))


# --- trimming -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trim:
    """What can be trimmed; nothing is written yet."""

    queue: HasConsumerGroups[Any]
    upto: StreamId
    """the last entry that goes"""
    most: int
    """entries that go, at most: their number isn't known before"""
    holder: GroupPosition
    """the group that holds the most back"""


async def prepare_trim(queue: Queue[Any], older_ms: int = 0) -> Trim:
    """How far all groups are done: they have received and acknowledged everything. ``older_ms``:
    keep what was added since. `Refused` if there is no group: nobody is done then."""
    streams = with_consumer_groups(queue)
    await ensure_changeable(queue)
    seen, now = await together(streams.group_positions.op(), queue.now.op())
    if not seen.groups:
        raise Refused(f"queue {queue.name} has no consumer group: nobody is done with its entries")
    holder = min(seen.groups, key=lambda each: each.done)
    upto = min(holder.done, seen.end)
    if older_ms:
        upto = min(upto, streams.position(now - older_ms, max(seen.end, StreamId(now, 0))))
    received = [seen.length - each.lag for each in seen.groups if each.lag is not None]
    most = min(received, default=seen.length) if upto >= seen.start else 0
    return Trim(streams, upto, max(0, most), holder)


def trim_preview(trim: Trim) -> Preview:
    """What a trim will do."""
    queue, holder = trim.queue.name, trim.holder
    why = f"group {holder.group} has read up to {holder.last}"
    if holder.first_pending is not None and holder.done < holder.last:
        why = f"group {holder.group} has {holder.first_pending} pending"
    facts = {"verb": "trim", "queue": queue, "matched": trim.most, "to": str(trim.upto)}
    if not trim.most:
        return Preview(f"trim queue {queue}", (why,), facts=facts)
    lines = (
        f"up to {trim.upto}: {why}",
        "every group has received and acknowledged them; each step checks that again",
        "there is no undo",
    )
    what = f"trim at most {count(trim.most)} entries of queue {queue}"
    return Preview(what, lines, queue, facts)


class TrimSteps(ChangeSteps):
    """Remove what all groups are done with, from the beginning on; ``done`` counts entries. There
    is no undo. Each step checks all groups again."""

    def __init__(self, trim: Trim) -> None:
        super().__init__(trim.queue, "trim", trim.most, f"up to {trim.upto}")
        self._trim = trim

    async def step(self, size: int) -> int | None:
        gone = await self._trim.queue.trim_step.op(self._trim.upto, self.op)
        if gone is None:
            raise Refused("a consumer group was moved back, or has older entries pending by now")
        self.outcome.done += gone
        self.outcome.matched = self.outcome.done
        return gone or None

    async def end(self) -> dict[str, str | int] | None:
        done = max(self.outcome.done, await self.reached())
        return {"matched": done, "done": done}
