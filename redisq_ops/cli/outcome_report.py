"""`--report FILE`: the result of each entry, as NDJSON that a later run continues."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import BadInput, file_error
from redisq_ops.core.model.exit_codes import PARTLY_DONE
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.ndjson import Format, line
from redisq_ops.ops.private_files import named, open_private, resolved_path
from redisq_ops.ops.typed_json import json_object, plain_text

from .output import count, emit, printable, say
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.change.apply import ReportResult
    from redisq_ops.ops.change.runner import ChangeRun

PLAN, UNDO = "plan", "undo"
_TAIL = 1 << 16
"""number of bytes at the end of a report in which to search for the last entry"""


class OutcomeReport:
    """A report that is being written, or none (without a path).

    Each line is written to the file at once, so that a kill loses none. A line that is incomplete
    because the disk was full is removed by the next run. ``last``: the last entry that an earlier
    run reported, or None.
    """

    def __init__(self, path: str | None, op: str, of: str = PLAN) -> None:
        self.path = path or ""
        self.last: str | None = None
        self.change: ChangeRun[Any] | None = None
        """the reported change, once it begins"""
        self.each: ReportResult | None = None
        self.hand = ""
        """identifies the file, to recognise the runs that reported into it"""
        self._file: int | None = None
        if path is None:
            return
        self.each = self._each

        with named(path):
            special = os.path.exists(path) and not os.path.isfile(path)  # a pipe, a device
            flags = os.O_WRONLY if special else os.O_RDWR | os.O_CREAT
            self._file = open_private(path, flags | os.O_APPEND)
            self.hand = _file_identity(self._file)
            size = 0 if special else self._repair()
            if not size:
                self._write(_head(op, of))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def end(self, outcome: ChangeOutcome, more: Mapping[str, Any]) -> None:
        """Write the last object: that of the command's outcome, with the reasons."""
        if self._file is not None:
            self._write(asdict(outcome) | dict(more))

    def _each(self, id: str, result: str) -> None:
        self._write({"id": id, "said": result})

    def _repair(self) -> int:
        """Remove an incomplete last line and find the last reported entry; returns the size."""
        assert self._file is not None
        size = os.fstat(self._file).st_size
        tail = os.pread(self._file, _TAIL, max(0, size - _TAIL))
        lines = tail.split(b"\n")
        if torn := len(lines.pop()):
            os.ftruncate(self._file, size - torn)
        for each in reversed(lines):
            with suppress(BadInput):
                row = json_object(each)
                if "said" in row and plain_text(row.get("id")):
                    self.last = row["id"]
                    break
        return size - torn

    def _write(self, row: Mapping[str, Any]) -> None:
        assert self._file is not None
        rest = line(row)
        with named(self.path):
            while rest:  # on a nearly full disk a write may be partial
                rest = rest[os.write(self._file, rest) :]


def _file_identity(file: int) -> str:
    status = os.fstat(file)
    identity = f"{socket.gethostname()} {status.st_dev} {status.st_ino}"
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


def _head(op: str, of: str) -> dict[str, Any]:
    return Format("report" if of == PLAN else f"{of} report").head(op=op)


def check_report_file(path: str | None, op: str, of: str = PLAN) -> None:
    """Raise `BadInput` for an existing file that isn't the report of this operation."""
    if path is not None:
        resolved_path(path)
    if path is None or not os.path.isfile(path) or not os.path.getsize(path):
        return
    with open(path, "rb") as file, suppress(BadInput):
        first = file.readline(1000)
        if not first.endswith(b"\n") and line(_head(op, of)).startswith(first):
            return  # its first line was cut by a full disk
        if json_object(first) == _head(op, of):
            return
    raise BadInput(f"--report {path} exists and is no report of this {of}: name another file")


@contextmanager
def reporting(
    s: Session, path: str | None, op: str, before: int = 0, of: str = PLAN
) -> Iterator[OutcomeReport]:
    """The report of a change. ``before``: number of entries done when it began.

    If the report can't be written any more, the change stops and reports the entries done; exit
    code 3 if it changed anything.
    """
    report = None
    try:
        report = OutcomeReport(path, op, of)
        yield report
    except OSError as error:
        change = None if report is None else report.change
        done = before if change is None else s.run(change.reached())
        failure = file_error(error, f"--report {path}: {error.strerror or error}")
        if change is None or done == before:
            failure = file_error(error, f"{failure}: nothing was changed")
        else:
            outcome, failure.exit_code = change.outcome, PARTLY_DONE
            outcome.done = done
            if s.json:
                emit(asdict(outcome) | {"left": max(0, outcome.matched - done)})
            else:
                far = f"{count(done)} of {count(outcome.matched)}"
                say(printable(f"stopped: {far}; continue with: {s.again}"))
        raise failure from error
    finally:
        if report is not None:
            report.close()
