"""Runs a report's queries in a Spark session, classic or Connect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlglot
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from sqlglot import exp

from redisq_ops.ops.redaction import Redaction

from .engine import Value, functions, query_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class SparkEngine:
    exact = False

    def __init__(self, spark: SparkSession, redaction: Redaction, client: str | None) -> None:
        self.redacts, self.finds_clients = bool(redaction), client is not None
        self._spark = spark
        self._kept: list[DataFrame] = []
        self._views: list[str] = []
        for made in functions(redaction, client):
            function: Any = F.udf(made.call, made.returns, useArrow=True)
            spark.udf.register(made.name, function)

    def relation(self, rows: pa.Table) -> DataFrame:
        # Without a schema, Spark Connect refuses a table that is empty.
        return self._spark.createDataFrame(rows, from_arrow_schema(rows.schema))

    def query(self, name: str, values: Mapping[str, Value], **inputs: DataFrame) -> DataFrame:
        views = {each: self._view(frame) for each, frame in inputs.items()}
        text = query_text(name).format(**values, **views)
        tree = sqlglot.parse_one(text, read="spark", into=exp.Select)
        # One by one: Spark doesn't recognise a kept relation whose query has a WITH.
        steps: dict[str, str] = {}
        for step in tree.ctes:
            steps[step.alias] = self._view(self._selected(step.this, steps))
        tree.set("with_", None)
        return self._selected(tree, steps)

    def _selected(self, query: exp.Expr, steps: Mapping[str, str]) -> DataFrame:
        for table in query.find_all(exp.Table):
            if table.name in steps:
                table.set("alias", table.args.get("alias") or exp.TableAlias(this=table.this))
                table.set("this", exp.to_identifier(steps[table.name]))
        return self._spark.sql(query.sql("spark", comments=False))

    def _view(self, frame: DataFrame) -> str:
        self._views.append(f"redisq_{uuid4().hex}")
        frame.createTempView(self._views[-1])
        return self._views[-1]

    def kept(self, relation: DataFrame) -> DataFrame:
        self._kept.append(relation.persist())
        return self._kept[-1]

    def rows(self, relation: DataFrame, limit: int | None = None) -> pa.Table:
        return (relation if limit is None else relation.limit(limit)).toArrow()

    def write(self, relation: DataFrame, folder: Path) -> None:
        # One file keeps the order of the table.
        relation.coalesce(1).write.mode("overwrite").parquet(str(folder))

    def written(self, folder: Path) -> DataFrame:
        return self._spark.read.parquet(str(folder))

    def close(self) -> None:
        while self._kept:
            self._kept.pop().unpersist()
        # Earlier, dropping a view would release what is kept.
        while self._views:
            self._spark.catalog.dropTempView(self._views.pop())
