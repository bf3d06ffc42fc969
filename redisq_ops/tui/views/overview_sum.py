"""All queues in one line: what the dashboard's header says of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from redisq_ops.core.model.activity import BEATS_MS
from redisq_ops.ops.inspect.overview import summed
from redisq_ops.ops.terminal import quantity, rough_age, short_count
from redisq_ops.ops.trouble.judgement import judged as judged_rules

from .judged_queue import JudgedQueue


@dataclass(frozen=True, slots=True)
class OverviewSum:
    """All queues in one line. A sum leaves out queues whose number is unknown; None: of all."""

    in_trouble: int
    dead: int | None
    waiting: int | None
    oldest_ms: int | None
    """the age of the oldest waiting entry"""
    workers: int | None = None
    """workers that asked for entries or sent a heartbeat in the last 90 seconds"""
    all_workers: bool = False
    """False: there may be more"""
    all_dead: bool = True
    """False: some queue doesn't tell how many are dead"""
    all_waiting: bool = True
    """False: some queue doesn't tell how many wait"""
    sound: bool = False
    """whether no queue can be in trouble by its dead, held or waiting entries: all were read"""

    @classmethod
    def of(cls, judged: Sequence[JudgedQueue], now_ms: int) -> OverviewSum:
        rows = summed([one.row for one in judged])
        dead = [number for row in rows if (number := row.of("dead")) is not None]
        waiting = [number for row in rows if (number := row.of("waiting")) is not None]
        since = [at for one in judged if (at := one.waits_since) is not None and one.of("waiting")]
        workers, all_workers = _workers(judged, now_ms)
        return cls(
            bad := sum(bool(one.found) for one in judged),
            sum(dead) if dead else None,
            sum(waiting) if waiting else None,
            now_ms - min(since) if since else None,
            workers if all_workers or workers else None,
            all_workers,
            len(dead) == len(rows),
            len(waiting) == len(rows),
            bool(judged) and not bad and all(map(_sound, judged)),
        )

    @property
    def words(self) -> list[str]:
        """The figures behind the number of queues in trouble, the gravest first."""
        least = "" if self.all_dead else "≥"
        said = [f"{least}{short_count(self.dead)} dead"] if self.dead else []
        if self.waiting:
            oldest = f", oldest {rough_age(self.oldest_ms)}" if self.oldest_ms is not None else ""
            least = "" if self.all_waiting else "≥"
            said.append(f"{least}{short_count(self.waiting)} waiting{oldest}")
        if self.workers is not None:
            least = "" if self.all_workers else "≥"
            said.append(least + quantity(self.workers, "worker") if self.workers else "no worker")
        return said


def _sound(one: JudgedQueue) -> bool:
    """Whether the rules of dead, held and waiting entries could judge it, and found nothing."""
    needed = {"dead", "held", *(["no-worker"] if one.of("waiting") != 0 else [])}
    return needed <= judged_rules(one.row)


def _workers(judged: Sequence[JudgedQueue], now_ms: int) -> tuple[int, bool]:
    """The live workers that are known, each counted once; and whether these are all."""
    names, of_kind, complete = set[str](), defaultdict[str, list[int]](list), bool(judged)
    for one in judged:
        seen = one.row.activity
        if seen is None or seen.askers is None:
            complete = False
        elif seen.registered:
            of_kind[one.row.kind].append(seen.askers)
        elif seen.signs is not None:
            names |= {
                sign.name
                for sign in seen.signs
                if sign.seen_ms is not None and now_ms - sign.seen_ms < BEATS_MS and not sign.gone
            }
        elif seen.askers:
            complete = False
    # A program's process may serve several of its queues: without names only the most are sure.
    complete = complete and all(sum(map(bool, each)) <= 1 for each in of_kind.values())
    return len(names) + sum(map(max, of_kind.values())), complete
