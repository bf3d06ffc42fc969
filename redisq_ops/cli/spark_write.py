"""`redisq spark submit | replay | requeue | export | results`: what Spark's tasks write."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redisq_ops.core.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from .app import examples
from .options import GO, Options, argument, command, flag
from .plan import agreed, ended, untouched
from .session import Session
from .spark import (
    BETWEEN,
    RUNNING,
    awaited,
    bounds,
    frame,
    interrupted,
    on_spark,
    printed,
    spark,
    there,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.core.states import Verb
    from redisq_ops.pipeline.dataset import Sized
    from redisq_ops.pipeline.replay import Asked, Orders
    from redisq_ops.pipeline.submit import Done
    from redisq_ops.pipeline.writing import Server

_MANY = 100_000
_PARTS = typer.Option("--parts", min=1, help="Tasks that write; each is one client.")
_RATE = typer.Option("--rate", metavar="N/s", help="Not faster than this, all tasks together.")
_QUEUE = typer.Option("--queue", metavar="NAME", help="The queue.")
QUEUE: Options = {"queue": (Annotated[str | None, _QUEUE], None)}
PACE: Options = {
    "rate": (Annotated[str | None, _RATE], None),
    "parts": (Annotated[int, _PARTS], 8),
}


def server_of(s: Session) -> Server:
    """Where this invocation's queues are, as tasks are told."""
    from redisq_ops.pipeline.writing import Server

    return Server(s.config.target(), s.config["prefix"] or "rq")


def rate_of(s: Session, given: Mapping[str, Any]) -> float | None:
    """What was asked for, else what the configuration allows at most."""
    from redisq_ops.ops.moment import per_second

    asked = None if given["rate"] is None else per_second(given["rate"])
    return s.guard.rate(asked)


# --- submit --------------------------------------------------------------------------------------


