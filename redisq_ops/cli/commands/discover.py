"""`redisq discover`: finds and registers other programs' queues."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.exit_codes import DONE, INTERRUPTED, PARTLY_DONE
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.filter.time import per_second
from redisq_ops.ops.hint import hint

from ..confirm_and_run import agreed, ended
from ..options import MOST, Go, command, flag, option, options
from ..output import age_or_none, count, emit, progress, quantity, say, table, tell
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.discover import Discovered, Discovery, RegisteredFind

commands = typer.Typer()
SHOWN = 5
"""number of a queue's faults that are shown to a person"""
BATCH = 20
"""queues counted and checked in one round trip"""


@options
class DiscoverOptions:
    match: str | None = option(
        "--match", "PATTERN", "Only keys that match the pattern (? * [a-c])."
    )
    rate: str | None = option("--rate", "N/s", "Scan at most N keys per second.")
    max: int | None = option("--max", None, "Scan about N keys at most.", min=1, max=MOST)
    register: bool = flag("--register", "Add the queues that were found to the registry.")
    go: Go


@command(commands, "discover", prints="DiscoveredQueue Plan Outcome", fixed={"reason": ""})
def discover(s: Session, given: DiscoverOptions) -> int:
    """Find queues of other programs: RQ, Celery, BullMQ, Bull, arq, asynq, Dramatiq, Laravel,
    Sidekiq, Resque, Carmine, streams with consumer groups, circular lists, delay sets. Scans all
    keys of every primary and writes nothing. --register adds the queues to the registry, so that
    all commands show them.

    Examples:
      redisq discover
      redisq discover --match 'jobs:*' --rate 50000/s --json
      redisq discover --register --yes
    """
    from redisq_ops.ops.change.preview import Preview
    from redisq_ops.ops.discover import Discovery, named, register
    from redisq_ops.ops.unregistered import UnregisteredQueues, sentence, unregistered

    if given.register and not given.go.dry_run:
        s.writable()
    rate = None if given.rate is None else per_second(given.rate)
    search = Discovery(s.deployment, match=given.match, rate=rate, most=given.max)
    finished = _search(s, search)
    entries = s.run(named(s.deployment, s.run(search.finds())))
    rows = _describe(s, entries)
    _print(s, rows)
    looked, keys = search.walk.looked, search.walk.keys
    seen = f"{count(looked)} of about {quantity(keys, 'key')}"
    stopped = "" if finished else "interrupted: "
    within = quantity(looked, "key") if search.walk.over else seen
    say(f"{stopped}{quantity(len(rows), 'queue')} of other programs in {within}")
    for why in search.walk.missing.values():
        say(f"not looked at: {why}")
    if search.barred:
        say(f"not looked at: {count(search.barred)} keys that this user may not read")
    for why in search.unusable:
        say(f"not looked for: {why}")
    for what, number in sorted(search.unread().items()):
        say(f"not shown: {quantity(number, 'key')} {what}")
    if not finished:
        return INTERRUPTED
    lost = s.run(unregistered(s.deployment)) if search.whole else UnregisteredQueues()
    for entry in lost.entries:
        say(sentence(entry))
    if lost.unseen:
        say(f"not searched for queues that the registry has lost: {lost.unseen}")
    broken = bool(search.walk.missing or search.barred) or any(row.problem for row in rows)
    unknown = any(row.registered is None for row in rows)
    if given.register and unknown:
        say("nothing is registered: the registry can't be read")
    elif not given.register and any(not row.registered and not row.problem for row in rows):
        say(f"to show them in ls and the dashboard: {hint('discover', register=None)}")
    elif given.register:
        sound = {row.name for row in rows if not row.registered and not row.problem}
        new = [one.entry for one in entries if one.entry.name in sound] + [*lost.entries]
        title = f"register {quantity(len(new), 'queue')}"
        lines = (", ".join(e.name for e in new[:SHOWN]) + (", …" if len(new) > SHOWN else ""),)
        facts = {"verb": "register", "matched": len(new), "queues": [e.name for e in new]}
        if not new:
            ended(s, ChangeOutcome(None, 0), "nothing new to register")
        elif agreed(s, [Preview(title, lines, facts=facts)], given.go, given.rate):
            outcome = s.run(register(s.deployment, new))
            ended(s, outcome, "registered", undo=False)
            return outcome.exit_code or (PARTLY_DONE if broken else DONE)
    return PARTLY_DONE if broken else DONE


def _search(s: Session, search: Discovery) -> bool:
    """Scan the keys; False after Ctrl+C."""
    try:
        with progress("looking through the keys") as meter:
            while s.run(search.step()):
                meter(search.walk.looked, search.walk.keys)
                time.sleep(search.pause)
        return True
    except KeyboardInterrupt:
        return False


def _describe(s: Session, entries: list[RegisteredFind]) -> list[Discovered]:
    from redisq_ops.ops.discover import described

    rows: list[Discovered] = []
    with progress("counting and checking", len(entries)) as meter:
        for i in range(0, len(entries), BATCH):
            rows += s.run(described(s.deployment, entries[i : i + BATCH]))
            meter(len(rows), len(entries))
    return rows


def _print(s: Session, rows: list[Discovered]) -> None:
    from redisq_ops.core.redis.key_scan import clock_ms
    from redisq_ops.ops.inspect.overview import QueueRow
    from redisq_ops.ops.inspect.queue_fields import QueueFields

    if s.json:
        from ..output_types.queues import DiscoveredQueueOutput

    now = s.run(clock_ms(s.client))
    states = ("waiting", "pending", "delayed", "dead")
    cells: list[list[Any]] = []
    for row in rows:
        values = QueueFields.of(QueueRow(row.name, row.kind, row.counts, None, row.problem), now)
        if s.json:
            emit(
                DiscoveredQueueOutput(
                    queue=values,
                    at=row.at,
                    full_name=row.called,
                    registered=row.registered,
                    faults=row.checkup.flaws,
                    not_checked=row.checkup.unseen,
                )
            )
            continue
        oldest = age_or_none(values.oldest_age_ms)
        faults = row.problem or len(row.checkup.flaws)
        cells.append(
            [
                row.name,
                row.kind,
                *(getattr(values, state) for state in states),
                oldest,
                "unknown" if row.registered is None else row.registered,
                faults,
            ]
        )
    if cells:
        table(["name", "kind", *states, "oldest", "registered", "faults"], cells)
        for row in rows:
            for line in row.checkup.flaws[:SHOWN]:
                tell(f"  {row.name}: {line}")
            if (more := len(row.checkup.flaws) - SHOWN) > 0:
                tell(f"  {row.name}: … and {more:,} more (redisq fsck after --register)")
            if row.counts and row.counts.only_shown:
                tell(f"  {row.name}: only shown: {row.counts.only_shown}")
            if row.checkup.unseen:
                tell(f"  {row.name}: not looked at: {row.checkup.unseen}")
