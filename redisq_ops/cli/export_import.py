"""`redisq export` and `redisq import`: a selection as a file, and back."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import typer

from .app import app, examples
from .completion import queues, states
from .confirm_and_run import agreed, drive, ended, untouched
from .entries import meant
from .options import GO, SELECTING, Options, argument, command, flag
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import State
    from redisq_ops.ops.files.export import Export
    from redisq_ops.ops.files.import_check import Survey
    from redisq_ops.ops.redaction import Redaction

_SHOWN = 20
"""lines of an import that a person is told of"""
_STATE = typer.Option(
    "--state", metavar="STATE", help="Only this one; may be given repeatedly.",
    autocompletion=states,
)  # fmt: skip
_FILE = typer.Option(
    "--output", "-o", metavar="FILE", help="Instead of stdout; whole or not there."
)
_RATE = typer.Option("--rate", metavar="N/s", help="Not faster than this.")
_QUEUE = typer.Option(
    "--queue", metavar="NAME", help="Into this one, not the file's.", autocompletion=queues
)


# --- export ------------------------------------------------------------------------------------


def export(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.ops.files.export import Export

    from .rows import tell_unread

    redaction = _redaction(s, given["raw_payloads"])
    states = _states(given.pop("state"))
    file = given.pop("output")
    with _whole(file) as out:
        done: list[Export] = []
        try:
            for state in states:
                for target in meant(s, (state,), given):
                    now = s.run(target.queue.now.op())
                    done.append(Export(target, now, redaction))
                    _written(s, done[-1], out, file)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise _cut(error, file, sum(one.written for one in done)) from error
        except KeyboardInterrupt as stop:
            raise _interrupted(file, sum(one.written for one in done)) from stop
    _told(s, done, file)
    return 3 if tell_unread(section.scan for section in done) else 0


def _redaction(s: Session, raw: bool) -> Redaction:
    """What to leave out of payloads; whether they may leave as they are, the configuration says."""
    from redisq_ops.core.model.errors import Refused
    from redisq_ops.ops.redaction import NO_REDACTION

    if not raw or not s.config.redaction:
        return s.redaction
    if why := _forced(s):
        raise Refused(f"--raw-payloads is not allowed here ({why})")
    return NO_REDACTION


def _forced(s: Session) -> str:
    """What in the configuration keeps payloads from leaving as they are, if anything does."""
    if s.config.redaction.forced:
        return "redact.forced in the configuration"
    return f"read_only, {s.config.values['read_only'].origin}" if s.config.read_only else ""


def _states(named: list[str] | None) -> list[State]:
    from redisq_ops.core.model.errors import BadInput
    from redisq_ops.ops.files.export import STATES

    for state in named or ():
        if state not in STATES:
            raise BadInput(f"--state is {', '.join(STATES)}, not {state!r}")
    return [x for x in STATES if x in named] if named else [x for x in STATES if x != "trash"]


def _written(s: Session, section: Export, out: BinaryIO, file: str | None) -> None:
    from .output import progress

    with progress(f"exporting {section.state} of {section.queue.name}") as meter:
        more = True
        while more:
            more = s.run(section.step())
            for row in section.rows:
                out.write(json.dumps(row).encode() + b"\n")
            meter(section.scanned, section.total)
    out.flush()


@contextmanager
def _whole(file: str | None) -> Iterator[BinaryIO]:
    """Where an export goes: at its name there is a whole file, or none of ours."""
    if file is None or file == "-":
        yield sys.stdout.buffer
        return
    from redisq_ops.ops.private_files import atomic_write

    try:
        with atomic_write(file) as out:
            yield out
    except OSError as error:
        raise _cut(error, file, None) from error


def _cut(error: OSError, file: str | None, entries: int | None) -> Exception:
    from redisq_ops.core.model.errors import RedisqError, file_error
    from redisq_ops.ops.terminal import entries as some

    after = f" after {some(entries)}" if entries else ""
    if file is None or file == "-":
        return RedisqError(f"stdout: {error.strerror}{after}: what was written is no whole export")
    return file_error(
        error,
        f"{file}: {error.strerror}{after}: it was not written; make room or choose another place "
        "with -o, and export again",
    )


def _interrupted(file: str | None, entries: int) -> Exception:
    from redisq_ops.core.model.errors import RedisqError
    from redisq_ops.ops.terminal import entries as some

    to_file = file not in (None, "-")
    left = f"{file} was not written" if to_file else "what was written is no whole export"
    said = RedisqError(f"interrupted after {some(entries)}, {left}")
    said.exit_code = 130
    return said


def _told(s: Session, done: list[Export], file: str | None) -> None:
    from redisq_ops.ops.terminal import entries as some

    from .output import count, emit, printable, say

    to_file = file not in (None, "-")
    for line in _import_limits(done):
        say(printable(line))
    if s.json and to_file:
        for one in done:
            emit(
                {"queue": one.queue.name, "state": one.state, "entries": one.written,
                 "left": one.left, "redacted": one.redacted, "file": file}
            )  # fmt: skip
        return
    total, left = sum(one.written for one in done), sum(one.left for one in done)
    queues = ", ".join(dict.fromkeys(one.queue.name for one in done))
    each = ", ".join(f"{count(x.written)} {x.state}" for x in done if x.written)
    line = f"{some(total)} of {queues}" + (f" ({each})" if each else "")
    say(printable(line + (f" in {file}" if to_file else "")))
    if left:
        say(f"{count(left)} more went to another state meanwhile, and are left out")
    if redacted := sum(one.redacted for one in done):
        why = _forced(s)
        how = f"({why})" if why else ": --raw-payloads leaves them whole"
        say(f"{count(redacted)} are redacted and can't be imported{' ' if why else ''}{how}")


def _import_limits(done: list[Export]) -> list[str]:
    """What an import of this file refuses, or does only with an option, a line each."""
    from redisq_ops.core.engine.queue_types import KINDS
    from redisq_ops.ops.files.import_ import accepted

    from .output import count

    lines = []
    for one in done:
        queue, state = one.queue, one.state
        if not one.written:
            continue
        if queue.kind not in KINDS:
            line = f"{queue.name} is kept by another program: redisq import can't put these back"
            lines += [line] if line not in lines else []
        elif state in ("dead", "trash") and state not in accepted(queue):
            what = f"{count(one.written)} {'dead' if state == 'dead' else 'in the trash'}"
            lines.append(
                f"{queue.name}: {what}: a {queue.kind} queue can import these only with "
                "--as-waiting: they wait for a worker then, attempts counted afresh"
            )
    return lines


# --- import ------------------------------------------------------------------------------------


def import_(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.core.model.errors import BadInput
    from redisq_ops.ops.change.audit_log import Author, ChangeOutcome
    from redisq_ops.ops.change.bulk import TYPED_ABOVE, Plan
    from redisq_ops.ops.files.import_ import Import, receiver, said
    from redisq_ops.ops.filter.time import per_second
    from redisq_ops.ops.terminal import entries as some

    from .output import emit, say

    name, to, as_waiting = given["file"], given["queue"], given["as_waiting"]
    rate = None if given["rate"] is None else per_second(given["rate"])
    total = ChangeOutcome(None, 0)
    with _read(name) as file:
        with untouched("nothing was imported"):
            survey = _survey(file, name)
            if to is not None and len(survey.contents) > 1:
                raise BadInput(f"{name} is of {len(survey.contents)} queues: --queue is for one")
            into = [
                (content, s.run(receiver(s.deployment, content, to)))
                for content in survey.contents.values()
            ]
        plans = []
        for content, queue in into:
            n = content.entries
            there = s.run(queue.exists.op())
            title = f"import {some(n)} into {queue.name}" + ("" if there else " (new)")
            facts = {
                "verb": "import", "queue": queue.name, "kind": queue.kind, "from": content.queue,
                "matched": n, "states": content.states, "bytes": content.bytes,
                "undoable": n <= _undoable(),
            }  # fmt: skip
            lines = said(content, queue, as_waiting, survey.whole)
            typed = str(n) if n > TYPED_ABOVE else None
            plans.append(Plan(title, tuple(lines), typed, facts))
        if not agreed(s, plans, given):
            return 0
        for content, queue in into:
            told = _Report(s, queue.name)
            change = Import(
                file, content, queue, Author.here(given["reason"]),
                as_waiting=as_waiting, rate=rate, problem=told,
            )  # fmt: skip
            finished = drive(s, change, f"import into {queue.name}")
            told.end()
            outcome = change.outcome
            undo = content.entries <= _undoable()
            ended(s, outcome, f"imported into {queue.name}", undo=undo)
            if not finished:
                if not s.json:
                    say("interrupted: run it again to go on, what is there is skipped")
                return 130
            total.matched += outcome.matched
            total.done += outcome.done
            total.skip("same", outcome.skipped.get("same", 0))
    if not plans and s.json:
        emit(total)
    return total.exit_code


def _undoable() -> int:
    from redisq_ops.ops.files.import_ import UNDOABLE

    return UNDOABLE


class _Report:
    """Lines that were not imported: all for programs, the first for people.

    Where nobody listens any more, as after `| head`, the import goes on: what it is there for is
    done in the queue, and `conclude` says on stderr what came of it.
    """

    def __init__(self, s: Session, queue: str) -> None:
        self._s = s
        self._queue = queue
        self._told = 0
        self._heard = True

    def __call__(self, line: int, id: str, why: str) -> None:
        from .output import emit, printable, say

        self._told += 1
        if not self._heard:
            return
        try:
            if self._s.json:
                emit({"line": line, "queue": self._queue, "id": id, "problem": why})
            elif self._told <= _SHOWN:
                say(printable(f"line {line:,}: {self._queue}/{id}: {why}"))
        except OSError:
            self._heard = False

    def end(self) -> None:
        from .output import count, say

        if self._told > _SHOWN and self._heard and not self._s.json:
            say(f"and {count(self._told - _SHOWN)} more lines (all of them with --json)")


def _survey(file: BinaryIO, name: str) -> Survey:
    from redisq_ops.ops.files.import_check import Survey

    from .output import progress

    with progress(f"reading {name}") as meter:
        return Survey.of(file, name, lambda lines: meter(lines))


@contextmanager
def _read(name: str) -> Iterator[BinaryIO]:
    """The file; what comes from a pipe is kept in one, since it is read twice."""
    from redisq_ops.core.model.errors import BadInput

    try:
        source = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: SIM115
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}") from error
    if name != "-" and source.seekable():
        with source:
            yield source
        return
    with tempfile.TemporaryFile() as kept:
        with untouched("nothing was imported"):
            while block := source.read(1 << 20):
                kept.write(block)
        yield cast(BinaryIO, kept)


_EXPORT: Mapping[str, Any] = {
    "state": (Annotated[list[str] | None, _STATE], None),
    "output": (Annotated[str | None, _FILE], None),
    "raw_payloads": flag("--raw-payloads", "Payloads as they are, whatever is redacted."),
}
_IMPORT: Options = {
    "file": argument("FILE", help="What export wrote; - is stdin."),
    "queue": (Annotated[str | None, _QUEUE], None),
    "as_waiting": flag("--as-waiting", "All wait for a worker, whatever they were."),
    "rate": (Annotated[str | None, _RATE], None),
    **GO,
}
app.command(
    "export",
    help="Write entries as JSON Lines: all that wait, are pending, delayed or dead, or those "
    "chosen. Nothing is changed.",
    epilog=examples(
        "redisq export mail -o mail.ndjson",
        "redisq export mail --state dead --match Timeout --raw-payloads -o timeouts.ndjson",
        "redisq export mail/r1 | gzip > r1.ndjson.gz",
    ),
)(command({**SELECTING, **_EXPORT}, export))
app.command(
    "import",
    help="Put exported entries into a queue of the same kind. What is there already is left as "
    "it is, so it can be run again.",
    epilog=examples(
        "redisq import mail.ndjson --dry-run",
        "redisq import timeouts.ndjson --queue mail-test --as-waiting --yes",
    ),
)(command(_IMPORT, import_))
