"""SQL queries that read only what they need: columns, bounds and look-ups from their own plan.

PySpark's Python sources get no columns from Spark. So a query is planned twice: first over whole
tables, to see in Spark's optimized plan which columns it uses and how often it reads each table;
then over frames with these columns. A table that the query reads once also takes bounds from the
query's filters (see `source`). The plan is read as text, because Spark Connect has no other form of
it. What the text leaves open is read whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .read_partitions import ENTRY_STATES
from .session import PUSHDOWN
from .source import FORMAT, SINGLE_QUERY_FORMAT, SingleQueryDataSource
from .tables import TABLES, TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHEAPEST_COLUMN = "shard"
"""column that is read where a query needs none: of most tables rows are then only counted"""
_SECTION = re.compile(r"== Optimized Logical Plan ==\n(.*?)\n\n== ", re.DOTALL)
_ROOT = re.compile(r"(?P<indent>)(?P<name>\w+)")
_NODE = re.compile(r"(?P<indent>[ :]*[+:]- )(?P<name>\w+)")
_RELATION = re.compile(rf"[ +:-]*RelationV2\[(?P<columns>[^\]]*)\] {FORMAT}\b")
_ATTRIBUTE = re.compile(r"#(\d+)")
_KEEPS_COLUMNS = {
    "Filter", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Sample", "Join",
}  # fmt: skip
"""operators whose output has all columns of their children, and is not listed in the plan"""
_LISTS_COLUMNS = {"Project", "Aggregate"}
_FIELDS_SETTING = "spark.sql.debug.maxToStringFields"


@dataclass(frozen=True, slots=True)
class TableUse:
    """How a query reads one table."""

    table: str
    columns: tuple[str, ...]
    """in the table's order"""
    reads: int
    """number of places of the plan that read it"""

    def describe(self, *, bounded: bool = False) -> str:
        """What is read, for a person; ``bounded``: only of a range of time."""
        if set(self.columns) <= {"queue", "kind", "shard"} and not bounded and self._is_counted:
            return f"{self.table}: counters, no rows"
        if len(self.columns) == len(TABLES[self.table].columns):
            return f"{self.table}: all columns"
        return f"{self.table}: {', '.join(self.columns)}"

    @property
    def _is_counted(self) -> bool:
        return self.table in ENTRY_STATES


def plan_query(spark: SparkSession, sql: str, tables: Sequence[str]) -> dict[str, TableUse]:
    """How a query uses each table of which there is a temporary view. Reads nothing."""
    with _all_fields(spark):
        try:
            text = str(spark.sql(f"explain extended {sql}").collect()[0][0])
        except Exception as error:
            if type(error).__name__ != "ParseException":
                raise
            text = ""  # the query itself reports it, with the right position
    return table_uses(text, tables)


def single_query_frame(spark: SparkSession, use: TableUse, options: Mapping[str, str]) -> DataFrame:
    """The frame of a table for the query whose plan was read, and for no other."""
    columns = () if "columns" in options else use.columns
    given = dict(options)
    if columns and len(columns) < len(TABLES[use.table].columns):
        given["columns"] = ",".join(columns)
    source = FORMAT
    if use.reads == 1 and spark.conf.get(PUSHDOWN, "false") == "true":
        spark.dataSource.register(SingleQueryDataSource)
        source = SINGLE_QUERY_FORMAT
    return spark.read.format(source).options(**given).load()


@contextmanager
def _all_fields(spark: SparkSession) -> Iterator[None]:
    """Have plans list all their fields."""
    before = spark.conf.get(_FIELDS_SETTING)
    spark.conf.set(_FIELDS_SETTING, "100000")
    try:
        yield
    finally:
        spark.conf.set(_FIELDS_SETTING, str(before))


def table_uses(text: str, tables: Iterable[str]) -> dict[str, TableUse]:
    """The uses of tables in an explained query; a table that it does not read has none."""
    definitions = [TABLES[name] for name in tables]
    whole = {d.name: TableUse(d.name, _names(d), 2) for d in definitions}
    section = _SECTION.search(text)
    if section is None or " more fields" in section[1]:
        return whole
    lines = section[1].split("\n")
    nodes = [_ROOT.match(lines[0]), *map(_NODE.match, lines[1:])]
    relations = [_RELATION.match(line) for line in lines]
    if not all(nodes):  # a text with line breaks is in the query
        return whole
    depths = [len(node["indent"]) if node is not None else 0 for node in nodes]
    names = [node["name"] if node is not None else "" for node in nodes]
    used = {
        number
        for line, relation in zip(lines, relations, strict=True)
        if relation is None
        for number in _ATTRIBUTE.findall(line)
    }
    found: dict[str, TableUse] = {}
    for at, relation in enumerate(relations):
        if relation is None:
            continue
        attributes = [word.partition("#") for word in relation["columns"].split(", ")]
        own = tuple(name for name, _, _ in attributes)
        definition = next((d for d in definitions if _names(d) == own), None)
        if definition is None:
            return whole
        needed = {name for name, _, number in attributes if number.rstrip("L") in used}
        if not _is_listed(at, depths, names):
            needed = set(own)
        before = found.get(definition.name, TableUse(definition.name, (), 0))
        needed |= set(before.columns)
        columns = tuple(name for name in own if name in needed)
        found[definition.name] = TableUse(definition.name, columns, before.reads + 1)
    return {
        name: TableUse(name, use.columns or (CHEAPEST_COLUMN,), use.reads)
        for name, use in found.items()
    }


def _names(definition: TableDefinition) -> tuple[str, ...]:
    return tuple(column.name for column in definition.columns)


def _is_listed(at: int, depths: Sequence[int], names: Sequence[str]) -> bool:
    """Whether an operator above line ``at`` lists the columns that go beyond it."""
    depth = depths[at]
    for above in range(at - 1, -1, -1):
        if depths[above] < depth:
            depth = depths[above]
            if names[above] not in _KEEPS_COLUMNS:
                return names[above] in _LISTS_COLUMNS
    return False
