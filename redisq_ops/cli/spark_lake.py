"""`redisq spark export | results`: tables into a lake of Parquet, and requests' results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import examples
from .options import argument, command, flag
from .session import Session
from .spark import RUNNING, awaited, frame, on_spark, printed, spark, there
from .spark_write import QUEUE, server_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def exported(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.ops.terminal import size
    from redisq_ops.pipeline.lake import export
    from redisq_ops.pipeline.options import parse_options, table
    from redisq_ops.pipeline.redaction import redact_table

    from .output import count, emit, say, tell

    if printed(given):
        return 0
    trim = {"onTrim": given["on_trim"]}
    parse_options({"table": "history", **trim})  # a wrong word is one whatever is exported
    wanted: dict[str, dict[str, Any]] = {}
    for each in map(table, given["table"]):
        wanted[each.name] = dict(trim) if each.name == "history" else {}
        if given["payloads"] and each.column("payload") is not None:
            wanted[each.name]["payloads"] = "true"
        parse_options({"table": each.name, **wanted[each.name]})
    queues = [given["queue"]] if given["queue"] is not None else []
    there(s, queues)
    corrupt = 0
    so = "what is in the lake stays; the same command goes on"
    with on_spark(s, given, stopped=so) as session:

        def read(name: str, **more: str) -> DataFrame:
            return redact_table(frame(s, session, name, **more), s.redaction)

        for name, options in wanted.items():
            take = partial(
                export, server_of(s), read, name, Path(given["lake"]), queues=queues,
                **options,
            )  # fmt: skip
            done = awaited(session, f"exporting {name}", take)
            corrupt += done.corrupt
            if s.json:
                emit(done)
                continue
            tell(f"{name}: {count(done.rows)} rows in {count(done.files)} files "
                  f"({size(done.bytes)}), run {done.run}")  # fmt: skip
            if done.recovered:
                say(f"{name}: {count(done.recovered)} interrupted runs finished first")
            if done.corrupt:
                say(f"{name}: {count(done.corrupt)} rows could not be read; kept in _corrupt")
    return 3 if corrupt else 0


_TABLE = typer.Option("--table", metavar="TABLE", help="Which; repeatable (redisq spark schema).")
_LAKE = typer.Option("--lake", metavar="DIR", help="The folder of Parquet files.")
_TRIM = typer.Option("--on-trim", metavar="fail|report", help="History that was cut meanwhile.")

spark.command(
    "export",
    help="Take tables into a lake of Parquet files. history and dead go on where the last run "
    "ended; of all others there is one state a day.",
    epilog=examples(
        "redisq spark export --table history --lake /lake",
        "redisq spark export --table dead --table requests --lake /lake --queue mail --json",
    ),
)(
    command(
        {
            "table": (Annotated[list[str], _TABLE], ...),
            "lake": (Annotated[str, _LAKE], ...),
            **QUEUE,
            "payloads": flag("--payloads", "Payloads too."),
            "on_trim": (Annotated[str, _TRIM], "fail"),
            **RUNNING,
        },
        exported,
    )
)


def collected(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.core.model.errors import BadInput
    from redisq_ops.pipeline.redaction import redact_table
    from redisq_ops.pipeline.results import FORMATS, check_output, select_requests, write

    from .output import count, emit, say, tell

    if printed(given):
        return 0
    out = Path(given["out"])
    end = out.suffix.removeprefix(".")
    format = given["format"] or {"txt": "text"}.get(end, end if end in FORMATS else "parquet")
    check_output(out, format, overwrite=given["overwrite"])
    if given["no_final_newline"] and not (given["single_file"] and format == "text"):
        raise BadInput("--no-final-newline is for --single-file --format text")
    queue = given["queue"] or s.config["queue"] or "default"
    requests = given["requests"] or []
    _known(s, queue, requests)
    options = {"request": requests[0]} if len(requests) == 1 else {}
    with on_spark(s, given, stopped="nothing was written") as session:
        found = redact_table(frame(s, session, "results", queue=queue, **options), s.redaction)
        picked = select_requests(found, requests, given["starting"] or "")
        put = partial(
            write, picked, out, format, overwrite=given["overwrite"], require_rows=not requests,
            single_file=given["single_file"], final_newline=not given["no_final_newline"],
        )  # fmt: skip
        done = awaited(session, "collecting", put)
    if s.json:
        emit({"out": str(out), "format": format, **asdict(done)})
    else:
        states = ", ".join(f"{count(n)} {state}" for state, n in done.states.items())
        tell(f"{out}: {count(done.results)} results; sub-requests: {states or 'none'}")
        if not done.complete:
            say("not all of them are done: redisq wait request ID, then again with --overwrite")
    return done.exit_code


def _known(s: Session, queue: str, requests: Sequence[str]) -> None:
    """Refuse a request that isn't there: its results would take the earlier ones' place."""
    from redisq_ops.core.model.errors import NotFound
    from redisq_ops.core.redis.operation import together
    from redisq_ops.ops.change.control import requests_of

    of = requests_of(s.run(s.deployment.queue(queue)))
    for start in range(0, len(requests), 100):
        some = requests[start : start + 100]
        found = s.run(together([of.request.op(id) for id in some]))
        for id, request in zip(some, found, strict=True):
            if request is None:
                raise NotFound(f"no request {id} in queue {queue}")


_STARTING = typer.Option("--starting", metavar="TEXT", help="Requests whose id begins so.")
_OUT_FORMAT = typer.Option("--format", metavar="FORMAT", help="parquet, json, csv, text.")

spark.command(
    "results",
    help="Write requests' results to a folder, or with --single-file to one file, in order: by "
    "request (ID-1, ID-2 … ID-10), then by number. text has the results alone.",
    epilog=examples(
        "redisq spark results out.parquet r1 r2 --queue mail",
        "redisq spark results out.txt --single-file --queue mail --starting today- --overwrite",
    ),
)(
    command(
        {
            "out": argument("OUT", help="The folder, or the file, to write."),
            "requests": (Annotated[list[str] | None, typer.Argument(metavar="[REQUEST]...")], None),
            **QUEUE,
            "starting": (Annotated[str | None, _STARTING], None),
            "format": (Annotated[str | None, _OUT_FORMAT], None),
            "single_file": flag("--single-file", "Write one file, by one task; not a folder."),
            "no_final_newline": flag("--no-final-newline", "End the last line without a newline."),
            "overwrite": flag("--overwrite", "Take the place of what is there."),
            **RUNNING,
        },
        collected,
    )
)
