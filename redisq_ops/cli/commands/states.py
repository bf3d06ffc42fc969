"""The commands for entries of a state: `waiting`, `pending`, `dlq` …, and verbs without a state.

The core's table says which verb is possible in which state; here are its help and its options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.states import VERBS, Verb

from ..completion import queues, states
from ..options import (
    GO,
    PLANNING,
    RAMPING,
    SELECTING,
    WHEN,
    Options,
    argument,
    command,
    examples,
    flag,
)
from . import edit, groups

NOUNS: dict[str, tuple[State, str]] = {
    "waiting": ("waiting", "List and change waiting entries."),
    "pending": ("pending", "List and change pending entries: those that consumers hold."),
    "dlq": (
        "dead",
        "List, group and change dead letters: entries that failed or were lost too often.",
    ),
    "delay": ("delayed", "List, schedule and change delayed entries."),
    "trash": ("trash", "List, restore and remove purged entries."),
}
HELP: dict[Verb, str] = {
    "requeue": "Move pending or delayed entries back to waiting. A worker that holds "
    "one can't settle it any more.",
    "claim": "Give pending entries to another consumer. The old receipts become invalid.",
    "replay": "Move dead entries back to waiting. Attempts restart at zero; a Sidekiq"
    " job has one attempt before it is dead again.",
    "purge": "Move entries to the trash, or remove them for good with --hard. Undo "
    "restores entries from the trash; there is no undo of --hard.",
    "hard": "Remove entries in the trash for good. There is no undo.",
    "restore": "Move entries back to the state they were purged from.",
    "reschedule": "Change the ready time of delayed entries.",
    "move": "Move entries to another queue of the same kind, unchanged. An entry "
    "that the other queue has already, or refuses, stays where it is.",
}
NAMED: dict[str, str] = {"hard": "empty"}
BARE: tuple[Verb, ...] = ("replay", "requeue", "claim", "purge", "move")
_STATE = typer.Option("--state", metavar="STATE", help="State to act on.", autocompletion=states)
_RATE = typer.Option("--rate", metavar="N/s", help="Change at most N entries per second.")
CHANGING: Options = {"rate": (Annotated[str | None, _RATE], None), **GO}
_TO = typer.Option(
    "--to",
    metavar="OTHER",
    show_default=False,
    help="Queue that receives the entries.",
    autocompletion=queues,
)
_CONSUMER = typer.Option(
    "--consumer", metavar="NAME", show_default=False, help="Consumer that receives the entries."
)
OWN: dict[Verb, Options] = {
    "replay": RAMPING,
    "claim": {"consumer": (Annotated[str, _CONSUMER], ...)},
    "purge": {"hard": flag("--hard", "Remove the entries for good; there is no undo.")},
    "reschedule": WHEN,
    "move": {"to": (Annotated[str, _TO], ...)},
}


def _add(to: typer.Typer, verb: Verb, states: Sequence[State], typed: str) -> None:
    name = NAMED.get(verb, verb)
    options = {**SELECTING, **OWN.get(verb, {}), **CHANGING, **PLANNING}
    if not states:
        options["state"] = (Annotated[str | None, _STATE], None)
    own = {"claim": " --consumer me", "reschedule": " --in 5m", "move": " --to other"}
    more = own.get(verb, "")
    # Without a noun a verb of several states has to be told which.
    told = {"purge": " --state dead", "requeue": " --state delayed", "move": " --state dead"}
    which = "" if states else told.get(verb, "")
    chosen = [f"{typed} {name} mail{which} --where 'error~timeout age>2h' "
              "--plan p.ndjson"] if verb in ("replay", "purge") else []  # fmt: skip
    queue, id = ("later", "e1") if verb in ("reschedule", "move") else ("mail", "r1/17")
    to.command(
        name,
        help=HELP[verb],
        epilog=examples(
            f"{typed} {name} {queue}/{id}{more} --dry-run",
            f"{typed} {name} --queue {queue}{which} --older-than 2h --rate 100/s{more} --yes",
            *chosen,
        ),
    )(command(options, "change_entries.changed", verb, states))


def _noun(noun: str) -> typer.Typer:
    """The group of a state: its list and its verbs."""
    state, help = NOUNS[noun]
    group = typer.Typer(help=help, no_args_is_help=True)
    shown = examples(f"redisq {noun} ls", f"redisq {noun} ls mail/r1 --json")
    group.command("ls", help="List the entries.", epilog=shown)(
        command(SELECTING, "entries.listed", state)
    )
    for verb, (sources, _) in VERBS.items():
        if state in sources and (verb != "hard" or noun == "trash"):
            _add(group, verb, (state,), f"redisq {noun}")
    commands.add_typer(group, name=noun)
    return group


commands = typer.Typer()
GROUPS = {noun: _noun(noun) for noun in NOUNS}
for _verb in BARE:
    _add(commands, _verb, (), "redisq")
groups.add_to(GROUPS["dlq"])
for _name in ("dlq", "delay"):
    edit.add_to(GROUPS[_name], _name, NOUNS[_name][0])
GROUPS["delay"].command(
    "schedule",
    help="Add an entry that becomes ready at a time; creates the queue if it "
    "does not exist. - reads the payload from stdin. Run again with the "
    "same --at, it changes nothing; another payload or time for the same id"
    " is refused.",
    epilog=examples(
        "redisq delay schedule later/e1 --in 5m hello",
        "redisq delay schedule later/e2 --at 2026-11-20T03:12:00+01:00 -",
    ),
)(
    command(
        {"address": argument("QUEUE/ID"), "payload": argument("PAYLOAD|-"), **WHEN},
        "entries.schedule",
    )
)
