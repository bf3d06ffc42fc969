"""The rules of a canary and a ramp: how fast a replay may be. Pure: no server and no clock.

After the canary, the ramp doubles its rate while replayed entries succeed. Above a threshold it
pauses, and later continues or gives up. `WatchedReplay` observes and carries out these decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from ..terminal import age, count

Phase = Literal["canary", "watching", "ramp", "paused", "settling", "over", "stopped"]
JUDGED = 10
"""replayed entries that must have ended before the ramp judges how many die again"""
EASE = 0.8
"""the ramp goes on below this part of a threshold"""


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds that an operator sets."""

    canary: int = 0
    """entries that are replayed first and must succeed; 0: no canary"""
    rate: float | None = None
    """entries per second at the end of the ramp; None: as many as thresholds allow"""
    first: float = 10.0
    """entries per second at the beginning of the ramp"""
    reentry: float = 0.2
    """share of the replayed entries that may die or fail again"""
    latency_ms: float = 5.0
    """how much longer than before the replay the server may take to answer, in ms"""
    waiting: int | None = None
    """entries that may wait for workers"""
    window_ms: int = 5_000
    """time for which a rate is kept before it is doubled"""
    watch_ms: int = 60_000
    """how long to wait until the canary, and the last entries, are settled"""
    patience_ms: int = 300_000
    """how long the ramp stays paused before it gives up"""

    @property
    def full(self) -> float:
        return inf if self.rate is None else self.rate


@dataclass(frozen=True, slots=True)
class Observed:
    """An observation; ``at_ms`` is of any clock that only goes forward."""

    at_ms: int
    replayed: int
    left: int
    """entries not handled yet"""
    judged: int = 0
    """watched entries that ended, done or dead again; at most the latest 200"""
    died: int = 0
    """entries of ``judged`` that are dead again"""
    failing: int = 0
    """watched entries that failed again and will be tried again"""
    unsettled: int = 0
    """watched entries that have not ended, failing ones included"""
    verdicts: int = 0
    """replayed entries that ended since the beginning"""
    waiting: int = 0
    oldest_ms: int | None = None
    """for how long the oldest waiting entry has waited"""
    late_ms: float = 0.0
    """how much longer than before the replay the server takes to answer"""
    owed: int = 0
    """watched entries to be read once more before the end"""

    @property
    def bad(self) -> int:
        return self.died + self.failing

    @property
    def seen(self) -> int:
        return self.judged + self.failing

    @property
    def share(self) -> float:
        """The share of ``seen`` that died or failed again."""
        return self.bad / self.seen if self.seen else 0.0


@dataclass(frozen=True, slots=True)
class Course:
    """What the replay does until the next observation."""

    phase: Phase
    rate: float = 0.0
    """entries per second; `inf` for a canary, which is bounded by ``goal``"""
    since_ms: int = 0
    """begin of the phase, or of the window of the ramp"""
    why: str = ""
    goal: int = 0
    """the number of replayed entries at which the canary ends"""
    proven: bool = False
    """whether the canary succeeded, or none was asked for"""
    paused_ms: int | None = None
    """since when it has been paused or probing"""
    verdicts: int = 0
    """as of the begin of the window"""
    verdict_ms: int = 0
    """when the latest verdict came"""

    @property
    def ended(self) -> bool:
        return self.phase in ("over", "stopped")


def begin(limits: Limits, seen: Observed, *, proven: bool = False, rate: float = 0.0) -> Course:
    """The first course; ``proven`` and ``rate``: as an interrupted ramp stored them."""
    at = seen.at_ms
    if limits.canary and not proven:
        goal = seen.replayed + limits.canary
        return Course("canary", inf, at, goal=goal, verdict_ms=at)
    first = min(limits.full, max(limits.first, rate / 2))
    return Course("ramp", first, at, proven=True, verdict_ms=at)


def advance(course: Course, seen: Observed, limits: Limits) -> Course:
    """The next course, from the present one and an observation. A pure function."""
    at = seen.at_ms
    if seen.verdicts > course.verdicts or not seen.unsettled:
        course = replace(course, verdict_ms=at)
    if course.phase in ("canary", "ramp", "paused", "watching") and not seen.left:
        return replace(course, phase="settling", rate=0.0, since_ms=at, why="")
    match course.phase:
        case "canary" if seen.replayed >= course.goal:
            return replace(course, phase="watching", rate=0.0, since_ms=at)
        case "watching":
            return _judged(course, seen, limits)
        case "ramp":
            return _ramped(course, seen, limits)
        case "paused":
            return _waited(course, seen, limits)
        case "settling" if not seen.unsettled or (late(course, at, limits) and not seen.owed):
            why = _reentry(seen, limits) or _unsettled(seen, limits)
            return replace(course, phase="over", since_ms=at, why=why)
    return course


