"""`redisq spark`: the pipeline. Spark is imported, and a JVM started, only where rows are read."""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.errors import BadInput, RedisqError
from redisq_ops.ops.filter.time import duration_ms, moment_ms
from redisq_ops.ops.redaction import Redaction
from redisq_ops.pipeline.doctor import DoctorCheck

from .output import count, emit, printable, progress, say, table
from .session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.pipeline.doctor import DoctorCheck


T = TypeVar("T")
SHOWN = 100
"""rows a person is shown; programs get all"""


def printed(given: Mapping[str, Any]) -> bool:
    """Whether only the spark-submit line was wanted; then it was printed."""
    if not given["print_submit"]:
        return False
    from redisq_ops.pipeline.session import spark_submit_line

    if given["remote"]:
        raise BadInput("--print-submit goes with --master: nothing is submitted to Spark Connect")
    print(spark_submit_line(_typed(sys.argv[1:]), given["master"], given["conf"] or ()))
    return True


_TAKEN = {"--master": 1, "--conf": 1, "--print-submit": 0, "--url": 1}


def _typed(argv: list[str]) -> list[str]:
    """What was typed, without what spark-submit is told itself. A URL may have a password in it:
    it is for the environment of who runs the line."""
    words, kept = iter(argv), []
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in _TAKEN:
            kept.append(word)
        elif _TAKEN[name] and not equals:
            next(words, None)
    return kept


def started(s: Session, given: Mapping[str, Any], *, waits: bool = True) -> SparkSession:
    """The session this command runs on, its readers pointed at the server of this invocation.

    ``waits``: until a standalone cluster has somebody to work on it."""
    from redisq_ops.pipeline.session import session

    made = session(
        "redisq", master=given["master"], remote=given["remote"], conf=given["conf"] or (),
        target=s.config.server_address(),
    )  # fmt: skip
    if waits and (given["master"] or "").startswith("spark://"):
        from redisq_ops.pipeline.doctor import wait_for_executor

        try:
            wait_for_executor(made)
        except BaseException:
            made.stop()
            raise
    return made


def _no_interrupt(record: logging.LogRecord) -> bool:
    """py4j logs what Ctrl+C breaks off in the middle of a call, with traces; what of that is an
    error is raised as well."""
    return not record.getMessage().endswith("while sending command.")


def announced(s: Session, given: Mapping[str, Any]) -> None:
    """Check the settings, then tell a person that Spark starts, which takes some seconds."""
    from redisq_ops.pipeline.session import check_installed, parse_conf

    parse_conf(given["conf"] or ())
    check_installed()
    if not s.json:
        print("starting Spark…", file=sys.stderr, flush=True)


@contextmanager
def on_spark(
    s: Session,
    given: Mapping[str, Any],
    *,
    stopped: str = "",
    waits: bool = True,
    announces: bool = True,
) -> Iterator[SparkSession]:
    """That session while a command runs; what fails on it is one line.

    ``stopped``: what Ctrl+C says, where there is something to say. ``announces``: says first that
    Spark starts."""
    if announces:
        announced(s, given)
    logging.getLogger().addFilter(_no_interrupt)
    made = started(s, given, waits=waits)
    with suppress(ValueError):  # not the main thread
        # PySpark's own asks the JVM to stop all jobs, in the middle of another question perhaps.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield made
    except KeyboardInterrupt as stop:
        if not stopped:
            raise
        raise interrupted(stopped) from stop
    except Exception as error:
        from redisq_ops.pipeline.job_errors import translate_job_error

        known = translate_job_error(error)
        if known is error:
            raise
        raise known from error
    finally:
        made.stop()


def interrupted(so: str) -> Exception:
    """What Ctrl+C ends a command with."""
    said = RedisqError(f"interrupted: {so}")
    said.exit_code = 130
    return said


def awaited(spark: SparkSession, what: str, job: Callable[[], T]) -> T:
    """What a job comes to; meanwhile a person sees how many of its tasks have ended."""
    from redisq_ops.pipeline.spark_jobs import run_job, task_progress

    with progress(what) as meter:
        return run_job(spark, job, lambda: meter(*task_progress(spark)))


def handed_on(s: Session, spark: SparkSession) -> str | None:
    """This invocation's server for workers whose environment isn't ours to set, without its
    password; None: they have it, or none was named."""
    from redisq_ops.pipeline.session import environment, is_connect_session

    if not is_connect_session(spark) or s.config["url"] is None:
        return None
    return environment(s.config.server_address())["REDIS_URL"]


def frame(s: Session, spark: SparkSession, table: str, **options: str) -> DataFrame:
    """A table of this invocation's server; ``options`` as docs/spark.md has them."""
    from redisq_ops.pipeline.options import parse_options

    given = {"table": table, "prefix": s.config["prefix"] or "rq", **options}
    if (url := handed_on(s, spark)) is not None:
        given["url"] = url
    parse_options(given)  # an error here has one line, from Spark fifty
    return spark.read.format("redisq").options(**given).load()


