"""`e`: the periodic entries of a queue: when each runs next, and how its latest run went."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.binding import Binding, BindingType

from redisq_ops.core.foreign.schedule import OwnersSchedule
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell, styled
from redisq_ops.tui.theme import BAD, DELAYED, DIM, WARN

from .base import Items, QueueView, SortOrder, redaction_of
from .columns import Column, ages, ago, texts
from .delayed import moment, zone_of

if TYPE_CHECKING:
    from redisq_ops.ops.inspect.periodic import PeriodicStatus


_TIMES: Final = 5
"""times of a schedule that the preview lists"""


def _urgency(status: PeriodicStatus) -> tuple[int, bool]:
    return status.missed or 0, status.entry.paused


def _schedule(status: PeriodicStatus, _: object) -> Cell:
    return status.entry.cron or ("?", BAD if status.entry.problem else DIM)


def _next(status: PeriodicStatus, view: QueueView) -> Cell:
    if status.entry.next_ms is None:
        return "-", DIM
    if status.overdue:
        return "overdue", WARN
    due = status.entry.next_ms - view.now_ms
    return (age(due), DELAYED) if due > 0 else ("due", DIM)


def _state(status: PeriodicStatus, _: object) -> Cell:
    return status.run_state or ("ended" if status.entry.run else ("-", DIM))


def _latest(status: PeriodicStatus, seen: Snapshot | QueueView) -> Cell:
    """When its latest run was due; runs are scheduled a minute ahead."""
    at = status.entry.run_ms
    if at is None:
        return "-", DIM
    return f"in {age(at - seen.now_ms)}" if at > seen.now_ms else ago(at, seen)


def _flags(status: PeriodicStatus, _: object) -> Cell:
    if status.entry.problem:
        return status.entry.problem, BAD
    words = ["paused"] if status.entry.paused else []
    if status.overdue:
        from redisq_ops.ops.inspect.periodic import missed_words

        words.append(f"{missed_words(status.missed)} missed")
    words += ["waits for its latest run"] if status.held else []
    return ", ".join(words), WARN


class PeriodicView(QueueView):
    BINDINGS: ClassVar[list[BindingType]] = [  # the dashboard's keys, in the words of this view
        Binding("R", "app.move('requeue')", "Run once", id="requeue"),
        Binding("X", "app.move('purge')", "Remove", id="purge"),
        Binding("H", "app.hold", "Pause or resume", id="hold"),
    ]
    name_ = "periodic"
    title = "periodic entries"
    short = "cron"
    about = "Periodic: next, last run"
    at_once = True
    needs = "HasPeriodicEntries"
    verbs = frozenset({"requeue", "purge"})
    holds = "periodic"
    named_rows = True
    columns = (
        texts("name", "periodic entry", 20, lambda p: p.name, flex=1),
        Column("schedule", "schedule", 16, _schedule, lambda p: p.entry.cron, flex=1),
        texts("zone", "zone", 13, lambda p: p.entry.zone, "", style=DIM, priority=2),
        Column("next", "next in", 8, _next, align="right"),
        replace(
            ages("latest", "latest run", 10, lambda p: p.entry.run_ms), cell=_latest, falls=True
        ),
        Column("state", "state", 8, _state, lambda p: p.run_state, priority=1),
        Column("flags", "flags", 16, _flags, _urgency, flex=4, falls=True),
    )
    usual = SortOrder("next", lambda p: p.entry.next_ms, words="next first", back="next last")
    empty = "no periodic entries: `:periodic add` makes one"

    def items(self, snapshot: Snapshot) -> Items:
        return Items(0, len(snapshot.periodic), snapshot.periodic)

    def words(self, item: Any) -> tuple[str, ...]:
        entry = item.entry
        paused = "paused" if entry.paused else ""
        return (item.name, paused, entry.cron or "", entry.task or "")

    def unfit(self, verb: str) -> str:
        entry = self.item and self.item.entry
        if not isinstance(entry, OwnersSchedule):
            return ""
        return entry.refusals.get({"requeue": "run", "purge": "rm", "hold": "pause"}[verb], "")

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        status: PeriodicStatus = item
        entry, now = status.entry, snapshot.now_ms
        if isinstance(entry, OwnersSchedule):
            return self._theirs(entry, now)
        spec, latest = entry.spec, [fact("none", "")]
        if entry.run is not None and (at := entry.run_ms) is not None:
            when, _ = styled(_latest(status, snapshot))
            when = when if at > now else f"{when} ago"
            state = status.run_state or "ended, and was removed"
            latest = [
                fact("id", entry.run),
                fact("state", state, BAD if state == "dead" else ""),
                fact("due", f"{moment(at, zone_of(self))}  ({when})"),
            ]
        found = [fact_section("latest", "latest run", latest)]
        if spec is not None:
            from redisq_ops.core.queues.delay.periodic import slots

            times = islice(slots(spec, now), _TIMES)
            lines = [fact(f"in {age(at - now)}", moment(at, zone_of(self))) for at in times]
            found.append(fact_section("next", "next times of its schedule", lines))
        return found

    def _theirs(self, entry: OwnersSchedule, now_ms: int) -> list[OutlineSection]:
        """What another program keeps of a schedule; the times of its expression are its own."""
        redaction, task = redaction_of(self), entry.task or "unknown"
        task = redaction.text(task) if redaction else task
        told = [fact("program", entry.program), fact("task", task)]
        for name, at in (("next run", entry.next_ms), ("latest run", entry.run_ms)):
            ago = "unknown" if at is None else f"{age(abs(at - now_ms))}{' ago' * (at <= now_ms)}"
            when = ago if at is None else f"{moment(at, zone_of(self))}  ({ago})"
            told.append(fact(name, when))
        return [fact_section("schedule", "schedule", told)]

    def identity(self, item: Any) -> str:
        return str(item.entry.name)
