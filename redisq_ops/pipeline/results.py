"""Requests' results as a dataset, in order: what workers made of what was submitted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.core.errors import BadInput, NotFound, Refused

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
    frame: DataFrame, out: Path, format: str, *, overwrite: bool = False, some: bool = False
) -> Written:
    """Write results to the folder ``out``, ordered by queue, request and number.

    ``text`` has the results alone, each ended by a line feed, and nothing for one without. The
    folder is there when all of it is: what is interrupted leaves the earlier one, or none.
    ``some``: `NotFound`, and nothing written, where there is no sub-request at all.
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
        if format == "parquet":
            _put(rows, out)
        else:
            shown = _text(read) if format == "text" else _readable(read)
            options = {"header": "true"} if format == "csv" else {}
            if format == "json":
                options = {"ignoreNullFields": "false"}
            writer = shown.write.format(format).options(**options)
            ran(lambda: writer.save((aside / "shown").as_uri()))
            _put(aside / "shown", out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Written(
        {state: n for state, (n, _) in states.items()}, sum(kept for _, kept in states.values())
    )


def _ordered(frame: DataFrame) -> DataFrame:
    """In files that follow each other: ranges, each sorted."""
    keys = ["queue", "request", "number"]
    return frame.repartitionByRange(*keys).sortWithinPartitions(*keys)


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
