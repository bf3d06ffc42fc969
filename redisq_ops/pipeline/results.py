"""Requests' results as a dataset, in order: what workers made of what was submitted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import BadInput, NotFound, Refused

from .writing import ran

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS = ("parquet", "json", "csv", "text")
_COLUMNS = ("queue", "request", "number", "state", "result", "error_type", "error", "_corrupt")


@dataclass(frozen=True, slots=True)
class Written:
    """How many sub-requests were in which state, and how many results were written."""

    states: Mapping[str, int]
    results: int

    @property
    def whole(self) -> bool:
        """Whether all of them are done."""
        return set(self.states) <= {"done"}

    @property
    def exit_code(self) -> int:
        return 0 if self.whole else 3


def chosen(frame: DataFrame, requests: Sequence[str] = (), beginning: str = "") -> DataFrame:
    """The results of these requests, or of all whose id begins so."""
    from pyspark.sql import functions as F

    if requests:
        frame = frame.where(F.col("request").isin(*requests))
    if beginning:
        frame = frame.where(F.col("request").startswith(beginning))
    return frame.select(*_COLUMNS)


def checked(out: Path, format: str, *, overwrite: bool) -> None:
    """Refuse what can't be written before anything is read."""
    if format not in FORMATS:
        raise BadInput(f"--format {format}: {', '.join(FORMATS)}")
    if out.exists() and not overwrite:
        raise Refused(f"{out} is there already (--overwrite takes its place)")


def write(
    frame: DataFrame,
    out: Path,
    format: str,
    *,
    overwrite: bool = False,
    some: bool = False,
    single_file: bool = False,
    final_newline: bool = True,
) -> Written:
    """Write results to the folder ``out``, by queue, request and number. Requests of one name are
    in the order of the number it ends with: ``day-2`` before ``day-10``.

    ``text`` has the results alone, each ended by a line feed, and nothing for one without. The
    folder is there when all of it is: what is interrupted leaves the earlier one, or none.
    ``some``: `NotFound`, and nothing written, where there is no sub-request at all.
    ``single_file``: ``out`` is one file, written by one task; of text, without ``final_newline``
    its last line has no end.
    """
    out = out.absolute()
    checked(out, format, overwrite=overwrite)
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        # Once from the server, so that what is counted is what is written.
        rows = aside / "rows"
        ran(lambda: _ordered(frame).write.parquet(rows.as_uri()))
        read = frame.sparkSession.read.schema(frame.schema).parquet(rows.as_uri())
        states = _states(read)
        if some and not states:
            raise NotFound("no request with a sub-request is there: nothing was written")
        if format == "parquet" and not single_file:
            _put(rows, out)
        else:
            shown = _text(read) if format == "text" else _readable(read)
            shown = _ordered(read) if format == "parquet" else shown
            options = {"header": "true"} if format == "csv" else {}
            if format == "json":
                options = {"ignoreNullFields": "false"}
            if single_file:
                shown = shown.coalesce(1)
            writer = shown.write.format(format).options(**options)
            ran(lambda: writer.save((aside / "shown").as_uri()))
            if single_file:
                _put(_only(aside / "shown", cut=not final_newline), out)
            else:
                _put(aside / "shown", out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Written(
        {state: n for state, (n, _) in states.items()}, sum(kept for _, kept in states.values())
    )


def _ordered(frame: DataFrame) -> DataFrame:
    """In files that follow each other: ranges, each sorted."""
    from pyspark.sql import functions as F

    request = F.col("request")
    last = F.regexp_extract(request, "([0-9]*)$", 1)
    stem = F.substring(request, F.lit(1), F.length(request) - F.length(last))
    # As many digits as an id may have: the longer number is the higher one.
    digits = F.regexp_replace(last, "^0+", "")
    keys = [F.col("queue"), stem, F.length(digits), digits, request, F.col("number")]
    return frame.repartitionByRange(*keys).sortWithinPartitions(*keys)


def _only(folder: Path, *, cut: bool) -> Path:
    """The one file of a folder that one task wrote; ``cut``: without its last byte."""
    parts = sorted(folder.glob("part-*"))
    file = parts[0] if parts else folder / "part"
    file.touch()
    if cut and (size := file.stat().st_size):
        os.truncate(file, size - 1)
    return file


def _text(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    lines = _ordered(frame.where(F.col("result").isNotNull()))
    return lines.select(F.col("result").cast("string").alias("value"))


def _readable(frame: DataFrame) -> DataFrame:
    """Results as text where they are UTF-8, else as base64, as the command line has them."""
    from pyspark.sql import functions as F

    text, plain = F.col("result").cast("string"), F.is_valid_utf8(F.col("result").cast("string"))
    columns = [name for name in frame.columns if name != "result"]
    return _ordered(frame).select(
        *columns,
        F.when(plain, text).alias("result"),
        F.when(~plain, F.base64("result")).alias("result_b64"),
    )


def _states(frame: DataFrame) -> dict[str, tuple[int, int]]:
    from pyspark.sql import functions as F

    state = F.coalesce("state", F.lit("corrupt"))
    found = frame.groupBy(state.alias("state")).agg(
        F.count("*").alias("n"), F.count("result").alias("kept")
    )
    return {row["state"]: (row["n"], row["kept"]) for row in ran(found.collect)}


def _put(aside: Path, out: Path) -> None:
    """The new folder in the old one's place."""
    if out.exists():
        old = out.with_name(f".{out.name}.{os.getpid()}.old")
        out.replace(old)
        aside.replace(out)
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    else:
        aside.replace(out)
