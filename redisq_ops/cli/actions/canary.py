"""`--canary` and `--ramp`: a replay that watches what comes of it."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redisq_ops.core.model.errors import BadInput, RedisqError
from redisq_ops.core.model.states import Verb
from redisq_ops.ops.change.apply import Apply
from redisq_ops.ops.change.bulk import Bulk
from redisq_ops.ops.change.canary import Ramp
from redisq_ops.ops.change.ramp_controller import Limits
from redisq_ops.ops.filter.time import duration_ms

from ..confirm_and_run import ended
from ..output import emit, printable, say
from ..session import Session

_THRESHOLDS = ("max_reentry", "max_latency", "max_waiting", "watch", "patience")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")
_FINE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")
SHOWN_S = 0.2


def limits(
    s: Session, given: Mapping[str, Any], rate: float | None, verb: Verb = "replay"
) -> Limits | None:
    """What `RAMPING` asks for, no faster than the context allows; None: no canary, no ramp."""
    if not given["canary"] and not given["ramp"]:
        if said := [name for name in _THRESHOLDS if given[name] is not None]:
            option = "--" + said[0].replace("_", "-")
            raise BadInput(f"{option} is for a ramp: say --ramp, or --canary N")
        return None
    if verb != "replay":
        raise BadInput(f"a canary and a ramp are for a replay, not to {verb}")
    if given.get("plan") is not None:
        raise BadInput("--plan changes nothing: say --canary and --ramp to redisq apply")
    found = Limits(canary=given["canary"] or 0, rate=s.guard.stricter(rate))
    if given["max_reentry"] is not None:
        found = replace(found, reentry=_share(given["max_reentry"]))
    if given["max_latency"] is not None:
        found = replace(found, latency_ms=_fine_ms(given["max_latency"]))
    if given["watch"] is not None:
        found = replace(found, watch_ms=max(1, duration_ms(given["watch"])))
    if given["patience"] is not None:
        found = replace(found, patience_ms=duration_ms(given["patience"]))
    return replace(found, waiting=given["max_waiting"])


def _share(text: str) -> float:
    """``20%`` or ``0.2``."""
    found = _SHARE.fullmatch(text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= share <= 1:
        raise BadInput(f"{text!r} is not a share: write 20% or 0.2")
    return share


def _fine_ms(text: str) -> float:
    """``5ms``, ``0.5ms`` or ``1s`` in milliseconds."""
    found = _FINE.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"{text!r} is not a latency: write 5ms or 0.5ms")
    return float(found[1]) * (1000 if found[2] == "s" else 1)


def ramped(s: Session, steps: Bulk, limits: Limits, what: str) -> int:
    """Drive a replay by canary and ramp, say how it goes and how it ended; its exit code."""
    ramp, live, code = Ramp(steps, limits), _Live(), None
    outcome = ramp.outcome
    try:
        while s.run(ramp.step()):
            live.show(ramp)
            time.sleep(ramp.pause)
    except KeyboardInterrupt:
        # The step under way may have been carried out; its count is in the audit log.
        outcome.done, code = s.run(ramp.reached()), 130
    except RedisqError:
        live.end(ramp)
        if s.json:
            emit(outcome)
        else:
            say(f"{what}: stopped after {outcome.done:,} of {outcome.matched:,} (op {outcome.op})")
            _go_on(s, steps)
        raise
    live.end(ramp)
    seen, course = ramp.seen, ramp.course
    told = dict.fromkeys(("judged", "died", "failing", "unsettled", "untold"), 0)
    if seen is not None:
        told = {name: getattr(seen, name) for name in told}
    phase = "interrupted" if code == 130 else course.phase
    left = max(0, outcome.matched - outcome.done - sum(outcome.skipped.values()))
    ended(s, outcome, what, more={"left": left, "phase": phase, "why": course.why, **told})
    if not s.json:
        if course.phase == "stopped":
            say(printable(f"stopped by itself: {course.why}"))
        elif course.why and code is None:
            say(printable(course.why))
        if left:
            _go_on(s, steps, f"{left:,} left; ")
    return ramp.exit_code if code is None else code


def _go_on(s: Session, steps: Bulk, left: str = "") -> None:
    """The same words again, so that the rest is as careful: without --ramp it would not be."""
    say(printable(f"{left}continue with: {s.again}"))
    if not isinstance(steps, Apply):
        say("it covers all entries that are dead by then, also those that died again")


class _Live:
    """How a ramp stands: one line that changes on a terminal, else a line for each change."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = -SHOWN_S
        self._told: tuple[Any, ...] = ()

    def show(self, ramp: Ramp) -> None:
        course = ramp.course
        changed = self._told != (now := (course.phase, course.rate))
        if self._terminal:
            if changed and course.phase == "paused":  # a reason that stays, and isn't cut
                sys.stderr.write("\r\x1b[K")
                self._line(f"paused after {ramp.outcome.done:,}: {course.why}")
            if changed or time.monotonic() - self._shown >= SHOWN_S:
                self._shown, self._told = time.monotonic(), now
                self._draw(str(ramp))
        elif changed:
            self._told = now
            self._line(str(ramp))

    def end(self, ramp: Ramp) -> None:
        """The last word on it, which stays."""
        if self._terminal:
            self._draw(str(ramp))
            sys.stderr.write("\n")
        else:
            self._line(str(ramp))
        sys.stderr.flush()

    def _line(self, text: str) -> None:
        say(printable(text))

    def _draw(self, text: str) -> None:
        room = max(20, shutil.get_terminal_size().columns - 1)
        sys.stderr.write("\r\x1b[K" + printable(text)[:room])
        sys.stderr.flush()
