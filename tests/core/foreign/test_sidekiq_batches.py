"""Sidekiq's batches: of the gem sidekiq-batch, with the keys that 0.1.9 and 0.2.0 wrote beside
Sidekiq 6.4; of Sidekiq Pro, with those that its users showed (`redisq_ops/core/foreign/sidekiq`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import RedisqError, Refused
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker
from redisq_ops.ops.inspect.flow import FlowMember, flow

from ...changes import changed, undone
from ...command_line import Redisq
from ...foreign_keys.sidekiq_batches import BID, INNER, dead, gem_batch, job
from ...queue_steps import take

Client = redis.Redis
CALLED = "aKbTaO3Eicx1qg"


def pro_batch(client: Client) -> None:
    """As release 2 to 7 keep it: of two jobs one is tried again."""
    batch = f"b-{INNER}"
    callbacks = json.dumps({"success": [{"Worker#finished": {"id": 2861957037}}]})
    client.hset(batch, mapping={"created_at": "1452805942.9492667", "kids": 0, "total": 2})
    client.hset(batch, mapping={"pending": 1, "description": "Mail", "parent": BID})
    client.hset(batch, "callbacks", callbacks)
    client.sadd(f"{batch}-jids", "again", "lost")
    client.set(f"{batch}-notify", 1)
    client.hset(f"b-{BID}", mapping={"created_at": "1452805942.9", "kids": 4, "total": 4})
    client.sadd(f"b-{BID}-success", "3TnO8p09oAE2-w", "8gyckfl3_L5ymA")
    client.zadd("retry", {dead("again", INNER): 1796054326.27})
    client.sadd("queues", "default")


def whole(client: Client) -> SidekiqQueue[Client]:
    return SidekiqQueue(client, "sidekiq")


def members(client: Client, id: str, queue: str = "sidekiq") -> tuple[FlowMember, ...]:
    owner = SidekiqQueue(client, queue)
    entry = owner.get(id)
    assert entry is not None
    return run(client, flow(owner, entry))


def lines(client: Client, id: str, queue: str = "sidekiq") -> list[str]:
    return [f"{one.depth} {one.line}" for one in members(client, id, queue)]


MAY = (
    "'Import of May': still to succeed: 2 of 3 jobs; 1 failed; 1 batch in it, of which 0 succeeded;"
    " on complete Done#on_complete; on success Done"
)


@pytest.mark.parametrize("array", [False, True])
def test_a_batch_of_the_gem_is_drawn_with_the_jobs_that_it_waits_for(
    client: Client, array: bool
) -> None:
    """Where no key has a job's own id, dead and delayed jobs are found by their batch."""
    gem_batch(client, array)
    others = {
        "bad": ["0 job sidekiq:default/bad  dead; the one above waits for it"],
        "later": ["0 job sidekiq:low/later  waiting (enqueued); the one above waits for it"],
    }
    above = f"-1 batch {BID}  {MAY}"
    bad = lines(client, "bad", "sidekiq:default")
    assert bad == [above, "0 sidekiq:default/bad  dead", *([] if array else others["later"])]
    assert lines(client, "later") == [above, "0 sidekiq/later  waiting (enqueued)", *others["bad"]]
    assert lines(client, "inner", "sidekiq:low") == [
        f"-2 parent batch {BID}  {MAY}",
        f"-1 batch {INNER}  'Inner': still to succeed: 1 of 1 jobs; 0 failed",
        "0 sidekiq:low/inner  waiting (enqueued)",
    ]


