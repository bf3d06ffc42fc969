"""`redisq explain`: the rule that holds something, and the command that helps."""

from __future__ import annotations

import typer

from ..options import WATCHING, add, argument

commands = typer.Typer()

add(
    commands, "explain", {"address": argument("ADDRESS"), **WATCHING}, "explain.explain",
    help="""Explain why an entry, request or queue does not progress, or where an entry went.

    Shows the rule that holds it, what helps, and when it will end, as far as known. Exit 1 if
    it does not exist; what the history has about it is shown.
    """,
    prints="Explanation",
    examples=("redisq explain mail/r1/17", "redisq explain mail/r1", "redisq explain mail --json"),
)  # fmt: skip
