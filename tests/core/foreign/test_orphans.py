"""Orphans: ids in the lists and sets of other programs whose records were evicted, or expired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment

from ...changes import changed, undone
from ...command_line import Redisq

Client = redis.Redis
IDS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Case:
    queue: str
    state: State
    key: str
    record: str
    """of the id ``b``; `HASH#FIELD` for a field"""
    kind: str = "zset"
    score: float = 1_900_000_000.5

    def __str__(self) -> str:
        return f"{self.key}-{self.state}"

    def fill(self, client: Client) -> None:
        """Four ids without a record."""
        client.sadd("rq:queues", "rq:queue:mail")
        client.hset("bull:mail:meta", mapping={"version": "bullmq:5.70.0", "opts.maxLenEvents": 9})
        client.zadd("dramatiq:__heartbeats__", {"w": 1})
        client.set("arq:queue:health-check", "Nov-28 j_complete=1")
        if self.kind == "list":
            client.rpush(self.key, *IDS)
        else:
            client.zadd(self.key, {id: self.score + n for n, id in enumerate(IDS)})

    def write(self, client: Client) -> None:
        key, _, field = self.record.partition("#")
        if field:
            client.hset(key, field, "{}")
        elif key.startswith("arq:"):
            client.set(key, '{"t":null,"f":"pay","a":[],"k":{},"et":1}')
        else:
            client.hset(key, mapping={"name": "pay", "created_at": "x", "data": "x"})


MS = 1_900_000_000_000.0
CASES = [
    Case("rq:mail", "waiting", "rq:queue:mail", "rq:job:b", "list"),
    Case("rq:mail", "dead", "rq:failed:mail", "rq:job:b"),
    Case("rq:mail", "delayed", "rq:scheduled:mail", "rq:job:b"),
    Case("rq:mail", "delayed", "rq:deferred:mail", "rq:job:b"),
    Case("bullmq:mail", "waiting", "bull:mail:wait", "bull:mail:b", "list"),
    Case("bullmq:mail", "waiting", "bull:mail:prioritized", "bull:mail:b"),
    Case("bullmq:mail", "delayed", "bull:mail:delayed", "bull:mail:b", score=MS * 4096),
    Case("bullmq:mail", "delayed", "bull:mail:waiting-children", "bull:mail:b"),
    Case("bullmq:mail", "dead", "bull:mail:failed", "bull:mail:b"),
    Case("dramatiq:low", "waiting", "dramatiq:low", "dramatiq:low.msgs#b", "list"),
    Case("dramatiq:low", "delayed", "dramatiq:low.DQ", "dramatiq:low.DQ.msgs#b", "list"),
    Case("dramatiq:low", "dead", "dramatiq:low.XQ", "dramatiq:low.XQ.msgs#b"),
    Case("arq:arq:queue", "waiting", "arq:queue", "arq:job:b", score=5),
    Case("arq:arq:queue", "delayed", "arq:queue", "arq:job:b", score=MS),
]
all_cases = pytest.mark.parametrize("case", CASES, ids=str)
some_cases = pytest.mark.parametrize("case", [CASES[0], CASES[8], CASES[11], CASES[12]], ids=str)


def queue_of(client: Client, case: Case) -> Any:
    return run(client, Deployment(client).queue(case.queue))


def theirs(client: Client) -> dict[bytes, bytes | None]:
    """Every key that isn't ours."""
    return {key: client.dump(key) for key in client.scan_iter() if b"redisq:" not in key}


def ids(client: Client, case: Case) -> list[bytes]:
    read: Callable[..., Any] = client.lrange if case.kind == "list" else client.zrange
    found: list[bytes] = read(case.key, 0, -1)
    return found


@all_cases
def test_an_orphan_is_purged_alone_and_an_undo_puts_it_back(client: Client, case: Case) -> None:
    case.fill(client)
    before = theirs(client)
    change = changed(queue_of(client, case), "purge", case.state, "b")
    assert change.outcome.done == 1 and ids(client, case) == [b"a", b"c", b"d"]
    (entry,) = queue_of(client, case).page("trash").entries
    assert (entry.id, entry.payload, entry.problem) == ("b", None, None)
    undone(client, change)
    assert theirs(client) == before


@some_cases
def test_a_restored_orphan_goes_back_to_the_trash_by_an_undo(client: Client, case: Case) -> None:
    case.fill(client)
    before = theirs(client)
    changed(queue_of(client, case), "purge", case.state, "b")
    restore = changed(queue_of(client, case), "restore", "trash", "b")
    assert theirs(client) == before
    undone(client, restore)
    assert b"b" not in ids(client, case)
    assert [entry.id for entry in queue_of(client, case).page("trash").entries] == ["b"]


