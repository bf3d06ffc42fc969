"""The tables the pipeline reads and keeps, column by column; pure data, loads no Spark.

Times are moments in UTC to the microsecond and end in ``_at``; durations are milliseconds and end
in ``_ms``; sizes are bytes. Unknown is null. The columns are those of the core's `Entry`,
`Request` and `Event`: there is no second description of a queue's keys here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Type: TypeAlias = Literal["string", "int", "long", "boolean", "timestamp", "binary", "double"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, type, and what it says."""

    name: str
    type: Type
    says: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One table, with the core's state it is read from, if it is one of entries."""

    name: str
    says: str
    columns: tuple[Column, ...]
    time: str | None = None
    """the column a range of time is pushed down to"""

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


_PLACE = (
    Column("queue", "string", "the queue's name"),
    Column("kind", "string", "the queue's kind"),
    Column("shard", "int", "which shard of it, from 0"),
)
_ENTRY = (
    *_PLACE,
    Column("id", "string", "the entry's id; of a sub-request REQUEST/N"),
    Column("state", "string", "the design's word for its state"),
    Column("called", "string", "the word of the queue's own users, where they have one"),
    Column("request", "string", "the request it belongs to"),
    Column("number", "int", "its number in the request, from 1"),
    Column("client", "string", "whose work it is, in a fair queue"),
    Column("failures", "int", "how often a handler said no"),
    Column("lost", "int", "how often its lease ran out"),
    Column("attempts", "int", "both together"),
    Column("first_at", "timestamp", "its first delivery, since a replay"),
    Column("since_at", "timestamp", "when it entered its state"),
    Column("consumer", "string", "who has it, or had it last"),
    Column("op", "string", "the operator's change that touched it last"),
)
_BODY = (
    Column("payload", "binary", "the bytes that were submitted; null unless asked for"),
    Column("payload_bytes", "long", "how many; null unless payloads are read"),
    Column("_corrupt", "string", "why it could not be read, beside its place and id; else null"),
)
_ERROR = (
    Column("reason", "string", "why it is dead: failed, lost, rejected"),
    Column("error_type", "string", "the latest error's type"),
    Column("error", "string", "its message"),
    Column("traceback", "string", "its traceback"),
    Column("fingerprint", "string", "which group of errors it is in"),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("dead", "dead letters", (*_ENTRY, *_ERROR, *_BODY), time="since_at"),
        Table(
            "pending",
            "entries that consumers have",
            (
                *_ENTRY,
                Column("deadline_at", "timestamp", "when its lease runs out"),
                Column("deliveries", "int", "as the stream itself counts them"),
                *_BODY,
            ),
            time="deadline_at",
        ),
        Table(
            "delayed",
            "entries that wait for their time",
            (*_ENTRY, Column("ready_at", "timestamp", "its time"), *_ERROR, *_BODY),
            time="ready_at",
        ),
        Table(
            "waiting",
            "entries that wait for a worker",
            (*_ENTRY, Column("ready_at", "timestamp", "its time, if it had one"), *_BODY),
        ),
        Table(
            "requests",
            "requests, open and settled",
            (
                *_PLACE,
                Column("request", "string", "its id"),
                Column("state", "string", "open, sealed, done, cancelled"),
                Column("priority", "int", "0 first, 99 last"),
                Column("limit", "int", "how many of its entries may be worked on at once"),
                Column("paused", "boolean"),
                *(
                    Column(name, "long", f"sub-requests: {name}")
                    for name in ("total", "waiting", "pending", "delayed", "done", "dead", "trash")
                ),
                Column("tokens", "int", "tokens in its priority list"),
                Column("created_at", "timestamp"),
                Column("added_at", "timestamp", "when it last grew"),
                Column("closed_at", "timestamp", "when it was settled"),
                Column("results_bytes", "long"),
                Column("_corrupt", "string", "why this row could not be read; else null"),
            ),
        ),
        Table(
            "subrequests",
            "all sub-requests of requests, by number, whatever their state",
            (*_ENTRY, *_ERROR, *_BODY),
        ),
        Table(
            "results",
            "results of requests, by number",
            (
                *_PLACE,
                Column("request", "string", "the request"),
                Column("number", "int", "the sub-request, from 1"),
                Column("state", "string"),
                Column("result", "binary", "the bytes the handler returned; null: none kept"),
                Column("error_type", "string"),
                Column("error", "string"),
                Column("_corrupt", "string", "why this row could not be read; else null"),
            ),
        ),
        Table(
            "history",
            "what happened, one row per entry and event",
            (
                *_PLACE,
                Column("event_id", "string", "the history stream's id; rows of one call share it"),
                Column("at", "timestamp", "server time"),
                Column("by", "string", "who: a consumer, a caller or an operation"),
                Column("event", "string", "submitted, taken, done, failed, lost, dead, op …"),
                Column("id", "string", "the entry; of submitted requests the request"),
                Column("request", "string", "the request it belongs to"),
                Column("number", "int", "its number in the request"),
                Column("run_ms", "long", "of done: from its delivery on"),
                Column("detail", "string", "what else the event says of it, its parts joined by |"),
                Column("_corrupt", "string", "why this row could not be read; else null"),
            ),
            time="at",
        ),
    )
}
