"""Runs a report's queries in this process, by DuckDB.

sqlglot translates them from Spark's dialect; a test compares the results with Spark's. Times are
those of UTC, without a zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import sqlglot
from duckdb.func import SPECIAL
from sqlglot import exp

from redisq_ops.core.model.errors import Refused
from redisq_ops.ops.redaction import Redaction

from .engine import Value, functions, query_text

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = "2GB"
"""what DuckDB may use beside the rows of the history and the dead letters"""


class DuckDBEngine:
    exact = True

    def __init__(self, redaction: Redaction, client: str | None) -> None:
        self.redacts, self.finds_clients = bool(redaction), client is not None
        self._database = duckdb.connect(
            config={
                "memory_limit": MEMORY,
                "temp_directory": "",
                "autoinstall_known_extensions": False,
            }
        )
        self._names = (f"r{n}" for n in count())
        self._kept: list[duckdb.DuckDBPyRelation] = []
        self._database.execute(
            "create macro timestamp_millis(ms) as make_timestamp(cast(1000 * ms as bigint))"
        )
        for made in functions(redaction, client):
            call: Any = made.call
            takes = [_duckdb_type(each) for each in made.takes]
            self._database.create_function(
                made.name, call, takes, _duckdb_type(made.returns), null_handling=SPECIAL
            )

    def relation(self, rows: pa.Table) -> duckdb.DuckDBPyRelation:
        import pyarrow as pa

        for at, field in enumerate(rows.schema):
            if pa.types.is_timestamp(field.type):
                utc = rows[at].cast(pa.timestamp("us"))
                rows = rows.set_column(at, field.name, utc)
        return self._database.from_arrow(rows)

    def query(
        self, name: str, values: Mapping[str, Value], **inputs: duckdb.DuckDBPyRelation
    ) -> duckdb.DuckDBPyRelation:
        views = {each: next(self._names) for each in inputs}
        for each, view in views.items():
            inputs[each].create_view(view)
        return self._database.sql(_translated(query_text(name).format(**values, **views)))

    def kept(self, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        if any(relation is each for each in self._kept):
            return relation
        name = next(self._names)
        relation.create(name)
        self._kept.append(self._database.table(name))
        return self._kept[-1]

    def rows(self, relation: duckdb.DuckDBPyRelation, limit: int | None = None) -> pa.Table:
        return (relation if limit is None else relation.limit(limit)).to_arrow_table()

    def write(self, relation: duckdb.DuckDBPyRelation, folder: Path) -> None:
        folder.mkdir(parents=True)
        relation.write_parquet(str(folder / "rows.parquet"))

    def written(self, folder: Path) -> duckdb.DuckDBPyRelation:
        return self._database.read_parquet(str(folder / "rows.parquet"))

    def close(self) -> None:
        self._database.close()


@contextmanager
def memory_bound() -> Iterator[None]:
    """`Refused` if DuckDB needs more memory than it may use."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise Refused(
            f"the report takes more than {MEMORY} of memory: redisq spark report has no such limit"
        ) from None


@cache
def _translated(query: str) -> str:
    tree = sqlglot.parse_one(query, read="spark")
    for quantile in list(tree.find_all(exp.Quantile)):  # DuckDB's of this name doesn't interpolate
        call = exp.func("quantile_cont", quantile.this, quantile.args["quantile"], dialect="duckdb")
        quantile.replace(call)
    return tree.sql(dialect="duckdb")


def _duckdb_type(spark: str) -> Any:
    return exp.DataType.build(spark, dialect="spark").sql(dialect="duckdb")
