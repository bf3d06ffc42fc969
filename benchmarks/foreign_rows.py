"""Client CPU time a row of tables of other programs' failed jobs, as their own workers leave them.

Sidekiq, BullMQ, RQ and Celery themselves submit two jobs, which fail in their own workers. All keys
and elements of the first are written again under other ids, so many times as ``JOBS`` says; under
the second's id they must equal what the program wrote, except for numbers: times and process ids.
Then each table is read as a command reads it: the columns that it needs, in this process.

``KINDS`` names the kinds to measure, ``ROUNDS`` says how often each table is read.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis

from redisq_ops.demo.server import EmbeddedServer, binaries
from redisq_ops.pipeline.report.report import report_columns
from redisq_ops.pipeline.source.options import parse_options
from redisq_ops.pipeline.source.table_reader import TableReader
from redisq_ops.pipeline.sql.query_tables import table_uses
from tests.foreign_keys import Sidekiq, bullmq_program, celery_program, rq_program, rq_tasks
from tests.foreign_keys.rq_workers import SimpleWorker

from .measure import empty, spread, url_of

JOBS = int(os.environ.get("JOBS", "1000000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
AIM_US = 40
WORD = "x" * 160
"""the jobs' argument: makes a job about 300 bytes long, beside its failure"""
ONE, TWO = b"job-of-benchmark-one", b"job-of-benchmark-two"
Command = list[bytes]


def sidekiq(client: redis.Redis) -> None:
    push = f'Sidekiq::Client.push("class" => "Hopeless", "args" => ["{WORD}"], "retry" => 0, '
    with tempfile.TemporaryDirectory() as folder:
        program = Sidekiq(url_of(client), Path(folder))
        for id in (ONE, TWO):
            program.ruby(f'{push} "jid" => "{id.decode()}")')
        with program.working():
            program.until("two dead jobs", lambda: client.zcard("dead") == 2)


def bullmq(client: redis.Redis) -> None:
    program = bullmq_program.Program(client)
    client.set("broken", 1)
    jobs = [["add", "fails", {"what": WORD}, {"jobId": id.decode()}] for id in (ONE, TWO)]
    program.call(*jobs)
    program.work(2)


def rq(client: redis.Redis) -> None:
    queue = rq_program.queue(client)
    for id in (ONE, TWO):
        queue.enqueue(rq_tasks.fails, WORD, job_id=id.decode())
    SimpleWorker([queue], connection=client).work(burst=True, logging_level="CRITICAL")


def celery(client: redis.Redis) -> None:
    app = celery_program.app_on(client)
    for id in (ONE, TWO):
        app.send_task("shop.fails", (WORD,), task_id=id.decode())
    with celery_program.worker(client):
        celery_program.wait(lambda: len([*client.scan_iter("celery-task-meta-*")]) == 2)


PROGRAMS: dict[str, tuple[Callable[[redis.Redis], None], str]] = {
    "sidekiq": (sidekiq, "sidekiq:default"),
    "bullmq": (bullmq, "bullmq:mail"),
    "rq": (rq, "rq:low"),
    "celery": (celery, "celery:celery"),
}
USES = {
    "export": None,  # all columns
    "groups, report": ",".join(report_columns("dead", payloads=False)),
    "replay by SQL": ",".join(
        table_uses("select queue, shard, id from dead where error_type = 'x' and failures > 3")[
            "dead"
        ].columns
    ),
}


def written(client: Any, id: bytes) -> list[Command]:
    """Commands that write again whatever has this id."""
    found: list[Command] = []
    for key in client.scan_iter():
        kind, whole = client.type(key), id in key
        if kind == b"string" and whole:
            found.append([b"SET", key, client.get(key)])
        elif kind == b"stream" and whole:
            for at, fields in client.xrange(key):
                found.append(
                    [b"XADD", key, at, *(word for pair in fields.items() for word in pair)]
                )
        elif kind == b"hash":
            pairs = client.hgetall(key).items()
            kept = [word for pair in pairs if whole or id in b" ".join(pair) for word in pair]
            found += [[b"HSET", key, *kept]] if kept else []
        elif kind == b"zset":
            rows = client.zrange(key, 0, -1, withscores=True)
            found += [[b"ZADD", key, b"%f" % at, one] for one, at in rows if whole or id in one]
        elif kind in (b"list", b"set"):
            read, word = {
                b"list": (lambda k: client.lrange(k, 0, -1), b"RPUSH"),
                b"set": (client.smembers, b"SADD"),
            }[kind]
            found += [[word, key, one] for one in read(key) if whole or id in one]
    return sorted(found)


def named(commands: list[Command], id: bytes) -> list[Command]:
    """The commands of the job `ONE` for another id."""
    return [[word.replace(ONE, id) for word in command] for command in commands]


def plain(commands: list[Command]) -> list[Command]:
    """The commands without numbers, and without names of processes and deliveries."""
    return [[re.sub(rb"[0-9a-f-]{12,}|[0-9]+", b"0", w) for w in command] for command in commands]


def multiply(client: redis.Redis) -> None:
    """Write the first job again until there are `JOBS`."""
    commands, second = written(client, ONE), written(client, TWO)
    if plain(named(commands, TWO)) != plain(second):
        raise AssertionError(f"a copy differs from a job: {named(commands, TWO)} {second}")
    for first in range(2, JOBS, 500):
        pipe: Any = client.pipeline(transaction=False)
        for n in range(first, min(first + 500, JOBS)):
            for command in named(commands, b"job-%016d" % n):
                pipe.execute_command(*command)
        pipe.execute()


def batches(url: str, queue: str, columns: str | None) -> Iterator[int]:
    more = {"payloads": "true"} if columns is None else {"columns": columns}
    reader = TableReader(parse_options({"table": "dead", "queue": queue, "url": url, **more}))
    for part in reader.plan():
        for batch in reader.read(part):
            yield batch.num_rows


def main() -> None:
    with EmbeddedServer(next(iter(binaries().values()))) as server:
        client = redis.Redis.from_url(server.url, socket_timeout=None)  # FLUSHALL takes long
        for kind in os.environ.get("KINDS", " ".join(PROGRAMS)).replace(",", " ").split():
            fail, queue = PROGRAMS[kind]
            empty(client)
            fail(client)
            multiply(client)
            for use, columns in USES.items():
                each_us = []
                next(batches(server.url, queue, columns))  # imports, and warms up
                for _ in range(ROUNDS):
                    began = time.process_time()
                    rows = sum(batches(server.url, queue, columns))
                    each_us.append((time.process_time() - began) / JOBS * 1e6)
                    assert rows == JOBS, f"{rows} of {JOBS} rows"
                load = os.getloadavg()[0]
                print(
                    f"  {kind}, {JOBS:,} jobs, {use}: {spread(each_us, 'µs')} a row, aim {AIM_US},"
                    f" load {load:.1f}",
                    flush=True,
                )
