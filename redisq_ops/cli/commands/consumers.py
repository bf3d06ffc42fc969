"""`redisq consumers`: who holds what, and taking it from them."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import GO, MOST, PLANNING, Options, argument, command, examples

commands = typer.Typer()
consumers = typer.Typer(help="Who holds what, since when, how often; claim it, remove them.")

commands.add_typer(consumers, name="consumers")

_QUEUE = Annotated[
    str | None, typer.Argument(metavar="[QUEUE]", show_default=False, autocompletion=queues)
]
_REQUEST = Annotated[
    str | None, typer.Option("--request", "--group", metavar="ID", help="Of one request, or group.")
]
_SILENT = Annotated[str, typer.Option("--silent-for", metavar="SPAN", help="Silent from then on.")]
_POISON = Annotated[
    int,
    typer.Option(
        "--poison", min=2, max=MOST, metavar="N", help="Deliveries that make an entry one."
    ),
]
_IDLE = Annotated[
    str, typer.Option("--min-idle", metavar="SPAN", help="Only what it has held for so long.")
]
_TO = typer.Option("--to", metavar="NAME", help="Whose its entries are then.")
INSIDE: Options = {"request": (_REQUEST, None)}

consumers.command(
    "ls",
    help="Lag and pending of each group; what each consumer holds, since when, how often it was "
    "delivered; who is silent, and which entries come back again and again.",
    epilog=examples(
        "redisq consumers ls mail", "redisq consumers ls stream:orders --silent-for 15m --json"
    ),
)(
    command(
        {"name": (_QUEUE, None), **INSIDE, "silent_for": (_SILENT, "5m"), "poison": (_POISON, 10)},
        "consumers.listed",
    )
)

consumers.command(
    "claim",
    help="Give what a consumer holds to another. Of a queue of ours the old receipts are void.",
    epilog=examples(
        "redisq consumers claim mail w1 --to w2 --min-idle 10m --dry-run",
        "redisq consumers claim stream:orders w1 --group billing --to w2 --yes",
        "redisq consumers claim mail w1 --to w2 --plan p.ndjson",
    ),
)(
    command(
        {
            "name": argument("QUEUE"),
            "consumer": argument("FROM"),
            "to": (Annotated[str, _TO], ...),
            **INSIDE,
            "min_idle": (_IDLE, "5m"),
            **GO,
            **PLANNING,
        },
        "consumers.claimed",
    )
)

consumers.command(
    "remove",
    help="Remove a consumer without losing what it holds: that is claimed first (else it waits "
    "again; in a plain stream `operator` has it then), and it goes in the step that finds it "
    "holding nothing.",
    epilog=examples(
        "redisq consumers remove mail w1 --dry-run",
        "redisq consumers remove stream:orders w1 --group billing --to w2 --yes",
    ),
)(
    command(
        {
            "name": argument("QUEUE"),
            "consumer": argument("NAME"),
            "to": (Annotated[str | None, _TO], None),
            **INSIDE,
            **GO,
        },
        "consumers.removed",
    )
)
