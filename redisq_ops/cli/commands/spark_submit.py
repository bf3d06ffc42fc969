"""`redisq spark submit`: a dataset's rows as requests."""

from pathlib import Path

from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from ..options import SKIP_INVALID, argument, command, flag, option, options
from ..session import Session
from .spark import SPARK_QUEUE, Pace, Running, spark


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
    from ..actions.spark_submit import submitted

    return submitted(s, given)
