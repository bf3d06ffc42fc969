"""`redisq consumers`: what each consumer holds, and giving it to another."""

import typer

from ..options import ANY_QUEUE, MOST, PLAN, QUEUE, Go, argument, command, option, options
from ..session import Session

commands = typer.Typer()
consumers = typer.Typer(
    help="List consumers and the entries they hold; claim these, or remove consumers."
)
commands.add_typer(consumers, name="consumers")
_TO = "Consumer that receives the entries."
_INSIDE = option("--group", "ID", "Only of this group, or of this request.")


@options
class ConsumerListOptions:
    name: str | None = ANY_QUEUE
    request: str | None = _INSIDE
    silent_for: str = option(
        "--silent-for", "SPAN", "Report a consumer as silent after this time.", default="5m"
    )
    poison: int = option(
        "--poison",
        "N",
        "Report an entry as poison from N deliveries on.",
        min=2,
        max=MOST,
        default=10,
    )


@command(consumers, "ls", prints="ConsumerReport", repeats=True)
def ls(s: Session, given: ConsumerListOptions) -> int:
    """List lag and pending entries of each group; the entries that each consumer holds, since when,
    and how often they were delivered; silent consumers, and poison entries.

    Examples:
      redisq consumers ls mail
      redisq consumers ls stream:orders --silent-for 15m --json
    """
    from ..actions.consumers import listed

    return listed(s, given)


@options
class ClaimHeldOptions:
    name: str = QUEUE
    consumer: str = argument("FROM")
    to: str = option("--to", "NAME", _TO, default=...)
    request: str | None = _INSIDE
    min_idle: str = option(
        "--min-idle",
        "SPAN",
        "Claim only entries that it has held at least this long.",
        default="5m",
    )
    go: Go
    plan: str | None = PLAN


@command(consumers, "claim", prints="Plan Outcome")
def claim(s: Session, given: ClaimHeldOptions) -> int:
    """Give the entries that a consumer holds to another consumer. In a queue of redisq the old
    receipts become invalid.

    Examples:
      redisq consumers claim mail w1 --to w2 --min-idle 10m --dry-run
      redisq consumers claim stream:orders w1 --group billing --to w2 --yes
      redisq consumers claim mail w1 --to w2 --plan p.ndjson
    """
    from ..actions.consumers import claimed

    return claimed(s, given)


@command(consumers, "remove", prints="Plan Outcome")
def remove(
    s: Session,
    *,
    name: str = QUEUE,
    consumer: str = argument("NAME"),
    to: str | None = option("--to", "NAME", _TO),
    request: str | None = _INSIDE,
    go: Go,
) -> int:
    """Remove a consumer without losing its entries. They go to the consumer of --to first; without
    --to back to waiting, or in a plain stream to the consumer `operator`. The consumer is removed
    once it holds nothing.

    Examples:
      redisq consumers remove mail w1 --dry-run
      redisq consumers remove stream:orders w1 --group billing --to w2 --yes
    """
    from ..actions.consumers import removed

    return removed(s, name, consumer, to, request, go)
