"""`redisq check`: rules on all queues, for a monitor."""

from __future__ import annotations

from pathlib import Path

import typer

from ..options import add, argument, flag, option

commands = typer.Typer()

add(
    commands, "check",
    {
        "pattern": argument("[PATTERN]", help="Only queues whose name matches, as 'mail*'."),
        "rules": option("--rules", "FILE", "Rules, in TOML.", Path),
        "settings": option(
            "--set", "NAME=VALUE", "Threshold, as oldest=1h or dead=50; repeatable.", list[str]
        ),
        "warning": option(
            "--warning", "EXPR", "Warn while this holds, as 'waiting>1000'; repeatable.", list[str]
        ),
        "critical": option(
            "--critical", "EXPR", "Critical while this holds, as 'dead>0'; repeatable.", list[str]
        ),
        "server": flag("--server", "Check the server's settings, too."),
        "explain": flag("--explain", "Show how each rule stands."),
    },
    "check.check",
    help="""Check all queues against rules, for a monitor: one line and an exit code.

    Exit 0: no rule is broken. 1: warning. 2: critical. 3: unknown, also when the rules can't
    be read or the server can't be reached. The dashboard's trouble column uses the same rules.
    """,
    prints="MonitorCheck RuleStanding",
    examples=(
        "redisq check",
        "redisq check 'mail*' --set oldest=10m --critical 'dead>100'",
        "redisq check --rules /etc/redisq/check.toml --server",
        "redisq check --explain",
    ),
)  # fmt: skip
