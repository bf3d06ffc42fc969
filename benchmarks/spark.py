"""Reading dead letters with Spark, compared with one process, with rows as tuples, and on two
cores.

GENERATED dead letters: 600,000 of a delay set, each with its own error message, a second apart.
Each way to read has a process of its own, warmed up; they are measured in turn, so that other load
affects all of them. With REDISQ_SPARK_LARGE=1 also 1 and 10 million dead letters, which takes some
six minutes more and 8 GB.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import SparkSession
from pyspark.sql import datasource as ds
from pyspark.sql.types import StructType

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.demo.server import EmbeddedServer, binaries
from redisq_ops.pipeline.session.data_source import RedisqDataSource
from redisq_ops.pipeline.session.spark_session import session
from redisq_ops.pipeline.session.spark_tuning import startup_conf
from redisq_ops.pipeline.source.call_size import CallSize
from redisq_ops.pipeline.source.model_rows import ENTRY_COLUMNS
from redisq_ops.pipeline.source.options import Options, parse_options
from redisq_ops.pipeline.source.read_partitions import TablePart
from redisq_ops.pipeline.source.table_reader import TableReader

from .measure import ROUNDS, spread

MANY = 600_000
MILLION = 1_000_000
WARM_UP = 4
"""rounds until the JVM has compiled what a read runs"""
COLUMNS = "id,failures,attempts,first_at,since_at,consumer,reason,error_type,error,traceback"
CONF = ("spark.driver.memory=1g", *startup_conf(MANY))
PAGE = 500
START_MS = 1_900_000_000_000
_BURY = """
local base, first, last, start = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
for n = first, last do
  local id, now = 'e' .. n, string.format('%.0f', start + n * 1000)
  redis.call('HSET', base .. 'body', id, ARGV[4])
  redis.call('HSET', base .. 'meta', id, '- 1 0 ' .. now .. ' ' .. now .. ' w - rejected ' .. now)
  redis.call('HSET', base .. 'err', id, '{"type": "ValueError", "message": "no such customer: '
    .. n .. '", "traceback": "Traceback (most recent call last)\\\\n  File app.py, line 7"}')
  redis.call('ZADD', base .. 'dead', now, id)
end
"""


def fill(client: redis.Redis, first: int, last: int, start_ms: int = START_MS) -> None:
    """Dead letters ``first`` to ``last``, a second apart."""
    queue = DelaySet(client, "mail")
    if first == 1:
        queue.schedule([("alive", b"x")], after=10**7)
    bury: Any = client.register_script(_BURY)
    for low in range(first, last + 1, 1000):
        bury(keys=[queue.keys.base], args=[low, min(low + 999, last), start_ms, b"x" * 100])


# --- the ways to read --------------------------------------------------------------------------


def options(url: str, **more: str) -> dict[str, str]:
    return {"table": "dead", "queue": "mail", "url": url, "columns": COLUMNS, **more}


def read_directly(url: str) -> int:
    """Read the same keys and columns without Spark."""
    reader = TableReader(parse_options(options(url)))
    return sum(batch.num_rows for part in reader.plan() for batch in reader.read(part))


def read_half(url: str, nth: int) -> int:
    """Read every other partition of the same table without Spark."""
    reader = TableReader(parse_options(options(url)))
    return sum(batch.num_rows for part in reader.plan()[nth::2] for batch in reader.read(part))


class TupleReader(ds.DataSourceReader):
    """Entries as front ends read them, passed to Spark row by row."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[ds.InputPartition]:
        return [ds.InputPartition(part) for part in TableReader(self.options).plan()]

    def read(self, partition: ds.InputPartition) -> Iterator[tuple[Any, ...]]:
        reader, part = TableReader(self.options), partition.value
        leaf, names = reader.shard_queue(part), self.options.column_names
        times = {name for name in names if name.endswith("_at")}
        assert isinstance(part, TablePart) and part.span is not None
        cursor, end = part.span.after, part.span.until
        last = None if end is None else _parse_cursor(end)
        while True:
            page = reader.run(partial(leaf.page.op, "dead", cursor, PAGE))
            for entry in page.entries:
                if last is not None and (entry.at_ms, entry.id) > last:
                    return
                values = {name: ENTRY_COLUMNS[name](entry) for name in names if name != "id"}
                values["id"] = entry.id
                yield tuple(_timestamp(values[n]) if n in times else values[n] for n in names)
            cursor = page.cursor
            if cursor is None:
                return


