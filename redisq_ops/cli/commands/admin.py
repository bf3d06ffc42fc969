"""Changes that are not moves of entries: undo, requests, queues, retention."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import operations
from ..options import GO, Options, argument, command, examples, flag

commands = typer.Typer()
REQUEST: dict[str, tuple[str, Options, str]] = {
    "cancel": (
        "Hand out nothing more of it; what runs can't settle any more. undo reopens it.",
        {},
        "--reason duplicate",
    ),
    "pause": ("Hand out nothing more of it until it is resumed; what runs can settle.", {}, ""),
    "resume": ("Go on with it.", {}, ""),
    "limit": (
        "Change how many of its entries may be worked on at once.",
        {"value": argument("LIMIT", int, "1 to 1000.")},
        "16",
    ),
    "priority": (
        "Change its priority.",
        {"value": argument("PRIORITY", int, "0 (first) to 99.")},
        "0",
    ),
}
QUEUE = {
    "pause": "Hand out nothing more; what runs can settle.",
    "resume": "Hand out again, and take new work again.",
    "drain": "Take no new work, and finish what is there.",
}
_request = typer.Typer(help="Cancel, pause, resume a request; change its limit or priority.")
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
    help="Remove an empty queue, or with --hard one with all that is in it. There is no undo.",
    epilog=examples("redisq queue destroy mail", "redisq queue destroy mail --hard --dry-run"),
)(
    command(
        {"name": argument("QUEUE"), "hard": flag("--hard", "Also with entries in it."), **GO},
        "admin.destroy",
    )
)

_OP = Annotated[
    str | None,
    typer.Argument(
        metavar="[OP]", help="Default: the latest that can be.", autocompletion=operations
    ),
]
_REPORT = typer.Option("--report", metavar="FILE", help="Which were left alone, as NDJSON.")

commands.command(
    "undo",
    help="Take a change back. Entries that were touched since stay as they are.",
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
    help="Show or change what a queue keeps, and when it gives up. An empty value is the default "
    "again; time spans may be written 90s, 5m, 2h, 3d.",
    epilog=examples(
        "redisq retention mail", "redisq retention mail keep_ms=48h max_failures=5 history="
    ),
)(command({"name": argument("QUEUE"), "changes": (_CHANGES, None), **GO}, "admin.retention"))
