"""A plain stream with consumer groups: counted, paged and checked as it is, and never changed."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
import redis
import redis.asyncio

from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.foreign.streams.checkup import SILENT_MS
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.other_programs import register_found
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import overview
from redisq_ops.ops.trouble.finding import USUAL
from redisq_ops.ops.trouble.judgement import judged, troubles

from ...queue_steps import paged_ids

Stream = StreamQueue[redis.Redis]


def fill(client: redis.Redis, key: str = "orders", n: int = 10) -> list[str]:
    """Entries in a stream; their ids."""
    return [client.xadd(key, {"n": k}).decode() for k in range(n)]  # type: ignore[union-attr]


def give(client: redis.Redis, group: str, consumer: str, n: int, key: str = "orders") -> None:
    client.xreadgroup(group, consumer, {key: ">"}, count=n)


@pytest.fixture
def ids(client: redis.Redis) -> list[str]:
    """Ten entries; group mail has had six and acknowledged two, group slow has had one."""
    ids = fill(client)
    for group in ("mail", "slow"):
        client.xgroup_create("orders", group, id="0")
    give(client, "mail", "w1", 4)
    give(client, "mail", "w2", 2)
    client.xack("orders", "mail", *ids[:2])
    give(client, "slow", "w9", 1)
    return ids


@pytest.fixture
def queue(client: redis.Redis, ids: list[str]) -> Stream:
    return StreamQueue(client, "stream:orders")


def test_waiting_is_what_the_group_furthest_behind_lacks(queue: Stream, ids: list[str]) -> None:
    counts = queue.counts()
    assert (counts.waiting, counts.pending, counts.dead, counts.delayed) == (9, 5, 0, 0)
    assert counts.oldest_ms == int(ids[1].partition("-")[0])
    assert counts.of("done") is None


def test_pending_pages_go_over_all_groups_once_each(queue: Stream, ids: list[str]) -> None:
    wanted = [*(f"mail:{id}" for id in ids[2:6]), f"slow:{ids[0]}"]
    for max in (1, 2, 3, 5, 100):
        assert paged_ids(queue, "pending", max) == wanted
    windows = [queue.page("pending", start=start, max=2) for start in (0, 2, 4, 6)]
    assert [entry.id for page in windows for entry in page.entries] == wanted
    assert {page.total for page in windows} == {5}
    row = queue.page("pending", payloads=True).entries[3]
    assert (row.consumer, row.deliveries, row.payload) == ("w2", 1, b'{"n": "5"}')


def test_waiting_pages_are_of_the_group_furthest_behind(queue: Stream, ids: list[str]) -> None:
    wanted = [f"slow:{id}" for id in ids[1:]]
    assert paged_ids(queue, "waiting", 4) == wanted
    window = queue.page("waiting", start=3, max=2)
    assert ([entry.id for entry in window.entries], window.total) == (wanted[3:5], 9)
    assert window.entries[0].since_ms == int(ids[4].partition("-")[0])
    assert queue.page("dead").entries == queue.page("done").entries == ()


def test_pages_go_on_when_the_cursors_group_is_gone(
    queue: Stream, ids: list[str], client: redis.Redis
) -> None:
    client.xgroup_create("orders", "aaa", id="0")
    give(client, "aaa", "w", 2)
    first = queue.page("pending", None, 4)
    assert first.cursor == f"mail:{ids[3]}"
    client.xgroup_destroy("orders", "mail")
    assert [e.id for e in queue.page("pending", first.cursor, 9).entries] == [f"slow:{ids[0]}"]
    assert queue.page("pending", f"zzz:{ids[0]}", 9).entries == ()


def test_what_waits_is_gone_on_with_when_another_group_is_furthest_behind(
    queue: Stream, ids: list[str], client: redis.Redis
) -> None:
    first = queue.page("waiting", None, 2)
    assert first.cursor == f"slow:{ids[2]}"
    client.xgroup_destroy("orders", "slow")
    rest = paged_ids(queue, "waiting", 2, first.cursor)
    assert rest == [f"mail:{id}" for id in ids[6:]], "mail has had six"
    client.xgroup_create("orders", "abc", id="0")
    rest = paged_ids(queue, "waiting", 3, first.cursor)
    assert rest == [f"abc:{id}" for id in ids[3:]], "what was seen isn't shown again"


def test_an_entry_is_what_its_group_makes_of_it(queue: Stream, ids: list[str]) -> None:
    def state(id: str) -> str | None:
        entry = queue.get(id)
        return None if entry is None else entry.state

    assert state(f"mail:{ids[0]}") == "done"
    assert state(f"slow:{ids[0]}") == "pending"
    assert state(f"mail:{ids[9]}") == "waiting"
    assert state(ids[0]) == "pending"  # in slow: what needs somebody comes first
    assert state("mail:1-1") is state("nobody:1-1") is state("mail:x") is state("*") is None
    assert state(f"nobody:{ids[0]}") is None


def test_consumers_of_a_group_and_of_all(queue: Stream) -> None:
    assert {(c.name, c.pending) for c in queue.consumers("mail")} == {
        ("mail:w1", 2),
        ("mail:w2", 2),
    }
    assert len(queue.consumers("")) == 3


def test_any_bytes_as_fields_groups_and_key(client: redis.Redis) -> None:
    key, group = b"{a} \xff/|", b"g *\xfe:/x"
    id = client.xadd(key, {b"\xff": b"\x00\xfe"})
    client.xgroup_create(key, group, id="0")
    client.xreadgroup(group, "w", {key: ">"})  # type: ignore[arg-type]
    found = StreamQueue(client, "stream:%7Ba%7D%20%FF%2F%7C")
    assert found.exists()
    (entry,) = found.page("pending", payloads=True).entries
    assert entry.payload is not None and json.loads(entry.payload) == {"\\xff": "\x00\\xfe"}
    again = found.get(entry.id)
    assert again is not None and (again.id, again.payload) == (entry.id, entry.payload)
    assert all(c not in "{}*|/ " for c in entry.id) and entry.id.isprintable()
    assert id is not None


def test_a_lag_the_server_cannot_tell_is_unknown(
    queue: Stream, client: redis.Redis, ids: list[str]
) -> None:
    client.xgroup_create("orders", "third", id="5-5")  # an id nobody ever had
    client.xgroup_setid("orders", "third", ids[0])
    client.xdel("orders", ids[5])
    client.xgroup_destroy("orders", "mail")
    client.xgroup_destroy("orders", "slow")
    (row,) = client.xinfo_groups("orders")
    counts = queue.counts()
    assert counts.of("waiting") == row["lag"]
    assert len(queue.page("waiting").entries) == 8


def test_no_groups_no_entries_no_stream(client: redis.Redis) -> None:
    fill(client, "bare", 3)
    bare = StreamQueue(client, "stream:bare")
    assert (bare.exists(), bare.counts().waiting, len(bare.page("waiting").entries)) == (True, 3, 3)
    assert bare.checkup().flaws == ()
    none = StreamQueue(client, "stream:none")
    assert not none.exists()
    assert (none.counts().waiting, none.page("pending").entries) == (0, ())
    client.set("text", "x")
    assert not StreamQueue(client, "stream:text").exists()


def test_a_key_beside_its_name(client: redis.Redis) -> None:
    fill(client, "x" * 200, 2)
    assert StreamQueue(client, "stream:long", at="x" * 200).counts().waiting == 2


# --- what is wrong --------------------------------------------------------------


def test_a_healthy_stream_is_not_flagged(queue: Stream, client: redis.Redis) -> None:
    give(client, "slow", "w9", 100)
    assert queue.checkup().flaws == queue.checkup(thorough=True).flaws == ()
    assert queue.checkup().unseen is None
    assert queue.invariants() == []


def test_trimmed_silent_unread_and_poisoned_are_flagged(
    queue: Stream, client: redis.Redis, ids: list[str]
) -> None:
    client.xgroup_create("orders", "nobody", id="0")
    assert "group nobody: no consumer, and 10 entries to read" in queue.checkup().flaws
    client.xdel("orders", ids[2])
    client.xclaim("orders", "mail", "w1", 0, [ids[3]], idle=SILENT_MS, retrycount=25)
    said = "\n".join(queue.checkup().flaws)
    assert "group mail: 1 of the 4 oldest of its 4 pending entries are gone from the stream" in said
    assert "group mail: 1 of the 4 oldest of its 4 pending entries were delivered 20 times" in said
    assert "group nobody: no consumer" in said
    assert "group slow" not in said


def test_a_silent_consumer_is_flagged(queue: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redisq_ops.core.foreign.streams.checkup.SILENT_MS", 0)
    assert any("consumer w9 holds 1 and was silent for" in s for s in queue.checkup().flaws)


def test_the_consumers_of_a_group_that_lags_are_the_streams_workers(
    queue: Stream, client: redis.Redis, ids: list[str]
) -> None:
    time.sleep(0.01)
    give(client, "slow", "w9", 1)
    asked = queue.activity(0)
    assert asked.askers == 2 and asked.asked_ms is not None  # group mail was read longer ago
    client.xgroup_create("orders", "nobody", id="0")
    assert (queue.activity(0).askers, queue.activity(0).asked_ms) == (0, None)
    for group in ("mail", "slow", "nobody"):
        give(client, group, "w1", 100)
    assert queue.activity(0).askers is None  # all is read: a reader that waits looks idle, too


def test_what_consumers_hold_who_read_no_more_is_trouble(
    queue: Stream, client: redis.Redis
) -> None:
    client.xadd("orders", {"n": 1})
    time.sleep(1.05)
    register_found(client)

    def found() -> dict[str, str]:
        limits = replace(USUAL, held_ms=1000)
        seen = run(client, overview(Deployment(client), lambda name: limits))
        (row,) = seen.rows
        assert "held" in judged(row)
        return {one.rule: one.reason for one in troubles(row, seen.now_ms, limits)}

    assert found()["held"].startswith("5 held by w1 and 2 more, silent for 1 s")
    give(client, "mail", "w1", 1)  # alive; w2 and w9 are not
    assert found()["held"].startswith("3 held by w2 and 1 more, ")
    give(client, "slow", "w2", 1)  # probably the same program, in another group
    assert found()["held"].startswith("1 held by w9, silent for")


def test_a_look_is_bounded_and_says_so(client: redis.Redis) -> None:
    fill(client, n=1500)
    client.xgroup_create("orders", "g", id="0")
    give(client, "g", "w", 1500)
    client.xtrim("orders", maxlen=0)
    queue = StreamQueue(client, "stream:orders")
    quick, thorough = queue.checkup(), queue.checkup(thorough=True)
    assert quick.unseen == "group g: only the 100 oldest pending entries"
    assert "100 of the 100 oldest of its 1,500" in quick.flaws[0]
    assert "1,000 of the 1,000 oldest of its 1,500" in thorough.flaws[0]


# --- read-only ------------------------------------------------------------------


def test_the_kind_is_known() -> None:
    assert foreign_class("stream") is StreamQueue
