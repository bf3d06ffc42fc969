"""`redisq check`: one line and an exit code for a monitor."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from redis.exceptions import RedisError

from redisq_ops.core.model.entry import STATES
from redisq_ops.core.model.errors import RedisqError, translate
from redisq_ops.ops.check.findings import Standing, broken_rules, standings
from redisq_ops.ops.check.rules import Rules, read_rules
from redisq_ops.ops.doctor.examination import examine
from redisq_ops.ops.inspect.overview import Overview, overview
from redisq_ops.ops.trouble import Severity

from ..output import emit, table, tell
from ..session import Session

WORDS = {0: "OK", 1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}
SHOWN = 5
"""broken rules that the line names"""
MINUTES = 60
"""length of the rates that are read: from it the time to drain is estimated"""


def check(s: Session, given: dict[str, Any]) -> int:
    """Monitors take any other exit code as unknown, so an error is 3 here."""
    try:
        rules = read_rules(given["rules"]) if given["rules"] else Rules()
        rules = rules.with_options(
            given["settings"] or (), given["warning"] or (), given["critical"] or ()
        )
        seen = s.run(overview(s.deployment, MINUTES, signs=True))
        pattern = given["pattern"] or "*"
        rows = tuple(row for row in seen.rows if fnmatchcase(row.name, pattern))
        seen = Overview(seen.now_ms, rows)
        server = s.run(examine(s.deployment)) if given["server"] else ()
    except (RedisqError, RedisError) as error:
        return _unknown(s, str(translate(error)))
    if not rows and given["pattern"]:
        return _unknown(s, f"no queue matches {given['pattern']!r}")
    found = standings(seen, rules)
    broken = broken_rules(found, server)
    code = max((int(one.severity) for one in broken), default=0)
    if given["explain"]:
        _explain(s, found)
    if s.json:
        emit({
            "status": WORDS[code].lower(), "queues": len(rows),
            "findings": [
                {"severity": one.severity.name.lower(), "queue": one.queue, "rule": one.rule,
                 "reason": one.reason}
                for one in broken
            ],
            "error": None,
        })  # fmt: skip
    else:
        tell(f"{WORDS[code]}: {_sentence(broken, len(rows))} | {_perfdata(seen, broken)}")
    return code


def _unknown(s: Session, why: str) -> int:
    if s.json:
        emit({"status": "unknown", "queues": None, "findings": [], "error": why})
    else:
        tell(f"UNKNOWN: {why}")
    return 3


def _sentence(broken: list[Standing], queues: int) -> str:
    if not broken:
        return f"{queues:,} {'queue' if queues == 1 else 'queues'}, no rule broken"
    named = [f"{one.queue or 'server'}: {one.reason}" for one in broken[:SHOWN]]
    more = len(broken) - len(named)
    # What stands behind a bar is data for the monitor.
    return "; ".join(named).replace("|", "/") + (f"; {more:,} more" if more else "")


def _perfdata(seen: Overview, broken: list[Standing]) -> str:
    """Numbers as monitors read them: ``label=value``, seconds with their unit."""
    counted = [row.counts for row in seen.rows if row.counts is not None]
    shown = (state for state in STATES if state not in ("trash", "done"))
    sums: dict[str, int] = {state: sum(one.of(state) or 0 for one in counted) for state in shown}
    ages = [seen.now_ms - counts.oldest_ms for counts in counted
            if counts.oldest_ms is not None and counts.waiting]  # fmt: skip
    kinds = Counter(one.severity for one in broken)
    values: dict[str, int] = {
        "queues": len(seen.rows), "critical": kinds[Severity.CRITICAL],
        "warning": kinds[Severity.WARNING], **sums,
    }  # fmt: skip
    oldest = f"oldest={max(0, max(ages, default=0)) / 1000:.0f}s"
    return " ".join([*(f"{name}={value}" for name, value in values.items()), oldest])


def _explain(s: Session, found: list[Standing]) -> None:
    rows = [asdict(one) | {"severity": one.severity.name.lower()} for one in found]
    for row in rows if s.json else ():
        emit(row)
    if rows and not s.json:
        heads = ["queue", "rule", "severity"]
        stands = ["ignored" if one.ignored else one.reason or "ok" for one in found]
        table([*heads, "stands"], [[row[name] for name in heads] + [text]
                                   for row, text in zip(rows, stands, strict=True)])  # fmt: skip
