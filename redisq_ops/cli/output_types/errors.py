"""JSON about errors of commands."""

from __future__ import annotations

from typing import TypedDict

from redisq_ops.core.model.row_fields import Text


class CommandError(TypedDict):
    type: str
    """class of the error in the Python API, such as `NotFound`; `BadInput` for mistakes on the
    command line"""
    message: Text
    """what happened, why, and what to do"""
    column: int | None
    """column in the filter that cannot be parsed, from 1"""


class ErrorOutput(TypedDict):
    """Printed on stderr, as its last line, when a command fails."""

    error: CommandError
    """what went wrong"""
    exit: int
    """[exit code](exit-codes.md)"""
