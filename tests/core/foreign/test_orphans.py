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
    execution: str = ""
    """behind each id"""

    def __str__(self) -> str:
        return f"{self.key}-{self.state}{'-execution' if self.execution else ''}"

    @property
    def members(self) -> list[str]:
        return [id + self.execution for id in IDS]

    def fill(self, client: Client) -> None:
        """Four ids without a record."""
        client.sadd("rq:queues", "rq:queue:mail")
        client.hset("bull:mail:meta", mapping={"version": "bullmq:5.70.0", "opts.maxLenEvents": 9})
        client.set("bull:post:id", 4)
        client.zadd("dramatiq:__heartbeats__", {"w": 1})
        client.set("arq:queue:health-check", "Nov-28 j_complete=1")
        client.sadd("asynq:queues", "mail")
        if self.kind == "list":
            client.rpush(self.key, *self.members)
        elif self.kind == "set":
            client.sadd(self.key, *self.members)
        else:
            client.zadd(self.key, {each: self.score + n for n, each in enumerate(self.members)})

    def write(self, client: Client) -> None:
        key, _, field = self.record.partition("#")
        if field:
            client.hset(key, field, "{}")
        elif key.startswith("arq:"):
            client.set(key, '{"t":null,"f":"pay","a":[],"k":{},"et":1}')
        elif key.startswith("asynq:"):
            client.hset(key, mapping={"msg": "\n\3pay", "state": self.key.rpartition(":")[2]})
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
    Case("dramatiq:low", "delayed", "dramatiq:__acks__.w.low.DQ", "dramatiq:low.DQ.msgs#b", "set"),
    Case("asynq:mail", "waiting", "asynq:{mail}:pending", "asynq:{mail}:t:b", "list"),
    Case("asynq:mail", "delayed", "asynq:{mail}:retry", "asynq:{mail}:t:b"),
    Case("asynq:mail", "dead", "asynq:{mail}:archived", "asynq:{mail}:t:b"),
    Case("asynq:mail", "done", "asynq:{mail}:completed", "asynq:{mail}:t:b"),
    Case("bull:post", "waiting", "bull:post:wait", "bull:post:b", "list"),
    Case("bull:post", "delayed", "bull:post:delayed", "bull:post:b", score=MS * 4096),
    Case("bull:post", "dead", "bull:post:failed", "bull:post:b"),
]
WITHOUT_WORKER = [
    Case("rq:mail", "pending", "rq:wip:mail", "rq:job:b", score=5),
    Case("rq:mail", "pending", "rq:wip:mail", "rq:job:b", score=5, execution=":" + "0f" * 16),
    Case("rq:mail", "pending", "rq:queue:mail:intermediate", "rq:job:b", "list"),
    Case("bullmq:mail", "pending", "bull:mail:active", "bull:mail:b", "list"),
    Case("dramatiq:low", "pending", "dramatiq:__acks__.w.low", "dramatiq:low.msgs#b", "set"),
    Case("asynq:mail", "pending", "asynq:{mail}:active", "asynq:{mail}:t:b", "list"),
    Case("bull:post", "pending", "bull:post:active", "bull:post:b", "list"),
]
ENDED = [
    Case("rq:mail", "done", "rq:finished:mail", "rq:job:b"),
    Case("rq:mail", "done", "rq:canceled:mail", "rq:job:b", score=5),
    Case("bullmq:mail", "done", "bull:mail:completed", "bull:mail:b"),
    Case("bull:post", "done", "bull:post:completed", "bull:post:b"),
]
CASES += WITHOUT_WORKER + ENDED
all_cases = pytest.mark.parametrize("case", CASES, ids=str)
some_cases = pytest.mark.parametrize(
    "case",
    [*map(CASES.__getitem__, (0, 8, 11, 12)), *WITHOUT_WORKER[1::3], ENDED[2]],
    ids=str,
)