def test_the_batch_of_a_callback_names_the_batch_that_called(client: Client) -> None:
    gem_batch(client)
    done = json.dumps(
        {
            "callback": "Sidekiq::Batch::Callback::Finalize#dispatch",
            "opts": {"bid": BID, "event": "complete"},
        }
    )
    named: Any = {"callback_batch": "true", "created_at": "1.5", "pending": "1", "total": "1"}
    client.hset(f"BID-{CALLED}", mapping=named)
    client.sadd(f"BID-{CALLED}-callbacks-complete", done)
    client.hset(f"BID-{BID}", "complete", "true")
    client.lpush("queue:default", job("cb", CALLED))
    upper, lower, _ = lines(client, "cb")
    assert upper.startswith(f"-2 parent batch {BID}") and "on_complete (was enqueued)" in upper
    assert lower.startswith(f"-1 batch {CALLED}  callbacks: still to succeed: 1 of 1 jobs")


def test_a_batch_of_sidekiq_pro_says_what_no_key_tells(client: Client) -> None:
    """How many failed is unknown where its hash of failures isn't; a job may be nowhere."""
    pro_batch(client)
    assert lines(client, "again", "sidekiq:default") == [
        f"-2 parent batch {BID}  still to succeed: unknown of 4 jobs; 4 batches in it, of which 2"
        " succeeded",
        f"-1 batch {INNER}  'Mail': still to succeed: 1 of 2 jobs; on success Worker#finished",
        "0 sidekiq:default/again  delayed (retry)",
        "0 job sidekiq/lost  unknown; the one above waits for it",
    ]
    client.hset(f"b-{INNER}-failinfo", "again", "x" * 100)
    assert "; 1 failed; " in lines(client, "again")[1]


PURGES: tuple[Verb, ...] = ("purge", "hard")
STATES: tuple[State, ...] = ("waiting", "delayed", "dead")


@pytest.mark.parametrize("begin", ["BID-", "b-"])
@pytest.mark.parametrize("state", STATES)
def test_a_job_is_purged_only_when_no_batch_waits_for_it(
    client: Client, state: State, begin: str
) -> None:
    """The batch would never have succeeded. What is in none is purged in the same step."""
    mine, alone = job("mine", BID), job("alone", "gone")
    client.sadd("queues", "default")
    key = {"waiting": "queue:default", "delayed": "retry", "dead": "dead"}[state]
    if state == "waiting":
        client.lpush(key, mine, alone)
    else:
        client.zadd(key, {mine: 1.5, alone: 2.5})
    client.hset(f"{begin}{BID}", "pending", 1)
    for verb in PURGES:
        ended = changed(whole(client), verb, state, "mine", "alone")
        assert ended.outcome.skipped["linked"] == 1 and ended.outcome.done <= 1
        assert whole(client).would_move(["mine"], state, "trash") == ["linked"]
        left = client.lrange(key, 0, -1) if state == "waiting" else client.zrange(key, 0, -1)
        assert left == [mine.encode()]
        if verb == "purge":
            assert undone(client, ended).outcome.done == 1
    client.delete(f"{begin}{BID}")
    purge = changed(whole(client), "purge", state)
    assert purge.outcome.done == 1 and client.exists(key) == 0
    assert undone(client, purge).outcome.done == 1


def test_a_dead_job_of_a_batch_is_replayed_with_its_members(client: Client) -> None:
    """So the gem's middleware counts it, and enqueues the callbacks."""
    gem_batch(client)
    batch = {key: client.dump(key) for key in client.scan_iter("BID-*")}
    element: Any
    (element,) = client.zrange("dead", 0, -1)
    assert changed(whole(client), "replay", "dead").outcome.done == 1
    (waits,) = client.lrange("queue:default", 0, -1)
    assert json.loads(waits) | {"enqueued_at": 0} == json.loads(element) | {"enqueued_at": 0}
    assert {key: client.dump(key) for key in client.scan_iter("BID-*")} == batch


def test_a_job_that_a_worker_here_has_is_not_purged(client: Client) -> None:
    gem_batch(client)
    low = SidekiqQueue(client, "sidekiq:low")
    assert {one.id for one in take(low, 2)} == {"later", "inner"}
    assert changed(low, "purge", "pending").outcome.skipped == {"linked": 2}
    assert lines(client, "bad")[2].startswith("0 job sidekiq:low/later  pending (busy)")


