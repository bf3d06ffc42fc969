"""Changes of periodic entries: add, edit, pause, resume, remove, run once. Undo takes each back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC
from typing import Any, cast

from redisq_ops.core.engine.optional_features import HasPeriodicEntries
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.schedule import OwnersSchedule
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import BadInput, Exists, NotFound, QueueClosed, Refused
from redisq_ops.core.queues.delay.periodic import Periodic, ScheduledPeriodic, following, run_id
from redisq_ops.core.queues.delay.periodic_entries import UNDO, PeriodicEntries, checked_spec
from redisq_ops.core.redis.operation import together

from ..filter.filter import Filter
from ..hint import hint
from ..inspect.periodic import status
from ..required_features import with_periodic
from ..terminal import date
from .audit_log import Author
from .control import SettingsSteps
from .outcome import ChangeOutcome
from .prepare import ChangeRequest, PreparedChange, prepare
from .preview import Preview
from .runner import ChangeRun, take_all

PAUSED = {"pause": True, "resume": False}
_SAME = {"pause": "already paused", "resume": "it isn't paused"}
LINES = {
    "pause": "no run is scheduled until it is resumed; those that are scheduled already stay",
    "rm": "no run is scheduled any more; those that are scheduled already stay",
    "run": "the run is an entry like those of its schedule, which stays as it is",
}


@dataclass(frozen=True, slots=True)
class PeriodicChange:
    """A change of one periodic entry that was checked; nothing is written yet."""

    queue: HasPeriodicEntries[Any]
    verb: str
    name: str
    before: ScheduledPeriodic | OwnersSchedule | None
    after: Periodic | None
    """its new definition; None: it is removed, or its definition is unchanged"""
    now_ms: int
    same: bool = False
    """nothing has to be changed"""
    at_ms: int | None = None
    """its next run, if the change computes one; None: unchanged"""
    requeue: PreparedChange | None = None
    """the change of the delayed entry that is another program's next run"""

    @property
    def next_ms(self) -> int | None:
        """Its next run afterwards; None: there will be none, or its program sets it later."""
        paused = self.paused if self.paused is not None else self.before and self.before.paused
        if paused or self.verb == "rm" or self.requeue is not None:
            return None
        return self.before.next_ms if self.at_ms is None and self.before else self.at_ms

    @property
    def digest(self) -> str:
        """The digest of the definition that was read; empty: there was none."""
        return "" if self.before is None else self.before.digest

    @property
    def paused(self) -> bool | None:
        """Whether it is paused afterwards; None: unchanged."""
        return PAUSED.get(self.verb)

    @property
    def differences(self) -> list[tuple[str, Any, Any]]:
        """(option, its value before, its value afterwards) of an edit."""
        spec = self.before.spec if self.before else None
        if spec is None or self.after is None:
            return []
        old, new = asdict(spec), asdict(self.after)
        return [(name, old[name], new[name]) for name in new if old[name] != new[name]]


async def prepare_change(
    queue: Queue[Any], name: str, verb: str, options: dict[str, Any] | None = None
) -> PeriodicChange:
    """Check a change of the periodic entry ``name``; reads only.

    ``verb``: add | edit | pause | resume | run | rm. ``options``: fields of `Periodic` that `add`
    and `edit` set. Raises `BadInput` for a schedule that never fires, `NotFound`, `Exists`, and
    `Refused` for a run while the run before has not ended.
    """
    entries = with_periodic(queue)
    if queue.owner and verb in ("add", "edit"):
        raise Refused(f"queue {queue.name} is kept by another program: {verb} it by {queue.owner}")
    before: ScheduledPeriodic | OwnersSchedule | None = await entries.get_periodic.op(name)
    now = await queue.now.op()
    if verb == "add":
        known = before if isinstance(before, ScheduledPeriodic) else None
        return _added(entries, name, known, Periodic(name, **(options or {})), now)
    if before is None:
        there = hint("periodic", "ls", queue.name)
        left = "".join(f"; {one.problem}" for one in await entries.periodics.op() if not one.name)
        raise NotFound(
            f"no periodic entry {name!r} in queue {queue.name} ({there} lists them){left}"
        )
    change = PeriodicChange(entries, verb, name, before, None, now)
    if isinstance(before, OwnersSchedule):
        return await _theirs(change, before)
    spec = before.spec
    if verb == "rm":
        return change
    if spec is None:
        raise Refused(f"{before.problem}; remove it: {_command('rm', queue, name)}")
    if verb == "edit":
        return _edited(change, spec, options or {})
    if verb == "run":
        await _refuse_run(queue, before, now)
        return change
    if verb == "pause":
        return replace(change, same=before.paused)
    if before.next_ms is not None:
        return replace(change, same=True)
    return replace(change, at_ms=following(spec, now, before.run))  # also of a corrupt time


