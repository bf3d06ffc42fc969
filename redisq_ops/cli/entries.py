"""Entries by state: `waiting`, `pending`, `dlq` …, and the same verbs without a noun.

Which verb there is in which state is the core's table; here are its words and options. The table
is read when a noun is used: loading it takes the Redis client, which `redisq --help` must not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from .address import queue_named
from .app import app, examples
from .canary import RAMPING, limits, ramped
from .completion import queues, states
from .confirm_and_run import agreed, drive, ended, tell_recovered, tell_unfinished, untouched
from .filter_options import filtered, pace, pages, whole
from .options import GO, PLANNING, SELECTING, WHEN, Options, argument, command, flag
from .session import Session, redaction

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.core.model.entry import Entry, State
    from redisq_ops.core.model.states import Verb
    from redisq_ops.ops.change.bulk import Bulk, Looked
    from redisq_ops.ops.change.impact import Consequences
    from redisq_ops.ops.change.ramp_controller import Limits
    from redisq_ops.ops.change.transfer_plan import Way
    from redisq_ops.ops.filter.target import Target

NOUNS: dict[str, tuple[State, str]] = {
    "waiting": ("waiting", "Entries that wait for a worker."),
    "pending": ("pending", "Entries that consumers have."),
    "dlq": ("dead", "Dead letters: entries that failed or were lost too often."),
    "delay": ("delayed", "Entries that wait for their time."),
    "trash": ("trash", "Purged entries, until undo expires."),
}
HELP: dict[Verb, str] = {
    "requeue": "Make pending or delayed entries wait for a worker now. Who holds one can't settle "
    "it any more.",
    "claim": "Give pending entries to another consumer. The old receipts are void.",
    "replay": "Make dead entries wait for a worker again. Attempts are counted afresh; a job of "
    "Sidekiq's has one before it is dead again.",
    "purge": "Put entries into the trash, or remove them for good. Undo brings back what is in "
    "the trash; there is none after --hard.",
    "hard": "Remove what is in the trash for good. There is no undo.",
    "restore": "Put entries back where they were purged from.",
    "reschedule": "Give entries of a delay queue another ready time.",
    "move": "Put entries into another queue of the same kind, as they are. What is there already, "
    "or isn't taken in there, stays where it is.",
}
NAMED: dict[str, str] = {"hard": "empty"}
BARE: tuple[Verb, ...] = ("replay", "requeue", "claim", "purge", "move")
_STATE = typer.Option(
    "--state", metavar="STATE", help="Which, where several are possible.", autocompletion=states
)
_RATE = typer.Option("--rate", metavar="N/s", help="Not faster than this.")
CHANGING: Options = {"rate": (Annotated[str | None, _RATE], None), **GO}
_TO = typer.Option(
    "--to", metavar="OTHER", show_default=False, help="Where they go.", autocompletion=queues
)
_CONSUMER = typer.Option(
    "--consumer", metavar="NAME", show_default=False, help="Consumer that receives the entries."
)
OWN: dict[Verb, Options] = {
    "replay": RAMPING,
    "claim": {"consumer": (Annotated[str, _CONSUMER], ...)},
    "purge": {"hard": flag("--hard", "Free their memory at once; there is no undo.")},
    "reschedule": WHEN,
    "move": {"to": (Annotated[str, _TO], ...)},
}


class Verbs(TyperGroup):
    """A noun and its verbs, made when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._all())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._all().get(cmd_name)

    def _all(self) -> Mapping[str, Any]:
        from redisq_ops.core.model.states import VERBS

        noun = self.name or ""
        state, _ = NOUNS[noun]
        made = typer.Typer(rich_markup_mode=None)
        shown = examples(f"redisq {noun} ls", f"redisq {noun} ls mail/r1 --json")
        made.command("ls", help="Show them.", epilog=shown)(
            command(SELECTING, lambda s, given: listed(s, state, given))
        )
        for verb, (sources, _) in VERBS.items():
            if state in sources and (verb != "hard" or noun == "trash"):
                _add(made, verb, (state,), f"redisq {noun}")
        return {**typer.main.get_group(made).commands, **self.commands}


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
    )(command(options, lambda s, given: changed(s, verb, states, given)))


