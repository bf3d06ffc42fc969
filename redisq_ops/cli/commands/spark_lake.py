"""`redisq spark export | results`: tables into a lake of Delta tables, and requests' results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import NotFound, Unreachable
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.ops.filter.time import duration_ms
from redisq_ops.ops.terminal import size

from ..options import argument, command, flag, option, options
from ..output import count, emit, say, tell
from ..session import Session
from ..spark_session import awaited, check_lake, check_queues, frame, on_spark, printed, server_of
from .spark import SPARK_QUEUE, Running, spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LAKE = option(
    "--lake", "LAKE", "Folder of the Delta tables, or URL of an object store.", default=...
)
_ON_TRIM = option(
    "--on-trim", "fail|report", "What to do when history was trimmed meanwhile.", default="fail"
)


def _redacted_frame(s: Session, session: SparkSession, table: str, **options: str) -> DataFrame:
    from redisq_ops.pipeline.source.redaction import redact_table

    return redact_table(frame(s, session, table, **options), s.redaction)


@options
class ExportTablesOptions:
    table: list[str] = option(
        "--table", "TABLE", "Table to export; repeatable (redisq spark schema).", default=...
    )
    lake: str = _LAKE
    queue: str | None = SPARK_QUEUE
    payloads: bool = flag("--payloads", "Export payloads too.")
    on_trim: str = _ON_TRIM
    running: Running


@command(spark, "export", prints="SparkExport")
def export(s: Session, given: ExportTablesOptions) -> int:
    """Export tables to a lake of Delta tables. history and dead continue where the last run ended;
    other tables have one snapshot a day.

    Examples:
      redisq spark export --table history --lake /lake
      redisq spark export --table dead --table requests --lake /lake --queue mail --json
    """
    from redisq_ops.pipeline.lake.lake_export import export
    from redisq_ops.pipeline.lake.lake_table import Lake
    from redisq_ops.pipeline.source.options import parse_options, table_named

    if printed(given.running):
        return 0
    trim = {"onTrim": given.on_trim}
    parse_options({"table": "history", **trim})  # check it for every table
    wanted: dict[str, dict[str, Any]] = {}
    for each in map(table_named, given.table):
        wanted[each.name] = dict(trim) if each.name == "history" else {}
        if given.payloads and each.column("payload") is not None:
            wanted[each.name]["payloads"] = "true"
        parse_options({"table": each.name, **wanted[each.name]})
    queues = [given.queue] if given.queue is not None else []
    check_queues(s, queues)
    check_lake(lake := Lake(given.lake), writes=True)
    corrupt = 0
    stopped = "what is in the lake stays; run the same command again to continue"
    with on_spark(s, given.running, stopped=stopped) as session:
        read = partial(_redacted_frame, s, session)
        for name, options in wanted.items():
            take = partial(export, server_of(s), read, name, lake, queues=queues, **options)
            done = awaited(session, f"exporting {name}", take)
            corrupt += done.corrupt
            if s.json:
                emit(done)
                continue
            tell(
                f"{name}: {count(done.rows)} rows in {count(done.files)} files "
                f"({size(done.bytes)}), run {done.run}"
            )
            if done.corrupt:
                say(f"{name}: {count(done.corrupt)} unreadable rows, with the reason in _corrupt")
    return PARTLY_DONE if corrupt else DONE


@options
class KeepHistoryOptions:
    lake: str = _LAKE
    interval: str | None = option(
        "--every", "AGE", "Repeat until Ctrl+C, this long after each export."
    )
    keep: str | None = option("--keep", "AGE", "Delete days that ended longer ago than this.")
    queue: str | None = SPARK_QUEUE
    on_trim: str = _ON_TRIM
    running: Running


@command(spark, "history", prints="SparkExport")
def history(s: Session, given: KeepHistoryOptions) -> int:
    """Keep a lake's history up to date: export new events, merge the small files of past days, and
    delete old days. Stop it anywhere: the next run continues.

    Examples:
      redisq spark history --lake /lake --every 5m --keep 90d
      redisq spark history --lake /lake
    """
    from redisq_ops.pipeline.lake.lake_export import export
    from redisq_ops.pipeline.lake.lake_table import Lake, LakeTable
    from redisq_ops.pipeline.source.options import parse_options
    from redisq_ops.pipeline.source.tables import TABLES

    if printed(given.running):
        return 0
    every, keep = (
        None if span is None else duration_ms(span) for span in (given.interval, given.keep)
    )
    parse_options({"table": "history", "onTrim": given.on_trim})
    queues = [given.queue] if given.queue is not None else []
    check_queues(s, queues)
    check_lake(lake := Lake(given.lake), writes=True)
    lake_table = LakeTable(lake, TABLES["history"])
    stopped = "what is in the lake stays; run the same command again to continue"
    with on_spark(s, given.running, stopped=stopped) as session:
        read = partial(_redacted_frame, s, session)
        take = partial(
            export, server_of(s), read, "history", lake, queues=queues, onTrim=given.on_trim
        )
        done = None
        while True:
            try:
                done = awaited(session, "exporting history", take)
            except Unreachable as error:
                if every is None or done is None:
                    raise
                say(f"{str(error).rstrip('.')}; the next run is in {given.interval}")
                sleep(every / 1000)
                continue
            cared = lake_table.maintain(done.until_ms, keep)
            if s.json:
                emit(done)
            else:
                tell(
                    f"history: {count(done.rows)} rows, run {done.run}; files: "
                    f"{count(cared.merged)} merged into {count(cared.into)}, "
                    f"{count(cared.deleted)} deleted"
                )
            if every is None:
                return PARTLY_DONE if done.corrupt else DONE
            sleep(every / 1000)


@options
class CollectOptions:
    out: str = argument("OUT", "Folder or file to write.")
    requests: list[str] | None = argument("[REQUEST]...")
    queue: str | None = SPARK_QUEUE
    starting: str | None = option("--starting", "TEXT", "Requests whose id starts with TEXT.")
    format: str | None = option("--format", "FORMAT", "parquet, json, csv, text.")
    single_file: bool = flag("--single-file", "Write one file with one task, not a folder.")
    overwrite: bool = flag("--overwrite", "Replace an existing folder or file.")
    running: Running


@command(spark, "results", prints="SparkResults")
def results(s: Session, given: CollectOptions) -> int:
    """Write the results of requests to a folder, or with --single-file to one file, in order: by
    request (ID-1, ID-2 … ID-10), then by number. The format text has only the results.

    Examples:
      redisq spark results out.parquet r1 r2 --queue mail
      redisq spark results out.txt --single-file --queue mail --starting today- --overwrite
    """
    from redisq_ops.pipeline.jobs.results import FORMATS, check_output, select_requests, write
    from redisq_ops.pipeline.source.options import listed

    if printed(given.running):
        return 0
    out = Path(given.out)
    end = out.suffix.removeprefix(".")
    format = given.format or {"txt": "text"}.get(end, end if end in FORMATS else "parquet")
    check_output(out, format, overwrite=given.overwrite)
    queue = given.queue or s.config["queue"] or "default"
    requests = given.requests or []
    _known(s, queue, requests)
    options = {"request": requests[0]} if len(requests) == 1 else {}
    with on_spark(s, given.running, stopped="nothing was written") as session:
        found = _redacted_frame(s, session, "results", queue=listed([queue]), **options)
        picked = select_requests(found, requests, given.starting or "")
        put = partial(
            write,
            picked,
            out,
            format,
            overwrite=given.overwrite,
            require_rows=not requests,
            single_file=given.single_file,
        )
        done = awaited(session, "collecting", put)
    if s.json:
        emit({"out": str(out), "format": format, **asdict(done)})
    else:
        states = ", ".join(f"{count(n)} {state}" for state, n in done.states.items())
        tell(f"{out}: {count(done.results)} results; sub-requests: {states or 'none'}")
        if not done.complete:
            say("not all of them are done: redisq wait ID, then again with --overwrite")
    return done.exit_code


def _known(s: Session, queue: str, requests: Sequence[str]) -> None:
    """Refuse a request that does not exist: its empty results would replace earlier ones."""
    from redisq_ops.core.redis.operation import together
    from redisq_ops.ops.required_features import requests_of

    requests_queue = requests_of(s.run(s.deployment.queue(queue)))
    for start in range(0, len(requests), 100):
        some = requests[start : start + 100]
        found = s.run(together([requests_queue.request.op(id) for id in some]))
        for id, request in zip(some, found, strict=True):
            if request is None:
                raise NotFound(f"no request {id} in queue {queue}")
