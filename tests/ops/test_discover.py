"""Other programs' queues are found by their keys, shown, noted, forgotten; finding writes nothing.

The keys are made by hand, in the formats the programs write.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.registry import Registered, adopt, all_queues, distinct_name
from redisq_ops.core.foreign import recogniser
from redisq_ops.core.foreign.recognition import recognisers
from redisq_ops.core.model.quoting import legal, raw_of, shown
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.key_scan import Walk, literal
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedCluster, EmbeddedServer, binaries, cluster
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import Discovery, described, named

from ..command_line import Redisq
from ..conftest import Clusters
from ..core.foreign.test_articles import WRITES
from ..foreign_keys.article_programs import (
    CircularArticle,
    DelayArticle,
    FairArticle,
    RequestArticle,
)
from ..model.wire import picture

Client = redis.Redis
SIDEKIQ = {
    "class": "HardJob",
    "args": [1, "two"],
    "retry": True,
    "queue": "default",
    "jid": "b4a577edbccf1d805744efa9",
    "created_at": 1568305717.946,
    "enqueued_at": 1568305717.947,
}
RESQUE = {"class": "Archive", "args": [44, "masterbrew"]}
EVERYTHING = [
    "carmine:mails",
    "raw-circular:queue",
    "raw-delay:delay_set",
    "raw-fair:worker1",
    "raw-request:req",
    "resque:low",
    "sidekiq:default",
    "stream:orders",
]


def sidekiq(client: Any, at: str = "", queue: str = "default") -> None:
    client.sadd(f"{at}queues", queue)
    client.lpush(f"{at}queue:{queue}", json.dumps(SIDEKIQ))
    client.zadd(f"{at}schedule", {json.dumps(SIDEKIQ | {"jid": "c" * 24}): time.time() + 600})
    client.zadd(f"{at}retry", {json.dumps(SIDEKIQ | {"jid": "d" * 24}): time.time() + 60})
    client.zadd(f"{at}dead", {json.dumps(SIDEKIQ | {"jid": "e" * 24}): time.time() - 60})


def resque(client: Any, at: str = "resque:") -> None:
    client.sadd(f"{at}queues", "low")
    client.rpush(f"{at}queue:low", json.dumps(RESQUE))
    client.sadd(f"{at}workers", "host:123:low")
    client.set(f"{at}stat:processed", 7)
    client.zadd(f"{at}delayed_queue_schedule", {"1900000000": 1900000000})
    client.rpush(f"{at}delayed:1900000000", json.dumps(RESQUE))


def carmine(client: Any) -> None:
    client.hset("carmine:mq:mails:messages", "mid1", "NPY.content")
    client.lpush("carmine:mq:mails:mid-circle", "end-of-circle", "mid1")


def stream(client: Any, key: Any = "orders") -> None:
    client.xadd(key, {"n": 1})
    client.xgroup_create(key, "mail", id="0")
    client.xgroup_createconsumer(key, "mail", "w1")


def deploy(client: Any) -> None:
    """One of each, and ours beside."""
    sidekiq(client)
    resque(client)
    carmine(client)
    stream(client)
    RequestArticle(client).submit("r1", ["a", "b"], limit=1)
    turning = CircularArticle(client)
    turning.push("45", "46")
    turning.next(int(client.time()[0]))
    DelayArticle(client).enqueue("job", int(client.time()[0]) + 600)
    FairArticle(client).send("ann", 1, 2)
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    DelaySet(client, "later").schedule([("e", b"x")], after=60)


def look_alikes(client: Any) -> None:
    """Keys that are like a queue's, and of none that this recognises."""
    now = int(client.time()[0])
    client.lpush("app:queue:ids", "7b1f4c0e-5a44-4a67-8a7c-bd2f2f6b6f0e")
    client.sadd("app:workers", "w")
    client.zadd("seen", {"ann": now - 60, "bob": now - 5})
    client.zadd("board", {"ann": 17, "bob": now})
    client.geoadd("places", (13.4, 52.5, "berlin"))
    client.rpush("letters", "a", "b*c", "*", "x*17")
    client.rpush("app:queue:mail", "plain text", json.dumps({"class": "X"}))
    client.xadd("log", {"no": "groups"})
    client.sadd("queues:old", "x")
    client.hset("carmine:mq", "x", "y")
    client.mset({"counter": 1, "counter:{": 2, "sub:{x}": "text", "{req}:1": "text"})
    DelaySet(client, "theirs", prefix="other").schedule([("e", b"x")], after=60)
    client.zadd("resque:redisq:resque:low:lease", {"x": (now + 60) * 1000})


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


# --- what is found ------------------------------------------------------------------