async def _theirs(change: PeriodicChange, before: OwnersSchedule) -> PeriodicChange:
    """A change of another program's schedule, if that program and this release allow it."""
    queue, verb = change.queue, change.verb
    refused = before.refusals.get("pause" if verb == "resume" else verb)
    if why := refused or await queue.only_shown.op():
        raise Refused(f"{verb} of {before.program}'s schedule {change.name}: {why}")
    if before.problem and (verb != "rm" or not before.record):
        raise Refused(f"{change.name} of {before.program} can't be changed: {before.problem}")
    if verb != "run":
        return replace(change, same=PAUSED.get(verb) is before.paused)
    if before.next_id is None:
        return replace(change, at_ms=change.now_ms)
    request = ChangeRequest("requeue", queue, "delayed", Filter(ids=(before.next_id,)))
    prepared = await prepare(request)
    if not prepared.scope.count:
        raise Refused(f"the next run of {change.name}, {before.next_id}, isn't delayed any more")
    return replace(change, requeue=prepared)


def _added(
    queue: HasPeriodicEntries[Any],
    name: str,
    before: ScheduledPeriodic | None,
    spec: Periodic,
    now: int,
) -> PeriodicChange:
    checked_spec(spec)
    if before is not None and before.spec != spec:
        raise Exists(
            f"queue {queue.name} has a periodic entry {name!r} already: change it with "
            f"{_command('edit', queue, name)}"
        )
    if before is not None:
        return PeriodicChange(queue, "add", name, before, spec, now, same=True)
    return PeriodicChange(queue, "add", name, None, spec, now, at_ms=following(spec, now, None))


def _edited(change: PeriodicChange, spec: Periodic, options: dict[str, Any]) -> PeriodicChange:
    if not options:
        raise BadInput("edit: name an option to change, as --cron, --every or --zone")
    after = checked_spec(replace(spec, **options))
    at = None
    if (after.cron, after.zone) != (spec.cron, spec.zone) and change.before is not None:
        at = following(after, change.now_ms, change.before.run)
    return replace(change, after=after, at_ms=at, same=after == spec)


async def _refuse_run(queue: Queue[Any], before: ScheduledPeriodic, now: int) -> None:
    """Raise where a run would be refused: the queue is draining, or the run before goes on."""
    counts, (found,) = await together(queue.counts.op(), status(queue, [before], now))
    if counts.closed is not None:
        raise QueueClosed(f"queue {queue.name} is draining and takes no new entries")
    spec = before.spec
    if spec is None or spec.overlap or found.run_state not in ("waiting", "pending", "delayed"):
        return
    raise Refused(
        f"run {before.run} of {before.name!r} is {found.run_state} and the entry doesn't allow "
        f"overlap: wait for its end, or allow it with "
        f"{hint('periodic', 'edit', f'{queue.name}/{before.name}', overlap=None)}"
    )


def _command(verb: str, queue: Queue[Any], name: str) -> str:
    return hint("periodic", verb, f"{queue.name}/{name}")


