"""`redisq spark submit`: a dataset's rows as requests."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from ..options import SkipInvalid, argument, command, examples, flag
from .spark import PACE, QUEUE, RUNNING, spark

_NAME = typer.Option(
    "--name", metavar="NAME", help="Name of the requests without --id: NAME-1, NAME-2, …"
)
_FORMAT = typer.Option(
    "--format", metavar="FORMAT", help="text, csv, json or parquet; default: by the file name."
)
_ORDER = typer.Option(
    "--order", metavar="COLUMN", help="Order the rows of a request by COLUMN; repeatable."
)
_PRIORITY = typer.Option(
    "--priority", metavar="N|COLUMN", help="Priority, 0 (first) to 99, or a column."
)


def _column(name: str, help: str) -> tuple[Any, Any]:
    return Annotated[str | None, typer.Option(name, metavar="COLUMN", help=help)], None


def _number(name: str, help: str, default: int) -> tuple[Any, Any]:
    return Annotated[int, typer.Option(name, metavar="N", help=help)], default


spark.command(
    "submit",
    help="Submit a dataset: a request per value of a column, or per number of "
"rows; rows become sub-requests. Run again, it adds only what is "
"missing.",
    epilog=examples(
        "redisq spark submit orders.parquet --queue mail --id order --split 20 --priority level",
        "redisq spark submit lines/ --format text --name today --rows 100000 --limit 8",
        "redisq spark submit orders.csv --id order --dry-run",
    ),
)(
    command(
        {
            "input": argument("IN", help="File or folder of text, CSV, JSON Lines or Parquet."),
            **QUEUE,
            "id": _column("--id", "Column with the request's id."),
            "name": (Annotated[str | None, _NAME], None),
            "rows": _number("--rows", "Rows per request, with --name.", 100_000),
            "payload": _column("--payload", "Column to send; default: the row as JSON."),
            "order": (Annotated[list[str] | None, _ORDER], None),
            "split": _number("--split", "Rows per sub-request.", 1),
            "priority": (Annotated[str, _PRIORITY], str(PRIORITY)),
            "limit": _number("--limit", "Sub-requests worked on at once.", LIMIT),
            "max_payload": _number("--max-payload", "Maximum bytes of a sub-request.", MAX_PAYLOAD),
            "format": (Annotated[str | None, _FORMAT], None),
            "multiline": flag("--multiline", "Allow line breaks in quoted CSV values."),
            **PACE,
            "skip_invalid": (SkipInvalid, None),
            "dry_run": flag("--dry-run", "Count valid and invalid rows; send nothing."),
            **RUNNING,
        },
        "spark_submit.submitted",
    )
)  # fmt: skip
