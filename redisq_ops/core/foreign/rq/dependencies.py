"""Jobs that depend on others: RQ lets a deferred job wait until its dependencies have finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...engine.relation import Linked, Links
from ...model.quoting import bytes_of, legal, text
from ...redis.operation import Call, together
from ...redis.parsers import optional

if TYPE_CHECKING:
    from .queue import RqQueue

MOST = 100
"""dependencies and dependents of a job that are named, each"""


async def links(queue: RqQueue[Any], id: bytes) -> Links:
    """A job's dependencies and dependents, in two round trips.

    The sets are those of `Job.dependencies_key` and `Job.dependents_key`; RQ keeps the ids of jobs
    that have ended in them. A job that is gone holds no other (`Job.dependencies_are_met`).
    """
    jobs = bytes_of(queue.keys["t_job_"])
    sets = jobs + b":" + id + b":dependencies", jobs + id + b":dependents"
    calls: list[Call[Any]] = [Call(("SCARD", key), int, key=key) for key in sets]
    calls += [
        Call(("SSCAN", key, 0, "COUNT", MOST), lambda reply: sorted(reply[1])[:MOST], key=key)
        for key in sets
    ]
    calls.append(Call(("HGET", jobs + id, "allow_dependency_failures"), optional, key=jobs + id))
    number, awaiting, needed, waiting, allows = await together(calls)
    allowed = b"failed" if allows == b"1" else None
    ids = [*needed, *waiting]
    keys = [jobs + each for each in ids]
    known = await together(
        Call(("HMGET", key, "origin", "status"), list[Any], key=key) for key in keys
    )
    linked = [
        Linked(
            "dependency" if nth < len(needed) else "dependent",
            queue if origin is None else queue.beside_it(text(origin)),
            legal(each),
            there=origin is not None,
            holds=nth < len(needed) and status not in (None, b"finished", allowed),
        )
        for nth, (each, (origin, status)) in enumerate(zip(ids, known, strict=True))
    ]
    return Links(tuple(linked[: len(needed)]), tuple(linked[len(needed) :]), number, awaiting)
