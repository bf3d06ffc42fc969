"""Resque's layout, from recorded keys, and our worker on it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Page, Settlement, State
from redisq_ops.core.model.errors import BadInput, Refused, WrongKind
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq
from ...foreign_keys import put
from ...queue_steps import end, take

Ours = ResqueQueue[redis.Redis]
T = 1_718_000_000_000
BOOM = Failure("Boom", 'it "broke"', "a.py\nb.py").encoded()
DEAD = "box:78:mail:out,low"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T)


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Ours:
    return ResqueQueue(client, "resque:low", clock=clock)


@pytest.fixture
def whole(client: redis.Redis, clock: FakeClock) -> Ours:
    return ResqueQueue(client, "resque", clock=clock)


def ids(page: Page) -> list[str]:
    return [entry.id for entry in page.entries]


def moved(queue: Ours, ids: list[str], source: State, target: str, op: str = "op") -> list[str]:
    return queue.move(op, 1, ids, source=source, target=target, high_water_ms=queue.now())


def failed(client: redis.Redis) -> list[dict[str, Any]]:
    return [json.loads(element) for element in client.lrange("resque:failed", 0, -1)]


def test_a_recorded_deployment_is_read(queue: Ours, whole: Ours, client: redis.Redis) -> None:
    assert not whole.exists() and not queue.exists()
    put(client, "resque")
    counts = whole.counts()
    assert (counts.waiting, counts.pending, counts.delayed, counts.dead) == (4, 1, 0, 2)
    assert (counts.done, counts.unknown) == (10, frozenset())
    mine = queue.counts()
    assert (mine.waiting, mine.pending, mine.dead) == (3, 1, 1)
    assert whole.names() == ["low", "mail:out"]

    rows = queue.page("waiting").entries
    assert [r.payload for r in rows] == client.lrange("resque:queue:low", 0, -1)
    assert rows[0].id == rows[1].id != rows[2].id, "equal records are told apart by number"
    (dead,) = queue.page("dead").entries
    assert (dead.called, dead.reason, dead.payload) == (
        "failed",
        "failed",
        b'{"class":"Archive","args":[40]}',
    )
    assert dead.error == Failure("ArgumentError", "no such branch", "app.rb:3:in `perform'")
    assert (dead.since_ms, dead.consumer) == (T, "box:77:low")
    assert [e.reason for e in whole.page("dead").entries] == ["failed", "lost"]
    assert queue.get(dead.id) == dead
    (busy,) = queue.page("pending").entries
    assert (busy.called, busy.payload) == ("busy", b'{"class":"Archive","args":[ 41 ]}')
    assert busy.consumer == DEAD
    assert ids(ResqueQueue(client, "resque:mail:out").page("waiting")) != []


def test_a_job_goes_its_way(queue: Ours, client: redis.Redis) -> None:
    first, second = queue.push([Job("A", [1]), Job("B", [2.0])])
    assert client.lrange("resque:queue:low", 0, -1) == [
        b'{"class":"A","args":[1]}',
        b'{"class":"B","args":[2.0]}',
    ]
    assert client.smembers("resque:queues") == {b"low"}
    a, b = take(queue)
    assert [a.id, b.id] == [first, second]
    assert queue.counts().pending == 2
    assert end(queue, a) == "done" and end(queue, a) == "stale"
    assert end(queue, b, "release") == "released"
    (b,) = take(queue)
    assert end(queue, b, "fail", BOOM) == "dead"
    (said,) = failed(client)
    assert said == {
        "payload": {"class": "B", "args": [2.0]},
        "exception": "Boom",
        "error": 'it "broke"',
        "backtrace": ["a.py", "b.py"],
        "worker": "w",
        "queue": "low",
        "failed_at": "2024/06/10 06:13:20 UTC",
    }
    assert client.get("resque:stat:processed") == b"2"
    assert client.get("resque:stat:failed") == b"1"
    assert queue.invariants() == []


def test_what_kills_its_workers_is_a_failure_in_the_end(
    queue: Ours, client: redis.Redis, clock: FakeClock
) -> None:
    client.rpush("resque:queue:low", b'{"class":"A","args":["%"]}', b"\xffgarbage")
    client.sadd("resque:queues", "low")
    for _ in range(3):
        assert len(take(queue)) == 2
        clock.advance(30.001)
    assert take(queue) == []
    assert {said["exception"] for said in failed(client)} == {"Redisq::LostLease"}
    rows = queue.page("dead").entries
    assert {e.payload for e in rows} == {b'{"class":"A","args":["%"]}', b"\xffgarbage"}
    assert {(e.reason, e.failures, e.lost) for e in rows} == {("lost", 0, 3)}
    assert moved(queue, [e.id for e in rows], "dead", "waiting") == ["moved"] * 2


def test_one_failure_is_moved_and_no_other(queue: Ours, client: redis.Redis) -> None:
    """Equal jobs that failed at different times are different failures."""
    put(client, "resque")
    for n in range(5):
        client.rpush(
            "resque:failed",
            json.dumps(
                {
                    "failed_at": f"2024/06/10 07:00:0{n} UTC",
                    "payload": {"class": "A", "args": []},
                    "exception": "E",
                    "error": "same",
                    "queue": "low",
                }
            ),
        )
    before = client.lrange("resque:failed", 0, -1)
    rows = ids(queue.page("dead"))
    assert len(set(rows)) == 6 and len({id.split(".")[0] for id in rows}) == 2
    assert moved(queue, [rows[3]], "dead", "trash") == ["moved"]
    assert client.lrange("resque:failed", 0, -1) == before[:4] + before[5:]
    assert moved(queue, [rows[3]], "dead", "trash") == ["moved"], "the same step: its answer"
    assert moved(queue, [rows[3]], "dead", "trash", "b") == ["changed"]
    assert queue.undo("op", 1, target="trash", by="u", seq=1) == (1, 0)
    assert sorted(client.lrange("resque:failed", 0, -1)) == sorted(before)
    assert moved(queue, [rows[3]], "dead", "gone", "c") == ["moved"]


def test_failures_in_lists_of_each_queue(queue: Ours, client: redis.Redis) -> None:
    """Resque's other backend; `failed_queues` says that it is in use."""
    client.sadd("resque:failed_queues", "low_failed")
    queue.push([Job("A")])
    assert end(queue, take(queue)[0], "fail", BOOM) == "dead"
    assert (client.llen("resque:low_failed"), client.llen("resque:failed")) == (1, 0)
    assert queue.counts().dead == 1
    assert moved(queue, ids(queue.page("dead")), "dead", "waiting") == ["moved"]
    assert client.llen("resque:low_failed") == 0


