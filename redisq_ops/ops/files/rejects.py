"""Lines and rows that can't be submitted, and the file that lists them."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from redisq_ops.core.model.errors import BadInput, RedisqError, TooLarge


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line, or a row, that can't be submitted, and why."""

    file: str | None
    row: int | None
    """its number in the file, from 1"""
    request: str | None
    reason: str

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
        self.path = path
        self.count = 0
        if path.is_dir():
            raise BadInput(f"{path}: Is a directory")
        try:
            handle, self._part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error
        self._out = os.fdopen(handle, "w", encoding="utf-8")

    def __enter__(self) -> RejectFile:
        return self

    def add(self, reject: RejectedLine) -> None:
        self.count += 1
        self._out.write(json.dumps(asdict(reject)) + "\n")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._out.close()
            if kind is None or self.count:
                os.replace(self._part, self.path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._part)
