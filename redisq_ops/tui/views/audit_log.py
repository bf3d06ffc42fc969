"""`l`: what operators changed in the queue, who, when and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count, date
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell, styled
from redisq_ops.tui.theme import DIM, OK

from .base import Items, QueueView, SortOrder
from .columns import Column, ages, ago, texts
from .delayed import zone_of

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation


def _subject(operation: Operation, _: object) -> Cell:
    return operation.subject


def _done(operation: Operation, _: object) -> Cell:
    return count(operation.done) if operation.done else ("-", DIM)


OP: Final = texts("op", "change", 18, lambda o: o.id)
AGO: Final = ages("ago", "ago", 7, lambda o: o.started_ms)
DONE: Final = Column("done", "entries", 7, _done, lambda o: o.done, align="right", falls=True)
WHO: Final = texts("who", "who", 12, lambda o: o.by, "", flex=1)
WHY: Final = texts("why", "why", 8, lambda o: o.why, ("-", DIM), flex=2, priority=1)
LATEST: Final = SortOrder("ago", None, True, "latest first", "oldest first")


class AuditLogView(QueueView):
    name_ = "log"
    title = "log"
    short = "log"
    about = "Audit log of changes"
    at_once = True
    named_rows = True
    explains_rows = False
    columns = (
        OP,
        AGO,
        replace(DONE, priority=1),
        Column("undo", "undo", 6, lambda o, _: can_undo(o), lambda o: not o.undoable),
        WHO,
        WHY,
        Column("what", "what", 16, _subject, lambda o: o.what, flex=2, style=DIM, priority=2),
    )
    usual = LATEST
    empty = "no operator changed anything here: replays, pauses, purges are listed"

    def items(self, snapshot: Snapshot) -> Items:
        return Items(0, len(snapshot.operations), snapshot.operations)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.id, item.by, item.why, item.what)

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        operation: Operation = item
        began = date(operation.started_ms, zone_of(self), offset=False)
        undo, style = styled(can_undo(operation))
        known = [
            ("what", operation.subject, ""),
            ("why", operation.why, ""),
            ("who", operation.by, ""),
            ("began", f"{began}  ({ago(operation.started_ms, snapshot)} ago)", ""),
            ("entries", f"{count(operation.done)} of {count(operation.matched)}", ""),
            ("steps", count(operation.steps), ""),
            ("finished", "yes" if operation.ended else "no: it goes on, or was interrupted", ""),
            ("undone", f"{count(operation.undone)} of {count(operation.done)}", ""),
            ("undo", f"{undo}: U lists it" if operation.undoable else undo, style),
        ]
        lines = [fact(label, words or "-", style) for label, words, style in known]
        return [fact_section("change", operation.id, lines)]


def can_undo(operation: Operation) -> Cell:
    """Whether a change can be undone or was undone."""
    if operation.undoable:
        return "yes", OK
    return ("undone" if operation.undone or operation.tried else "no"), DIM