def periodic_preview(
    change: PeriodicChange,
    *,
    new: bool = False,
    utc: bool = False,
    shown: Callable[[str], str] = str,
) -> Preview:
    """What a change of a periodic entry will do; ``matched`` is 0 if nothing would change.

    ``new``: it also creates the queue. ``utc``: show times in UTC. ``shown`` redacts a task.
    """
    queue, zone = change.queue.name, UTC if utc else None
    theirs = change.before if isinstance(change.before, OwnersSchedule) else None
    lines = [LINES[change.verb]] if change.verb in LINES else []
    if theirs is not None:
        lines = [
            f"{theirs.program}: {theirs.cron or 'schedule unknown'}, {shown(theirs.task or '?')}"
        ]
        lines += [note] if (note := theirs.notes.get(change.verb)) else []
        if change.requeue is not None and theirs.next_ms is not None:
            lines.append(
                f"the run of {date(theirs.next_ms, zone)} happens now instead; the next one is the"
                " one after it"
            )
    for name, old, after in change.differences:
        if name == "payload":
            lines.append(f"payload: {len(old):,} bytes to {len(after):,} bytes")
        else:
            lines.append(f"{name}: {old} to {after}")
    if change.verb == "add" and change.after is not None:
        lines.append(f"schedule: {change.after.cron} ({change.after.zone})")
    if change.next_ms is not None and change.verb != "run":
        lines.append(f"next run: {date(change.next_ms, zone)}")
    if change.verb not in ("add", "resume") and change.before is not None and change.before.paused:
        lines.append("it is paused")
    if new:
        lines.append(f"queue {queue} does not exist yet: it becomes a delay set")
    facts = {
        "verb": f"periodic-{change.verb}",
        "queue": queue,
        "periodic": change.name,
        "matched": int(not change.same),
        "next_ms": change.next_ms,
    }
    does = "remove" if change.verb == "rm" else change.verb
    if change.same:
        lines = [_SAME.get(change.verb, "nothing would change")]
    return Preview(f"{does} periodic entry {queue}/{change.name}", tuple(lines), facts=facts)


async def carry_out(change: PeriodicChange, author: Author) -> ChangeOutcome:
    """Carry a change out, with its inverse in the audit log."""
    if change.same:
        return ChangeOutcome(None, 0)
    if change.requeue is not None:
        return await take_all(ChangeRun(change.requeue.steps(), author))
    if change.after is not None:  # `add` may create the queue
        await change.queue._ensure_registered()
    spec = change.before.spec if change.before else None
    if change.verb == "run" and spec is not None:
        step, inverse = _run(change, spec, await change.queue.now.op())
    else:
        step, inverse = _set(change)
    await change.queue.check_owners_rights.op()  # before the audit log has it
    what = f"periodic entry {change.name}"
    steps = SettingsSteps(change.queue, f"periodic-{change.verb}", what, [step], inverse)
    return await take_all(ChangeRun(steps, author))


Step = Callable[[str, int], Awaitable[bool]]
Inverse = Callable[[str], str]
"""makes the inverse from the operation's id"""


def _set(change: PeriodicChange) -> tuple[Step, Inverse]:
    spec = b"" if change.verb == "rm" else change.after.encoded() if change.after else None

    async def step(op: str, number: int) -> bool:
        word = await change.queue.change_periodic.op(
            op,
            number,
            change.name,
            was=change.digest,
            spec=spec,
            at_ms=change.at_ms,
            run=change.before and change.before.run,
            paused=change.paused,
        )
        if word == "changed":
            raise _changed(change)
        return bool(word == "ok")

    return step, lambda op: f"{UNDO} {change.name} {op} 1"


def _run(change: PeriodicChange, spec: Periodic, now: int) -> tuple[Step, Inverse]:
    entry = Entry(run_id(change.name, now), "waiting", payload=spec.payload)

    async def step(op: str, number: int) -> bool:
        word, last = await cast("PeriodicEntries[Any]", change.queue).run_periodic.op(
            op, number, change.name, was=change.digest, id=entry.id, overlap=spec.overlap
        )
        if word == "held":
            raise QueueClosed(f"run {last} of {change.name!r} began just now")
        if word == "changed":
            raise _changed(change)
        return True

    # Undo moves the run to the trash, unless a worker has taken it.
    return step, lambda op: f"accepted {now} {entry.id} {entry.digest}"


def _changed(change: PeriodicChange) -> NotFound:
    return NotFound(f"periodic entry {change.name!r} was changed by somebody else just now")