def meant(
    s: Session,
    states: Sequence[State],
    given: Mapping[str, Any],
    verb: Verb | None = None,
    look: Callable[[Queue[Any]], Awaitable[object]] | None = None,
) -> list[Target]:
    """The addresses and options of a command as targets."""
    from redisq_ops.ops.filter.target import targets

    from .output import printable, say

    addresses, filter = given["addresses"] or (), filtered(s, given)
    queue = given["queue"] if addresses else queue_named(s, given["queue"])
    found = s.run(targets(s.deployment, addresses, filter, states, queue, verb=verb, check=look))
    for target in found:
        if other := target.filter.state_mismatch(target.state):
            say(printable(f"{target.queue.name}: nothing here is meant: {other}"))
    return found


def listed(s: Session, state: State, given: Mapping[str, Any]) -> int:
    """``ls``: all of them for programs, the first 100 for people."""
    from redisq_ops.core.engine.optional_features import HasConsumerGroups
    from redisq_ops.core.model.entry import GONE
    from redisq_ops.ops.change.bulk import entries
    from redisq_ops.ops.filter.scan import Scan
    from redisq_ops.ops.hint import hint

    from .output import emit, say, table
    from .rows import entry_row, tell_unread

    most = given["max"] or (None if s.json else 100)
    broken = False
    for target in meant(s, (state,), {**given, "max": most}):
        queue = target.queue
        scan = Scan(queue, state, target.filter, now := s.run(queue.now.op()), partly=True)
        found: list[Entry] = []
        for page in pages(s, scan, given):
            if not s.json:
                # Of a stream only a look at the payloads shows which of them are gone from it.
                looks = state == "pending" and isinstance(queue, HasConsumerGroups)
                found += whole(s, queue, page) if looks else page
                continue
            for entry in whole(s, queue, page):
                emit(entry_row(queue.name, entry))
        unknown = not scan.found and state in s.run(queue.counts.op()).unknown
        if not s.json:
            table(*_table(queue.name, state, found, now)) if found else None
            if gone := [entry for entry in found if entry.called == GONE]:
                how = f"{hint('explain', f'{queue.name}/{gone[0].id}')} says what clears one"
                some = entries(len(gone), state)
                say(f"{queue.name}: {some} without a payload, gone from the stream: {how}")
            capped = scan.found == most and not scan.complete
            of = f" of {scan.total_text}: --max shows more" if capped else ""
            looked = f"; {scan.window_text}" if scan.window_text else ""
            if not unknown:
                say(f"{queue.name}: {entries(scan.found, state)}{of}{looked}")
        elif scan.window_text:
            say(f"{queue.name}: {scan.window_text}")
        if unknown:
            say(f"{queue.name}: unknown: a {queue.kind} queue doesn't tell which are {state}")
        broken = tell_unread([scan]) or broken
        _say_cancelled(s, target)
    return 3 if broken else 0


def _say_cancelled(s: Session, target: Target) -> None:
    """What the trash counts and doesn't list."""
    from redisq_ops.ops.inspect.cancelled_trash import cancelled_trash

    from .output import printable, say

    if target.state == "trash" and (said := s.run(cancelled_trash(target.queue))):
        say(printable(f"{target.queue.name}: {said}"))


def _table(queue: str, state: State, rows: list[Entry], now: int) -> tuple[list[str], list[Any]]:
    from redisq_ops.core.model.entry import GONE

    from .output import age

    clock = {"pending": "lease left", "delayed": "ready in"}.get(state)
    headers = ["entry", "since", *([clock] if clock else []), "failures", "lost", "consumer"]
    texts: list[list[Any]] = []
    for entry in map(redaction().entry, rows):
        error = entry.error
        texts.append(
            [f"{queue}/{entry.id}", entry.since_ms and age(now - entry.since_ms)]
            + ([entry.at_ms and age(entry.at_ms - now)] if clock else [])
            + [entry.failures, entry.lost, entry.consumer,
               GONE if entry.called == GONE else entry.reason,
               f"{error.type}: {error.message}" if error else entry.problem]
        )  # fmt: skip
    return [*headers, "reason", "error"], texts


