"""Changes that are not moves of entries: undo, requests, queues, retention."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import operations
from ..options import GO, Options, argument, command, examples, flag

commands = typer.Typer()
REQUEST: dict[str, tuple[str, Options, str]] = {
    "cancel": (
        "Cancel a request: its entries are delivered no more, and running "
        "deliveries can't settle. Undo reopens it.",
        {},
        "--reason duplicate",
    ),
    "pause": (
        "Stop delivering a request's entries until it is resumed. Running deliveries can settle.",
        {},
        "",
    ),
    "resume": ("Resume a paused request.", {}, ""),
    "limit": (
        "Set how many entries of a request are worked on at once.",
        {"value": argument("LIMIT", int, "New limit, 1 to 1000.")},
        "16",
    ),
    "priority": (
        "Set the priority of a request.",
        {"value": argument("PRIORITY", int, "Priority, 0 (first) to 99.")},
        "0",
    ),
}
QUEUE = {
    "pause": "Stop delivering entries. Running deliveries can settle.",
    "resume": "Deliver entries again, and accept new ones again.",
    "drain": "Accept no new entries; deliver those that are there.",
}
_request = typer.Typer(help="Cancel, pause or resume a request; set its limit or priority.")
_queue = typer.Typer(help="Pause, resume, drain or destroy a queue.")

commands.add_typer(_request, name="request")

commands.add_typer(_queue, name="queue")


def _add_request(verb: str) -> None:
    help, own, words = REQUEST[verb]
    _request.command(verb, help=help, epilog=examples(f"redisq request {verb} mail/r1 {words}"))(
        command(
            {"address": argument("ADDRESS"), **own, **GO},
            "admin.change_request",
            verb,
        )
    )


def _add_queue(verb: str) -> None:
    _queue.command(verb, help=QUEUE[verb], epilog=examples(f"redisq queue {verb} mail --yes"))(
        command({"name": argument("QUEUE"), **GO}, "admin.change_queue", verb)
    )


for _verb in REQUEST:
    _add_request(_verb)

for _word in QUEUE:
    _add_queue(_word)

_queue.command(
    "destroy",
    help="Remove an empty queue; with --hard, a queue and all entries in it. There is no undo.",
    epilog=examples("redisq queue destroy mail", "redisq queue destroy mail --hard --dry-run"),
)(
    command(
        {
            "name": argument("QUEUE"),
            "hard": flag("--hard", "Remove the queue even if it has entries."),
            **GO,
        },
        "admin.destroy",
    )
)

_OP = Annotated[
    str | None,
    typer.Argument(
        metavar="[OP]",
        help="Operation to undo; default: the latest that can be undone.",
        autocompletion=operations,
    ),
]
_REPORT = typer.Option(
    "--report",
    metavar="FILE",
    help="Write the entries that could not be undone to FILE, as NDJSON.",
)

commands.command(
    "undo",
    help="Undo a change. Entries that were changed since then stay as they are.",
    epilog=examples(
        "redisq undo",
        "redisq undo replay-5e8d3c91f0 --dry-run",
        "redisq undo replay-5e8d3c91f0 --report left.ndjson --yes",
    ),
)(
    command(
        {"op": (_OP, None), "report": (Annotated[str | None, _REPORT], None), **GO}, "admin.undo"
    )
)

_CHANGES = Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...")]

commands.command(
    "retention",
    help="Show or change the settings of a queue: what it keeps and how often it"
    " retries. An empty value restores the default; write time spans as "
    "90s, 5m, 2h, 3d.",
    epilog=examples(
        "redisq retention mail", "redisq retention mail keep_ms=48h max_failures=5 history="
    ),
)(command({"name": argument("QUEUE"), "changes": (_CHANGES, None), **GO}, "admin.retention"))
