"""`redisq check`: rules on all queues, for a monitor."""

from pathlib import Path

import typer

from ..options import argument, command, flag, option, options
from ..session import Session

commands = typer.Typer()


@options
class CheckOptions:
    pattern: str | None = argument("[PATTERN]", "Only queues whose name matches, as 'mail*'.")
    rules: Path | None = option("--rules", "FILE", "Rules, in TOML.")
    settings: list[str] | None = option(
        "--set", "NAME=VALUE", "Threshold, as oldest=1h or dead=50; repeatable."
    )
    warning: list[str] | None = option(
        "--warning", "EXPR", "Warn while this holds, as 'waiting>1000'; repeatable."
    )
    critical: list[str] | None = option(
        "--critical", "EXPR", "Critical while this holds, as 'dead>0'; repeatable."
    )
    server: bool = flag("--server", "Check the server's settings, too.")
    explain: bool = flag("--explain", "Show how each rule stands.")


@command(commands, "check", prints="MonitorCheck RuleStanding")
def check(s: Session, given: CheckOptions) -> int:
    """Check all queues against rules, for a monitor: one line and an exit code.

    Exit 0: no rule is broken. 1: warning. 2: critical. 3: unknown, also when the rules can't
    be read or the server can't be reached. The dashboard's trouble column uses the same rules.

    Examples:
      redisq check
      redisq check 'mail*' --set oldest=10m --critical 'dead>100'
      redisq check --rules /etc/redisq/check.toml --server
      redisq check --explain
    """
    from ..actions.check import check

    return check(s, given)
