"""Rules about a queue as a whole: it can't be read, is paused, or a change of it isn't complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..terminal import count
from .finding import UNKNOWN_WORK, Finding, Thresholds

if TYPE_CHECKING:
    from ..inspect.overview import QueueRow


def unreadable(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    if row.problem is not None:
        yield Finding(row.problem, UNKNOWN_WORK)
    if row.counts is not None and row.counts.problem is not None:
        yield Finding(row.counts.problem, UNKNOWN_WORK)


def paused(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    counts = row.counts
    if counts is not None and counts.paused is not None:
        by = row.evidence.paused_by if row.evidence else None
        yield Finding(_by("paused", by, counts.paused), counts.waiting)


def draining(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    counts = row.counts
    if counts is not None and counts.closed is not None:
        by = row.evidence.closed_by if row.evidence else None
        yield Finding(_by("draining", by, counts.closed), counts.waiting)


def _by(what: str, who: str | None, why: str) -> str:
    if why in ("", f"by {who}"):
        return f"{what} by {who}" if who else what
    if who is None and why.startswith("by "):  # what is stored where no reason was given
        return f"{what} {why}"
    return f"{what} by {who}: {why}" if who else f"{what}: {why}"


def blocked(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    stopped = [client for client in row.clients if client.blocked and client.waiting]
    if stopped:
        first = max(stopped, key=lambda client: client.waiting)
        more = f" and {count(len(stopped) - 1)} more" if len(stopped) > 1 else ""
        waiting = sum(client.waiting for client in stopped)
        yield Finding(f"client {first.client}{more} blocked", waiting)


def missed(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """Runs of periodic entries are overdue; workers schedule them."""
    overdue, counts = row.missed_runs, row.counts
    if overdue and counts is not None and counts.paused is None:
        what = "periodic entry" if overdue == 1 else "periodic entries"
        yield Finding(f"{count(overdue)} {what} missed a run", overdue)


def unfinished(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    if row.unfinished:
        yield Finding(f"unfinished move: {', '.join(row.unfinished)}")


def resizing(row: QueueRow, now_ms: int, limits: Thresholds) -> Iterator[Finding]:
    """Workers visit the shards of both numbers, and moves are refused."""
    if row.resize is not None:
        yield Finding(str(row.resize))
