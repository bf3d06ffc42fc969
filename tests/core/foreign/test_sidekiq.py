"""Sidekiq's layout: beside a real one (Debian's 6.4), from recorded keys (7, 8), and our worker.

`docs/how-to/work-with-sidekiq-and-resque.md` says which release is tried how.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
import redis.asyncio

from redisq_ops.core.foreign import undo_search
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.ruby_jobs import job as records
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Page, Settlement, State
from redisq_ops.core.model.errors import (
    BadInput,
    QueueClosed,
    QueueFull,
    Refused,
    TooLarge,
    WrongKind,
)
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.model.quoting import legal
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.core.worker.retry import Reject, Retry
from redisq_ops.ops.change import edit
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq
from ...conftest import Clusters
from ...foreign_keys import Sidekiq, put, sidekiq
from ...queue_steps import end, pages, take

__all__ = ["sidekiq"]  # the fixture

Ours = SidekiqQueue[redis.Redis]
T = 1_700_000_000_000
BOOM = Failure("Boom", "it broke", "a.py\nb.py").encoded()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T)


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> Ours:
    return SidekiqQueue(client, "sidekiq:default", clock=clock)


@pytest.fixture
def whole(client: redis.Redis, clock: FakeClock) -> Ours:
    return SidekiqQueue(client, "sidekiq", clock=clock)


def ids(page: Page) -> list[str]:
    return [entry.id for entry in page.entries]


def scored(client: redis.Redis, key: str) -> list[tuple[bytes, float]]:
    found: Any = client.zrange(key, 0, -1, withscores=True)
    return list(found)


def members(client: redis.Redis, key: str) -> list[bytes]:
    return [member for member, _ in scored(client, key)]


def record(jid: str, **more: Any) -> bytes:
    said = {"class": "HardJob", "args": [], "jid": jid, "queue": "default", "retry": True, **more}
    return json.dumps(said).encode()


def moved(
    queue: Ours, ids: list[str], source: State, target: str, op: str = "op", **more: Any
) -> Any:
    given = {"high_water_ms": queue.now(), **more}
    return queue.move(op, 1, ids, source=source, target=target, **given)


NO_JOBS = [b"no json \x00\xff}\n", b"[1]", b"7", b'{"a":1', b""]


def buried(queue: Ours, clock: FakeClock, how: str) -> None:
    """What waits is dead: rejected, failed, or lost with three workers."""
    for delivery in take(queue):
        if how != "lost":
            end(queue, delivery, how, BOOM)
    for _ in range(3 if how == "lost" else 0):
        clock.advance(30.001)
        take(queue)


@pytest.mark.parametrize("how", ["reject", "fail", "lost"])
def test_what_is_no_job_is_buried_in_its_queue_and_replayed_as_it_was(
    queue: Ours, whole: Ours, client: redis.Redis, clock: FakeClock, how: str
) -> None:
    other = SidekiqQueue(client, "sidekiq:low", clock=clock)
    client.rpush("queue:default", *NO_JOBS)
    client.sadd("queues", "default")
    waiting = ids(queue.page("waiting"))
    buried(queue, clock, how)
    assert (queue.counts().waiting, queue.counts().pending, queue.counts().dead) == (0, 0, 5)
    assert whole.counts().dead == 5 and other.counts().dead == 0
    dead = queue.page("dead").entries
    assert sorted(e.payload or b"" for e in dead) == sorted(NO_JOBS)
    assert {e.id for e in dead} == set(waiting), "called as before"
    kind = "Redisq::LostLease" if how == "lost" else "Boom"
    assert {(e.error and e.error.type, e.lost) for e in dead} == {(kind, 3 * (how == "lost"))}
    for element in members(client, "dead"):
        told = json.loads(element)
        assert (told["class"], told["args"], told["retry"]) == ("Redisq::Unreadable", [], 0)
        assert told["jid"] in waiting and told["queue"] == "default" and told["failed_at"] >= 1.7e9
    before = scored(client, "dead")
    assert moved(whole, waiting, "dead", "waiting") == ["moved"] * 5
    assert sorted(client.lrange("queue:default", 0, -1)) == sorted(NO_JOBS)
    assert client.zcard("dead") == 0 and ids(other.page("waiting")) == []
    assert whole.undo("op", 1, target="dead", by="u", seq=1) == (5, 0)
    assert scored(client, "dead") == before and client.llen("queue:default") == 0
    assert moved(queue, waiting[:1], "dead", "trash", "p") == ["moved"]
    assert moved(queue, waiting[:1], "trash", "restore", "r") == ["moved"]
    assert scored(client, "dead") == before and queue.invariants() == []


def test_what_a_stock_sidekiq_buried_itself_names_no_queue(
    queue: Ours, whole: Ours, client: redis.Redis
) -> None:
    """And a record that is somebody's own stays what it says."""
    own = record("a", raw_hex="00ff")
    client.zadd("dead", {b"notjson": 1.0, own: 2.0, record("b", raw_hex="no hex"): 3.0})
    assert [e.id for e in whole.page("dead").entries][1:] == ids(queue.page("dead")) == ["a", "b"]
    assert queue.page("dead").entries[0].payload == own
    assert moved(queue, ["a"], "dead", "waiting") == ["moved"]
    (waits,) = client.lrange("queue:default", 0, -1)
    assert json.loads(waits) == json.loads(own) | {"enqueued_at": 1.7e9}


# --- beside the real one --------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_real_client_pushes_is_seen_and_taken_here(
    client: redis.Redis, sidekiq: Sidekiq
) -> None:
    sidekiq.client()
    queue, low = SidekiqQueue(client, "sidekiq:default"), SidekiqQueue(client, "sidekiq:low")
    raw = client.lrange("queue:default", 0, -1)[::-1]
    assert [e.payload for e in queue.page("waiting").entries] == raw
    assert (queue.counts().waiting, queue.counts().delayed, low.counts().waiting) == (3, 1, 1)
    (later,) = queue.page("delayed").entries
    assert later.called == "scheduled"
    assert later.at_ms and abs(later.at_ms - queue.now() - 3_600_000) < 60_000
    assert queue.get(later.id) == later

    first, hello, glass = take(queue)
    assert [d.payload for d in (first, hello, glass)] == raw
    assert json.loads(hello.payload)["args"] == ["grüß 😀 </script>"]
    assert json.loads(take(low)[0].payload)["args"] == [12345678901234567890]
    assert end(queue, first) == "done"
    assert end(queue, hello, "release") == "released"
    assert client.lrange("queue:default", 0, -1) == [raw[1]]
    assert end(queue, glass, "fail", BOOM) == "retry"
    (kept,) = members(client, "retry")
    before, after = json.loads(raw[2]), json.loads(kept)
    assert {name: after[name] for name in before} == before, "nothing of it is changed"
    assert (after["retry_count"], after["error_class"]) == (0, "Boom")
    assert SidekiqQueue(client, "sidekiq").counts().delayed == 2


def told_by(queue: SidekiqQueue[redis.Redis]) -> list[str]:
    return [work.id for process in queue.worker_processes() for work in process.work]


