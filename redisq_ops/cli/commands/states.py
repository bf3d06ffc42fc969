"""The commands for entries of a state: `waiting`, `pending`, `dlq` …, and verbs without a state.

The core's table says which verb is possible in which state; here are its help and its options.
"""

from __future__ import annotations

import typer

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.states import VERBS, Verb

from ..completion import queues, states
from ..options import (
    GO,
    PLANNING,
    RAMPING,
    RATE,
    SELECTING,
    WATCHING,
    WHEN,
    Option,
    Options,
    add,
    argument,
    flag,
    option,
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
    "replay": "Move dead entries back to waiting. Attempts restart at zero; jobs of "
    "BullMQ, Bull, RQ and Sidekiq keep the attempts they used up, and get at least one.",
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
OWN: dict[Verb, Options] = {
    "replay": RAMPING,
    "claim": {
        "consumer": option(
            "--consumer", "NAME", "Consumer that receives the entries.", default=...,
            show_default=False,
        ),
    },
    "purge": {"hard": flag("--hard", "Remove the entries for good; there is no undo.")},
    "reschedule": WHEN,
    "move": {
        "to": option(
            "--to", "OTHER", "Queue that receives the entries.", default=..., show_default=False,
            autocompletion=queues,
        )
    },
}  # fmt: skip


def _state(sources: tuple[State, ...]) -> Option:
    """``--state`` of a verb that is possible in these states."""
    if len(sources) == 1:
        help = f"State of the entries: {sources[0]}."
    else:
        named = f"{', '.join(sources[:-1])} or {sources[-1]}"
        help = f"State of the entries: {named}. Single entries need none."
    return option("--state", "STATE", help, autocompletion=states)


def _add(to: typer.Typer, verb: Verb, states: tuple[State, ...], typed: str) -> None:
    name = NAMED.get(verb, verb)
    options = {**SELECTING, **OWN.get(verb, {}), "rate": RATE, **GO, **PLANNING}
    if not states:
        options["state"] = _state(VERBS[verb][0])
    own = {"claim": " --consumer me", "reschedule": " --in 5m", "move": " --to other"}
    more = own.get(verb, "")
    # Without a noun, a verb that is possible in several states needs --state.
    chosen = {"purge": " --state dead", "requeue": " --state delayed", "move": " --state dead"}
    which = "" if states else chosen.get(verb, "")
    planned = (
        f"{typed} {name} mail{which} --where 'error~timeout age>2h' --plan p.ndjson",
    ) if verb in ("replay", "purge") else ()  # fmt: skip
    queue, id = ("later", "e1") if verb in ("reschedule", "move") else ("mail", "r1/17")
    add(
        to, name, options, "change_entries.changed", verb, states,
        help=HELP[verb],
        prints="Plan Outcome",
        examples=(
            f"{typed} {name} {queue}/{id}{more} --dry-run",
            f"{typed} {name} --queue {queue}{which} --older-than 2h --rate 100/s{more} --yes",
            *planned,
        ),
    )  # fmt: skip


def _noun(noun: str) -> typer.Typer:
    """The group of a state: its list and its verbs."""
    state, help = NOUNS[noun]
    group = typer.Typer(help=help, no_args_is_help=True)
    add(
        group, "ls", {**SELECTING, **WATCHING}, "entries.listed", state,
        help="List the entries.",
        prints="Entry",
        examples=(f"redisq {noun} ls", f"redisq {noun} ls mail/r1 --json"),
    )  # fmt: skip
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
add(
    GROUPS["delay"], "schedule",
    {"address": argument("QUEUE/ID"), "payload": argument("PAYLOAD|-"), **WHEN},
    "entries.schedule",
    help="Add an entry that becomes ready at a time; creates the queue if it does not exist. - "
    "reads the payload from stdin. Run again with the same --at, it changes nothing; another "
    "payload or time for the same id is refused.",
    prints="Schedule",
    examples=(
        "redisq delay schedule later/e1 --in 5m hello",
        "redisq delay schedule later/e2 --at 2026-11-20T03:12:00+01:00 -",
    ),
)  # fmt: skip