def test_once_in_use_that_backend_has_the_failures_of_every_queue(
    queue: Ours, client: redis.Redis, clock: FakeClock
) -> None:
    """Resque enters a queue into `failed_queues` at its first failure, whichever queue that is."""
    queue.push([Job("A"), Job("B"), Job("C")])
    assert end(queue, take(queue, 1)[0], "fail", BOOM) == "dead"
    assert client.llen("resque:failed") == 1, "the usual backend"
    client.sadd("resque:failed_queues", "other_failed")
    assert end(queue, take(queue, 1)[0], "fail", BOOM) == "dead"
    queue.configure("c", 1, {"max_lost": "1"})
    take(queue, 1)
    clock.advance(60)
    queue.sweep()
    assert (client.llen("resque:low_failed"), client.llen("resque:failed")) == (2, 1)
    assert client.smembers("resque:failed_queues") == {b"other_failed", b"low_failed"}
    assert queue.counts().dead == 3


def test_a_pruned_worker_s_job_is_among_its_queue_s_failures(client: redis.Redis) -> None:
    put(client, "resque")
    client.sadd("resque:failed_queues", "other_failed")
    client.hset("resque:workers:heartbeat", DEAD, "2024-06-10T06:15:10Z")
    client.set("resque:low_failed", "somebody else's")
    whole = ResqueQueue(client, "resque")
    for _ in range(2):
        with pytest.raises(WrongKind, match="resque:low_failed"):
            whole.prune_process(DEAD)
    assert client.sismember("resque:workers", DEAD) and client.exists(f"resque:worker:{DEAD}")
    client.delete("resque:low_failed")
    pruned = whole.prune_process(DEAD)
    assert (pruned.word, pruned.waiting, pruned.dead) == ("pruned", 0, 1)
    assert (client.llen("resque:low_failed"), client.llen("resque:failed")) == (1, 2)
    assert client.sismember("resque:failed_queues", "low_failed")


