"""`redisq export` and `redisq import`: a selection as a file, and back."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC
from typing import TYPE_CHECKING, BinaryIO

import typer

from redisq_ops.core.engine.queue_types import KINDS
from redisq_ops.core.model.entry import STATES, State
from redisq_ops.core.model.errors import BadInput, Interrupted, RedisqError, Refused, file_error
from redisq_ops.core.model.exit_codes import DONE, INTERRUPTED, PARTLY_DONE
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.filter.time import per_second
from redisq_ops.ops.ndjson import line as line_of
from redisq_ops.ops.private_files import atomic_write
from redisq_ops.ops.terminal import entries as some
from redisq_ops.ops.terminal import kind_of

from ..completion import one_of, queues
from ..confirm_and_run import agreed, drive, ended
from ..options import RATE, Go, Selecting, argument, command, flag, option, options
from ..output import count, emit, printable, progress, rate_limited, say, untouched
from ..output_types.changes import ExportSummaryOutput, ImportProblemOutput
from ..rows import tell_unread
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.files.export import Export
    from redisq_ops.ops.redaction import Redaction

commands = typer.Typer()
_SHOWN = 20
"""number of an import's rejected lines that are shown to a person"""
_FULL = frozenset({ENOSPC, EDQUOT, EFBIG})
"""errors of a write to a file for which there is no space"""


@options
class ExportOptions:
    selecting: Selecting
    state: list[str] | None = option(
        "--state",
        "STATE",
        "Only entries in this state; repeatable.",
        autocompletion=one_of(*STATES),
    )
    output: str | None = option(
        "--output -o", "FILE", "Write to FILE, atomically; default: stdout."
    )
    raw_payloads: bool = flag("--raw-payloads", "Write payloads unredacted.")


@command(commands, "export", prints="ExportSummary")
def export(s: Session, given: ExportOptions) -> int:
    """Write entries as JSON Lines: all waiting, pending, delayed and dead ones, or those selected.
    Nothing is changed.

    Examples:
      redisq export mail -o mail.ndjson
      redisq export mail --state dead --match Timeout --raw-payloads -o timeouts.ndjson
      redisq export mail/r1 | gzip > r1.ndjson.gz
    """
    from redisq_ops.ops.files.export import Export

    from ..entries import targets_to_read

    redaction = _redaction(s, given.raw_payloads)
    states, file = _states(given.state), given.output
    with _output(file) as out:
        done: list[Export] = []
        try:
            for state in states:
                for target in targets_to_read(s, (state,), given.selecting):
                    now = s.run(target.queue.now.op())
                    done.append(Export(target, now, redaction))
                    _write(s, done[-1], out, given.selecting.conditions.scan_rate)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise _write_error(error, file, sum(one.written for one in done)) from error
        except KeyboardInterrupt as stop:
            raise _interrupted(file, sum(one.written for one in done)) from stop
    _summarise(s, done, file)
    return PARTLY_DONE if tell_unread(section.scan for section in done) else DONE


def _redaction(s: Session, raw: bool) -> Redaction:
    """What to redact; the configuration may forbid ``--raw-payloads``."""
    from redisq_ops.ops.redaction import NO_REDACTION

    if not raw or not s.config.redaction:
        return s.redaction
    if why := _forced(s):
        raise Refused(f"--raw-payloads is not allowed here ({why})")
    return NO_REDACTION


def _forced(s: Session) -> str:
    """The setting that forbids unredacted payloads; an empty text if none does."""
    if s.config.redaction.forced:
        return "redact.forced in the configuration"
    return f"read_only, {s.config.values['read_only'].origin}" if s.config.read_only else ""


def _states(named: list[str] | None) -> list[State]:
    from redisq_ops.ops.files.export import EXPORTED, STATES

    for state in named or ():
        if state not in EXPORTED:
            raise BadInput(f"--state must be one of {', '.join(EXPORTED)}, not {state!r}")
    return [x for x in EXPORTED if x in named] if named else [x for x in STATES if x != "trash"]


def _write(s: Session, section: Export, out: BinaryIO, rate: str | None) -> None:
    with progress(f"exporting {section.state} of {section.queue.name}") as line:
        meter = line if rate is None else rate_limited(line, per_second(rate))
        more = True
        while more:
            more = s.run(section.step())
            out.writelines(map(line_of, section.rows))
            meter(section.scan.scanned, section.scan.total)
    out.flush()


@contextmanager
def _output(file: str | None) -> Iterator[BinaryIO]:
    """Stdout, or a file that appears under its name when it is complete."""
    if file is None or file == "-":
        yield sys.stdout.buffer
        return
    try:
        with atomic_write(file) as out:
            yield out
    except OSError as error:
        raise _write_error(error, file, None) from error


def _write_error(error: OSError, file: str | None, entries: int | None) -> Exception:
    after = f" after {some(entries)}" if entries else ""
    if file is None or file == "-":
        return RedisqError(f"stdout: {error.strerror}{after}: the export is incomplete")
    way = "make room" if error.errno in _FULL else "choose another place with -o"
    text = f"{file}: {error.strerror}{after}: it was not written; {way}, and export again"
    return file_error(error, text)


def _interrupted(file: str | None, entries: int) -> Exception:
    to_file = file not in (None, "-")
    left = f"{file} was not written" if to_file else "the export is incomplete"
    return Interrupted(f"interrupted after {some(entries)}, {left}")