@pytest.mark.slow
def test_a_real_worker_goes_on_with_what_was_done_here(
    client: redis.Redis, sidekiq: Sidekiq
) -> None:
    queue, low = SidekiqQueue(client, "sidekiq:default"), SidekiqQueue(client, "sidekiq:low")
    queue.push([Job("Note", ["pushed"]), Job("Note", ["failed-here"]), Job("Note", ["lost-here"])])
    low.push([Job("Hopeless", ["dead-here"], None, {"retry": 0}), Job("Slow", ["slow"])])
    queue.push([Job("Note", ["planned"], "later")], after=3600)
    kept, failing, losing = take(queue)
    end(queue, failing, "fail", BOOM)
    (dead,) = take(low, 1)
    end(low, dead, "reject", Failure("Reject", "not here").encoded())
    queue.configure("t", 1, {"max_lost": "1"})
    client.zadd(queue.keys["lease"], {losing.receipt: 1})
    queue.sweep()
    assert {e.reason for e in SidekiqQueue(client, "sidekiq").page("dead").entries} == {
        "rejected",
        "lost",
    }
    end(queue, kept, "release")

    with sidekiq.working("default", "low") as process:
        sidekiq.until("our pushes run", lambda: "ran pushed" in sidekiq.log)
        assert moved(queue, [failing.id, "later"], "delayed", "waiting", "r") == ["moved"] * 2
        sidekiq.until(
            "retry and schedule run", lambda: {"ran failed-here", "ran planned"} <= set(sidekiq.log)
        )
        assert moved(queue, [losing.id], "dead", "waiting", "p1") == ["moved"]
        sidekiq.until("a lost one runs", lambda: "ran lost-here" in sidekiq.log)
        assert moved(low, [dead.id], "dead", "waiting", "p2") == ["moved"]
        queue.push([Job("Fragile", ["glass"], "f", {"retry": 3, "backtrace": True})])
        sidekiq.until(
            "both failed there", lambda: client.zcard("retry") == 1 and client.zcard("dead") == 1
        )
        (retry,) = queue.page("delayed").entries
        assert (retry.id, retry.called, retry.failures) == ("f", "retry", 1)
        assert retry.error and retry.error.type == "ArgumentError"
        assert "app.rb" in retry.error.traceback
        (again,) = low.page("dead").entries
        assert (again.id, again.called, again.reason) == (dead.id, "dead", "failed")

        sidekiq.until("it says what it does", lambda: low.counts().pending == 1)
        (busy,) = low.page("pending").entries
        assert busy.called == "busy" and json.loads(busy.payload or b"")["args"] == ["slow"]
        assert moved(low, [busy.id], "pending", "waiting", "b") == ["busy"]
        # It tells of its work at each beat: what has ended since is still told of.
        sidekiq.until("and only that", lambda: told_by(low) == [busy.id])
        (there,) = low.worker_processes()
        assert there.alive and set(there.queues) == {"default", "low"} and there.pid == process.pid
        assert there.since_ms and 0 <= low.now() - there.since_ms < 120_000
        assert low.prune_process(there.name).word == "alive"

        process.kill()
        process.wait()
        assert low.prune_process(there.name, silent=0, rescue=True).word == "pruned"
        assert low.worker_processes() == [] and low.counts().pending == 0
        assert ids(low.page("waiting")) == [busy.id], "as it was taken, and again"
        assert low.prune_process(there.name).word == "unknown"


@pytest.mark.slow
def test_a_real_sidekiq_has_what_was_no_job_dead_again_and_whole(
    client: redis.Redis, sidekiq: Sidekiq
) -> None:
    queue = SidekiqQueue(client, "sidekiq:default")
    client.lpush("queue:default", NO_JOBS[0])
    (delivery,) = take(queue)
    assert end(queue, delivery, "reject", BOOM) == "dead"
    sidekiq.ruby("Sidekiq::DeadSet.new.each(&:retry)")  # as the button on its page does
    assert (client.zcard("dead"), client.llen("queue:default")) == (0, 1)
    with sidekiq.working():
        sidekiq.until("it is dead", lambda: client.zcard("dead") == 1)
    (dead,) = queue.page("dead").entries
    assert (dead.id, dead.payload) == (delivery.id, NO_JOBS[0])
    assert dead.error and dead.error.type == "NameError" and client.zcard("retry") == 0
    assert moved(queue, [dead.id], "dead", "waiting") == ["moved"]
    assert client.lrange("queue:default", 0, -1) == NO_JOBS[:1]


@pytest.mark.slow
def test_a_real_worker_promotes_and_settles_as_ever_beside_ours(
    client: redis.Redis, sidekiq: Sidekiq
) -> None:
    queue = SidekiqQueue(client, "sidekiq:default")
    words: list[str] = []
    mine: list[str] = []

    def handle(work: Work) -> None:
        time.sleep(0.01)
        mine.extend(json.loads(work.payload)["args"])

    def all_ran() -> bool:
        return len(sidekiq.log) + len(mine) > len(words)

    with sidekiq.working():
        queue.push([Job("Note", ["up"])])
        sidekiq.until("it is up", lambda: sidekiq.log == ["ran up"])
        while not mine or len(sidekiq.log) < 2:  # either may be the quicker one, for a while
            more = [f"n{len(words) + n}" for n in range(60)]
            queue.push([Job("Note", [word]) for word in more])
            words += more
            Worker(queue, handle, batch=2, burst=True).run()
            sidekiq.until("all ran", all_ran)
    theirs = [line.split()[1] for line in sidekiq.log]
    assert sorted(mine + theirs) == sorted([*words, "up"])
    assert int(client.get("stat:processed") or 0) == len(words) + 1, "one counter for both"


# --- recorded layouts -----------------------------------------------------------------------------


@pytest.mark.parametrize("release", [7, 8])
def test_recorded_releases_are_read(client: redis.Redis, release: int) -> None:
    put(client, f"sidekiq-{release}")
    whole, queue = SidekiqQueue(client, "sidekiq"), SidekiqQueue(client, "sidekiq:default")
    counts = whole.counts()
    assert (counts.waiting, counts.pending, counts.delayed, counts.dead) == (3, 1, 2, 1)
    assert (counts.done, counts.unknown) == (100, frozenset())
    assert counts.oldest_ms == 1_718_000_002_251
    mine = queue.counts()
    assert (mine.waiting, mine.pending, mine.delayed, mine.dead) == (2, 1, 1, 1)
    assert mine.unknown == {"done"}

    def named(n: int) -> str:
        return f"{release}c3e1b0c5c1f4a2f9d8e{n:04}"

    assert ids(queue.page("waiting")) == [named(2), named(3)], "the next one first"
    retry = queue.get(named(1))
    assert retry and (retry.state, retry.called, retry.failures) == ("delayed", "retry", 2)
    assert (retry.at_ms, retry.since_ms) == (1_718_000_083_500, 1_718_000_051_125)
    assert retry.error == Failure("RuntimeError", "boom")
    dead = queue.get(named(5))
    assert dead and (dead.at_ms, dead.reason) == (1_718_000_005_502, "failed")
    assert dead.error and dead.error.traceback == "app.rb:1:in `perform'"
    assert ids(whole.page("delayed")) == [named(1), named(9)]
    (busy,) = whole.page("pending").entries
    assert (busy.id, busy.called) == (named(6), "busy")
    assert busy.since_ms == 1_718_000_089_000
    (process,) = whole.worker_processes()
    assert process.host == f"web-{release}" if release == 8 else "web-7"
    assert len(process.work) == 1


@pytest.mark.parametrize(("release", "kind"), [(7, float), (8, int)])
def test_a_failure_is_written_in_the_record_s_own_kind_of_time(
    client: redis.Redis, release: int, kind: type
) -> None:
    put(client, f"sidekiq-{release}")
    queue = SidekiqQueue(client, "sidekiq:default")
    client.delete("retry", "schedule")  # all due long ago
    for delivery in take(queue):
        assert end(queue, delivery, "fail", BOOM) == "retry"
    assert client.zcard("retry") == 2
    for kept in members(client, "retry"):
        failed_at = json.loads(kept)["failed_at"]
        assert isinstance(failed_at, kind)
        assert abs((records.ms(failed_at) or 0) - queue.now()) < 60_000
    due = [score for _, score in scored(client, "retry")]
    assert all(abs(score * 1000 - queue.now()) < 60_000 for score in due), "scores are seconds"


