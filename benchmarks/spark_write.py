"""Writing with Spark on two cores of this machine, compared with one process and the same script.

The dataset is GENERATED: requests of 100 sub-requests of 100 bytes. One process: redis-py alone,
the script's arguments prepared in advance, 16 calls per pipeline. Needs Java.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from redisq_ops.core.model.clock import ServerClock
from redisq_ops.core.model.settings import LIMIT, PRIORITY
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.digest import Digest
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import run, together
from redisq_ops.pipeline.jobs import submit
from redisq_ops.pipeline.jobs.submit import OUTCOMES, submit_rows
from redisq_ops.pipeline.session.spark_jobs import run_job
from redisq_ops.pipeline.session.spark_session import session
from redisq_ops.pipeline.sink import input_split
from redisq_ops.pipeline.sink.input_split import DatasetOptions
from redisq_ops.pipeline.sink.request_writer import REQUESTS_PER_ROUND, RequestRows, RequestWriter
from redisq_ops.pipeline.source.connection import Server

from .measure import ROUNDS, empty, server_us, servers, spread, url_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REQUESTS, EACH = 2000, 100
ENTRIES = REQUESTS * EACH
SUBMIT = "RequestQueue.submit, one process"
CONF = (
    "spark.driver.memory=2g",
    "spark.sql.shuffle.partitions=2",
    "spark.sql.adaptive.enabled=false",
)


def payload(n: int) -> bytes:
    return (b"row %08d " % n).ljust(100, b"x")


def rows() -> Sequence[RequestRows]:
    return [(f"r{n // EACH:05}", PRIORITY, [payload(n)]) for n in range(ENTRIES)]


def timed(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def script_only(client: redis.Redis, prepared: bool = True) -> Callable[[], None]:
    """redis-py and the queue's own script, nothing else; with prepared arguments or not."""
    queue = RequestQueue(client, "mail")
    queue.submit([b"first"], id="first")
    loaded = queue._script("submit")
    names = [queue.keys[part] for part in loaded.header.keys]
    rows = [[payload(n) for n in range(k * EACH, k * EACH + EACH)] for k in range(REQUESTS)]

    def call(k: int) -> tuple[Any, ...]:
        payloads = rows[k]
        digest = Digest(PRIORITY, LIMIT)
        before = str(digest)
        digest.extend(payloads)
        argv = (f"r{k:05}", PRIORITY, LIMIT, 1, before, str(digest), 1, "", "", "", "")
        stamp = ServerClock().stamp()
        return ("EVALSHA", loaded.sha, len(names), *names, stamp, *argv, *payloads)

    prepared_calls = list(map(call, range(REQUESTS))) if prepared else None

    def run() -> None:
        for start in range(0, REQUESTS, REQUESTS_PER_ROUND):
            pipe: Any = client.pipeline(transaction=False)
            for k in range(start, start + REQUESTS_PER_ROUND):
                pipe.execute_command(
                    *(prepared_calls[k] if prepared_calls is not None else call(k))
                )
            pipe.execute()

    return run


def submit_only(client: redis.Redis) -> Callable[[], None]:
    """`RequestQueue.submit` in one process, some requests per round trip."""
    queue = RequestQueue(client, "mail")
    rows = [[payload(n) for n in range(k * EACH, k * EACH + EACH)] for k in range(REQUESTS)]

    def job() -> None:
        for start in range(0, REQUESTS, REQUESTS_PER_ROUND):
            some = range(start, start + REQUESTS_PER_ROUND)
            run(client, together(queue.submit.op(rows[k], id=f"r{k:05}") for k in some))

    return job


def check_waiting(client: redis.Redis) -> None:
    waiting = RequestQueue(client, "mail").counts().waiting
    assert waiting in (ENTRIES, ENTRIES + 1), waiting


def measure_submit(spark: SparkSession, client: redis.Redis, folder: Path) -> None:
    server = Server(ServerAddress(url_of(client)))
    options = DatasetOptions("mail", id="request", payload="payload", parts=2)
    source = folder / "rows.parquet"
    if not source.exists():
        generated(spark).write.parquet(source.as_uri())
    frame = input_split.read(spark, str(source))
    partitioned = input_split.partition_by_request(frame, options).persist()
    partitioned.count()
    tasks = partial(submit_rows, RequestWriter(server, options, "job"))
    payloads = rows()
    jobs: dict[str, Callable[[], object]] = {
        "redis-py, the same script": lambda: None,
        "redis-py, that makes its digests": lambda: None,
        SUBMIT: lambda: None,
        "the writer, one process, no Spark": lambda: RequestWriter(server, options, "job").write(
            payloads
        ),
        "Spark, the writing alone": lambda: run_job(
            spark, partitioned.mapInArrow(tasks, OUTCOMES).collect
        ),
        "Spark, all of submit": lambda: submit.submit(spark, server, frame, options, "job"),
    }
    found: dict[str, list[float]] = {name: [] for name in jobs}
    again: list[float] = []
    first = next(iter(jobs))
    for round in range(ROUNDS + 1):
        if round == 1:  # the first round warms the JVM up
            for rates in (*found.values(), again):
                rates.clear()
        for name, job in jobs.items():
            empty(client)
            work = job
            if name == SUBMIT:
                work = submit_only(client)
            elif name.startswith("redis-py"):
                work = script_only(client, name == first)
            found[name].append(ENTRIES / timed(work) / 1000)
            check_waiting(client)
        again.append(timed(jobs["Spark, all of submit"]))
        check_waiting(client)
    for name, rates in found.items():
        shares = [
            spread([rate / one for rate, one in zip(rates, found[base], strict=True)], of)
            for base, of in ((first, "of redis-py"), (SUBMIT, "of RequestQueue.submit"))
        ]
        print(f"{name:<34} {spread(rates, 'k entries/s')}; × {'; × '.join(shares)}")
    print(f"{'again, all there: 0 added':<34} {spread(again, 's')}")
    empty(client)
    us, _ = server_us(client, script_only(client))
    print(f"{'server time':<34} {us / ENTRIES:.2f} µs an entry")
    partitioned.unpersist()


def generated(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F

    n = F.col("id")
    row = F.rpad(F.concat(F.lit("row "), F.lpad(n.cast("string"), 8, "0"), F.lit(" ")), 100, "x")
    return spark.range(0, ENTRIES, 1, 2).select(
        F.concat(F.lit("r"), F.lpad((n / EACH).cast("long").cast("string"), 5, "0")).alias(
            "request"
        ),
        row.cast("binary").alias("payload"),
    )


def main() -> None:
    spark = session("benchmark", master="local[2]", conf=CONF)
    with tempfile.TemporaryDirectory() as folder, servers() as each:
        for name, client in each:
            print(f"-- {name}, {ENTRIES:,} entries")
            measure_submit(spark, client, Path(folder))
    spark.stop()
