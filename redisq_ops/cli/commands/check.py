"""`redisq check`: rules on all queues, for a monitor."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.entry import STATES, Counts
from redisq_ops.core.model.errors import BadInput, NotFound, RedisqError
from redisq_ops.ops.trouble.finding import Severity
from redisq_ops.ops.trouble.judgement import judged

from ..options import argument, command, flag, option, options
from ..output import emit, error_fields, say, table, tell
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.check.evaluation import Standing
    from redisq_ops.ops.check.rules import Rules
    from redisq_ops.ops.inspect.overview import Overview
    from redisq_ops.ops.notify.episode import Checked
    from redisq_ops.ops.notify.notifier import Notifier

    Teller = Callable[[Checked], Sequence[str]]

commands = typer.Typer()
WORDS = {0: "OK", 1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}
SHOWN = 5
"""number of broken rules that the line names"""
SUMMED = tuple(state for state in STATES if state not in ("trash", "done"))
"""states whose entries perfdata counts"""


@options
class Judging:
    """Which queues are checked, and by which rules."""

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

    def rule_tables(self) -> Rules:
        """The rules of the file and of the options."""
        from redisq_ops.ops.check.rules import Rules, read_rules

        rules = read_rules(self.rules) if self.rules else Rules()
        return rules.with_options(self.settings or (), self.warning or (), self.critical or ())


@command(commands, "check", prints="MonitorCheck RuleStanding NotifiedRecipient")
def check(
    s: Session,
    judging: Judging,
    *,
    explain: bool = flag("--explain", "Show how each rule stands."),
    notify: bool = flag("--notify", "Tell the recipients of [notify] what changed."),
    notify_test: bool = flag("--notify-test", "Send each recipient a test message, and end."),
) -> int:
    """Check all queues against rules, for a monitor: one line and an exit code.

    Exit 0: no rule is broken. 1: warning. 2: critical. 3: unknown, also when the rules can't
    be read or the server can't be reached. The dashboard's trouble column uses the same rules.

    Examples:
      redisq check
      redisq check 'mail*' --set oldest=10m --critical 'dead>100'
      redisq check --rules /etc/redisq/check.toml --server
      redisq check --explain
      redisq check --notify
    """
    if notify_test:
        return _test(s, notifier(s))
    rules = judging.rule_tables()
    checked = examined(s, judging, rules, notifier(s).tell if notify else None)
    if explain:
        _explain(s, checked.found)
        for queues in checked.unused:
            say(f"no queue matches {queues!r}: the rules for it check nothing")
    checked.print(s.json)
    return checked.code


@dataclass(frozen=True, slots=True)
class Examined:
    """What a check found."""

    seen: Overview
    """of the queues whose name matches"""
    found: list[Standing]
    broken: list[Standing]
    unused: list[str]
    """patterns of rules that match no queue"""

    @property
    def code(self) -> int:
        return max((int(one.severity) for one in self.broken), default=0)

    def print(self, as_json: bool) -> None:
        """Print the line, or the object, for a monitor."""
        word = WORDS[self.code]
        if not as_json:
            sentence = _sentence(self.broken, len(self.seen.rows)) + _unknown_numbers(self.seen)
            tell(f"{word}: {sentence} | {_perfdata(self.seen, self.broken)}")
            return
        findings = [
            {
                "severity": one.severity.name.lower(),
                "queue": one.queue,
                "rule": one.rule,
                "reason": one.reason,
            }
            for one in self.broken
        ]
        queues = len(self.seen.rows)
        emit({"status": word.lower(), "queues": queues, "findings": findings, "error": None})


def examined(s: Session, judging: Judging, rules: Rules, tell: Teller | None) -> Examined:
    """Check the queues; ``tell`` is called also when the check fails.

    What goes wrong with telling is a line on stderr, and changes nothing else."""
    from redisq_ops.core.redis.server_errors import translate
    from redisq_ops.ops.notify.episode import Checked

    try:
        checked = _examined(s, judging, rules)
    except Exception as error:
        known = translate(error)
        if tell is not None and isinstance(known, RedisqError):
            say_each(tell(Checked.failed(" ".join(str(known).split()))))
        raise
    if tell is not None:
        known_dead = {
            row.name
            for row in checked.seen.rows
            if row.acknowledged is not None and row.acknowledged.holds(checked.seen.now_ms)
        }
        say_each(tell(Checked(checked.found, judging.pattern or "*", known_dead)))
    return checked


def _examined(s: Session, judging: Judging, rules: Rules) -> Examined:
    from redisq_ops.ops.check.evaluation import broken_rules, server_standings, standings
    from redisq_ops.ops.doctor.examination import examine, registry_diagnoses
    from redisq_ops.ops.inspect.overview import Overview, overview

    seen = s.run(overview(s.deployment, lambda name: rules.of(name).limits))
    unused = rules.unused([row.name for row in seen.rows])
    rows = tuple(row for row in seen.rows if fnmatchcase(row.name, judging.pattern or "*"))
    seen = Overview(seen.now_ms, rows)
    server = s.run(examine(s.deployment) if judging.server else registry_diagnoses(s.deployment))
    if not rows and judging.pattern:
        raise NotFound(f"no queue matches {judging.pattern!r}")
    found = [_shown(s, one) for one in standings(seen, rules)] + server_standings(server)
    return Examined(seen, found, broken_rules(found), unused)


def notifier(s: Session) -> Notifier:
    """Tells the recipients of the configuration; `BadInput` if it has none, or a bad value."""
    from redisq_ops.ops.config.file import config_path
    from redisq_ops.ops.notify.notifier import Notifier
    from redisq_ops.ops.notify.settings import read_recipients
    from redisq_ops.ops.notify.told_file import told_path

    config = s.config
    if config.notify is None:
        raise BadInput(f"nobody to tell: add a table [notify.to.NAME] to {config_path()}")
    recipients = read_recipients(config.notify, config.notify_from, os.environ)
    address = str(config.server_address())
    return Notifier(recipients, config.context or address, told_path(f"{address} {config.prefix}"))


def _test(s: Session, teller: Notifier) -> int:
    """Exit 0: every recipient was told; 3: some, or none."""
    ends = teller.test()
    for name, why in ends.items():
        if s.json:
            emit({"recipient": name, "reason": why})
        else:
            tell(f"{name}: told" if why is None else f"{name}: not told: {why}")
    return 3 if any(ends.values()) else 0


def say_each(lines: Sequence[str]) -> None:
    for line in lines:
        say(f"redisq: {line}")


def _shown(s: Session, found: Standing) -> Standing:
    """A reason may name the type of an error."""
    return found if found.reason is None else replace(found, reason=s.redaction.text(found.reason))


def unknown(as_json: bool, error: Exception, message: str) -> int:
    """Say that the check failed; returns 3, which means "unknown" to monitors."""
    if as_json:
        emit(
            {
                "status": "unknown",
                "queues": None,
                "findings": [],
                "error": error_fields(error, message),
            }
        )
    else:
        tell(f"UNKNOWN: {message}")
    return 3


def _sentence(broken: list[Standing], queues: int) -> str:
    if not broken:
        return f"{queues:,} {'queue' if queues == 1 else 'queues'}, no rule broken"
    named = [f"{one.queue or 'server'}: {one.reason}" for one in broken[:SHOWN]]
    more = len(broken) - len(named)
    # A monitor reads the text after a bar as data.
    return "; ".join(named).replace("|", "/") + (f"; {more:,} more" if more else "")


def _perfdata(seen: Overview, broken: list[Standing]) -> str:
    """Numbers in the format of monitors: ``label=value``, seconds with their unit; U: unknown.

    A sum leaves out queues whose number is unknown; it is unknown if all are.
    """
    kinds = Counter(one.severity for one in broken)
    values = {
        "queues": f"{len(seen.rows)}",
        "critical": f"{kinds[Severity.CRITICAL]}",
        "warning": f"{kinds[Severity.WARNING]}",
    }
    for name, numbers in _numbers(seen).items():
        known = [number for number in numbers if number is not None]
        if numbers and not known:
            values[name] = "U"
        elif name == "oldest":
            values[name] = f"{max(known, default=0) / 1000:.0f}s"
        else:
            values[name] = f"{sum(known)}"
    return " ".join(f"{name}={value}" for name, value in values.items())


def _numbers(seen: Overview) -> dict[str, list[int | None]]:
    """The figures of perfdata, with a value per queue; None: unknown. Ages are in ms."""
    found: dict[str, list[int | None]] = {
        state: [row.counts.of(state) if row.counts else None for row in seen.rows]
        for state in SUMMED
    }
    return found | {"oldest": [_oldest(row.counts, seen.now_ms) for row in seen.rows]}


def _oldest(counts: Counts | None, now_ms: int) -> int | None:
    """How long the oldest entry has waited, in ms; 0 if none waits; None: unknown."""
    if counts is None or counts.of("waiting") is None:
        return None
    if not counts.waiting:
        return 0
    return None if counts.oldest_ms is None else max(0, now_ms - counts.oldest_ms)


def _unknown_numbers(seen: Overview) -> str:
    """The end of a sentence: figures of perfdata that are unknown for some queues, and queues with
    waiting entries of which it is unknown whether a worker asks for them; empty if none."""
    lacking: dict[str, list[str]] = {}
    without = {
        name: [row.name for row, n in zip(seen.rows, numbers, strict=True) if n is None]
        for name, numbers in _numbers(seen).items()
    }
    without["workers"] = [
        row.name
        for row in seen.rows
        if row.counts is not None and row.counts.waiting and "no-worker" not in judged(row)
    ]
    for name, queues in without.items():
        if queues:
            of = queues[0] if len(queues) == 1 else f"{len(queues):,} queues"
            lacking.setdefault(of, []).append(name)
    named = [f"{', '.join(names)} of {of}" for of, names in lacking.items()]
    return f"; unknown: {', '.join(named)}".replace("|", "/") if named else ""


def _explain(s: Session, found: list[Standing]) -> None:
    rows = [asdict(one) | {"severity": one.severity.name.lower()} for one in found]
    for row in rows if s.json else ():
        emit(row)
    if rows and not s.json:
        heads = ["queue", "rule", "severity"]
        stands = [
            "ignored" if one.ignored else one.reason or ("ok" if one.known else "unknown")
            for one in found
        ]
        table(
            [*heads, "stands"],
            [
                [row[name] or "server" for name in heads] + [text]
                for row, text in zip(rows, stands, strict=True)
            ],
        )
