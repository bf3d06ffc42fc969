"""A Cluster that lost a master and has nobody in its place: what the others have is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from redisq_ops.core.engine.registry import all_queues
from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.queues.circular import ShardedCircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.redis.operation import (
    Call,
    Description,
    apart,
    arun,
    attempt,
    run,
    together,
)
from redisq_ops.demo.server import EmbeddedCluster, EmbeddedServer, cluster

from ...command_line import Redisq
from ..worker.test_worker import until

pytestmark = pytest.mark.slow


def url_of(node: EmbeddedServer) -> str:
    return node.url.replace("redis://", "redis+cluster://")


def goes_on(node: EmbeddedServer) -> None:
    """Else those that are left refuse everything, some seconds after they miss one."""
    node.command("CONFIG", "SET", "cluster-require-full-coverage", "no")


@pytest.fixture(scope="module")
def nodes() -> Iterator[EmbeddedCluster]:
    """Three masters: a delay set and a plain stream on each, a circle on all of them."""
    with cluster() as three:
        list(map(goes_on, three.nodes))
        client: Any = connect(url_of(three.nodes[0]))
        met = set[int]()
        for n in range(100):
            queue = DelaySet(client, f"d{n}")
            port = client.get_node_from_key(queue.keys["cfg"]).port
            if port not in met:
                queue.schedule([("e", b"x")], after=600)
                client.xadd(f"{{d{n}}}:orders", {"n": 1})
                client.xgroup_create(f"{{d{n}}}:orders", "bill", "0")
            met.add(port)
        ShardedCircularQueue(client, "circle", shards=9).push([(f"e{n}", b"") for n in range(20)])
        client.close()
        yield three


@dataclass(frozen=True)
class Loss:
    """A master that is gone, and one that is there."""

    node: EmbeddedServer
    url: str
    gone: dict[str, bool]
    """what a queue is called, and whether it needs the node"""
    registry: bool
    """whether it had the registry"""

    @property
    def why(self) -> str:
        return f"node 127.0.0.1:{self.node.port} doesn't answer"


@pytest.fixture(scope="module", params=[0, 1, 2])
def loss(request: pytest.FixtureRequest, nodes: EmbeddedCluster) -> Iterator[Loss]:
    node, near = nodes.nodes[request.param], nodes.nodes[request.param - 1]
    client: Any = connect(url_of(near))

    def has(key: str) -> bool:
        return bool(client.get_node_from_key(key).port == node.port)

    names = [entry.name for entry in run(client, all_queues())]
    gone = {name: name == "circle" or has(f"redisq:{{{name}}}:cfg") for name in names}
    registry = has(registry_key())
    client.close()
    node.command("SAVE")
    node.kill()
    yield Loss(node, url_of(near), gone, registry)
    node.restart()
    goes_on(node)
    until(lambda: all(map(misses_nobody, nodes.nodes)))


def misses_nobody(node: EmbeddedServer) -> bool:
    """It may say `ok` before that, and be on its own when the next one goes."""
    return {"cluster_state:ok", "cluster_slots_ok:16384"} <= {
        *node.command("CLUSTER", "INFO").split()
    }


@pytest.fixture
def redisq(loss: Loss, capsys: pytest.CaptureFixture[str]) -> Redisq:
    return Redisq(loss.url, capsys)


def test_what_the_others_have_is_shown(
    loss: Loss, redisq: Redisq, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sorted(loss.gone.values()) == [False, False, True, True]
    if loss.registry:  # then nobody knows what there is
        for words in (["ls"], ["fsck"]):
            assert "127.0.0.1" in redisq.refusal(*words, code=4)
        return
    told = {row["name"]: row for row in redisq.rows("ls", code=3)}
    for name, gone in loss.gone.items():
        assert told[name]["problem"] == (loss.why if gone else None)
        assert told[name]["delayed"] == (None if gone else 1)
    assert redisq("ls", code=3).count(loss.why) == 2
    frame = redisq("top", "--once", code=3)
    assert all(name in frame for name in loss.gone) and frame.count("node ") >= 2
    for columns in ("80", "130"):
        monkeypatch.setenv("COLUMNS", columns)
        frame = redisq("top", "--once", code=3)
        for name, gone in loss.gone.items():
            (line,) = (line for line in frame.splitlines() if line.split()[:1] == [name])
            assert line.endswith(loss.why) is gone
    for name, gone in loss.gone.items():
        if gone:
            assert redisq.refusal("top", "--once", "--queue", name, code=4) == loss.why
        else:
            assert "1 due in" in redisq("top", "--once", "--queue", name)
    audits = {row["queue"]: row for row in redisq.rows("fsck", code=3)}
    for name, gone in loss.gone.items():
        assert audits[name]["ok"] is (None if gone else True)
        assert audits[name]["not_checked"] == (loss.why if gone else None)
        assert audits[name]["faults"] == []
    said = redisq("fsck", code=3)
    assert said.count("can't be read") == 2 and said.count("adds up") == 2
    for name, gone in loss.gone.items():
        if gone:
            assert redisq.refusal("fsck", name, code=4) == loss.why


def test_what_was_done_and_what_is_there_is_told_of_the_others(loss: Loss, redisq: Redisq) -> None:
    if loss.registry:
        for words in (["log"], ["undo"], ["select", "*", "--where", "state:delayed"]):
            assert "127.0.0.1" in redisq.refusal(*words, code=4)
        return
    here, away = (sorted(n for n in loss.gone if loss.gone[n] is gone) for gone in (False, True))
    rows = redisq.rows("select", "*", "--where", "state:delayed", code=3)
    assert sorted(row["queue"] for row in rows) == here
    assert all(f"{name}: not looked at: {loss.why}\n" in redisq.err for name in away)
    (done,) = redisq.rows("requeue", f"{here[0]}/e", "--yes")
    assert [row["id"] for row in redisq.rows("log", code=3)][:1] == [done["op"]]
    # (The circle's first shard has its journal.)
    assert f"{away[-1]}: not looked at: {loss.why}\n" in redisq.err
    assert "the latest change is unknown" in redisq.refusal("undo", "--yes", code=4)
    assert loss.why in redisq.refusal("undo", "replay-0000000000", "--yes", code=4)
    assert redisq.rows("undo", done["op"], "--yes")[0]["done"] == 1
    assert [row["id"] for row in redisq.rows("log", "--queue", here[0])][1:2] == [done["op"]]
    assert f":{loss.node.port}" in redisq.refusal("log", "--queue", away[-1], code=4)


def test_discover_shows_the_rest_and_names_the_master(loss: Loss, redisq: Redisq) -> None:
    rows = redisq.rows("discover", code=3)
    here = {f"stream:%7B{name}%7D:orders" for name, gone in loss.gone.items() if not gone}
    assert {row["name"] for row in rows} == here
    assert redisq.err.count(f"not looked at: {loss.why}\n") == 1
    assert {row["registered"] for row in rows} == {None if loss.registry else False}
    assert all(row["problem"] is None and row["waiting"] == 1 for row in rows)
    shown = redisq("discover", code=3)
    assert shown.count("unknown") == (2 if loss.registry else 0)
    assert "SCAN" not in shown + redisq.err
    if loss.registry:
        redisq("discover", "--register", "--yes", code=3)
        assert "nothing is registered" in redisq.err


@pytest.mark.parametrize("awaited", [False, True])
def test_a_lost_nodes_calls_get_the_error_and_the_others_run_once(
    awaited: bool, loss: Loss
) -> None:
    def ask(description: Description[Any]) -> Any:
        if not awaited:
            with connect(loss.url) as client:
                return run(client, description)

        async def awaits() -> Any:
            async with aconnect(loss.url) as client:
                return await arun(client, description)

        return asyncio.run(awaits())

    def incr(name: str) -> Call[int]:
        return Call(("INCR", f"{{{name}}}:n"), int, key=f"{{{name}}}:n")

    def get(name: str) -> Call[Any]:
        return Call(("GET", f"{{{name}}}:n"), lambda reply: reply, key=f"{{{name}}}:n")

    names = [name for name in loss.gone if name != "circle"]
    here = [name for name in names if not loss.gone[name]]
    before = [int(n or 0) for n in ask(together(map(get, here)))]
    asked: list[Any] = [apart(incr(name)) for name in names]
    said = dict(zip(names, ask(together(asked)), strict=True))
    assert [said.pop(name) for name in here] == [n + 1 for n in before]
    (lost,) = said.values()
    assert isinstance(lost, Unreachable) and str(lost) == loss.why
    assert ask(together(map(get, here))) == [b"%d" % (n + 1) for n in before]
    (lone,) = ask(together([apart(get(*said))]))
    assert str(lone) == str(ask(apart(get(*said)))) == loss.why
    # Who doesn't ask for that hears of it as ever: a change is heard of whole or not at all.
    plain = together(map(get, names)), together(attempt(get(name)) for name in names)
    beside = together(get(here[0]), together(apart(get(name)) for name in names))
    for description in (*plain, beside, get(*said)):
        with pytest.raises(Unreachable):
            ask(description)