def _summarise(s: Session, done: list[Export], file: str | None) -> None:
    to_file = None if file == "-" else file
    for line in _import_limits(done):
        say(printable(line))
    if s.json and to_file:
        for one in done:
            emit(
                ExportSummaryOutput(
                    queue=one.queue.name,
                    state=one.state,
                    entries=one.written,
                    left=one.left,
                    redacted=one.redacted,
                    file=to_file,
                )
            )
        return
    total, left = sum(one.written for one in done), sum(one.left for one in done)
    queues = ", ".join(dict.fromkeys(one.queue.name for one in done))
    each = ", ".join(f"{count(x.written)} {x.state}" for x in done if x.written)
    line = f"{some(total)} of {queues}" + (f" ({each})" if each else "")
    say(printable(line + (f" in {to_file}" if to_file else "")))
    if left:
        say(f"{count(left)} more changed their state meanwhile, and are left out")
    if redacted := sum(one.redacted for one in done):
        why = _forced(s)
        how = f"({why})" if why else ": --raw-payloads exports them unredacted"
        say(f"{count(redacted)} are redacted and can't be imported{' ' if why else ''}{how}")


def _import_limits(done: list[Export]) -> list[str]:
    """The entries that an import of this file will refuse, or take only with an option; a line
    for each case."""
    from redisq_ops.ops.files.import_preview import accepted

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
                f"{queue.name}: {what}: {kind_of(queue.kind)} can import these only with "
                "--as-waiting: they wait for a worker then, attempts restart at zero"
            )
    return lines


@options
class ImportOptions:
    file: str = argument("FILE", "File that export wrote; - is stdin.")
    queue: str | None = option(
        "--queue",
        "NAME",
        "Import into this queue; default: the one in the file.",
        autocompletion=queues,
    )
    as_waiting: bool = flag("--as-waiting", "Import every entry as waiting.")
    rate: str | None = RATE
    go: Go


@command(commands, "import", prints="ImportProblem Plan Outcome")
def import_(s: Session, given: ImportOptions) -> int:
    """Add exported entries to a queue of the same kind. Entries that are there already stay as they
    are, so it can be run again.

    Examples:
      redisq import mail.ndjson --dry-run
      redisq import timeouts.ndjson --queue mail-test --as-waiting --yes
    """
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.runner import ChangeRun
    from redisq_ops.ops.files.import_check import FileContents
    from redisq_ops.ops.files.import_preview import import_preview, receiver, undoable
    from redisq_ops.ops.files.import_steps import ImportSteps

    name, to, as_waiting = given.file, given.queue, given.as_waiting
    rate = None if given.rate is None else per_second(given.rate)
    total = ChangeOutcome(None, 0)
    with _read(name) as file:
        with untouched("nothing was imported"):
            with progress(f"reading {name}") as meter:
                found = FileContents.of(file, name, meter)
            if to is not None and len(found.contents) > 1:
                raise BadInput(f"{name} is of {len(found.contents)} queues: --queue is for one")
            into = [
                (content, s.run(receiver(s.deployment, content, to)))
                for content in found.contents.values()
            ]
        previews = [
            import_preview(
                content,
                queue,
                new=not s.run(queue.exists.op()),
                as_waiting=as_waiting,
                whole=found.whole,
            )
            for content, queue in into
        ]
        if not agreed(s, previews, given.go, given.rate):
            return 0
        for content, queue in into:
            report = _RejectedLines(s, queue.name)
            steps = ImportSteps(file, content, queue, as_waiting=as_waiting, problem=report)
            change = ChangeRun(steps, Author.here(given.go.reason), rate=rate)
            finished = drive(s, change, f"import into {queue.name}")
            report.end()
            outcome = change.outcome
            undo = undoable(content)
            ended(s, outcome, f"imported into {queue.name}", undo=undo)
            if not finished:
                if not s.json:
                    say("interrupted: run it again to continue; imported entries are skipped")
                return INTERRUPTED
            total.matched += outcome.matched
            total.done += outcome.done
            total.skip("same", outcome.skipped.get("same", 0))
    if not previews and s.json:
        emit(total)
    return total.exit_code


class _RejectedLines:
    """Prints lines that were not imported: all for programs, the first for people.

    If stdout is closed, as after `| head`, the import continues; `conclude` then prints its outcome
    on stderr.
    """

    def __init__(self, s: Session, queue: str) -> None:
        self._s = s
        self._queue = queue
        self._count = 0
        self._stdout_open = True

    def __call__(self, line: int, id: str, why: str) -> None:
        self._count += 1
        if not self._stdout_open:
            return
        try:
            if self._s.json:
                emit(ImportProblemOutput(line=line, queue=self._queue, id=id, problem=why))
            elif self._count <= _SHOWN:
                say(printable(f"line {line:,}: {self._queue}/{id}: {why}"))
        except OSError:
            self._stdout_open = False

    def end(self) -> None:
        if self._count > _SHOWN and self._stdout_open and not self._s.json:
            say(f"and {count(self._count - _SHOWN)} more lines (all of them with --json)")


@contextmanager
def _read(name: str) -> Iterator[BinaryIO]:
    """The file; data of a pipe is copied to a temporary file, because it is read twice."""
    try:
        source = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}") from error
    if name != "-" and source.seekable():
        with source:
            yield source
        return
    with tempfile.TemporaryFile() as copy:
        with untouched("nothing was imported"):
            while block := source.read(1 << 20):
                copy.write(block)
        yield copy
