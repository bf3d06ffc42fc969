"""What a request waited for, from its submission to its end: one way back through its deliveries.

Beginning with the delivery that ended last, each is asked why it did not begin earlier: the same
entry had failed or was lost before; another sub-request of the request held the right to work
(its end came last before this delivery); or nothing of the request was in the way, and it was
workers, other requests or a pause. What the stretches sum up to is the request's whole time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

AGAIN = ("failed", "lost")
What = Literal["queue", "run", "again", "turn"]
SAYS: dict[str, str] = {
    "queue": "waiting for a first worker",
    "run": "running",
    "again": "between attempts",
    "turn": "free to go on, no worker came",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery of a sub-request; times in ms, unknown is None."""

    id: str
    attempt: int
    consumer: str | None
    since: str | None
    """the event its wait began with: submitted, failed, lost"""
    since_ms: int | None
    taken_ms: int
    ended: str | None
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the request's time, and which delivery it was spent on or for."""

    what: What
    id: str
    attempt: int
    consumer: str | None
    ended: str | None
    """how the delivery ended; only of ``run``"""
    from_ms: int
    to_ms: int


def path(attempts: Iterable[Attempt]) -> list[Stretch]:
    """The critical path, the first stretch first; empty while nothing has ended.

    ``turn``: from the end of the delivery before on the path to the beginning of the next. Ends in
    the same millisecond are told apart by who began later.
    """
    ended = sorted(
        (a for a in attempts if a.ended_ms is not None),
        key=lambda a: (a.ended_ms, a.taken_ms, a.id),
    )
    if not ended:
        return []
    ends = [a.ended_ms or 0 for a in ended]
    own = {(a.id, a.attempt, a.ended_ms): a for a in ended}
    found: list[Stretch] = []
    at: Attempt | None = ended[-1]
    while at is not None:
        found.append(Stretch("run", at.id, at.attempt, at.consumer, at.ended, at.taken_ms,
                             at.ended_ms or at.taken_ms))  # fmt: skip
        before = _before(at, ended, ends, own)
        again = at.since in AGAIN
        since = before.ended_ms if before is not None else at.since_ms
        if since is not None and since < at.taken_ms:
            what: What = "again" if again else "turn" if before is not None else "queue"
            found.append(Stretch(what, at.id, at.attempt, None, None, since, at.taken_ms))
        at = before
    return found[::-1]


def _before(
    at: Attempt,
    ended: list[Attempt],
    ends: list[int],
    own: dict[tuple[str, int, int | None], Attempt],
) -> Attempt | None:
    """The delivery whose end this one had to wait for; None: there was none."""
    if at.since in AGAIN:
        # Its own, if the history still has it. A millisecond may hold both, and the end between
        # them; that it is the attempt before brings the walk to an end all the same.
        earlier = own.get((at.id, at.attempt - 1, at.since_ms))
        return earlier if earlier is not None and earlier.taken_ms <= at.taken_ms else None
    for place in range(bisect_right(ends, at.taken_ms) - 1, -1, -1):
        candidate = ended[place]
        if at.since_ms is not None and ends[place] <= at.since_ms:
            return None
        if candidate.taken_ms < at.taken_ms and candidate is not at:
            return candidate
    return None
