"""Changes that are not moves of entries: undo, requests, queues, retention."""

from __future__ import annotations

import typer

from ..completion import operations
from ..options import GO, Options, add, argument, flag, option

commands = typer.Typer()
_request = typer.Typer(help="Cancel, pause or resume a request; set its limit or priority.")
_queue = typer.Typer(help="Pause, resume, drain or destroy a queue.")
commands.add_typer(_request, name="request")
commands.add_typer(_queue, name="queue")

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
for _verb, (_help, _own, _words) in REQUEST.items():
    add(
        _request, _verb, {"address": argument("ADDRESS"), **_own, **GO},
        "admin.change_request", _verb,
        help=_help, prints="Plan Outcome", examples=(f"redisq request {_verb} mail/r1 {_words}",),
    )  # fmt: skip

QUEUE = {
    "pause": "Stop delivering entries. Running deliveries can settle.",
    "resume": "Deliver entries again, and accept new ones again.",
    "drain": "Accept no new entries; deliver those that are there.",
}
for _word, _help in QUEUE.items():
    add(
        _queue, _word, {"name": argument("QUEUE"), **GO}, "admin.change_queue", _word,
        help=_help, prints="Plan Outcome", examples=(f"redisq queue {_word} mail --yes",),
    )  # fmt: skip

add(
    _queue, "destroy",
    {
        "name": argument("QUEUE"),
        "hard": flag("--hard", "Remove the queue even if it has entries."),
        **GO,
    },
    "admin.destroy",
    help="Remove an empty queue; with --hard, a queue and all entries in it. There is no undo.",
    prints="Plan Outcome",
    examples=("redisq queue destroy mail", "redisq queue destroy mail --hard --dry-run"),
)  # fmt: skip

add(
    commands, "undo",
    {
        "op": argument(
            "[OP]", str, "Operation to undo; default: the latest that can be undone.", operations
        ),
        "report": option(
            "--report", "FILE", "Write the entries that could not be undone to FILE, as NDJSON."
        ),
        **GO,
    },
    "admin.undo",
    help="Undo a change. Entries that were changed since then stay as they are.",
    prints="Plan Outcome",
    examples=(
        "redisq undo",
        "redisq undo replay-5e8d3c91f0 --dry-run",
        "redisq undo replay-5e8d3c91f0 --report left.ndjson --yes",
    ),
)  # fmt: skip

add(
    commands, "retention",
    {"name": argument("QUEUE"), "changes": argument("[NAME=VALUE]...", list[str]), **GO},
    "admin.retention",
    help="Show or change the settings of a queue: what it keeps and how often it retries. An "
    "empty value restores the default; write time spans as 90s, 5m, 2h, 3d.",
    prints="Setting Plan Outcome",
    examples=(
        "redisq retention mail",
        "redisq retention mail keep_ms=48h max_failures=5 history=",
    ),
)  # fmt: skip
