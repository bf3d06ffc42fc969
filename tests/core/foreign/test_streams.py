"""A plain stream with consumer groups: counted, paged and checked as it is, and never changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.foreign.streams.checkup import SILENT_MS
from redisq_ops.core.model.entry import Page
from redisq_ops.core.model.errors import Refused

from ...command_line import Redisq
from ...model.wire import picture

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


def everything(read: Callable[[str | None], Page]) -> list[str]:
    found, cursor, pages = [], None, 0
    while True:
        page = read(cursor)
        found += [entry.id for entry in page.entries]
        cursor, pages = page.cursor, pages + 1
        if cursor is None or pages > 50:
            return found


def test_waiting_is_what_the_group_furthest_behind_lacks(queue: Stream, ids: list[str]) -> None:
    counts = queue.counts()
    assert (counts.waiting, counts.pending, counts.dead, counts.delayed) == (9, 5, 0, 0)
    assert counts.oldest_ms == int(ids[1].partition("-")[0])
    assert counts.of("done") is None


def test_pending_pages_go_over_all_groups_once_each(queue: Stream, ids: list[str]) -> None:
    wanted = [*(f"mail:{id}" for id in ids[2:6]), f"slow:{ids[0]}"]
    for max in (1, 2, 3, 5, 100):
        assert everything(lambda at, n=max: queue.page("pending", at, n)) == wanted  # type: ignore[misc]
    windows = [queue.page("pending", start=start, max=2) for start in (0, 2, 4, 6)]
    assert [entry.id for page in windows for entry in page.entries] == wanted
    assert {page.total for page in windows} == {5}
    row = queue.page("pending", payloads=True).entries[3]
    assert (row.consumer, row.deliveries, row.payload) == ("w2", 1, b'{"n": "5"}')


def test_waiting_pages_are_of_the_group_furthest_behind(queue: Stream, ids: list[str]) -> None:
    wanted = [f"slow:{id}" for id in ids[1:]]
    assert everything(lambda at: queue.page("waiting", at, 4)) == wanted
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
    rest = everything(lambda at: queue.page("waiting", at or first.cursor, 2))
    assert rest == [f"mail:{id}" for id in ids[6:]], "mail has had six"
    client.xgroup_create("orders", "abc", id="0")
    rest = everything(lambda at: queue.page("waiting", at or first.cursor, 3))
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


def test_nothing_can_be_changed_and_nothing_is(
    queue: Stream, client: redis.Redis, redisq: Redisq
) -> None:
    before = picture(client)
    with pytest.raises(Refused, match=r"only that program.s workers run"):
        queue.take(1, consumer="w")
    with pytest.raises(Refused):
        queue.move("op", 1, ["x"], source="pending", target="waiting", high_water_ms=0)
    for words in (
        "queue pause",
        "queue drain",
        "pending requeue",
        "pending purge",
        "queue destroy",
    ):
        redisq(*words.split(), "stream:orders", "--yes", code=1)
        assert "stream" in redisq.err
    for line in (
        "work --exec true --queue stream:orders",
        "retention stream:orders max_lost=1 --yes",
        "delay schedule stream:orders/e1 --in 5m x",
    ):
        redisq(*line.split(), code=1)
        assert redisq.err.count("\n") == 1 and "stream:orders" in redisq.err
    assert redisq("retention", "stream:orders").split() == ["setting", "value", "default"]
    assert picture(client) == before


def test_it_is_shown_like_any_queue_without_being_registered(
    redisq: Redisq, client: redis.Redis, ids: list[str]
) -> None:
    before = picture(client)
    (row,) = redisq.rows("inspect", "queue", "stream:orders")
    assert (row["waiting"], row["pending"], row["done"], row["in_per_min"]) == (9, 5, None, None)
    assert {consumer["name"] for consumer in row["consumers"]} == {"slow:w9", "mail:w1", "mail:w2"}
    assert row["faults"] == [] and len(row["known_faults"]) >= 3
    pending = redisq.rows("pending", "ls", "stream:orders")
    assert [r["id"] for r in pending][:-1] == [f"mail:{id}" for id in ids[2:6]]
    assert pending[0]["payload"] == '{"n": "2"}'
    (one,) = redisq.rows("inspect", "entry", f"stream:orders/mail:{ids[2]}")
    assert (one["state"], one["consumer"], one["deliveries"]) == ("pending", "w1", 1)
    assert len(redisq.rows("waiting", "ls", "stream:orders", "--max", "4")) == 4
    # Fields of a stream are texts, and still 9 comes before 10.
    assert len(redisq.rows("waiting", "ls", "stream:orders", "--where", "payload.n<10")) == 9
    redisq("fsck", "stream:orders")
    redisq("inspect", "queue", "stream:nope", code=1)
    said = redisq("inspect", "queue", "stream:orders")
    assert "known faults of this layout" in said and "settings" not in said
    assert picture(client) == before


def test_awaited_it_is_the_same(queue: Stream, aclient: Callable[[], redis.asyncio.Redis]) -> None:
    async def awaited() -> tuple[Any, ...]:
        async with aclient() as client:
            other = StreamQueue(client, "stream:orders")
            return await other.counts(), await other.get(queue.page("pending").entries[0].id)

    counts, entry = asyncio.run(awaited())
    assert counts == queue.counts() and entry.state == "pending"


def test_the_kind_is_known() -> None:
    assert foreign_class("stream") is StreamQueue
