"""What a program keeps of an entry besides the entry's record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attachment:
    """A result, progress, logs: read only when one entry is opened."""

    name: str
    """``result``, ``progress``, ``logs`` …"""
    content: bytes
    left_out: str | None = None
    """what isn't in ``content``; why, if nothing is"""
