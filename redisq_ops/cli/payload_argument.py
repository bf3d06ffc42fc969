"""Payloads that a command is given: as text, on stdin or in a file."""

from __future__ import annotations

import os
import sys

from redisq_ops.core.model.bounded_read import bounded_read
from redisq_ops.core.model.errors import BadInput


def payload_bytes(given: str) -> bytes:
    """The text of an argument; for ``-`` what is on stdin."""
    return bounded_read(sys.stdin.buffer, "stdin") if given == "-" else os.fsencode(given)


def text_or_file(given: str, option: str) -> bytes:
    """The text of an option; for ``@FILE`` the bytes of the file."""
    if not given.startswith("@"):
        return payload_bytes(given)
    try:
        with open(given[1:], "rb") as file:
            return bounded_read(file, f"{option}: {given[1:]}")
    except OSError as error:
        raise BadInput(f"{option} {given}: {error.strerror}") from error
