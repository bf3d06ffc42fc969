"""How much a report has to read, and how Spark is set for so much.

Spark's own settings are for far more than most histories hold: of a small one most of the time went
into compiling queries, into planning each of their stages anew, and into empty partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redisq_ops.core.engine.optional_features import HasClients
from redisq_ops.core.redis.operation import together

from .options import Options
from .partitions import queues

SMALL = 200_000
"""rows under which queries are interpreted and a JVM isn't worth its own optimising compiler"""
_BYTES = 20
"""of a lake's files a row: history is that small in Parquet, the rest larger"""
_TOGETHER = 100
CLIENTS = 10_000
"""of a queue whose weights are looked up"""


def settings(rows: int) -> dict[str, str]:
    """What a session is to be set to for so many rows of history, while it runs."""
    if rows >= SMALL:
        return {"spark.sql.shuffle.partitions": str(max(4, min(200, rows // 250_000)))}
    return {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }


def started_with(rows: int) -> list[str]:
    """The same and what only a JVM that starts can be told, as ``--conf`` has it."""
    found = [f"{name}={value}" for name, value in settings(rows).items()]
    if rows < SMALL:
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        found.append(f"spark.driver.extraJavaOptions={quick}")
    return found


async def of_server(tables: Sequence[str], names: Sequence[str], prefix: str) -> int:
    """Events of the histories and dead letters, whatever their time; a command for each shard."""
    rows = 0
    found = await queues(Options("history", queue=tuple(names), prefix=prefix))
    every = [leaf for one in found for leaf in one.queue.shard_queues]
    for start in range(0, len(every), _TOGETHER):
        some = every[start : start + _TOGETHER]
        if "history" in tables:
            rows += sum(await together(leaf.history_length.op() for leaf in some))
        if "dead" in tables:
            counts = await together(leaf.counts.op() for leaf in some)
            rows += sum(each.dead or 0 for each in counts)
    return rows


async def weights(names: Sequence[str], prefix: str) -> dict[tuple[str, str], int]:
    """What fair queues' clients weigh, where it isn't 1; of the first `CLIENTS` of a queue."""
    weighed: dict[tuple[str, str], int] = {}
    for one in await queues(Options("history", queue=tuple(names), prefix=prefix)):
        queue = one.queue
        if not isinstance(queue, HasClients):
            continue
        start, total = 0, 1
        while start < min(total, CLIENTS):
            found = await queue.clients.op(start, _TOGETHER)
            total, start = found.total, start + _TOGETHER
            for each in found.clients:
                if each.weight != 1:
                    weighed[one.queue.name, each.client] = each.weight
    return weighed


def of_lake(folder: Path, tables: Sequence[str]) -> int:
    """About how many rows a lake has, by the size of its files."""
    return sum(
        file.stat().st_size // _BYTES
        for table in tables
        for file in (folder / table).glob("day=*/**/*.parquet")
    )
