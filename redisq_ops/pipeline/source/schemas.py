"""Arrow and Spark schemas of the tables. Spark requires them to match exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from redisq_ops.core.model.errors import BadInput

from .tables import Column, TableDefinition, Type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ARROW: dict[Type, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}


def columns(table: TableDefinition, names: Sequence[str] = ()) -> list[Column]:
    """The named columns; all columns if no names are given."""
    by_name = {column.name: column for column in table.columns}
    return [by_name[name] for name in names or by_name]


def arrow(table: TableDefinition, names: Sequence[str] = ()) -> pa.Schema:
    """The Arrow schema of the batches that readers return."""
    return pa.schema([pa.field(c.name, ARROW[c.type]) for c in columns(table, names)])


def struct(table: TableDefinition, names: Sequence[str] = ()) -> StructType:
    """The same schema for Spark, with each column's description as its comment."""
    from pyspark.sql import types

    found = types.StructType()
    for c in columns(table, names):
        type_name = "integer" if c.type == "int" else c.type
        found.add(c.name, type_name, True, {"comment": c.says} if c.says else None)
    return found


def selected_columns(table: TableDefinition, requested: StructType) -> tuple[str, ...]:
    """The names of a user's schema; `BadInput` if a column's name or type is not the table's."""
    own = {field.name: field.dataType for field in struct(table).fields}
    for field in requested.fields:
        if field.name not in own:
            raise BadInput(f"table {table.name} has no column {field.name!r}")
        if field.dataType != own[field.name]:
            raise BadInput(
                f"column {field.name} of table {table.name} is {own[field.name].simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )
    return tuple(field.name for field in requested.fields)
