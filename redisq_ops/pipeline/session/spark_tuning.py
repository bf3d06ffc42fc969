"""Spark settings by the number of rows that a report has to read.

Spark's defaults suit large data: on a short history most of the time went into compiling queries,
planning stages and running empty partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redisq_ops.core.engine.optional_features import HasClients, HasDoneEntries
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Counts
from redisq_ops.core.redis.operation import together

from ..source.options import Options
from ..source.read_partitions import ENTRY_STATES, TOGETHER, open_queues

SMALL = 200_000
"""with fewer rows, queries are interpreted and the JVM's optimising compiler is off"""
SMALL_INPUT = 64 * 1024 * 1024
_SHARDS_PER_CALL = 100
MAX_CLIENTS = 10_000
"""maximum number of clients per queue whose weights are read"""


def session_settings(rows: int) -> dict[str, str]:
    """Settings of a running session for so many rows of history."""
    if rows >= SMALL:
        return {"spark.sql.shuffle.partitions": str(max(4, min(200, rows // 250_000)))}
    return {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }


def startup_conf(rows: int) -> list[str]:
    """The same, with options of the JVM, as ``--conf`` words for starting a session."""
    return [*(f"{name}={value}" for name, value in session_settings(rows).items()), *jvm_conf(rows)]


def jvm_conf(rows: int) -> list[str]:
    """The options of the JVM alone, as ``--conf`` words."""
    if rows >= SMALL:
        return []
    return ["spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]


def submit_conf(small: bool) -> list[str]:
    """``--conf`` words for a session that submits files; ``small``: see `is_small_input`."""
    # One task reads many small files: with Spark's default cost of 4 MB per file, only thirty.
    return [f"spark.sql.files.openCostInBytes={64 * 1024}", *(jvm_conf(0) if small else ())]


def is_small_input(path: Path) -> bool:
    """Whether a file or folder of this machine has at most `SMALL_INPUT` bytes.

    It is then kept in memory, as it is read several times.
    """
    size = 0
    for file in [path] if path.is_file() else path.rglob("*"):
        size += file.stat().st_size
        if size > SMALL_INPUT:
            return False
    return size > 0


async def server_rows(tables: Sequence[str], names: Sequence[str], prefix: str) -> int:
    """Number of rows of these tables, of any time, by the queues' counters; one command per shard.

    A row of ``requests``, ``subrequests`` or ``results`` counts as all entries of its queue.
    """
    rows = 0
    found = await open_queues(Options("history", queue=tuple(names), prefix=prefix))
    shard_queues = [shard_queue for opened in found for shard_queue in opened.queue.shard_queues]
    for start in range(0, len(shard_queues), _SHARDS_PER_CALL):
        shards = shard_queues[start : start + _SHARDS_PER_CALL]
        if "history" in tables:
            rows += sum(await together(shard_queue.history_length.op() for shard_queue in shards))
        if not {"history", *TOGETHER}.issuperset(tables):
            counts = await together(shard_queue.counts.op() for shard_queue in shards)
            rows += sum(
                _rows_counted(queue, each, table)
                for queue, each in zip(shards, counts, strict=True)
                for table in tables
            )
    return rows


def _rows_counted(queue: Queue[Any], counts: Counts, table: str) -> int:
    unlisted = table == "finished" and not isinstance(queue, HasDoneEntries)
    if table == "history" or table in TOGETHER or unlisted:
        return 0
    if table in ENTRY_STATES:
        return counts.of(ENTRY_STATES[table]) or 0
    return counts.waiting + counts.pending + counts.delayed + counts.dead + counts.done


async def weights(names: Sequence[str], prefix: str) -> dict[tuple[str, str], int]:
    """Weights other than 1, by queue and client; of the first `MAX_CLIENTS` clients of a queue."""
    weighed: dict[tuple[str, str], int] = {}
    for opened in await open_queues(Options("history", queue=tuple(names), prefix=prefix)):
        queue = opened.queue
        if not isinstance(queue, HasClients):
            continue
        start, total = 0, 1
        while start < min(total, MAX_CLIENTS):
            found = await queue.clients.op(start, _SHARDS_PER_CALL)
            total, start = found.total, start + _SHARDS_PER_CALL
            for each in found.clients:
                if each.weight != 1:
                    weighed[queue.name, each.client] = each.weight
    return weighed
