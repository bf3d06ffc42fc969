"""Read a dataset with the position of each row, and partition it by request.

All rows of a request are in one partition, sorted by their position in the input, however the input
was partitioned. So the same input gives the same requests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY
from redisq_ops.core.queues.request.submission import checked_request

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("text", "csv", "json", "parquet")
DEFAULT_PARTITIONS = 8
_FILE, _BLOCK, _ROW = "_redisq_file", "_redisq_block", "_redisq_row"
_NUMBER = "_redisq_number"
"""the row's number in the whole input, from 0"""
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_LINE, _PARSED = "_redisq_line", "_redisq_parsed"
_NOT_UTF8, _NOT_JSON_OBJECT = "not UTF-8", "no JSON object"
_HEADER_MISMATCH = "no row with the columns of the header"
_CORRUPT = "_corrupt_record"
"""column in which Spark keeps rows that it can't parse"""
_JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""options of rows as JSON, times in µs; Spark's default is ms"""


@dataclass(frozen=True, slots=True)
class DatasetOptions:
    """How rows become requests.

    ``id``: the column with the request's id. Without it, requests are ``name-1``, ``name-2``, … of
    ``rows`` rows each, in the order of the input. ``priority``: a number or a column.
    """

    queue: str
    id: str | None = None
    name: str | None = None
    rows: int = 100_000
    payload: str | None = None
    """column to send unchanged; None: send the row as JSON, or of a text file the line"""
    order: tuple[str, ...] = ()
    """columns that order a request's rows; default: their position in the files"""
    split: int = 1
    """rows per sub-request, joined by line feeds"""
    priority: str = str(PRIORITY)
    limit: int = LIMIT
    max_payload: int = MAX_PAYLOAD
    rate: float | None = None
    parts: int = DEFAULT_PARTITIONS

    def __post_init__(self) -> None:
        if (self.id is None) == (self.name is None):
            raise BadInput(
                "give either --id COLUMN, or --name NAME for requests of --rows rows each"
            )
        if min(self.split, self.rows, self.parts, self.max_payload) < 1:
            raise BadInput("--split, --rows, --parts and --max-payload must be 1 or more")
        priority = int(self.priority) if _WHOLE.fullmatch(self.priority) else PRIORITY
        checked_request(self.name or "id", priority, self.limit)

    def check_request(self, id: str | None, priority: int | None) -> None:
        """Raise `BadInput` if no request can have this id and priority."""
        if id is None:
            raise BadInput("no request id")
        if priority is None:
            raise BadInput("no priority from 0 (first) to 99")
        checked_request(id, priority, self.limit)


def read(
    spark: SparkSession, path: str, format: str | None = None, *, multiline: bool = False
) -> DataFrame:
    """A dataset with the position of each row: its file, the block, and the row's number.

    CSV files have the same header, double a quote inside quotes, and all values are text; with
    ``multiline`` a quoted value may contain line breaks, and one task reads a whole file. Lines of
    text end with a line feed only. Rows that can't be read, such as CSV and JSON that are not
    UTF-8, have the reason in a column of their own (see `partition_by_request`).
    """
    format = checked_format(path, format, multiline=multiline)
    if format == "csv":
        return _csv(spark, path, multiline)
    if format == "json":
        return _json(spark, path)
    reader = spark.read.format(format)
    if format == "text":
        reader = reader.option("lineSep", "\n")
    return reader.load(path).select("*", *_position_columns())


def _position_columns() -> list[Column]:
    from pyspark.sql import functions as F

    return [
        F.col("_metadata.file_path").alias(_FILE),
        F.col("_metadata.file_block_start").alias(_BLOCK),
        F.monotonically_increasing_id().alias(_ROW),
    ]


def _csv(spark: SparkSession, path: str, multiline: bool) -> DataFrame:
    """CSV, read as Latin-1, which accepts any bytes.

    As UTF-8, Spark would silently replace invalid bytes by U+FFFD.
    """
    from pyspark.sql import functions as F

    reader = spark.read.format("csv").option("header", True).option("escape", '"')
    reader = reader.option("encoding", "ISO-8859-1").option("multiLine", multiline)
    # A row is valid or not, whichever columns are selected.
    reader = reader.option("columnPruning", False)
    frame = reader.load(path)
    if not frame.columns:
        raise BadInput(f"{path}: the file has no header line")
    if not multiline and _has_open_quote(spark, path):
        raise BadInput(
            f"{path}: a line has an odd number of quotes: "
            "use --multiline if quoted values have line breaks"
        )
    partition_columns = _partition_columns(frame)
    # The file's header is compared with these names: its columns may be in another order.
    reader = reader.option("enforceSchema", False).option("columnNameOfCorruptRecord", _CORRUPT)
    names = frame.columns  # taken before `schema.add` below, which changes the frame's schema
    rows = reader.schema(frame.schema.add(_CORRUPT, "string")).load(path)
    columns, valid = [], F.lit(True)
    for name in names:
        column = _exact_column(name)
        if name not in partition_columns:
            column = F.encode(column, "ISO-8859-1").cast("string")
            valid = valid & F.coalesce(F.is_valid_utf8(column), F.lit(True))
            name = _utf8_name(name, path)
        columns.append(column.alias(name))
    reason = F.when(~valid, _NOT_UTF8).otherwise(F.col(_CORRUPT))
    return rows.select(*columns, reason.alias(_CORRUPT), *_position_columns())