def queue_of(client: Client, case: Case) -> Any:
    return run(client, Deployment(client).queue(case.queue))


def theirs(client: Client) -> dict[bytes, object]:
    """Every key that isn't ours; sets have no order."""
    keys = [key for key in client.scan_iter() if b"redisq:" not in key]
    sets = {key for key in keys if client.type(key) == b"set"}
    return {key: client.smembers(key) if key in sets else client.dump(key) for key in keys}


def ids(client: Client, case: Case) -> list[bytes]:
    if case.kind == "set":
        members: Any = client.smembers(case.key)
        return sorted(members)
    read: Callable[..., Any] = client.lrange if case.kind == "list" else client.zrange
    found: list[bytes] = read(case.key, 0, -1)
    return [member.removesuffix(case.execution.encode()) for member in found]


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
def test_ids_outside_ascii_are_purged_like_others(
    redisq: Redisq, client: Client, case: Case
) -> None:
    case.fill(client)
    client.delete(case.key)
    odd = "й/" + case.execution
    if case.kind == "list":
        client.rpush(case.key, odd)
    elif case.kind == "set":
        client.sadd(case.key, odd)
    else:
        client.zadd(case.key, {odd: case.score})
    before = theirs(client)
    purge = ("purge", case.queue, "--state", case.state, "--where", "reason=gone", "--yes")
    assert f"redisq purge {case.queue} --state {case.state}" in redisq("fsck", case.queue, code=1)
    assert "1 of 1" in redisq(*purge)
    assert not client.exists(case.key)
    redisq("undo", "--yes")
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
    found, named, _ = said.partition("  3 ")[2].replace(")", "(").split("(", 2)
    assert found == f"{case.state} entries are only ids "
    assert sorted(named.split(", ")) == ["a", "c", "d"]
    command = said.partition("To remove: redisq ")[2].partition("\n")[0]
    assert command == f"purge {case.queue} --state {case.state} --where reason=gone"
    listed = {"dead": "dlq", "delayed": "delay"}.get(case.state, case.state)
    if listed != "done":  # there is no command that lists these
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
    verb = {"dead": "replay", "delayed": "requeue", "pending": "requeue"}.get(case.state, "explain")
    if case.queue in ("rq:mail", "asynq:mail") and case.state == "pending":
        verb = "explain"  # what runs there is never requeued
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
    said = queue.move(
        "op", 1, ["b"], source=case.state, target="delayed", high_water_ms=high, orphans={"b"}
    )
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


@pytest.mark.parametrize(
    ("case", "remnant"),
    [
        (CASES[1], {"last_heartbeat": "2026-11-28T00:00:00Z"}),
        (CASES[8], {"ats": "1"}),
        (CASES[6], {"delay": "0"}),
    ],
    ids=str,
)
def test_what_a_worker_left_of_a_job_is_no_orphan(client: Client, case: Case, remnant: Any) -> None:
    """RQ's and BullMQ's workers write some fields without asking whether there is a job."""
    case.fill(client)
    client.hset(case.record, mapping=remnant)
    (entry,) = [e for e in queue_of(client, case).page(case.state).entries if e.id == "b"]
    assert entry.problem in ("its job has lost its data", "its job has lost its name")
    assert changed(queue_of(client, case), "purge", case.state, "b").outcome.skipped == {
        "corrupt": 1
    }


def hold(client: Client, case: Case) -> None:
    """Its worker was heard of now."""
    seconds = int(client.time()[0])
    if case.kind == "zset":
        client.zadd(case.key, dict.fromkeys(case.members, seconds + 90))
    elif case.queue in ("bullmq:mail", "bull:post"):
        for id in IDS:
            client.set(f"{case.record[:-1]}{id}:lock", "token")
    elif case.queue == "asynq:mail":
        client.zadd("asynq:{mail}:lease", dict.fromkeys(IDS, seconds + 30))
    else:
        client.zadd("dramatiq:__heartbeats__", {"w": seconds * 1000})


