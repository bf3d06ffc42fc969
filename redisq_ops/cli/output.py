"""Prints data on stdout and messages on stderr, for people and for programs."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import is_dataclass
from datetime import UTC
from enum import Enum
from shutil import get_terminal_size
from typing import Any, Protocol

from redisq_ops.core.model import errors
from redisq_ops.core.model.errors import Interrupted
from redisq_ops.core.model.row_fields import row_of
from redisq_ops.ops.filter.time import per_second
from redisq_ops.ops.terminal import age, count, date, printable, quantity

__all__ = ["age", "count", "printable", "quantity"]  # of `ops.terminal`, for the commands

_LEAST = 24
"""minimum width of a table's last column"""
_CELL, _SENTENCES = 80, 200
"""characters of a cell, and of one in the last column"""
_QUICK_S = 0.3
"""seconds; shorter work shows no progress and does not load Rich"""
_stdout_error = ContextVar("stdout_error", default="")
"""why stdout can't be written to any more"""


def emit(row: Any) -> None:
    """Print an object as a JSON line; bytes become ``payload`` or ``payload_b64``.

    The line is ASCII: it has no effect on a terminal and suits any encoding of stdout.
    """
    sys.stdout.write(as_line(row) + "\n")


def as_line(row: Any) -> str:
    """The JSON line that `emit` prints."""
    return json.dumps(plain(row))


def error_fields(error: Exception, message: str, column: int | None = None) -> dict[str, Any]:
    """The JSON of an error; its type is the class in `redisq_ops.core.model.errors`.

    Mistakes on the command line are `BadInput`, bugs of this program `RedisqError`.
    """
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    usage = any(kind.__name__ == "UsageError" for kind in type(error).__mro__)
    name = next(known, "BadInput" if usage else "RedisqError")
    return {"type": name, "message": message, "column": column}


def plain(value: Any) -> Any:
    """A value as JSON: dataclasses as rows, bytes as text or, if not UTF-8, as base64; a
    member of an enumeration as its name."""
    if is_dataclass(value) and not isinstance(value, type):
        value = row_of(value)
    if isinstance(value, Mapping):
        row: dict[str, Any] = {}
        for key, item in value.items():
            if isinstance(item, bytes):
                try:
                    row[key] = item.decode("utf-8")
                except UnicodeDecodeError:
                    row[f"{key}_b64"] = base64.b64encode(item).decode()
            else:
                row[key] = plain(item)
        return row
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.name.lower() if isinstance(value, Enum) else value


def age_or_none(ms: int | None) -> str | None:
    """An age for a table, which shows None as ``-``."""
    return None if ms is None else age(ms)


def when(ms: int | None, utc: bool = False) -> str:
    """A time in ISO 8601 with its offset, to the second; local unless ``utc``."""
    if ms is None:
        return "-"
    return date(ms, UTC if utc else None)


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a plain aligned table, numbers to the right, all text escaped.

    On a terminal a text in the last column (mostly an error) is cut at the end of the line, because
    a table with wrapped lines can't be read. In a pipe and in a file it has 200 characters.
    """
    from rich.cells import cell_len

    texts = [[*map(_cell, row[:-1]), _cell(row[-1], _SENTENCES)] for row in rows]
    right = [
        bool(texts)
        and all(t[i].replace(",", "").lstrip("-").isdigit() or t[i] == "-" for t in texts)
        for i in range(len(headers))
    ]
    widths = [
        max([len(header), *(cell_len(row[i]) for row in texts)]) for i, header in enumerate(headers)
    ]
    if sys.stdout.isatty() and not right[-1]:
        before = sum(widths[:-1]) + 2 * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(_LEAST, get_terminal_size().columns - before))
        for row in texts:
            row[-1] = printable(row[-1], widths[-1])
    for row in [list(headers), *texts]:
        cells = []
        for i, text in enumerate(row):
            gap = " " * (widths[i] - cell_len(text))
            cells.append(gap + text if right[i] else text + gap)
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _cell(value: Any, limit: int = _CELL) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return printable(value, limit)


def tell(text: str) -> None:
    """Print a line of data on stdout, for people, escaped."""
    print(printable(text))


def say(text: str) -> None:
    """Print lines on stderr, for people, escaped."""
    print(*map(printable, text.split("\n")), sep="\n", file=sys.stderr)


def conclude(line: str) -> None:
    """Print the outcome of a change on stdout; on stderr if stdout can't be written to."""
    why = _stdout_error.get()
    if not why:
        try:
            print(printable(line), flush=True)
        except OSError as error:
            # Else flushing the buffer would fail again when Python exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            why = error.strerror or str(error)
            _stdout_error.set(why)  # for the outcomes of further queues
        else:
            return
    say(line)
    say(f"redisq: stdout: {why}; so the line above is on stderr")


class Meter(Protocol):
    def __call__(self, done: int, total: int | None = None) -> None: ...


@contextmanager
def progress(what: str | None, total: int | None = None) -> Iterator[Meter]:
    """Show progress on stderr if it is a terminal and the work takes longer than a moment."""
    if what is None or not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    line = _ProgressLine(printable(what), total)
    try:
        yield line
    finally:
        line.close()


@contextmanager
def untouched(so: str = "nothing was changed") -> Iterator[None]:
    """For a block before the first write: after Ctrl+C the message says that there was none."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Interrupted(f"interrupted, {so}") from stop


@contextmanager
def reading(what: str | None, total: int | None = None, rate: str | None = None) -> Iterator[Meter]:
    """A progress line while entries are read and nothing is written yet, see `untouched`.

    ``what``: None shows no line. ``rate``: maximum of entries per second, in the form of
    ``--scan-rate``.
    """
    with untouched(), progress(what, total) as meter:
        yield meter if rate is None else rate_limited(meter, per_second(rate))


def rate_limited(
    progress: Meter,
    rate: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Meter:
    """``progress`` that also sleeps, so that at most ``rate`` entries per second are read.

    For one scan; it blocks the process.
    """
    began = clock()

    def wait(done: int, total: int | None = None) -> None:
        progress(done, total)
        if total is None or done < total:
            sleep(max(0.0, began + done / rate - clock()))

    return wait


class _ProgressLine:
    """A progress line; it appears with the first report after `_QUICK_S` seconds."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what, self._total = what, total
        self._began = time.monotonic()
        self._bar: Any = None

    def __call__(self, done: int, total: int | None = None) -> None:
        if self._bar is None and time.monotonic() - self._began < _QUICK_S:
            return
        if self._bar is None:
            self._bar, self._task = self._begun()
        self._bar.update(self._task, completed=done, total=total)

    def _begun(self) -> tuple[Any, Any]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        bar.start()
        return bar, bar.add_task(self._what, total=self._total)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