def test_every_layout_is_found_once_and_ours_are_not(redisq: Redisq, client: Client) -> None:
    deploy(client)
    rows = redisq.rows("discover")
    assert names(rows) == EVERYTHING
    assert {row["name"]: row["waiting"] for row in rows} == {
        "carmine:mails": 1,
        "raw-circular:queue": 1,
        "raw-delay:delay_set": 0,
        "raw-fair:worker1": 2,
        "raw-request:req": 2,
        "resque:low": 1,
        "sidekiq:default": 1,
        "stream:orders": 1,
    }
    assert [row["name"] for row in rows if row["problem"] or row["faults"]] == []
    assert not any(row["registered"] for row in rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["resque:low"]["at"] == "resque:" and by_name["sidekiq:default"]["at"] == ""
    assert by_name["stream:orders"]["at"] == "orders"
    assert by_name["sidekiq:default"]["dead"] == 1
    said = redisq("discover")
    assert said.splitlines()[0].split() == [
        "name",
        "kind",
        "waiting",
        "pending",
        "delayed",
        "dead",
        "oldest",
        "registered",
        "faults",
    ]
    assert "8 queues of other programs in" in redisq.err
    assert "to show them in ls and the dashboard: redisq discover --register" in redisq.err


def test_what_only_looks_alike_is_left_out(redisq: Redisq, client: Client) -> None:
    look_alikes(client)
    assert redisq.rows("discover") == []
    assert redisq("discover") == ""
    deploy_names = ["sidekiq:default"]
    sidekiq(client)
    assert names(redisq.rows("discover")) == deploy_names


def test_faults_are_flagged_in_the_row(redisq: Redisq, client: Client) -> None:
    article = RequestArticle(client)
    article.submit("r", ["a", "b", "c"], limit=1)
    with pytest.raises(redis.ResponseError):
        article.insert("r", ["a", "b", "c"])
    article.submit("lost", ["a"], limit=1)
    article.pop(), article.pop()
    turning = CircularArticle(client)
    turning.push("old")
    turning.next(int(client.time()[0]) - 8000)
    circular, requests = redisq.rows("discover")
    assert requests["faults"] == [
        "lost: no token is left and nobody is at it: 1 of its entries never run",
        "r: its counter says 3, 0 are left: it never ends",
    ]
    assert "in progress for more than an hour (old" in circular["faults"][0]
    assert "raw-request:req: r: its counter says 3" in redisq("discover")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda c: c.sadd("queues", "default") and c.zadd("dead", {"x": 1.5e9}), "sidekiq:default"),
        (lambda c: c.sadd("ns:queues", "a") and c.sadd("ns:processes", "h:1"), "sidekiq:a~"),
        (lambda c: c.sadd("resque:queues", "low"), "resque:low"),
        (lambda c: c.sadd("a:queues", "low") and c.sadd("a:workers", "h:1:low"), "resque:low~"),
        (lambda c: c.rpush("a:queue:x:y", json.dumps(RESQUE)), "resque:x:y~"),
        (lambda c: c.rpush("queue:q", json.dumps(SIDEKIQ)), "sidekiq:q"),
        (lambda c: c.lpush("carmine:mq:a:b:mid-circle", "end-of-circle"), "carmine:a:b"),
        (lambda c: c.hset("carmine:mq:q:messages-rq", "m", "x"), "carmine:q"),
        (lambda c: c.set("counter:{r}", -1), "raw-request:req"),
        (lambda c: c.lpush("{req}:7", "r"), "raw-request:req"),
        (lambda c: c.sadd("bqueues:dead:w:x", "{}"), "raw-fair:w:x"),
        (lambda c: c.lpush("bqueues:w:no-json", "junk"), "raw-fair:w"),
        (lambda c: FairArticle(c, "a:b").send("c:d", 1), "raw-fair:a:b"),
        (lambda c: c.zadd("retry_later", {"x": 1.7e9}), "raw-delay:retry_later"),
        (lambda c: c.zadd("z", {"x": 4.0e12}), "raw-delay:z"),
        (lambda c: c.rpush("l", "a", "job-7*1700000000", "b"), "raw-circular:l"),
        (lambda c: c.rpush("l", "7*1700000000.25"), "raw-circular:l"),
    ],
)
def test_a_single_sign_is_enough(client: Client, make: Any, name: str) -> None:
    make(client)
    (found,) = discovered(client)
    assert re.sub(r"~[0-9a-f]{8}$", "~", found) == name


def discovered(client: Any, **how: Any) -> dict[str, Registered]:
    """All steps; what was found by name."""
    deployment = Deployment(client)
    search = Discovery(deployment, **how)
    while run(client, search.step()):
        pass
    rows = run(client, named(deployment, run(client, search.finds())))
    return {row.entry.name: row.entry for row in rows}


def test_any_bytes_in_a_key(redisq: Redisq, client: Client) -> None:
    keys = [b"{orders} 1", b"a/b|*", b"\xff\xfe", b"100%", b"\x1b[31m", b"x" * 300, "ü".encode()]
    for key in keys:
        stream(client, key)
    rows = redisq.rows("discover")
    assert len(rows) == len(keys) and all(row["waiting"] == 1 for row in rows)
    for row in rows:
        assert len(row["name"]) <= 128 and all(c not in "{}*|/ " for c in row["name"])
        assert row["name"].isprintable() and shown(row["name"]) == row["name"]
    # All but the long one say their key, and are found by it.
    short = [row["name"] for row in rows if len(row["name"]) < 128]
    assert sorted(raw_of(name.removeprefix("stream:")) for name in short) == sorted(
        key for key in keys if len(key) < 300
    )
    for name in short:
        assert redisq.rows("inspect", name)[0]["waiting"] == 1
    redisq("discover", "--register", "--yes")
    assert all(char.isprintable() or char == "\n" for char in redisq("ls"))
    listed = redisq.rows("ls")
    assert names(listed) == sorted(names(rows)) and all(row["waiting"] == 1 for row in listed)
    assert names(redisq.rows("discover")) == names(rows)
    assert all(row["registered"] for row in redisq.rows("discover"))


def test_quoted_names_are_legal_and_come_back() -> None:
    for raw in (b"plain", b"a{b}*c|d/e f%", bytes(range(256)), "ü☃".encode()):
        assert raw_of(legal(raw)) == raw
        assert not set(legal(raw)) & set("{}*|/ ")
    assert legal(b"orders:eu-1") == "orders:eu-1"


def test_a_stream_called_like_a_requests_is_one_only_with_its_group(client: Client) -> None:
    stream(client, "sub:{mine}")
    assert list(discovered(client)) == ["stream:sub:%7Bmine%7D"]
    RequestArticle(client).insert("theirs", ["a"])
    assert sorted(discovered(client)) == ["raw-request:req", "stream:sub:%7Bmine%7D"]


