"""Other programs' keys that a Cluster has in several slots: looked at, and never changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import redis

from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.queue_types import LAYOUTS
from redisq_ops.core.foreign.changes import ForeignChanges
from redisq_ops.core.foreign.declarations import List
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.model.entry import STATES
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.redis.client import connect
from redisq_ops.demo.server import cluster
from redisq_ops.ops.change.prepare import ChangeRequest
from redisq_ops.ops.filter.filter import Filter

from ...command_line import Redisq
from ..test_conformance import SPECIMENS, content

SENTENCE = "on a cluster its keys must begin with one hash tag, like {app}:, and these begin with "
CHANGED = [kind for kind in LAYOUTS if issubclass(foreign_class(kind) or object, ForeignChanges)]
SPREAD = [kind for kind in CHANGED if kind != "asynq"]
LINES = (
    "purge {0} --state waiting --yes",
    "purge {0} --state waiting --dry-run",
    "dlq replay {0} --yes",
    "queue pause {0} --yes",
    "work tests.core.cluster.test_several_slots:handle --queue {0} --burst",
)


def handle(work: Any) -> None:
    """Nothing is ever handed over."""


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with cluster(nodes=1) as one:
        yield one.urls[0].replace("redis://", "redis+cluster://")


def copied(client: redis.Redis, node: str) -> Any:
    """All keys of a server, on a Cluster."""
    there: Any = connect(node)
    there.flushall(target_nodes=there.PRIMARIES)
    for key in client.scan_iter():
        if key != b"redisq:registry":
            there.restore(key, max(0, client.pttl(key)), client.dump(key))
    return there


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("kind", SPREAD)
def test_every_verb_says_why_it_is_refused(
    node: str, client: redis.Redis, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = SPECIMENS[kind](client)
    there = copied(client, node)
    before = {key: content(there, key) for key in there.scan_iter()}
    redisq, queue = Redisq(node, capsys), type(made)(there, made.name)
    looked = queue.full_counts()
    assert all(looked.of(state) == made.full_counts().of(state) for state in STATES)
    for state in STATES:
        kept_as_results = kind in ("arq", "celery") and state == "dead"
        if kept_as_results or (kind in ("arq", "celery", "dramatiq") and state == "done"):
            with pytest.raises(Refused, match="on several nodes"):
                queue.page(state)
            continue
        found = [entry.id for entry in queue.page(state).entries]
        assert sorted(found) == sorted(entry.id for entry in made.page(state).entries), state
    with pytest.raises(Refused, match="one hash tag"):
        queue.move("op", 1, ["x"], source="dead", target="waiting", high_water_ms=1)
    for verb, states in queue.actions.items():
        for state in states:
            with pytest.raises(Refused, match="one hash tag"):
                ChangeRequest(verb, queue, state, Filter(), ready_ms=1)
    for line in LINES:
        redisq(*line.format(queue.name).split(" "), code=1)
        refused = redisq.err.splitlines()[-1]
        others = "is kept by another program"
        assert any(said in refused for said in (SENTENCE, others)), (line, refused)
    assert {key: content(there, key) for key in there.scan_iter()} == before


@pytest.mark.alike
@pytest.mark.slow
def test_keys_that_begin_with_a_tag_of_each_queue_are_changed(
    node: str, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    SPECIMENS["asynq"](client)
    there, redisq = copied(client, node), Redisq(node, capsys)
    before = {key: content(there, key) for key in there.scan_iter()}
    assert [row["name"] for row in redisq.rows("discover")] == ["asynq:low", "asynq:other"]
    assert "replayed" in redisq("dlq", "replay", "asynq:low", "--yes")
    assert there.zcard("asynq:{low}:archived") == 0
    redisq("undo", "--yes")
    redisq("purge", "asynq:low", "--state", "delayed", "--yes")
    assert there.zcard("asynq:{low}:retry") == there.scard("asynq:{low}:groups") == 0
    redisq("undo", "--yes")
    left = {key: content(there, key) for key in there.scan_iter()}
    assert {key: left.get(key) for key in before} == before
    ours = {key for key in left if b"redisq:" in key} - {b"redisq:registry"}
    assert left.keys() - before.keys() - {b"redisq:registry"} == ours
    assert all(key.startswith(b"asynq:{low}:redisq:asynq:low:") for key in ours)


class Tagged(RqQueue[Any]):
    """Its queues' keys have a tag each, behind a part that all share: ours have another slot."""

    home: ClassVar[str] = "shop:"
    theirs: ClassVar[dict[str, str]] = {}
    states: ClassVar[Any] = {"waiting": (List("{{q}}:pending", "pending"),)}


@pytest.mark.slow
def test_a_tag_inside_the_owners_keys_does_not_hold_for_ours(node: str) -> None:
    queue = Tagged(connect(node), "rq:mail")
    with pytest.raises(Refused, match="one hash tag"):
        queue.move("op", 1, ["x"], source="dead", target="waiting", high_water_ms=1)
    Tagged(connect(node), "rq:mail", at="{shop}:").refuse_several_slots()
