"""`redisq check`: rules on all queues, for a monitor."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.entry import STATES, Counts
from redisq_ops.core.model.errors import NotFound
from redisq_ops.ops.trouble.finding import Severity
from redisq_ops.ops.trouble.judgement import judged

from ..options import argument, command, flag, option, options
from ..output import emit, error_fields, say, table, tell
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.check.evaluation import Standing
    from redisq_ops.ops.inspect.overview import Overview

commands = typer.Typer()
WORDS = {0: "OK", 1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}
SHOWN = 5
"""number of broken rules that the line names"""
SUMMED = tuple(state for state in STATES if state not in ("trash", "done"))
"""states whose entries perfdata counts"""


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
    from redisq_ops.ops.check.evaluation import broken_rules, server_standings, standings
    from redisq_ops.ops.check.rules import Rules, read_rules
    from redisq_ops.ops.doctor.examination import examine, registry_diagnoses
    from redisq_ops.ops.inspect.overview import Overview, overview

    rules = read_rules(given.rules) if given.rules else Rules()
    rules = rules.with_options(given.settings or (), given.warning or (), given.critical or ())
    seen = s.run(overview(s.deployment, lambda name: rules.of(name).limits))
    pattern = given.pattern or "*"
    unused = rules.unused([row.name for row in seen.rows])
    rows = tuple(row for row in seen.rows if fnmatchcase(row.name, pattern))
    seen = Overview(seen.now_ms, rows)
    server = s.run(examine(s.deployment) if given.server else registry_diagnoses(s.deployment))
    if not rows and given.pattern:
        missing = f"no queue matches {given.pattern!r}"
        return unknown(s.json, NotFound(missing), missing)
    found = [_shown(s, one) for one in standings(seen, rules)] + server_standings(server)
    broken = broken_rules(found)
    code = max((int(one.severity) for one in broken), default=0)
    if given.explain:
        _explain(s, found)
        for queues in unused:
            say(f"no queue matches {queues!r}: the rules for it check nothing")
    if s.json:
        emit(
            {
                "status": WORDS[code].lower(),
                "queues": len(rows),
                "findings": [
                    {
                        "severity": one.severity.name.lower(),
                        "queue": one.queue,
                        "rule": one.rule,
                        "reason": one.reason,
                    }
                    for one in broken
                ],
                "error": None,
            }
        )
    else:
        sentence = _sentence(broken, len(rows)) + _unknown_numbers(seen)
        tell(f"{WORDS[code]}: {sentence} | {_perfdata(seen, broken)}")
    return code


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