def submitted(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.ops.submission import ulid
    from redisq_ops.pipeline import dataset, submit
    from redisq_ops.pipeline.writing import tasks

    from .output import emit, progress

    if printed(given):
        return 0
    wanted = dataset.Asked(
        given["queue"] or s.config["queue"] or "default", given["id"], given["name"],
        given["rows"], given["payload"], tuple(given["order"] or ()), given["split"],
        given["priority"], given["limit"], given["max_payload"], rate_of(s, given), given["parts"],
    )  # fmt: skip
    if not given["dry_run"]:
        s.writable()
    so = "what was sent stays; the same command goes on"
    with on_spark(s, given, stopped=so) as session:
        with untouched("nothing was sent"):
            path, format, multiline = given["input"], given["format"], given["multiline"]
            source = awaited(
                session, "looking",
                lambda: dataset.read(session, path, format, multiline=multiline),
            )  # fmt: skip
            if given["dry_run"]:
                size = awaited(session, "counting", lambda: dataset.sized(source, wanted))
                if s.json:
                    emit({"queue": wanted.queue, "word": "dry-run", **_plain(size)})
                else:
                    _sized(size)
                return 0
        with progress("submitting") as meter:
            done = submit.submit(
                session, server_of(s), source, wanted, f"submit-{ulid()}",
                progress=lambda: meter(*tasks(session)),
            )  # fmt: skip
    return _submitted(s, wanted.queue, done)


def _sized(size: Sized) -> None:
    """What would be sent, and what it takes of the server where that is much."""
    from redisq_ops.ops.submission import memory
    from redisq_ops.ops.terminal import size as shown

    from .output import count, say

    print(f"{count(size.rows)} rows, {count(size.bytes)} bytes: {count(size.requests)} requests "
          f"with {count(size.entries)} sub-requests, not sent")  # fmt: skip
    if size.corrupt:
        say(f"{count(size.corrupt)} rows can't be read, and would be left out")
    if size.requests > _MANY:
        takes = shown(memory(size.requests, size.bytes))
        say(f"so many requests take about {takes} of the server's memory")


def _submitted(s: Session, queue: str, done: Done) -> int:
    from .output import count, emit, printable, say

    if s.json:
        emit({"queue": queue, "requests": done.requests, "entries": done.entries,
              "corrupt": done.corrupt, "samples": done.samples})  # fmt: skip
        return done.exit_code
    there = done.requests.get("ok", 0) + done.requests.get("same", 0)
    print(
        f"{queue}: {count(there)} requests with {count(done.entries)} sub-requests are there, "
        f"{count(done.requests.get('same', 0))} of them were"
    )
    if done.corrupt:
        say(f"{count(done.corrupt)} rows could not be read, and were left out")
    for word, why in done.samples.items():
        say(f"{count(done.requests[word])} {word}:")
        for line in why:
            say(f"  {printable(line)}")
    return done.exit_code


def _plain(value: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(value)


def _column(name: str, help: str) -> tuple[Any, Any]:
    return Annotated[str | None, typer.Option(name, metavar="COLUMN", help=help)], None


def _number(name: str, help: str, default: int) -> tuple[Any, Any]:
    return Annotated[int, typer.Option(name, metavar="N", help=help)], default


_NAME = typer.Option("--name", metavar="NAME", help="Without --id: requests NAME-1, NAME-2, …")
_FORMAT = typer.Option("--format", metavar="FORMAT", help="text, csv, json, parquet; by its name.")
_ORDER = typer.Option("--order", metavar="COLUMN", help="Orders a request's rows; repeatable.")
_PRIORITY = typer.Option("--priority", metavar="N|COLUMN", help="0 (first) to 99, or a column.")

spark.command(
    "submit",
    help="Submit a dataset: requests by a column, or of so many rows each, and rows as their "
    "sub-requests. Run again, it adds what is missing and nothing twice.",
    epilog=examples(
        "redisq spark submit orders.parquet --queue mail --id order --split 20 --priority level",
        "redisq spark submit lines/ --format text --name today --rows 100000 --limit 8",
        "redisq spark submit orders.csv --id order --dry-run",
    ),
)(
    command(
        {
            "input": argument("IN", help="A file or folder of text, CSV, JSON lines or Parquet."),
            **QUEUE,
            "id": _column("--id", "The column with the request's id."),
            "name": (Annotated[str | None, _NAME], None),
            "rows": _number("--rows", "Rows of a request, with --name.", 100_000),
            "payload": _column("--payload", "The column to send, else the row as JSON."),
            "order": (Annotated[list[str] | None, _ORDER], None),
            "split": _number("--split", "Rows per sub-request.", 1),
            "priority": (Annotated[str, _PRIORITY], str(PRIORITY)),
            "limit": _number("--limit", "Sub-requests worked on at once.", LIMIT),
            "max_payload": _number("--max-payload", "Bytes a sub-request may have.", MAX_PAYLOAD),
            "format": (Annotated[str | None, _FORMAT], None),
            "multiline": flag("--multiline", "Quoted values of CSV may have line breaks."),
            **PACE,
            "dry_run": flag("--dry-run", "Count; send nothing."),
            **RUNNING,
        },
        submitted,
    )
)  # fmt: skip


# --- replay and requeue --------------------------------------------------------------------------


def replayed(s: Session, verb: Verb, given: dict[str, Any]) -> int:
    from redisq_ops.core.errors import BadInput
    from redisq_ops.core.states import VERBS
    from redisq_ops.ops.journal import Author
    from redisq_ops.pipeline.replay import Asked, Orders, check
    from redisq_ops.pipeline.session import at_home

    if printed(given):
        return 0
    states = VERBS[verb][0]
    state = given.get("state") or states[0]
    if state not in states:
        raise BadInput(f"{verb} is for {' or '.join(states)} entries, not {state!r}")
    queues = (given["queue"],) if given["queue"] is not None else ()
    asked = Asked(
        verb, state, _what(given), Author.here(given["reason"]), rate_of(s, given), given["parts"],
        queues, given["payloads"], given["since"], given["until"],
    )  # fmt: skip
    kept = given["plan"] is not None
    if not kept and not (at_home(given["master"]) and given["remote"] is None):
        raise BadInput("tasks elsewhere need a folder they all see: --plan DIR on shared storage")
    path = Path(given["plan"]) if kept else Path(tempfile.mkdtemp(prefix="redisq-spark-"))
    try:
        orders = Orders.read(path) if kept else None
        if orders is not None:
            orders = orders.of(asked)
            if given["rate"] is None:  # the plan's own, which may have been allowed by others
                for order in orders.orders:
                    s.guard.rate(order.header.rate)
            else:
                orders = orders.paced(asked.rate)
            check(server_of(s), orders)
        between = bounds(s, given)
        there(s, queues)
        with on_spark(s, given) as session:
            if orders is None:
                with untouched():
                    orders = _chosen(s, session, asked, path, between, given)
            return _carried_out(s, session, orders, given)
    finally:
        if not kept:
            shutil.rmtree(path, ignore_errors=True)


def _what(given: Mapping[str, Any]) -> str:
    """The choice in words."""
    from redisq_ops.core.errors import BadInput

    said = [f"group {group}" for group in given["group"] or ()]
    said += [f"where {given['where']}"] if given["where"] is not None else []
    if not said and not given["all"]:
        raise BadInput("say which: --group FINGERPRINT, --where SQL, or --all")
    said = said or ["all"]
    return ", ".join(said + [f"{n} {given[n]}" for n in ("since", "until") if given[n] is not None])


def _chosen(
    s: Session,
    session: SparkSession,
    asked: Asked,
    path: Path,
    between: Mapping[str, str],
    given: Mapping[str, Any],
) -> Orders:
    from pyspark.errors import AnalysisException, ParseException

    from redisq_ops.core.errors import BadInput
    from redisq_ops.pipeline.replay import choose, headers
    from redisq_ops.pipeline.writing import in_short

    made = headers(server_of(s), asked, asked.queues)
    options = dict(between)
    if made:
        options["queue"] = ",".join(header.queue for header in made)
    if given["payloads"]:
        options["payloads"] = "true"
    found: DataFrame = frame(s, session, asked.state, **options)
    if given["group"]:
        found = found.where(found["fingerprint"].isin(*given["group"]))
    if given["where"] is not None:
        try:
            found = found.where(given["where"])
        except (AnalysisException, ParseException) as error:
            raise BadInput(f"--where: {in_short(error)}") from error
    return awaited(session, "choosing", lambda: choose(found, made, asked, path))


def _carried_out(
    s: Session, session: SparkSession, orders: Orders, given: Mapping[str, Any]
) -> int:
    from redisq_ops.core.errors import RedisqError
    from redisq_ops.ops.bulk import PAST
    from redisq_ops.ops.journal import Outcome
    from redisq_ops.pipeline.replay import apply, outcomes

    from .output import emit, printable, progress, say

    plans = orders.plans()
    if not plans:
        if not s.json:
            print("0 matched")
        elif given["dry_run"]:
            emit({"plan": "0 matched", "matched": 0})
        else:
            emit(Outcome(None, 0))
        return 0
    if not agreed(s, plans, given):
        return 0
    server = server_of(s)
    headers = {order.header.op: order.header for order in orders.orders}
    try:
        with progress(f"{plans[0].facts['verb']} by {len(orders.units())} tasks") as meter:
            found = apply(session, server, orders, meter)
    except (KeyboardInterrupt, RedisqError) as error:
        with suppress(RedisqError):  # a server that is gone can't be asked either
            for outcome in outcomes(server, orders):
                header = headers[outcome.op or ""]
                say(printable(f"{header.queue}: stopped after {outcome.done:,} of "
                              f"{outcome.matched:,} (op {outcome.op})"))  # fmt: skip
        again = "the same command goes on" if given["plan"] else "the same command does the rest"
        if isinstance(error, KeyboardInterrupt):
            raise interrupted(again) from error
        say(again)
        raise
    codes = set()
    for outcome in found:
        header = headers[outcome.op or ""]
        ended(s, outcome, f"{PAST[header.verb]} {header.state} entries of {header.queue}")
        codes.add(outcome.exit_code)
    return 3 if len(codes) > 1 else codes.pop()


_GROUP = typer.Option("--group", metavar="FINGERPRINT", help="An error group; repeatable.")
_WHERE = typer.Option("--where", metavar="SQL", help="\"attempts > 3 and error like '%timeout%'\".")
_FOLDER = typer.Option("--plan", metavar="DIR", help="Keep the plan there; again, it goes on.")
_STATE = typer.Option("--state", metavar="STATE", help="pending or delayed.")
CHOOSING: Options = {
    **QUEUE,
    "group": (Annotated[list[str] | None, _GROUP], None),
    "where": (Annotated[str | None, _WHERE], None),
    "all": flag("--all", "All of them."),
    **BETWEEN,
    "payloads": flag("--payloads", "Read payloads too, for --where."),
    **PACE,
    "plan": (Annotated[str | None, _FOLDER], None),
    **GO,
    **RUNNING,
}

spark.command(
    "replay",
    help="Make dead entries wait for a worker again, chosen by SQL or by their error, carried out "
    "by many tasks as one operation a queue. redisq undo takes it back.",
    epilog=examples(
        "redisq spark replay --group 3f2a91c0 --rate 500/s --dry-run",
        "redisq spark replay --queue mail --where \"error_type = 'TimeoutError'\" --yes",
        "redisq spark replay --all --since 6h --plan /shared/replay --rate 2000/s --yes",
    ),
)(command(CHOOSING, lambda s, given: replayed(s, "replay", given)))

spark.command(
    "requeue",
    help="Make pending or delayed entries wait for a worker now, as replay does with dead ones.",
    epilog=examples(
        "redisq spark requeue --queue mail --where 'lost > 1' --dry-run",
        "redisq spark requeue --state delayed --where \"error like '%429%'\" --rate 100/s --yes",
    ),
)(
    command(
        {**CHOOSING, "state": (Annotated[str | None, _STATE], None)},
        lambda s, given: replayed(s, "requeue", given),
    )
)


# --- lake and results ----------------------------------------------------------------------------


def exported(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.ops.terminal import size
    from redisq_ops.pipeline.lake import export
    from redisq_ops.pipeline.options import parsed, table

    from .output import count, emit, say

    if printed(given):
        return 0
    trim = {"onTrim": given["on_trim"]}
    parsed({"table": "history", **trim})  # a wrong word is one whatever is exported
    wanted: dict[str, dict[str, Any]] = {}
    for each in map(table, given["table"]):
        wanted[each.name] = dict(trim) if each.name == "history" else {}
        if given["payloads"] and each.column("payload") is not None:
            wanted[each.name]["payloads"] = "true"
        parsed({"table": each.name, **wanted[each.name]})
    queues = [given["queue"]] if given["queue"] is not None else []
    there(s, queues)
    corrupt = 0
    so = "what is in the lake stays; the same command goes on"
    with on_spark(s, given, stopped=so) as session:

        def read(name: str, **more: str) -> DataFrame:
            return frame(s, session, name, **more)

        for name, options in wanted.items():
            take = partial(
                export, session, server_of(s), read, name, Path(given["lake"]), queues=queues,
                **options,
            )  # fmt: skip
            done = awaited(session, f"exporting {name}", take)
            corrupt += done.corrupt
            if s.json:
                emit(done)
                continue
            print(f"{name}: {count(done.rows)} rows in {count(done.files)} files "
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
    from redisq_ops.pipeline.results import FORMATS, checked, chosen, write

    from .output import count, emit, say

    if printed(given):
        return 0
    out = Path(given["out"])
    end = out.suffix.removeprefix(".")
    format = given["format"] or {"txt": "text"}.get(end, end if end in FORMATS else "parquet")
    checked(out, format, overwrite=given["overwrite"])
    queue = given["queue"] or s.config["queue"] or "default"
    requests = given["requests"] or []
    _known(s, queue, requests)
    options = {"request": requests[0]} if len(requests) == 1 else {}
    with on_spark(s, given, stopped="nothing was written") as session:
        found = frame(s, session, "results", queue=queue, **options)
        picked = chosen(found, requests, given["starting"] or "")
        put = partial(write, picked, out, format, overwrite=given["overwrite"], some=not requests)
        done = awaited(session, "collecting", put)
    if s.json:
        emit({"out": str(out), "format": format, **_plain(done)})
    else:
        states = ", ".join(f"{count(n)} {state}" for state, n in done.states.items())
        print(f"{out}: {count(done.results)} results; sub-requests: {states or 'none'}")
        if not done.whole:
            say("not all of them are done: redisq wait request ID, then again with --overwrite")
    return done.exit_code


def _known(s: Session, queue: str, requests: Sequence[str]) -> None:
    """Refuse a request that isn't there: its results would take the earlier ones' place."""
    from redisq_ops.core.errors import NotFound
    from redisq_ops.core.io import together
    from redisq_ops.ops.control import requests_of

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
    help="Write requests' results to a folder, in order. text has the results alone.",
    epilog=examples(
        "redisq spark results out.parquet r1 r2 --queue mail",
        "redisq spark results out.txt --queue mail --starting today- --overwrite",
    ),
)(
    command(
        {
            "out": argument("OUT", help="The folder to write."),
            "requests": (Annotated[list[str] | None, typer.Argument(metavar="[REQUEST]...")], None),
            **QUEUE,
            "starting": (Annotated[str | None, _STARTING], None),
            "format": (Annotated[str | None, _OUT_FORMAT], None),
            "overwrite": flag("--overwrite", "Take the place of what is there."),
            **RUNNING,
        },
        collected,
    )
)
