"""The critical path of a request: what it waited for, from its submission to its last end.

The walk goes back from the delivery that ended last. Each delivery began when it did because of one
of three things: an earlier attempt of the same entry failed or was lost; another sub-request of the
request held the request's limit (its end came last before this delivery); or nothing of the request
was in the way, and it waited for workers, other requests or a pause. The segments add up to the
request's whole time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from redisq_ops.core.model.row_fields import Time

RETRY_EVENTS = ("failed", "lost")
SegmentKind = Literal["queue", "run", "again", "turn"]
DESCRIPTIONS: dict[str, str] = {
    "queue": "waiting for a first worker",
    "run": "running",
    "again": "between attempts",
    "turn": "free to go on, no worker came",
}


def time_spent(segments: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Description -> ms of the segments of that kind, the longest time first."""
    found: dict[str, int] = {}
    for row in segments:
        name = DESCRIPTIONS[row["what"]]
        found[name] = found.get(name, 0) + row["took_ms"]
    return dict(sorted(found.items(), key=lambda item: -item[1]))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery of a sub-request; times in ms, None if unknown."""

    id: str
    attempt: int
    consumer: str | None
    since: str | None
    """the event that began its wait: submitted, failed or lost"""
    since_ms: int | None
    taken_ms: int
    ended: str | None
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class PathSegment:
    """A part of the request's time, and the delivery that it was spent on or waiting for."""

    what: SegmentKind
    """`queue`: waiting for a first worker · `run`: running · `again`: between attempts ·
    `turn`: free to go on, no worker came"""
    id: str
    """sub-request"""
    attempt: int
    consumer: str | None
    """consumer, if it ran"""
    ended: str | None
    """how the run ended"""
    from_ms: Time
    """begin"""
    to_ms: Time
    """end"""


def critical_path(attempts: Iterable[Attempt]) -> list[PathSegment]:
    """The segments of the critical path in order; empty while no delivery has ended.

    Kind ``turn`` lasts from the end of the previous delivery on the path to the beginning of the
    next. Of ends in the same millisecond, the delivery that began later counts as the later one.
    """
    ended = sorted(
        (a for a in attempts if a.ended_ms is not None),
        key=lambda a: (a.ended_ms, a.taken_ms, a.id),
    )
    if not ended:
        return []
    ends = [a.ended_ms or 0 for a in ended]
    by_attempt = {(a.id, a.attempt, a.ended_ms): a for a in ended}
    segments: list[PathSegment] = []
    delivery: Attempt | None = ended[-1]
    while delivery is not None:
        ended_ms = delivery.ended_ms or delivery.taken_ms
        segments.append(
            PathSegment(
                "run",
                delivery.id,
                delivery.attempt,
                delivery.consumer,
                delivery.ended,
                delivery.taken_ms,
                ended_ms,
            )
        )
        predecessor = _predecessor(delivery, ended, ends, by_attempt)
        is_retry = delivery.since in RETRY_EVENTS
        since = predecessor.ended_ms if predecessor is not None else delivery.since_ms
        if since is not None and since < delivery.taken_ms:
            what: SegmentKind = (
                "again" if is_retry else "turn" if predecessor is not None else "queue"
            )
            segments.append(
                PathSegment(
                    what, delivery.id, delivery.attempt, None, None, since, delivery.taken_ms
                )
            )
        delivery = predecessor
    return segments[::-1]


def _predecessor(
    delivery: Attempt,
    ended: list[Attempt],
    ends: list[int],
    by_attempt: dict[tuple[str, int, int | None], Attempt],
) -> Attempt | None:
    """The delivery whose end this one had to wait for, or None."""
    if delivery.since in RETRY_EVENTS:
        # The entry's previous attempt, if the history still has it. One millisecond may hold both
        # attempts and the end between them; attempt numbers decrease, so the walk ends.
        earlier = by_attempt.get((delivery.id, delivery.attempt - 1, delivery.since_ms))
        return earlier if earlier is not None and earlier.taken_ms <= delivery.taken_ms else None
    for index in range(bisect_right(ends, delivery.taken_ms) - 1, -1, -1):
        candidate = ended[index]
        if delivery.since_ms is not None and ends[index] <= delivery.since_ms:
            return None
        if candidate.taken_ms < delivery.taken_ms and candidate is not delivery:
            return candidate
    return None