def test_explain_names_the_job_for_which_the_batch_waits(client: Client, redisq: Redisq) -> None:
    gem_batch(client)
    redisq("discover", "--register", "--yes")
    (row,) = redisq.rows("explain", "sidekiq:low/later")
    (batch,) = [also for also in row["also"] if also["rule"] == "batch"]
    said = f"batch {BID} waits for it and its dead job sidekiq:default/bad: {MAY}"
    assert batch["sentence"] == said
    assert batch["command"].startswith("redisq replay sidekiq:default/bad")
    assert batch["facts"]["batch"] == BID
    (row,) = redisq.rows("explain", "sidekiq:default/bad")
    assert row["rule"] == "dead" and row["verb"] == "replay"
    (batch,) = [also for also in row["also"] if also["rule"] == "batch"]
    assert "waits for it and its job sidekiq:low/later: " in batch["sentence"]
    client.delete(f"BID-{BID}")
    (row,) = redisq.rows("explain", "sidekiq:default/bad")
    (batch,) = [also for also in row["also"] if also["rule"] == "batch"]
    assert batch["sentence"] == f"batch {BID} is gone: nothing waits for it now"
    assert f"batch {BID}  gone" in redisq("inspect", "entry", "sidekiq:default/bad")


def test_a_preview_says_why_a_job_of_a_batch_stays(client: Client, redisq: Redisq) -> None:
    gem_batch(client)
    said = redisq("purge", "sidekiq", "--state", "dead", "--dry-run")
    assert "would purge 0, skip 1: 1 linked" in said and "a flow or a batch" in said


def test_a_description_is_redacted(client: Client, redisq: Redisq, configuration: Path) -> None:
    gem_batch(client)
    client.hset(f"BID-{BID}", "description", "for ann@example.org")
    assert "ann@example.org" in redisq("inspect", "entry", "sidekiq/bad")
    configuration.write_text("[redact.patterns]\nemail = '[a-z]+@[a-z.]+'\n")
    assert "ann@example.org" not in redisq("inspect", "entry", "sidekiq/bad")
    assert "ann@example.org" not in redisq("explain", "sidekiq/bad")


def spoil(client: Client, how: str) -> None:
    batch = f"BID-{BID}"
    if how == "type":
        client.delete(batch)
        client.set(batch, "x")
    elif how == "long":
        client.hset(batch, "description", "x" * 200_000)
    elif how == "numbers":
        client.hset(batch, mapping={"pending": "-9913", "total": "9913"})
    elif how == "circle":
        client.hset(batch, "parent_bid", INNER)
    elif how == "parts":
        for part in ("jids", "failed", "callbacks-success", "callbacks-complete", "success"):
            client.delete(f"{batch}-{part}")
            client.set(f"{batch}-{part}", "x")
    elif how == "callbacks":
        client.hset(batch, "callbacks", '{"success": [7, {"a": 1}], "x": 3}')
    elif how == "bid":
        client.hset("BID-?[a-z", "pending", 1)
        client.zadd("dead", {job("star", "?[a-z"): 1, job("odd", {}): 2, job("half", "\ud800"): 3})  # type: ignore[arg-type]


SAID = {
    "type": "its record can't be read: ",
    "long": "",
    "numbers": "still to succeed: -9,913 of 9,913 jobs, which can't be right",
    "circle": "still to succeed: 2 of 3 jobs",
    "parts": "of 3 jobs; 1 batch in it; on complete a set that can't be read",
    "callbacks": "on success a",
    "bid": "still to succeed: 2 of 3 jobs",
}


