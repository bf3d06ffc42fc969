"""Which rules the queues and the server break."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from redisq_ops.core.model.errors import Refused

from ..doctor.diagnosis import Diagnosis
from ..trouble.finding import UNKNOWN_WORK, Severity, Trouble
from ..trouble.judgement import RULES, judged, reasons, troubles
from .standing import Standing

if TYPE_CHECKING:
    from ..inspect.overview import Overview, QueueRow
    from .rules import QueueRules, Rules

SERVER_CHECKS: Final = (
    "version",
    "eviction",
    "memory",
    "persistence",
    "replication",
    "min-replicas",
    "cluster",
    "clock",
    "registry",
)
"""checks of `redisq doctor` that are about the server"""


def standings(overview: Overview, rules: Rules) -> list[Standing]:
    """How every rule stands for every queue."""
    return [
        standing
        for row in overview.rows
        for standing in _of_queue(row, overview.now_ms, rules.of(row.name))
    ]


def _of_queue(row: QueueRow, now_ms: int, rules: QueueRules) -> list[Standing]:
    broken: dict[str, list[Trouble]] = {name: [] for name in RULES}
    for one in troubles(row, now_ms, rules.limits):
        broken[one.rule].append(one)
    seen = judged(row)
    found = [
        Standing(
            row.name,
            name,
            max((one.severity for one in broken[name]), default=usual),
            reasons(broken[name]) or None,
            name in rules.ignored or rules.limits.off(name),
            bool(broken[name]) or name in seen,
            work=max((one.work for one in broken[name]), default=0),
            for_ms=max((one.for_ms for one in broken[name]), default=0),
        )
        for name, (usual, _) in RULES.items()
    ]
    work = max((one.work for one in found), default=0)
    for condition in rules.conditions:
        text, reason, unread = condition.text, None, row.counts is None
        if row.counts is not None:
            try:
                reason = text if condition.holds(row.counts) else None
            except Refused as error:  # its layout doesn't have that number, or it can't be read
                unread = row.counts.problem is not None
                reason = None if unread else f"{text}: {error}"
        found.append(
            Standing(
                row.name,
                "condition",
                condition.severity,
                reason,
                known=not unread,
                condition=text,
                work=work,
            )
        )
    return found


def server_standings(found: Sequence[Diagnosis]) -> list[Standing]:
    """How the rules for the server stand. ``found``: the result of `examine`."""
    return [
        Standing(
            None,
            one.check,
            Severity.CRITICAL,
            one.sentence if one.verdict == "wrong" else None,
            known=one.verdict != "unknown",
            work=UNKNOWN_WORK,
        )
        for one in found
        if one.check in SERVER_CHECKS
    ]


def broken_rules(found: Sequence[Standing]) -> list[Standing]:
    """The broken rules, the worst first: in the overview's order."""
    broken = [one for one in found if one.reason is not None and not one.ignored]
    return sorted(broken, key=lambda one: (-one.severity, -one.work, -one.for_ms))
