"""The oldest releases of other programs: what they write is read and changed, and their workers
run it. The newest ones write and run what all other tests here are about."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import redis

from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.testing.conformance import CHECKS, Specimen, conform
from redisq_ops.testing.picture import Picture

from ...changes import changed, undone
from ...command_line import Redisq
from ...foreign_keys import bull_program, bullmq_program
from ...foreign_keys.installed_releases import PythonRelease
from .specimens import SPECIMENS, Stated, bullmq_jobs

pytestmark = [pytest.mark.slow, pytest.mark.alike]

OLD = [
    "rq 1.10.1",
    "rq 1.16.0",
    "rq 2.0.0",
    "celery 5.2.7",
    "dramatiq 1.12.0",
    "bullmq 5.20.0",
    "bull 3.29.3",
]
NODE: dict[str, Callable[..., Any]] = {
    "bullmq": bullmq_program.Program,
    "bull": bull_program.Program,
}
OF_THE_RELEASE = (
    *("statements", "recognition", "states", "shown", "undo", "restored", "own verbs", "paused"),
)
"""checks that depend on what the release wrote; all others are of our scripts"""
LATER = {
    "celery": {
        "celery elements headers (ignore_result|replaced_task_nesting|stamps)": "later headers, "
        "which its worker ignores"
    },
    "rq": {"rq:results:{id} gone": "these releases leave the result until it expires"},
}
"""program -> where redisq does what a later release does"""
DEPENDENTS = {"rq": 6}
"""jobs that wait for the first one that waits"""


def specimen(old: str) -> Specimen:
    """Of its program, written by the old release."""
    program, release = old.split()
    usual, of = SPECIMENS[program], PythonRelease(program, release)
    if program == "celery" and sys.version_info >= (3, 12):
        pytest.skip("Celery 5.2 needs Python 3.11 or older")

    def by(function: Callable[..., Any]) -> Callable[..., Any]:
        return partial(function, version=release) if program in NODE else of.runs(function)

    own = {deed: by(function) for deed, function in usual.own_verbs.items()}
    if program == "bullmq":
        del own["replay", "dead"]  # its retry forgets the priority, and so jobs have another order
    differs = {**usual.differs, **LATER.get(program, {})}
    return replace(usual, fill=by(usual.fill), own_verbs=own, differs=differs)


@pytest.mark.parametrize("old", OLD)
def test_it_conforms(client: redis.Redis, old: str) -> None:
    skips = dict.fromkeys(CHECKS.keys() - OF_THE_RELEASE, "the same for all releases")
    found = [*conform(client, replace(specimen(old), skips=skips))]
    assert not found, "\n" + "\n".join(found)


def work(client: redis.Redis, old: str, n: int) -> None:
    program, release = old.split()
    if program in NODE:
        client.delete("bull:mail:stalled")  # else Bull's worker takes the lost jobs first
        NODE[program](client, release).work(n)
    else:
        PythonRelease(program, release).call("work", (), client, n)


def runs(client: redis.Redis) -> int:
    """How many jobs have begun, each time that they did."""
    return sum(map(int, client.hvals("ran")))


def moved(client: redis.Redis, queue: Any, stated: Stated) -> int:
    """Replay a dead entry, requeue a delayed one if the kind can, purge two that wait and restore
    one of them: how many wait then."""
    client.delete("broken")
    assert changed(queue, "replay", "dead", stated["dead"][0]).outcome.done == 1
    requeued = "delayed" in queue.actions.get("requeue", ())
    if requeued:
        assert changed(queue, "requeue", "delayed", stated["delayed"][0]).outcome.done == 1
    gone, back = stated["waiting"][:2]
    assert changed(queue, "purge", "waiting", gone).outcome.done == 1
    purge = changed(queue, "purge", "waiting", back)
    assert undone(client, purge).outcome.done == 1
    n = len(stated["waiting"]) + requeued
    assert queue.counts().waiting == n
    return n


@pytest.mark.parametrize("old", OLD)
def test_its_workers_run_what_was_moved_once(client: redis.Redis, old: str) -> None:
    theirs = specimen(old)
    stated = theirs.fill(client)
    queue: Any = run(client, Deployment(client).queue(theirs.queue))
    n, before = moved(client, queue, stated), runs(client)
    work(client, old, n)
    assert runs(client) == before + n and queue.counts().waiting == 0
    assert changed(queue, "restore", "trash").outcome.done == 1
    more = 1 + DEPENDENTS.get(queue.kind, 0)
    work(client, old, more)
    assert runs(client) == before + n + more and queue.counts().waiting == 0


@pytest.mark.parametrize("release", ["3.0.0", "3.16.2", "4.18.3", "5.0.0"])
def test_an_early_bullmq_is_counted_as_it_counts_itself_and_only_shown(
    client: redis.Redis, redisq: Redisq, release: str
) -> None:
    stated = bullmq_jobs(client, release)
    redisq("discover", "--register", "--yes")
    assert "not shown" not in redisq.err
    program = bullmq_program.Program(client, release)
    (theirs,) = program.call(["getJobCounts"])
    (row,) = redisq.rows("ls")
    assert [row[state] for state in ("pending", "delayed", "dead", "done")] == [
        theirs[name] for name in ("active", "delayed", "failed", "completed")
    ]
    assert row["waiting"] == theirs["waiting"] + theirs.get("prioritized", 0)
    queue: Any = run(client, Deployment(client).queue("bullmq:mail"))
    for state, ids in stated.items():
        assert [entry.id for entry in queue.page(state, max=100).entries] == list(ids)
    before = Picture.of(client, {})
    named = "names no release" if release.endswith("0.0") else f"of BullMQ {release}"
    for words in (
        *(("purge", "bullmq:mail", "--state", state) for state in ("waiting", "delayed", "done")),
        ("dlq", "replay", "bullmq:mail"),
        ("requeue", "bullmq:mail", "--state", "pending"),
        ("queue", "pause", "bullmq:mail", "--reason", "r"),
    ):
        redisq(*words, "--yes", code=1)
        assert named in redisq.err and "redisq changes queues of BullMQ 5.20 to 6" in redisq.err
    assert not before.changed(Picture.of(client, {}), 0)