# --- our worker -----------------------------------------------------------------------------------


def test_a_job_goes_its_way(queue: Ours, client: redis.Redis) -> None:
    assert queue.push([Job("A", [1], "a"), Job("B", [2], "b")]) == ["a", "b"]
    assert client.smembers("queues") == {b"default"}
    a, b = take(queue)
    assert [a.id, b.id] == ["a", "b"], "first in, first out"
    assert queue.counts().pending == 2 and queue.counts().waiting == 0
    entry = queue.get("a")
    assert entry and (entry.state, entry.consumer, entry.receipt) == ("pending", "w", a.receipt)
    assert entry.at_ms == a.deadline_ms == T + 30_000
    assert queue.extend([a, b], 60) == [True, True]
    assert end(queue, a, "result", b"kept nowhere") == "done"
    assert end(queue, a) == "stale"
    assert end(queue, b, "release") == "released"
    assert ids(queue.page("waiting")) == ["b"]
    assert client.get("stat:processed") == b"1" and client.get("stat:failed") is None
    assert client.get("stat:processed:2023-11-14") == b"1"
    assert queue.invariants() == []


def test_the_payload_is_what_was_pushed(queue: Ours, client: redis.Redis) -> None:
    odd = [
        b'{"jid":"j1","class":"A","args":[1.0,1e3,123456789012345678901,"\\u00e9/\\/"],'
        b' "queue" : "default" }',
        b'{"jid":"j2","class":"A","args":["\xff\xfe"],"queue":"default"}',
        b"no json at all \x00\xff",
        b'{"jid":{"not":"a name"},"args":[]}',
        b"",
    ]
    for payload in odd:
        client.lpush("queue:default", payload)
    shown = queue.page("waiting").entries
    assert [entry.payload for entry in shown] == odd
    assert [e.id for e in shown[:2]] == ["j1", "j2"] and len({e.id for e in shown}) == 5
    got = take(queue)
    assert [delivery.payload for delivery in got] == odd
    assert [delivery.id for delivery in got] == [entry.id for entry in shown]
    said = queue.settle([Settlement(d, "fail", BOOM) for d in got])
    assert said == ["retry", "retry", "dead", "retry", "dead"]
    kept = members(client, "retry")
    assert any(b'"args":[1.0,1e3,123456789012345678901,"\\u00e9/\\/"]' in m for m in kept)
    assert any(b'"args":["\xff\xfe"]' in m for m in kept)
    assert {e.payload for e in queue.page("dead").entries} == {b"no json at all \x00\xff", b""}


def test_retries_are_sidekiq_s(queue: Ours, client: redis.Redis, clock: FakeClock) -> None:
    queue.random = lambda: 0.5
    queue.push([Job("A", [1], "a", {"retry": 2, "backtrace": 1, "tags": ["x"]})])
    waits = []
    for count in range(2):
        (delivery,) = take(queue)
        assert delivery.failures == count
        assert end(queue, delivery, "fail", BOOM) == "retry"
        ((kept, score),) = scored(client, "retry")
        waits.append(round(score * 1000) - clock.now_ms)
        said = json.loads(kept)
        assert (said["retry_count"], said["error_message"]) == (count, "it broke")
        assert said["failed_at"] == T / 1000 and said["tags"] == ["x"]
        assert ("retried_at" in said) == (count > 0)
        assert records.unpacked_backtrace(said["error_backtrace"]) == "a.py"
        assert take(queue) == [], "not before its time"
        clock.now_ms += waits[-1]
        if not count:
            assert queue.sweep() == 1 and client.zcard("retry") == 0
            clock.now_ms = T
    assert waits == [(0 + 15 + 5) * 1000, (1 + 15 + 10) * 1000]
    (delivery,) = take(queue)
    assert end(queue, delivery, "fail", BOOM) == "dead"
    (dead,) = queue.page("dead").entries
    assert (dead.id, dead.reason, dead.failures) == ("a", "failed", 3)
    assert client.get("stat:failed") == b"3" and client.get("stat:processed") == b"3"


@pytest.mark.parametrize(
    ("options", "word", "dead"),
    [
        ({"retry": 0}, "dead", 1),
        ({"retry": False}, "dead", 1),
        ({"retry": False, "dead": False}, "dead", 0),
        ({"retry": 1}, "retry", 0),
        ({"retry": True, "retry_for": 3600}, "retry", 0),
        ({"retry": "yes"}, "retry", 0),
    ],
)
def test_what_a_record_says_of_its_failures_is_heeded(
    queue: Ours, client: redis.Redis, options: dict[str, Any], word: str, dead: int
) -> None:
    queue.push([Job("A", [], "a", options)])
    assert end(queue, take(queue)[0], "fail", BOOM) == word
    assert client.zcard("dead") == dead


def test_a_retry_goes_to_the_queue_its_record_names(queue: Ours, client: redis.Redis) -> None:
    queue.push([Job("A", [], "a", {"retry_queue": "slow"})])
    end(queue, take(queue)[0], "fail", BOOM)
    assert ids(queue.page("delayed")) == []
    assert ids(SidekiqQueue(client, "sidekiq:slow").page("delayed")) == ["a"]


def test_due_jobs_of_all_queues_are_promoted_as_they_are(
    queue: Ours, client: redis.Redis, clock: FakeClock
) -> None:
    late = record("late", queue="other")
    client.zadd("schedule", {record("due"): T / 1000, late: T / 1000 - 5, b"broken": 1, b"[]": 2})
    client.zadd("schedule", {record("soon"): T / 1000 + 0.001})
    assert [d.id for d in take(queue)] == ["due"]
    assert client.lrange("queue:other", 0, -1) == [late]
    assert client.sismember("queues", "other")
    assert set(members(client, "dead")) == {b"broken", b"[]"}, "not lost"
    clock.advance(0.001)
    assert [d.id for d in take(queue)] == ["soon"]


def test_what_kills_its_workers_is_dead_in_the_end(
    queue: Ours, client: redis.Redis, clock: FakeClock
) -> None:
    queue.push([Job("A", ["p"], "poison")])
    for n in range(3):
        assert [d.lost for d in take(queue)] == [n]
        clock.advance(30.001)
    assert take(queue) == []
    (dead,) = queue.page("dead").entries
    assert (dead.id, dead.reason, dead.failures, dead.lost) == ("poison", "lost", 0, 3)
    assert dead.error and "was w" in dead.error.message
    said = json.loads(members(client, "dead")[0])
    assert (said["class"], said["error_class"]) == ("A", "Redisq::LostLease")
    assert client.hlen(queue.keys["lost"]) == 0


def test_jobs_of_the_same_bytes_are_as_many_as_were_pushed(
    queue: Ours, client: redis.Redis, clock: FakeClock
) -> None:
    for _ in range(3):
        client.lpush("queue:default", record("twin", retry=0))
    assert ids(queue.page("waiting")) == ["twin"] * 3
    got = take(queue)
    assert len({d.receipt for d in got}) == 3
    assert queue.settle([Settlement(d, "fail", BOOM) for d in got]) == ["dead"] * 3
    assert client.zcard("dead") == 3, "a set would have made one of them"
    assert moved(queue, ["twin", "twin"], "dead", "waiting") == ["moved", "moved"]
    assert (client.zcard("dead"), client.llen("queue:default")) == (1, 2)
    assert moved(queue, ["twin"] * 3, "waiting", "trash", "p") == ["moved", "moved", "changed"]
    assert sorted(ids(queue.page("trash"))) == ["twin", "twin~2"]