@pytest.mark.parametrize(
    "case",
    [CASES[14], *(case for case in WITHOUT_WORKER if "intermediate" not in case.key)],
    ids=str,
)
def test_an_orphan_that_a_worker_may_be_at_is_not_removed(
    redisq: Redisq, client: Client, case: Case
) -> None:
    case.fill(client)
    hold(client, case)
    redisq("discover", "--register", "--yes")
    before = theirs(client)
    said = redisq("fsck", case.queue, code=1)
    assert f"4 {case.state} entries are only ids" in said and "To remove" not in said
    assert "They can't be removed now: they are with a worker of their own program" in said
    assert "are with a worker" in redisq("explain", f"{case.queue}/b")
    assert redisq.rows("explain", f"{case.queue}/b")[0]["command"] is None
    said = redisq("purge", f"{case.queue}/b", "--yes", "--json", code=1)
    assert '"skipped": {"busy": 1}' in said
    assert theirs(client) == before


@pytest.mark.parametrize("case", WITHOUT_WORKER, ids=str)
def test_only_orphans_are_purged_where_jobs_are_running(
    redisq: Redisq, client: Client, case: Case
) -> None:
    case.fill(client)
    case.write(client)
    if case.queue == "dramatiq:low":
        client.hset("dramatiq:low.msgs", "b", '{"actor_name": "pay"}')
    redisq("discover", "--register", "--yes")
    assert "purge" in redisq.refusal("purge", f"{case.queue}/b", "--yes", code=1)
    said = redisq("purge", case.queue, "--state", case.state, "--yes", "--json", code=3)
    assert '"skipped": {"whole": 1}' in said and ids(client, case) == [b"b"]
    queue, high = queue_of(client, case), 1 << 50
    move = {"source": case.state, "target": "gone", "high_water_ms": high}
    assert queue.move("op", 1, ["b"], **move) == ["whole"]


@pytest.mark.parametrize("worker", ["alive", "executes", "died", "expired", "busy with another"])
@pytest.mark.parametrize("execution", ["", ":" + "0f" * 16], ids=["job", "execution"])
def test_a_started_orphan_without_a_time_is_busy_while_a_worker_names_it(
    client: Client, worker: str, execution: str
) -> None:
    case = Case("rq:mail", "pending", "rq:wip:mail", "rq:job:b", execution=execution)
    case.fill(client)
    client.zadd(case.key, dict.fromkeys(case.members, float("inf")))
    client.sadd("rq:workers", "rq:worker:w")
    record: dict[Any, Any] = {"last_heartbeat": "2026-11-28T00:00:00Z", "current_job": "b"}
    if worker == "died":
        record["death"] = "2026-11-28T00:00:00Z"
    if worker == "executes":
        record["current_job"] = ""
        client.sadd("rq:worker:w:executions", "b" + execution)
    if worker == "busy with another":
        record["current_job"] = "a"
    if worker != "expired":
        client.hset("rq:worker:w", mapping=record)
    outcome = changed(queue_of(client, case), "purge", "pending", "b").outcome
    busy = worker in ("alive", "executes")
    assert (outcome.done, outcome.skipped) == ((0, {"busy": 1}) if busy else (1, {}))


@pytest.mark.parametrize("case", [CASES[1], CASES[8], CASES[11], ENDED[0], ENDED[2]], ids=str)
def test_fsck_of_a_long_state_is_bounded(
    redisq: Redisq, client: Client, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.core.foreign.placed_pages.PlacedPages.checked_most", 1000)
    case.fill(client)
    client.zadd(case.key, {f"n{n}": case.score + 9 + n for n in range(5000)})
    redisq("discover", "--register", "--yes")
    (row,) = redisq.rows("fsck", case.queue, code=1)
    assert f"only the first 1,000 {case.state} entries of about 5,004" in row["not_checked"]
    assert f"1,000 {case.state} entries are only ids" in row["faults"][0]
