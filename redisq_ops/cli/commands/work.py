"""`redisq work`: run a handler, or a program, for every entry."""

import typer

from ..completion import queues
from ..options import argument, command, flag, option, options
from ..session import Session

commands = typer.Typer()


@options
class WorkOptions:
    handler: str | None = argument("[MODULE:FUNCTION]", "Function to call with each delivery.")
    program: str | None = option(
        "--exec", "CMD", "Program to run for each delivery, without a shell."
    )
    queue: list[str] | None = option(
        "--queue", "NAME", "Queue to work on; repeatable: queues take turns.", autocompletion=queues
    )
    concurrency: int = option("--concurrency", None, "Handlers that run at once.", default=1)
    processes: int = option("--processes", None, "Worker processes.", default=1)
    batch: int = option("--batch", None, "Entries to take at once, per handler.", default=1)
    lease: str = option(
        "--lease", "TIME", "Lease of a delivery; renewed while a handler runs.", default="30s"
    )
    grace: str = option(
        "--grace", "TIME", "Time for running handlers to finish on stop.", default="25s"
    )
    timeout: str | None = option("--timeout", "TIME", "Fail an entry that takes longer.")
    once: bool = flag("--burst", "Exit when no entry is left to take.")
    consumer: str | None = option("--consumer", "NAME", "Consumer name; default: host and process.")
    ping: str | None = option(
        "--ping", "[HOST:]PORT", "Where /healthz answers; without HOST: this machine only."
    )
    metrics: bool = flag("--metrics", "Serve /metrics for Prometheus on that port, too.")
    telemetry: bool = flag("--telemetry", "Report spans to OpenTelemetry (redisq-ops[otel]).")


@command(commands, "work", prints="")
def work(s: Session, given: WorkOptions) -> int:
    """Run a handler for every entry of a queue, until stopped (Ctrl+C or SIGTERM).

    A program gets the payload on stdin; its output is the result. Exit code 0 means done, 100 dead
    at once, any other failed; the end of stderr is kept as the error. If a queue does not exist
    yet, the worker waits for it; it does not create it.

    --burst exits when all queues are empty, or have only entries that are delayed, paused or held
    by other workers; it prints how many.

    Examples:
      redisq work jobs:handle --queue mail --concurrency 8
      redisq work --exec './convert --to pdf' --timeout 60s --processes 2
      redisq work jobs:handle --burst
    """
    from ..actions.work import work

    return work(s, given)
