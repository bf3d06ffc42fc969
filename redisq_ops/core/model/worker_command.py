"""Commands to the worker processes of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

WorkerWord = Literal["quiet", "stop", "stop-job"]
"""take no more jobs | end | end the run of one job"""


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """A command as the owner itself would send it; nothing is sent yet."""

    word: WorkerWord
    target: str
    """the worker's name; of ``stop-job``, the entry's id"""
    rows: Sequence[tuple[str | bytes, ...]]
    """the owner's elements that have to be as they were read, and those that are written"""
    channel: bytes = b""
    """where it is published; empty: workers read it from a key"""
    message: bytes = b""
