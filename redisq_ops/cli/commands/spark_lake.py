"""`redisq spark export | results`: tables into a lake of Parquet, and requests' results."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import argument, command, examples, flag
from .spark import QUEUE, RUNNING, spark

_TABLE = typer.Option(
    "--table", metavar="TABLE", help="Table to export; repeatable (redisq spark schema)."
)
_LAKE = typer.Option("--lake", metavar="DIR", help="Folder of the Parquet files.")
_TRIM = typer.Option(
    "--on-trim", metavar="fail|report", help="What to do when history was trimmed meanwhile."
)

spark.command(
    "export",
    help="Export tables to a lake of Parquet files. history and dead continue "
    "where the last run ended; other tables have one snapshot a day.",
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
            "payloads": flag("--payloads", "Export payloads too."),
            "on_trim": (Annotated[str, _TRIM], "fail"),
            **RUNNING,
        },
        "spark_lake.exported",
    )
)

_STARTING = typer.Option("--starting", metavar="TEXT", help="Requests whose id starts with TEXT.")
_OUT_FORMAT = typer.Option("--format", metavar="FORMAT", help="parquet, json, csv, text.")

spark.command(
    "results",
    help="Write the results of requests to a folder, or with --single-file to "
    "one file, in order: by request (ID-1, ID-2 … ID-10), then by number. "
    "The format text has only the results.",
    epilog=examples(
        "redisq spark results out.parquet r1 r2 --queue mail",
        "redisq spark results out.txt --single-file --queue mail --starting today- --overwrite",
    ),
)(
    command(
        {
            "out": argument("OUT", help="Folder or file to write."),
            "requests": (Annotated[list[str] | None, typer.Argument(metavar="[REQUEST]...")], None),
            **QUEUE,
            "starting": (Annotated[str | None, _STARTING], None),
            "format": (Annotated[str | None, _OUT_FORMAT], None),
            "single_file": flag("--single-file", "Write one file with one task, not a folder."),
            "no_final_newline": flag("--no-final-newline", "End the last line without a newline."),
            "overwrite": flag("--overwrite", "Replace an existing folder or file."),
            **RUNNING,
        },
        "spark_lake.collected",
    )
)
