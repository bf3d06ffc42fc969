"""The Spark session of a command: start, tables, progress, interrupts.

Functions import Spark, so that a command that reads no rows starts without it.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, TypeVar

from redisq_ops.core.model.clock import wall_ms
from redisq_ops.core.model.errors import BadInput, Interrupted, Unreachable
from redisq_ops.ops.filter.time import duration_ms, moment_ms, per_second

from .output import progress, say
from .server_watch import server_watched
from .session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.pipeline.lake.lake_table import Lake
    from redisq_ops.pipeline.source.connection import Server

    from .commands.spark import Between, FromLake, Running

T = TypeVar("T")
SPARK_PAYS = 300_000
"""rows up to which `redisq sql` and `redisq dlq groups` were quicker than Spark, on two cores"""
AGE = re.compile(r"(\s*\d+\s*(ms|s|m|h|d))+\s*")


def printed(running: Running) -> bool:
    """Print the spark-submit command and return True, if ``--print-submit`` asks for it."""
    if not running.print_submit:
        return False
    from redisq_ops.pipeline.session.spark_session import spark_submit_line

    if running.remote:
        raise BadInput("--print-submit goes with --master: nothing is submitted to Spark Connect")
    words = _submitted_words(sys.argv[1:])
    print(spark_submit_line(words, running.master, running.conf or ()))
    return True


def remote_server(running: Running) -> str | None:
    """The address of the Spark Connect server to use, if any: --remote, else SPARK_REMOTE unless
    --master asks for another Spark."""
    if running.remote is not None and running.master is not None:
        raise BadInput("use either --master or --remote, not both")
    if running.remote is None and running.master is None:
        return os.environ.get("SPARK_REMOTE", "").strip() or None
    return running.remote


_NOT_SUBMITTED = {"--master": 1, "--conf": 1, "--print-submit": 0, "--url": 1}
"""options left out of the submitted command -> number of their values: spark-submit gets them
itself, and a URL may contain a password"""


def _submitted_words(argv: list[str]) -> list[str]:
    """The words of the command that spark-submit runs."""
    words, kept = iter(argv), list[str]()
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in _NOT_SUBMITTED:
            kept.append(word)
        elif _NOT_SUBMITTED[name] and not equals:
            next(words, None)
    return kept


def started(s: Session, running: Running, *, waits: bool = True) -> SparkSession:
    """Start a Spark session whose readers use this invocation's server.

    ``waits``: until a standalone cluster has an executor.
    """
    from redisq_ops.pipeline.session.spark_session import session

    made = session(
        "redisq",
        master=running.master,
        remote=remote_server(running),
        conf=running.conf or (),
        target=s.config.server_address(),
        registers=False,
    )
    if waits and (running.master or "").startswith("spark://"):
        from redisq_ops.pipeline.session.doctor import wait_for_executor

        try:
            wait_for_executor(made)
        except BaseException:
            made.stop()
            raise
    return made


def _no_interrupt(record: logging.LogRecord) -> bool:
    """Drop py4j's log of calls that Ctrl+C interrupted; real errors are raised as well."""
    return not record.getMessage().endswith("while sending command.")


def announced(s: Session, running: Running) -> None:
    """Check the settings, then report that Spark starts, which takes some seconds."""
    from redisq_ops.pipeline.session.spark_session import check_installed, parse_conf

    parse_conf(running.conf or ())
    check_installed()
    if sys.stderr.isatty() or not s.json:
        is_there = remote_server(running) is not None
        doing = "asking Spark Connect…" if is_there else "starting Spark…"
        print(doing, file=sys.stderr, flush=True)


@contextmanager
def on_spark(
    s: Session,
    running: Running,
    *,
    stopped: str = "",
    waits: bool = True,
    announces: bool = True,
) -> Iterator[SparkSession]:
    """A session for a command; its errors become one line, and it is stopped at the end.

    ``stopped``: the message after Ctrl+C or when the server is lost, if any. ``announces``: report
    first that Spark starts.
    """
    if announces:
        announced(s, running)
    logging.getLogger().addFilter(_no_interrupt)
    made = started(s, running, waits=waits)
    with suppress(ValueError):  # not the main thread
        # PySpark's handler would call the JVM, perhaps during another call.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with nullcontext() if s.json else server_watched(_own_clock(s), say):
            yield made
    except KeyboardInterrupt as stop:
        if not stopped:
            raise
        raise Interrupted(f"interrupted: {stopped}") from stop
    except Exception as error:
        from redisq_ops.pipeline.source.job_errors import translate_job_error

        known = translate_job_error(error)
        if stopped and type(known) is Unreachable:
            known = Unreachable(f"{str(known).rstrip('.')} ({stopped})")
        if known is error:
            raise
        raise known from error
    finally:
        with suppress(Exception):  # Spark may be gone; the command's own error is reported
            made.stop()


def _own_clock(s: Session) -> Callable[[], int]:
    """A function for another thread: asks the server for its time, on its own connection."""
    from redisq_ops.core.engine.registry import server_ms
    from redisq_ops.core.redis.client import connect
    from redisq_ops.core.redis.operation import run

    client = connect(s.config.server_address(), "spark")
    return lambda: run(client, server_ms())


def awaited(spark: SparkSession, what: str, job: Callable[[], T]) -> T:
    """The result of a job, with a progress line of its tasks."""
    from redisq_ops.pipeline.session.spark_jobs import run_job, task_progress

    with progress(what) as meter:
        return run_job(spark, job, lambda: meter(*task_progress(spark)))


