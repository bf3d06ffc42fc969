"""`redisq work`: run a handler, or a program, for every entry."""

from __future__ import annotations

import typer

from ..completion import queues
from ..options import add, argument, flag, option

commands = typer.Typer()

add(
    commands, "work",
    {
        "handler": argument("[MODULE:FUNCTION]", str, "Function to call with each delivery."),
        "program": option("--exec", "CMD", "Program to run for each delivery, without a shell."),
        "queue": option(
            "--queue", "NAME", "Queue to work on; repeatable: queues take turns.", list[str],
            autocompletion=queues,
        ),
        "concurrency": option("--concurrency", None, "Handlers that run at once.", int, 1),
        "processes": option("--processes", None, "Worker processes.", int, 1),
        "batch": option("--batch", None, "Entries to take at once, per handler.", int, 1),
        "lease": option(
            "--lease", "TIME", "Lease of a delivery; renewed while a handler runs.", default="30s"
        ),
        "grace": option(
            "--grace", "TIME", "Time for running handlers to finish on stop.", default="25s"
        ),
        "timeout": option("--timeout", "TIME", "Fail an entry that takes longer."),
        "once": flag("--burst", "Exit when no entry is left to take."),
        "consumer": option("--consumer", "NAME", "Consumer name; default: host and process."),
        "ping": option(
            "--ping", "[HOST:]PORT", "Where /healthz answers; without HOST: this machine only."
        ),
        "metrics": flag("--metrics", "Serve /metrics for Prometheus on that port, too."),
        "telemetry": flag("--telemetry", "Report spans to OpenTelemetry (redisq-ops[otel])."),
    },
    "work.work",
    help="""Run a handler for every entry of a queue, until stopped (Ctrl+C or SIGTERM).

    A program gets the payload on stdin; its output is the result. Exit code 0 means done, 100 dead
    at once, any other failed; the end of stderr is kept as the error. If a queue does not exist
    yet, the worker waits for it; it does not create it.

    --burst exits when all queues are empty, or have only entries that are delayed, paused or held
    by other workers; it prints how many.
    """,
    prints="",
    examples=(
        "redisq work jobs:handle --queue mail --concurrency 8",
        "redisq work --exec './convert --to pdf' --timeout 60s --processes 2",
        "redisq work jobs:handle --burst",
    ),
)  # fmt: skip
