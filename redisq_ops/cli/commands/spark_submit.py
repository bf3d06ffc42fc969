"""`redisq spark submit`: a dataset's rows as requests."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from ..options import SkipInvalid, argument, command, examples, flag
from .spark import PACE, QUEUE, RUNNING, spark

_NAME = typer.Option("--name", metavar="NAME", help="Without --id: requests NAME-1, NAME-2, …")
_FORMAT = typer.Option("--format", metavar="FORMAT", help="text, csv, json, parquet; by its name.")
_ORDER = typer.Option("--order", metavar="COLUMN", help="Orders a request's rows; repeatable.")
_PRIORITY = typer.Option("--priority", metavar="N|COLUMN", help="0 (first) to 99, or a column.")


def _column(name: str, help: str) -> tuple[Any, Any]:
    return Annotated[str | None, typer.Option(name, metavar="COLUMN", help=help)], None


def _number(name: str, help: str, default: int) -> tuple[Any, Any]:
    return Annotated[int, typer.Option(name, metavar="N", help=help)], default


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
            "skip_invalid": (SkipInvalid, None),
            "dry_run": flag("--dry-run", "Count, also what would be refused; send nothing."),
            **RUNNING,
        },
        "spark_submit.submitted",
    )
)  # fmt: skip