def _parse_cursor(text: str) -> tuple[int, str]:
    score, _, id = text.partition(":")
    return int(score), id


def _timestamp(ms: int | None) -> Any:
    from datetime import UTC, datetime

    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


class TupleSource(RedisqDataSource):
    @classmethod
    def name(cls) -> str:
        return "redisq-tuples"

    def reader(self, schema: StructType) -> ds.DataSourceReader:
        return TupleReader(self._options())


def read_by_spark(spark: SparkSession, url: str, format: str = "redisq", **more: str) -> None:
    frame = spark.read.format(format).options(**options(url, **more)).load()
    frame.write.format("noop").mode("overwrite").save()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def start_session(cores: int) -> SparkSession:
    """A session; callers warm it up."""
    spark = session("benchmark", master=f"local[{cores}]", conf=CONF)
    spark.dataSource.register(TupleSource)
    return spark


# --- what is measured --------------------------------------------------------------------------


def serve_reads(cores: int, url: str, pipe: Connection) -> None:
    """A process with a session: receives a format and options, returns the seconds of a read."""
    spark = start_session(cores)
    for format in ("redisq", "redisq-tuples"):
        for _ in range(2):
            read_by_spark(
                spark,
                url,
                format,
                until=str(START_MS + MANY * 10),
                rowsPerPartition=str(MANY // 200),
            )
    pipe.send(0.0)
    while (request := pipe.recv()) is not None:
        format, more = request
        pipe.send(seconds(partial(read_by_spark, spark, url, format, **more)))
    spark.stop()


@contextmanager
def read_server(cores: int, url: str) -> Iterator[Callable[..., float]]:
    """A function that reads with a session of so many cores and returns the seconds."""
    context = get_context("spawn")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=serve_reads, args=(cores, url, child_end))
    process.start()
    parent_end.recv()

    def read(format: str = "redisq", **more: str) -> float:
        parent_end.send((format, more))
        return float(parent_end.recv())

    try:
        yield read
    finally:
        parent_end.send(None)
        process.join()


def throughput(url: str) -> None:
    direct: list[float] = []
    halves: list[float] = []
    arrow: list[float] = []
    tuples: list[float] = []
    two_cores: list[float] = []
    two = ProcessPoolExecutor(2, get_context("spawn"))
    with two, read_server(1, url) as single_core, read_server(2, url) as dual_core:
        half = partial(read_half, url)
        for nth in range(WARM_UP + ROUNDS):
            if nth == WARM_UP:
                for times in (direct, halves, arrow, tuples, two_cores):
                    times.clear()
            direct.append(seconds(lambda: read_directly(url)))
            halves.append(seconds(lambda: list(two.map(half, range(2)))))
            arrow.append(single_core())
            two_cores.append(dual_core())
            tuples.append(single_core("redisq-tuples"))
    for what, times in (
        ("one process", direct),
        ("two processes", halves),
        ("Arrow, local[1]", arrow),
        ("Arrow, local[2]", two_cores),
        ("row tuples, local[1]", tuples),
    ):
        print(f"  {what}: {spread([MANY / t / 1000 for t in times], 'thousand rows/s')}")
    _ratio("Arrow local[1] / one process", direct, arrow, 0.9)
    _ratio("Arrow local[1] / tuples local[1]", tuples, arrow, 4)
    _ratio("local[2] / local[1]", arrow, two_cores, 1.6)
    _ratio("two processes / one process", direct, halves, None)
    _ratio("Arrow local[2] / two processes", halves, two_cores, None)


def _ratio(what: str, slower: list[float], faster: list[float], target: float | None) -> None:
    ratios = [a / b for a, b in zip(slower, faster, strict=True)]
    print(f"  {what}: {spread(ratios, '×')}" + ("" if target is None else f", aim ≥ {target:g}"))


def pages(client: redis.Redis) -> int:
    stats: Any = client.info("commandstats")
    return int(stats["cmdstat_hmget"]["calls"])


