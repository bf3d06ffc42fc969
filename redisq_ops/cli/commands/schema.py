"""`redisq schema`: the JSON Schemas of what commands print."""

from __future__ import annotations

import typer

from ..completion import schemas
from ..options import add, argument

commands = typer.Typer()

add(
    commands,
    "schema",
    {"name": argument("[NAME]", help="Name of the schema; default: list all.", complete=schemas)},
    "schema.schema",
    help="Print the JSON Schema of an object that commands print with --json, or of a line of a "
    "file that they write. Nothing is sent to a server.",
    prints="SchemaName",
    examples=("redisq schema", "redisq schema queue-details"),
)