@pytest.mark.parametrize("how", SAID)
def test_a_damaged_batch_is_drawn_as_far_as_it_can_be_read(client: Client, how: str) -> None:
    gem_batch(client)
    spoil(client, how)
    if how == "bid":
        assert len(lines(client, "star")) == 2 and lines(client, "odd") == []
        purge = changed(whole(client), "purge", "dead", "star", "odd", "half").outcome
        assert (purge.done, purge.skipped) == (2, {"linked": 1})
    drawn = lines(client, "bad", "sidekiq:default")
    assert any(SAID[how] in line for line in drawn), drawn
    assert sum(len(line) for line in drawn) < 2_000
    assert sum("sidekiq:default/bad" in line for line in drawn) == 1


@contextmanager
def sent(client: Client) -> Iterator[list[int]]:
    """Bytes that the server sends meanwhile."""
    before, found = client.info("stats")["total_net_output_bytes"], list[int]()
    yield found
    found.append(client.info("stats")["total_net_output_bytes"] - before)


def test_a_batch_of_20000_jobs_is_read_in_part(client: Client) -> None:
    """Neither the long list nor the long set is searched, so where the others are is unknown."""
    gem_batch(client)
    numbers = range(20_000)
    client.sadd(f"BID-{BID}-jids", *(f"n{i}" for i in numbers))
    client.hset(f"BID-{BID}", mapping={"pending": 20_000, "total": 20_003})
    client.zadd("dead", {dead(f"n{i}", BID): i for i in numbers})
    client.lpush("queue:low", *(job(f"w{i}", BID, "low") for i in range(2_000)))
    owner = SidekiqQueue(client, "sidekiq:default")
    entry = owner.get("bad")
    assert entry is not None
    with sent(client) as size:
        found = run(client, flow(owner, entry))
    assert size[0] < 1_000_000
    assert len(found) <= 2 + 100 and "; 100 are named" in found[0].note
    assert {one.state for one in found[2:]} == {None}
    client.zremrangebyrank("dead", 0, 10_100)
    with sent(client) as size:
        found = run(client, flow(owner, entry))
    assert {one.state for one in found[2:]} == {"dead"} and size[0] < 1_000_000


def test_a_missing_right_leaves_all_as_it_was(client: Client) -> None:
    """The record of a batch is asked for before anything is written."""
    gem_batch(client)
    client.zadd("dead", {dead("alone", "").replace('"bid":"",', ""): 1.5})
    rules = ["on", "nopass", "+@all", "&*", *(f"~{key}" for key in ("dead", "redisq:*", "queue*"))]
    keys = ("retry", "schedule", "processes", "paused", "stat*", "super_processes")
    acl: Any = client.execute_command
    acl("ACL", "SETUSER", "u", *rules, *(f"~{key}" for key in keys))
    port = client.connection_pool.connection_kwargs["port"]
    user = redis.Redis(port=port, username="u", password="x")
    before = client.zrange("dead", 0, -1, withscores=True)
    owner = SidekiqQueue(user, "sidekiq")
    with pytest.raises(RedisqError):
        changed(owner, "purge", "dead", "alone", "bad")
    assert client.zrange("dead", 0, -1, withscores=True) == before
    acl("ACL", "SETUSER", "u", "%R~BID-*", "%R~b-*")
    ended = changed(owner, "purge", "dead", "alone", "bad").outcome
    assert ended.done == 1 and ended.skipped == {"linked": 1}


def test_our_worker_gives_a_batch_s_job_back_and_stops(client: Client) -> None:
    first = '{"class":"Part","args":[1],"jid":"first","queue":"low"}'
    parts = [job("part", BID, "low"), job("other", BID, "low"), first.replace("first", "last")]
    client.lpush("queue:low", first, *parts)
    client.sadd("queues", "low")
    ran: list[str] = []
    queue = SidekiqQueue(client, "sidekiq:low")
    with pytest.raises(Refused, match="low/part is back in its queue: it belongs to a batch"):
        Worker(queue, lambda work: ran.append(work.id), burst=True).run()
    assert ran == ["first"]
    assert client.lrange("queue:low", 0, -1) == [part.encode() for part in reversed(parts)]
    assert queue.counts().pending == queue.counts().dead == 0