def test_a_pruned_worker_s_job_runs_again_if_that_is_asked_for(client: redis.Redis) -> None:
    put(client, "resque")
    client.hset("resque:workers:heartbeat", DEAD, "2024-06-10T06:15:10Z")
    whole = ResqueQueue(client, "resque")
    kept = client.lrange("resque:queue:low", 0, -1)
    client.rename("resque:queue:low", "elsewhere")
    client.set("resque:queue:low", "somebody else's")
    with pytest.raises(WrongKind, match="resque:queue:low"):
        whole.prune_process(DEAD, rescue=True)
    client.rename("elsewhere", "resque:queue:low")
    pruned = whole.prune_process(DEAD, rescue=True)
    assert (pruned.word, pruned.waiting, pruned.dead) == ("pruned", 1, 0)
    front, *rest = client.lrange("resque:queue:low", 0, -1)
    assert (front, rest) == (b'{"class":"Archive","args":[ 41 ]}', kept), "its own bytes"
    assert client.llen("resque:failed") == 2
    assert whole.prune_process(DEAD, rescue=True).word == "unknown"


def test_a_refusal_while_it_is_entered_is_not_half_of_it(
    queue: Ours, client: redis.Redis, url: str
) -> None:
    """Whatever fails at the first call, the second knows where failures go."""
    client.sadd("resque:failed_queues", "low_failed")
    queue.push([Job("A")])
    (delivery,) = take(queue)
    run: Any = client.execute_command
    run("ACL", "SETUSER", "narrow", "reset", "on", "nopass", "~*", "&*", "+@all", "-sismember")
    try:
        with redis.Redis.from_url(url, protocol=3, username="narrow", password="x") as other:
            again = ResqueQueue(other, "resque:low", clock=queue.clock)
            with suppress(Refused):
                end(again, delivery, "fail", BOOM)
            run("ACL", "SETUSER", "narrow", "+sismember")
            end(again, delivery, "fail", BOOM)
    finally:
        run("ACL", "DELUSER", "narrow")
    assert (client.llen("resque:low_failed"), client.llen("resque:failed")) == (1, 0)


def test_a_silent_worker_is_pruned_as_resque_does(whole: Ours, client: redis.Redis) -> None:
    live = ResqueQueue(client, "resque")
    put(client, "resque")
    client.hset(
        "resque:workers:heartbeat",
        mapping={
            "box:77:low": "2124-06-10T06:15:10Z",
            DEAD: "2024-06-10T06:15:10+00:00",
        },
    )
    client.set(f"resque:stat:processed:{DEAD}", 7)
    there = {process.name: process for process in live.worker_processes()}
    assert {name: p.alive for name, p in there.items()} == {
        "box:77:low": True,
        DEAD: False,
        "old:5:*": True,
    }
    assert (there[DEAD].pid, there[DEAD].queues) == (78, ("mail:out", "low"))
    assert live.prune_process("old:5:*").word == "alive", "it never beat: it may be of another kind"
    assert live.prune_process("box:77:low").word == "alive"
    assert live.prune_process("nobody").word == "unknown"
    assert live.prune_process(DEAD).word == "pruned"
    last = client.lindex("resque:failed", -1) or b""
    assert b'"payload":{"class":"Archive","args":[ 41 ]}' in last, "its own bytes"
    said = json.loads(last)
    assert said["exception"] == "Resque::PruneDeadWorkerDirtyExit"
    assert said["error"] == f"Worker {DEAD} did not gracefully exit while processing Archive"
    assert (said["queue"], said["worker"]) == ("low", DEAD)
    assert not client.exists(f"resque:worker:{DEAD}", f"resque:stat:processed:{DEAD}")
    assert client.smembers("resque:workers") == {b"box:77:low", b"old:5:*"}
    assert live.prune_process(DEAD).word == "unknown"
    (again,) = [
        e for e in ResqueQueue(client, "resque:low").page("dead").entries if e.reason == "lost"
    ]
    assert again.payload == b'{"class":"Archive","args":[ 41 ]}'
    assert (again.failures, again.lost) == (0, 1)