def url_for_workers(s: Session, spark: SparkSession) -> str | None:
    """The server's URL without password, for workers whose environment we can't set.

    None: they have it in their environment, or no URL is set.
    """
    from redisq_ops.pipeline.session.spark_session import environment, is_connect_session

    if not is_connect_session(spark) or s.config["url"] is None:
        return None
    return environment(s.config.server_address())["REDIS_URL"]


def frame(s: Session, spark: SparkSession, table: str, **options: str) -> DataFrame:
    """A table of this invocation's server; ``options``: see docs/reference/spark.md."""
    return source_frame(spark, frame_options(s, spark, table, **options))


def source_frame(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The frame that the data source reads with these options; registers the data source."""
    from redisq_ops.pipeline.session.data_source import FORMAT, register

    register(spark)
    return spark.read.format(FORMAT).options(**options).load()


def frame_options(s: Session, spark: SparkSession, table: str, **options: str) -> dict[str, str]:
    """The checked options of `frame`."""
    from redisq_ops.pipeline.source.options import parse_options

    checked = table_options(s, table, **options)
    if (url := url_for_workers(s, spark)) is not None:
        checked["url"] = url
    parse_options(checked)  # Spark would report an error in fifty lines
    return checked


def table_options(s: Session, table: str, **options: str) -> dict[str, str]:
    """Options of the data source for a table of this invocation's prefix."""
    return {"table": table, "prefix": s.config.prefix, **options}


def lake_of(s: Session, given: FromLake) -> Lake | None:
    """The lake of ``--lake``, at the time of ``--as-of``; None: the server is read."""
    from redisq_ops.pipeline.lake.lake_table import Lake

    if given.lake is None:
        if given.as_of is not None:
            raise BadInput("--as-of needs --lake: the server has no earlier state")
        return None
    now = wall_ms()
    as_of = None if given.as_of is None else moment(given.as_of, now, utc=s.utc)
    return Lake(given.lake, as_of)


def check_lake(lake: Lake, *, writes: bool = False) -> None:
    """As `redisq_ops.pipeline.lake.lake_export.check_lake`, before Spark starts."""
    from redisq_ops.pipeline.session.spark_session import check_installed

    check_installed()
    from redisq_ops.pipeline.lake import lake_export

    lake_export.check_lake(lake, writes=writes)


def lake_rows(
    spark: SparkSession,
    lake: Lake,
    name: str,
    queues: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
) -> DataFrame:
    """A table of a lake, of some queues or all, between two times in ms."""
    from redisq_ops.pipeline.lake.lake_export import read_table
    from redisq_ops.pipeline.source.tables import TABLES

    rows = read_table(spark, lake, name)
    if queues:
        rows = rows.where(rows["queue"].isin(*queues))
    column = TABLES[name].time
    if column is None and (since or until):
        raise BadInput(f"{name} has no time for --since and --until")
    return rows if column is None else between(rows, column, since, until)


def between(rows: DataFrame, column: str, since: int | None, until: int | None) -> DataFrame:
    """The rows whose time is between two times in ms."""
    from pyspark.sql import functions as F

    at = F.unix_millis(column)
    if since is not None:
        rows = rows.where(at >= since)
    return rows if until is None else rows.where(at <= until)


def now_ms(s: Session, lake: Lake | None) -> int:
    """The present time, for ages: the server's, or this machine's if a lake is read."""
    from redisq_ops.core.engine.registry import server_ms

    return s.run(server_ms()) if lake is None else wall_ms()


def bounds(s: Session, between: Between, lake: Lake | None) -> dict[str, str]:
    """``--since`` and ``--until`` as options of the reader, in ms since 1970."""
    if between.since is None and between.until is None:
        return {}
    since, until = time_range(s, between.since, between.until, now_ms(s, lake))
    found = {"since": since, "until": until}
    return {name: str(ms) for name, ms in found.items() if ms is not None}


def time_range(
    s: Session, since: str | None, until: str | None, now: int
) -> tuple[int | None, int | None]:
    """``--since`` and ``--until`` as ms since 1970.

    A time of day means its latest occurrence before ``--until`` or now: at 13:00, from 12:00 to
    16:00 means yesterday.
    """
    end = None if until is None else moment(until, now, utc=s.utc)
    if since is None:
        return None, end
    begin = moment(since, now if end is None or AGE.fullmatch(since) else end, utc=s.utc)
    if end is not None and begin >= end:
        raise BadInput("--since is not before --until")
    return begin, end


def moment(text: str, now: int, *, utc: bool) -> int:
    """An age or a time, as ms since 1970."""
    if AGE.fullmatch(text):
        return now - duration_ms(text)
    return moment_ms(text, now, utc=utc)


def check_queues(s: Session, names: Iterable[str]) -> None:
    """Refuse queues that do not exist, before Spark starts."""
    for name in names:
        s.run(s.deployment.queue(name))


def server_of(s: Session) -> Server:
    """This invocation's server and prefix, for tasks that write."""
    from redisq_ops.pipeline.source.connection import Server

    return Server(s.config.server_address(), s.config.prefix)


def rate_of(s: Session, typed: str | None) -> float | None:
    """The rate of ``--rate``, else the highest that the configuration allows."""
    return s.config.guard.rate(None if typed is None else per_second(typed))
