"""`redisq schema`: the JSON Schemas of what commands print."""

import typer

from ..completion import schemas
from ..options import argument, command
from ..session import Session

commands = typer.Typer()


@command(commands, "schema", prints="SchemaName")
def schema(
    s: Session,
    *,
    name: str | None = argument("[NAME]", "Name of the schema; default: list all.", schemas),
) -> None:
    """Print the JSON Schema of an object that commands print with --json, or of a line of a file
    that they write. Nothing is sent to a server.

    Examples:
      redisq schema
      redisq schema queue-details
    """
    from ..actions.schema import schema

    schema(s, name)