def _judged(course: Course, seen: Observed, limits: Limits) -> Course:
    """The canary's verdict, as soon as there is one."""
    at = seen.at_ms
    timed_out = at - course.since_ms >= limits.watch_ms
    hopeless = seen.bad > limits.reentry * (seen.judged + seen.unsettled)
    if seen.unsettled and not timed_out and not (hopeless and seen.died):
        return course
    if not seen.seen and not timed_out:
        why = "the canary's entries were purged, undone or moved before they were settled"
    elif not seen.seen:
        why = f"nothing of the canary was settled within {age(limits.watch_ms)}"
    elif (bad := _reentry(seen, limits)) is not None:
        why = bad
    else:
        return Course(
            "ramp",
            min(limits.full, limits.first),
            at,
            proven=True,
            verdicts=seen.verdicts,
            verdict_ms=at,
        )
    if not course.proven:
        return replace(course, phase="stopped", since_ms=at, why=why)
    return _held(course, seen, limits, why)


def _ramped(course: Course, seen: Observed, limits: Limits) -> Course:
    if (why := _trouble(course, seen, limits)) is not None:
        return _held(course, seen, limits, why)
    at = seen.at_ms
    # Twice as fast only on evidence: something ended since, or nothing is left that could.
    news = seen.verdicts > course.verdicts or not seen.unsettled
    if at - course.since_ms < limits.window_ms or not news:
        return course
    rate = min(limits.full, course.rate * 2)
    return replace(course, rate=rate, since_ms=at, why="", verdicts=seen.verdicts, paused_ms=None)


def _waited(course: Course, seen: Observed, limits: Limits) -> Course:
    """While paused: continue, try a few entries, or give up."""
    at = seen.at_ms
    assert course.paused_ms is not None
    why = _trouble(course, seen, limits, EASE)
    if why is None:
        # Continue at half the rate of before the pause, not at the first rate.
        rate = min(limits.full, max(limits.first, course.rate))
        return replace(
            course,
            phase="ramp",
            rate=rate,
            since_ms=at,
            why="",
            verdicts=seen.verdicts,
            verdict_ms=at,
        )
    if at - course.paused_ms >= limits.patience_ms:
        return replace(course, phase="stopped", since_ms=at, why=why)
    if (
        _reentry(seen, limits) is not None
        and not (seen.unsettled - seen.failing)
        and at - course.since_ms >= min(limits.watch_ms, limits.patience_ms // 4)
    ):
        # Entries that died stay dead: only newly replayed entries show whether all is well again.
        goal = seen.replayed + max(limits.canary, JUDGED)
        return replace(course, phase="canary", since_ms=at, goal=goal, rate=inf, why="")
    return replace(course, why=why)


def _held(course: Course, seen: Observed, limits: Limits, why: str) -> Course:
    since = seen.at_ms if course.paused_ms is None else course.paused_ms
    if seen.at_ms - since >= limits.patience_ms:
        return replace(course, phase="stopped", since_ms=seen.at_ms, why=why)
    half = limits.first if course.rate == inf else course.rate / 2
    return replace(course, phase="paused", rate=half, since_ms=seen.at_ms, why=why, paused_ms=since)


def _reentry(seen: Observed, limits: Limits) -> str | None:
    if seen.share <= limits.reentry:
        return None
    word = "died or failed" if seen.failing else "died"
    return (
        f"{count(seen.bad)} of {count(seen.seen)} replayed entries {word} again "
        f"({seen.share:.0%}, more than {limits.reentry:.0%})"
    )


def late(course: Course, at_ms: int, limits: Limits) -> bool:
    """Whether the last entries had ``watch_ms`` to be settled."""
    return course.phase == "settling" and at_ms - course.since_ms >= limits.watch_ms


def _unsettled(seen: Observed, limits: Limits) -> str:
    """A sentence: how many watched entries were not settled in time; empty: none."""
    left = seen.unsettled - seen.failing  # what failed again ended: it counts as bad
    if not left:
        return ""
    watched = f"{count(left)} of {count(seen.verdicts + seen.unsettled)} watched entries"
    return f"{watched} weren't settled within {age(limits.watch_ms)}"


def _trouble(course: Course, seen: Observed, limits: Limits, ease: float = 1.0) -> str | None:
    """Which threshold is crossed, in words."""
    if seen.seen >= JUDGED and (why := _reentry(seen, limits)) is not None:
        return why
    if seen.late_ms > limits.latency_ms * ease:
        return (
            f"the server answers {seen.late_ms:.1f} ms later than before "
            f"(more than {limits.latency_ms * ease:g} ms)"
        )
    if limits.waiting is not None and seen.waiting > limits.waiting * ease:
        most = count(int(limits.waiting * ease))
        return f"{count(seen.waiting)} entries wait (more than {most})"
    if seen.unsettled and seen.at_ms - course.verdict_ms >= limits.watch_ms:
        return f"nothing that was replayed was settled for {age(seen.at_ms - course.verdict_ms)}"
    return None