def test_two_of_one_name_are_told_apart(redisq: Redisq, client: Client) -> None:
    sidekiq(client)
    sidekiq(client, "staging:")
    one, two = redisq.rows("discover")
    assert one["name"] == "sidekiq:default" and two["name"].startswith("sidekiq:default~")
    assert (one["at"], two["at"], two["full_name"]) == ("", "staging:", "default")
    client.rpush("staging:queue:default", json.dumps(SIDEKIQ | {"jid": "f" * 24}))
    redisq("discover", "--register", "--yes")
    assert [row["waiting"] for row in redisq.rows("ls")] == [1, 2]
    assert names(redisq.rows("discover")) == [one["name"], two["name"]]


@pytest.mark.parametrize("there", [True, False], ids=["both", "only the other"])
@pytest.mark.parametrize(
    ("name", "home", "others"),
    [
        ("resque:low", "resque:", ("app:resque:", "rescue:")),
        ("sidekiq:low", "", ("app:", "staging:")),
    ],
)
def test_registering_never_gives_a_name_to_another_programs_queue(
    redisq: Redisq, client: Client, name: str, home: str, others: tuple[str, ...], there: bool
) -> None:
    for at in (home, *others) if there else others:
        job = json.dumps((SIDEKIQ if name.startswith("sidekiq") else RESQUE) | {"args": [at]})
        client.sadd(f"{at}queues", "low")
        client.rpush(f"{at}queue:low", job)

    def shown() -> str | None:
        queue: Any = run(client, Deployment(client).named(name))
        (entry,) = queue.page("waiting", payloads=True).entries if queue else (None,)
        return str(json.loads(entry.payload)["args"][0]) if entry else None

    rows = redisq.rows("discover")
    by_at = {row["at"]: row["name"] for row in rows}
    assert by_at.pop(home, name) == name and (shown() == home if there else shown() is None)
    assert all(re.fullmatch(f"{name}~[0-9a-f]{{8}}", other) for other in by_at.values())
    # One is noted before the others are seen: what it is called doesn't depend on that.
    redisq("discover", "--match", f"{others[0]}*", "--register", "--yes")
    redisq("discover", "--register", "--yes")
    assert {row["at"]: row["name"] for row in redisq.rows("discover")} == by_at | (
        {home: name} if there else {}
    )
    assert shown() == home if there else shown() is None
    if there:
        redisq("purge", name, "--state", "waiting", "--hard", "--yes")
        assert not client.exists(f"{home}queue:low")
    assert [client.llen(f"{at}queue:low") for at in others] == [1, 1]


@pytest.mark.parametrize(
    ("kind", "at"),
    [("resque", "app:resque:"), ("sidekiq", "low"), ("resque", ""), ("celery", "app:")],
)
def test_a_name_without_a_digest_means_the_usual_keys_whatever_the_registry_says(
    redisq: Redisq, client: Client, kind: str, at: str
) -> None:
    """Else who may write the registry could make a name mean another program's queue."""
    client.lpush(f"{at}queue:low" if kind != "celery" else f"{at}low", '{"class":"A","args":[]}')
    before = picture(client)
    name = f"{kind}:low"
    assert run(client, adopt(Registered(name, kind, 1, 0, at=at)))
    (row,) = redisq.rows("ls", code=3)
    assert "the registry entry" in row["problem"] and f"redisq queue rm {name}" in row["problem"]
    redisq("purge", name, "--state", "waiting", "--hard", "--yes", code=1)
    redisq("queue", "rm", name, "--yes")
    assert picture(client) == before


def test_a_queue_at_other_keys_has_the_name_that_discover_gives_it(
    redisq: Redisq, client: Client
) -> None:
    from redisq_ops.core.foreign.ruby_jobs import Job
    from redisq_ops.core.foreign.sidekiq import SidekiqQueue

    for at in ("", "app:"):
        queue = SidekiqQueue(client, "sidekiq:low", at=at)
        queue.push([Job("A")])
        (found,) = [row for row in redisq.rows("discover") if row["at"] == at]
        assert (found["name"], found["registered"], found["waiting"]) == (queue.name, True, 1)
        assert (queue.name == "sidekiq:low") == (at == "")
    assert [row["problem"] for row in redisq.rows("ls")] == [None, None]


def test_a_pattern_narrows_the_look(redisq: Redisq, client: Client) -> None:
    deploy(client)
    assert names(redisq.rows("discover", "--match", "ord*")) == ["stream:orders"]
    assert names(redisq.rows("discover", "--match", "*queue*")) == [
        "raw-circular:queue",
        "raw-fair:worker1",
        "resque:low",
        "sidekiq:default",
    ]
    assert redisq.rows("discover", "--match", "nothing") == []
    assert literal("a*[b]?\\") == "a\\*\\[b\\]\\?\\\\"