def _has_open_quote(spark: SparkSession, path: str) -> bool:
    """Whether a line has an odd number of quotes, so a value seems to continue in the next line.

    Spark would cut it off there without an error.
    """
    from pyspark.sql import functions as F

    line = F.col("value")
    quotes = F.length(line) - F.length(F.replace(line, F.lit('"'), F.lit("")))
    return bool(spark.read.text(path).where(quotes % 2 == 1).limit(1).collect())


def _partition_columns(frame: DataFrame) -> set[str]:
    """Columns from folder names ``column=value``."""
    files = frame.inputFiles()[:1]
    return {
        unquote(word).partition("=")[0] for file in files for word in file.split("/") if "=" in word
    } & set(frame.columns)


def _utf8_name(name: str, path: str) -> str:
    try:
        return name.encode("latin-1").decode("utf-8-sig")
    except UnicodeError as error:
        raise BadInput(f"{path}: the header isn't UTF-8") from error


def _json(spark: SparkSession, path: str) -> DataFrame:
    """Each line unchanged, and its fields as text.

    Spark infers types from the whole input: correcting one row would change ``1`` to ``1.0`` in
    every other row.
    """
    from pyspark.sql import functions as F

    lines = spark.read.text(path)
    partition_columns = [name for name in lines.columns if name != "value"]
    known = spark.read.option("columnNameOfCorruptRecord", _CORRUPT).json(path).columns
    columns_in_data = [name for name in known if name not in (*partition_columns, _CORRUPT)]
    lines = lines.where(F.col("value").rlike(r"\S")).select("*", *_position_columns())
    # In brackets, so that text after the object makes the line invalid.
    parsed = F.try_parse_json(F.concat(F.lit("["), F.col("value"), F.lit("]")))
    lines = lines.withColumn(_PARSED, parsed)
    is_single_object = F.ltrim("value").startswith("{") & (
        F.try_variant_get(_PARSED, "$[1]", "variant").isNull()
    )
    reason = F.when(~F.is_valid_utf8("value"), _NOT_UTF8).when(
        F.col(_PARSED).isNull() | ~is_single_object, _NOT_JSON_OBJECT
    )
    fields = [
        F.try_variant_get(_PARSED, _field(name), "string").alias(name) for name in columns_in_data
    ]
    return lines.select(
        *fields,
        *map(_exact_column, partition_columns),
        F.col("value").alias(_LINE),
        reason.alias(_CORRUPT),
        _FILE,
        _BLOCK,
        _ROW,
    )


def _field(name: str) -> str:
    return f"$[0]['{name}']" if "'" not in name else f'$[0]["{name}"]'


def _exact_column(name: str) -> Column:
    """The column of exactly this name; without quotes Spark reads a dot as a struct's field."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def check_file(path: str) -> None:
    """Raise `BadInput` if a file or folder of this machine does not exist.

    A URL, or a pattern of several files, is left to Spark.
    """
    if not re.search(r"://|[*?\[{]", path) and not Path(path).exists():
        raise BadInput(f"{path}: no such file or folder")


def checked_format(path: str, format: str | None, *, multiline: bool = False) -> str:
    """The given format, else the one that the file's name suggests."""
    format = format or guess_format(path)
    if format not in FORMATS:
        raise BadInput(f"--format {format}: must be one of {', '.join(FORMATS)}")
    if multiline and format != "csv":
        raise BadInput(f"--multiline is for CSV, not {format}")
    return format


def guess_format(path: str) -> str:
    """The format by the end of a file name; text if it is unknown."""
    name = path.rstrip("/").lower().removesuffix(".gz")
    ends = {"csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet"}
    return ends.get(name.rpartition(".")[2], "text")


