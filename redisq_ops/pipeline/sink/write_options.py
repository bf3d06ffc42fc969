"""Options of ``df.write.format("redisq")`` and ``df.writeStream.format("redisq")``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX, checked_name
from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD
from redisq_ops.core.queues.request.submission import checked_limit

from ..source.connection import Server
from ..source.options import (
    SERVER_OPTIONS,
    Option,
    choice,
    folded,
    parse_values,
    resolve_address,
    whole_number,
)
from ..source.tables import Type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

WRITTEN_COLUMNS: dict[str, dict[str, tuple[Type, ...]]] = {
    "request": {
        "request": ("string",),
        "payload": ("binary", "string"),
        "priority": ("int", "long"),
    },
    "delay": {
        "id": ("string",),
        "payload": ("binary", "string"),
        "ready_at": ("timestamp",),
    },
    "fair": {"client": ("string",), "id": ("string",), "payload": ("binary", "string")},
    "circular": {"id": ("string",), "payload": ("binary", "string")},
}
"""columns that a queue of each kind takes, and their types"""
_REQUIRED = {
    "request": ("payload",),
    "delay": ("payload",),
    "fair": ("client", "payload"),
    "circular": ("id",),
}
ID_COLUMN = {"request": "request", "delay": "id", "fair": "id", "circular": "id"}
"""the column that is filled with generated ids"""
_FROM_SPARK = {"checkpointlocation", "path"}
"""options that Spark uses itself and also passes on"""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are written to one queue. Holds no secrets."""

    queue: str
    kind: str = "request"
    """kind of the queue if it has to be created"""
    name: str | None = None
    """beginning of generated ids"""
    limit: int = LIMIT
    max_payload: int = MAX_PAYLOAD
    rejects: str | None = None
    """folder for rows that can't be written; None: they fail the query"""
    url: str | None = None
    url_env: str | None = None
    url_file: str | None = None
    prefix: str = PREFIX

    def server(self) -> Server:
        """The server to write to, from this process's environment."""
        address = resolve_address(self.url, self.url_env, self.url_file, os.environ)
        return Server(address, self.prefix)


def _limit(text: str) -> int:
    return checked_limit(whole_number(text))


_queue_name = partial(checked_name, what="queue name")
_name = partial(checked_name, what="name")
_kind = choice(*WRITTEN_COLUMNS)

WRITE_OPTIONS = (
    Option("queue", "queue", _queue_name, "queue to write to"),
    Option("kind", "kind", _kind, "kind of a new queue: request (default), delay, fair, circular"),
    Option("name", "name", _name, "beginning of generated ids, where rows have none"),
    Option("limit", "limit", _limit, "limit of the requests"),
    Option("maxPayload", "max_payload", whole_number, "most bytes of a payload"),
    Option("rejects", "rejects", str, "folder that lists rows that can't be written"),
    *SERVER_OPTIONS,
)
assert {option.field for option in WRITE_OPTIONS} == {field.name for field in fields(WriteOptions)}


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a write; `BadInput` names the one that is wrong."""
    own = {name: text for name, text in given.items() if folded(name) not in _FROM_SPARK}
    values = parse_values(own, WRITE_OPTIONS)
    if "queue" not in values:
        raise BadInput("option queue is missing: the queue to write to")
    return WriteOptions(**values)


def check_schema(schema: StructType, kind: str, options: WriteOptions) -> None:
    """Raise `BadInput` unless a queue of ``kind`` takes rows of this schema."""
    columns = WRITTEN_COLUMNS[kind]
    there = {field.name: field.dataType.typeName() for field in schema.fields}
    for name, type_name in there.items():
        if name not in columns:
            known = ", ".join(columns)
            raise BadInput(f"a {kind} queue has no column {name!r} to write: there are {known}")
        types = columns[name]
        if {"integer": "int"}.get(type_name, type_name) not in types:
            raise BadInput(f"column {name} is {type_name}, not {' or '.join(types)}")
    for name in _REQUIRED[kind]:
        if name not in there:
            raise BadInput(f"column {name} is missing: a {kind} queue needs it")
    id_column = ID_COLUMN[kind]
    if id_column not in there and options.name is None:
        raise BadInput(f"column {id_column} is missing: add it, or set the option name")
