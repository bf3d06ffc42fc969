"""`redisq spark export | results`: tables into a lake of Parquet, and requests' results."""

from __future__ import annotations

from ..options import add, argument, flag, option
from .spark import QUEUE, RUNNING, spark

add(
    spark, "export",
    {
        "table": option(
            "--table", "TABLE", "Table to export; repeatable (redisq spark schema).", list[str],
            default=...,
        ),
        "lake": option("--lake", "DIR", "Folder of the Parquet files.", default=...),
        **QUEUE,
        "payloads": flag("--payloads", "Export payloads too."),
        "on_trim": option(
            "--on-trim", "fail|report", "What to do when history was trimmed meanwhile.",
            default="fail",
        ),
        **RUNNING,
    },
    "spark_lake.exported",
    help="Export tables to a lake of Parquet files. history and dead continue where the last run "
    "ended; other tables have one snapshot a day.",
    prints="SparkExport",
    examples=(
        "redisq spark export --table history --lake /lake",
        "redisq spark export --table dead --table requests --lake /lake --queue mail --json",
    ),
)  # fmt: skip

add(
    spark, "history",
    {
        "lake": option("--lake", "DIR", "Folder of the Parquet files.", default=...),
        "interval": option("--every", "AGE", "Repeat until Ctrl+C, this long after each export."),
        "keep": option("--keep", "AGE", "Delete days that ended longer ago than this."),
        **QUEUE,
        "on_trim": option(
            "--on-trim", "fail|report", "What to do when history was trimmed meanwhile.",
            default="fail",
        ),
        **RUNNING,
    },
    "spark_lake.kept",
    help="Keep a lake's history up to date: export new events, merge the small files of past days, "
    "and delete old days. Stop it anywhere: the next run continues.",
    prints="SparkExport",
    examples=(
        "redisq spark history --lake /lake --every 5m --keep 90d",
        "redisq spark history --lake /lake",
    ),
)  # fmt: skip

add(
    spark, "results",
    {
        "out": argument("OUT", help="Folder or file to write."),
        "requests": argument("[REQUEST]...", list[str]),
        **QUEUE,
        "starting": option("--starting", "TEXT", "Requests whose id starts with TEXT."),
        "format": option("--format", "FORMAT", "parquet, json, csv, text."),
        "single_file": flag("--single-file", "Write one file with one task, not a folder."),
        "overwrite": flag("--overwrite", "Replace an existing folder or file."),
        **RUNNING,
    },
    "spark_lake.collected",
    help="Write the results of requests to a folder, or with --single-file to one file, in order: "
    "by request (ID-1, ID-2 … ID-10), then by number. The format text has only the results.",
    prints="SparkResults",
    examples=(
        "redisq spark results out.parquet r1 r2 --queue mail",
        "redisq spark results out.txt --single-file --queue mail --starting today- --overwrite",
    ),
)  # fmt: skip
