"""What `redisq sql` and `redisq spark sql` share: what a query reads, and how rows are printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import BadInput, RedisqError

from .output import emit, quantity, say, table
from .session import Session
from .spark_session import bounds, check_queues, table_options

if TYPE_CHECKING:
    from redisq_ops.pipeline.lake.lake_table import Lake
    from redisq_ops.pipeline.sql.query_bounds import Clock
    from redisq_ops.pipeline.sql.query_tables import TableUse

    from .commands.spark import Asked

SHOWN = 100
"""rows shown to a person; programs get all"""
_LIMITS = ("queue", "id", "request", "since", "until")
Answer = tuple[Sequence[str], Iterator[Mapping[str, Any]]]
"""the names of a query's columns, and its rows by these names"""


@dataclass(frozen=True, slots=True)
class QueryTables:
    """What a query reads of each table."""

    uses: Mapping[str, TableUse]
    own: Mapping[str, Mapping[str, str]]
    """options of the data source that the command's options give"""
    rows: Mapping[str, int]
    """by the queues' counters, or by the size of a lake's files"""
    counted: frozenset[str]
    """the tables of which only counters are read"""

    def whole(self) -> list[TableUse]:
        from redisq_ops.pipeline.sql.query_tables import whole_use

        return [whole_use(name) for name in self.uses]


def query_tables(s: Session, asked: Asked, clock: Clock | None, lake: Lake | None) -> QueryTables:
    """What a query reads. Raises `BadInput` for a statement that does more than read."""
    from redisq_ops.core.engine.registry import all_queues
    from redisq_ops.pipeline.session import spark_tuning
    from redisq_ops.pipeline.source.options import listed, parse_options
    from redisq_ops.pipeline.source.read_partitions import counts_only
    from redisq_ops.pipeline.source.tables import TABLES
    from redisq_ops.pipeline.sql.query_tables import only_reads, table_uses

    if not only_reads(asked.query):
        raise BadInput("the statement is no query: it has to begin with select, with or from")
    uses = table_uses(asked.query, clock)
    common = bounds(s, asked.between, lake)
    common |= {} if asked.queue is None else {"queue": listed([asked.queue])}
    payloads = asked.payloads or re.search(r"\bpayload", asked.query, re.IGNORECASE)
    own: dict[str, dict[str, str]] = {}
    rows: dict[str, int] = {}
    for name in uses:
        has_payload = TABLES[name].column("payload") is not None
        own[name] = common | ({"payloads": "true"} if payloads and has_payload else {})
        if lake is not None:
            from redisq_ops.pipeline.lake.lake_export import lake_rows

            rows[name] = lake_rows(lake, [name])
            continue
        queues = parse_options({"table": name, **own[name]}).queue
        check_queues(s, queues)
        rows[name] = s.run(spark_tuning.server_rows([name], queues, s.config.prefix))
    if lake is None and any(use.bounds.queue is not None for use in uses.values()):
        known = [entry.name for entry in s.run(all_queues(s.config.prefix))]
        known = [asked.queue] if asked.queue else known
        uses = {name: use.within(known) for name, use in uses.items()}
    counted = set()
    for name, use in uses.items() if lake is None else ():
        options = parse_options(table_options(s, name, **use.options(own[name])))
        if s.run(counts_only(options)):
            counted.add(name)
    return QueryTables(uses, own, rows, frozenset(counted))


def explained(s: Session, tables: QueryTables) -> int:
    """Print what the query reads of each table."""
    for name, use in tables.uses.items():
        if s.json:
            options = use.options(tables.own[name])
            limits = {each: options.get(each) for each in _LIMITS}
            emit({"table": name, "columns": use.columns, **limits, "rows": tables.rows[name]})
        else:
            print(use.describe(tables.own[name], name in tables.counted))
    return 0


def print_answer(
    s: Session, ask: Callable[[Sequence[TableUse]], Answer], tables: QueryTables
) -> None:
    """Print a query's rows. If it fails because a column was not read, ask again over all."""
    from redisq_ops.pipeline.sql.query_tables import UNREAD

    names, rows = ask(list(tables.uses.values()))
    try:
        first = list(islice(rows, 1))
    except RedisqError as error:
        if UNREAD not in str(error):
            raise
        names, rows = ask(tables.whole())
        first = list(islice(rows, 1))
    if s.json:
        for row in chain(first, rows):
            emit(row)
        return
    shown = [list(row.values()) for row in chain(first, islice(rows, SHOWN))]
    table(names, shown[:SHOWN])
    more = "; more are there: --json has all" if len(shown) > SHOWN else ""
    say(quantity(min(len(shown), SHOWN), "row") + more)
