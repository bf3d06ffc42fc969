"""Declares commands: options and arguments, those that commands share, and what a command runs.

A command's options are a table, from which Typer gets a function with a signature.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from .completion import addresses, clients, conditions, queues
from .redis_import import import_redis

MOST = 10**9
"""the highest number that options take; servers count to 2**63"""
_LIST_WIDTH = 62
"""of a help text in a list of commands on 80 columns"""
_ARGUMENT_HELP = {
    "QUEUE": "Name of the queue.",
    "ADDRESS": "Queue, request or entry: mail, mail/r1, mail/r1/17.",
    "[ADDRESS]...": "Queues, requests or entries: mail, mail/r1, mail/r1/17.",
    "[QUEUE]": "Name of the queue; default: all queues.",
}
"""metavar of an argument -> its help, if it has no other"""
Option = tuple[Any, Any]
"""an annotation for Typer, and a default (``...``: required)"""
Options = Mapping[str, Option]
"""parameter -> option or argument"""


_COMPLETED = {
    "QUEUE": queues, "ADDRESS": addresses, "QUEUE/ID": addresses, "ID": addresses,
    "REQUEST": addresses, "CLIENT": clients,
}  # fmt: skip
"""metavar of an argument -> what completes it"""


def option(
    names: str, metavar: str | None, help: str, kind: Any = str, default: Any = None, **more: Any
) -> Option:
    """An option with a value; ``names``: such as ``--output -o``.

    ``more``: of `typer.Option`; ``min`` and ``max`` of a number.
    """
    if kind in (int, float):
        more["parser"] = _number(kind, more.pop("min", None), more.pop("max", None))
        metavar = metavar or "N"
    declared = typer.Option(*names.split(), metavar=metavar, help=help, **more)
    return Annotated[kind | None if default is None else kind, declared], default


def _number(kind: type[int] | type[float], least: Any, most: Any) -> Callable[[Any], Any]:
    """A parser whose errors say in words which numbers are allowed."""
    what = "a whole number" if kind is int else "a number"
    if least is not None:
        what += f" from {least:,}" + ("" if most is None else f" to {most:,}")

    def number(value: Any) -> Any:
        try:
            found = kind(value)
        except ValueError:
            found = None
        low = found is not None and least is not None and found < least
        if found is None or low or (most is not None and found > most):
            raise typer.BadParameter(f"write {what}, not {value}")
        return found

    return number


def flag(names: str, help: str, default: bool = False) -> Option:
    """An option without a value."""
    return Annotated[bool, typer.Option(*names.split(), help=help)], default


def argument(metavar: str, kind: Any = str, help: str = "", complete: Any = None) -> Option:
    """A positional argument; optional if ``metavar`` is in brackets."""
    complete = complete or _COMPLETED.get(metavar.strip("[].…"))
    parser = _number(kind, None, None) if kind is int else None
    declared = typer.Argument(
        metavar=metavar,
        help=help or _ARGUMENT_HELP.get(metavar, ""),
        show_default=False,
        autocompletion=complete,
        parser=parser,
    )
    optional = metavar.startswith("[")
    return Annotated[kind | None if optional else kind, declared], None if optional else ...


def add(
    group: typer.Typer,
    name: str,
    options: Options,
    runs: str,
    *first: Any,
    help: str,
    examples: tuple[str, ...],
    prints: str,
) -> None:
    """Add a command to a group.

    ``runs`` names the function that it runs, such as ``entries.listed``. It gets the session,
    ``first``, and the values of the options by parameter, and returns the exit code (None: 0). With
    `WATCHING` among the options it can be repeated. ``prints``: the types of what it prints with
    ``--json``, see `output_types`; the class ``PlanOutput`` is written ``Plan``.
    """

    def run(context: typer.Context, **given: Any) -> int:
        # Loaded now: help and completion need neither it nor the Redis client.
        module, _, function = runs.partition(".")
        gc.disable()  # searching modules for garbage takes a tenth of the time to load them
        try:
            import_redis()
            act = getattr(import_module(f"redisq_ops.cli.actions.{module}"), function)
        finally:
            gc.enable()
        s, every = context.obj, given.pop("every", None)
        if every is None:
            return act(s, *first, given) or 0
        from .watch import repeat

        return repeat(lambda: act(s, *first, given), every, s.json)

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
    run.__dict__ |= {"__signature__": Signature(parameters), "prints": prints}
    # The mark keeps the lines of the last paragraph from being joined.
    epilog = "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in examples)])
    group.command(name, help=help, short_help=_in_short(help), epilog=epilog)(run)


def _in_short(help: str) -> str:
    """The first sentence, or its first clause where it is long: a line of a list of commands."""
    sentence = re.split(r"\.\s|\.$", help, maxsplit=1)[0]
    clause = re.split("[;:] ", sentence)[0] if len(sentence) > _LIST_WIDTH else sentence
    return f"{' '.join(clause.split())}."


# --- options of several commands -----------------------------------------------------------------

GO: Options = {
    "reason": option("--reason", "TEXT", "Reason, kept in the audit log.", default=""),
    "dry_run": flag("--dry-run", "Show the plan and change nothing."),
    "yes": flag("--yes -y", "Go ahead without asking."),
}
PLANNING: Options = {"plan": option("--plan", "FILE", "Write the plan to FILE and change nothing.")}
QUEUE = option("--queue", "NAME", "Queue to use.", autocompletion=queues)
RATE = option("--rate", "N/s", "Change at most N entries per second.")
SELECTING: Options = {
    "addresses": argument("[ADDRESS]...", list[str]),
    "queue": QUEUE,
    "where": option(
        "--where", "EXPR", "Only entries that match: 'error~timeout age>2h client=acme'.",
        autocompletion=conditions,
    ),
    "match": option("--match", "REGEX", "Only entries whose id, error type or message matches."),
    "older_than": option("--older-than", "AGE", "Minimum age in this state: 90s, 2h."),
    "max": option("--max", None, "Maximum number of entries.", int, min=1, max=MOST),
    "window": option(
        "--window", "N", "Scan only the first N entries; -N: the latest N.", int, min=-MOST,
        max=MOST,
    ),
    "scan_rate": option("--scan-rate", "N/s", "Scan at most N entries per second."),
}  # fmt: skip
WHEN: Options = {
    "at": option("--at", "TIME", "Time: the next 03:12, or ISO 8601 with offset."),
    "after": option("--in", "SPAN", "Time from now: 90s, 5m, 2h, 3d."),
}
WATCHING: Options = {
    "every": option("--watch", "SPAN", "Repeat every SPAN, such as 2s, until Ctrl+C.")
}
SKIP_INVALID = option(
    "--skip-invalid", "FILE", "Send the valid lines; list the others in FILE.", Path
)
RAMPING: Options = {
    "canary": option(
        "--canary", "N", "Replay N first; ramp up only if they succeed.", int, min=1, max=MOST
    ),
    "ramp": flag("--ramp", "Start slowly; double up to --rate while entries succeed."),
    "max_reentry": option(
        "--max-reentry", "SHARE", "Pause when more than this share fails again. [20%]"
    ),
    "max_latency": option(
        "--max-latency", "SPAN", "Pause when the server answers this much slower. [5ms]"
    ),
    "max_waiting": option(
        "--max-waiting", "N", "Pause while more than N entries are waiting.", int, min=0, max=MOST
    ),
    "watch": option("--watch", "SPAN", "Wait this long for replayed entries to end. [1m]"),
    "patience": option("--patience", "SPAN", "Stop after being paused this long. [5m]"),
}
