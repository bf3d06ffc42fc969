"""`redisq spark submit`: a dataset's rows as requests."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import BadInput, Refused
from redisq_ops.core.model.exit_codes import FAILED, PARTLY_DONE
from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY
from redisq_ops.core.model.ulid import ulid
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import size as shown

from ..options import SKIP_INVALID, argument, command, flag, option, options
from ..output import count, emit, printable, progress, quantity, say, tell, untouched
from ..session import Session
from ..spark_session import announced, awaited, on_spark, printed, rate_of, remote_server, server_of
from .spark import SPARK_QUEUE, Pace, Running, spark

if TYPE_CHECKING:
    from redisq_ops.pipeline.jobs.input_validation import ValidationResult
    from redisq_ops.pipeline.jobs.submit import SubmitResult

_MANY = 100_000
_SAMPLES = 5
"""number of rejects that a dry run shows"""


@options
class SparkSubmitOptions:
    input: str = argument("IN", "File or folder of text, CSV, JSON Lines or Parquet.")
    queue: str | None = SPARK_QUEUE
    id: str | None = option("--id", "COLUMN", "Column with the request's id.")
    name: str | None = option(
        "--name", "NAME", "Name of the requests without --id: NAME-1, NAME-2, …"
    )
    rows: int = option("--rows", "N", "Rows per request, with --name.", default=100_000)
    payload: str | None = option("--payload", "COLUMN", "Column to send; default: the row as JSON.")
    order: list[str] | None = option(
        "--order", "COLUMN", "Order the rows of a request by COLUMN; repeatable."
    )
    split: int = option("--split", "N", "Rows per sub-request.", default=1)
    priority: str = option(
        "--priority", "N|COLUMN", "Priority, 0 (first) to 99, or a column.", default=str(PRIORITY)
    )
    limit: int = option("--limit", "N", "Sub-requests worked on at once.", default=LIMIT)
    max_payload: int = option(
        "--max-payload", "N", "Maximum bytes of a sub-request.", default=MAX_PAYLOAD
    )
    format: str | None = option(
        "--format", "FORMAT", "text, csv, json or parquet; default: by the file name."
    )
    multiline: bool = flag("--multiline", "Allow line breaks in quoted CSV values.")
    pace: Pace
    skip_invalid: Path | None = SKIP_INVALID
    dry_run: bool = flag("--dry-run", "Count valid and invalid rows; send nothing.")
    running: Running


@command(spark, "submit", prints="SparkSubmission")
def submit(s: Session, given: SparkSubmitOptions) -> int:
    """Submit a dataset: a request per value of a column, or per number of rows; rows become
    sub-requests. Run again, it adds only what is missing.

    Examples:
      redisq spark submit orders.parquet --queue mail --id order --split 20 --priority level
      redisq spark submit lines/ --format text --name today --rows 100000 --limit 8
      redisq spark submit orders.csv --id order --dry-run
    """
    from redisq_ops.core.engine.registry import server_ms
    from redisq_ops.ops.files.rejects import RejectFile
    from redisq_ops.pipeline.session.spark_tuning import submit_conf
    from redisq_ops.pipeline.sink.input_split import DatasetOptions, check_file, checked_format

    running, path = given.running, given.input
    if printed(running):
        return 0
    wanted = DatasetOptions(
        given.queue or s.config["queue"] or "default",
        given.id,
        given.name,
        given.rows,
        given.payload,
        tuple(given.order or ()),
        given.split,
        given.priority,
        given.limit,
        given.max_payload,
        rate_of(s, given.pace.rate),
        given.pace.parts,
    )
    format = checked_format(path, given.format, multiline=given.multiline)
    if _reads_files_here(running):
        check_file(path)
    dry_run, skipped = given.dry_run, given.skip_invalid
    if not dry_run:
        s.writable()
        s.run(server_ms())  # fails before Spark starts if the server doesn't answer
    stopped = "what was sent stays; run the same command again to continue"
    with ExitStack() as stack:
        listed: RejectFile | None = None
        if skipped is not None and not dry_run:
            listed = stack.enter_context(RejectFile(skipped))
        announced(s, running)
        small = _is_small(running, path)
        if small and given.name and format == "text" and Path(path).is_file() and not s.json:
            quicker = hint("submit", path, queue=wanted.queue, id=given.name)
            say(f"so small a file is submitted quicker, as one request, by {quicker}")
        conf = [*submit_conf(small), *(running.conf or ())]
        session = stack.enter_context(
            on_spark(s, replace(running, conf=conf), stopped=stopped, announces=False)
        )
        from redisq_ops.pipeline.jobs import input_validation, submit
        from redisq_ops.pipeline.session.spark_jobs import task_progress
        from redisq_ops.pipeline.sink import input_split

        def rejected(found: ValidationResult) -> None:
            assert listed is not None
            for reject in found.rejects:
                listed.add(reject)
            if found.rejects and not found.entries:
                raise Refused(f"no row of {path} can be submitted: {skipped} says why")

        with untouched("nothing was sent"):
            source = awaited(
                session,
                "looking",
                lambda: input_split.read(session, path, given.format, multiline=given.multiline),
            )
            if small:
                source = source.persist()
            if dry_run:
                with progress("counting") as meter:
                    found = input_validation.validate_dataset(
                        session, source, wanted, lambda: meter(*task_progress(session))
                    )
                if not found.rows and not found.rejects:
                    raise BadInput("the input has no rows: nothing to submit")
                return _counted(s, wanted.queue, found, skips=skipped is not None)
        with progress("submitting") as meter:
            done = submit.submit(
                session,
                server_of(s),
                source,
                wanted,
                f"submit-{ulid()}",
                on_poll=lambda: meter(*task_progress(session)),
                on_rejects=None if listed is None else rejected,
            )
    return _submitted(s, wanted.queue, done, skipped)


def _reads_files_here(running: Running) -> bool:
    """Whether a path without a scheme is on this machine: Spark runs here, without Hadoop."""
    from redisq_ops.pipeline.session.spark_session import is_local

    is_here = remote_server(running) is None and is_local(running.master)
    elsewhere = any("defaultFS" in conf for conf in running.conf or ())
    return is_here and not elsewhere and "HADOOP_CONF_DIR" not in os.environ


def _is_small(running: Running, path: str) -> bool:
    """Whether the input is small and on this machine."""
    from redisq_ops.pipeline.session.spark_tuning import is_small_input

    if not _reads_files_here(running):
        return False
    try:
        return is_small_input(Path(path))
    except OSError:  # Spark reports the error
        return False


def _counted(s: Session, queue: str, found: ValidationResult, *, skips: bool) -> int:
    """Print the counts of a dry run; returns the exit code that the submission would have."""
    from redisq_ops.ops.files.submit import memory

    rejects = [str(reject) for reject in found.rejects[:_SAMPLES]]
    refused = len(found.rejects)
    if s.json:
        emit(
            {
                "queue": queue,
                "word": "dry-run",
                "requests": found.requests,
                "entries": found.entries,
                "rows": found.rows,
                "bytes": found.bytes,
                "refused": refused,
                "corrupt": found.corrupt,
                "samples": rejects,
            }
        )
    else:
        tell(
            f"{quantity(found.rows, 'row')}, {count(found.bytes)} bytes: "
            f"{quantity(found.requests, 'request')} with {quantity(found.entries, 'sub-request')}, "
            "not sent"
        )
        if refused:
            how = "would be left out" if skips else "would be refused, and all with them"
            say(f"{quantity(refused, 'row')} {how}:")
        for line in rejects:
            say(f"  {printable(line)}")
        if refused > len(rejects):
            say(f"  and {count(refused - len(rejects))} more")
        if found.requests > _MANY:
            takes = shown(memory(found.requests, found.bytes))
            say(f"so many requests take about {takes} of the server's memory")
    if not refused:
        return 0
    if skips:
        return PARTLY_DONE if found.entries else FAILED
    return found.error.exit_code


def _submitted(s: Session, queue: str, done: SubmitResult, skipped: Path | None) -> int:
    if s.json:
        emit(
            {
                "queue": queue,
                "requests": done.requests,
                "entries": done.entries,
                "refused": done.rejects,
                "corrupt": done.corrupt,
                "samples": done.samples,
            }
        )
        return done.exit_code
    present = done.requests.get("ok", 0) + done.requests.get("same", 0)
    same = done.requests.get("same", 0)
    before = f"; {quantity(same, 'request')} of these had been submitted before" if same else ""
    tell(
        f"queue {queue} has {quantity(present, 'request')} with "
        f"{quantity(done.entries, 'sub-request')} of the input{before}"
    )
    if done.rejects:
        say(f"not submitted: {quantity(done.rejects, 'row')}, listed in {skipped}")
    for word, why in done.samples.items():
        say(f"{count(done.requests[word])} {word}:")
        for line in why:
            say(f"  {printable(line)}")
    return done.exit_code
