"""`redisq client`: whose work is in a queue, and by what rules it is served."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from .app import app, examples
from .confirm_and_run import agreed, ended
from .options import GO, MOST, Options, argument, command
from .session import Session

clients = typer.Typer(help="Whose work is in a queue: hold it back, weigh it, cap it.")
app.add_typer(clients, name="client")

RULES: dict[str, tuple[str, Options, str]] = {
    "block": ("Hand out nothing more of a client. What it sends still waits.", {}, "acme"),
    "unblock": ("Serve a client again, from the present turn on.", {}, "acme"),
    "weight": (
        "Change how many turns a client gets where another gets one.",
        {"value": argument("WEIGHT", int, "1 to 100.")},
        "acme 3",
    ),
    "cap": (
        "Change how many of a client's entries may be pending at a time.",
        {"value": argument("CAP", int, "0: any number.")},
        "acme 10",
    ),
}

_START = Annotated[
    int, typer.Option("--start", min=0, max=MOST, metavar="N", help="From the Nth name on.")
]
_MAX = Annotated[int, typer.Option("--max", min=1, max=500, help="At most so many.")]


def listed(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.ops.change import control

    from .output import emit, say, table

    queue = s.run(s.deployment.queue(given["name"]))
    found = s.run(control.with_clients(queue).clients.op(given["start"], given["max"]))
    rows = [asdict(client) for client in found.clients]
    if s.json:
        for row in rows:
            emit({"queue": queue.name} | row)
        return 0
    if rows:
        table(list(rows[0]), [list(row.values()) for row in rows])
    if len(rows) < found.total:
        say(f"{len(rows)} of {found.total:,} shown")
    return 0


def change(s: Session, verb: str, given: dict[str, Any]) -> int:
    from redisq_ops.ops.change import control
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.bulk import Plan

    queue, name = s.run(s.deployment.queue(given["name"])), given["client"]
    rule, value = control.client_rule(verb, given.get("value"))
    now = s.run(control.client_changeable(queue, name, rule, value))
    before = getattr(now, rule) or 0
    title = f"{verb} client {name} of queue {queue.name}"
    if verb in ("weight", "cap"):
        words = [str(n) if n or verb == "weight" else "none" for n in (before, value)]
        title = f"change {verb} of client {name} of queue {queue.name} from {' to '.join(words)}"
    lines = (f"{now.waiting:,} waiting, {now.pending:,} pending",)
    facts = {"verb": verb, "queue": queue.name, "client": name, "value": given.get("value")}
    if int(before) == value:
        return _unchanged(s, title, facts, dry_run=given["dry_run"])
    if not agreed(s, [Plan(title, lines, facts=facts | {"matched": 1})], given):
        return 0
    author = Author.here(given["reason"])
    outcome = s.run(control.change_client(queue, name, verb, author, value))
    ended(s, outcome, title)
    return outcome.exit_code


def _unchanged(s: Session, title: str, facts: dict[str, Any], *, dry_run: bool) -> int:
    """The rule is so already: nothing is asked, nothing is written."""
    from redisq_ops.ops.change.audit_log import ChangeOutcome

    from .output import emit, printable

    if not s.json:
        print(printable(f"0 matched: {title}: it is so already"))
    elif dry_run:
        emit({"plan": title, **facts, "matched": 0})
    else:
        emit(ChangeOutcome(None, 0))
    return 0


def _add(verb: str) -> None:
    help, own, words = RULES[verb]
    clients.command(verb, help=help, epilog=examples(f"redisq client {verb} jobs {words}"))(
        command(
            {"name": argument("QUEUE"), "client": argument("CLIENT"), **own, **GO},
            lambda s, given: change(s, verb, given),
        )
    )


clients.command(
    "ls",
    help="Clients by name: what each has waiting and pending, and its rules.",
    epilog=examples("redisq client ls jobs", "redisq client ls jobs --start 100 --json"),
)(
    command(
        {"name": argument("QUEUE"), "start": (_START, 0), "max": (_MAX, 100)},
        listed,
    )
)
for _verb in RULES:
    _add(_verb)
