"""ls, inspect, log, history, config and fsck, as a person or a program reads them."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import overview

from ..command_line import ERROR, Redisq, dead_letters, everywhere
from ..model.wire import picture

pytestmark = pytest.mark.alike


@pytest.fixture
def own(server: EmbeddedServer) -> Iterator[Callable[..., EmbeddedServer]]:
    """Starts servers that a test may spoil."""
    started: list[EmbeddedServer] = []

    def start(*args: str) -> EmbeddedServer:
        started.append(EmbeddedServer(Path(server._command[0]), args=args))
        return started[-1]

    yield start
    for one in started:
        one.close()


# --- ls -----------------------------------------------------------------------


@pytest.mark.slow
def test_what_the_locale_has_no_characters_for_is_escaped(url: str, client: redis.Redis) -> None:
    dead_letters(client, 3)
    words = [sys.executable, "-m", "redisq_ops", "replay", "mail", "--dry-run", "--url", url]
    done = subprocess.run(
        words, env={**os.environ, "PYTHONIOENCODING": "latin-1"}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2248" in done.stdout


def test_ls_counts_every_state(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    later, mail = redisq.rows("ls")
    assert (later["name"], later["kind"], later["delayed"]) == ("later", "delay", 1)
    states = ("waiting", "pending", "delayed", "dead", "done", "trash")
    assert [mail[state] for state in states] == [4, 1, 1, 1, 1, 0]
    assert mail["oldest_age_ms"] >= 0 and mail["paused"] is None and mail["problem"] is None
    lines = redisq("ls").splitlines()
    assert lines[0].split()[:6] == ["name", "kind", "waiting", "pending", "delayed", "dead"]
    assert lines[2].split()[:6] == ["mail", "request", "4", "1", "1", "1"]


def test_ls_rates_are_of_the_last_sixty_seconds(redisq: Redisq, client: redis.Redis) -> None:
    seconds, _ = client.time()
    queue = RequestQueue(client, "mail", clock=FakeClock((seconds - 3600) * 1000))
    queue.submit([b"a", b"b"], id="long-ago")
    RequestQueue(client, "mail").submit([b"a", b"b", b"c"], id="now")
    (row,) = redisq.rows("ls")
    assert (row["in_per_min"], row["out_per_min"], row["failed_per_min"]) == (3, 0, 0)


def test_only_for_the_time_to_drain_an_hour_of_rates_is_read(
    redisq: Redisq, client: redis.Redis
) -> None:
    clock = FakeClock(client.time()[0] * 1000 - 7_200_000)
    old = RequestQueue(client, "old", clock=clock)
    old.submit([b"x"] * 90, id="r")
    clock.now_ms += 7_200_000 - 1_200_000
    old.settle([Settlement(each, "ack") for each in old.take(40, consumer="w").deliveries])
    RequestQueue(client, "quiet").submit([b"x"], id="r")
    found = run(client, overview(Deployment(client)))
    assert [len(row.rates.arrived) for row in found.rows if row.rates] == [60, 6]
    assert "oldest waits 2 h, drains in ≈ " in redisq("ls")


def test_rates_slide_over_the_minute_before() -> None:
    rates = Rates(arrived=(9, 60, 5), settled=(0, 0, 7), failed=(1,))
    assert rates.last_minute(600_000 + 15_000) == (50, 7, 1)  # 5 + 45/60 of 60


def test_a_pace_begins_with_the_first_that_was_settled() -> None:
    settled = (0,) * 50 + (100, *[40] * 9)
    young = Rates(arrived=settled, settled=settled, failed=settled)
    assert young.pace(600_000) == 460 / 9
    assert young.pace(600_000 + 30_000) == 460 / 9.5
    few = Rates(arrived=(), settled=(*[0] * 59, 29), failed=())
    assert few.pace(600_000) is None and Rates((), (), ()).pace(0) is None
    now = Rates(arrived=(), settled=(*[0] * 59, 300), failed=())
    assert now.pace(600_000 + 1_000) == 300, "a second is no minute"


def test_ls_of_nothing_says_so(redisq: Redisq) -> None:
    assert redisq("ls") == ""
    assert "no queues here" in redisq.err
    assert redisq.rows("ls") == []


def test_ls_shows_the_others_when_one_queue_is_broken(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    everywhere(client, "spoilt")
    client.delete("redisq:{spoilt}:lease")
    client.set("redisq:{spoilt}:lease", "not a sorted set")
    newer = {"kind": "request", "schema": 99, "created_ms": 0}
    client.hset("redisq:registry", "tomorrow", json.dumps(newer))
    mail, spoilt, tomorrow = redisq.rows("ls", code=3)
    assert mail["dead"] == 1 and mail["problem"] is None
    assert spoilt["dead"] is None and "another type" in spoilt["problem"]
    assert "newer release" in tomorrow["problem"]


def test_ls_says_what_is_wrong_as_check_does(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 3)
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    later, mail = redisq.rows("ls")
    assert later["trouble"] == []
    checked = redisq.rows("check", "--explain", "--set", "dead=10", code=1)
    broken = {one["rule"]: one["reason"] for one in checked if one.get("reason")}
    assert {one["rule"]: one["reason"] for one in mail["trouble"]} == broken != {}
    assert redisq("ls").splitlines()[2].endswith(" 3 dead, mostly SMTP")


def test_a_pause_is_shown_as_it_was_given(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    redisq("queue", "pause", "mail", "--reason", "50% \x1b[31m off", "--yes")
    assert redisq.rows("ls")[0]["paused"] == "50% \x1b[31m off"
    assert ": 50% \\x1b[31m off" in redisq("ls")


# --- inspect ------------------------------------------------------------------


def test_inspect_request_adds_up(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    (row,) = redisq.rows("inspect", "r1")
    assert (row["queue"], row["id"], row["state"]) == ("mail", "r1", "sealed")
    assert (row["priority"], row["limit"], row["total"]) == (50, 8, 8)
    states = ("waiting", "pending", "delayed", "done", "dead", "trash")
    assert [row[state] for state in states] == [4, 1, 1, 1, 1, 0]
    assert (row["tokens_held"], row["tokens_free"]) == (1, client.llen(queue.keys["p_"] + "50"))
    assert row["stream"]["length"] == client.xlen(queue.keys["s_"] + "r1") == 7
    (pending,) = row["pending_entries"]
    assert (pending["id"], pending["consumer"], pending["attempts"]) == ("r1/5", "w1", 0)
    assert 0 < pending["lease_left_ms"] <= 30_000 and pending["idle_ms"] >= 0
    assert row["pel_differs"] == []
    assert client.xpending(queue.keys["s_"] + "r1", "g")["pending"] == row["pending"]
    assert row["results_bytes"] == 4


def test_inspect_request_says_when_the_streams_list_is_not_ours(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = everywhere(client)
    client.xack(queue.keys["s_"] + "r1", "g", "5-0")
    (row,) = redisq.rows("inspect", "r1")
    (surprise,) = row["pel_differs"]
    assert surprise["entries"] == 0 and "fsck" in surprise["reason"]


@pytest.mark.slow
def test_inspect_states_the_window_of_history(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(client)
    for n in range(30):
        redisq("queue", "pause", "mail", "--reason", f"n{n}", "--yes")
    (row,) = redisq.rows("inspect", "r1")
    assert (row["history"]["scanned"], row["history"]["total"]) == (31, 31)
    (event,) = row["history"]["events"]
    assert event["what"]["dead"] == ["r1/2|rejected"]
    assert "1 about it in the latest 31 of 31 events" in redisq("inspect", "r1")
    # Another request whose name begins the same is another story.
    assert redisq.rows("inspect", "mail/r1/5")[0]["history"]["events"] == []


def test_the_history_of_an_entry_is_in_one_order_for_all(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = everywhere(client)
    for _ in range(3):  # it fails, is dead, is replayed and rejected again
        redisq("replay", "mail/r1/2", "--yes")
        (again,) = [d for d in queue.take(9, consumer="w2").deliveries if d.id == "r1/2"]
        queue.settle([Settlement(again, "reject", ERROR.encoded())])
    latest = queue.history(1)[0].id
    for what in ("mail/r1/2", "r1"):
        (row,) = redisq.rows("inspect", what)
        events = row["history"]["events"]
        ids = [event["id"] for event in events]
        assert len(ids) == 4 and ids[-1] == latest
        assert ids == [row["id"] for row in redisq.rows("history", "mail") if row["id"] in ids]
        shown = redisq("inspect", what).split("history: 4 about it")[1]
        assert re.findall(r"  by (\w+)", shown) == ["w1", "w2", "w2", "w2"]


def test_inspect_entry_names_the_change_that_touched_it_last(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDISQ_USER", "ada")
    queue = everywhere(client)
    dead = ("inspect", "mail/r1/2")
    assert redisq.rows(*dead)[0]["operation"] is None
    (purged,) = redisq.rows("dlq", "purge", "mail", "--reason", "known [b]bug\x1b", "--yes")
    (row,) = redisq.rows(*dead)
    done = row["operation"]
    assert (row["op"], done["id"], done["verb"]) == (purged["op"], purged["op"], "purge")
    assert (done["user"], done["reason"], done["source"]) == ("ada", "known [b]bug\x1b", "dead")
    assert done["started_ms"] <= row["since_ms"] and done["undoable"] is True
    (logged,) = redisq.rows("log")
    assert done == logged
    last = redisq(*dead).splitlines()[-1]
    assert re.search(r"  purge of 1 dead entry \(op purge-\w+\)  by ada@\S+: known \[b\]bug", last)
    assert r"\x1b" in last and "\x1b" not in last
    # What the journal keeps no more is only named.
    client.delete(queue.keys["op_"] + purged["op"])
    (row,) = redisq.rows(*dead)
    assert (row["op"], row["operation"]) == (purged["op"], None)
    assert purged["op"] in redisq(*dead)


def test_inspect_looks_into_the_shard_that_has_the_request(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = ShardedRequestQueue(client, "wide", shards=4)
    id = next(id for n in range(99) if home(id := f"r{n}", 4) == 3)
    queue.submit([b"x"] * 5, id=id, limit=2)
    queue.take(2, consumer="w1")
    (row,) = redisq.rows("inspect", f"wide/{id}")
    assert row["stream"]["key"] == f"redisq:{{wide/3}}:s:{id}"
    assert row["stream"]["length"] == client.xlen(row["stream"]["key"]) == 5
    assert [held["attempts"] for held in row["pending_entries"]] == [0, 0]
    assert all(held["idle_ms"] >= 0 for held in row["pending_entries"])
    (entry,) = redisq.rows("inspect", f"wide/{id}/1")
    assert entry["idle_ms"] >= 0


@pytest.mark.parametrize(
    ("n", "state", "known"),
    [
        (1, "done", {"result": "fine", "payload": None}),
        (2, "dead", {"reason": "rejected", "failures": 1}),
        (3, "delayed", {"failures": 1, "consumer": "w1"}),
        (4, "waiting", {"failures": 1}),
        (5, "pending", {"attempts": 0, "consumer": "w1"}),
        (6, "waiting", {"failures": 0, "consumer": None}),
    ],
)
def test_inspect_entry_in_every_state(
    redisq: Redisq, client: redis.Redis, n: int, state: str, known: dict[str, object]
) -> None:
    everywhere(client)
    (row,) = redisq.rows("inspect", f"mail/r1/{n}")
    assert row["state"] == state
    assert {name: row[name] for name in known} == known
    assert (row["ready_ms"] is not None) == (state == "delayed")
    assert (row["deadline_ms"] is not None) == (state == "pending")


def test_inspect_entry_of_a_delay_set(redisq: Redisq, client: redis.Redis) -> None:
    DelaySet(client, "later").schedule([("e1", b"hello")], after=60)
    (row,) = redisq.rows("inspect", "later/e1")
    assert (row["state"], row["payload"]) == ("delayed", "hello")


def test_inspect_queue(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    redisq("settings", "mail", "max_lost=7", "--yes")
    (row,) = redisq.rows("inspect", "mail")
    assert (row["waiting"], row["open_requests"], row["settled_requests"]) == (4, 1, 0)
    assert row["settings"]["max_lost"] == "7"
    assert [(level["priority"], level["tokens"]) for level in row["levels"]] == [(50, 4)]
    assert "max_lost=7" in redisq("inspect", "mail")
    assert row["shards"] == 1 and "shards" not in redisq("inspect", "mail")
    ShardedDelaySet(client, "wide", shards=3).schedule([("e1", b"x")], after=0)
    (wide,) = redisq.rows("inspect", "wide")
    assert wide["shards"] == 3
    assert re.search(r"shards +3", redisq("inspect", "wide"))


def test_requests_are_listed_open_or_settled(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    queue.submit([b"x"], id="r2", priority=7)
    queue.submit([], id="over")
    DelaySet(client, "later").schedule([("e1", b"x")])
    rows = redisq.rows("request", "ls")
    assert [(row["id"], row["priority"], row["total"]) for row in rows] == [
        ("r1", 50, 8),
        ("r2", 7, 1),
    ]
    assert [row["id"] for row in redisq.rows("request", "ls", "ma*", "--settled")] == ["over"]
    assert "mail/r1" in redisq("request", "ls", "mail", "--max", "1")
    assert redisq.err == "mail: more than 1: --max shows more\n"
    assert "has no requests" in redisq.refusal("request", "ls", "later", code=1)
    RequestQueue(client, "other").submit([], id="finished")
    redisq("request", "ls", "other")
    assert redisq.err == "no open requests; --settled lists finished ones\n"


def test_a_word_says_what_inspect_shows_where_a_queue_has_the_name_of_a_request(
    redisq: Redisq, client: redis.Redis
) -> None:
    everywhere(client)
    DelaySet(client, "r1").schedule([("e1", b"x")], after=60)
    assert redisq.rows("inspect", "r1")[0]["name"] == "r1"
    assert redisq.rows("inspect", "queue", "r1")[0]["name"] == "r1"
    assert redisq.rows("inspect", "request", "r1")[0]["waiting"] == 4
    assert redisq.rows("inspect", "entry", "e1")[0]["state"] == "delayed"
    said = redisq.refusal("inspect", "entry", "mail/r1", code=2)
    assert "'mail/r1' is no entry, but a request" in said
    assert "write one address" in redisq.refusal("inspect", "r1", "e1", code=2)
    redisq.refusal("inspect", code=2)


def test_inspect_and_wait_find_out_what_is_named(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    assert [redisq.rows("inspect", what)[0]["waiting"] for what in ("mail", "mail/r1", "r1")] == [
        4,
        4,
        4,
    ]
    assert redisq.rows("inspect", "mail/r1/2")[0]["state"] == "dead"
    assert redisq.rows("wait", "mail", "--until", "dead=1")[0]["name"] == "mail"
    said = redisq.refusal("wait", "mail", "--timeout", "10ms", code=124)
    assert "still not waiting=0 pending=0 delayed=0 in queue mail" in said
    assert "still open: 1 of 1: r1" in redisq.refusal("wait", "r1", "--timeout", "10ms", code=124)


def test_a_bare_id_is_found_in_any_queue_and_refused_in_two(
    redisq: Redisq, client: redis.Redis
) -> None:
    everywhere(client)
    assert redisq.rows("inspect", "r1/2")[0]["address"] == "mail/r1/2"
    everywhere(client, "news")
    said = redisq.refusal("inspect", "r1", code=2)
    assert "mail/r1" in said and "news/r1" in said


@pytest.mark.parametrize(
    ("words", "code", "fragment"),
    [
        ("inspect mail/nope", 1, "no request nope in queue mail"),
        ("inspect nope", 1, "nothing here is called 'nope'"),
        ("inspect mail/r1/99", 1, "no entry r1/99 in queue mail"),
        ("inspect mail/r1/x", 1, "no entry r1/x"),
        ("inspect a{b}", 2, "can't be used"),
        ("inspect mail/", 2, "can't be used"),
        ("history nope", 1, "no queue"),
        ("fsck nope", 1, "no queue"),
        ("log --queue nope", 1, "no queue"),
        ("log --max 0", 2, "--max"),
        ("ls --wat", 2, "--wat"),
        ("dlq ls --queue nope", 1, "no queue"),
        ("dlq ls", 1, "none is called 'default': say which: later, mail"),
        ("select", 1, "none is called 'default': say which: later, mail"),
        ("request resume later/e1 --yes", 1, "no requests"),
        ("wait mail r1", 2, "mail is a queue: wait for it alone"),
        ("wait r1 --until dead>0", 2, "--until is a condition of a queue"),
        ("dlq ls mail --match (a|b", 2, "column 1: missing )"),
        ("dlq ls mail --match a{2,1}", 2, "column 2: a repetition is"),
        ("dlq ls mail --older-than soon", 2, "not a time span"),
        ("dlq ls mail --max 0", 2, "--max"),
        ("dlq nope", 2, "write redisq dlq ls nope (see"),
        ("config --context nope", 2, "no context"),
    ],
)
def test_bad_input_is_one_line(
    redisq: Redisq, client: redis.Redis, words: str, code: int, fragment: str
) -> None:
    everywhere(client)
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    before = picture(client)
    assert fragment in redisq.refusal(*words.split(), code=code)
    assert picture(client) == before
    redisq(*words.split(), "--json", code=code)
    said = json.loads(redisq.err)
    assert fragment in said["error"]["message"] and said["exit"] == code


# --- lists --------------------------------------------------------------------


def test_lists_of_entries(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    waiting = redisq.rows("waiting", "ls", "--queue", "mail")
    assert [(row["address"], row["state"]) for row in waiting] == [
        (f"mail/r1/{n}", "waiting") for n in (4, 6, 7, 8)
    ]
    assert [row["failures"] for row in waiting] == [1, 0, 0, 0]
    shown = redisq("waiting", "ls", "mail/r1")
    assert re.findall(r"^mail/r1/\d", shown, re.M) == [row["address"] for row in waiting]
    for noun, n, state in (("pending", 5, "pending"), ("delay", 3, "delayed"), ("dlq", 2, "dead")):
        (row,) = redisq.rows(noun, "ls", "--queue", "mail")
        assert (row["address"], row["state"]) == (f"mail/r1/{n}", state)
        assert "payload" not in row  # its bytes are no UTF-8
        assert row["payload_b64"]
        assert f"mail/r1/{n}" in redisq(noun, "ls", "mail/r1")
    assert redisq.rows("trash", "ls", "mail") == []
    assert redisq("trash", "ls", "mail") == ""
    assert "0 entries in the trash" in redisq.err


def test_a_list_is_filtered(redisq: Redisq, client: redis.Redis) -> None:
    clock = FakeClock(int(client.time()[0]) * 1000 - 7_200_000)
    everywhere(client, clock=clock)
    dead_letters(client, 12, "news")
    assert [row["id"] for row in redisq.rows("waiting", "ls", "mail", "--older-than", "1h")] == [
        "r1/4"  # the others only ever waited
    ]
    assert [row["id"] for row in redisq.rows("waiting", "ls", "mail", "--match", "[67]")] == [
        "r1/6",
        "r1/7",
    ]
    ls = ("dlq", "ls")
    assert len(redisq.rows(*ls, "mail", "--older-than", "1h")) == 1
    assert redisq.rows(*ls, "mail", "--older-than", "3h") == []
    assert len(redisq.rows(*ls, "news", "--match", "^r1/1")) == 4  # 1, 10, 11, 12
    assert len(redisq.rows(*ls, "news", "--match", "mailbox")) == 12
    assert redisq.rows(*ls, "news", "--match", "Mailbox") == []
    assert len(redisq.rows(*ls, "news", "--max", "5")) == 5
    assert len(redisq.rows(*ls, "mail", "news/r1/3")) == 2
    assert [row["id"] for row in redisq.rows(*ls, "--queue", "news", "r1/3", "r1/3")] == ["r1/3"]


@pytest.mark.slow
def test_a_long_list_is_whole_for_programs_and_says_what_it_cut_for_people(
    redisq: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 1203)
    assert len({row["id"] for row in redisq.rows("dlq", "ls", "mail")}) == 1203
    assert len(redisq("dlq", "ls", "mail").splitlines()) == 101
    assert "100 dead entries of 1,203" in redisq.err
    redisq("dlq", "ls", "mail", "--max", "1203")
    assert "1,203 dead entries\n" in redisq.err


# --- what reaches a terminal --------------------------------------------------


@pytest.mark.slow
def test_nothing_that_a_terminal_acts_on_gets_out(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    redisq("queue", "drain", "mail", "--reason", "\x1b]0;x\x07[b]", "--yes")
    for words in (
        "ls",
        "inspect mail",
        "inspect r1",
        "dlq ls mail",
        "delay ls mail",
        "log",
        "history mail",
        "waiting ls mail",
        *(f"inspect mail/r1/{n}" for n in range(1, 9)),
    ):
        for more in ([], ["--json"]):
            out = redisq(*words.split(), *more) + redisq.err
            assert all(char.isprintable() or char == "\n" for char in out), (words, more)
    assert "[red]" in redisq("inspect", "mail/r1/2")
    assert r"2 [red]\x1b]52;c;aGk=\x07\xff" in redisq("inspect", "mail/r1/2")


@pytest.mark.slow
def test_looking_writes_nothing_and_needs_only_read_rights(
    redisq: Redisq, client: redis.Redis, url: str
) -> None:
    everywhere(client)
    redisq("dlq", "purge", "mail", "--yes")
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
    viewer = Redisq(url.replace("//", "//viewer:any@"), redisq._capsys)
    try:
        for words in (
            "ls",
            "inspect mail",
            "inspect r1",
            "inspect mail/r1/4",
            "waiting ls mail",
            "pending ls mail",
            "dlq ls mail",
            "delay ls mail",
            "trash ls mail",
            "inspect mail/r1/2",
            "top --json",
            "log",
            "history mail",
            "settings mail",
            "fsck",
            "replay mail --dry-run",
        ):
            viewer(*words.split())
        assert picture(client) == before
        viewer("queue", "pause", "mail", "--yes", code=1)
        assert "ACL says no" in viewer.err
        assert picture(client) == before
    finally:
        client.acl_deluser("viewer")


def test_times_have_their_zone(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(client, clock=FakeClock(1_700_000_000_000))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert "2023-11-15 03:43:20+05:30" in redisq("inspect", "r1")
        assert "2023-11-14 22:13:20+00:00" in redisq("inspect", "r1", "--utc")
    finally:
        monkeypatch.undo()
        time.tzset()


# --- log, history, config, fsck -----------------------------------------------


@pytest.mark.slow
def test_log_says_who_what_why_and_whether_it_can_be_undone(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDISQ_USER", "ada")
    monkeypatch.setattr("redisq_ops.ops.change.audit_log._PAGE", 1)
    everywhere(client)
    assert redisq("log") == ""
    redisq("dlq", "purge", "mail", "--reason", "known bug", "--yes")
    redisq("undo", "--yes")
    undo, purge = redisq.rows("log")
    assert (purge["user"], purge["reason"], purge["done"]) == ("ada", "known bug", 1)
    assert (purge["undone"], purge["undoable"], purge["ended"]) == (1, False, True)
    assert (undo["verb"], undo["what"]) == ("undo", purge["id"])
    assert len(redisq.rows("log", "--max", "1")) == 1
    assert "known bug" in redisq("log", "--queue", "mail")


def test_history_is_in_order_and_says_how_much_there_is(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.ops.inspect.history.PAGE", 1)
    everywhere(client)
    redisq("dlq", "purge", "mail", "--yes")
    first, second = redisq.rows("history", "mail")
    assert "dead" in first["what"] and "op" in second["what"]
    assert first["at_ms"] <= second["at_ms"]
    shown = redisq("history", "mail")
    assert "r1/2|rejected" in shown and "latest 2 of 2 events" in redisq.err
    assert re.search(r"  purged: dead → trash, 1 entry \(op purge-\w+\)  by \S+$", shown, re.M)
    assert [row["what"] for row in redisq.rows("history", "mail", "--max", "1")] == [second["what"]]


def test_a_report_shows_as_unknown_what_the_history_leaves_out(
    redisq: Redisq, client: redis.Redis
) -> None:
    everywhere(client)
    redisq("queue", "pause", "mail", "--reason", "smtp is down", "--yes")
    shown = redisq("report", "mail").splitlines()
    header, row = shown[shown.index("queues") + 1 :][:2]
    figures = dict(zip(header.split(), row.split(), strict=True))
    assert figures["submitted"] == figures["taken"] == figures["done"] == "-"
    assert figures["dead"] == "1"
    assert any("paused = smtp is down" in line for line in shown)


def test_config_shows_where_each_value_is_from_and_no_secret(
    redisq: Redisq, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration.write_text('queue = "mail"\n[contexts.live]\nurl = "redis://u:hush@h:1"\n')
    monkeypatch.setenv("REDISQ_PASSWORD", "sesame")
    words = ("config", "--context", "live", "--url", redisq.url)
    rows = {row["name"]: row for row in redisq.rows(*words)}
    assert (rows["queue"]["value"], rows["queue"]["origin"]) == ("mail", str(configuration))
    assert (rows["prefix"]["value"], rows["prefix"]["origin"]) == ("redisq", "default")
    assert (rows["password"]["value"], rows["password"]["origin"]) == ("***", "REDISQ_PASSWORD")
    assert rows["url"]["origin"] == "flag"
    redisq.url = "redis://u:hush@h:1"
    out = redisq("config") + redisq("config", "--json")
    assert "hush" not in out and "sesame" not in out and "u:***@h" in out


def test_the_default_queue_is_the_configured_one(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(client)
    monkeypatch.setenv("REDISQ_QUEUE", "mail")
    assert [row["queue"] for row in redisq.rows("dlq", "ls")] == ["mail"]


@pytest.mark.slow
def test_fsck(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    assert redisq("fsck").splitlines() == ["later: adds up", "mail: adds up"]
    client.hincrby(queue.keys["r_"] + "r1", "pending", 3)
    later, mail = redisq.rows("fsck", code=1)
    assert later["ok"] and not mail["ok"] and mail["reads"] > 1
    assert any("pending is 4, counted 1" in line for line in mail["faults"])
    assert "pending is 4, counted 1" in redisq("fsck", "mail", code=1)
    client.hset("redisq:registry", "tomorrow", '{"kind":"request","schema":99}')
    assert "newer release" in redisq("fsck", code=1)


# --- servers that won't -------------------------------------------------------


def test_an_unreachable_server_is_tried_three_times_and_named(
    redisq: Redisq, monkeypatch: pytest.MonkeyPatch, naps: list[Callable[[float], object]]
) -> None:
    attempts: list[object] = []
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        attempts.append(address)
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    slept: list[float] = []
    naps.append(slept.append)
    with socket.socket() as taken:  # bound and not listening: refuses
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        redisq.url = f"redis://:hush@127.0.0.1:{port}"
        said = redisq.refusal("ls", code=4)
    assert f"{port}" in said and "hush" not in said
    # Threads of earlier tests may be calling elsewhere.
    assert 1 <= attempts.count(("127.0.0.1", port)) <= 3
    assert sum(slept) < 0.2


@pytest.mark.slow
def test_a_wrong_password(own: Callable[..., EmbeddedServer], redisq: Redisq) -> None:
    server = own("--requirepass", "sesame")
    redisq.url = server.url
    assert "password" in redisq.refusal("ls", code=1)
    redisq.url = server.url.replace("//", "//:wrong@")
    said = redisq.refusal("ls", code=1)
    assert "wrong user name or password" in said
    redisq.url = server.url.replace("//", "//:sesame@")
    redisq("ls")


def test_a_server_that_is_no_redis(redisq: Redisq) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1024)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        redisq.url = f"redis://127.0.0.1:{listener.getsockname()[1]}"
        redisq.refusal("ls", code=4)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("url", ["http://x", "redis://h:port", "nonsense"])
def test_a_bad_url(capsys: pytest.CaptureFixture[str], url: str) -> None:
    Redisq(url, capsys).refusal("ls", code=2)


def test_a_registry_of_another_type(redisq: Redisq, client: redis.Redis) -> None:
    client.set("redisq:registry", "mine")
    assert "another type" in redisq.refusal("ls", code=1)
    assert client.get("redisq:registry") == b"mine"


def test_an_eviction_policy_is_warned_of_once(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        redisq("dlq", "ls", "mail", "--json")
        assert redisq.err.count("allkeys-lru") == 1
    finally:
        client.config_set("maxmemory-policy", "noeviction")
    redisq("ls")
    assert redisq.err == ""


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
def test_a_closed_pipe_is_quiet(client: redis.Redis, url: str) -> None:
    dead_letters(client, 2000)
    words = ["redisq", "dlq", "ls", "mail", "--json", "--url", url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command there is, and the words that lead to it."""
    if not hasattr(command, "list_commands"):
        yield words, command
        return
    within = command.context_class(command)
    for name in command.list_commands(within):
        if not (found := command.get_command(within, name)).hidden:
            yield from leaves(found, (*words, name))


@pytest.mark.slow
def test_every_command_shows_examples_that_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    from typer.main import get_command

    from redisq_ops.cli import main as cli
    from redisq_ops.cli.app import app

    root: Any = get_command(app)
    found = dict(leaves(root))
    assert {("delay", "add"), ("trash", "rm"), ("wait",), ("demo",)} <= set(found)
    for words, command in found.items():
        assert cli.run([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        named = " ".join(words)
        assert re.search(rf"Examples:\n +redisq {named}\b", shown), named
        for line in shown.split("Examples:\n")[1].splitlines():
            given = cli.hoisted(shlex.split(line)[1:])
            at = given.index(words[0])
            assert tuple(given[at : at + len(words)]) == words, line
            # An option or a number of arguments that it doesn't take is an error here.
            command.make_context(named, given[at + len(words) :])