def bounds(s: Session, given: Mapping[str, Any]) -> dict[str, str]:
    """``--since`` and ``--until`` as the reader's options, ages by the server's clock."""
    asked = {name: given[name] for name in ("since", "until") if given[name] is not None}
    if not asked:
        return {}
    now = s.run(server_ms())
    found = {name: moment(text, now, utc=s.utc) for name, text in asked.items()}
    if len(found) == 2 and found["since"] >= found["until"]:
        raise BadInput("--since is not before --until")
    return {name: str(ms) for name, ms in found.items()}


def moment(text: str, now: int, *, utc: bool) -> int:
    """An age, or a moment, in ms."""
    if re.fullmatch(r"(\s*\d+\s*(ms|s|m|h|d))+\s*", text):
        return now - duration_ms(text)
    return moment_ms(text, now, utc=utc)


def there(s: Session, names: Iterable[str]) -> None:
    """Refuse a queue that isn't there now, not after Spark has started."""
    for name in names:
        s.run(s.deployment.queue(name))


def doctored(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.pipeline.doctor import check_driver, check_executors

    if printed(given):
        return 0
    found: list[DoctorCheck] = []

    def tell(findings: list[DoctorCheck]) -> None:
        for finding in findings:
            if s.json:
                emit(finding)
            else:
                _say_finding(finding)
        found.extend(findings)

    tell(check_driver(s.config.server_address(), remote=given["remote"] is not None))
    if all(finding.ok for finding in found):
        with on_spark(s, given, waits=False) as spark:
            tell(check_executors(spark, given["tasks"], handed_on(s, spark)))
    return 0 if all(finding.ok for finding in found) else 1


def _say_finding(finding: DoctorCheck) -> None:
    mark = "ok   " if finding.ok else "WRONG"
    print(f"{mark}  {finding.name:<10}  {printable(finding.says)}")


def described(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.pipeline.options import table as named
    from redisq_ops.pipeline.tables import TABLES

    name = given["table"]
    if name is None:
        rows = [(t.name, t.says, t.time) for t in TABLES.values()]
        if s.json:
            for row in rows:
                emit(dict(zip(("table", "says", "time"), row, strict=True)))
        else:
            table(["table", "what", "time"], rows)
        return 0
    columns = named(name).columns
    if s.json:
        for column in columns:
            emit(column)
    else:
        table(["column", "type", "what"], [(c.name, c.type, c.says) for c in columns])
    return 0


def queried(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.pipeline.options import parse_options
    from redisq_ops.pipeline.redaction import redact_table
    from redisq_ops.pipeline.tables import TABLES

    if printed(given):
        return 0
    # Asking Spark for a table takes it a while: only for those that may be meant.
    meant = [n for n in TABLES if re.search(rf"\b{n}\b", given["query"], re.IGNORECASE)]
    common = bounds(s, given) | ({} if given["queue"] is None else {"queue": given["queue"]})
    own = {
        name: common | ({"payloads": "true"} if given["payloads"] and _has(name) else {})
        for name in meant
    }
    for name in meant:
        there(s, parse_options({"table": name, **own[name]}).queue)
    with on_spark(s, given) as spark:
        for name in meant:
            shown = redact_table(frame(s, spark, name, **own[name]), s.redaction)
            shown.createOrReplaceTempView(name)
        _tell(s, spark, awaited(spark, "planning", lambda: spark.sql(given["query"])))
    return 0


def _tell(s: Session, spark: SparkSession, found: DataFrame) -> None:
    if s.json:
        rows = found.toLocalIterator()
        row = awaited(spark, "reading", lambda: next(rows, None))
        while row is not None:
            emit(_plain(row.asDict(recursive=True), s.redaction))
            row = next(rows, None)
        return
    taken = awaited(spark, "reading", lambda: found.take(SHOWN + 1))
    shown = [list(_plain(row.asDict(recursive=True), s.redaction).values()) for row in taken]
    table(found.columns, shown[:SHOWN])
    more = "; more are there: --json has all" if len(shown) > SHOWN else ""
    n = min(len(shown), SHOWN)
    say(f"{count(n)} {'row' if n == 1 else 'rows'}{more}")


def _has(name: str) -> bool:
    from redisq_ops.pipeline.tables import TABLES

    return TABLES[name].column("payload") is not None


def _plain(row: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    """A row as the contract's JSON has it: moments in ISO 8601, bytes as bytes. A query may put
    together what is redacted only as a whole, so all text and bytes are redacted again."""

    def value(item: Any) -> Any:
        if isinstance(item, (bytes, bytearray)):
            return redaction.payload(bytes(item))
        if isinstance(item, str):
            return redaction.text(item)
        if isinstance(item, date):
            return item.isoformat()
        if isinstance(item, Mapping):
            return {value(name): value(part) for name, part in item.items()}
        if isinstance(item, list):
            return [value(part) for part in item]
        return float(item) if isinstance(item, Decimal) else item

    return {name: value(item) for name, item in row.items()}
