"""Examines a deployment: its servers, the connection, the user's rights, its queues. Reads only.

It says what the user may not read, and examines the rest.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any

from redis.exceptions import RedisError

from redisq_ops import __version__
from redisq_ops.core.engine.optional_features import HasPeriodicEntries
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.errors import Forbidden, RedisqError, Refused, Unreadable
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis import acl_rights
from redisq_ops.core.redis.operation import apart, attempt, together, user

from ..change import audit_log
from ..change.unfinished import unfinished
from ..deployment import Deployment
from ..hint import hint
from ..resize import what_completes
from ..terminal import age, count, date
from ..unregistered import BRIEF, unregistered
from .diagnosis import Diagnosis, Verdict
from .server_checks import server_findings
from .server_report import server_reports

LOOKS = 10
"""calls whose time is measured"""
SLOW_CALL_US = 20_000
CLOCK_WARNING_MS, CLOCK_WRONG_MS = 1_000, 60_000
OPERATIONS = 50
"""latest changes of a queue that are looked through"""
CHECKS = {
    "submit": acl_rights.to_put,
    "work": acl_rights.to_work,
    "change queues": acl_rights.to_change,
}
HARMFUL = ("flushall", "config|set", "shutdown")
"""commands that no user of queues needs"""
Timer = Callable[[], float]


async def examine(
    deployment: Deployment, wall: Timer = time.time, timer: Timer = time.perf_counter
) -> list[Diagnosis]:
    """Every finding. Raises `Unreachable` if the server can't be reached."""
    redis_py = f"redis-py {version('redis')}"
    found = [
        Diagnosis(
            "client",
            "ok",
            f"redisq {__version__}, {redis_py}, Python {platform.python_version()}",
            facts={"redisq": __version__},
        )
    ]
    found += await _connection(deployment, wall, timer)
    queues, refused = await deployment.registered()
    found += await _servers(deployment, queues)
    found += await _rights(deployment, queues)
    found += _unreadable(refused)
    for queue, rows in zip(queues, await together(apart(_queue(q)) for q in queues), strict=True):
        found += _unreadable({queue.name: rows}) if isinstance(rows, Exception) else rows
    found += await registry_diagnoses(deployment)
    if not any(one.check == "queues" for one in found):
        found.append(
            Diagnosis(
                "queues",
                "ok",
                f"queues: {count(len(queues))}, all can be read",
                facts={"queues": len(queues)},
            )
        )
    if not any(one.check == "operations" for one in found):
        found.append(Diagnosis("operations", "ok", "no unfinished change"))
    return found


# --- the connection -------------------------------------------------------------------------------


async def _connection(deployment: Deployment, wall: Timer, timer: Timer) -> list[Diagnosis]:
    """How long calls take, and how far the server's clock is from this machine's."""
    took, differences = list[float](), list[tuple[float, float]]()
    for _ in range(LOOKS):
        began, here = timer(), wall()
        there = await server_ms()
        span = timer() - began
        took.append(span * 1e6)
        differences.append((span, there - (here + span / 2) * 1000))
    middle, longest = int(median(took)), int(max(took))
    facts = {"median_us": middle, "longest_us": longest}
    sentence = (
        f"a call takes {middle / 1000:,.1f} ms, the slowest of {LOOKS} {longest / 1000:,.1f} ms"
    )
    verdict: Verdict = "warning" if middle >= SLOW_CALL_US else "ok"
    advice = "run workers and this command nearer to the server" if verdict == "warning" else None
    found = [Diagnosis("latency", verdict, sentence, advice, facts=facts)]
    _, offset = min(differences)  # of the shortest call: it is the most exact
    return [*found, _clock(round(offset))]


def _clock(offset_ms: int) -> Diagnosis:
    facts = {"offset_ms": offset_ms}
    far = abs(offset_ms)
    if far < CLOCK_WARNING_MS:
        return Diagnosis("clock", "ok", "the server's clock and this machine's agree", facts=facts)
    where = "ahead of" if offset_ms > 0 else "behind"
    return Diagnosis(
        "clock",
        "wrong" if far >= CLOCK_WRONG_MS else "warning",
        f"the server's clock is {age(far)} {where} this machine's: ready times that producers here "
        "compute are off by that",
        "run NTP on both",
        facts=facts,
    )


# --- the servers ----------------------------------------------------------------------------------


async def _servers(deployment: Deployment, queues: list[Queue[Any]]) -> list[Diagnosis]:
    try:
        reports = await server_reports(deployment, queues)
    except Forbidden as error:
        return [Diagnosis("server", "unknown", f"the server's INFO can't be read: {error}")]
    return [replace(one, node=each.node) for each in reports for one in server_findings(each)]


# --- rights ---------------------------------------------------------------------------------------


