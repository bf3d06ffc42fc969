"""`redisq recording`: samples of all queues in a file, and the state at a moment of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.clock import wall_ms
from redisq_ops.core.model.errors import BadInput, NotFound, Unreachable
from redisq_ops.core.signals import handled
from redisq_ops.ops.filter.time import duration_ms, moment_ms
from redisq_ops.ops.queue_names import is_named, similar
from redisq_ops.ops.terminal import size

from ..completion import queues
from ..options import argument, command, option, options
from ..output import emit, printable, quantity, say, table, when
from ..output_types.recording import RecordingSummaryOutput
from ..session import Session
from .overview import flags, print_operations, print_queues
from .tasks import print_tasks
from .workers import print_reports

if TYPE_CHECKING:
    from redisq_ops.ops.recording.file import RecordedState
    from redisq_ops.ops.recording.recorded_queue import QueueDifference
    from redisq_ops.ops.recording.sampler import Sampler

commands = typer.Typer()
recording = typer.Typer()
commands.add_typer(recording, name="recording")
LOOKS = ("ls", "workers", "log", "tasks")
LEAST_MS = 100
STALE_MS = 5_000
"""a state older than this at the requested time is shown with a note"""


MAX_SIZE = option(
    "--max-size",
    "MB",
    "Maximum size of the recording; a larger one loses its oldest minutes.",
    min=1,
    max=1_000_000,
    default=500,
)


@command(recording, "write", prints="RecordingSummary")
def write(
    s: Session,
    *,
    file: str = argument("FILE", "File to write; an existing recording is continued."),
    names: list[str] | None = argument("[QUEUE]..."),
    interval: str = option("--interval", "SPAN", "Time between two samples.", default="1s"),
    duration: str | None = option("--for", "SPAN", "Stop after this time."),
    most: int = MAX_SIZE,
) -> int:
    """Record queues in a file: counts, rates, consumers, groups and operators' changes.

    Runs until Ctrl+C or SIGTERM. The file is an SQLite database. While the server can't be reached,
    it tries again. Needs the rights of a viewer.

    Examples:
      redisq recording write queues.rec
      redisq recording write mails.rec 'mail*' --for 1h
      redisq recording write /var/lib/redisq/queues.rec --interval 5s --max-size 2000
    """
    from redisq_ops.ops.recording.file import RecordingFile
    from redisq_ops.ops.recording.sampler import Sampler

    interval_ms = duration_ms(interval)
    if interval_ms < LEAST_MS:
        raise BadInput(f"--interval {interval}: at least {LEAST_MS}ms")
    ends = inf if duration is None else monotonic() + duration_ms(duration) / 1000
    stopped = Event()
    with (
        closing(RecordingFile(file, most * 1_000_000)) as out,
        handled(lambda *_: stopped.set()),
    ):
        sampler = Sampler(s.deployment, names or ())
        first = s.run(sampler.sample())  # an unreachable server is reported now
        out.add(first)
        if not s.json:
            queues = quantity(len(first["queues"]), "queue")
            say(printable(f"recording {queues} to {out.path}; Ctrl+C stops"))
        samples, due = 1, monotonic() + interval_ms / 1000
        while not stopped.wait(max(0.0, due - monotonic())) and monotonic() < ends:
            out.add(next_sample(s, sampler))
            samples += 1
            due = max(due + interval_ms / 1000, monotonic())
        if s.json:
            emit(RecordingSummaryOutput(file=str(out.path), samples=samples, bytes=out.size))
        else:
            say(printable(f"{quantity(samples, 'sample')}; {out.path} has {size(out.size)}"))
    return 0


def next_sample(s: Session, sampler: Sampler) -> dict[str, Any]:
    """The next sample. Reports once that the server is lost, and once that it is back."""
    was_lost = sampler.state.lost is not None
    try:
        line = s.run(sampler.sample())
    except Unreachable as error:
        if not was_lost:
            say(printable(f"connection lost: {error}; retrying"))
        return sampler.lost(wall_ms(), str(error))
    if was_lost:
        say("the server answers again")
    return line


@options
class ShowOptions:
    file: str = argument("FILE", "The recording.")
    look: str | None = argument("[ls|workers|log|tasks]", "What to show; default: ls.")
    at: str | None = option("--at", "TIME", "Moment: 03:12, or ISO 8601; default: the end.")
    diff: str | None = option("--diff", "TIME", "Show what changed since this moment.")
    queue: str | None = option(
        "--queue", "NAME", "Only this queue, or those of 'mail*'.", autocompletion=queues
    )


@command(recording, "show", prints="RecordedQueue QueueDifference ConsumerReport Operation Task")
def show(s: Session, given: ShowOptions) -> int:
    """Show the queues at a moment of a recording, as ls, workers ls, log and tasks show them.

    It never connects to a server.

    Examples:
      redisq recording show queues.rec --at 03:12
      redisq recording show queues.rec --at 03:12 --diff 03:05
      redisq recording show queues.rec log --at 03:12 --queue mail --json
    """
    from redisq_ops.ops.recording.file import span_ms

    path, look = Path(given.file), given.look or "ls"
    names = () if given.queue is None else (given.queue,)
    if look not in LOOKS:
        raise BadInput(f"{look!r} isn't in a recording; there are {', '.join(LOOKS)}")
    if given.diff is not None and look in ("workers", "tasks"):
        raise BadInput(f"--diff compares queues and lists changes: leave out {look}")
    span = span_ms(path)
    at_ms = span[1] if given.at is None else moment_ms(given.at, span[1], utc=s.utc)
    state = _state(s, path, at_ms, span)
    before = None
    if given.diff is not None:
        before_ms = moment_ms(given.diff, at_ms, utc=s.utc)
        if before_ms > at_ms:
            raise BadInput(f"--diff {given.diff}: later than --at")
        before = _state(s, path, before_ms, span)
    known = state.queues.keys() | (before.queues.keys() if before else set())
    for name in names:
        if not any(is_named(queue, names) for queue in known):
            near = similar(name, known)
            raise NotFound(f"no queue {name!r} in the recording at that moment{near}")
    if not s.json:
        since = "" if before is None else f", compared with {when(before.at_ms, s.utc)}"
        say(f"recorded at {when(state.at_ms, s.utc)}{since}")
    if state.lost is not None:
        say(printable(f"the server could not be read at that moment: {state.lost}"))
    elif at_ms - state.at_ms > STALE_MS:
        say(f"no later sample up to {when(at_ms, s.utc)}")
    _print_look(s, look, names, state, before)
    return 0


def _print_look(
    s: Session,
    look: str,
    names: Sequence[str],
    state: RecordedState,
    before: RecordedState | None,
) -> None:
    """Print the part that ``look`` names; with ``before`` only what is new or changed since."""
    from redisq_ops.ops.inspect.consumers import POISON
    from redisq_ops.ops.recording.playback import (
        differences,
        recorded_operations,
        recorded_queues,
        recorded_reports,
    )

    if look == "workers":
        print_reports(s, recorded_reports(state, names), POISON, first=True, all=bool(names))
    elif look == "tasks":
        named = [name for name in sorted(state.queues) if is_named(name, names)]
        print_tasks(s, {name: state.tasks[name] for name in named if name in state.tasks})
        if without := [name for name in named if name not in state.tasks]:
            say(printable(f"no tasks were recorded by then of {', '.join(without)}"))
    elif look == "log":
        since_ms = 0 if before is None else before.at_ms
        found = recorded_operations(state, names)
        print_operations(s, [each for each in found if each.started_ms > since_ms])
    elif before is None:
        queues = recorded_queues(state, names)
        for one in queues if s.json else ():
            emit(one)
        if queues and not s.json:
            rows = [one.queue for one in queues]
            print_queues(rows, "flags", list(map(flags, rows)))
        if not state.queues and not s.json:
            say("no queues at that moment")
    else:
        changed = [each for each in differences(before, state) if is_named(each.name, names)]
        _print_differences(s, changed)


def _state(s: Session, path: Path, at_ms: int, span: tuple[int, int]) -> RecordedState:
    from redisq_ops.ops.recording.file import state_at

    state = state_at(path, at_ms)
    if state is None:
        raise nothing_of(s, path, at_ms, span)
    return state


def nothing_of(s: Session, path: Path, at_ms: int, span: tuple[int, int]) -> NotFound:
    """The error for a moment before the recording."""
    at, begins, ends = (when(ms, s.utc) for ms in (at_ms, *span))
    return NotFound(f"{path} has nothing of {at}: it begins at {begins} and ends at {ends}")


def _print_differences(s: Session, found: list[QueueDifference]) -> None:
    if s.json:
        for each in found:
            emit(each)
        return
    rows: list[list[Any]] = []
    for each in found:
        if each.appeared or each.gone:
            rows.append([each.name, "queue", None, None, "appeared" if each.appeared else "gone"])
            continue
        for field, change in each.changes.items():
            old, new = change.before, change.after
            number = type(old) is type(new) is int
            step = f"{new - old:+,}" if number else None
            rows.append([each.name, field, _shown(old), _shown(new), step])
    if rows:
        table(["queue", "field", "before", "after", "change"], rows)
    else:
        say("nothing changed")


def _shown(value: Any) -> Any:
    return " ".join(value) or None if isinstance(value, list) else value
