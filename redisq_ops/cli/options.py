"""Options that several commands share, as tables from which their signatures are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from .completion import queues
from .session import session

MOST = 10**9
"""the highest number that options take; servers count to 2**63"""
Options = Mapping[str, tuple[Any, Any]]
"""parameter -> its annotation for Typer, and its default (``...``: it has to be given)"""
GO: Options = {
    "reason": (
        Annotated[
            str, typer.Option("--reason", metavar="TEXT", help="Reason, kept in the audit log.")
        ],
        "",
    ),
    "dry_run": (
        Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")],
        False,
    ),
    "yes": (Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")], False),
}
PLANNING: Options = {
    "plan": (
        Annotated[
            str | None,
            typer.Option(
                "--plan", metavar="FILE", help="Write the plan to FILE and change nothing."
            ),
        ],
        None,
    )
}
SELECTING: Options = {
    "addresses": (
        Annotated[
            list[str] | None,
            typer.Argument(metavar="[ADDRESS]...", show_default=False, autocompletion=queues),
        ],
        None,
    ),
    "queue": (
        Annotated[
            str | None,
            typer.Option("--queue", metavar="NAME", help="Queue to use.", autocompletion=queues),
        ],
        None,
    ),
    "where": (
        Annotated[
            str | None,
            typer.Option(
                "--where",
                metavar="EXPR",
                help="Only entries that match: 'error~timeout age>2h client=acme'.",
            ),
        ],
        None,
    ),
    "match": (
        Annotated[
            str | None,
            typer.Option(
                "--match",
                metavar="REGEX",
                help="Only entries whose id, error type or message matches.",
            ),
        ],
        None,
    ),
    "older_than": (
        Annotated[
            str | None,
            typer.Option("--older-than", metavar="AGE", help="Minimum age in this state: 90s, 2h."),
        ],
        None,
    ),
    "max": (
        Annotated[
            int | None, typer.Option("--max", min=1, max=MOST, help="Maximum number of entries.")
        ],
        None,
    ),
    "window": (
        Annotated[
            int | None,
            typer.Option(
                "--window",
                min=-MOST,
                max=MOST,
                metavar="N",
                help="Scan only the first N entries; -N: the latest N.",
            ),
        ],
        None,
    ),
    "scan_rate": (
        Annotated[
            str | None,
            typer.Option("--scan-rate", metavar="N/s", help="Scan at most N entries per second."),
        ],
        None,
    ),
}
WHEN: Options = {
    "at": (
        Annotated[
            str | None,
            typer.Option(
                "--at", metavar="TIME", help="Time: the next 03:12, or ISO 8601 with offset."
            ),
        ],
        None,
    ),
    "after": (
        Annotated[
            str | None, typer.Option("--in", metavar="SPAN", help="Time from now: 90s, 5m, 2h, 3d.")
        ],
        None,
    ),
}
Every = Annotated[
    str | None,
    typer.Option("--watch", metavar="SPAN", help="Repeat every SPAN (2s) until Ctrl+C."),
]
LOOKING: Options = {"every": (Every, None)}
OneQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="NAME", help="Queue to use.", autocompletion=queues),
]
SkipInvalid = Annotated[
    Path | None,
    typer.Option(
        "--skip-invalid", metavar="FILE", help="Send the valid lines; list the others in FILE."
    ),
]


def argument(metavar: str, kind: Any = str, help: str = "") -> tuple[Any, Any]:
    """A positional argument that has to be given."""
    named = queues if metavar in ("QUEUE", "ADDRESS", "QUEUE/ID") else None
    option = typer.Argument(metavar=metavar, help=help, show_default=False, autocompletion=named)
    return Annotated[kind, option], ...


def flag(name: str, help: str) -> tuple[Any, Any]:
    """An option that is given or not."""
    return Annotated[bool, typer.Option(name, help=help)], False


_CANARY = typer.Option(
    "--canary",
    metavar="N",
    min=1,
    max=MOST,
    help="Replay N first; ramp up only if they succeed.",
)
_WATCH = typer.Option(
    "--watch", metavar="SPAN", help="Wait this long for replayed entries to end. [1m]"
)
_REENTRY = typer.Option(
    "--max-reentry", metavar="SHARE", help="Pause when more than this share fails again. [20%]"
)
_LATENCY = typer.Option(
    "--max-latency", metavar="SPAN", help="Pause when the server answers this much slower. [5ms]"
)
_WAITING = typer.Option(
    "--max-waiting",
    metavar="N",
    min=0,
    max=MOST,
    help="Pause while more than N entries are waiting.",
)
_PATIENCE = typer.Option(
    "--patience", metavar="SPAN", help="Stop after being paused this long. [5m]"
)
RAMPING: Options = {
    "canary": (Annotated[int | None, _CANARY], None),
    "ramp": flag("--ramp", "Start slowly; double up to --rate while entries succeed."),
    "max_reentry": (Annotated[str | None, _REENTRY], None),
    "max_latency": (Annotated[str | None, _LATENCY], None),
    "max_waiting": (Annotated[int | None, _WAITING], None),
    "watch": (Annotated[str | None, _WATCH], None),
    "patience": (Annotated[str | None, _PATIENCE], None),
}


def command(options: Options, act: str, *first: Any) -> Callable[..., int]:
    """A function of these options that performs ``act``; for Typer to read them from.

    ``first`` are passed to it before the values of the options.
    """

    def run(context: typer.Context, **given: Any) -> int:
        every = given.pop("every", None)
        return perform(context, act, *first, given, every=every)

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            annotation=kind,
            default=Parameter.empty if default is ... else default,
        )
        for name, (kind, default) in options.items()
    ]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__dict__["__signature__"] = Signature(parameters)
    return run


def perform(context: typer.Context, act: str, *given: Any, every: str | None = None) -> int:
    """Run the function that ``act`` names, as ``entries.changed``; its exit code.

    ``every``: repeat it until Ctrl+C. Its module is loaded now: help and completion need neither it
    nor the Redis client.
    """
    module, _, name = act.partition(".")
    function = getattr(import_module(f"redisq_ops.cli.{module}"), name)
    own = session(context)
    if every is None:
        return function(own, *given) or 0
    from .watch import repeat

    return repeat(lambda: function(own, *given), every, own.json)


def examples(*lines: str) -> str:
    """A help text's last paragraph; the mark keeps its lines from being joined."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])
