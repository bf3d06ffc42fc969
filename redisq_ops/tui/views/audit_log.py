"""`l`: what operators changed in the queue, who, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count, date
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell, TableColumn, TableRow, styled
from redisq_ops.tui.theme import DIM, OK

from .base import Items, QueueView, SortOrder
from .dead_letters import ago
from .delayed import zone_of

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation


class AuditLogView(QueueView):
    name_ = "log"
    title = "log"
    short = "log"
    about = "Audit log of changes"
    named_rows = True
    explains_rows = False
    columns = (
        TableColumn("op", "change", 18),
        TableColumn("ago", "ago", 7, align="right"),
        TableColumn("done", "entries", 7, align="right", priority=1),
        TableColumn("undo", "undo", 6),
        TableColumn("who", "who", 12, flex=1),
        TableColumn("why", "why", 8, flex=2, priority=1),
        TableColumn("what", "what", 16, flex=2, style=DIM, priority=2),
    )
    orders = (
        SortOrder("ago", None, True, "latest first", "oldest first"),
        SortOrder("op", lambda o: o.id),
        SortOrder("done", lambda o: o.done, True),
        SortOrder("undo", lambda o: not o.undoable),
        SortOrder("who", lambda o: o.by),
        SortOrder("why", lambda o: o.why),
        SortOrder("what", lambda o: o.what),
    )
    empty = "no operator changed anything here: replays, pauses, purges are listed"

    @property
    def window(self) -> tuple[int, int]:
        return 0, 1  # the latest changes, however many are in sight

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

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        operation: Operation = item
        return TableRow(
            operation.id,
            (
                operation.id,
                ago(operation.started_ms, snapshot),
                count(operation.done) if operation.done else ("-", DIM),
                can_undo(operation),
                operation.by,
                operation.why or ("-", DIM),
                operation.subject,
            ),
        )


def can_undo(operation: Operation) -> Cell:
    """Whether a change can be undone or was undone."""
    if operation.undoable:
        return "yes", OK
    return ("undone" if operation.undone or operation.tried else "no"), DIM
