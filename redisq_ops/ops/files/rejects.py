"""Lines and rows that can't be submitted, and the file that lists them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redisq_ops.core.model.errors import BadInput, RedisqError, TooLarge
from redisq_ops.core.model.row_fields import Text, row_of

from ..ndjson import line
from ..private_files import atomic_write, open_private


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line of the NDJSON that `--skip-invalid` writes, for each line that was left out."""

    file: str | None
    row: int | None
    """line in it, from 1"""
    request: str | None
    reason: Text
    """why it was left out"""

    def __str__(self) -> str:
        row = "" if self.row is None else f"row {self.row:,}"
        whose = "" if self.request is None else f"request {self.request[:140]}"
        place = ", ".join(word for word in (self.file, row, whose) if word)
        return f"{place}: {self.reason}" if place else self.reason


def too_large(size: int, most: int, what: str = "") -> str:
    """Why a payload of ``size`` bytes is rejected; ``what`` precedes its size."""
    return f"{what}{size:,} bytes, over the limit of {most:,} (--max-payload)"


def refusal(first: RejectedLine, count: int, kind: type[RedisqError] = TooLarge) -> RedisqError:
    """The error if nothing is sent because of rejects: the first one, and their number."""
    more = "" if count == 1 else f", and {count - 1:,} more can't be submitted"
    return kind(
        f"{first}{more}: nothing was sent "
        "(--skip-invalid FILE sends the others and lists these in FILE)"
    )


class RejectFile:
    """A file of rejects, one JSON object per line: ``file``, ``row``, ``request``, ``reason``.

    It replaces an earlier file when the block ends; after an error only if it has a reject. Only
    its owner can read it. `BadInput` if it can't be written.
    """

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._path = path
        self._writing = atomic_write(path)

    def __enter__(self) -> RejectFile:
        try:
            self._out = self._writing.__enter__()
        except OSError as error:
            raise BadInput(f"{self._path}: {error.strerror}") from error
        return self

    def add(self, reject: RejectedLine) -> None:
        self.count += 1
        self._out.write(line(row_of(reject)))

    def __exit__(self, *error: Any) -> None:
        self._writing.__exit__(*((None, None, None) if self.count else error))


class RejectLog:
    """The same file, but of a task that may be repeated: each run adds what no earlier run listed.

    A line is in the file when `add` returns, so that it is there even if the process is killed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> RejectLog:
        try:
            file = open_private(str(self._path), os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise BadInput(f"{self._path}: {error.strerror}") from error
        self._out = os.fdopen(file, "rb+", buffering=0)
        self._earlier = set(self._out.readall().splitlines(keepends=True))
        self.count = len(self._earlier)
        return self

    def add(self, reject: RejectedLine) -> None:
        if (added := line(row_of(reject))) not in self._earlier:
            self.count += 1
            self._out.write(added)

    def __exit__(self, *error: Any) -> None:
        os.fsync(self._out.fileno())
        self._out.close()
