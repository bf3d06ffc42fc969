"""`--canary` and `--ramp`: a replay that slows down or stops when replayed entries fail again."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from redisq_ops.core.model.errors import BadInput, RedisqError
from redisq_ops.core.model.exit_codes import INTERRUPTED
from redisq_ops.core.model.states import Verb
from redisq_ops.ops.change.apply import PlanSteps
from redisq_ops.ops.change.canary_rules import Limits
from redisq_ops.ops.change.entry_steps import EntrySteps
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.watched_replay import WatchedReplay
from redisq_ops.ops.filter.time import duration_ms

from .confirm_and_run import drive, ended
from .options import Ramping
from .output import Meter, printable, say
from .session import Session

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")
_LATENCY = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")
SHOWN_S = 0.2
"""seconds between two updates of the line on a terminal"""


def limits(
    asked: Ramping, rate: float | None, verb: Verb = "replay", *, plans: bool = False
) -> Limits | None:
    """The limits of a ramp, from the options; None without --canary and --ramp. ``plans``: the
    command writes a plan file."""
    chosen = {name: text for name in _LIMITS if (text := getattr(asked, name)) is not None}
    if not asked.canary and not asked.ramp:
        if chosen:
            option = "--" + next(iter(chosen)).replace("_", "-")
            raise BadInput(f"{option} is for a ramp: say --ramp, or --canary N")
        return None
    if verb != "replay":
        raise BadInput(f"--canary and --ramp are for replay only, not for {verb}")
    if plans:
        raise BadInput("--plan changes nothing: say --canary and --ramp to redisq apply")
    fields = {_LIMITS[name][0]: _LIMITS[name][1](text) for name, text in chosen.items()}
    return Limits(canary=asked.canary or 0, rate=rate, **fields)


def _share(text: str) -> float:
    """``20%`` or ``0.2``."""
    found = _SHARE.fullmatch(text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= share <= 1:
        raise BadInput(f"{text!r} is not a share: write 20% or 0.2")
    return share


def _latency_ms(text: str) -> float:
    """``5ms``, ``0.5ms`` or ``1s`` in milliseconds."""
    found = _LATENCY.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"{text!r} is not a latency: write 5ms or 0.5ms")
    return float(found[1]) * (1000 if found[2] == "s" else 1)


_LIMITS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "max_reentry": ("reentry", _share),
    "max_latency": ("latency_ms", _latency_ms),
    "max_waiting": ("waiting", int),
    "watch": ("watch_ms", lambda text: max(1, duration_ms(text))),
    "patience": ("patience_ms", duration_ms),
}
"""option -> the field of `Limits` that it sets, and how its text is read"""


def ramped(s: Session, change: ChangeRun[EntrySteps], limits: Limits, what: str) -> int:
    """Run a replay with canary and ramp, show its progress and outcome; returns the exit code."""
    ramp = WatchedReplay(change, limits)
    outcome = ramp.outcome
    try:
        finished = drive(s, ramp, what, s.again, _RampLine(ramp))
    except RedisqError:
        _tell_rest(s, change)
        raise
    seen, course = ramp.seen, ramp.course
    names = ("judged", "died", "failing", "unsettled")
    observed = {name: 0 if seen is None else getattr(seen, name) for name in names}
    phase = course.phase if finished else "interrupted"
    left = max(0, outcome.matched - outcome.handled)
    ended(s, outcome, what, more={"left": left, "phase": phase, "reason": course.why, **observed})
    if not s.json:
        if course.phase == "stopped":
            say(printable(f"stopped by itself: {course.why}"))
        elif course.why and finished:
            say(printable(course.why))
        if left:
            # The same options again: without --ramp the replay of the rest would not be watched.
            say(printable(f"{left:,} left; continue with: {s.again}"))
            _tell_rest(s, change)
    return ramp.exit_code if finished else INTERRUPTED


def _tell_rest(s: Session, change: ChangeRun[EntrySteps]) -> None:
    """Say which entries the same command would replay when it is run again."""
    if not s.json and not isinstance(change.steps, PlanSteps):
        say("it covers all entries that are dead by then, also those that died again")


class _RampLine:
    """The state of a ramp: one line that is redrawn on a terminal, else a line per change."""

    def __init__(self, ramp: WatchedReplay) -> None:
        self._ramp = ramp
        self._terminal = sys.stderr.isatty()
        self._shown = -SHOWN_S
        self._state: tuple[Any, ...] = ()

    def __enter__(self) -> Meter:
        return self._show

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""
        if self._terminal:
            self._draw(str(self._ramp))
            sys.stderr.write("\n")
        else:
            self._line(str(self._ramp))
        sys.stderr.flush()

    def _show(self, done: int, total: int | None = None) -> None:
        course = self._ramp.course
        changed = self._state != (now := (course.phase, course.rate))
        if self._terminal:
            if changed and course.phase == "paused":  # the whole reason, on a line that stays
                sys.stderr.write("\r\x1b[K")
                self._line(f"paused after {self._ramp.outcome.done:,}: {course.why}")
            if changed or time.monotonic() - self._shown >= SHOWN_S:
                self._shown, self._state = time.monotonic(), now
                self._draw(str(self._ramp))
        elif changed:
            self._state = now
            self._line(str(self._ramp))

    def _line(self, text: str) -> None:
        say(printable(text))

    def _draw(self, text: str) -> None:
        room = max(20, shutil.get_terminal_size().columns - 1)
        sys.stderr.write("\r\x1b[K" + printable(text)[:room])
        sys.stderr.flush()
