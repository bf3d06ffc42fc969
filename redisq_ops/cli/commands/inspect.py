"""`redisq inspect`: everything known about one queue, request or entry."""

from __future__ import annotations

import typer

from ..options import WATCHING, add, argument

commands = typer.Typer()
inspect = typer.Typer(help="Show all about one queue, request or entry.")
commands.add_typer(inspect, name="inspect")

for _what, _help, _examples in (
    (
        "queue", "Show a queue: counts, rates, settings, requests and priorities.",
        ("redisq inspect queue mail",),
    ),
    (
        "request",
        "Show a request: state, counts, tokens, stream, group, pending entries, results, history.",
        ("redisq inspect request mail/r1", "redisq inspect request r1 --json"),
    ),
    (
        "entry", "Show an entry: state, attempts, error, payload and history.",
        ("redisq inspect entry mail/r1/17", "redisq inspect entry later/e1"),
    ),
):  # fmt: skip
    add(
        inspect, _what, {"address": argument("ADDRESS"), **WATCHING}, "inspect.inspect", _what,
        help=_help, prints=f"{_what.title()}Details", examples=_examples,
    )  # fmt: skip