def changed(s: Session, verb: Verb, states: Sequence[State], given: Mapping[str, Any]) -> int:
    """Select, plan, ask, and move in bounded steps, a journal entry for each queue."""
    from contextlib import nullcontext
    from functools import partial

    from redisq_ops.core.engine.transfer_recovery import recover
    from redisq_ops.core.model.errors import BadInput
    from redisq_ops.core.model.states import VERBS
    from redisq_ops.ops.change.audit_log import Author, ChangeOutcome
    from redisq_ops.ops.change.bulk import Bulk, allowed, planned
    from redisq_ops.ops.change.canary import PacedBulk
    from redisq_ops.ops.change.impact import weigh
    from redisq_ops.ops.change.plan import free
    from redisq_ops.ops.change.transfer import Move
    from redisq_ops.ops.change.transfer_plan import look_ahead, way_to
    from redisq_ops.ops.change.transfer_plan import means as going
    from redisq_ops.ops.change.whole_state import Whole, WholeBulk, movable, whole
    from redisq_ops.ops.filter.time import per_second
    from redisq_ops.ops.hint import hint

    from .apply import draft, written
    from .output import emit, printable, progress, when

    if given["plan"] is not None:
        free(given["plan"])
    if given.get("hard"):
        verb = "hard"
    sources = [state for state in VERBS[verb][0] if state != "trash" or states]
    if named := given.get("state"):
        if (verb, named) == ("hard", "trash"):
            places = given["addresses"] or [given["queue"] or "QUEUE"]
            how = hint("trash", "empty", *places)
            raise BadInput(f"what is in the trash is removed for good by: {how}")
        if named not in sources:
            raise BadInput(f"{verb} is for {' or '.join(sources)} entries, not {named!r}")
        sources = [named]
    rate = None if given["rate"] is None else per_second(given["rate"])
    ramp = limits(s, given, rate) if verb == "replay" else None
    ways: list[Way] = []
    if verb == "move":  # where to is what decides about it

        async def there(queue: Queue[Any]) -> None:
            ways.append(await way_to(s.deployment, queue, given["to"]))

        wanted = meant(s, states or sources, given, look=there)
    else:
        wanted = meant(s, states or sources, given, verb)
        for target in wanted:
            allowed(target.queue, verb, target.state)
    file = draft(verb, wanted, given) if given["plan"] is not None else None
    with file or nullcontext():
        weighed: list[tuple[Looked, Consequences]] = []
        for target in wanted:
            with untouched(), progress(f"looking through {target.queue.name}") as meter:
                at = (target.queue, target.state, target.filter)
                listed = file is not None or ramp is not None
                if not listed and s.run(movable(target.queue, target.state, verb, target.filter)):
                    weighed.append(s.run(whole(*at, meter, s.redaction.text)))
                else:
                    keep = None if file is None else file.add
                    paced = pace(meter, given)
                    weighed.append(s.run(weigh(*at, paced, keep, s.redaction.text)))
        at_ms, more, means = None, {}, ""
        if verb == "reschedule":
            at_ms = _ready(s, given, weighed[0][0].high_water_ms)
            means = f"they become ready at {when(at_ms, s.utc)}"
        elif verb == "claim":
            more["consumer"] = given["consumer"]
            means = f"{given['consumer']} has them then; who held them can't settle any more"
        author = Author.here(given["reason"])
        by_itself = partial(WholeBulk, ahead=s.guard.max_rate is None)
        by_name = Bulk if ramp is None else PacedBulk
        bulks: list[Bulk] = [
            Move(chosen, verb, author, rate=rate, way=to)
            for (chosen, _), to in zip(weighed, ways, strict=False)
        ] or [
            (by_itself if isinstance(chosen, Whole) else by_name)(
                chosen, verb, author, rate=rate, at_ms=at_ms, **more
            )
            for chosen, _ in weighed
        ]
        for (chosen, weight), to in zip(weighed, ways, strict=False):
            s.run(look_ahead(weight, to, chosen.state))
        said = [(going(to, chosen.state), to.target.name)
                for (chosen, _), to in zip(weighed, ways, strict=False)]  # fmt: skip
        plans = [
            planned(chosen, verb, rate, means, weight, into)
            for (chosen, weight), (means, into) in zip(
                weighed, said or [(means, "")] * len(weighed), strict=True
            )
        ]
        if file is not None:
            with untouched():
                return written(s, file, bulks[0], plans[0])
    for target in wanted:
        _say_cancelled(s, target)
    if not any(plan.facts["matched"] for plan in plans):
        if not given["dry_run"] and not s.config.read_only:
            for to in ways:  # what an earlier move left on its way may be all there is
                for queue in (to.source, to.target):
                    tell_recovered(s, s.run(recover(queue)))
                tell_unfinished(s, to.source)
        for plan in plans:
            if not s.json:
                print(printable(f"0 matched: {plan}"))
            elif given["dry_run"]:
                emit({"plan": plan.title, **plan.facts})
        left_out = sum(len(getattr(chosen, "corrupt", ())) for chosen, _ in weighed)
        if s.json and not given["dry_run"]:
            emit(ChangeOutcome(None, left_out, 0, {"corrupt": left_out} if left_out else {}))
        return 1 if left_out and not given["dry_run"] else 0
    return _moved(s, bulks, ramp) if agreed(s, plans, given) else 0


