"""`redisq spark submit`: a dataset's rows as requests."""

from __future__ import annotations

from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from ..options import SKIP_INVALID, add, argument, flag, option
from .spark import PACE, QUEUE, RUNNING, spark

add(
    spark, "submit",
    {
        "input": argument("IN", help="File or folder of text, CSV, JSON Lines or Parquet."),
        **QUEUE,
        "id": option("--id", "COLUMN", "Column with the request's id."),
        "name": option("--name", "NAME", "Name of the requests without --id: NAME-1, NAME-2, …"),
        "rows": option("--rows", "N", "Rows per request, with --name.", int, 100_000),
        "payload": option("--payload", "COLUMN", "Column to send; default: the row as JSON."),
        "order": option(
            "--order", "COLUMN", "Order the rows of a request by COLUMN; repeatable.", list[str]
        ),
        "split": option("--split", "N", "Rows per sub-request.", int, 1),
        "priority": option(
            "--priority", "N|COLUMN", "Priority, 0 (first) to 99, or a column.",
            default=str(PRIORITY),
        ),
        "limit": option("--limit", "N", "Sub-requests worked on at once.", int, LIMIT),
        "max_payload": option(
            "--max-payload", "N", "Maximum bytes of a sub-request.", int, MAX_PAYLOAD
        ),
        "format": option(
            "--format", "FORMAT", "text, csv, json or parquet; default: by the file name."
        ),
        "multiline": flag("--multiline", "Allow line breaks in quoted CSV values."),
        **PACE,
        "skip_invalid": SKIP_INVALID,
        "dry_run": flag("--dry-run", "Count valid and invalid rows; send nothing."),
        **RUNNING,
    },
    "spark_submit.submitted",
    help="Submit a dataset: a request per value of a column, or per number of rows; rows become "
    "sub-requests. Run again, it adds only what is missing.",
    prints="SparkSubmission",
    examples=(
        "redisq spark submit orders.parquet --queue mail --id order --split 20 --priority level",
        "redisq spark submit lines/ --format text --name today --rows 100000 --limit 8",
        "redisq spark submit orders.csv --id order --dry-run",
    ),
)  # fmt: skip