def test_a_kind_without_a_reader_is_named_all_the_same(
    redisq: Redisq, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    carmine(client)
    stream(client)
    from redisq_ops.core.engine.queue_classes import foreign_class

    monkeypatch.setattr(
        "redisq_ops.ops.discover.foreign_class",
        lambda kind: None if kind == "carmine" else foreign_class(kind),
    )
    unread, read = redisq.rows("discover", code=3)
    assert unread["name"] == "carmine:mails" and "can't read" in unread["problem"]
    assert unread["waiting"] is None and read["problem"] is None
    assert redisq.rows("discover", "--register", "--yes", code=3)[-1]["done"] == 1


def test_one_that_cannot_be_read_hides_no_other(redisq: Redisq, client: Client) -> None:
    stream(client)
    client.set("counter:{r}", 1)
    client.set("{req}:3", "text")
    requests, orders = redisq.rows("discover", code=3)
    assert "another type" in requests["problem"] and orders["waiting"] == 1
    assert "another type" in redisq("discover", code=3)


# --- bounds -------------------------------------------------------------------------


def test_round_trips_are_bounded_by_the_keys(client: Client) -> None:
    for start in range(0, 20_000, 5000):
        client.mset({f"session:{n}": "x" for n in range(start, start + 5000)})
    deploy(client)
    trips = []
    send: Any = redis.Connection.send_packed_command

    def counted(self: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        trips.append(command)
        return send(self, command, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Connection, "send_packed_command", counted)
        client.config_resetstat()
        assert len(discovered(client)) == 8
    # One a thousand keys, three more where keys are looked into, and ten to begin and to end.
    assert len(trips) <= 20 + 3 * 20 + 10
    stats: Any = client.info("commandstats")
    assert stats["cmdstat_scan"]["calls"] <= len(recogniser.lanes(recognisers())) * 22
    looked_into = sum(row["calls"] for name, row in stats.items() if name != "cmdstat_scan")
    assert looked_into < 200  # nothing is asked about the other keys


def test_of_a_key_only_a_fixed_little_is_read(client: Client) -> None:
    client.rpush("long", *(f"id{n}" for n in range(1000)), "7*1700000000", *range(1000))
    client.rpush("queue:big", *("x" * 20_000 for _ in range(200)))
    client.rpush("blobs", *("x" * 20_000 for _ in range(200)))
    client.rpush("queue:huge", "x" * 3_000_000)
    client.zadd("blobs_by_time", {"y" * 20_000 + str(n): 4e9 + n for n in range(100)})
    client.config_resetstat()
    received = client.info("stats")["total_net_output_bytes"]
    found = discovered(client)
    sent = client.info("stats")["total_net_output_bytes"] - received
    assert list(found) == ["raw-delay:blobs_by_time"]  # the mark is not at an end of its list
    stats: Any = client.info("commandstats")
    assert stats["cmdstat_lrange"]["calls"] == 2 and "cmdstat_zrange" not in stats
    assert sent < 60_000  # one element of 20 KB, no more


def test_most_ends_the_look_early_and_it_says_so(redisq: Redisq, client: Client) -> None:
    client.mset({f"session:{n}": "x" for n in range(10_000)})
    deploy(client)
    redisq("discover", "--max", "3000")
    assert "in 3,000 of about 10,0" in redisq.err
    assert len(redisq.rows("discover", "--max", "1000000")) == 8
    deployment = Deployment(client)
    search = Discovery(deployment, most=50)
    while run(client, search.step()):
        pass
    assert search.walk.looked == 50


def test_a_rate_is_kept_by_pausing(client: Client) -> None:
    client.mset({f"session:{n}": "x" for n in range(5000)})
    search = Discovery(Deployment(client), rate=1000, clock=lambda: 0.0)
    pauses = []
    while run(client, search.step()):
        pauses.append(search.pause)
    assert pauses == list(range(len(pauses))) and 5 <= len(pauses) <= 7
    slow = Discovery(Deployment(client), rate=7, clock=lambda: 0.0)
    run(client, slow.step())
    run(client, slow.step())
    assert (slow.walk.looked, slow.pause) == (7, 1)


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        ("--rate soon", "rate"),
        ("--rate 0", "rate"),
        ("--max 0", "--max"),
        ("--wat", "--wat"),
    ],
)
def test_bad_options_are_one_line(redisq: Redisq, words: str, fragment: str) -> None:
    assert fragment in redisq.refusal("discover", *words.split(), code=2)


def test_ctrl_c_says_what_was_found_so_far(
    redisq: Redisq, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.mset({f"session:{n}": "x" for n in range(5000)})
    deploy(client)
    step, steps = Walk.step, []

    async def interrupted(self: Walk) -> Any:
        steps.append(1)
        if len(steps) == 4:
            raise KeyboardInterrupt
        return await step(self)

    monkeypatch.setattr(Walk, "step", interrupted)
    before = picture(client)
    rows = redisq.rows("discover", "--register", "--yes", code=130)
    assert "interrupted" in redisq.err and "in 2,000 of about 5,0" in redisq.err
    assert 0 <= len(rows) <= 8 and not any("op" in row for row in rows)
    assert picture(client) == before


@pytest.mark.slow
def test_a_real_ctrl_c_ends_a_slow_look(client: Client, url: str) -> None:
    client.mset({f"session:{n}": "x" for n in range(20_000)})
    deploy(client)
    words = ["--url", url, "discover", "--rate", "4000/s", "--json"]
    code = "import sys; from redisq_ops.cli.main import main; main(sys.argv[1:])"
    client.config_resetstat()
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 90
        stats: Any = {}
        while stats.get("cmdstat_scan", {}).get("calls", 0) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)
            stats = client.info("commandstats")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    assert process.returncode == 130 and "interrupted" in err and "of about 20,0" in err
    assert all(json.loads(line)["kind"] for line in out.splitlines())


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [False, True])
def test_any_client_sees_the_same(client: Client, url: str, protocol: int, decode: bool) -> None:
    deploy(client)
    with redis.Redis.from_url(url, protocol=protocol, decode_responses=decode) as other:
        deployment = Deployment(other)
        search = Discovery(deployment)
        while run(other, search.step()):
            pass
        rows = run(other, named(deployment, run(other, search.finds())))
        seen = run(other, described(deployment, rows))
    assert [row.name for row in seen] == EVERYTHING
    assert not any(row.problem or row.checkup.flaws for row in seen)