def measure_time_range(client: redis.Redis, url: str) -> None:
    """Read one per cent of the time, in calls for a hundred entries each."""
    shares: list[float] = []
    all_pages = 0
    for nth in range(ROUNDS):
        low = START_MS + MANY * 1000 * (nth + 1) // (ROUNDS + 2)
        if not all_pages:
            all_pages = _pages_read(client, url)
        pages_in_range = _pages_read(client, url, since=str(low), until=str(low + MANY * 10))
        shares.append(100 * pages_in_range / all_pages)
    print(f"  1 % of the time reads {spread(shares, '% of the entries')}, aim ≤ 2")


def _pages_read(client: redis.Redis, url: str, **more: str) -> int:
    client.config_resetstat()
    reader = TableReader(parse_options(options(url, **more)))
    reader.call_size = CallSize(10**9, 100, max_rows=100)
    for part in reader.plan():
        for _ in reader.read(part):
            pass
    return pages(client)


def measure_server_time(client: redis.Redis, url: str) -> None:
    """Server time of reading, by the server's own statistics."""
    any_client: Any = client  # partly untyped in redis-py
    long, share = [], []
    for _ in range(ROUNDS):
        client.config_resetstat()
        elapsed_s = seconds(lambda: read_directly(url))
        stats: Any = client.info("commandstats")
        share.append(sum(row["usec"] for row in stats.values()) / elapsed_s / 10_000)
        histograms = any_client.execute_command("LATENCY", "HISTOGRAM", "hmget", "zrange")
        long.append(100 * _share_above_1_ms(histograms))
    print(f"  server time of one reader at full speed: {spread(share, '% of a core')}")
    print(f"  calls above 1 ms, preempted ones among them: {spread(long, '%')}, aim 0 planned")


def _share_above_1_ms(histograms: Any) -> float:
    """The share of calls that took more than 1,024 µs."""
    calls = within = 0
    rows = histograms.values() if isinstance(histograms, dict) else histograms[1::2]
    for row in rows:
        fields = row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True))
        steps = fields[b"histogram_usec"]
        steps = (
            steps if isinstance(steps, dict) else dict(zip(steps[::2], steps[1::2], strict=True))
        )
        calls += fields[b"calls"]
        within += max((n for us, n in steps.items() if us <= 1100), default=0)
    return 1 - within / calls


def measure_scaling(client: redis.Redis, url: str) -> None:
    """Ten times the rows: expect ten times the time, and the same memory."""
    wall, peak = [], []
    spark = start_session(2)
    for rows in (MILLION, 10 * MILLION):
        fill(client, MANY + 1 if rows == MILLION else MILLION + 1, rows)
        read_by_spark(spark, url, until=str(START_MS + 10**7), rowsPerPartition="5000")
        wall.append(seconds(lambda: read_by_spark(spark, url)))
        peak.append(worker_mib())
        print(f"  {rows:,} rows: {wall[-1]:.1f} s, a worker's peak {peak[-1]:.0f} MiB", flush=True)
    spark.stop()
    print(
        f"  10 M / 1 M: wall {wall[1] / wall[0]:.1f} × (aim ≤ 11), memory {peak[1] / peak[0]:.2f} ×"
    )


def worker_mib() -> float:
    """Peak memory of any of Spark's Python workers, in MiB."""
    peaks = [0.0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if b"pyspark.daemon" in status.with_name("cmdline").read_bytes():
                text = status.read_text()
                peaks.append(int(text.split("VmHWM:")[1].split()[0]) / 1024)
        except (OSError, IndexError):
            continue
    return max(peaks)


def main() -> None:
    with EmbeddedServer(next(iter(binaries().values()))) as server:
        client = redis.Redis.from_url(server.url, protocol=3)
        fill(client, 1, MANY)
        print(f"  {MANY:,} dead letters, load {os.getloadavg()[0]:.1f}", flush=True)
        measure_server_time(client, server.url)
        measure_time_range(client, server.url)
        sys.stdout.flush()
        throughput(server.url)
        if os.environ.get("REDISQ_SPARK_LARGE"):
            measure_scaling(client, server.url)
        client.close()
