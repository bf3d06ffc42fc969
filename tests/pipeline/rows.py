"""Helpers that read tables without Spark, and fill queues with entries in every state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.pipeline.source.options import parse_options
from redisq_ops.pipeline.source.table_reader import TableReader
from redisq_ops.pipeline.source.tables import TABLES

ERROR = Failure("SMTP", "no such mailbox", "Traceback\n  line 2").encoded()


def reading(url: str, table: str, **options: str) -> TableReader:
    return TableReader(parse_options({"table": table, "url": url, **options}))


def rows(url: str, table: str, **options: str) -> list[dict[str, Any]]:
    """All rows of a table, part by part."""
    made = reading(url, table, **options)
    return [row for part in made.plan() for batch in made.read(part) for row in batch.to_pylist()]


def ids(url: str, table: str, **options: str) -> list[str]:
    return [row["id"] for row in rows(url, table, **options)]


def scattered(queue: Any) -> None:
    """Of a filled queue: nine entries dead, four delayed, seven pending; the others waiting."""
    taken: list[Any] = []
    while len(taken) < 20:
        taken += queue.take(20 - len(taken), consumer="w1").deliveries
    queue.settle([Settlement(one, "reject", ERROR) for one in taken[:9]])
    queue.settle([Settlement(one, "fail", ERROR, 3600) for one in taken[9:13]])


def paged(queue: Any, state: Any) -> Iterator[Any]:
    """A state's entries, by pages as front ends read them."""
    cursor = None
    while True:
        page = queue.page(state, cursor, 7, payloads=True)
        yield from page.entries
        cursor = page.cursor
        if cursor is None:
            return


def calls(client: redis.Redis) -> dict[str, int]:
    """Number of calls of each command since the last reset."""
    stats: Any = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): row["calls"] for name, row in stats.items()}


WITH_PAYLOAD = [name for name, table in TABLES.items() if table.column("payload")]
