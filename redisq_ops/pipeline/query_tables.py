"""The tables that a query may read, by its text; each of them is read before Spark plans it."""

from __future__ import annotations

import re

from .tables import TABLES

_ONLY_READS = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)
_COMMENT = re.compile(r"--|/\*")
_FIRST_SOURCE = re.compile(r"\b(from|join|table)\b", re.IGNORECASE)
_NOT_A_TABLE = re.compile(
    r"(?:[.'<>=+]|\b(?:and|as|between|by|case|distinct|else|having|not|on|or|select|then|when|where))"
    r"\s*[\"`]?$",
    re.IGNORECASE,
)
"""what comes before a column, an alias or a text, but not before a table"""


def only_reads(query: str) -> bool:
    """Whether a statement is a query, which defines and sets nothing."""
    return _ONLY_READS.match(query) is not None


def named_tables(query: str) -> list[str]:
    """The tables whose names stand where a table can; a superset of those that the query reads.

    Columns and states have the same names: ``select dead from counts where state = 'waiting'``.
    """
    first = _FIRST_SOURCE.search(query)
    is_plain = first is not None and only_reads(query) and _COMMENT.search(query) is None
    start = first.end() if first is not None and is_plain else 0

    def is_named(table: str) -> bool:
        found = re.compile(rf"\b{table}\b", re.IGNORECASE).finditer(query, start)
        return any(not (is_plain and _NOT_A_TABLE.search(query, 0, at.start())) for at in found)

    return [table for table in TABLES if is_named(table)]