def test_keys_that_go_or_change_while_they_are_looked_at(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream(client)
    client.set("text", "x")
    step = Walk.step

    async def moved(self: Walk) -> list[tuple[str, bytes]]:
        found = await step(self)
        gone = [(type_, key) for type_ in ("stream", "zset", "list") for key in (b"gone", b"text")]
        return [*gone, *found] if found else found

    monkeypatch.setattr(Walk, "step", moved)
    assert list(discovered(client)) == ["stream:orders"]


# --- reading only -------------------------------------------------------------------


def test_looking_writes_nothing_and_needs_only_read_rights(
    redisq: Redisq, client: Client, url: str
) -> None:
    deploy(client)
    client.acl_setuser(
        "viewer",
        enabled=True,
        nopass=True,
        reset=True,
        keys="*",
        categories=["+@read", "+@connection"],
        commands=["+time", "-@write"],
    )
    before = picture(client)
    client.config_resetstat()
    viewer = Redisq(url.replace("//", "//viewer:any@"), redisq._capsys)
    try:
        assert names(viewer.rows("discover")) == EVERYTHING
        assert names(viewer.rows("discover", "--register", "--dry-run")[:8]) == EVERYTHING
        viewer("discover", "--register", "--yes", code=1)
        assert "ACL says no" in viewer.err
    finally:
        client.acl_deluser("viewer")
    stats: Any = client.info("commandstats")
    assert not [name for name in WRITES if stats.get(f"cmdstat_{name}", {}).get("calls")]
    assert picture(client) == before


def test_keys_one_may_not_read_are_counted_and_hide_no_other(
    redisq: Redisq, client: Client
) -> None:
    for make in (sidekiq, resque):
        make(client)
    client.xadd("orders", {"a": "1"})
    client.xgroup_create("orders", "g")
    client.acl_setuser(
        "some",
        enabled=True,
        nopass=True,
        keys=["resque:*", "redisq:*"],
        categories=["+@read", "+@connection"],
        commands=["+time"],
    )
    address = redisq.url
    try:
        redisq.url = address.replace("//", "//some:x@")
        (row,) = [json.loads(line) for line in redisq("discover", "--json", code=3).splitlines()]
        assert (row["name"], row["waiting"], row["registered"]) == ("resque:low", 1, False)
        # a stream, Sidekiq's list, and its three sets by time
        assert "not looked at: 6 keys that this user may not read" in redisq.err
        assert "1 queue of other programs" in redisq.err
        client.acl_setuser("some", enabled=True, reset_keys=True, keys=["resque:*"])
        (row,) = [json.loads(line) for line in redisq("discover", "--json", code=3).splitlines()]
        assert (row["name"], row["registered"]) == ("resque:low", None), "nobody can know"
    finally:
        redisq.url = address
        client.acl_deluser("some")


@pytest.mark.slow
def test_it_works_on_a_replica(
    server: EmbeddedServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(client)
    args = ("--replicaof", f"127.0.0.1 {server.port}")
    client.config_set("repl-diskless-sync-delay", 0)
    with EmbeddedServer(Path(server._command[0]), args=args) as replica:
        with redis.Redis.from_url(replica.url) as there:
            deadline = time.monotonic() + 90
            while there.dbsize() != client.dbsize():
                assert time.monotonic() < deadline
                time.sleep(0.05)
        client.config_set("repl-diskless-sync-delay", 5)
        redisq = Redisq(replica.url, capsys)
        assert names(redisq.rows("discover")) == EVERYTHING
        redisq("discover", "--register", "--yes", code=1)
        assert "read-only replica" in redisq.err


# --- noted, shown, forgotten ---------------------------------------------------------


@pytest.mark.slow
def test_registered_they_are_shown_like_any_other(redisq: Redisq, client: Client) -> None:
    deploy(client)
    assert redisq.rows("discover", "--register", "--yes")[-1] == {
        "op": None,
        "matched": 8,
        "done": 8,
        "skipped": {},
    }
    rows = {row["name"]: row for row in redisq.rows("ls")}
    assert sorted(rows) == sorted([*EVERYTHING, "mail", "later"])
    assert all(row["problem"] is None for row in rows.values())
    assert rows["stream:orders"]["waiting"] == 1 and rows["stream:orders"]["in_per_min"] is None
    # What no layout lists is unknown without a look through the keys.
    assert rows["raw-request:req"]["waiting"] is rows["raw-fair:worker1"]["waiting"] is None
    for name in EVERYTHING:
        assert redisq.rows("inspect", name)[0]["name"] == name
        redisq("pending", "ls", name)
    checked = {row["queue"]: row for row in redisq.rows("fsck")}
    assert all(row["ok"] for row in checked.values()), checked
    assert "stream:orders" in redisq("top", "--once")
    # Again, and nothing is new.
    assert redisq.rows("discover", "--register", "--yes")[-1]["matched"] == 0
    assert all(row["registered"] for row in redisq.rows("discover"))


def test_fsck_flags_what_stays_wrong_and_says_what_it_left_out(
    redisq: Redisq, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.cli.commands.overview.MOMENT_S", 0)
    client.lpush("bqueues:processing:w", *(f"junk {n}" for n in range(1500)))
    redisq("discover", "--register", "--yes")
    (row,) = redisq.rows("fsck", "raw-fair:w", code=1)
    assert row["reads"] == 5 and "1,000 of 1,000 in processing are no messages" in row["faults"][1]
    assert row["not_checked"] == "only 1,000 of 1,500 messages in processing"
    assert "not looked at: only 1,000 of 1,500" in redisq("fsck", "raw-fair:w", code=1)


def test_a_finding_whose_number_moves_is_the_same_finding(
    redisq: Redisq, client: Client, naps: list[Callable[[float], object]]
) -> None:
    client.lpush("bqueues:processing:w", "{}")
    redisq("discover", "--register", "--yes")
    naps.append(lambda s: client.lpush("bqueues:processing:w", "{}"))
    (row,) = redisq.rows("fsck", "raw-fair:w", code=1)
    assert any("20 in processing" in line for line in row["faults"]) and row["momentary"] == 0


def test_registering_is_planned_and_confirmed(redisq: Redisq, client: Client) -> None:
    stream(client)
    before = picture(client)
    plan = redisq.rows("discover", "--register", "--dry-run")[-1]
    assert (plan["verb"], plan["matched"], plan["queues"]) == ("register", 1, ["stream:orders"])
    assert "register 1 queue\n  stream:orders\n" in redisq("discover", "--register", "--dry-run")
    redisq("discover", "--register", code=5)
    assert "--yes" in redisq.err
    assert picture(client) == before


def test_a_name_that_is_taken_meanwhile_stays_whose_it_is(redisq: Redisq, client: Client) -> None:
    from redisq_ops.ops.discover import register

    stream(client)
    (entry,) = discovered(client).values()
    redisq("discover", "--register", "--yes")
    outcome = run(client, register(Deployment(client), [replace(entry, at="elsewhere")]))
    assert (outcome.done, outcome.skipped) == (0, {"exists": 1})
    assert [e.at for e in run(client, all_queues())] == ["orders"]


def test_removing_anothers_queue_takes_the_name_out_and_leaves_the_keys(
    redisq: Redisq, client: Client
) -> None:
    deploy(client)
    before = picture(client)
    redisq("discover", "--register", "--yes")
    noted = picture(client)
    redisq("queue", "rm", "stream:orders", "--dry-run")
    redisq("queue", "rm", "stream:orders", code=5)
    assert picture(client) == noted
    assert redisq.rows("queue", "rm", "stream:orders", "--yes") == [
        {"op": None, "matched": 1, "done": 1, "skipped": {}}
    ]
    assert "stream:orders" not in names(redisq.rows("ls"))
    for name in set(EVERYTHING) - {"stream:orders"}:
        redisq("queue", "rm", name, "--yes")
    assert picture(client) == before


@pytest.mark.parametrize(
    ("name", "code", "fragment"),
    [
        ("mail", 1, "is not empty"),
        ("nope", 1, "no queue 'nope'"),
        ("stream:orders", 1, "is kept by another program"),
        ("a{b}", 2, "can't be used"),
    ],
)
def test_ours_with_entries_and_unknown_ones_are_not_removed(
    redisq: Redisq, client: Client, name: str, code: int, fragment: str
) -> None:
    deploy(client)
    before = picture(client)
    assert fragment in redisq.refusal("queue", "rm", name, "--yes", code=code)
    assert picture(client) == before


@pytest.mark.alike
def test_another_programs_queue_is_not_destroyed(redisq: Redisq, client: Client) -> None:
    """Refused before a plan is shown or a flag is set, registered or not."""
    deploy(client)
    before = picture(client)
    some = ["carmine:mails", "resque:low", "sidekiq:default", "stream:orders"]
    for name in (*some, "sidekiq"):
        said = redisq.refusal("queue", "rm", name, "--hard", "--yes", code=1)
        assert f"queue {name} is kept by another program" in said
    assert picture(client) == before
    redisq("discover", "--register", "--yes")
    before = picture(client)
    for name in some:
        said = redisq.refusal("queue", "rm", name, "--hard", "--yes", code=1)
        assert "it can't be removed from here" in said
    redisq.refusal("queue", "rm", "sidekiq:default", "--hard", "--dry-run", code=1)
    assert picture(client) == before


def test_our_own_queue_in_carmines_layout_is_not_taken_for_carmines(
    redisq: Redisq, client: Client
) -> None:
    from redisq_ops.core.engine.queue_classes import queue_class

    ours: Any = queue_class("carmine")
    ours(client, "carmine:ours").enqueue([("m1", b"x")])
    assert redisq.rows("discover") == []
    assert "is not empty" in redisq.refusal("queue", "rm", "carmine:ours", "--yes", code=1)


# --- past one server -----------------------------------------------------------------


@pytest.fixture(params=sorted(binaries()))
def nodes(request: pytest.FixtureRequest, clusters: Clusters) -> EmbeddedCluster:
    return clusters(request.param)


@pytest.mark.slow
def test_every_master_of_a_cluster_is_looked_at(
    nodes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url = nodes.urls[0].replace("redis://", "redis+cluster://")
    client: Any = connect(url)
    keys = [f"orders{n}" for n in range(12)]
    for key in keys:
        stream(client, key)
    article = RequestArticle(client)
    for n in range(6):  # the streams of one queue, on all nodes
        article.submit(f"r{n}", ["a", "b"], limit=1)
    article.insert("r7", ["a"])  # and a request without a token
    per_node = [sum(1 for _ in connect(one).scan_iter("orders*")) for one in nodes.urls]
    assert all(per_node) and sum(per_node) == 12
    redisq = Redisq(url, capsys)
    rows = redisq.rows("discover")
    assert names(rows) == ["raw-request:req", *sorted(f"stream:{key}" for key in keys)]
    assert rows[0]["waiting"] == 13
    assert rows[0]["faults"] == [
        "r7: no token is left and nobody is at it: 1 of its entries never run"
    ]
    redisq("discover", "--register", "--yes")
    assert names(redisq.rows("ls")) == names(rows)
    # A look of the room's own goes to every master as well.
    (row,) = redisq.rows("inspect", "raw-request:req")
    assert row["faults"] == rows[0]["faults"] and row["not_checked"] is None
    assert len(redisq.rows("waiting", "ls", "raw-request:req")) == 13
    redisq("queue", "rm", "stream:orders1", "--yes")


@pytest.mark.slow
def test_a_master_that_is_missing_is_named_and_hides_no_other() -> None:
    with cluster(next(iter(binaries().values()))) as three:
        client: Any = connect(three.urls[0].replace("redis://", "redis+cluster://"))
        for n in range(30):
            stream(client, f"orders{n}")
        keep = client.get_node_from_key("redisq:registry").port
        dead = next(node for node in three.nodes if node.port != keep)

        def is_lost(key: str) -> bool:
            return bool(client.get_node_from_key(key).port == dead.port)

        split = next(
            name
            for name in map(str, range(1000))
            if is_lost(f"bqueues:dead:{name}") and not is_lost(f"bqueues:processing:{name}")
        )
        client.lpush(f"bqueues:processing:{split}", "{}")
        there: Any = connect(dead.url)
        lost = {key.decode() for key in there.scan_iter("orders*")}
        dead.kill()
        deployment = Deployment(client)
        search = Discovery(deployment)
        while run(client, search.step()):
            pass
        assert list(search.walk.missing) == [f"127.0.0.1:{dead.port}"]
        found = run(client, named(deployment, run(client, search.finds())))
        half, *streams = run(client, described(deployment, found))
        assert {row.at for row in streams} == {f"orders{n}" for n in range(30)} - lost
        assert all(row.counts and row.counts.waiting == 1 for row in streams)
        assert half.name == f"raw-fair:{split}" and "doesn't answer" in (half.problem or "")


FRAMEWORKS = {
    "Huey": ["huey.schedule.app"],
    "SAQ": ["saq:default:schedule", "saq:default:incomplete"],
    "bee-queue": ["bq:mail:delayed", "bq:mail:stalling"],
    "APScheduler": ["apscheduler.run_times"],
    "Hangfire": ["{hangfire}:schedule"],
    "gocraft/work": ["app:scheduled", "app:retry"],
    "docket": ["shop:queue", "shop:workers"],
}
"""a program -> sorted sets of its, with times as scores"""
JOB = json.dumps({"name": "mail", "id": "1", "t": 1, "args": {}, "job": "Mail", "data": {}})


def test_keys_of_frameworks_are_no_queues_of_another_kind(redisq: Redisq, client: Client) -> None:
    soon = time.time() + 600
    alone = {"rq-scheduler": "rq:scheduler:scheduled_jobs", "RedBeat": "redbeat::schedule"}
    known = ["unacked_index", "_kombu.binding_deadlines", *alone.values()]
    for key in [*known, *(key for keys in FRAMEWORKS.values() for key in keys)]:
        client.zadd(key, {JOB: soon, "b": soon + 1})
    client.xgroup_create("shop:stream", "docket-workers", mkstream=True)
    for name in ("mail", "a:messages"):
        four = f"carmine:mq:v4:{{0123456789abcdef}}:{name}"
        client.hset(f"{four}:config", mapping={"schema": 1, "lease_ms": 60_000})
        client.zadd(f"{four}:scheduled", {"m": 1000 * soon})
        client.rpush(f"{four}:signal", "1")
    client.lpush("taskiq", json.dumps({"task_id": "1", "task_name": "mail", "labels": {}}))
    # Named alike, and nobody's of them.
    client.zadd("my_delays", {"a": soon})
    client.zadd("my:scheduled", {"a": soon})
    client.zadd("work:queue", {"a": soon})
    client.xgroup_create("work:stream", "readers", mkstream=True)
    client.lpush("celery", "{}")
    RequestQueue(client, "mail").submit([b"x"], id="r")
    others = ["raw-delay:my:scheduled", "raw-delay:my_delays", "raw-delay:work:queue"]
    assert names(redisq.rows("discover")) == [*others, "stream:work:stream"]
    redisq("discover")
    expected = {program: len(keys) for program, keys in FRAMEWORKS.items()}
    for program, number in (expected | {"docket": 1, "taskiq": 1, "Carmine 4": 6}).items():
        keys = f"{number} key{'s' * (number > 1)}"
        said = f"not shown: {keys} named as {program}'s, whose queues redisq can't read\n"
        assert said in redisq.err
    for program in alone:
        assert f"1 key named as {program}'s, and no queue of" in redisq.err
    # Named by hand, one can still be looked at.
    assert redisq.rows("inspect", "raw-delay:huey.schedule.app")


@pytest.mark.alike
@pytest.mark.parametrize(
    ("program", "name", "mark", "job", "key"),
    [
        ("RQ", "rq:mail", {"queues": "rq:queue:mail"}, "rq:job:j1", "rq:newregistry:mail"),
        (
            "BullMQ",
            "bullmq:mail",
            {"version": "bullmq:5.81.5"},
            "bull:mail:j1",
            "bull:mail:newstate",
        ),
    ],
)
def test_a_state_of_a_newer_release_is_named(
    redisq: Redisq, client: Client, program: str, name: str, mark: Any, job: str, key: str
) -> None:
    if program == "RQ":
        client.sadd("rq:queues", mark["queues"])
    else:
        client.hset("bull:mail:meta", mapping=mark)
    assert redisq("fsck", name) == f"{name}: adds up\n"
    client.hset(job, mapping={"data": "x", "origin": "mail", "name": "send", "timestamp": "1"})
    client.zadd(key, {"j1": time.time() + 60})
    assert names(redisq.rows("discover")) == [name]
    said = f"not shown: 1 key of {program}'s queues, in a state that this release of redisq doesn't"
    assert said in redisq.err
    (row,) = redisq.rows("fsck", name, code=1)
    assert row["faults"] == [
        f"key {key} is of a state that this release of redisq doesn't know: "
        "what is in it is not counted"
    ]
    said = redisq.refusal("inspect", f"{name}/j1", code=1)
    assert said.startswith(f"job j1 of queue {name} is there, and in no list or set that this")
    assert "no entry nowhere" in redisq.refusal("inspect", f"{name}/nowhere", code=1)


def test_keys_that_bull_and_bullmq_name_alike_are_bullmqs_beside_its_mark(
    redisq: Redisq, client: Client
) -> None:
    client.hset("bull:mail:meta", mapping={"version": "bullmq:5.81.5"})
    for queue in ("mail", "old"):
        client.zadd(f"bull:{queue}:failed", {"1": time.time() * 1000})
    client.sadd("rq:queues", "rq:queue:mail")
    client.zadd("rq:scheduler:scheduled_jobs", {"job": time.time() + 60})
    assert names(redisq.rows("discover")) == ["bullmq:mail", "rq:mail"]
    redisq("discover")
    assert "not shown: 1 key named as those of Bull and BullMQ" in redisq.err
    assert "rq-scheduler" not in redisq.err
    client.set("bull:old:id", 1)
    assert names(redisq.rows("discover")) == ["bull:old", "bullmq:mail", "rq:mail"]


def test_a_state_that_a_layout_does_not_tell_is_called_unknown(
    redisq: Redisq, client: Client
) -> None:
    client.zadd("my_delays", {"a": time.time() + 600})
    for more in ((), ("--json",)):
        assert redisq("pending", "ls", "raw-delay:my_delays", *more) == ""
        assert redisq.err == (
            "raw-delay:my_delays: unknown: a raw-delay queue keeps no list of its pending entries\n"
        )
    redisq("dlq", "ls", "raw-delay:my_delays")
    assert redisq.err == "raw-delay:my_delays: 0 dead entries\n"


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("mail", {"kind": "resque", "at": "resque:", "called": "low"}),
        ("mail", {"kind": "resque", "at": "resque:"}),
        ("resque:other", {"kind": "resque", "at": "resque:", "called": "low"}),
        ("resque:low~00000000", {"kind": "resque", "at": "resque:", "called": "low"}),
        ("resque:low", {"kind": "fair"}),
    ],
)
def test_the_registry_gives_no_other_name_to_another_programs_queue(
    redisq: Redisq, client: Client, name: str, entry: dict[str, str]
) -> None:
    """A user who may write the registry could make an administrator's purge delete jobs."""
    resque(client)
    before = client.lrange("resque:queue:low", 0, -1)
    client.hset("redisq:registry", name, json.dumps(entry | {"schema": 1, "created_ms": 1}))
    said = redisq.refusal("purge", name, "--state", "waiting", "--hard", "--yes", code=1)
    assert f"the registry entry of {name} is corrupt" in said
    assert before and client.lrange("resque:queue:low", 0, -1) == before


def test_rqs_keys_and_ours_are_told_apart(redisq: Redisq, client: Any, url: str) -> None:
    """RQ's keys begin with rq:, ours with redisq:."""
    client.sadd("rq:queues", "rq:queue:mail")
    client.hset(
        "rq:job:j1",
        mapping={
            "status": "queued",
            "origin": "mail",
            "created_at": "2026-01-01T00:00:00.000000Z",
            "data": b"x",
        },
    )
    client.rpush("rq:queue:mail", "j1")
    run(client, RequestQueue(client, "mail")._ensure_registered())
    assert names(redisq.rows("discover")) == ["rq:mail"]
    redisq("discover", "--register", "--yes")
    assert names(redisq.rows("ls")) == ["mail", "rq:mail"]

    client.execute_command(*redisq("acl", "worker").split())
    try:
        worker: Any = redis.Redis.from_url(url, username="redisq-worker", password="change-me")
        for command in (
            ("DEL", "rq:queue:mail"),
            ("LPUSH", "rq:queue:mail", "j2"),
            ("HSET", "rq:job:j1", "status", "x"),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                worker.execute_command(*command)
        RequestQueue(worker, "mail").take(1, consumer="w")
    finally:
        client.execute_command("ACL", "DELUSER", "redisq-worker")


@pytest.mark.parametrize(("kind", "theirs"), [("sidekiq", "resque"), ("resque", "sidekiq")])
def test_a_registry_entry_that_names_another_program_s_keys_changes_none_of_them(
    client: redis.Redis, redisq: Redisq, kind: str, theirs: str
) -> None:
    """Who may write the registry must not aim an administrator's purge at jobs of others."""
    job = {"class": "Job", "args": [], "queue": "mail"}
    client.sadd("app:queues", "mail")
    client.rpush("app:queue:mail", json.dumps(job | ({} if theirs == "resque" else {"jid": "a"})))
    name = distinct_name(kind, b"app:", b"mail")
    entry = Registered(name, kind, 1, 1, at="app:", called="mail")
    client.hset("redisq:registry", name, entry.encoded())
    before = client.dump("app:queue:mail")
    redisq("purge", name, "--state", "waiting", "--yes", code=1)
    assert f"under 'app:' is of kind {theirs}" in redisq.err
    assert client.dump("app:queue:mail") == before and redisq.rows("log") == []
    redisq("queue", "rm", name, "--yes")
    redisq("discover", "--register", "--yes")
    assert "1 of 1" in redisq("purge", redisq.rows("ls")[0]["name"], "--state", "waiting", "--yes")
