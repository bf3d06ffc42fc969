"""A dataset as it becomes requests: read with the place of each row, and arranged by request.

Rows of a request are in one partition, sorted: as they stood in the input, whatever the partitions
of that were. So the same input gives the same requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY
from redisq_ops.core.queues.request.submission import checked_request

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("text", "csv", "json", "parquet")
PARTS = 8
_FILE, _BLOCK, _ROW = "_redisq_file", "_redisq_block", "_redisq_row"
_LINE, _PARSED = "_redisq_line", "_redisq_parsed"
_NOT_UTF8, _NO_OBJECT = "not UTF-8", "no JSON object"
_NO_ROW = "no row with the columns of the header"
_CORRUPT = "_corrupt_record"
"""the column in which Spark keeps a row it can't read"""
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""a row as JSON, moments to the microsecond: Spark's own way is to the millisecond"""


@dataclass(frozen=True, slots=True)
class DatasetOptions:
    """How rows become requests.

    ``id``: the column with the request's id. Without one, requests are ``name-1``, ``name-2`` …
    of ``rows`` rows each, in the order of the input. ``priority``: a number or a column.
    """

    queue: str
    id: str | None = None
    name: str | None = None
    rows: int = 100_000
    payload: str | None = None
    """the column whose bytes are sent as they are; None: the row as JSON, of text its line"""
    order: tuple[str, ...] = ()
    """columns that order a request's rows; none: as they stand in the files"""
    split: int = 1
    """rows of a sub-request, joined by line ends"""
    priority: str = str(PRIORITY)
    limit: int = LIMIT
    max_payload: int = MAX_PAYLOAD
    rate: float | None = None
    parts: int = PARTS

    def __post_init__(self) -> None:
        if (self.id is None) == (self.name is None):
            raise BadInput("say --id COLUMN, or --name NAME for requests of --rows rows each")
        if self.split < 1 or self.rows < 1 or self.parts < 1:
            raise BadInput("--split, --rows and --parts are for 1 or more")
        level = int(self.priority) if self.priority.isdecimal() else PRIORITY
        checked_request(self.name or "id", level, self.limit)

    def checked(self, id: str | None, priority: int | None) -> None:
        """`BadInput` where no request can have that id and priority."""
        if id is None:
            raise BadInput("no request id")
        if priority is None:
            raise BadInput("no priority")
        checked_request(id, priority, self.limit)


def read(
    spark: SparkSession, path: str, format: str | None = None, *, multiline: bool = False
) -> DataFrame:
    """A dataset with the place of each row beside: its file, the block, and the row in that.

    CSV has a header, the same in each file, doubles quotes inside of quotes, and is all text; with
    ``multiline`` a quoted value may have line breaks, and a file is read by one task. Of text a
    line ends with a line feed and nothing else. Rows that can't be read as what they should be,
    such as CSV and JSON that isn't UTF-8, have a column that says so (see `arranged`).
    """
    format = format or guessed(path)
    if format not in FORMATS:
        raise BadInput(f"--format {format}: {', '.join(FORMATS)}")
    if multiline and format != "csv":
        raise BadInput(f"--multiline is for CSV, not {format}")
    if format == "csv":
        return _csv(spark, path, multiline)
    if format == "json":
        return _json(spark, path)
    reader = spark.read.format(format)
    if format == "text":
        reader = reader.option("lineSep", "\n")
    return reader.load(path).select("*", *_places())


def _places() -> list[Column]:
    from pyspark.sql import functions as F

    return [
        F.col("_metadata.file_path").alias(_FILE),
        F.col("_metadata.file_block_start").alias(_BLOCK),
        F.monotonically_increasing_id().alias(_ROW),
    ]