def partition_by_request(
    frame: DataFrame, options: DatasetOptions, *, sizes: bool = False
) -> DataFrame:
    """The rows as ``request``, ``priority`` and ``payload``, each request in one partition and in
    order.

    The result does not depend on how the input is partitioned.

    ``sizes``: instead of the payload its ``size``, then ``row``, its position in the input (see
    `file_blocks`), and ``reason``, why it can't be read. Only then are unreadable rows included.
    """
    from pyspark.sql import functions as F

    frame = number_rows(frame, options)
    own = (_FILE, _BLOCK, _ROW, _NUMBER, _LINE, _CORRUPT)
    columns_in_data = [name for name in frame.columns if name not in own]
    for name in (options.id, options.payload, *options.order):
        if name is not None and name not in columns_in_data:
            raise BadInput(
                f"the dataset has no column {name!r}: it has {', '.join(columns_in_data)}"
            )
    if options.payload is not None:
        payload = _exact_column(options.payload).cast("binary")
    elif _LINE in frame.columns:
        payload = F.col(_LINE).cast("binary")
    elif columns_in_data == ["value"]:
        payload = F.col("value").cast("binary")
    else:
        payload = F.to_json(F.struct(*map(_exact_column, columns_in_data)), _JSON_OPTIONS).cast(
            "binary"
        )
    positions = [name for name in (_FILE, _BLOCK, _ROW) if name in frame.columns]
    order = [_exact_column(name) for name in options.order or positions]
    if options.order and _LINE in frame.columns:  # all fields are text: sort numbers by value
        order = [key for column in order for key in (column.try_cast("double"), column)]
    priority = F.lit(int(options.priority)) if options.priority.isdecimal() else None
    if priority is None and options.priority not in columns_in_data:
        raise BadInput(
            f"priority {options.priority!r}: neither 0 (first) to 99 nor a column of the dataset"
        )
    if priority is None:
        priority = _exact_column(options.priority).try_cast("int")
    if options.id is not None:
        request = _exact_column(options.id).cast("string")
    else:
        nth = (F.floor(F.col(_NUMBER) / options.rows) + 1).cast("string")
        request = F.concat(F.lit(f"{options.name}-"), nth)
    reason = F.lit(None).cast("string")
    if _CORRUPT in frame.columns and sizes:
        # For CSV the column may hold the row's text, which must not be in a report.
        known = F.col(_CORRUPT).isin(_NOT_UTF8, _NOT_JSON_OBJECT)
        reason = F.when(known, F.col(_CORRUPT)).otherwise(_HEADER_MISMATCH)
        reason = F.when(F.col(_CORRUPT).isNotNull(), reason)
    elif _CORRUPT in frame.columns:  # after numbering, so that other rows keep their numbers
        frame = frame.where(F.col(_CORRUPT).isNull())
    keys = [F.col(f"_order{n}") for n in range(len(order))]
    # The payload last, so that rows which are otherwise equal have a fixed order too.
    last = [] if sizes and positions and not options.order else [F.col("payload")]
    columns = [
        request.alias("request"),
        priority.cast("int").alias("priority"),
        *(column.alias(f"_order{n}") for n, column in enumerate(order)),
    ]
    if last:
        columns.append(payload.alias("payload"))
    if sizes:
        row = F.col(_ROW) if _ROW in positions else F.lit(None)
        columns += [
            F.octet_length(payload).cast("long").alias("size"),
            row.cast("long").alias("row"),
            reason.alias("reason"),
        ]
    chosen = frame.select(*columns).repartition(options.parts, "request")
    sorted_ = chosen.sortWithinPartitions("request", *keys, *last)
    wanted = ("size", "row", "reason") if sizes else ("payload",)
    return sorted_.select("request", "priority", *wanted)


@dataclass(frozen=True, slots=True)
class FileBlock:
    """Rows of a file that one task reads together."""

    file: str
    start: int
    """position of its first byte in the file"""
    first: int
    """value of the row-number column of its first row; the following rows count up"""
    rows_before: int
    """rows of the input before it"""
    rows_before_in_file: int
    """rows of its file before it"""


def file_blocks(frame: DataFrame) -> list[FileBlock]:
    """The blocks of a dataset in order; none if its rows are not from files."""
    from pyspark.sql import functions as F

    if _FILE not in frame.columns:
        return []
    rows = (
        frame.groupBy(_FILE, _BLOCK)
        .agg(F.count("*").alias("n"), F.min(_ROW).alias("first"))
        .orderBy(_FILE, _BLOCK)
        .collect()
    )
    blocks: list[FileBlock] = []
    before = rows_before_in_file = 0
    for file, start, n, first in rows:
        if not blocks or blocks[-1].file != file:
            rows_before_in_file = 0
        blocks.append(FileBlock(file, start, first, before, rows_before_in_file))
        before += n
        rows_before_in_file += n
    return blocks


def number_rows(frame: DataFrame, options: DatasetOptions) -> DataFrame:
    """The dataset with each row's number in the whole input, if its requests need numbers that
    it doesn't have yet.

    Reads the whole input, but moves no rows between partitions.
    """
    import pyarrow as pa
    from pyspark.sql import functions as F

    if options.id is not None or _NUMBER in frame.columns:
        return frame
    if _ROW not in frame.columns:
        raise BadInput("without --id the rows must come from files: only those have an order")
    blocks = file_blocks(frame)
    if not blocks:
        return frame.withColumn(_NUMBER, F.col(_ROW))
    # As Arrow; from a list of tuples Spark would start another Python process.
    starts = pa.table(
        {
            _FILE: pa.array([block.file for block in blocks], pa.string()),
            _BLOCK: pa.array([block.start for block in blocks], pa.int64()),
            "_shift": pa.array([block.rows_before - block.first for block in blocks], pa.int64()),
        }
    )
    shifts = frame.sparkSession.createDataFrame(starts)
    joined = frame.join(F.broadcast(shifts), [_FILE, _BLOCK])
    return joined.withColumn(_NUMBER, F.col("_shift") + F.col(_ROW)).drop("_shift")
