"""What computes a report's tables: one set of queries, run by Spark or by DuckDB.

`queries/NAME.sql` is in Spark's dialect. ``{name}`` stands for a relation or a value; the comment
at the beginning of a query says what its rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote

from redisq_ops.ops.filter.regex import regex
from redisq_ops.ops.groups.fingerprint import normalized
from redisq_ops.ops.groups.traits import (
    DEPTH,
    ENVELOPE_DEPTH,
    ENVELOPE_ERRORS,
    payload_values,
    share_difference,
)
from redisq_ops.ops.redaction import Redaction

if TYPE_CHECKING:
    import pyarrow as pa

Relation = TypeVar("Relation")
Value = str | int | float


class Engine(Protocol[Relation]):
    """Runs queries; a relation is a query's result, computed when it is needed."""

    exact: bool
    """whether percentiles are exact, however many values there are"""
    redacts: bool
    """whether the function ``redact`` changes anything"""
    finds_clients: bool
    """whether there is the function ``client_of``"""

    def relation(self, rows: pa.Table) -> Relation:
        """Rows of this process's memory."""

    def query(self, name: str, values: Mapping[str, Value], **inputs: Relation) -> Relation:
        """A query on relations, with values as SQL."""

    def kept(self, relation: Relation) -> Relation:
        """The relation, computed at most once."""

    def rows(self, relation: Relation, limit: int | None = None) -> pa.Table:
        """The rows, or the first ``limit``; times in UTC."""

    def write(self, relation: Relation, folder: Path) -> None:
        """Write a Parquet file into a new folder, in the relation's order."""

    def written(self, folder: Path) -> Relation:
        """What reads a folder of `write`."""

    def close(self) -> None:
        """Release what is kept."""


@cache
def query_text(name: str) -> str:
    return (files(__package__) / "queries" / f"{name}.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A Python function that queries call by its name; types in Spark's words."""

    name: str
    call: Callable[..., object]
    takes: Sequence[str]
    returns: str


def _of_known(call: Callable[[str], str | None]) -> Callable[[str | None], str | None]:
    """The function, which is null of a null."""
    return lambda text: None if text is None else call(text)


def functions(redaction: Redaction, client: str | None) -> list[SqlFunction]:
    """The functions of the queries. ``client``: a regular expression, whose first group is the
    client in an entry's id (RE2, because Java's engine may not terminate)."""

    def leaves(payload: bytes, enveloped: bool) -> list[dict[str, str]]:
        limits = (ENVELOPE_DEPTH, ENVELOPE_ERRORS) if enveloped else (DEPTH, ())
        found = payload_values(bytes(payload), redaction, *limits)
        return [{"field": field, "value": str(value)} for field, value in found.items()]

    found = [
        SqlFunction("redact", _of_known(redaction.text), ("string",), "string"),
        SqlFunction("normal_form", _of_known(normalized), ("string",), "string"),
        SqlFunction("unquoted", _of_known(unquote), ("string",), "string"),
        SqlFunction(
            "payload_leaves",
            leaves,
            ("binary", "boolean"),
            "array<struct<field: string, value: string>>",
        ),
        SqlFunction("difference_bound", share_difference, ("bigint",) * 4, "double"),
    ]
    if client is not None:
        call = _of_known(regex(client).first_group)
        found.append(SqlFunction("client_of", call, ("string",), "string"))
    return found