def _csv(spark: SparkSession, path: str, multiline: bool) -> DataFrame:
    """Read as Latin-1, which any bytes are: as UTF-8 Spark would put U+FFFD for what isn't, and
    nobody would see it."""
    from pyspark.sql import functions as F

    reader = spark.read.format("csv").option("header", True).option("escape", '"')
    reader = reader.option("encoding", "ISO-8859-1").option("multiLine", multiline)
    # A row is whole or not whichever of its columns are asked for.
    reader = reader.option("columnPruning", False)
    found = reader.load(path)
    if not found.columns:
        raise BadInput(f"{path}: no header, so no columns")
    if not multiline and _breaks(spark, path):
        raise BadInput(
            f"{path}: a line has a quote without another one: "
            "add --multiline if quoted values have line breaks"
        )
    given = _of_folders(found)
    # Names of a file's header are compared with these: the files' columns may be in another order.
    reader = reader.option("enforceSchema", False).option("columnNameOfCorruptRecord", _CORRUPT)
    names = found.columns  # adding to its schema adds to these
    rows = reader.schema(found.schema.add(_CORRUPT, "string")).load(path)
    columns, whole = [], F.lit(True)
    for name in names:
        column = _named(name)
        if name not in given:
            column = F.encode(column, "ISO-8859-1").cast("string")
            whole = whole & F.coalesce(F.is_valid_utf8(column), F.lit(True))
            name = _text(name, path)
        columns.append(column.alias(name))
    why = F.when(~whole, _NOT_UTF8).otherwise(F.col(_CORRUPT))
    return rows.select(*columns, why.alias(_CORRUPT), *_places())


def _breaks(spark: SparkSession, path: str) -> bool:
    """Whether a value seems to go on in the next line, which Spark would cut off there unseen."""
    from pyspark.sql import functions as F

    line = F.col("value")
    quotes = F.length(line) - F.length(F.replace(line, F.lit('"'), F.lit("")))
    return bool(spark.read.text(path).where(quotes % 2 == 1).limit(1).collect())


def _of_folders(found: DataFrame) -> set[str]:
    """Columns that aren't in the files: folders are named ``column=value``."""
    files = found.inputFiles()[:1]
    return {unquote(word).partition("=")[0] for file in files for word in file.split("/")
            if "=" in word} & set(found.columns)  # fmt: skip


def _text(name: str, path: str) -> str:
    try:
        return name.encode("latin-1").decode("utf-8-sig")
    except UnicodeError as error:
        raise BadInput(f"{path}: the header isn't UTF-8") from error


def _json(spark: SparkSession, path: str) -> DataFrame:
    """Each line as it stands, and of its fields the text. Types that Spark infers are of the whole
    input: mending one row would make ``1.0`` of every other row's ``1``."""
    from pyspark.sql import functions as F

    lines = spark.read.text(path)
    given = [name for name in lines.columns if name != "value"]
    known = spark.read.option("columnNameOfCorruptRecord", _CORRUPT).json(path).columns
    own = [name for name in known if name not in (*given, _CORRUPT)]
    lines = lines.where(F.col("value").rlike(r"\S")).select("*", *_places())
    # In brackets, so that what stands behind the row makes it none.
    parsed = F.try_parse_json(F.concat(F.lit("["), F.col("value"), F.lit("]")))
    lines = lines.withColumn(_PARSED, parsed)
    one = F.ltrim("value").startswith("{") & (
        F.try_variant_get(_PARSED, "$[1]", "variant").isNull()
    )
    why = F.when(~F.is_valid_utf8("value"), _NOT_UTF8).when(
        F.col(_PARSED).isNull() | ~one, _NO_OBJECT
    )
    fields = [F.try_variant_get(_PARSED, _field(name), "string").alias(name) for name in own]
    return lines.select(
        *fields, *map(_named, given), F.col("value").alias(_LINE), why.alias(_CORRUPT),
        _FILE, _BLOCK, _ROW,
    )  # fmt: skip


def _field(name: str) -> str:
    return f"$[0]['{name}']" if "'" not in name else f'$[0]["{name}"]'