def test_a_worker_that_came_back_is_not_pruned(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = ResqueQueue(client, "resque")
    put(client, "resque")
    client.hset("resque:workers:heartbeat", DEAD, "2024-06-10T06:15:10Z")
    guarded = ResqueQueue._call_idempotent

    async def after_a_beat(self: Any, *args: Any, **given: Any) -> Any:
        client.hset("resque:workers:heartbeat", DEAD, "2024-06-10T06:15:20Z")
        return await guarded(self, *args, **given)

    monkeypatch.setattr(ResqueQueue, "_call_idempotent", after_a_beat)
    assert live.prune_process(DEAD).word == "changed"
    assert client.sismember("resque:workers", DEAD) and client.llen("resque:failed") == 2


def test_pauses_of_both_kinds(queue: Ours, client: redis.Redis) -> None:
    queue.push([Job("A")])
    client.set("resque:pause-all-workers", "true")
    assert take(queue) == [] and queue.counts().paused == "paused in Resque"
    client.delete("resque:pause-all-workers")
    queue.configure("c", 1, {"paused": "lunch"})
    assert take(queue) == [] and queue.counts().paused == "lunch"


def test_the_number_of_delayed_jobs_is_unknown_beside_resque_scheduler(
    whole: Ours, client: redis.Redis, redisq: Redisq
) -> None:
    put(client, "resque")
    job = '{"class":"Later","args":[],"queue":"low"}'
    client.rpush("resque:delayed:1900000000", job)
    client.zadd("resque:delayed_queue_schedule", {"1900000000": 1900000000})
    counts = whole.counts()
    assert counts.of("delayed") is None and counts.unknown == {"delayed"}
    redisq("discover", "--register", "--yes")
    assert {row["delayed"] for row in redisq.rows("ls")} == {None}
    redisq("delay", "ls", "resque:low")
    assert "keeps no list of its delayed entries. Those of resque-scheduler" in redisq.err


def test_what_it_can_t_do_is_refused(queue: Ours, whole: Ours) -> None:
    with pytest.raises(BadInput, match="no jid"):
        queue.push([Job("A", [], "jid")])
    with pytest.raises(Refused, match="name a queue of it"):
        whole.push([Job("A")])
    assert "delayed" not in queue.actions["purge"] and "reschedule" not in queue.actions
    assert queue.page("delayed").entries == ()


@pytest.mark.parametrize("kind", [ResqueQueue, SidekiqQueue])
def test_on_a_full_server_everything_goes_but_new_jobs(
    client: redis.Redis, kind: type[ResqueQueue[Any] | SidekiqQueue[Any]]
) -> None:
    queue: Any = kind(client, f"{kind.kind}:low")
    queue.push([Job("A", [n]) for n in range(6)])
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(Refused, match="full"):
            queue.push([Job("A", ["more"])])
        a, b, c, *_ = take(queue, 4)
        assert queue.extend([a]) == [True]
        said = queue.settle(
            [Settlement(a, "ack"), Settlement(b, "reject", BOOM), Settlement(c, "release")]
        )
        assert said == ["done", "dead", "released"]
        assert moved(queue, ids(queue.page("dead")), "dead", "trash") == ["moved"]
        assert queue.undo("op", 1, target="trash", by="u", seq=1) == (1, 0)
        assert moved(queue, ids(queue.page("waiting"))[:1], "waiting", "gone", "g") == ["moved"]
        assert queue.sweep() == 0
        queue.configure("c", 1, {"paused": "full"})
        assert queue.prune_process("nobody").word == "unknown"
    finally:
        client.config_set("maxmemory", 0)
    assert queue.counts().waiting == 2


def fail_into(queue: Ours, client: redis.Redis, *names: str) -> None:
    """Failures whose records name these queues."""
    for n, name in enumerate(names):
        record = {"payload": {"class": "Job", "args": [n]}, "queue": name, "failed_at": "x"}
        client.rpush("resque:failed", json.dumps(record))


def test_a_job_for_a_key_of_another_type_stays_and_so_do_its_neighbours(
    whole: Ours, client: redis.Redis
) -> None:
    client.set("resque:queue:bad", "x")
    fail_into(whole, client, "ok", "bad", "ok")
    found = ids(whole.page("dead"))
    assert sorted(moved(whole, found, "dead", "waiting")) == ["invalid", "moved", "moved"]
    assert [record["queue"] for record in failed(client)] == ["bad"]
    assert client.llen("resque:queue:ok") == 2


def test_equal_jobs_purged_restored_and_purged_again_are_all_kept(
    queue: Ours, client: redis.Redis
) -> None:
    queue.push([Job("Ping"), Job("Ping")])
    (id, _) = ids(queue.page("waiting"))
    assert moved(queue, [id], "waiting", "trash", "op1") == ["moved"]
    assert moved(queue, ids(queue.page("trash")), "trash", "restore", "op2") == ["moved"]
    assert moved(queue, [id], "waiting", "trash", "op3") == ["moved"]
    assert queue.undo("op2", 1, target="restore", by="me", seq=1) == (1, 0)
    assert queue.counts().waiting + queue.counts().trash == 2


def test_equal_jobs_lost_together_are_one_loss(queue: Ours, clock: FakeClock) -> None:
    queue.push([Job("Ping")] * 3)
    assert len(take(queue, 3)) == 3
    clock.now_ms += 10 * 60_000
    assert len(take(queue, 3)) == 3
    assert queue.counts().dead == 0


@pytest.mark.parametrize("by_undo", [False, True])
def test_what_can_not_go_back_stays_in_the_trash(
    queue: Ours, client: redis.Redis, by_undo: bool
) -> None:
    queue.push([Job("Ping")])
    assert moved(queue, ids(queue.page("waiting")), "waiting", "trash", "op1") == ["moved"]
    client.set("resque:queue:low", "somebody else's")
    if by_undo:
        assert queue.undo("op1", 1, target="trash", by="me", seq=1) == (0, 1)
    else:
        assert moved(queue, ids(queue.page("trash")), "trash", "restore", "op2") == ["invalid"]
    assert client.zcard(queue.keys["trash"]) == 1


def test_a_deployment_beside_a_queue_of_it_is_without_that(
    queue: Ours, whole: Ours, client: redis.Redis
) -> None:
    put(client, "resque")
    run(client, queue._ensure_registered())
    run(client, whole._ensure_registered())
    rest, low = run(client, Deployment(client).disjoint_queues())
    assert (rest.name, low.name) == ("resque", "resque:low")
    expected: dict[State, int] = {"waiting": 4, "pending": 1, "dead": 2}
    for state, n in expected.items():
        pages = [ids(each.page(state)) for each in (rest, low, whole)]
        assert sorted(pages[0] + pages[1]) == sorted(pages[2]) and len(pages[2]) == n
    counts = rest.counts()
    assert (counts.waiting, counts.pending, counts.dead) == (1, 0, 1)
