"""Requests' results as a dataset, sorted by request and number."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import BadInput, NotFound, Refused
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE

from ..source.job_errors import translating

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FORMATS = ("parquet", "json", "csv", "text")
_COLUMNS = ("queue", "request", "number", "state", "result", "error_type", "error", "_corrupt")


@dataclass(frozen=True, slots=True)
class WrittenResults:
    """Sub-requests by state, and the number of results written."""

    states: Mapping[str, int]
    results: int

    @property
    def complete(self) -> bool:
        """Whether all sub-requests are done."""
        return set(self.states) <= {"done"}

    @property
    def exit_code(self) -> int:
        return DONE if self.complete else PARTLY_DONE


def select_requests(frame: DataFrame, requests: Sequence[str] = (), prefix: str = "") -> DataFrame:
    """The results of the named requests, or of all whose id begins with ``prefix``."""
    from pyspark.sql import functions as F

    if requests:
        frame = frame.where(F.col("request").isin(*requests))
    if prefix:
        frame = frame.where(F.col("request").startswith(prefix))
    return frame.select(*_COLUMNS)


def check_output(out: Path, format: str, *, overwrite: bool) -> None:
    """Refuse an output that can't be written, before anything is read."""
    if format not in FORMATS:
        raise BadInput(f"--format {format}: must be one of {', '.join(FORMATS)}")
    if out.exists() and not overwrite:
        raise Refused(f"{out} exists already: use --overwrite to replace it")


def write(
    frame: DataFrame,
    out: Path,
    format: str,
    *,
    overwrite: bool = False,
    require_rows: bool = False,
    single_file: bool = False,
) -> WrittenResults:
    """Write results to the folder ``out``, sorted by queue, request and number.

    Requests of one name are sorted by the number they end with: ``day-2`` before ``day-10``. The
    output is replaced atomically: an interrupted call leaves the previous output, or none.

    ``text`` has the bytes of the results only, each followed by a line feed; a sub-request without
    a result has no line. ``require_rows``: raise `NotFound` and write nothing if there is no
    sub-request. ``single_file``: ``out`` is one file, written by one task.
    """
    out = out.absolute()
    check_output(out, format, overwrite=overwrite)
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        # Read the server once, so that the counts belong to the written rows.
        rows = temporary / "rows"
        translating(lambda: _sorted_rows(frame).write.parquet(rows.as_uri()))
        read = frame.sparkSession.read.schema(frame.schema).parquet(rows.as_uri())
        states = _state_counts(read)
        if require_rows and not states:
            raise NotFound("there is no request with a sub-request: nothing was written")
        if format == "parquet" and not single_file:
            _replace(rows, out)
        else:
            formatted = _text_rows(read) if format == "text" else _readable_rows(read)
            formatted = _sorted_rows(read) if format == "parquet" else formatted
            if format == "csv":
                formatted = _without_formulas(formatted)
            options = {"header": "true"} if format == "csv" else {}
            if format == "json":
                options = {"ignoreNullFields": "false"}
            if single_file:
                formatted = formatted.coalesce(1)
            writer = formatted.write.format(format).options(**options)
            translating(lambda: writer.save((temporary / "shown").as_uri()))
            if single_file:
                _replace(_single_file(temporary / "shown"), out)
            else:
                _replace(temporary / "shown", out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return WrittenResults(
        {state: n for state, (n, _) in states.items()},
        sum(results for _, results in states.values()),
    )


def _sorted_rows(frame: DataFrame) -> DataFrame:
    """Rows in sorted ranges, one file per range."""
    from pyspark.sql import functions as F

    request = F.col("request")
    last = F.regexp_extract(request, "([0-9]*)$", 1)
    stem = F.substring(request, F.lit(1), F.length(request) - F.length(last))
    # Without leading zeros, the longer number is the greater one, whatever its length.
    digits = F.regexp_replace(last, "^0+", "")
    keys = [F.col("queue"), stem, F.length(digits), digits, request, F.col("number")]
    return frame.repartitionByRange(*keys).sortWithinPartitions(*keys)


def _single_file(folder: Path) -> Path:
    """The file of a folder that one task wrote; an empty one if there were no rows."""
    file = next(folder.glob("part-*"), folder / "part")
    file.touch()
    return file


def _text_rows(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    lines = _sorted_rows(frame.where(F.col("result").isNotNull()))
    return lines.select(F.col("result").cast("string").alias("value"))


def _readable_rows(frame: DataFrame) -> DataFrame:
    """Results as text if they are UTF-8, else as base64, as the command line shows them."""
    from pyspark.sql import functions as F

    text, is_utf8 = F.col("result").cast("string"), F.is_valid_utf8(F.col("result").cast("string"))
    columns = [name for name in frame.columns if name != "result"]
    return _sorted_rows(frame).select(
        *columns,
        F.when(is_utf8, text).alias("result"),
        F.when(~is_utf8, F.base64("result")).alias("result_b64"),
    )


def _without_formulas(frame: DataFrame) -> DataFrame:
    """Texts that a spreadsheet would run as formulas get a ``'`` in front; numbers stay."""
    from pyspark.sql import functions as F

    def inert(name: str) -> Column:
        cell = F.col(name)
        formula = cell.rlike(r"^[=+@\t\r-]") & ~cell.rlike(r"^[+-]?[0-9.]+$")
        return F.when(formula, F.concat(F.lit("'"), cell)).otherwise(cell).alias(name)

    return frame.select(*[inert(name) if kind == "string" else name for name, kind in frame.dtypes])


def _state_counts(frame: DataFrame) -> dict[str, tuple[int, int]]:
    from pyspark.sql import functions as F

    state = F.coalesce("state", F.lit("corrupt"))
    found = frame.groupBy(state.alias("state")).agg(
        F.count("*").alias("n"), F.count("result").alias("kept")
    )
    return {row["state"]: (row["n"], row["kept"]) for row in translating(found.collect)}


def _replace(temporary: Path, out: Path) -> None:
    """Move the new folder to the place of the old one."""
    if out.exists():
        old = out.with_name(f".{out.name}.{os.getpid()}.old")
        out.replace(old)
        temporary.replace(out)
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    else:
        temporary.replace(out)
