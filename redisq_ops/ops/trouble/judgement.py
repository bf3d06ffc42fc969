"""All rules, and what they find in a queue: every user interface shows the same.

Pure functions of an `overview.QueueRow`; `Thresholds` says from which value on something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .entry_rules import dead, deep, dying, failing, far_ahead, growing, old, poison, suspect
from .finding import USUAL, Rule, Severity, Thresholds, Trouble
from .queue_rules import blocked, draining, missed, paused, resizing, unfinished, unreadable
from .worker_rules import held_in_silence, no_worker, overdue, stalled

if TYPE_CHECKING:
    from ..inspect.overview import QueueRow


RULES: Mapping[str, tuple[Severity, Rule]] = {
    "unreadable": (Severity.CRITICAL, unreadable),
    "no-worker": (Severity.CRITICAL, no_worker),
    "stalled": (Severity.CRITICAL, stalled),
    "dying": (Severity.CRITICAL, dying),
    "held": (Severity.CRITICAL, held_in_silence),
    "dead": (Severity.WARNING, dead),
    "poison": (Severity.WARNING, poison),
    "overdue": (Severity.WARNING, overdue),
    "failing": (Severity.WARNING, failing),
    "old": (Severity.WARNING, old),
    "deep": (Severity.WARNING, deep),
    "growing": (Severity.WARNING, growing),
    "blocked": (Severity.WARNING, blocked),
    "missed": (Severity.WARNING, missed),
    "far-ahead": (Severity.WARNING, far_ahead),
    "paused": (Severity.WARNING, paused),
    "draining": (Severity.WARNING, draining),
    "unfinished": (Severity.WARNING, unfinished),
    "resizing": (Severity.WARNING, resizing),
}
"""rule -> its severity and function; reasons of the same severity are said in this order"""


def troubles(row: QueueRow, now_ms: int, limits: Thresholds = USUAL) -> tuple[Trouble, ...]:
    """Everything that is wrong with a queue, the worst first; empty: nothing is known to be."""
    found = [
        Trouble(one.severity or severity, name, one.reason, one.work, one.for_ms)
        for name, (severity, rule) in RULES.items()
        for one in rule(row, now_ms, limits)
    ]
    return tuple(sorted(found, key=lambda one: -one.severity))


def judged(row: QueueRow) -> frozenset[str]:
    """The rules that can find something in this queue: its layout has the numbers they need."""
    counts, seen, rates = row.counts, row.activity, row.rates
    if counts is None:
        return frozenset({"unreadable"})
    asked = seen is not None and seen.askers is not None
    dated = not counts.waiting or counts.oldest_ms is not None
    unseen = row.evidence is None or row.evidence.tried is None
    unknown = {
        "no-worker": not asked,
        "stalled": not (asked and dated and rates is not None),
        "dying": seen is None or seen.dead_lately is None,
        "dead": counts.of("dead") is None,
        "held": suspect(row) and (unseen or seen is None or seen.signs is None),
        "far-ahead": seen is None or seen.far_ahead is None,
        "overdue": seen is None or seen.askers is None or seen.registered,
        "failing": rates is None,
        "growing": rates is None,
        "old": not dated,
        "deep": counts.of("waiting") is None,
        "poison": suspect(row) and unseen,
        # One of them could not be read: the row doesn't say which.
        **dict.fromkeys(("blocked", "missed", "unfinished", "resizing"), row.problem is not None),
    }
    return frozenset(rule for rule in RULES if not unknown.get(rule))


def rank(found: Sequence[Trouble]) -> tuple[int, int, int, int]:
    """Sorts queues by their worst trouble, those without any last: by its severity, then by how
    many entries it affects, then by how long it has lasted."""
    names = list(RULES)
    ranks = [(-one.severity, -one.work, -one.for_ms, names.index(one.rule)) for one in found]
    return min(ranks, default=(0, 0, 0, len(RULES)))


def redacted(found: Sequence[Trouble], text: Callable[[str], str]) -> tuple[Trouble, ...]:
    """The troubles with their reasons as they may be shown: these may name an error's type.

    ``text``: `Redaction.text`."""
    return tuple(replace(one, reason=text(one.reason)) for one in found)


def reasons(found: Sequence[Trouble]) -> str:
    """The reasons in one line."""
    return "; ".join(one.reason for one in found)