def test_lost_again_when_fewer_losses_are_allowed(
    queue: Ours, client: redis.Redis, clock: FakeClock
) -> None:
    """What its record says is how often it was, not how often it may be."""
    queue.push([Job("A", [], "poison")])
    queue.configure("more", 1, {"max_lost": "5"})
    for _ in range(4):
        assert len(take(queue)) == 1
        clock.advance(30.001)
    queue.configure("less", 1, {"max_lost": "2"})
    assert take(queue) == []
    (dead,) = queue.page("dead").entries
    assert (dead.reason, dead.lost) == ("lost", 4)


@pytest.mark.parametrize("own", ["a b", "x*{y}|/%", "gr\u00fcn"])
def test_a_queue_of_any_name_is_worked_on(client: redis.Redis, own: str) -> None:
    client.sadd("queues", own)
    client.lpush(f"queue:{own}", record("theirs", queue=own))
    queue = SidekiqQueue(client, f"sidekiq:{legal(own.encode())}")
    assert queue.exists()
    queue.push([Job("A", [], "ours")])
    assert [end(queue, d) for d in take(queue)] == ["done", "done"]
    assert not client.exists(f"queue:{own}") and queue.counts().pending == 0


def test_the_worker_runs_it(
    queue: Ours, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    live = SidekiqQueue(client, "sidekiq:default")
    live.push([Job("A", [word], word) for word in ("ok", "no", "later", "never")])
    ran = []

    def handle(work: Work) -> None:
        (word,) = json.loads(work.payload)["args"]
        ran.append(word)
        if word == "no":
            raise ValueError("no")
        if word == "later":
            raise Retry(after=120)
        if word == "never":
            raise Reject("never")

    with caplog.at_level("INFO", "redisq_ops.worker"):
        Worker(live, handle, batch=2, burst=True).run()
    assert sorted(ran) == ["later", "never", "no", "ok"]
    # When Sidekiq's layout has it run again is drawn as it is settled: no number of ours is that.
    assert {line for line in caplog.messages if line.startswith("retry")} == {
        "retry: sidekiq:default/no: ValueError: no",
        "retry: sidekiq:default/later in 120.0 s: Retry",
    }
    assert {e.id: e.error and e.error.type for e in live.page("delayed").entries} == {
        "no": "ValueError",
        "later": "Retry",
    }
    later = live.get("later")
    assert later and later.at_ms and 100_000 < later.at_ms - live.now() <= 120_000
    assert [e.reason for e in live.page("dead").entries] == ["rejected"]


def test_a_pause_is_that_of_sidekiq_pro(client: redis.Redis, redisq: Redisq) -> None:
    """Its workers and ours heed the set `paused`; a drain is ours, and a resume ends both."""
    client.lpush("queue:default", record("a"))
    client.sadd("queues", "default")
    redisq("discover", "--register", "--yes")
    redisq("queue", "pause", "sidekiq:default", "--reason", "deploy", "--yes")
    assert "those of Sidekiq alone go on" in redisq.err
    assert "no worker gets one" not in redisq.err, "Sidekiq's own may"
    assert client.smembers("paused") == {b"default"}
    assert take(SidekiqQueue(client, "sidekiq:default")) == []
    (row,) = redisq.rows("explain", "sidekiq:default")
    assert "because 'deploy'" in row["sentence"]
    assert row["command"] == "redisq queue resume sidekiq:default"
    redisq("queue", "drain", "sidekiq:default", "--yes")
    redisq("queue", "resume", "sidekiq:default", "--yes")
    assert not client.exists("paused")
    counts = SidekiqQueue(client, "sidekiq:default").counts()
    assert (counts.paused, counts.closed) == (None, None)
    redisq("undo", "--yes")
    assert client.smembers("paused") == {b"default"}
    client.sadd("paused", "low")  # by its page
    redisq("queue", "resume", "sidekiq:default", "--yes")
    assert client.smembers("paused") == {b"low"}
    redisq("queue", "pause", "sidekiq", "--yes", code=1)
    assert "name a queue of it" in redisq.err
    redisq("queue", "drain", "sidekiq", "--yes")
    redisq("queue", "resume", "sidekiq", "--yes")
    assert SidekiqQueue(client, "sidekiq").counts().closed is None


def test_pause_drain_and_full(queue: Ours, client: redis.Redis) -> None:
    queue.push([Job("A")])
    queue.configure("c", 1, {"paused": "lunch", "max_waiting": "2"})
    assert take(queue) == [] and queue.counts().paused == "lunch"
    with pytest.raises(QueueFull):
        queue.push([Job("A"), Job("B")])
    queue.configure("c", 2, {"paused": "", "closed": "moving"})
    with pytest.raises(QueueClosed):
        queue.push([Job("A")])
    client.sadd("paused", "default")
    assert take(queue) == [] and queue.counts().paused == "paused in Sidekiq"
    client.srem("paused", "default")
    assert len(take(queue)) == 1


def test_bad_input_is_refused_before_anything_is_written(
    queue: Ours, whole: Ours, client: redis.Redis
) -> None:
    for job in (
        Job("A", [object()]),
        Job("A", [float("nan")]),
        Job("A", [], "a b"),
        Job("A", [], "j" * 129),
        Job("A", [], None, {"queue": "other"}),
    ):
        with pytest.raises(BadInput):
            queue.push([Job("Fine"), job])
    with pytest.raises(TooLarge):
        queue.push([Job("A", ["x" * 2_000_000])])
    with pytest.raises(Refused, match="name a queue of it"):
        whole.push([Job("A")])
    with pytest.raises(Refused, match="name a queue of it"):
        moved(whole, ["x"], "pending", "waiting")
    assert client.lrange("queue:default", 0, -1) == []
    queue.push([Job("A")])
    with pytest.raises(BadInput):
        take(queue, 0)
    client.set("retry", "in the way")
    with pytest.raises(WrongKind, match="key retry is a string"):
        SidekiqQueue(client, "sidekiq:default").push([Job("A")])
    assert any("retry" in line for line in queue.invariants())


def test_a_namespace_stands_before_everything(client: redis.Redis) -> None:
    queue = SidekiqQueue(client, "sidekiq:default", at="{app}:")
    queue.push([Job("A", [], "a")])
    assert end(queue, take(queue)[0], "fail", BOOM) == "retry"
    names = {key.decode() for key in client.scan_iter()} - {"redisq:registry"}
    assert names and all(name.startswith("{app}:") for name in names)
    found = client_run(client, Deployment(client).queue(queue.name))
    assert found.keys.base == queue.keys.base, "the registry knows where it is"
    other = SidekiqQueue(client, "sidekiq:default", at="other:")
    other.push([Job("A")])
    assert other.name != queue.name and queue.counts().waiting == 0


@pytest.mark.slow
def test_on_a_cluster_its_keys_need_a_hash_tag(clusters: Clusters) -> None:
    nodes = clusters("valkey")
    client = connect(nodes.urls[0].replace("redis://", "redis+cluster://"))
    with pytest.raises(Refused, match="hash tag"):
        SidekiqQueue(client, "sidekiq:default").push([Job("A")])
    queue = SidekiqQueue(client, "sidekiq:default", at="{app}:")
    queue.push([Job("A", [n], f"j{n}", {"retry": 0}) for n in range(9)])

    def handle(work: Work) -> None:
        if work.id == "j3":
            raise ValueError("no")

    Worker(queue, handle, batch=3, burst=True).run()
    (dead,) = queue.page("dead").entries
    assert queue.move(
        "op", 1, ["j3"], source="dead", target="waiting", high_water_ms=queue.now()
    ) == ["moved"]
    assert queue.undo("op", 1, target="waiting", by="u", seq=1) == (1, 0)
    assert queue.get("j3") == dead
    assert SidekiqQueue(client, "sidekiq", at="{app}:").counts().done == 8


def client_run(client: redis.Redis, description: Any) -> Any:
    from redisq_ops.core.redis.operation import run

    return run(client, description)


def test_the_example_of_the_page_runs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = "work-with-sidekiq-and-resque.md"
    page = (Path(__file__).parents[3] / "docs" / "how-to" / name).read_text()
    first, *_ = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(first.replace("redis://127.0.0.1:6379", url), name, "exec"), {})
    assert capsys.readouterr().out == "WelcomeMail ['ann@example.org']\n"


