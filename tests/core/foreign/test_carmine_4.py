"""Queues that Carmine 4 keeps, as its preview's source has them: found, looked at, left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.queues.carmine import CarmineFourLayout, CarmineLayout, messagepack
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq
from ...model.wire import picture
from ..queues import carmine_reader
from ..queues.carmine_reader import base_4, put_4

NPY = b"\x00>NPY\x00"
STATE_OF: dict[str, State] = {
    "ready": "waiting", "leased": "pending", "scheduled": "delayed", "dead": "dead"
}  # fmt: skip


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def stock(client: redis.Redis, now: int, name: str = "emails") -> None:
    """A queue in the middle of its work: schema priority attempt max-attempts enqueued-at …"""
    base, came = base_4(name), now - 60_000
    client.hset(base + "config", mapping={"schema": 1, "lease_ms": 60_000, "max_attempts": 8})
    client.set(base + "seq", 9)
    rows: list[tuple[str, bytes, int, list[Any]]] = [
        ("ready-low", b"last", 1, [1, 2, 0, 8, came]),
        ("ready-normal", b"mid", 5, [1, 1, 0, 8, came, "dead", False, False]),
        ("ready-normal", b"again", 7, [1, 1, 3, 8, came, "discard", 17, 90_000]),
        ("ready-high", b"first", 9, [1, 0, 0, 8, came]),
        ("scheduled", b"later", now + 5000, [1, 1, 1, 8, came]),
        ("scheduled", b"due", now - 1, [1, 1, 0, 8, came]),
        ("leased", b"held", now + 9000, [1, 1, 1, 8, came]),
        ("leased", b"lost", now - 5, [1, 1, 2, 8, came]),
        ("leased", b"odd id\xff{}", now + 9500, [1, 1, 300, 100_000, came]),
        ("dead", b"gone", now - 900, [1, "IOError: no route", now - 900, 8, 1, 8, came, "dead"]),
        ("dead", b"late", now - 800, [1, "lease-expired", now - 800, 8, 1, 8, came]),
        ("dead", b"first", now - 700, [1, "boom", now - 700, 2, 1, 8, came]),
    ]
    for part, mid, score, record in rows:
        put_4(client, name, part, mid, score, record, NPY + mid)
    client.hset(base + "successor-meta", "held", b"\x97")
    client.hset(base + "successor-payloads", "held", NPY)
    client.rpush(base + "signal", "1")


@pytest.fixture
def queue(client: redis.Redis, clock: FakeClock) -> CarmineFourLayout[redis.Redis]:
    stock(client, clock.now_ms)
    return CarmineFourLayout(client, "carmine-4:emails", clock=clock)


def everything(queue: Any, state: State, size: int) -> list[str]:
    found, cursor = [], None
    while True:
        page = queue.page(state, cursor, size)
        assert len(page.entries) <= size
        found += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            return found


IN_ORDER: dict[State, list[str]] = {
    "waiting": ["first", "mid", "again", "last"],
    "pending": ["lost", "held", "odd%20id%FF%7B%7D"],
    "delayed": ["due", "later"],
    "dead": ["gone", "late", "first"],
    "done": [],
    "trash": [],
}


def test_every_state_is_counted_and_paged_in_its_order(
    client: redis.Redis, queue: CarmineFourLayout[redis.Redis]
) -> None:
    counts = queue.counts()
    assert (counts.waiting, counts.pending, counts.delayed, counts.dead) == (4, 3, 2, 3)
    assert counts.of("done") is None
    for state, wanted in IN_ORDER.items():
        for size in (1, 2, 3, 100):
            assert everything(queue, state, size) == wanted
        windows = [queue.page(state, start=n, max=2) for n in range(0, 6, 2)]
        assert [e.id for page in windows for e in page.entries] == wanted
        assert {page.total for page in windows} == {len(wanted)}
    named = {"odd%20id%FF%7B%7D": b"odd id\xff{}"}
    for mid, words in carmine_reader.states_4(client, "emails").items():
        listed = {s for s, ids in IN_ORDER.items() for i in ids if named.get(i, i.encode()) == mid}
        assert listed == {STATE_OF[word] for word in words}


def test_an_entry_is_what_its_record_says(
    queue: CarmineFourLayout[redis.Redis], clock: FakeClock
) -> None:
    def facts(id: str) -> tuple[Any, ...]:
        entry = queue.get(id)
        assert entry is not None
        return (entry.state, entry.called, entry.deliveries, entry.failures, entry.at_ms)

    now = clock.now_ms
    assert facts("mid") == ("waiting", "ready", 0, 0, None)
    assert facts("again") == ("waiting", "ready", 3, 3, None)
    assert facts("held") == ("pending", "leased, another follows", 1, 0, now + 9000)
    assert facts("lost") == ("pending", "lease-expired", 2, 1, now - 5)
    assert facts("odd%20id%FF%7B%7D") == ("pending", "leased", 300, 299, now + 9500)
    assert facts("later") == ("delayed", "scheduled", 1, 1, now + 5000)
    assert facts("first") == ("waiting", "ready", 0, 0, None), "the living one, not the dead"
    entry = queue.get("mid")
    assert entry and entry.payload == NPY + b"mid" and entry.since_ms == now - 60_000
    gone, late, _ = queue.page("dead", payloads=True).entries
    assert (gone.reason, gone.error and gone.error.message) == ("failed", "IOError: no route")
    assert (late.reason, late.failures, late.payload) == ("lost", 8, NPY + b"late")
    assert queue.get("nobody") is None


def test_pages_go_on_whatever_came_and_went(
    client: redis.Redis, queue: CarmineFourLayout[redis.Redis], clock: FakeClock
) -> None:
    base, now = base_4("emails"), clock.now_ms
    for n in range(30):  # many of one moment
        put_4(client, "emails", "scheduled", b"s%02d" % n, now + 7000, [1, 1, 0, 8, now], NPY)
    page = queue.page("delayed", None, 12)
    assert page.entries[-1].id == "s09" and page.cursor is not None
    client.zrem(base + "scheduled", "s09", "s10", "due")
    rest = []
    cursor: str | None = page.cursor
    while cursor is not None:
        page = queue.page("delayed", cursor, 4)
        rest += [entry.id for entry in page.entries]
        cursor = page.cursor
    assert rest == [f"s{n:02}" for n in range(11, 30)]


def test_what_does_not_add_up_is_said(
    client: redis.Redis, queue: CarmineFourLayout[redis.Redis]
) -> None:
    assert queue.invariants() == []
    base = base_4("emails")
    client.hdel(base + "payloads", "mid")
    client.hdel(base + "lease-tokens", "held")
    client.zrem(base + "ready-low", "last")
    client.hdel(base + "failures", "gone")
    client.delete(base + "config")
    said = queue.invariants()
    assert len(said) == 5 and any("3 leases and 2 tokens" in one for one in said)
    client.hset(base + "meta", "again", b"no list")
    entry = queue.get("again")
    assert entry and (entry.state, entry.called, entry.deliveries) == ("waiting", "corrupt", 0)


def test_it_is_found_beside_one_of_3_x_of_the_same_name(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq = Redisq(url, capsys)
    now: Any = client.time()
    stock(client, int(now[0]) * 1000)
    stock(client, int(now[0]) * 1000, "a:b {c}")
    client.hset("carmine:mq:emails:messages", "m", "x")
    client.rpush("carmine:mq:emails:mids-ready", "m")
    before = picture(client)
    rows = {row["name"]: row for row in redisq.rows("discover", "--dry-run")}
    assert set(rows) == {"carmine:emails", "carmine-4:emails", "carmine-4:a:b%20%7Bc%7D"}
    assert rows["carmine-4:emails"]["waiting"] == 4
    assert isinstance(run(client, Deployment().queue("carmine-4:emails")), CarmineFourLayout)
    assert isinstance(run(client, Deployment().queue("carmine:emails")), CarmineLayout)
    odd = run(client, Deployment(client).queue("carmine-4:a:b%20%7Bc%7D"))
    assert odd.counts().waiting == 4
    (entry,) = redisq.rows("inspect", "entry", "carmine-4:emails/mid")
    assert (entry["state"], entry["owner_state"]) == ("waiting", "ready")
    assert picture(client) == before
    redisq("discover", "--register", "--yes")
    assert {row["name"] for row in redisq.rows("ls")} == set(rows)
    after = picture(client)
    assert {key: after[key] for key in before} == before, "but for our registry nothing is written"


def test_it_is_not_ours_to_change(
    client: redis.Redis, queue: CarmineFourLayout[redis.Redis]
) -> None:
    before = picture(client)
    for refused in (
        lambda: queue.take(1, consumer="w"),
        lambda: queue.configure("op", 1, {"paused": "x"}),
        lambda: queue.move("op", 1, ["mid"], source="waiting", target="trash", high_water_ms=0),
    ):
        with pytest.raises(WrongKind, match="kept by another program"):
            refused()
    assert picture(client) == before


@pytest.mark.parametrize(
    "text",
    [
        "[]", "[1,2,3]", "[0,127,128,255,256,65535,65536,4294967295,4294967296]",
        "[-1,-32,-33,-128,-129,-32768,-32769,-2147483649]", "[1700000000000,9007199254740991]",
        "[true,false,0.5,-1.25]", '["","a","' + "x" * 40 + '","' + "y" * 300 + '"]',
        "[" + ",".join("7" * 20) + "]",
    ],
)  # fmt: skip
def test_the_servers_own_packing_is_read(client: redis.Redis, text: str) -> None:
    script = "return cmsgpack.pack(cjson.decode(ARGV[1]))"
    found: Any = client.eval(script, 0, text)
    wanted = [x.encode() if isinstance(x, str) else x for x in json.loads(text)]
    if not wanted:
        assert messagepack.items(found) in ([], None), "an empty table is no list there"
        return
    assert messagepack.items(found) == wanted
    assert messagepack.items(found[:-1]) is messagepack.items(found + b"\x00") is None


@pytest.mark.parametrize("data", [None, b"", b"\x81\x01\x02", b"\x93\x01", b"\xdc", b"\xdc\xff\xff",
                                  b"\x91\xc1", b"\x91\xd9", b"\x91\xcf\x00"])  # fmt: skip
def test_what_is_no_list_is_none(data: bytes | None) -> None:
    assert messagepack.items(data) is None
