"""`redisq consumers`: who holds what, and taking it from them."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import GO, LOOKING, MOST, PLANNING, Options, argument, command, examples

commands = typer.Typer()
consumers = typer.Typer(
    help="List consumers and the entries they hold; claim these, or remove consumers."
)

commands.add_typer(consumers, name="consumers")

_QUEUE = Annotated[
    str | None, typer.Argument(metavar="[QUEUE]", show_default=False, autocompletion=queues)
]
_REQUEST = Annotated[
    str | None,
    typer.Option("--request", "--group", metavar="ID", help="Only of this request or group."),
]
_SILENT = Annotated[
    str,
    typer.Option(
        "--silent-for", metavar="SPAN", help="Report a consumer as silent after this time."
    ),
]
_POISON = Annotated[
    int,
    typer.Option(
        "--poison",
        min=2,
        max=MOST,
        metavar="N",
        help="Report an entry as poison from N deliveries on.",
    ),
]
_IDLE = Annotated[
    str,
    typer.Option(
        "--min-idle", metavar="SPAN", help="Claim only entries that it has held at least this long."
    ),
]
_TO = typer.Option("--to", metavar="NAME", help="Consumer that receives the entries.")
INSIDE: Options = {"request": (_REQUEST, None)}

consumers.command(
    "ls",
    help="List lag and pending entries of each group; the entries that each "
    "consumer holds, since when, and how often they were delivered; silent "
    "consumers, and poison entries.",
    epilog=examples(
        "redisq consumers ls mail", "redisq consumers ls stream:orders --silent-for 15m --json"
    ),
)(
    command(
        {
            "name": (_QUEUE, None),
            **INSIDE,
            "silent_for": (_SILENT, "5m"),
            "poison": (_POISON, 10),
            **LOOKING,
        },
        "consumers.listed",
    )
)

consumers.command(
    "claim",
    help="Give the entries that a consumer holds to another consumer. In a queue"
    " of redisq the old receipts become invalid.",
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
    help="Remove a consumer without losing its entries. They go to the consumer "
    "of --to first; without --to back to waiting, or in a plain stream to "
    "the consumer `operator`. The consumer is removed once it holds "
    "nothing.",
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
