"""The tables of a report on a history and its dead letters, by Spark or DuckDB.

`QueueReport.figures` collects what a terminal or a page can show, bounded in size;
`QueueReport.write` stores all rows as Parquet. Hours and minutes are in UTC.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from redisq_ops.core.engine.queue_classes import foreign_classes
from redisq_ops.ops.groups.traits import SUPPORT

from ..source.tables import TABLES
from . import anomaly_rule
from .critical_path import Attempt, critical_path
from .engine import Engine, Relation, Value
from .figures import MAX_QUEUES, MAX_ROWS, Figures, Row
from .quantities import MINUTE, step_for

if TYPE_CHECKING:
    import pyarrow as pa

HISTORY_COLUMNS = tuple(each.name for each in TABLES["history"].columns if each.name != "shard")
DEAD_COLUMNS = (
    "queue",
    "kind",
    "id",
    "request",
    "client",
    "consumer",
    "since_at",
    "reason",
    "error_type",
    "error",
    "fingerprint",
    "_corrupt",
)
"""the columns that are read; without tracebacks, and payloads only on request"""

TASK_COLUMNS = tuple(
    column.name for column in TABLES["tasks"].columns if column.name not in ("error", "_corrupt")
)

MAX_EXACT = 1_000_000
"""maximum number of deliveries for exact percentiles in Spark"""
ACCURACY = 10_000
"""above `MAX_EXACT`, ranks of percentiles are off by at most 1/ACCURACY of all values"""
HOUR = 3_600_000
MAX_PATHS = 5
"""number of the slowest requests whose critical paths are computed"""
MAX_TRAITS = 5
"""traits of a group of dead letters that are kept"""
MAX_FAILURES_ONLY = 100
"""queues named because their history has failures only"""
MAX_EXPANDED = 10_000
"""limit on sub-requests of one ``submitted`` event; the core writes at most 500"""

Weights = Mapping[tuple[str, str], int]
"""(queue, client) -> weight: turns it gets for each turn of a client with weight 1"""
Progress = Callable[[int, int], None]


@dataclass
class QueueReport(Generic[Relation]):
    """A report of a history and its dead letters, of which only `HISTORY_COLUMNS` and
    `DEAD_COLUMNS` are used.

    An entry's client is known for fair queues, unless the engine finds clients in ids.
    """

    engine: Engine[Relation]
    history: Relation
    dead: Relation
    payloads: bool = False
    """compare dead letters' payloads too, to find what the entries of a group have in common"""
    weights: Weights | None = None
    """weights other than 1; None: unknown"""
    earlier: Relation | None = None
    """the history before ``history``, from which the backlog at the start is computed"""
    against: QueueReport[Relation] | None = None
    """a report of another time to compare this one with"""
    others: Mapping[str, Relation] = field(default_factory=dict)
    """further tables, as they are: ``tasks``, ``samples``"""

    def __post_init__(self) -> None:
        # Read once: a second read of a live server would return other rows.
        self.history = self.engine.kept(self.history)
        self.dead = self.engine.kept(self.dead)

    def _query(
        self, name: str, values: Mapping[str, Value] | None = None, **inputs: Relation
    ) -> Relation:
        return self.engine.query(name, values or {}, **inputs)

    def _rows(self, relation: Relation, limit: int | None = None) -> list[Row]:
        return rows_in_millis(self.engine.rows(relation, limit))

    # --- whole history --------------------------------------------------------------------------

    @cached_property
    def _extent(self) -> Row:
        return self._rows(self._query("extent", history=self.history))[0]

    @property
    def range(self) -> tuple[int | None, int | None]:
        """The times of the first and last event, in ms."""
        return self._extent["begin_ms"], self._extent["end_ms"]

    @property
    def events(self) -> int:
        found: int = self._extent["events"]
        return found

    @cached_property
    def _entries(self) -> Relation:
        return self._query("entry_events", {"most": MAX_EXPANDED}, history=self.history)

    @property
    def _client(self) -> dict[str, Value]:
        of_fair_queues = "case when kind = 'fair' then detail end"
        return {"client": "client_of(id)" if self.engine.finds_clients else of_fair_queues}

    @cached_property
    def attempts(self) -> Relation:
        """One row per delivery."""
        return self.engine.kept(self._query("attempts", self._client, entries=self._entries))

    @cached_property
    def _delivery_counts(self) -> Row:
        return self._rows(self._query("deliveries", attempts=self.attempts))[0]

    @cached_property
    def _histories(self) -> Relation:
        foreign = ", ".join(f"'{kind}'" for kind in foreign_classes())
        return self.engine.kept(
            self._query("histories", {"foreign": foreign}, history=self.history)
        )

    @cached_property
    def _event_counts(self) -> Relation:
        step = min(MINUTE, self.step_ms)
        return self.engine.kept(
            self._query("event_counts", {"step_ms": step}, history=self.history)
        )

    @cached_property
    def _opening(self) -> Relation:
        if self.earlier is None:
            return self._literal([], queue="string", opened="long", fewest="long")
        counts = self._query("event_counts", {"step_ms": MINUTE}, history=self.earlier)
        return self.engine.kept(self._query("open_entries", counts=counts))

    def _literal(self, rows: Sequence[Row], **columns: str) -> Relation:
        import pyarrow as pa

        types = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
        schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
        return self.engine.relation(pa.Table.from_pylist(list(rows), schema))

    @property
    def accuracy(self) -> int | None:
        few = self._delivery_counts["deliveries"] <= MAX_EXACT
        return None if self.engine.exact or few else ACCURACY

    @property
    def _percentiles(self) -> dict[str, Value]:
        if self.accuracy is None:
            return {"percentiles_of": "percentile", "accuracy": ""}
        return {"percentiles_of": "percentile_approx", "accuracy": f", {self.accuracy}"}

    @property
    def step_ms(self) -> int:
        """The shortest step that divides the time into at most `MAX_STEPS` steps."""
        begin, end = self.range
        return MINUTE if begin is None or end is None else step_for(end - begin)

    @property
    def anomaly_ms(self) -> int:
        """The step of anomalies: a minute, if there are enough minutes to know the usual values."""
        begin, end = self.range
        return MINUTE if (end or 0) - (begin or 0) >= 30 * MINUTE else self.step_ms

    # --- tables --------------------------------------------------------------------------------

    @cached_property
    def tables(self) -> dict[str, Relation]:
        """All tables of the report."""
        return {
            "latency": self.engine.kept(self._latency(HOUR)),
            "throughput": self._throughput(MINUTE),
            "workers": self._query("workers", {"step_ms": self.step_ms}, attempts=self.attempts),
            "changes": self._query("changes", history=self.history),
            "retries": self._query("retries", attempts=self.attempts),
            "anomalies": self._anomalies(self.anomaly_ms),
            **self._dead_letter_tables(),
            "fairness": self._fairness(),
            "requests": self._requests,
            "critical_paths": self._slowest_paths(),
            **({} if self.against is None else {"comparison": self._comparison(self.against)}),
            **self.others,
        }

    @cached_property
    def _totals(self) -> list[Row]:
        throughput, latency = self._throughput(self.step_ms), self.tables["latency"]
        found = self._query("queue_totals", throughput=throughput, latency=latency)
        return self._rows(found)

    @cached_property
    def _series(self) -> dict[str, Relation]:
        """What the plots show."""
        busiest = [{"queue": row["queue"]} for row in self._totals[:MAX_QUEUES]]
        queues = self._literal(busiest, queue="string")
        return {
            name: self._query("of_queues", rows=rows, queues=queues)
            for name, rows in (
                ("latency", self._latency(self.step_ms)),
                ("throughput", self._throughput(self.step_ms)),
            )
        }

    def _latency(self, step_ms: int) -> Relation:
        values = {"step_ms": step_ms, **self._percentiles}
        return self._query("latency", values, attempts=self.attempts)

    def _throughput(self, step_ms: int) -> Relation:
        return self._query(
            "throughput",
            {"step_ms": step_ms},
            counts=self._event_counts,
            histories=self._histories,
            opening=self._opening,
        )

    def _anomalies(self, step_ms: int) -> Relation:
        return self._query(
            "anomalies",
            {"step_ms": step_ms, **anomaly_rule.VALUES},
            throughput=self._throughput(step_ms),
            latency=self._latency(step_ms),
        )

    @cached_property
    def _requests(self) -> Relation:
        found = self._query("requests", history=self.history, attempts=self.attempts)
        return self.engine.kept(found)

    def _fairness(self) -> Relation:
        rows = [
            {"queue": queue, "client": client, "weight": weight}
            for (queue, client), weight in (self.weights or {}).items()
        ]
        return self._query(
            "fairness",
            {"hour_ms": HOUR},
            attempts=self.attempts,
            submissions=self._query("submissions", self._client, entries=self._entries),
            weights=self._literal(rows, queue="string", client="string", weight="int"),
        )

    def _comparison(self, other: QueueReport[Relation]) -> Relation:
        totals, others = self._window_totals(), other._window_totals()
        return self._query("comparison", totals=totals, others=others)

    def _window_totals(self) -> Relation:
        begin, end = self.range
        values = {"begin_ms": begin or 0, "end_ms": end or 0, **self._percentiles}
        return self._query(
            "window_totals",
            values,
            counts=self._event_counts,
            histories=self._histories,
            attempts=self.attempts,
            dead=self.dead,
        )

    def _dead_letter_tables(self) -> dict[str, Relation]:
        if self.payloads:
            kinds = [kind for kind, made in foreign_classes().items() if made.enveloped]
            enveloped = ", ".join(f"'{kind}'" for kind in kinds)
            payloads = self._query("payload_fields", {"enveloped": enveloped}, dead=self.dead)
        else:
            names = ("queue", "fingerprint", "id", "field", "value")
            payloads = self._literal([], **dict.fromkeys(names, "string"))
        values = {"hour_ms": HOUR, "support": SUPPORT, "max_traits": MAX_TRAITS}
        redact = {"redact": "redact" if self.engine.redacts else ""}
        return {
            "dead_groups": self._query("dead_groups", redact, dead=self.dead),
            "contrasts": self._query("contrasts", values, dead=self.dead, payloads=payloads),
        }

    def _slowest_paths(self) -> Relation:
        """The critical paths of the slowest requests."""
        slowest = self._rows(self._requests, MAX_PATHS)
        names = [{"queue": row["queue"], "request": row["request"]} for row in slowest]
        requests = self._literal(names, queue="string", request="string")
        paths = self._paths(self.attempts, requests)
        texts = ("queue", "request", "what", "id", "consumer", "ended")
        numbers = ("attempt", "place", "from_ms", "to_ms")
        columns = dict.fromkeys(texts, "string") | dict.fromkeys(numbers, "long")
        return self._query("critical_paths", segments=self._literal(paths, **columns))

    def _paths(self, attempts: Relation, requests: Relation) -> list[Row]:
        """The segments of the critical paths of some requests: see `critical_path`. All deliveries
        of these requests are in memory."""
        deliveries: dict[tuple[str, str], list[Attempt]] = {}
        found = self._query("attempts_of_requests", attempts=attempts, requests=requests)
        for row in self.engine.rows(found).to_pylist():
            key = row.pop("queue"), row.pop("request")
            deliveries.setdefault(key, []).append(Attempt(**row))
        return [
            {"queue": queue, "request": request, "place": place, **asdict(segment)}
            for (queue, request), those in sorted(deliveries.items())
            for place, segment in enumerate(critical_path(those), 1)
        ]

    def figures(self, progress: Progress | None = None) -> Figures:
        """Collect all tables and the series of the plots."""
        collected = self._collect([*self.tables.values(), *self._series.values()], progress)
        rows = dict(zip(self.tables, collected, strict=False))
        opened = [] if self.earlier is None else self._rows(self._opening)
        return Figures(
            **self._extent,
            **self._delivery_counts,
            step_ms=self.step_ms,
            anomaly_ms=self.anomaly_ms,
            accuracy=self.accuracy,
            failures_only=self._failures_only_queues(),
            tables={name: table[:MAX_ROWS] for name, table in rows.items()},
            totals=self._totals,
            series=dict(zip(self._series, collected[len(rows) :], strict=True)),
            truncated=tuple(name for name, table in rows.items() if len(table) > MAX_ROWS),
            weights_known=self.weights is not None,
            opened={row["queue"]: row["opened"] for row in opened},
            against=None if self.against is None else self.against.range,
        )

    def _collect(self, relations: Iterable[Relation], progress: Progress | None) -> list[list[Row]]:
        """The rows of each relation, at most one more than `MAX_ROWS`."""
        found: list[list[Row]] = []
        for n, relation in enumerate(listed := list(relations)):
            if progress is not None:
                progress(n, len(listed))
            found.append(self._rows(relation, MAX_ROWS + 1))
        return found

    def dead_letter_groups(self, progress: Progress | None = None) -> dict[str, list[Row]]:
        """Collect ``dead_groups`` and ``contrasts``, which need the dead letters only."""
        tables = self._dead_letter_tables()
        collected = self._collect(tables.values(), progress)
        return {name: rows[:MAX_ROWS] for name, rows in zip(tables, collected, strict=True)}

    def critical_path(
        self, request: str, progress: Progress | None = None
    ) -> tuple[list[Row], tuple[str, ...]]:
        """The critical path of a request in each queue that has a request of that id.

        If no queue has, also returns the queues whose history has failures only.
        """
        if progress is not None:
            progress(0, 1)
        named = self._literal([{"request": request}], request="string")
        events = self._query("events_of_request", history=self.history, requests=named)
        entries = self._query("entry_events", {"most": MAX_EXPANDED}, history=events)
        attempts = self._query("attempts", self._client, entries=entries)
        requests = self._query("queues_of_request", attempts=attempts, requests=named)
        rows = [
            {**row, "took_ms": row["to_ms"] - row["from_ms"]}
            for row in self._paths(attempts, requests)
        ]
        return rows, self._failures_only_queues() if not rows else ()

    def _failures_only_queues(self) -> tuple[str, ...]:
        foreign = foreign_classes()  # they have no setting `history`
        rows = self._rows(self._histories, MAX_ROWS)
        found = (row for row in rows if not row["deliveries"] and row["kind"] not in foreign)
        return tuple(row["queue"] for row in islice(found, MAX_FAILURES_ONLY))

    def write(self, folder: Path, progress: Progress | None = None) -> dict[str, Path]:
        """Write each table as Parquet below the folder; then replace a previous report, once all
        tables are written.

        Later uses of `tables` read these files, so no table is computed twice.
        """
        temporary = folder / f".part.{os.getpid()}"
        relations = dict(self.tables)
        try:
            for n, (name, relation) in enumerate(relations.items()):
                if progress is not None:
                    progress(n, len(relations))
                self.engine.write(relation, temporary / name)
            for name in relations:
                path = folder / name
                if path.exists():
                    path.replace(temporary / f"{name}.old")
                (temporary / name).replace(path)
                self.tables[name] = self.engine.written(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return {name: folder / name for name in relations}


def report_columns(table: str, *, payloads: bool) -> tuple[str, ...]:
    """What a report reads of the table ``history`` or ``dead``."""
    if table == "history":
        return HISTORY_COLUMNS
    if table == "tasks":
        return TASK_COLUMNS
    return (*DEAD_COLUMNS, "payload") if payloads else DEAD_COLUMNS


def rows_in_millis(table: pa.Table) -> list[Row]:
    """The rows of a table; a time ``x_at`` becomes ``x_ms``, in ms."""
    import pyarrow as pa

    names, columns = [], []
    for each in table.schema:
        column: Any = table[each.name]
        is_time = pa.types.is_timestamp(each.type)
        if is_time:
            in_ms = pa.timestamp("ms", each.type.tz)
            column = column.cast(in_ms, safe=False).cast(pa.int64())
        names.append(f"{each.name.removesuffix('_at')}_ms" if is_time else each.name)
        columns.append(column)
    found: list[Row] = pa.table(columns, names=names).to_pylist()
    return found