def _named(name: str) -> Column:
    """The column of exactly that name; by itself Spark takes a dot for a field of a struct."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def guessed(path: str) -> str:
    """A format by the end of a name; what tells nothing is text."""
    name = path.rstrip("/").lower().removesuffix(".gz")
    ends = {"csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet"}
    return ends.get(name.rpartition(".")[2], "text")


def arranged(frame: DataFrame, asked: DatasetOptions, *, sizes: bool = False) -> DataFrame:
    """The rows as ``request``, ``priority`` and ``payload``, each request in one partition and in
    its order. Whatever the partitions of the input were, the same input gives the same requests.

    ``sizes``: instead of the payload its ``size``, then ``row``, its place in the input (see
    `blocks`), and ``reason``, why it can't be read. Only so are there rows that can't be read.
    """
    from pyspark.sql import functions as F

    own = [n for n in frame.columns if n not in (_FILE, _BLOCK, _ROW, _LINE, _CORRUPT)]
    for name in (asked.id, asked.payload, *asked.order):
        if name is not None and name not in own:
            raise BadInput(f"the dataset has no column {name!r}: it has {', '.join(own)}")
    if asked.payload is not None:
        payload = _named(asked.payload).cast("binary")
    elif _LINE in frame.columns:
        payload = F.col(_LINE).cast("binary")
    elif own == ["value"]:
        payload = F.col("value").cast("binary")
    else:
        payload = F.to_json(F.struct(*map(_named, own)), _JSON).cast("binary")
    placed = [name for name in (_FILE, _BLOCK, _ROW) if name in frame.columns]
    order = [_named(name) for name in asked.order or placed]
    if asked.order and _LINE in frame.columns:  # fields as text: numbers are in order all the same
        order = [key for column in order for key in (column.try_cast("double"), column)]
    level = F.lit(int(asked.priority)) if asked.priority.isdecimal() else None
    if level is None and asked.priority not in own:
        raise BadInput(f"the dataset has no column {asked.priority!r} to take the priority from")
    if level is None:
        level = _named(asked.priority).try_cast("int")
    if asked.id is not None:
        request = _named(asked.id).cast("string")
    else:
        frame, number = _numbered(frame, placed)
        request = F.concat(
            F.lit(f"{asked.name}-"), (F.floor(number / asked.rows) + 1).cast("string")
        )
    reason = F.lit(None).cast("string")
    if _CORRUPT in frame.columns and sizes:
        # Of CSV the column may hold the row itself, which isn't for a report.
        known = F.col(_CORRUPT).isin(_NOT_UTF8, _NO_OBJECT)
        why = F.when(known, F.col(_CORRUPT)).otherwise(_NO_ROW)
        reason = F.when(F.col(_CORRUPT).isNotNull(), why)
    elif _CORRUPT in frame.columns:  # numbered like the others, so that these stay where they are
        frame = frame.where(F.col(_CORRUPT).isNull())
    keys = [F.col(f"_order{n}") for n in range(len(order))]
    # The payload last: rows nothing else tells apart are in one order all the same.
    last = [] if sizes and placed and not asked.order else [F.col("payload")]
    columns = [
        request.alias("request"), level.cast("int").alias("priority"),
        *(column.alias(f"_order{n}") for n, column in enumerate(order)),
    ]  # fmt: skip
    if last:
        columns.append(payload.alias("payload"))
    if sizes:
        row = F.col(_ROW) if _ROW in placed else F.lit(None)
        columns += [
            F.octet_length(payload).cast("long").alias("size"), row.cast("long").alias("row"),
            reason.alias("reason"),
        ]  # fmt: skip
    chosen = frame.select(*columns).repartition(asked.parts, "request")
    sorted_ = chosen.sortWithinPartitions("request", *keys, *last)
    wanted = ("size", "row", "reason") if sizes else ("payload",)
    return sorted_.select("request", "priority", *wanted)


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a file that are read together."""

    file: str
    start: int
    """the byte of the file it begins with"""
    first: int
    """the number in the column of rows of its first row; the others count up from there"""
    before: int
    """rows of the input in front of it"""
    of_file: int
    """rows of its file in front of it"""


def blocks(frame: DataFrame) -> list[Block]:
    """The blocks of a dataset, in order; none where its rows aren't from files."""
    from pyspark.sql import functions as F

    if _FILE not in frame.columns:
        return []
    found = (
        frame.groupBy(_FILE, _BLOCK).agg(F.count("*").alias("n"), F.min(_ROW).alias("first"))
        .orderBy(_FILE, _BLOCK).collect()
    )  # fmt: skip
    made: list[Block] = []
    before = of_file = 0
    for file, start, n, first in found:
        if not made or made[-1].file != file:
            of_file = 0
        made.append(Block(file, start, first, before, of_file))
        before += n
        of_file += n
    return made


def _numbered(frame: DataFrame, placed: Sequence[str]) -> tuple[DataFrame, Any]:
    """Every row's number in the input, from 0, without bringing the rows to one place."""
    from pyspark.sql import functions as F

    if not placed:
        raise BadInput("without --id the rows have to come from files: only those have an order")
    found = blocks(frame)
    if not found:
        return frame, F.col(_ROW)
    starts = [(block.file, block.start, block.before - block.first) for block in found]
    shifts = frame.sparkSession.createDataFrame(
        starts, f"{_FILE} string, {_BLOCK} long, _shift long"
    )
    return frame.join(F.broadcast(shifts), [_FILE, _BLOCK]), F.col("_shift") + F.col(_ROW)
