"""`redisq consumers`: what each consumer holds, and giving it to another."""

from __future__ import annotations

import typer

from ..options import GO, MOST, PLANNING, WATCHING, Options, add, argument, option

commands = typer.Typer()
consumers = typer.Typer(
    help="List consumers and the entries they hold; claim these, or remove consumers."
)
commands.add_typer(consumers, name="consumers")

INSIDE: Options = {"request": option("--group", "ID", "Only of this group, or of this request.")}
_TO = "Consumer that receives the entries."

add(
    consumers, "ls",
    {
        "name": argument("[QUEUE]"),
        **INSIDE,
        "silent_for": option(
            "--silent-for", "SPAN", "Report a consumer as silent after this time.", default="5m"
        ),
        "poison": option(
            "--poison", "N", "Report an entry as poison from N deliveries on.", int, 10, min=2,
            max=MOST,
        ),
        **WATCHING,
    },
    "consumers.listed",
    help="List lag and pending entries of each group; the entries that each consumer holds, since "
    "when, and how often they were delivered; silent consumers, and poison entries.",
    prints="ConsumerReport",
    examples=(
        "redisq consumers ls mail", "redisq consumers ls stream:orders --silent-for 15m --json"
    ),
)  # fmt: skip

add(
    consumers, "claim",
    {
        "name": argument("QUEUE"),
        "consumer": argument("FROM"),
        "to": option("--to", "NAME", _TO, default=...),
        **INSIDE,
        "min_idle": option(
            "--min-idle", "SPAN", "Claim only entries that it has held at least this long.",
            default="5m",
        ),
        **GO,
        **PLANNING,
    },
    "consumers.claimed",
    help="Give the entries that a consumer holds to another consumer. In a queue of redisq the old "
    "receipts become invalid.",
    prints="Plan Outcome",
    examples=(
        "redisq consumers claim mail w1 --to w2 --min-idle 10m --dry-run",
        "redisq consumers claim stream:orders w1 --group billing --to w2 --yes",
        "redisq consumers claim mail w1 --to w2 --plan p.ndjson",
    ),
)  # fmt: skip

add(
    consumers, "remove",
    {
        "name": argument("QUEUE"),
        "consumer": argument("NAME"),
        "to": option("--to", "NAME", _TO),
        **INSIDE,
        **GO,
    },
    "consumers.removed",
    help="Remove a consumer without losing its entries. They go to the consumer of --to first; "
    "without --to back to waiting, or in a plain stream to the consumer `operator`. The consumer "
    "is removed once it holds nothing.",
    prints="Plan Outcome",
    examples=(
        "redisq consumers remove mail w1 --dry-run",
        "redisq consumers remove stream:orders w1 --group billing --to w2 --yes",
    ),
)  # fmt: skip