def _moved(s: Session, bulks: Sequence[Bulk], ramp: Limits | None) -> int:
    """Carry the moves out, one after another; the exit code of them all."""
    from redisq_ops.ops.change.audit_log import ChangeOutcome
    from redisq_ops.ops.change.bulk import PAST
    from redisq_ops.ops.change.transfer import Relocating

    from .output import say

    total = ChangeOutcome(None, 0)
    bulks = [bulk for bulk in bulks if bulk.selection.count]
    for nth, bulk in enumerate(bulks, 1):
        selection = bulk.selection
        into = f" to {bulk.way.target.name}" if isinstance(bulk, Relocating) else ""
        what = f"{PAST[bulk.verb]} {selection.state} entries of {selection.queue.name}{into}"
        if ramp is not None:
            if code := ramped(s, bulk, ramp, what):
                if rest := [left.selection.queue.name for left in bulks[nth:]]:
                    say(f"not begun: {', '.join(rest)}")
                return code
            continue
        finished = drive(s, bulk, f"{bulk.verb} in {selection.queue.name}", s.again)
        ended(s, bulk.outcome, what, undo=bulk.verb != "hard")
        if isinstance(bulk, Relocating):
            tell_recovered(s, bulk.recovered)
            tell_unfinished(s, selection.queue)
        if "away" in bulk.outcome.skipped and not s.json:
            say("away: moved to another queue, from where only the undo of that move brings them")
        if not finished:
            return 130
        total.matched += bulk.outcome.matched
        total.done += bulk.outcome.done
    return total.exit_code


def _ready(s: Session, given: Mapping[str, Any], now_ms: int) -> int:
    """The ready time that ``--at`` (its next occurrence) or ``--in`` names."""
    from redisq_ops.core.model.errors import BadInput
    from redisq_ops.ops.filter.time import duration_ms, moment_ms

    if (given["at"] is None) == (given["after"] is None):
        raise BadInput("say when: either --at or --in")
    if given["at"] is not None:
        return moment_ms(given["at"], now_ms, ahead=True, utc=s.utc)
    return now_ms + duration_ms(given["after"])


def _noun(name: str) -> typer.Typer:
    group = typer.Typer(cls=Verbs, help=NOUNS[name][1], no_args_is_help=True)
    app.add_typer(group, name=name)
    return group


GROUPS = {name: _noun(name) for name in NOUNS}
for _verb in BARE:
    _add(app, _verb, (), "redisq")


def schedule(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.core.engine.registry import server_ms
    from redisq_ops.core.model.errors import BadInput, Exists, WrongKind
    from redisq_ops.core.model.keys import checked_name
    from redisq_ops.core.queues.delay import DelaySet

    from .output import emit, when

    address, payload = given["address"], given["payload"]
    name, slash, id = address.partition("/")
    if not slash:
        raise BadInput(f"{address!r} lacks an id: QUEUE/ID")
    s.writable()
    ready_ms = _ready(s, given, s.run(server_ms()))
    content = sys.stdin.buffer.read() if payload == "-" else os.fsencode(payload)
    there = s.run(s.deployment.named(checked_name(name, "queue name")))
    queue = there or DelaySet(s.client, name, prefix=s.deployment.prefix)
    if not isinstance(queue, DelaySet):
        raise WrongKind(f"queue {name} is a {queue.kind} queue, not a delay queue")
    (done,) = queue.schedule([(id, content)], at_ms=ready_ms)
    if done.word == "exists":
        raise Exists(f"{address} is there already, with another payload or time")
    if s.json:
        emit(done)
    else:
        print(f"{address} ready {when(done.ready_ms, s.utc)}")
    return 0


GROUPS["delay"].command(
    "schedule",
    help="Put an entry in for a time; the queue is created if need be. - reads it from stdin. "
    "Sent again with the same --at it changes nothing; anything else of that id is refused.",
    epilog=examples(
        "redisq delay schedule later/e1 --in 5m hello",
        "redisq delay schedule later/e2 --at 2026-11-20T03:12:00+01:00 -",
    ),
)(command({"address": argument("QUEUE/ID"), "payload": argument("PAYLOAD|-"), **WHEN}, schedule))
