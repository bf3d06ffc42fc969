"""`e`: the periodic entries of a queue: when each runs next, and how its latest run went."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.binding import Binding, BindingType

from redisq_ops.core.foreign.schedule import OwnersSchedule
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell, TableColumn, TableRow, styled
from redisq_ops.tui.theme import BAD, DELAYED, DIM, WARN

from .base import Items, QueueView, SortOrder, redaction_of
from .dead_letters import ago
from .delayed import moment, zone_of

if TYPE_CHECKING:
    from redisq_ops.ops.inspect.periodic import PeriodicStatus


_NEXT: Final = 5
"""times of a schedule that the preview lists"""


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
    needs = "HasPeriodicEntries"
    verbs = frozenset({"requeue", "purge"})
    holds = "periodic"
    named_rows = True
    columns = (
        TableColumn("name", "periodic entry", 20, flex=1),
        TableColumn("schedule", "schedule", 16, flex=1),
        TableColumn("zone", "zone", 13, style=DIM, priority=2),
        TableColumn("next", "next in", 8, align="right"),
        TableColumn("latest", "latest run", 10, align="right"),
        TableColumn("state", "state", 8, priority=1),
        TableColumn("flags", "flags", 16, flex=4),
    )
    orders = (
        SortOrder("next", lambda p: p.entry.next_ms, words="next first", back="next last"),
        SortOrder("name", lambda p: p.name),
        SortOrder("schedule", lambda p: p.entry.cron),
        SortOrder("zone", lambda p: p.entry.zone),
        SortOrder("latest", lambda p: p.entry.run_ms, True),
        SortOrder("state", lambda p: p.run_state),
        SortOrder("flags", lambda p: (p.missed or 0, p.entry.paused), True),
    )
    empty = "no periodic entries: `:periodic add` makes one"

    @property
    def window(self) -> tuple[int, int]:
        return 0, 1  # they are read as a whole

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

            times = islice(slots(spec, now), _NEXT)
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

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        status: PeriodicStatus = item
        entry = status.entry
        due = None if entry.next_ms is None else entry.next_ms - snapshot.now_ms
        next_run: Cell = "-", DIM
        if due is not None:
            next_run = (age(due), DELAYED) if due > 0 else ("due", DIM)
            next_run = ("overdue", WARN) if status.overdue else next_run
        return TableRow(
            entry.name,
            (
                entry.name,
                entry.cron or ("?", BAD if entry.problem else DIM),
                entry.zone or "",
                next_run,
                _latest(status, snapshot),
                status.run_state or ("ended" if entry.run else ("-", DIM)),
                _flags(status),
            ),
        )


def _latest(status: PeriodicStatus, snapshot: Snapshot) -> Cell:
    """When its latest run was due; runs are scheduled a minute ahead."""
    at = status.entry.run_ms
    if at is None:
        return "-", DIM
    return f"in {age(at - snapshot.now_ms)}" if at > snapshot.now_ms else ago(at, snapshot)


def _flags(status: PeriodicStatus) -> Cell:
    if status.entry.problem:
        return status.entry.problem, BAD
    words = ["paused"] if status.entry.paused else []
    if status.overdue:
        from redisq_ops.ops.inspect.periodic import missed_words

        words.append(f"{missed_words(status.missed)} missed")
    words += ["waits for its latest run"] if status.held else []
    return ", ".join(words), WARN