async def _rights(deployment: Deployment, queues: list[Queue[Any]]) -> list[Diagnosis]:
    """What the user may do with one queue of each kind of ours."""
    kinds: dict[str, Queue[Any]] = {}
    for queue in queues:
        if not queue.owner:
            kinds.setdefault(queue.kind, queue)
    asked = list(kinds.values()) or [
        RequestQueue(deployment.client, "default", prefix=deployment.prefix)
    ]
    name = user(deployment.client)
    lacks = dict[str, str]()
    for role, check in CHECKS.items():
        for queue in asked:
            refusal = await attempt(check(queue))
            if isinstance(refusal, Forbidden):
                lacks.setdefault(role, refusal.denial.rules if refusal.denial else str(refusal))
            elif isinstance(refusal, Exception) and not isinstance(refusal, Refused):
                raise refusal
    may = ["look", *(role for role in CHECKS if role not in lacks)]
    sentence = f"user {name} may {', '.join(may)}"
    if lacks:
        sentence += f", and not {', '.join(lacks)}"
    facts = {"user": name, "may": may, "missing": lacks}
    found = [Diagnosis("rights", "ok", sentence, facts=facts)]
    harmful = await attempt(acl_rights.allowed(asked[0], HARMFUL))
    if isinstance(harmful, tuple) and harmful:
        found.append(
            Diagnosis(
                "rights",
                "warning",
                f"user {name} may also run {', '.join(harmful).upper().replace('|', ' ')}",
                f"give each program a user of its role: {hint('acl', 'worker')}",
                facts=facts,
            )
        )
    return found


# --- the queues -----------------------------------------------------------------------------------


def _unreadable(problems: dict[str, Any]) -> Iterator[Diagnosis]:
    for name, why in problems.items():
        known = isinstance(why, (RedisqError, RedisError))
        said = str(why) if known else f"unexpected error: {type(why).__name__}"
        forbidden = isinstance(why, Forbidden)
        yield Diagnosis(
            "queues",
            "unknown" if forbidden else "wrong",
            f"queue {name} can't be read: {said}",
            None if forbidden else hint("fsck", name),
            facts={"queue": name},
        )


async def registry_diagnoses(deployment: Deployment) -> list[Diagnosis]:
    """Queues of ours that the registry has lost, among the server's first keys."""
    lost = await unregistered(deployment, BRIEF)
    found = [
        Diagnosis(
            "registry",
            "wrong",
            f"queue {entry.name} has keys and no entry in the registry: nothing shows it",
            hint("discover", register=None),
            facts={"queue": entry.name},
        )
        for entry in lost.entries
    ]
    if found or lost.unseen is None:
        return found
    sentence = f"no queue is missing in the registry, as far as was searched: {lost.unseen}"
    return [Diagnosis("registry", "ok" if lost.searched else "unknown", sentence)]


async def _queue(queue: Queue[Any]) -> list[Diagnosis]:
    """What can't be read, unfinished changes and missed periodic runs of one queue."""
    now = await queue.now.op()
    counts, moves, operations = await together(
        queue.counts.op(now), unfinished(queue), audit_log.last(queue, OPERATIONS)
    )
    found, name = list[Diagnosis](), {"queue": queue.name}
    if counts.problem is not None:
        found += _unreadable({queue.name: Unreadable(counts.problem)})
    named = {move.operation.id for move in moves}
    for move in moves:
        verdict: Verdict = "wrong" if move.abandoned else "ok"
        advice = f"let a worker finish it, or take it back: {move.command}"
        found.append(
            Diagnosis(
                "operations",
                verdict,
                move.sentence(partial(date, zone=UTC)),
                advice if move.abandoned else None,
                facts=name | {"op": move.operation.id},
            )
        )
    for one in operations:
        if one.ended or one.taken_back or one.id in named or one.origin:
            continue
        found.append(
            Diagnosis(
                "operations",
                "warning",
                f"{one.id} of queue {queue.name}, begun {age(max(0, now - one.started_ms))} ago by "
                f"{one.by}, has not ended: {count(one.done)} of {count(one.matched)} done",
                f"continue it, or take it back: {hint('undo', one.id)}",
                facts=name | {"op": one.id},
            )
        )
    if resize := await queue.open_resize.op():
        found.append(
            Diagnosis(
                "shards",
                "warning",
                f"queue {queue.name} is {resize}",
                what_completes(queue.name, resize),
                facts=name,
            )
        )
    if isinstance(queue, HasPeriodicEntries):
        _, overdue = await queue.periodic_counts.op(now)
        if overdue:
            found.append(
                Diagnosis(
                    "periodic",
                    "warning",
                    f"periodic entries of queue {queue.name} that missed a run: {count(overdue)}",
                    hint("explain", queue.name),
                    facts=name | {"overdue": overdue},
                )
            )
    return found
