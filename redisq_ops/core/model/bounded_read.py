"""Reads a file that a user names, up to a size: it may be the wrong file, or endless."""

from __future__ import annotations

from typing import BinaryIO

from .errors import BadInput

LARGEST_FILE = 64 << 20


def bounded_read(file: BinaryIO, what: str) -> bytes:
    """The rest of a file; raises `BadInput` where it has more than `LARGEST_FILE` bytes."""
    found = file.read(LARGEST_FILE + 1)
    if len(found) > LARGEST_FILE:
        raise BadInput(f"{what} has more than {LARGEST_FILE >> 20} MiB: give a shorter one")
    return found
