"""What goes to stdout (data) and to stderr (talk), for people and for programs."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import UTC
from shutil import get_terminal_size
from typing import Any, Protocol

from redisq_ops.core.model.errors import RedisqError
from redisq_ops.ops.filter.time import per_second
from redisq_ops.ops.terminal import age, count, date, printable

_LEAST = 24
"""cells that the last column of a table has at least"""
_QUICK_S = 0.3
"""what is over so soon shows no progress, and doesn't load what draws it"""
_deaf = ContextVar("deaf", default="")
"""why stdout takes nothing any more"""


def emit(row: Any) -> None:
    """One object as a JSON line; bytes become ``payload`` or ``payload_b64``.

    All ASCII: no terminal acts on it, and any encoding of stdout can carry it.
    """
    sys.stdout.write(as_line(row) + "\n")


def as_line(row: Any) -> str:
    """What `emit` writes."""
    return json.dumps(plain(row))


def plain(value: Any) -> Any:
    """A value of ours as JSON: dataclasses by field, bytes as text or base64, never lossy."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
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
    return value


def when(ms: int | None, utc: bool = False) -> str:
    """A moment as ISO 8601 with its zone, to the second; local unless ``utc``."""
    if ms is None:
        return "-"
    return date(ms, UTC if utc else None)


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A plain aligned table; numbers to the right, everything escaped.

    On a terminal a text in the last column (an error, as a rule) ends where the line does: what
    wraps can't be read as a table. In a pipe and in a file it is whole.
    """
    from rich.cells import cell_len

    texts = [[_cell(value) for value in row] for row in rows]
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
            row[-1] = _cut(row[-1], widths[-1])
    for row in [list(headers), *texts]:
        cells = []
        for i, text in enumerate(row):
            gap = " " * (widths[i] - cell_len(text))
            cells.append(gap + text if right[i] else text + gap)
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    while cell_len(text) >= width:
        text = text[:-1]
    return text + "…"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return printable(value, 80)


def tell(text: str) -> None:
    """A line of data for a person, on stdout, escaped."""
    print(printable(text))


def say(text: str) -> None:
    """Lines for a person, on stderr, escaped."""
    print(*map(printable, text.split("\n")), sep="\n", file=sys.stderr)


def conclude(line: str) -> None:
    """What came of a change, on stdout; where that takes nothing, on stderr: it has to be known."""
    why = _deaf.get()
    if not why:
        try:
            print(printable(line), flush=True)
        except OSError as error:
            # What is still in its buffer would fail once more while Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            why = error.strerror or str(error)
            _deaf.set(why)  # of a change of several queues more is to come
        else:
            return
    say(line)
    say(f"redisq: stdout: {why}; that line was meant for it")


class Meter(Protocol):
    def __call__(self, done: int, total: int | None = None) -> None: ...


@contextmanager
def progress(what: str | None, total: int | None = None) -> Iterator[Meter]:
    """A progress line on stderr where a terminal is; silent otherwise and for quick work."""
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
    """Before the first write: Ctrl+C says that there was none."""
    try:
        yield
    except KeyboardInterrupt as stop:
        interrupted = RedisqError(f"interrupted, {so}")
        interrupted.exit_code = 130
        raise interrupted from stop


@contextmanager
def reading(what: str | None, total: int | None = None, rate: str | None = None) -> Iterator[Meter]:
    """A progress line while entries are read and nothing is written yet, see `untouched`.

    ``what``: None shows no line. ``rate``: at most so many entries per second, as ``--scan-rate``
    takes it.
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
    """Shown from the first report on that comes after a moment."""

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


__all__ = [
    "Meter",
    "age",
    "count",
    "emit",
    "plain",
    "printable",
    "progress",
    "rate_limited",
    "reading",
    "say",
    "table",
    "tell",
    "untouched",
    "when",
]
