"""What a program keeps of an entry besides the entry's record."""

from __future__ import annotations

from dataclasses import dataclass

from .row_fields import Bytes


@dataclass(frozen=True, slots=True)
class Attachment:
    """A result, progress, logs: read only when one entry is opened."""

    name: str
    """`progress`, `logs`, `children` …"""
    content: Bytes
    left_out: str | None = None
    """what isn't in `content`, and why"""
