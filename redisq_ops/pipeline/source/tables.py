"""The tables that the pipeline reads, column by column; plain data without Spark.

Columns ending in ``_at`` are timestamps in UTC with microseconds, those ending in ``_ms`` are
milliseconds, sizes are bytes. Null means unknown. Columns match the core's `Entry`, `Request` and
`Event`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Type: TypeAlias = Literal["string", "int", "long", "boolean", "timestamp", "binary"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, type and description."""

    name: str
    type: Type
    says: str = ""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table: name, description and columns."""

    name: str
    says: str
    columns: tuple[Column, ...]
    time: str | None = None
    """the column that the bounds ``since`` and ``until`` apply to"""

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


_QUEUE = (
    Column("queue", "string", "the queue's name"),
    Column("kind", "string", "the queue's kind"),
)
_ORIGIN = (
    *_QUEUE,
    Column("shard", "int", "the shard's number, from 0"),
)
_ENTRY = (
    *_ORIGIN,
    Column("id", "string", "the entry's id; REQUEST/N for a sub-request"),
    Column("state", "string", "its state: waiting, pending, delayed, dead, …"),
    Column("called", "string", "the state's name in the program whose queue it is"),
    Column("task", "string", "the name of its task, in queues of task programs such as Celery"),
    Column("request", "string", "the request it belongs to"),
    Column("number", "int", "its number in the request, from 1"),
    Column("client", "string", "the client it belongs to, in a fair queue"),
    Column("failures", "int", "how often its handler failed"),
    Column("lost", "int", "how often its lease expired"),
    Column("attempts", "int", "failures and lost leases"),
    Column("first_at", "timestamp", "its first delivery, or the first since a replay"),
    Column("since_at", "timestamp", "when it entered its state"),
    Column("consumer", "string", "its current or latest consumer"),
    Column("op", "string", "the latest operator change of it"),
)
_BODY = (
    Column("payload", "binary", "the submitted bytes; null unless requested"),
    Column("payload_bytes", "long", "its size; null unless payloads are read"),
    Column("_corrupt", "string", "why the entry could not be read, or null"),
)
_ERROR = (
    Column("reason", "string", "why it is dead: failed, lost, rejected"),
    Column("error_type", "string", "type of the latest error"),
    Column("error", "string", "message of the latest error"),
    Column("traceback", "string", "traceback of the latest error"),
    Column("fingerprint", "string", "its error group"),
)

TABLES: dict[str, TableDefinition] = {
    table.name: table
    for table in (
        TableDefinition("dead", "dead letters", (*_ENTRY, *_ERROR, *_BODY), time="since_at"),
        TableDefinition(
            "pending",
            "entries leased to consumers",
            (
                *_ENTRY,
                Column("deadline_at", "timestamp", "when its lease expires"),
                Column("deliveries", "int", "deliveries counted by the stream"),
                *_BODY,
            ),
            time="deadline_at",
        ),
        TableDefinition(
            "delayed",
            "entries scheduled for later",
            (*_ENTRY, Column("ready_at", "timestamp", "when it becomes ready"), *_ERROR, *_BODY),
            time="ready_at",
        ),
        TableDefinition(
            "waiting",
            "entries waiting for a worker",
            (
                *_ENTRY,
                Column("ready_at", "timestamp", "when it became ready, if it was scheduled"),
                *_BODY,
            ),
        ),
        TableDefinition(
            "finished",
            "entries that are done, of kinds that keep them",
            (*_ENTRY, Column("run_ms", "long", "how long its latest run took"), *_BODY),
            time="since_at",
        ),
        TableDefinition(
            "requests",
            "requests, open and settled",
            (
                *_ORIGIN,
                Column("request", "string", "its id"),
                Column("state", "string", "open, sealed, done, cancelled"),
                Column("priority", "int", "0 first, 99 last"),
                Column("limit", "int", "maximum number of its entries worked on at once"),
                Column("paused", "boolean"),
                *(
                    Column(name, "long", f"sub-requests: {name}")
                    for name in ("total", "waiting", "pending", "delayed", "done", "dead", "trash")
                ),
                Column("tokens", "int", "its tokens in the priority list"),
                Column("created_at", "timestamp"),
                Column("added_at", "timestamp", "when sub-requests were last added"),
                Column("closed_at", "timestamp", "when it was completed or cancelled"),
                Column("results_bytes", "long"),
                Column("_corrupt", "string", "why the row could not be read, or null"),
            ),
        ),
        TableDefinition(
            "subrequests",
            "all sub-requests in any state, by request and number",
            (*_ENTRY, *_ERROR, *_BODY),
        ),
        TableDefinition(
            "results",
            "results of sub-requests, by request and number",
            (
                *_ORIGIN,
                Column("request", "string", "the request"),
                Column("number", "int", "the sub-request, from 1"),
                Column("state", "string"),
                Column("result", "binary", "bytes returned by the handler; null if none was kept"),
                Column("error_type", "string"),
                Column("error", "string"),
                Column("_corrupt", "string", "why the row could not be read, or null"),
            ),
        ),
        TableDefinition(
            "counts",
            "number of entries in each state, a row per queue and shard",
            (
                *_ORIGIN,
                *(
                    Column(state, "long", f"entries: {state}; null if the layout has no number")
                    for state in ("waiting", "pending", "delayed", "dead", "trash")
                ),
                Column("done", "long", "entries done since the queue was created"),
                Column("oldest_at", "timestamp", "when the oldest waiting entry began to wait"),
                Column("paused", "string", "why the queue is paused, or null"),
                Column("closed", "string", "why the queue is draining, or null"),
                Column("_corrupt", "string", "why the row could not be read, or null"),
            ),
        ),
        TableDefinition(
            "tasks",
            "tasks of the last hour, as `redisq tasks` reads them, a row per queue and task",
            (
                *_QUEUE,
                Column("task", "string", "its name; null: of runs whose task is not kept"),
                Column("every", "boolean", "whether the row is about all runs of the queue"),
                Column("ended", "long", "runs that ended, failed ones too"),
                Column("failed", "long", "runs that failed"),
                Column("p50_ms", "long", "median of run times"),
                Column("p95_ms", "long", "their 95th percentile"),
                Column("timed", "long", "of how many runs these are; 0: of none"),
                Column("times", "string", "exact, or at most: upper bounds of a histogram"),
                Column("error_type", "string", "type of the latest error"),
                Column("error", "string", "its message"),
                Column("error_at", "timestamp"),
                Column("since_at", "timestamp", "from when on all runs are counted, if known"),
                Column("until_at", "timestamp", "when it was read"),
                Column("source", "string", "what was read"),
                Column("remarks", "string", "what is not known, and why"),
                Column("_corrupt", "string", "why the queue's tasks could not be read, or null"),
            ),
        ),
        TableDefinition(
            "schedules",
            "periodic entries and other programs' schedules, as `redisq periodic ls` lists them",
            (
                *_QUEUE,
                Column("name", "string"),
                Column("program", "string", "the other program that starts the runs"),
                Column("cron", "string", "the schedule, as its program writes it"),
                Column("zone", "string", "the time zone of the schedule"),
                Column("task", "string", "the name of the task that its runs call"),
                Column("next_at", "timestamp", "its next run"),
                Column("run", "string", "the id of its latest run"),
                Column("run_at", "timestamp", "the time of its latest run"),
                Column("run_state", "string", "the state of that run, while the queue has it"),
                Column("missed_runs", "int", "times that passed without a run; 100: or more"),
                Column("overdue", "boolean", "whether a time passed without a run"),
                Column("held", "boolean", "whether the next run waits for the latest one to end"),
                Column("paused", "boolean"),
                *_BODY,
            ),
        ),
        TableDefinition(
            "history",
            "history events, one row per entry and event",
            (
                *_ORIGIN,
                Column(
                    "event_id", "string", "id in the history stream, shared by rows of one event"
                ),
                Column("at", "timestamp", "server time"),
                Column("by", "string", "the consumer, caller or operation that caused it"),
                Column("event", "string", "submitted, taken, done, failed, lost, dead, op …"),
                Column("id", "string", "the entry; the request for a submission"),
                Column("request", "string", "the request it belongs to"),
                Column("number", "int", "its number in the request"),
                Column("run_ms", "long", "run time, of done events"),
                Column("detail", "string", "further details, joined by |"),
                Column("_corrupt", "string", "why the row could not be read, or null"),
            ),
            time="at",
        ),
    )
}
