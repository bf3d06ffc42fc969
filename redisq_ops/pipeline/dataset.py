"""A dataset as it becomes requests: read with the place of each row, and arranged by request.

Rows of a request are in one partition, sorted: as they stood in the input, whatever the partitions
of that were. So the same input gives the same requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redisq_ops.core.errors import BadInput
from redisq_ops.core.request.queue import checked_request
from redisq_ops.core.settings import LIMIT, MAX_PAYLOAD, PRIORITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("text", "csv", "json", "parquet")
PARTS = 8
_FILE, _BLOCK, _ROW = "_redisq_file", "_redisq_block", "_redisq_row"
_CORRUPT = "_corrupt_record"
"""the column in which Spark keeps a row it can't read"""


@dataclass(frozen=True, slots=True)
class Asked:
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


def read(spark: SparkSession, path: str, format: str | None = None) -> DataFrame:
    """A dataset with the place of each row beside: its file, the block, and the row in that.

    CSV has a header and only text; of text a line ends with a line feed and nothing else. Rows that
    can't be read as what they should be have nothing but a column that says so (`corrupt`).
    """
    from pyspark.sql import functions as F

    format = format or guessed(path)
    if format not in FORMATS:
        raise BadInput(f"--format {format}: {', '.join(FORMATS)}")
    reader = spark.read.format(format)
    if format == "text":
        reader = reader.option("lineSep", "\n")
    if format == "csv":
        # A row is whole or not whichever of its columns are asked for.
        reader = reader.option("header", True).option("columnPruning", False)
        reader = reader.schema(reader.load(path).schema.add(_CORRUPT, "string"))
    if format in ("csv", "json"):
        reader = reader.option("columnNameOfCorruptRecord", _CORRUPT)
    frame = reader.load(path)
    return frame.select(
        "*",
        F.col("_metadata.file_path").alias(_FILE),
        F.col("_metadata.file_block_start").alias(_BLOCK),
        F.monotonically_increasing_id().alias(_ROW),
    )


def guessed(path: str) -> str:
    """A format by the end of a name; what tells nothing is text."""
    name = path.rstrip("/").lower().removesuffix(".gz")
    ends = {"csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet"}
    return ends.get(name.rpartition(".")[2], "text")


def arranged(frame: DataFrame, asked: Asked) -> DataFrame:
    """The rows as ``request``, ``priority`` and ``payload``, each request in one partition and in
    its order. Whatever the partitions of the input were, the same input gives the same requests."""
    from pyspark.sql import functions as F

    own = [name for name in frame.columns if name not in (_FILE, _BLOCK, _ROW, _CORRUPT)]
    for name in (asked.id, asked.payload, *asked.order):
        if name is not None and name not in own:
            raise BadInput(f"the dataset has no column {name!r}: it has {', '.join(own)}")
    if asked.payload is not None:
        payload = F.col(asked.payload).cast("binary")
    elif own == ["value"]:
        payload = F.col("value").cast("binary")
    else:
        row = F.struct(*(F.col(f"`{name}`") for name in own))
        payload = F.to_json(row, {"ignoreNullFields": "false"}).cast("binary")
    placed = [name for name in (_FILE, _BLOCK, _ROW) if name in frame.columns]
    order = [F.col(name) for name in asked.order or placed]
    level = F.lit(int(asked.priority)) if asked.priority.isdecimal() else None
    if level is None and asked.priority not in own:
        raise BadInput(f"the dataset has no column {asked.priority!r} to take the priority from")
    if level is None:
        level = F.col(asked.priority).try_cast("int")
    if asked.id is not None:
        request = F.col(asked.id).cast("string")
    else:
        frame, number = _numbered(frame, placed)
        request = F.concat(
            F.lit(f"{asked.name}-"), (F.floor(number / asked.rows) + 1).cast("string")
        )
    if _CORRUPT in frame.columns:  # numbered like the others, so that these stay where they are
        frame = frame.where(F.col(_CORRUPT).isNull())
    keys = [F.col(f"_order{n}") for n in range(len(order))]
    chosen = frame.select(
        request.alias("request"), level.cast("int").alias("priority"), payload.alias("payload"),
        *(column.alias(f"_order{n}") for n, column in enumerate(order)),
    )  # fmt: skip
    # The payload last: rows nothing else tells apart are in one order all the same.
    chosen = chosen.repartition(asked.parts, "request")
    sorted_ = chosen.sortWithinPartitions("request", *keys, "payload")
    return sorted_.select("request", "priority", "payload")


def corrupt(frame: DataFrame) -> int:
    """How many rows can't be read; they are left out."""
    from pyspark.sql import functions as F

    if _CORRUPT not in frame.columns:
        return 0
    # The column can't be asked for alone, so another is looked at and not used.
    other = next(name for name in frame.columns if name != _CORRUPT)
    rows = frame.where(F.col(_CORRUPT).isNotNull())
    found = rows.agg(F.count("*"), F.max(F.col(f"`{other}`").cast("string"))).collect()
    return int(found[0][0])


def _numbered(frame: DataFrame, placed: Sequence[str]) -> tuple[DataFrame, Any]:
    """Every row's number in the input, from 0, without bringing the rows to one place."""
    from pyspark.sql import functions as F

    if not placed:
        raise BadInput("without --id the rows have to come from files: only those have an order")
    blocks = (
        frame.groupBy(_FILE, _BLOCK).agg(F.count("*").alias("n"), F.min(_ROW).alias("first"))
        .orderBy(_FILE, _BLOCK).collect()
    )  # fmt: skip
    if not blocks:
        return frame, F.col(_ROW)
    starts, before = [], 0
    for block in blocks:
        starts.append((block[_FILE], block[_BLOCK], before - block["first"]))
        before += block["n"]
    shifts = frame.sparkSession.createDataFrame(
        starts, f"{_FILE} string, {_BLOCK} long, _shift long"
    )
    return frame.join(F.broadcast(shifts), [_FILE, _BLOCK]), F.col("_shift") + F.col(_ROW)


@dataclass(frozen=True, slots=True)
class Sized:
    """What a dataset would become."""

    requests: int
    entries: int
    rows: int
    bytes: int
    corrupt: int
    """rows that can't be read, and would be left out"""


def sized(frame: DataFrame, asked: Asked) -> Sized:
    """Count it; sends nothing."""
    from pyspark.sql import functions as F

    each = arranged(frame, asked).groupBy("request").agg(
        F.count("*").alias("rows"), F.sum(F.octet_length("payload")).alias("bytes")
    )  # fmt: skip
    found = each.agg(
        F.count("*"), F.sum(F.ceil(F.col("rows") / asked.split)), F.sum("rows"), F.sum("bytes")
    ).collect()[0]
    requests, entries, rows, size = (int(value or 0) for value in found)
    return Sized(requests, entries, rows, size, corrupt(frame))