@some_cases
def test_all_orphans_are_found_named_and_removed(
    redisq: Redisq, client: Client, case: Case
) -> None:
    case.fill(client)
    case.write(client)
    redisq("discover", "--register", "--yes")
    said = redisq("fsck", case.queue, code=1)
    assert "3 " + case.state + " entries are only ids (a, c, d)" in said
    command = said.partition("To remove: redisq ")[2].partition("\n")[0]
    assert command == f"purge {case.queue} --state {case.state} --where reason=gone"
    listed = {"dead": "dlq", "delayed": "delay"}.get(case.state, case.state)
    rows = redisq.rows(listed, "ls", case.queue, code=3)
    assert {row["id"] for row in rows if row["reason"] == "gone"} == {"a", "c", "d"}
    assert {row["id"] for row in rows if row["failures"] is None} == {"a", "c", "d"}
    assert "3 entries are only ids" in redisq.err
    redisq(*command.split(), "--yes", "--hard")
    assert ids(client, case) == [b"b"]
    redisq("fsck", case.queue)


@all_cases
def test_a_job_that_is_written_again_meanwhile_is_left_alone(
    client: Client, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.fill(client)
    queue = queue_of(client, case)
    rows = type(queue)._rows

    async def written_after(self: Any, step: Any) -> Any:
        found = await rows(self, step)
        case.write(client)
        return found

    monkeypatch.setattr(type(queue), "_rows", written_after)
    change = changed(queue, "purge", case.state, "a", "b")
    assert change.outcome.skipped == {"changed": 1} and ids(client, case) == [b"b", b"c", b"d"]


@some_cases
def test_an_undo_leaves_alone_what_was_written_again(client: Client, case: Case) -> None:
    case.fill(client)
    change = changed(queue_of(client, case), "purge", case.state, "a", "b")
    case.write(client)
    undo = undone(client, change)
    assert undo.outcome.done == 1 and ids(client, case) == [b"a", b"c", b"d"]


@all_cases
def test_an_orphan_is_neither_replayed_nor_requeued(
    redisq: Redisq, client: Client, case: Case
) -> None:
    case.fill(client)
    redisq("discover", "--register", "--yes")
    before = theirs(client)
    verb = {"dead": "replay", "delayed": "requeue", "waiting": "explain"}[case.state]
    address = f"{case.queue}/b"
    if verb == "explain":
        said = redisq(verb, address)
    else:
        said = redisq(verb, address, "--yes", "--json", code=1)
        assert '"skipped": {"gone": 1}' in said
        said = redisq("explain", address)
    assert "is gone" in said and f"redisq purge {address}" in said
    assert "replay " not in said.replace("can run or replay it", "")
    assert theirs(client) == before


@some_cases
def test_a_take_that_is_refused_writes_nothing(client: Client, case: Case) -> None:
    case.fill(client)
    queue, before = queue_of(client, case), sorted(client.scan_iter())
    with pytest.raises(WrongKind, match="only that program's workers"):
        queue.take(1, consumer="w")
    assert sorted(client.scan_iter()) == before


@some_cases
def test_the_step_itself_only_removes_an_orphan(client: Client, case: Case) -> None:
    case.fill(client)
    queue, high = queue_of(client, case), 1 << 50
    said = queue.move("op", 1, ["b"], source=case.state, target="delayed", high_water_ms=high,
                      orphans={"b"})  # fmt: skip
    assert said == ["gone"]
    said = queue.move("op", 2, ["b"], source=case.state, target="trash", high_water_ms=high)
    assert said == ["changed"], "it wasn't chosen as an orphan"
    assert len(ids(client, case)) == 4


def test_what_is_unknown_of_an_orphan_is_not_compared(redisq: Redisq, client: Client) -> None:
    CASES[1].fill(client)
    redisq("discover", "--register", "--yes")
    for filter in ("failures=0", "attempts<5", "task=pay", "age>1s"):
        redisq("purge", "rq:mail", "--state", "dead", "--where", filter, "--yes")
    assert client.zcard("rq:failed:mail") == 4
    redisq("purge", "rq:mail", "--state", "dead", "--where", "id=b", "--yes")
    assert ids(client, CASES[1]) == [b"a", b"c", b"d"]


def test_a_plan_of_orphans_is_applied(redisq: Redisq, client: Client, tmp_path: Any) -> None:
    CASES[1].fill(client)
    redisq("discover", "--register", "--yes")
    plan = str(tmp_path / "plan")
    redisq("purge", "rq:mail", "--state", "dead", "--where", "reason=gone", "--plan", plan)
    CASES[1].write(client)
    redisq("apply", plan, "--yes", code=3)
    assert ids(client, CASES[1]) == [b"b"]


@pytest.mark.parametrize(("case", "remnant"), [
    (CASES[1], {"last_heartbeat": "2026-11-28T00:00:00Z"}), (CASES[8], {"ats": "1"}),
    (CASES[6], {"delay": "0"}),
], ids=str)  # fmt: skip
def test_what_a_worker_left_of_a_job_is_no_orphan(client: Client, case: Case, remnant: Any) -> None:
    """RQ's and BullMQ's workers write some fields without asking whether there is a job."""
    case.fill(client)
    client.hset(case.record, mapping=remnant)
    (entry,) = [e for e in queue_of(client, case).page(case.state).entries if e.id == "b"]
    assert entry.problem in ("its job has lost its data", "its job has lost its name")
    assert changed(queue_of(client, case), "purge", case.state, "b").outcome.skipped == {
        "corrupt": 1
    }
