"""`redisq discover` and `redisq forget`: other programs' queues, found, noted, left alone again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import app, examples
from .confirm_and_run import agreed
from .options import GO, MOST, argument, command, flag
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.registry import Registered
    from redisq_ops.ops.change.audit_log import ChangeOutcome
    from redisq_ops.ops.discover import Discovered, Discovery, RegisteredFind

SHOWN = 5
"""faults of a queue a person gets to see"""
BATCH = 20
"""queues counted and checked side by side"""


def discover(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.ops.change.bulk import Plan
    from redisq_ops.ops.discover import Discovery, named, register
    from redisq_ops.ops.filter.time import per_second

    from .output import count, say

    if given["register"] and not given["dry_run"]:
        s.writable()
    rate = None if given["rate"] is None else per_second(given["rate"])
    search = Discovery(s.deployment, match=given["match"], rate=rate, most=given["max"])
    whole = _looked(s, search)
    entries = s.run(named(s.deployment, s.run(search.finds())))
    rows = _described(s, entries)
    _shown(s, rows)
    looked, keys = search.walk.looked, search.walk.keys
    of = "" if search.walk.over else f" of about {count(keys)}"
    stopped = "" if whole else "interrupted: "
    queues = f"{count(len(rows))} queue{'' if len(rows) == 1 else 's'}"
    say(f"{stopped}{queues} of other programs in {count(looked)}{of} keys")
    for why in search.walk.missing.values():
        say(f"not looked at: {why}")
    if search.barred:
        say(f"not looked at: {count(search.barred)} keys that this user may not read")
    for framework, number in sorted(search.frameworks.items()):
        keys_of = f"{count(number)} key{'' if number == 1 else 's'}"
        say(f"not shown: {keys_of} named as {framework}'s, whose queues redisq can't read")
    if not whole:
        return 130
    broken = bool(search.walk.missing or search.barred) or any(row.problem for row in rows)
    unknown = any(row.registered is None for row in rows)
    if given["register"] and unknown:
        say("nothing is registered: the registry can't be read")
    elif given["register"]:
        sound = {row.name for row in rows if not row.registered and not row.problem}
        new = [one.entry for one in entries if one.entry.name in sound]
        title = f"register {count(len(new))} queue{'' if len(new) == 1 else 's'}"
        lines = (", ".join(e.name for e in new[:SHOWN]) + (", …" if len(new) > SHOWN else ""),)
        facts = {"verb": "register", "matched": len(new), "queues": [e.name for e in new]}
        if not new:
            _ended(s, None, "nothing new to register")
        elif agreed(s, [Plan(title, lines, facts=facts)], given):
            outcome = s.run(register(s.deployment, new))
            _ended(s, outcome, "registered")
            return outcome.exit_code or (3 if broken else 0)
    return 3 if broken else 0


def _looked(s: Session, search: Discovery) -> bool:
    """Take the steps; False after Ctrl+C."""
    from .output import progress

    try:
        with progress("looking through the keys") as meter:
            while s.run(search.step()):
                meter(search.walk.looked, search.walk.keys)
                time.sleep(search.pause)
        return True
    except KeyboardInterrupt:
        return False


def _described(s: Session, entries: list[RegisteredFind]) -> list[Discovered]:
    from redisq_ops.ops.discover import described

    from .output import progress

    rows: list[Discovered] = []
    with progress("counting and checking", len(entries)) as meter:
        for i in range(0, len(entries), BATCH):
            rows += s.run(described(s.deployment, entries[i : i + BATCH]))
            meter(len(rows), len(entries))
    return rows


def _shown(s: Session, rows: list[Discovered]) -> None:
    from redisq_ops.core.redis.key_scan import clock_ms
    from redisq_ops.ops.inspect.overview import QueueRow

    from .output import age, emit, table
    from .rows import queue_row, tell

    now = s.run(clock_ms(s.client))
    states = ("waiting", "pending", "delayed", "dead")
    cells: list[list[Any]] = []
    for row in rows:
        told = queue_row(QueueRow(row.name, row.kind, row.counts, None, row.problem), now)
        if s.json:
            emit(
                told
                | {"at": row.at, "called": row.called, "registered": row.registered,
                   "faults": row.checkup.flaws, "unseen": row.checkup.unseen}
            )  # fmt: skip
            continue
        oldest = None if told["oldest_ms"] is None else age(told["oldest_age_ms"])
        faults = row.problem or len(row.checkup.flaws)
        cells.append([row.name, row.kind, *(told[state] for state in states), oldest,
                      "unknown" if row.registered is None else row.registered, faults])  # fmt: skip
    if cells:
        table(["name", "kind", *states, "oldest", "registered", "faults"], cells)
        for row in rows:
            for line in row.checkup.flaws[:SHOWN]:
                tell(f"  {row.name}: {line}")
            if (more := len(row.checkup.flaws) - SHOWN) > 0:
                tell(f"  {row.name}: … and {more:,} more (redisq fsck after --register)")
            if row.checkup.unseen:
                tell(f"  {row.name}: not looked at: {row.checkup.unseen}")


def forget(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.core.model.keys import checked_name
    from redisq_ops.ops.change.bulk import Plan
    from redisq_ops.ops.discover import forgettable, forgotten

    name = checked_name(given["name"], "queue name")
    entry: Registered = s.run(forgettable(s.deployment, name))
    facts = {"verb": "forget", "queue": name, "matched": 1}
    lines = ("redisq doesn't show it any more; its owner's keys stay as they are",)
    if not agreed(s, [Plan(f"forget queue {name}", lines, facts=facts)], given):
        return 0
    outcome = s.run(forgotten(s.deployment, entry))
    _ended(s, outcome, f"forgot {name}")
    return outcome.exit_code


def _ended(s: Session, outcome: ChangeOutcome | None, what: str) -> None:
    from redisq_ops.ops.change.audit_log import ChangeOutcome

    from .output import count, emit, printable, tell

    if s.json:
        emit(outcome or ChangeOutcome(None, 0))
    elif outcome is None:
        tell(f"0 matched: {what}")
    else:
        skipped = ", ".join(f"{count(n)} {why}" for why, n in outcome.skipped.items())
        done = f"{count(outcome.done)} of {count(outcome.matched)}"
        print(printable(f"{what}: {done}" + (f", skipped {skipped}" if skipped else "")))


_MATCH = typer.Option("--match", metavar="PATTERN", help="Only keys of this pattern (? * [a-c]).")
_RATE = typer.Option("--rate", metavar="N/s", help="Look at so many keys a second at most.")
_MAX = typer.Option("--max", min=1, max=MOST, help="Look at about so many keys at most.")
app.command(
    "discover",
    help="Find other programs' queues: RQ, Resque, Sidekiq, Carmine, streams with consumer groups, "
    "turning lists, delay sets. Looks through all keys of every master and writes nothing; "
    "--register notes what was found, so that all commands show it from then on.",
    epilog=examples(
        "redisq discover", "redisq discover --match 'jobs:*' --rate 50000/s --json",
        "redisq discover --register --yes",
    ),
)(
    command(
        {
            "match": (Annotated[str | None, _MATCH], None),
            "rate": (Annotated[str | None, _RATE], None),
            "max": (Annotated[int | None, _MAX], None),
            "register": flag("--register", "Note what was found in the registry."),
            "dry_run": GO["dry_run"],
            "yes": GO["yes"],
        },
        discover,
    )
)  # fmt: skip
app.command(
    "forget",
    help="Take another program's queue out of the registry. Its keys are left alone.",
    epilog=examples("redisq forget stream:orders --yes"),
)(
    command(
        {"name": argument("QUEUE"), "dry_run": GO["dry_run"], "yes": GO["yes"]},
        forget,
    )
)
