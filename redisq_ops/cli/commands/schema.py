"""`redisq schema`: the JSON Schemas of what commands print."""

from __future__ import annotations

from difflib import get_close_matches

import typer

from redisq_ops.core.model.errors import BadInput

from ..completion import schemas
from ..options import argument, command
from ..output import emit
from ..session import Session

commands = typer.Typer()


@command(commands, "schema", prints="SchemaName")
def schema(
    s: Session,
    *,
    name: str | None = argument("[NAME]", "Name of the schema; default: list all.", schemas),
) -> None:
    """Print the JSON Schema of what commands print with --json, or of a line of a file that they
    write. Nothing is sent to a server.

    Examples:
      redisq schema
      redisq schema queue-details
    """
    from ..output_types.json_schema import schema_names, schema_of, schema_text

    names = schema_names()
    if name is None:
        for each in names:
            if s.json:
                emit({"name": each})
            else:
                print(each)
    elif name not in names:
        near = " or ".join(get_close_matches(name, names))
        hint = f"did you mean {near}?" if near else "redisq schema lists them"
        raise BadInput(f"no schema {name!r}; {hint}")
    elif s.json:
        emit(schema_of(name))
    else:
        print(schema_text(name))
