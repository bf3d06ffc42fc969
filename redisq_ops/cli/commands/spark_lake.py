"""`redisq spark export | results`: tables into a lake of Delta tables, and requests' results."""

from ..options import argument, command, flag, option, options
from ..session import Session
from .spark import SPARK_QUEUE, Running, spark

_LAKE = option(
    "--lake", "LAKE", "Folder of the Delta tables, or URL of an object store.", default=...
)
_ON_TRIM = option(
    "--on-trim", "fail|report", "What to do when history was trimmed meanwhile.", default="fail"
)


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
    from ..actions.spark_lake import exported

    return exported(s, given)


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
    from ..actions.spark_lake import kept

    return kept(s, given)


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
    from ..actions.spark_lake import collected

    return collected(s, given)
