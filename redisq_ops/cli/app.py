"""The root of the command line: the options that every command takes."""

from __future__ import annotations

from typing import Annotated

import typer

from redisq_ops import __version__

from .commands import Commands
from .completion import contexts, one_of
from .session import Session, begin, command_line

app = typer.Typer(
    name="redisq",
    cls=Commands,
    help="Redis queues: submit and work on requests, inspect queues, repair them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The options above can be anywhere on the line. Addresses: QUEUE, "
    "QUEUE/ENTRY, QUEUE/REQUEST/N.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"redisq {__version__}")
        raise typer.Exit


@app.callback()
def _start(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Server to connect to; default: REDIS_URL.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="NAME", help="Prefix of all keys in Redis.")
    ] = None,
    context_name: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            help="Context of the configuration file; default: REDISQ_CONTEXT.",
            autocompletion=contexts,
        ),
    ] = None,
    confirm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Confirm by the context's name, if the context requires it."
        ),
    ] = None,
    no_redact: Annotated[
        bool, typer.Option("--no-redact", help="Show the values that the configuration redacts.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON Lines.")] = False,
    utc: Annotated[bool, typer.Option("--utc", help="Show times in UTC.")] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            show_default=False,
            help="Log more; -vv logs debug messages.",
        ),
    ] = 0,
    log_format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="Format of the log: text or json.",
            autocompletion=one_of("text", "json"),
        ),
    ] = "text",
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    log = (verbose, log_format)
    flags = {"url": url, "prefix": prefix}
    again = command_line(context.obj or ())
    context.obj = begin(
        Session(
            flags, context_name, json, utc, log, confirm=confirm, no_redact=no_redact, again=again
        )
    )