# --- operators ------------------------------------------------------------------------------------


def test_two_operators_at_once_move_each_entry_once(url: str, client: redis.Redis) -> None:
    client.zadd("dead", {record(f"j{n}"): 1.0 for n in range(200)})
    said: list[str] = []

    def work(name: str) -> None:
        with redis.Redis.from_url(url, protocol=3) as own:
            queue = SidekiqQueue(own, "sidekiq:default")
            for n in range(0, 200, 10):
                ids = [f"j{k}" for k in range(n, n + 10)]
                said.extend(
                    queue.move(
                        name, n + 1, ids, source="dead", target="waiting", high_water_ms=queue.now()
                    )
                )

    threads = [threading.Thread(target=work, args=(f"op{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said.count("moved") == 200 and client.zcard("dead") == 0
    waiting = [json.loads(p)["jid"] for p in client.lrange("queue:default", 0, -1)]
    assert sorted(waiting) == sorted(f"j{n}" for n in range(200))


def test_a_waiting_job_is_purged_wherever_it_has_got_to(
    queue: Ours, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.push([Job("A", [], f"j{n}") for n in range(400)])
    wanted = ["j150", "j151", "j390", "j10"]
    located = SidekiqQueue._located

    async def overtaken(self: Any, *args: Any, **options: Any) -> Any:
        """Between the look and the change others take and push."""
        found = await located(self, *args, **options)
        client.rpop("queue:default", 20)
        client.lpush("queue:default", *[record(f"new{n}") for n in range(130)])
        return found

    monkeypatch.setattr(SidekiqQueue, "_located", overtaken)
    assert moved(queue, wanted, "waiting", "trash") == ["moved", "moved", "moved", "changed"]
    monkeypatch.undo()
    left = [json.loads(p)["jid"] for p in client.lrange("queue:default", 0, -1)][::-1]
    expected = [f"j{n}" for n in range(20, 400) if f"j{n}" not in wanted]
    assert left == expected + [f"new{n}" for n in range(130)]
    assert queue.undo("op", 1, target="trash", by="u", seq=1) == (3, 0)
    assert client.llen("queue:default") == len(left) + 3


def test_the_deployment_s_entries_go_where_their_records_say(
    queue: Ours, whole: Ours, client: redis.Redis
) -> None:
    low = SidekiqQueue(client, "sidekiq:low", clock=queue.clock)
    queue.push([Job("A", [], "a"), Job("A", [], "b")])
    low.push([Job("A", [], "c"), Job("A", [], "d")])
    client.zadd("dead", {record("e", queue="low"): 1.0, record("f"): 2.0, b"broken": 3.0})
    assert ids(whole.page("waiting")) == ["a", "b", "c", "d"]
    assert ids(whole.page("waiting", start=1, max=2)) == ["b", "c"]
    page = whole.page("waiting", max=3)
    assert ids(page) + ids(whole.page("waiting", page.cursor)) == ["a", "b", "c", "d"]
    broken = ids(whole.page("dead"))[2]
    assert moved(whole, ["e", "f", broken], "dead", "waiting", "r") == ["moved", "moved", "invalid"]
    assert (ids(low.page("waiting")), ids(queue.page("waiting"))) == (
        ["c", "d", "e"],
        ["a", "b", "f"],
    )
    assert moved(whole, ["b", "c", broken], "waiting", "trash", "p") == ["moved"] * 2 + ["changed"]
    assert ids(queue.page("trash")) == [] and ids(whole.page("trash")) == ["b", "c"]
    assert moved(whole, ["c"], "trash", "restore", "x") == ["moved"]
    assert whole.undo("p", 1, target="trash", by="u", seq=1) == (1, 1)
    assert ids(low.page("waiting")) == ["c", "d", "e"], "in its place"
    assert whole.undo("r", 1, target="waiting", by="v", seq=1) == (2, 0)
    assert [e.id for e in whole.page("dead").entries] == ["e", "f", broken]
    assert whole.counts().waiting == 4 and whole.invariants() == []


@pytest.mark.slow
def test_what_lies_too_deep_is_said_and_left(queue: Ours, client: redis.Redis) -> None:
    for start in range(0, 21_000, 1000):
        client.lpush("queue:default", *[record(f"j{n}") for n in range(start, start + 1000)])
    said = moved(queue, ["j3", "j10500", "j20990"], "waiting", "gone")
    assert said == ["moved", "deep", "moved"]
    assert client.llen("queue:default") == 20_998
    entry = queue.get("j20991")
    assert entry and entry.state == "waiting"


def test_a_list_is_paged_while_jobs_come_and_go(queue: Ours, client: redis.Redis) -> None:
    queue.push([Job("A", [], f"j{n}") for n in range(300)])
    page = queue.page("waiting", max=100)
    assert ids(page) == [f"j{n}" for n in range(100)] and page.total == 300
    take(queue, 30)
    queue.push([Job("A", [], f"k{n}") for n in range(50)])
    page = queue.page("waiting", page.cursor, max=100)
    assert ids(page) == [f"j{n}" for n in range(100, 200)]
    take(queue, 200)
    page = queue.page("waiting", page.cursor, max=500)
    assert ids(page) == [f"j{n}" for n in range(230, 300)] + [f"k{n}" for n in range(50)]
    assert page.cursor is None
    assert ids(queue.page("waiting", start=10, max=2)) == ["j240", "j241"]


def test_a_set_is_paged_while_members_come_and_go(queue: Ours, client: redis.Redis) -> None:
    client.zadd("dead", {record(f"j{n:03}"): 5.0 for n in range(250)})
    client.zadd("dead", {record(f"o{n}", queue="other"): 5.0 for n in range(250)})
    seen: list[str] = []
    for page in pages(queue, "dead", 40):
        seen += ids(page)
        client.zadd("dead", {record(f"aa{len(seen)}"): 1.0})
        client.zrem("dead", record(seen[-1]))
    assert seen == [f"j{n:03}" for n in range(250)], "each once, none of others'"
    assert queue.counts().of("dead") == 250, "the set has 500, small enough to be read"
    client.zadd("dead", {record("more"): 5.0})
    assert queue.counts().of("dead") is None and "dead" in queue.counts().unknown
    assert SidekiqQueue(client, "sidekiq").counts().dead > 500
    assert len(queue.page("dead", start=10, max=20).entries) == 20


def test_what_was_counted_of_a_job_that_others_ended_is_forgotten(
    queue: Ours, client: redis.Redis, clock: FakeClock
) -> None:
    queue.push([Job("A", [], "a")])
    take(queue)
    clock.advance(30.001)
    queue.sweep()
    assert client.rpop("queue:default"), "by Sidekiq itself"
    assert client.hlen(queue.keys["lost"]) == 1
    clock.now_ms += 24 * 3_600_000 + 1
    queue.sweep()
    assert client.hlen(queue.keys["lost"]) == 0


def test_rescheduling_and_the_timeline(queue: Ours, client: redis.Redis) -> None:
    client.zadd("retry", {record("a"): T / 1000 + 10})
    client.zadd("schedule", {record("b"): T / 1000 + 20})
    assert queue.due_counts([T, T + 15_000, T + 25_000]) == [1, 1]
    assert moved(queue, ["a", "b"], "delayed", "delayed", lease_ms=T + 90_000) == ["moved"] * 2
    assert [e.at_ms for e in queue.page("delayed").entries] == [T + 90_000] * 2
    assert queue.undo("op", 1, target="delayed", by="u", seq=1) == (2, 0)
    assert queue.due_counts([T, T + 15_000, T + 25_000]) == [1, 1]


def test_what_came_back_since_is_late(queue: Ours, client: redis.Redis, clock: FakeClock) -> None:
    queue.push([Job("A", [], "a", {"retry": 0})])
    seen = queue.now()
    clock.advance(0.005)
    end(queue, take(queue)[0], "fail", BOOM)
    assert moved(queue, ["a"], "dead", "waiting", high_water_ms=seen) == ["late"]
    client.zadd("dead", {record("ahead"): (T + 7_200_000) / 1000})
    assert moved(queue, ["ahead"], "dead", "waiting", "x") == ["moved"], "a clock hours ahead"


def test_trash_of_a_queue_that_we_don_t_work_on_goes_as_well(
    whole: Ours, client: redis.Redis, clock: FakeClock
) -> None:
    client.zadd("dead", {record("a"): 1.0, record("b"): 2.0})
    moved(whole, ["a"], "dead", "trash")
    clock.now_ms += 24 * 3_600_000 + 1
    moved(whole, ["b"], "dead", "trash", "later")
    assert ids(whole.page("trash")) == ["b"] and whole.invariants() == []


@pytest.mark.parametrize("jid", ["a[b]?c", "a:b-c^d", "back\\slash", '"quoted"'])
def test_odd_ids_are_found_in_a_large_set(queue: Ours, client: redis.Redis, jid: str) -> None:
    client.zadd("retry", {record(f"j{n}"): n for n in range(600)})
    client.zadd("retry", {record(jid): 700.0})
    entry = queue.get(jid)
    assert entry and entry.id == jid and entry.state == "delayed"
    assert moved(queue, [jid], "delayed", "trash") == ["moved"]
    assert client.zcard("retry") == 600


def test_silent_processes_are_told_and_pruned(whole: Ours, client: redis.Redis) -> None:
    put(client, "sidekiq-7")
    identity = "web-1:4711:0a1b2c3d4e5f"
    client.pexpire(identity, 25_000)
    (process,) = whole.worker_processes()
    assert process.alive and process.silent_ms and process.silent_ms >= 35_000
    assert whole.prune_process(identity, silent=50).word == "alive"
    assert whole.prune_process("nobody").word == "unknown"
    client.delete(identity, f"{identity}:work")
    assert [p.alive for p in whole.worker_processes()] == [False]
    assert whole.prune_process(identity).word == "pruned"
    assert client.scard("processes") == 0


def test_a_process_whose_record_is_gone_is_pruned_however_long_is_asked_for(
    whole: Ours, client: redis.Redis
) -> None:
    put(client, "sidekiq-7")
    identity = "web-1:4711:0a1b2c3d4e5f"
    client.persist(identity)
    assert whole.prune_process(identity, silent=0.001).word == "alive", (
        "a record that stays says nothing"
    )
    client.delete(identity)
    assert whole.prune_process(identity, silent=3600).word == "pruned"
    assert client.scard("processes") == 0


def held_by_a_process(client: redis.Redis, *queues: str) -> str:
    """A process that beat just now and has a job of each of these queues."""
    identity = "web-2:1:ffffffffffff"
    client.sadd("processes", identity)
    client.hset(identity, "info", json.dumps({"started_at": T / 1000, "hostname": "web-2"}))
    client.pexpire(identity, 60_000)
    for n, name in enumerate(queues):
        work = {"queue": name, "payload": record(f"j{n}", queue=name).decode(), "run_at": 1.0}
        client.hset(f"{identity}:work", f"t{n}", json.dumps(work))
    return identity


def test_a_rescue_is_whole_or_nothing(whole: Ours, client: redis.Redis) -> None:
    """A queue's key is somebody else's: however often it is tried, nothing is pushed."""
    identity = held_by_a_process(client, "default", "bad", "low")
    client.set("queue:bad", "somebody else's")
    for _ in range(3):
        with pytest.raises(WrongKind, match="queue:bad"):
            whole.prune_process(identity, silent=0, rescue=True)
    assert client.llen("queue:default") == client.llen("queue:low") == 0
    assert client.scard("processes") == 1 and client.hlen(f"{identity}:work") == 3
    client.delete("queue:bad")
    pruned = whole.prune_process(identity, silent=0, rescue=True)
    assert (pruned.word, pruned.waiting, pruned.lost) == ("pruned", 3, 0)
    assert [client.llen(f"queue:{q}") for q in ("default", "bad", "low")] == [1, 1, 1]


def test_what_isn_t_rescued_is_said_to_be_lost(whole: Ours, client: redis.Redis) -> None:
    identity = held_by_a_process(client, "default", "low")
    (there,) = whole.worker_processes()
    assert [(work.id, work.queue) for work in there.work] == [("j0", "default"), ("j1", "low")]
    assert (there.since_ms, there.alive, there.host) == (T, True, "web-2")
    pruned = whole.prune_process(identity, silent=0)
    assert (pruned.word, pruned.waiting, pruned.lost) == ("pruned", 0, 2)
    assert client.llen("queue:default") == 0


def test_an_undo_puts_back_whatever_is_untouched_in_a_long_list(
    queue: Ours, client: redis.Redis
) -> None:
    """All that was put back last is gone, and the rest lies behind thousands of others."""
    names = [f"j{n}" for n in range(300)]
    client.zadd("dead", {record(name): n + 1.0 for n, name in enumerate(names)})
    for start in range(0, 4000, 1000):
        client.lpush("queue:default", *[record(f"f{n}") for n in range(start, start + 1000)])
    assert moved(queue, names, "dead", "waiting") == ["moved"] * 300
    for start in range(0, 5000, 1000):
        client.lpush("queue:default", *[record(f"b{n}") for n in range(start, start + 1000)])
    kept = names[:30]
    there: list[Any] = client.lrange("queue:default", 5000, 5299)
    for element in there:
        if json.loads(element)["jid"] not in kept:
            client.lrem("queue:default", 1, element)
    client.config_resetstat()
    assert queue.undo("op", 1, target="waiting", by="u", seq=1) == (30, 270)
    ran: Any = client.info("commandstats")
    assert ran["cmdstat_lrange"]["calls"] < 30, "by pages"
    assert "cmdstat_lpos" not in ran, "no search that walks far"
    assert [tuple(row) for row in scored(client, "dead")] == [
        (record(name), names.index(name) + 1.0) for name in kept
    ]
    assert client.llen("queue:default") == 9000
    assert queue.undo("op", 1, target="waiting", by="u", seq=1) == (30, 270), "sent again"


@pytest.mark.parametrize("behind", [0, 5000, 9500])
def test_a_call_of_an_undo_looks_at_so_many_elements_at_most(
    queue: Ours, client: redis.Redis, url: str, behind: int
) -> None:
    """The deeper they lie, the fewer are taken out a call; all of them are in the end."""
    names = [f"j{n}" for n in range(100)]
    client.zadd("dead", {record(name): n + 1.0 for n, name in enumerate(names)})
    for start in range(0, 12_000, 1000):
        client.lpush("queue:default", *[record(f"f{n}") for n in range(start, start + 1000)])
    assert moved(queue, names, "dead", "waiting") == ["moved"] * 100
    for start in range(0, behind, 500):
        client.lpush("queue:default", *[record(f"b{n}") for n in range(start, start + 500)])
    size = client.llen("queue:default")
    with overheard(client, url) as said:
        assert queue.undo("op", 1, target="waiting", by="u", seq=1) == (100, 0)
    assert client.zcard("dead") == 100 and client.llen("queue:default") == size - 100
    calls: list[list[list[str]]] = []
    for words in said:
        if words[0].upper() in ("EVALSHA", "EVAL"):
            calls.append([])
        elif calls:
            calls[-1].append(words)
    walks = [walked(call, int(size)) for call in calls if any(w[0] == "LSET" for w in call)]
    assert max(walks) <= 16_000
    assert len(walks) > 1
    assert max(sum(w[0] == "LSET" for w in call) for call in calls) <= 40


def walked(call: list[list[str]], size: int) -> int:
    """The elements of lists that one call of a script looked at."""
    read = sum(int(w[3]) - int(w[2]) + 1 for w in call if w[0] == "LRANGE")
    read += sum(int(w[-1]) for w in call if w[0] == "LPOS")
    ends = {"L": 0, "R": 0}
    for words in call:
        if words[0] == "LSET":  # a mark, which the walk from that end goes on to
            end = words[3][-1]
            near = int(words[2]) + 1 if end == "L" else size - int(words[2])
            ends[end] = max(ends[end], near)
    return read + sum(ends.values())


@contextmanager
def overheard(client: redis.Redis, url: str) -> Iterator[list[list[str]]]:
    """The words of all commands that the server carried out, those of scripts among them."""
    where, said = urlsplit(url), list[list[str]]()
    with socket.create_connection((where.hostname or "", where.port or 0)) as line:
        line.sendall(b"MONITOR\r\n")
        line.recv(5)
        yield said
        client.echo("that was all")
        text = b""
        while b"that was all" not in text:
            text += line.recv(1 << 20)
    for row in text.decode("latin-1").splitlines():
        said.append(re.findall(r'"((?:[^"\\]|\\.)*)"', row.partition("] ")[2]))


def test_an_undo_finds_them_while_the_list_moves_on(
    queue: Ours, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the change thousands come, and those that were seen first are taken."""
    names = [f"j{n}" for n in range(40)]
    client.zadd("dead", {record(name): n + 1.0 for n, name in enumerate(names)})
    assert moved(queue, names, "dead", "waiting") == ["moved"] * 40
    looked = undo_search.look
    looks: list[int] = []

    async def overtaken(*args: Any) -> Any:
        found = await looked(*args)
        if not looks:
            client.ltrim("queue:default", 20, -1)
            client.lpush("queue:default", *[record(f"n{n}") for n in range(3000)])
        looks.append(1)
        return found

    monkeypatch.setattr(undo_search, "look", overtaken)
    assert queue.undo("op", 1, target="waiting", by="u", seq=1) == (20, 20)
    assert len(looks) == 2
    assert [member for member, _ in scored(client, "dead")] == [record(n) for n in names[:20]]
    assert client.llen("queue:default") == 3000


@pytest.mark.slow
def test_what_is_out_of_an_undo_s_reach_is_said_and_found_later(
    queue: Ours, client: redis.Redis
) -> None:
    client.zadd("dead", {record("a"): 1.0, record("b"): 2.0})
    for start in range(0, 11_000, 1000):
        client.lpush("queue:default", *[record(f"f{n}") for n in range(start, start + 1000)])
    assert moved(queue, ["a"], "dead", "waiting") == ["moved"]
    for start in range(0, 11_000, 1000):
        client.lpush("queue:default", *[record(f"k{n}") for n in range(start, start + 1000)])
    assert queue.undo("op", 1, target="waiting", by="u", seq=1) == (0, 0, 1)
    assert client.zcard("dead") == 1
    client.rpop("queue:default", 6000)
    assert queue.undo("op", 1, target="waiting", by="again", seq=1) == (1, 0)
    assert client.zcard("dead") == 2 and client.llen("queue:default") == 16_000


@pytest.mark.parametrize("taken", [False, True])
def test_an_edit_is_undone_however_deep_the_entry_is_by_then(
    queue: Ours, client: redis.Redis, taken: bool
) -> None:
    """Only an entry that a search of the whole list did not meet counts as touched."""
    names = ["a", "b", "c"]
    queue.push([Job("A", [name], name) for name in names])
    before = client.lrange("queue:default", 0, -1)
    entries = [found for name in names if (found := queue.get(name)) is not None]
    rows = [(e.id, e.payload or b"", (e.payload or b"").replace(b'["', b'["x')) for e in entries]
    assert queue.edit("op", 1, rows, source="waiting", high_water_ms=2**52) == ["moved"] * 3
    if taken:
        client.lset("queue:default", 1, "taken")
        client.lrem("queue:default", 1, "taken")
    for start in range(0, 12_000, 1000):
        more = [record(f"f{n}") for n in range(start, start + 1000)]
        client.lpush("queue:default", *more)
        client.rpush("queue:default", *more)
    left: list[str] = []
    done = queue.undo("op", 1, target="edit", by="u", seq=1, left=left.extend)
    assert (done, left) == (((2, 1), ["b"]) if taken else ((3, 0), []))
    now = client.lrange("queue:default", 12_000, -12_001)
    assert now == ([before[0], before[2]] if taken else before)
    assert queue.undo("op", 1, target="edit", by="u", seq=1) == done


@pytest.mark.parametrize("state", ["dead", "delayed"])
def test_of_entries_with_one_jid_the_one_that_was_shown_is_edited(
    client: redis.Redis,
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    state: str,
) -> None:
    redisq = Redisq(url, capsys)
    client.zadd("dead", {record("a", args=[n], tag=n): float(n) for n in (1, 2)})
    if state == "delayed":  # the same job failed before, and is tried again
        client.zadd("retry", {record("a", args=["retry"]): 3.0})

    def arguments() -> list[list[object]]:
        return [json.loads(member)["args"] for member in members(client, "dead")]

    queue = SidekiqQueue(client, "sidekiq:default")
    (entry,) = queue.get_in(["a"], "dead")
    assert entry is not None and entry.payload is not None
    seen = json.loads(entry.payload)
    given = ("--payload", json.dumps(seen | {"args": ["right"]}))
    (said,) = redisq.rows("dlq", "edit", "sidekiq:default/a", *given, "--yes")
    assert (said["done"], said["skipped"]) == (1, {})
    assert arguments() == [["right"] if [n] == seen["args"] else [n] for n in (1, 2)]
    patch = json.dumps([{"op": "replace", "path": "/args", "value": ["all"]}])
    (said,) = redisq.rows("dlq", "edit", "sidekiq:default", "--patch", patch, "--yes")
    assert (said["done"], said["skipped"]) == (2, {})
    assert arguments() == [["all"], ["all"]]
    monkeypatch.setattr(edit, "BATCH", 1)
    patch = json.dumps([{"op": "add", "path": "/args/-", "value": "once"}])
    (said,) = redisq.rows("dlq", "edit", "sidekiq:default", "--patch", patch, "--yes", code=3)
    assert (said["done"], said["skipped"]) == (1, {"changed": 1})
    assert sorted(map(len, arguments())) == [1, 2], "none of them twice"


def test_the_journal_keeps_what_could_not_be_reached(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq = Redisq(url, capsys)
    client.zadd("dead", {record("a"): 1.0, record("b"): 2.0})
    for start in range(0, 11_000, 1000):
        client.lpush("queue:default", *[record(f"f{n}") for n in range(start, start + 1000)])
    op = redisq.rows("replay", "--queue", "sidekiq:default", "--yes")[-1]["op"]
    for start in range(0, 11_000, 1000):
        client.lpush("queue:default", *[record(f"k{n}") for n in range(start, start + 1000)])
    (said,) = redisq.rows("undo", op, "--yes", code=1)
    assert (said["matched"], said["done"], said["skipped"]) == (2, 0, {"deep": 2})
    client.rpop("queue:default", 6000)
    (said,) = redisq.rows("undo", op, "--yes")
    assert (said["matched"], said["done"], said["skipped"]) == (2, 2, {})
    assert client.zcard("dead") == 2 and client.llen("queue:default") == 16_000


@pytest.mark.parametrize("gone", [False, True])
def test_a_page_of_equal_scores_costs_what_every_page_costs(
    whole: Ours, client: redis.Redis, gone: bool
) -> None:
    """Also when the entry that the last page ended with was taken since."""
    client.zadd("dead", {record(f"j{n:04}"): 5.0 for n in range(3000)})
    names: list[str] = []
    costs = []
    client.config_resetstat()
    for page in pages(whole, "dead", 100):
        ran: Any = client.info("commandstats")
        costs.append(ran["cmdstat_zrange"]["calls"])
        names += ids(page)
        if gone:
            client.zrem("dead", record(names[-1]))
        client.config_resetstat()
    assert names == [f"j{n:04}" for n in range(3000)], "each once"
    assert max(costs) <= (16 if gone else 1), costs


@pytest.mark.parametrize("key", ["schedule", "retry", "dead"])
def test_discover_knows_a_sidekiq_that_has_nothing_waiting(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    redisq = Redisq(url, capsys)
    client.zadd(key, {record("a"): 4e9, record("b", queue="low"): 4e9 + 1})
    (row,) = redisq.rows("discover")
    assert (row["name"], row["kind"]) == ("sidekiq", "sidekiq")
    assert row["delayed" if key != "dead" else "dead"] == 2
    redisq("discover", "--register", "--yes")
    assert [row["name"] for row in redisq.rows("ls")] == ["sidekiq"]
    client.zadd("other:retry", {record("c"): 4e9})
    redisq("discover", "--register", "--yes")
    one, two = redisq.rows("discover")
    assert (one["name"], two["at"], two["delayed"]) == ("sidekiq", "other:", 1)
    assert two["name"].startswith("sidekiq~") and two["registered"]
    assert [row["id"] for row in redisq.rows("delay", "ls", two["name"])] == ["c"]
    client.delete("other:retry")
    client.zadd("ns:schedule", {"a payload": 4e9})
    client.sadd("queues", "default")
    assert {row["name"] for row in redisq.rows("discover")} == {
        "sidekiq:default",
        "raw-delay:ns:schedule",
    }


def test_half_a_character_is_no_reason_to_bury_a_job(queue: Ours, client: redis.Redis) -> None:
    record = '{"class":"A","args":["cut \\ud83d"],"jid":"%s","queue":"default"}' % ("c" * 24)
    client.zadd("schedule", {record: 1})
    client.sadd("queues", "default")
    (delivery,) = take(queue)
    assert delivery.payload.startswith(record[:40].encode())
    assert client.zcard("dead") == 0


def test_what_we_hold_is_seen_where_the_name_is_quoted(
    client: redis.Redis, clock: FakeClock
) -> None:
    queue = SidekiqQueue(client, "sidekiq:my%20mail", clock=clock)
    queue.push([Job("A", [1])])
    (delivery,) = take(queue)
    assert queue.counts().pending == 1
    assert ids(queue.page("pending")) == [delivery.id]
    assert moved(queue, [delivery.id], "pending", "waiting") == ["moved"]


# --- a deployment beside its own queues -----------------------------------------------------------


def test_a_job_of_a_deployment_is_selected_once(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change through the deployment's name registers it beside its queues."""
    redisq = Redisq(url, capsys)
    mail, low = (SidekiqQueue(client, f"sidekiq:{name}") for name in ("mail", "low"))
    for queue in (mail, low):
        name = queue.own_name
        queue.push([Job("A", [], f"{name}-{n}", {"retry": 0}) for n in range(5)])
        for delivery in queue.take(2, consumer="w").deliveries:
            assert end(queue, delivery, "fail", BOOM) == "dead"
        queue.take(1, consumer="w")
    client.zadd(
        "schedule",
        {json.dumps({"class": "A", "jid": f"l{n}", "queue": "mail"}): n + 4e9 for n in range(3)},
    )
    client.hdel(registry_key(), "sidekiq:low")
    redisq("replay", "sidekiq", "--max", "2", "--yes")
    redisq("undo", "--yes")
    named = Counter(row["name"] for row in redisq.rows("ls"))
    assert named == {"sidekiq": 1, "sidekiq:mail": 1}
    rows = redisq.rows("select", "*")
    both = Counter((row["queue"], row["state"]) for row in rows)
    each = {"waiting": 2, "pending": 1, "dead": 2}
    want = {("sidekiq:mail", state): n for state, n in each.items()} | {
        ("sidekiq:mail", "delayed"): 3
    }
    assert both == want | {("sidekiq", state): n for state, n in each.items()}
    assert len({row["id"] for row in rows}) == len(rows) == 13
    dead = redisq.rows("select", "*", "--where", "state:dead", "--count")
    assert [(row["queue"], row["matched"], row["total"]) for row in dead] == [
        ("sidekiq", 2, 2),
        ("sidekiq:mail", 2, 2),
    ]
    last = redisq.rows("select", "*", "--where", "state:dead", "--window", "1")
    assert {row["queue"] for row in last} == {"sidekiq", "sidekiq:mail"}
    (one,) = redisq.rows("inspect", "mail-0")
    assert one["queue"] == "sidekiq:mail", "a bare id is of one of them"
    assert len(redisq.rows("select", "sidekiq")) == 13, "named by itself it is whole"


def test_who_asks_one_queue_asks_the_deployment(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq, queue = Redisq(url, capsys), SidekiqQueue(client, "sidekiq:mail")
    queue.push([Job("A")] * 2)
    (delivery,) = queue.take(1, consumer="w").deliveries
    assert end(queue, delivery) == "done"
    for address in ("sidekiq", "sidekiq:mail"):
        (said,) = redisq.rows("explain", address)
        assert not {"no-worker"} & {said["rule"], *(one["rule"] for one in said["also"])}, said
    assert (
        SidekiqQueue(client, "sidekiq").queue_position().asked_ms == queue.queue_position().asked_ms
    )


def test_what_is_appended_displaces_nothing_in_a_long_list(client: redis.Redis) -> None:
    """Behind a neighbour of more than 1 KiB; the list is turned for another one meanwhile."""
    queue = SidekiqQueue(client, "sidekiq:low")
    jobs = [Job("T", ["x" * 2000 if n == 49 else n]) for n in range(30_000)]
    for n in range(0, 30_000, 500):
        queue.push(jobs[n : n + 500])
    before = client.lrange("queue:low", 0, -1)
    long = next(n for n, job in enumerate(before) if len(job) > 2000)
    some = [json.loads(before[n])["jid"] for n in (long - 49, long + 1)]
    assert moved(queue, some, "waiting", "trash", "p") == ["moved"] * 2
    assert queue.undo("p", 1, target="trash", by="u", seq=1)[0] == 2
    after = client.lrange("queue:low", 0, -1)
    appended = before.pop(long + 1)
    assert after == [appended, *before]


def test_an_undo_of_a_whole_list_walks_through_none(client: redis.Redis) -> None:
    queue = SidekiqQueue(client, "sidekiq:low")
    queue.push([Job("T", [n]) for n in range(200)])
    before = client.lrange("queue:low", 0, -1)
    waiting = ids(queue.page("waiting", max=200))
    for step in (waiting[:100], waiting[100:]):  # a change begins with the next to be taken
        assert moved(queue, step, "waiting", "trash", f"p{len(step)}{step[0]}") == ["moved"] * 100
    client.config_resetstat()
    for step in (waiting[100:], waiting[:100]):
        undone = queue.undo(f"p{len(step)}{step[0]}", 1, target="trash", by=f"u{step[0]}", seq=1)
        assert undone[0] == 100
    assert client.lrange("queue:low", 0, -1) == before
    stats: Any = client.info("commandstats")
    assert "cmdstat_linsert" not in stats
