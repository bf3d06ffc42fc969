"""Payloads that a command is given: as text, on stdin or in a file."""

from __future__ import annotations

import os
import sys

from redisq_ops.core.model.bounded_read import bounded_read
from redisq_ops.core.model.errors import BadInput


def payload_bytes(text: str) -> bytes:
    """The text of an argument; for ``-`` the data on stdin."""
    return bounded_read(sys.stdin.buffer, "stdin") if text == "-" else os.fsencode(text)


def text_or_file(text: str, option: str) -> bytes:
    """The text of an option; for ``@FILE`` the bytes of the file."""
    if not text.startswith("@"):
        return payload_bytes(text)
    try:
        with open(text[1:], "rb") as file:
            return bounded_read(file, f"{option}: {text[1:]}")
    except OSError as error:
        raise BadInput(f"{option} {text}: {error.strerror}") from error
