"""The commands for entries: `replay`, `purge` … with ``--state``, and the lists of each state.

The core's table says which verb is possible in which state; here are its help and its options. A
verb with ``--state`` is also possible behind a state's noun, as `redisq dlq replay`: no help lists
these.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import typer

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.ops.filter.time import duration_ms, moment_ms

from ..completion import grouped_by, one_of, queues
from ..confirm_and_run import confirm_and_run
from ..options import (
    PLAN,
    QUEUE,
    RATE,
    Act,
    Go,
    Ramping,
    Selecting,
    When,
    argument,
    command,
    flag,
    option,
    options,
)
from ..session import Session

NOUNS: dict[str, State] = {
    "waiting": "waiting",
    "pending": "pending",
    "dlq": "dead",
    "delay": "delayed",
    "done": "done",
    "trash": "trash",
}
EDITED: tuple[State, ...] = ("waiting", "delayed", "dead")
"""states whose payloads can be edited, in some kind of queue"""
GROUPS = {noun: typer.Typer(no_args_is_help=True) for noun in NOUNS}
commands = typer.Typer()
for _noun, _group in GROUPS.items():
    commands.add_typer(_group, name=_noun)


def ls(s: Session, *, selecting: Selecting, state: State) -> int:
    """List the entries."""
    from ..entries import listed

    return listed(s, state, selecting)


for _noun, _state in NOUNS.items():
    command(
        GROUPS[_noun],
        "ls",
        prints="Entry",
        examples=(f"redisq {_noun} ls", f"redisq {_noun} ls mail/r1 --json"),
        repeats=True,
        fixed={"state": _state},
    )(ls)


# --- verbs --------------------------------------------------------------------------------------


def _add(
    act: Act, name: str, possible: Sequence[State], examples: Sequence[str], *, bare: bool
) -> Act:
    """Add a verb: with ``bare`` as a command with ``--state``, and hidden to the nouns of these
    states, else to the nouns only."""
    add = partial(command, name=name, prints="Plan Outcome", examples=examples)
    if bare:
        add(commands)(act)
    for noun, state in NOUNS.items():
        if state in possible:
            add(GROUPS[noun], fixed={"state": state}, hidden=bare)(act)
    return act


def _verb(
    verb: Verb, more: str = "", *, bare: bool = True, which: str = "", plans: bool = False
) -> Callable[[Act], Act]:
    """Add a verb of the table, see `_add`.

    For the examples: ``more``, an option that is needed, ``which``, the state where no noun says
    it, and whether one writes a plan.
    """
    name = "rm" if verb == "hard" else verb
    possible: tuple[State, ...] = ("trash",) if verb == "hard" else VERBS[verb][0]
    noun = "" if bare else next(f"{noun} " for noun, state in NOUNS.items() if state in possible)
    queue, id = ("later", "e1") if verb in ("reschedule", "move") else ("mail", "r1/17")
    typed = f"redisq {noun}{name}"
    examples = [
        f"{typed} {queue}/{id}{more} --dry-run",
        f"{typed} --queue {queue}{which} --older-than 2h --rate 100/s{more} --yes",
    ]
    if plans:
        planned = "--where 'error~timeout age>2h' --plan p.ndjson"
        examples.append(f"{typed} mail{which} {planned}")
    return partial(_add, name=name, possible=possible, examples=examples, bare=bare)


def _state_of(verb: Verb) -> Any:
    """``--state`` of a verb without a noun."""
    return _among(*VERBS[verb][0])


def _among(*possible: State) -> Any:
    *others, last = possible
    help = f"State of the entries: {last}."
    if others:
        help = f"State of the entries: {', '.join(others)} or {last}. Single entries need none."
    return option("--state", "STATE", help, autocompletion=one_of(*possible))


@options
class Changing:
    """How a change of entries is carried out, or planned."""

    rate: str | None = RATE
    go: Go
    plan: str | None = PLAN


@_verb("requeue", which=" --state delayed")
def requeue(
    s: Session,
    *,
    selecting: Selecting,
    changing: Changing,
    state: str | None = _state_of("requeue"),
) -> int:
    """Move pending or delayed entries back to waiting. A worker that holds one can't settle it any
    more."""
    from ..change_entries import changed

    return changed(s, "requeue", state, selecting, changing)


@_verb("claim", " --consumer me")
def claim(
    s: Session,
    *,
    selecting: Selecting,
    consumer: str = option(
        "--consumer", "NAME", "Consumer that receives the entries.", show_default=False, default=...
    ),
    changing: Changing,
    state: str | None = _state_of("claim"),
) -> int:
    """Give pending entries to another consumer. The old receipts become invalid."""
    from ..change_entries import changed

    return changed(s, "claim", state, selecting, changing, consumer=consumer)


@_verb("replay", plans=True)
def replay(
    s: Session,
    *,
    selecting: Selecting,
    ramping: Ramping,
    changing: Changing,
    state: str | None = _state_of("replay"),
) -> int:
    """Move dead entries back to waiting, or run done ones again (``--state done``). Attempts
    restart at zero; jobs of BullMQ, Bull, RQ and Sidekiq keep the attempts they used up, and get
    at least one."""
    from ..change_entries import changed

    return changed(s, "replay", state, selecting, changing, ramping=ramping)


@_verb("purge", which=" --state dead", plans=True)
def purge(
    s: Session,
    *,
    selecting: Selecting,
    hard: bool = flag("--hard", "Remove the entries for good; there is no undo."),
    changing: Changing,
    state: str | None = _state_of("purge"),
) -> int:
    """Move entries to the trash, or remove them for good with --hard. Undo restores entries from
    the trash; there is no undo of --hard."""
    from ..change_entries import changed

    return changed(s, "purge", state, selecting, changing, hard=hard)


@_verb("hard", bare=False)
def rm(s: Session, *, selecting: Selecting, changing: Changing, state: State) -> int:
    """Remove entries in the trash for good. There is no undo."""
    from ..change_entries import changed

    return changed(s, "hard", state, selecting, changing)


@_verb("restore", bare=False)
def restore(s: Session, *, selecting: Selecting, changing: Changing, state: State) -> int:
    """Move entries back to the state they were purged from."""
    from ..change_entries import changed

    return changed(s, "restore", state, selecting, changing)


@_verb("reschedule", " --in 5m", bare=False)
def reschedule(
    s: Session, *, selecting: Selecting, when: When, changing: Changing, state: State
) -> int:
    """Change the ready time of delayed entries."""
    from ..change_entries import changed

    return changed(s, "reschedule", state, selecting, changing, at=when)


@_verb("move", " --to other", which=" --state dead")
def move(
    s: Session,
    *,
    selecting: Selecting,
    to: str = option(
        "--to",
        "OTHER",
        "Queue that receives the entries.",
        show_default=False,
        autocompletion=queues,
        default=...,
    ),
    changing: Changing,
    state: str | None = _state_of("move"),
) -> int:
    """Move entries to another queue of the same kind, unchanged. An entry that the other queue has
    already, or refuses, stays where it is."""
    from ..change_entries import changed

    return changed(s, "move", state, selecting, changing, to=to)


def edit(
    s: Session,
    *,
    selecting: Selecting,
    patch: str | None = option("--patch", "JSON|@FILE", "Apply a JSON Patch to each entry."),
    payload: str | None = option("--payload", "TEXT|@FILE|-", "New payload of one entry."),
    go: Go,
    state: str | None = _among(*EDITED),
) -> int:
    """Change the payload of entries: of one in $EDITOR or with --payload, of many with --patch.
    An entry that changed since it was read is skipped. Undo restores the old payloads."""
    from ..edit import edit

    return edit(s, EDITED, state, selecting, patch, payload, go)


_PATCH = """'[{"op": "replace", "path": "/region", "value": "eu"}]'"""
_add(
    edit,
    "edit",
    EDITED,
    (
        "redisq edit mail/r1/17",
        "redisq edit mail/r1/17 --payload @fixed.json --yes",
        f"redisq edit mail --state dead --match Timeout --patch {_PATCH} --dry-run",
    ),
    bare=True,
)


# --- of single states ---------------------------------------------------------------------------


@command(GROUPS["dlq"], "groups", prints="ErrorGroup", repeats=True)
def groups(
    s: Session,
    *,
    selecting: Selecting,
    by: str | None = option(
        "--by",
        "FIELDS",
        "Group by these: error, task, client, release, payload.region. [error]",
        autocompletion=grouped_by,
    ),
) -> int:
    """Group dead letters by error, or by task and other fields: of the named queues, of those that
    a name with * matches, or of all queues. Errors that differ only in numbers, ids, addresses and
    paths are one group. --window -500 looks at the latest 500 of each queue.

    Examples:
      redisq dlq groups mail
      redisq dlq groups --queue mail --where 'age<1h' --json
      redisq dlq groups --by task,error,release
      redisq dlq groups 'sidekiq:*' --by task,error --window -500
    """
    from ..groups import grouped

    return grouped(s, selecting, by)


@command(GROUPS["dlq"], "group", prints="ErrorGroupDetails")
def group(s: Session, *, queue: str = QUEUE, group: str = argument("GROUP")) -> int:
    """Show one group of dead letters: what its entries have in common and others have not, its
    latest entries, and the commands that replay or purge exactly this group.

    Examples:
      redisq dlq group mail 1f6c0a52
      redisq dlq group mail 1f6c0a52 --json
    """
    from ..groups import compared

    return compared(s, queue, group)


@command(GROUPS["dlq"], "acknowledge", prints="Plan Outcome")
def acknowledge(
    s: Session,
    *,
    name: str = QUEUE,
    until: str | None = option(
        "--until", "TIME|SPAN", "Time from which they are trouble again: 09:00, 3d. [never]"
    ),
    end: bool = flag("--end", "End the acknowledgement: they count as trouble again."),
    go: Go,
) -> int:
    """Say that a queue's dead letters are known: the overview and `redisq check` name only entries
    that die later. Nothing of the queue itself is changed.

    Examples:
      redisq dlq acknowledge mail --until 3d --reason "fixed on Monday"
      redisq dlq acknowledge mail --end
    """
    from redisq_ops.core.engine.registry import server_ms
    from redisq_ops.core.redis.operation import together
    from redisq_ops.ops.change.acknowledge import acknowledge, acknowledge_preview

    if end and until:
        raise BadInput("--until and --end contradict each other")
    queue = s.run(s.deployment.queue(name))
    at_ms, counts, now = s.run(together(server_ms(), queue.counts.op(), queue.now.op()))
    until_ms = _until(until, now, utc=s.utc) if until else None
    preview = acknowledge_preview(queue, counts, until_ms, end=end)
    act = partial(acknowledge, queue, counts=counts, at_ms=at_ms, until_ms=until_ms, end=end)
    return confirm_and_run(s, preview, go, act)


@command(GROUPS["pending"], "stop", prints="Plan Outcome")
def stop(s: Session, *, address: str = argument("QUEUE/ID", "Job."), go: Go) -> int:
    """End the run of one job of another program, as its own tool does it: the worker that has it is
    told so. Exit 1 if nobody heard it. There is no undo.

    Examples:
      redisq pending stop rq:mail/4be1c0 --dry-run
      redisq pending stop celery:mail/2f61 --reason 'endless loop' --yes
    """
    from redisq_ops.core.model.quoting import legal, raw_of

    from .workers import commanded

    name, slash, id = address.partition("/")
    if not slash:
        raise BadInput(f"{address!r} lacks an id: QUEUE/ID")
    return commanded(s, name, "stop-job", legal(raw_of(id)), go)


def _until(typed: str, now_ms: int, *, utc: bool) -> int:
    """A time, or a time span from now."""
    if typed[-1:] in "smhd" and typed[:1].isdigit():
        return now_ms + duration_ms(typed)
    at_ms = moment_ms(typed, now_ms, ahead=True, utc=utc)
    if at_ms <= now_ms:
        raise BadInput(f"--until {typed}: that is over already")
    return at_ms


@command(GROUPS["delay"], "add", prints="Schedule")
def schedule(
    s: Session,
    *,
    address: str = argument("QUEUE/ID"),
    payload: str = argument("PAYLOAD|-"),
    when: When,
) -> int:
    """Add an entry that becomes ready at a time; creates the queue if it does not exist. - reads
    the payload from stdin. Run again with the same --at, it changes nothing; another payload or
    time for the same id is refused.

    Examples:
      redisq delay add later/e1 --in 5m hello
      redisq delay add later/e2 --at 2026-11-20T03:12:00+01:00 -
    """
    from ..entries import schedule

    return schedule(s, address, payload, when)
