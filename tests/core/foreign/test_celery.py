"""Celery's layout beside a real Celery (see `celery_program`)."""

from __future__ import annotations

import base64
import json
import pickle
import signal
import time
import zlib
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import kombu.transport.virtual.exchange
import pytest
import redis
from celery.app.task import Context
from kombu.common import Broadcast

from redisq_ops.core.foreign.celery import CeleryQueue
from redisq_ops.core.foreign.celery.bindings import bindings_of
from redisq_ops.core.foreign.celery.task import Delivered, Result, Task
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select
from redisq_ops.testing.interference import interrupted
from redisq_ops.tui.views.done import DoneView

from ...changes import AUTHOR, changed, entry_change, undone
from ...command_line import Redisq
from ...foreign_keys.celery_program import (
    KEPT,
    app_on,
    fails,
    killed,
    specimen,
    wait,
    worker,
)

Client = redis.Redis
KOMBU: Any = kombu
NAME = "celery:celery"
LISTS = ["celery", *(f"celery\x06\x16{step}" for step in (3, 6, 9))]


def ours(client: Client, name: str = NAME) -> CeleryQueue[Client]:
    return CeleryQueue(client, name)


def entries(client: Client, state: State, name: str = NAME) -> dict[str, Entry]:
    return {entry.id: entry for entry in ours(client, name).page(state).entries}


def lists(client: Client) -> list[Any]:
    return [client.lrange(key, 0, -1) for key in LISTS]


def ran(client: Client) -> Counter[str]:
    found: dict[Any, Any] = client.hgetall(KEPT)
    return Counter({what.decode(): int(n) for what, n in found.items()})


# --- what is seen -------------------------------------------------------------------


@pytest.mark.slow
def test_every_state_is_seen(client: Client) -> None:
    specimen(client)
    counts = ours(client).counts()
    assert (counts.waiting, counts.pending, counts.delayed) == (6, 4, 6)
    assert counts.of("dead") is None and counts.of("done") is None, "no key lists results"
    waiting = entries(client, "waiting")
    assert list(waiting) == ["w0", "w4", "w1", "w5", "w2", "w3"], "by priority, 0 first"
    assert [waiting[id].called for id in ("w0", "w3")] == ["queued", "priority 9"]
    assert set(entries(client, "pending")) == {f"run{n}" for n in range(4)}
    delayed = entries(client, "delayed")
    assert set(delayed) == {*(f"eta{n}" for n in range(5)), "again"}
    assert delayed["again"].failures == 1 and delayed["again"].since_ms
    assert delayed["eta1"].at_ms and delayed["eta1"].at_ms > ours(client).now() + 5_000_000
    dead = entries(client, "dead")
    assert set(dead) == {f"bad{n}" for n in range(4)}, "results of other queues are not shown"
    bad = dead["bad2"]
    assert bad.error and (bad.error.type, bad.error.message) == ("ValueError", "no luck2")
    assert "Traceback" in bad.error.traceback and (bad.failures, bad.reason) == (1, "failed")
    assert json.loads(bad.payload or b"")["kwargs"] == {"order": 2}
    assert set(entries(client, "done")) == {f"good{n}" for n in range(4)}
    for id, state in {
        "w3": "waiting",
        "run1": "pending",
        "eta0": "delayed",
        "bad0": "dead",
    }.items():
        found = ours(client).get(id)
        assert found and (found.id, found.state) == (id, state)
    assert ours(client).get("other") is None and ours(client).get("nothing") is None
    (other,) = ours(client, "celery:other").page("delayed").entries
    assert other.id == "otherlate"


def test_celery_agrees_with_the_numbers(client: Client) -> None:
    specimen(client)
    with app_on(client).connection_for_read() as connection:
        channel = connection.default_channel
        assert channel._size("celery") == ours(client).counts().waiting
    assert client.hlen("unacked") == 4 + 6 + 1


def test_whether_a_worker_lives_is_unknown(redisq: Redisq, client: Client) -> None:
    specimen(client)
    (row,) = redisq.processes(NAME)
    assert row["name"].startswith("celery@") and row["state"] == "unknown"
    assert row["busy"] is None and row["jobs"] is None and "inspect active_queues" in redisq.err


def test_results_without_a_queue_are_shown_in_one_queue_only(
    redisq: Redisq, client: Client
) -> None:
    specimen(client)
    redisq("discover", "--register", "--yes")
    for id in ("bad0", "good0"):
        data = json.loads(client.get(f"celery-task-meta-{id}") or b"")
        for name in ("queue", "name", "args", "kwargs", "worker", "retries"):
            del data[name]
        client.set(f"celery-task-meta-{id}", json.dumps(data))
    assert entries(client, "dead")["bad0"].called == "failed, of any queue"
    assert entries(client, "done")["good0"].called == "succeeded, of any queue"
    every = redisq.rows("select", "*", "--where", "state:dead,done")
    assert Counter(row["id"] for row in every).most_common(1)[0][1] == 1
    assert len(every) == 4 + 4 + 1, "and what failed in the other queue"
    redisq("queue", "rm", NAME, "--yes")
    (row,) = redisq.rows("select", "celery:other", "--where", "state:dead id=bad0")
    assert row["queue"] == "celery:other"


def test_a_task_sent_by_a_routing_key_is_shown_and_not_sent_again(
    redisq: Redisq, client: Client
) -> None:
    """A result has the routing key in place of the queue, and not the exchange."""
    sent_by_topics(client, {"mail": "mail.send", "video": "video.cut"})
    kept(client, "bad1", queue="mail.send")
    kept(client, "bad2", queue="video")
    assert not redisq.rows("dlq", "ls", NAME), "which queues there are is not known yet"
    redisq("discover", "--register", "--yes")
    (bad,) = redisq.rows("dlq", "ls", NAME)
    assert (bad["id"], bad["error"]["type"]) == ("bad1", "ValueError")
    assert "failed, sent to mail.send" in redisq("inspect", f"{NAME}/bad1")
    assert not redisq.rows("dlq", "ls", "celery:mail"), "it is shown once"
    assert [row["id"] for row in redisq.rows("dlq", "ls", "celery:video")] == ["bad2"]
    redisq("dlq", "replay", NAME, "--yes", code=1)
    assert "don't tell the queue" in redisq.err
    assert client.exists(meta("bad1")) and not client.llen("celery")


def sent_by_topics(client: Client, keys: dict[str, str]) -> tuple[Any, list[Any]]:
    """Queues of one topic exchange, for routing keys that begin with their names; a task in each,
    sent by a routing key, which is its id as well."""
    exchange = KOMBU.Exchange("tasks", type="topic")
    queues = [KOMBU.Queue(name, exchange, routing_key=f"{name}.#") for name in keys]
    app = app_on(client, task_queues=queues)
    with app.connection_for_write() as connection:  # a process declares them once by itself
        for queue in queues:
            queue(connection.default_channel).declare()
    for name, key in keys.items():
        app.send_task("shop.fine", queue=name, routing_key=key, task_id=key)
    return app, queues


def test_a_task_is_with_a_worker_of_the_queue_that_its_topic_leads_to(client: Client) -> None:
    app, queues = sent_by_topics(client, {"mail": "mail.send", "video": "video.cut"})
    with app.connection_for_read() as connection:
        taken = [queue(connection.default_channel).get() for queue in queues]
        assert None not in taken and client.hlen("unacked") == 2
        assert list(entries(client, "pending", "celery:mail")) == ["mail.send"]
        assert list(entries(client, "pending", "celery:video")) == ["video.cut"]


@pytest.mark.alike
@pytest.mark.parametrize("bound", ["a.#", "a.*", "#", "*", "a.*.c", "#.c", "a.#.d", "a", "*.#", ""])
def test_a_routing_key_leads_where_kombu_says(bound: str) -> None:
    topic: Any = KOMBU.transport.virtual.exchange.TopicExchange(None)
    pattern = topic.key_to_pattern(bound)
    for key in ("", "a", "a.b", "a.b.c", "a.b.c.d", "b", "b.c", "a.", "ab.c", "a.b.b.c"):
        (binding,) = bindings_of([f"{bound}|{pattern}|q".encode()], b"|")
        assert binding.takes(key) is bool(topic._match(pattern, key)), key


def test_many_tasks_of_workers_are_counted_as_unknown(client: Client) -> None:
    specimen(client)
    data: Any = client.hvals("unacked")[0]
    for n in range(600):
        client.hset("unacked", f"tag{n}", data)
    counts = ours(client).counts()
    assert counts.of("pending") is None and counts.of("delayed") is None and counts.waiting == 6


def test_queues_are_found_behind_any_prefix(redisq: Redisq, client: Client) -> None:
    specimen(client)
    client.sadd("_kombu.binding.nothing", "x")
    app = app_on(client, broker_transport_options={"global_keyprefix": "shop:"})
    app.send_task("shop.fine", (1,), queue="mail")
    found = {row["name"]: row["waiting"] for row in redisq.rows("discover")}
    assert found[NAME] == 6 and found["celery:other"] == 0
    (mail,) = found.keys() - {NAME, "celery:other"}
    assert found[mail] == 1 and mail.startswith("celery:mail~")
    redisq("discover", "--register", "--yes")
    client.delete(*LISTS)
    assert {row["name"]: row["waiting"] for row in redisq.rows("ls")}[NAME] == 0


def test_a_queue_for_broadcasts_to_one_worker_is_not_shown(redisq: Redisq, client: Client) -> None:
    specimen(client)
    app, broadcast = app_on(client), cast("Any", Broadcast)
    before = [row["name"] for row in redisq.rows("discover")]
    with app.connection() as connection:
        broadcast("tell")(connection.default_channel).declare()
        (binding,) = cast("set[bytes]", client.smembers("_kombu.binding.tell"))
        assert b"bcast." in binding
        assert NAME in before and before == [row["name"] for row in redisq.rows("discover")]
    assert "not shown" not in redisq.err


# --- what an application sets itself -------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"priority_steps": list(range(10))},
        {"sep": ":"},
        {"priority_steps": [1, 5], "sep": "||"},
        {"priority_steps": list(range(10)), "sep": ":", "global_keyprefix": "shop:"},
    ],
)
def test_own_priority_steps_and_separator_are_read(
    redisq: Redisq, client: Client, options: dict[str, Any]
) -> None:
    app = app_on(client, broker_transport_options=options)
    for n in range(10):
        app.send_task("shop.fine", (n,), task_id=f"w{n}", priority=n, queue="mail")
    (found,) = redisq.rows("discover", "--register", "--yes")[:1]
    name = found["name"]
    assert found["waiting"] == 10 and not redisq.err.count("can't be found")
    assert {row["id"] for row in redisq.rows("waiting", "ls", name)} == {f"w{n}" for n in range(10)}
    redisq("purge", name, "--state", "waiting", "--where", "id=w9", "--yes")
    assert redisq.rows("ls")[0]["waiting"] == 9
    redisq("undo", "--yes")
    assert redisq("fsck", name) == f"{name}: adds up\n"
    client.lpush(f"{options.get('global_keyprefix', '')}mail\x06\x1612", "{}")
    assert "mail\\x06\\x1612 is of a state that this release" in redisq("fsck", name, code=1)


def test_bindings_with_a_separator_that_can_not_be_told_are_named(
    redisq: Redisq, client: Client
) -> None:
    client.sadd("_kombu.binding.jobs", "some:pattern:mail")
    assert redisq.rows("discover") == []
    assert "not shown: 1 key named as Celery's, whose `sep` can't be found" in redisq.err


def bound(client: Client, prefix: str = "") -> None:
    """Declare the queue: a producer does that once for each server."""
    client.sadd(f"{prefix}_kombu.binding.celery", "celery\x06\x16\x06\x16celery")


def failed(client: Client, n: int = 3, **config: Any) -> None:
    """Tasks that wait in ``celery``, and results of some that failed."""
    app = app_on(client, **config)
    app.send_task("shop.fine", (0,), task_id="w0")
    prefix = config.get("broker_transport_options", {}).get("global_keyprefix", "")
    bound(client, prefix)
    for k in range(n):
        app.backend.mark_as_failure(f"bad{k}", ValueError(f"no card {k}"))
    app.backend.mark_as_done("good", 1)


@pytest.mark.alike
@pytest.mark.parametrize(
    ("codec", "prefix", "own"),
    [
        ("gzip", "", False),
        ("bzip2", "", False),
        ("lzma", "shop:", False),
        ("", "shop", False),
        ("", "shop:", True),
        ("gzip", "shop", True),
    ],
)
def test_compressed_results_and_those_beside_a_prefix_are_read(
    redisq: Redisq, client: Client, codec: str, prefix: str, own: bool
) -> None:
    options = {"global_keyprefix": prefix} if prefix else {}
    failed(
        client,
        broker_transport_options=options,
        result_compression=codec or None,
        result_backend_transport_options=options if own else {},
    )
    name = redisq.rows("discover", "--register", "--yes")[0]["name"]
    (group,) = redisq.rows("dlq", "groups", name)
    assert (group["entries"], group["error"]["type"]) == (3, "ValueError")
    one = redisq.rows("dlq", "ls", name, "--where", "id=bad1")
    assert [row["error"]["message"] for row in one] == ["no card 1"]


MARK = b"\0celery-compressed\0"
BOMB = zlib.compress(b"0" * (1 << 25), 9)


@pytest.mark.alike
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (MARK + b"application/zstd\0x", "compressed as application/zstd, which redisq can't read"),
        (MARK + b"application/x-gzip\0" + BOMB, "over 16 MiB"),
        (MARK + b"application/x-gzip\0" + zlib.compress(b"{}")[:-3], "cut short"),
        (MARK + b"application/x-bz2\0x", "damaged"),
        (MARK, "can't read"),
        (b"\x80\x04nothing", "its pickle can't be followed"),
        (b"- yaml", "not JSON"),
    ],
    ids=["codec", "bomb", "cut", "damaged", "no codec", "pickle", "yaml"],
)
def test_a_result_that_can_not_be_read_is_named(
    redisq: Redisq, client: Client, data: bytes, said: str
) -> None:
    failed(client, 0)
    client.set("celery-task-meta-odd", data)
    (row,) = redisq.rows("dlq", "ls", NAME, code=3)
    assert row["id"] == "odd" and said in row["problem"]
    assert "whether it failed is unknown" in row["problem"]


@pytest.mark.alike
@pytest.mark.parametrize("codec", ["", "gzip"])
def test_pickled_results_are_read_and_not_sent_again(
    redisq: Redisq, client: Client, tmp_path: Path, codec: str
) -> None:
    class NoCard(Exception):
        def __init__(self, number: int, reason: str) -> None:
            super().__init__(f"card {number} {reason}")

    options: dict[str, Any] = {"result_serializer": "pickle", "accept_content": ["json", "pickle"]}
    failed(client, **options, result_compression=codec or None)
    app = app_on(client, **options)
    app.backend.mark_as_failure("unlike", NoCard(3, "is lost"))  # which Celery wraps
    app.backend.mark_as_done("trap", Trap(tmp_path / "unpickled"))
    dead = entries(client, "dead")
    assert set(dead) == {"bad0", "bad1", "bad2", "unlike"}
    assert set(entries(client, "done")) == {"good", "trap"}
    errors = {id: one.error and (one.error.type, one.error.message) for id, one in dead.items()}
    assert errors["bad1"] == ("ValueError", "no card 1")
    assert errors["unlike"] == ("NoCard", "card 3 is lost")
    client.set(meta("whole"), pickle.dumps(kept(client, "whole")))
    before = client.dump(meta("whole"))
    said = redisq("replay", f"{NAME}/whole", "--yes", code=1)
    assert "have pickled results: redisq makes no message of a pickle" in said + redisq.err
    assert client.dump(meta("whole")) == before
    assert not (tmp_path / "unpickled").exists()


def test_no_results_are_no_number(redisq: Redisq, client: Client) -> None:
    failed(client, 0)
    for looks in ("ls", "groups"):
        redisq("dlq", looks, NAME)
        assert redisq.err.startswith(
            f"{NAME}: unknown: a celery queue keeps no list of its dead entries. Celery's results"
            " may be in another database"
        )
    assert "another database or server (`result_backend`)" in redisq("dlq", "replay", NAME, "--yes")


def test_the_filter_language_reads_tasks_and_arguments(redisq: Redisq, client: Client) -> None:
    specimen(client)
    found = redisq.rows("select", NAME, "--where", "task=shop.fine arg.region=eu arg.0>3")
    assert [row["task"] for row in found] == ["shop.fine"] * 2
    assert "shop.fine" in redisq("waiting", "ls", NAME)
    assert redisq.rows("dlq", "groups", NAME)[0]["entries"] == 4


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return Path.mkdir, (self.folder,)


def test_nothing_is_unpickled(client: Client, tmp_path: Path) -> None:
    specimen(client)
    folder = tmp_path / "unpickled"
    message = json.loads(client.lindex("celery", 0) or b"")
    message["body"] = base64.b64encode(pickle.dumps([[Trap(folder)], {}, {}])).decode()
    message["content-type"] = "application/x-python-serialize"
    client.lpush("celery", json.dumps(message))
    first = ours(client).page("waiting").entries[2]
    assert json.loads(first.payload or b"")["args"] == [4], "out of Celery's own text of it"
    assert not folder.exists()


@pytest.mark.alike
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"headers":[]}',
        b'{"headers":{"id":5}}',
        b'{"headers":{"id":"a","eta":"never","retries":-1},"body":5}',
        b'[1,"",""]',
        b'["a","b"]',
        b'{"headers":{"id":"a"},"body":"=","properties":{"body_encoding":"base64"},'
        b'"content-type":"application/json"}',
        b'{"status":"FAILURE","result":7,"date_done":"x"}',
        b'{"status":"FAILURE","result":{"exc_message":{"a":["\\ud800"]}},"retries":1e999}',
    ],
)
def test_any_bytes_are_read(data: bytes, client: Client) -> None:
    for read in (Task.read, Result.read):
        assert read(data).shown()
    assert Delivered.read(data).task.retries == 0 and Result.read(data).error()
    client.rpush("celery", data)
    client.hset("unacked", "tag", data)
    client.set("celery-task-meta-odd", data)
    for state in ("waiting", "pending", "delayed", "dead"):
        ours(client).page(state)
    assert len(entries(client, "waiting")) == 1


def test_half_a_character_in_a_name_hides_no_other_task(redisq: Redisq, client: Client) -> None:
    app_on(client).send_task("shop.fine", task_id="a")
    client.lpush(
        "celery", r'{"body": "", "headers": {"task": "t", "id": "\ud800"}, "properties": {}}'
    )
    kept(client, "b")
    kept(client, "c", queue="\ud800")
    redisq("discover", "--register", "--yes")
    assert [row["id"] for row in redisq.rows("waiting", "ls", NAME)] == ["a", "%ED%A0%80"]
    assert [row["id"] for row in redisq.rows("dlq", "ls", NAME)] == ["b", "c"]


def test_a_task_as_celery_3_sends_it_is_read(client: Client) -> None:
    body = {"task": "shop.old", "id": "a", "args": [1], "kwargs": {"x": 2}, "retries": 2}
    message = {
        "body": base64.b64encode(json.dumps(body).encode()).decode(),
        "headers": {},
        "content-type": "application/json",
        "properties": {"body_encoding": "base64"},
    }
    client.lpush("celery", json.dumps(message))
    old = entries(client, "waiting")["a"]
    assert old.failures == 2 and json.loads(old.payload or b"")["kwargs"] == {"x": 2}


# --- what is written ----------------------------------------------------------------


@pytest.mark.alike
def test_undo_does_not_walk_a_long_list(client: Client) -> None:
    """Celery takes on the right; an insertion walks from the left."""

    def message(n: int) -> str:
        return json.dumps({"headers": {"id": f"t{n}", "task": "shop.fine"}, "body": ""})

    client.rpush("celery", *map(message, range(25_000)))
    before = lists(client)
    some = [f"t{n}" for n in (24_500, 24_501, 24_990, 24_997, 24_998, 24_999)]
    queue: Any = ours(client)
    moved = queue.move("op", 1, some, source="waiting", target="trash", high_water_ms=2**52)
    assert moved == ["moved"] * 6
    client.config_resetstat()
    assert queue.undo("op", 1, target="trash", by="undone", seq=1)[0] == 6
    assert lists(client) == before
    assert "cmdstat_linsert" not in client.info("commandstats")


def test_what_was_next_is_next_again(client: Client) -> None:
    app = app_on(client)
    for id in "abcd":
        app.send_task("shop.fine", (id,), task_id=id)
    purge = changed(ours(client), "purge", "waiting", "b")
    client.rpop("celery", 2)  # workers took a and c
    undone(client, purge)
    assert list(entries(client, "waiting")) == ["b", "d"]


def test_a_task_sent_again_with_its_id_is_another_one(client: Client) -> None:
    app = app_on(client)
    app.send_task("shop.fine", ("first",), task_id="a")
    change = entry_change(
        run(client, select(ours(client), "waiting", Filter(ids=("a",)))), "purge", AUTHOR
    )
    client.delete("celery")  # a worker took it
    app.send_task("shop.fine", ("second",), task_id="b")
    while run(client, change.step()):
        pass
    assert change.outcome.done == 0 and list(entries(client, "waiting")) == ["b"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["requeue", NAME], "visibility timeout"),
        (["purge", NAME, "--state", "delayed"], "revoke"),
    ],
)
def test_what_is_refused_says_why_and_what_to_do(
    redisq: Redisq, client: Client, words: list[str], why: str
) -> None:
    specimen(client)
    assert why in redisq.refusal(*words, "--yes", code=1)


def meta(id: str) -> str:
    return f"celery-task-meta-{id}"


def kept(client: Client, id: str = "bad", **other: Any) -> dict[str, Any]:
    """Write the result of a failed task, and return it; ``other``: members of it, None: absent."""
    result: dict[str, Any] = {
        "status": "FAILURE",
        "result": {"exc_type": "ValueError", "exc_message": ["no"]},
        "name": "shop.fine",
        "args": [id],
        "kwargs": {},
        "queue": "celery",
        "task_id": id,
    }
    result = {name: value for name, value in (result | other).items() if value is not None}
    client.set(meta(id), json.dumps(result), ex=900)
    bound(client)
    return result


@pytest.mark.parametrize(("retries", "failures"), [(2, 2), (0, 0), (None, None)])
def test_how_often_a_task_failed_before_it_succeeded_is_shown_or_unknown(
    redisq: Redisq, client: Client, retries: int | None, failures: int | None
) -> None:
    """Celery keeps it only with `result_extended`."""
    kept(client, "good", status="SUCCESS", retries=retries)
    redisq("discover", "--register", "--yes")
    (row,) = redisq.rows("inspect", f"{NAME}/good")
    assert (row["failures"], row["attempts"]) == (failures, failures)
    unused: Any = None
    cell: Any = DoneView().row(ours(client).get("good"), unused).cells[4]
    assert cell[0] == ("-" if failures is None else str(failures))
    found = redisq.rows("done", "ls", NAME, "--where", "failures>=0")
    assert len(found) == (retries is not None)
    (_, line, *_) = redisq("export", NAME, "--state", "done").splitlines()
    assert json.loads(line)["attempts"] == failures


def under_a_prefix(client: Client) -> None:
    client.rename("_kombu.binding.celery", "shop:_kombu.binding.celery")


def sent(client: Client) -> None:
    app_on(client).send_task("shop.fine", ("by hand",), task_id="bad")


def popped(client: Client) -> Any:
    message: Any = client.rpop("celery")
    return json.loads(message)


def to_a_worker(client: Client) -> None:
    """As kombu does it."""
    if client.llen("celery"):
        client.hset("unacked", "tag", json.dumps([popped(client), "", "celery"]))
        client.zadd("unacked_index", {"tag": time.time()})


def from_a_worker(client: Client) -> None:
    if held := client.hget("unacked", "tag"):
        client.delete("unacked", "unacked_index")
        client.rpush("celery", json.dumps(json.loads(held)[0]))


def with_a_worker(client: Client) -> None:
    sent(client)
    to_a_worker(client)


def no_change(client: Client) -> None: ...


@pytest.mark.alike
@pytest.mark.parametrize(
    ("other", "happens", "why"),
    [
        ({"group_id": "g1"}, no_change, "group or a chord"),
        ({"args": None}, no_change, "`result_extended`"),
        ({"kwargs": None}, no_change, "`result_extended`"),
        ({"name": None, "args": None, "kwargs": None, "queue": None}, no_change, "result_extended"),
        ({"args": "(1, 2)"}, no_change, "`result_extended`"),
        ({"task_id": "another"}, no_change, "`result_extended`"),
        ({}, under_a_prefix, "another application's"),
        ({}, sent, "sent again already"),
        ({}, with_a_worker, "sent again already"),
    ],
)
def test_a_task_that_can_not_be_sent_again_is_left_alone_in_words(
    redisq: Redisq, client: Client, other: dict[str, Any], happens: Any, why: str
) -> None:
    kept(client, **other)
    happens(client)
    name = redisq.rows("discover", "--register", "--yes")[0]["name"]
    before = lists(client), client.get(meta("bad"))
    redisq("dlq", "replay", name, "--yes", code=1)
    assert why in redisq.err
    assert (lists(client), client.get(meta("bad"))) == before
    if happens is not with_a_worker:  # there it is pending as well
        assert why in redisq("explain", f"{name}/bad")


@pytest.mark.alike
def test_what_is_sent_between_two_steps_is_seen(client: Client) -> None:
    for id in ("a", "b", "c"):
        kept(client, id)
    app, queue = app_on(client), ours(client)

    def replay(step: int, id: str, **words: Any) -> list[str]:
        return queue.move(
            "op", step, [id], source="dead", target="waiting", high_water_ms=2**52, **words
        )

    app.send_task("shop.fine", task_id="old")
    assert replay(1, "a") == ["moved"]
    app.send_task("shop.fine", task_id="b")
    assert replay(2, "b") == ["again"], "it came after the first look"
    client.delete("celery")
    app.send_task("shop.fine", task_id="c")
    assert replay(3, "c") == ["again"], "workers took what was there before"
    client.delete("celery")
    assert queue.move("other", 1, ["b"], source="dead", target="waiting", high_water_ms=2**52) == [
        "moved"
    ], "another change looks anew"


def nth(wanted: int, calls: Any, n: int) -> bool:
    return n == wanted


@pytest.mark.alike
@pytest.mark.parametrize("moves", [to_a_worker, from_a_worker])
def test_a_task_is_seen_while_it_goes_to_a_worker_or_comes_back(client: Client, moves: Any) -> None:
    for n in range(1, 25):
        client.flushdb()
        kept(client)
        sent(client)
        if moves is from_a_worker:
            to_a_worker(client)
        move = ours(client).move.op(
            "op", 1, ["bad"], source="dead", target="waiting", high_water_ms=2**52
        )
        said = interrupted(client, move, partial(nth, n), partial(moves, client))
        assert said == ["again"], n


@pytest.mark.alike
def test_of_too_many_tasks_nobody_knows_which_they_are(
    redisq: Redisq, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.core.foreign.celery.sent_tasks.MOST", 2000)
    kept(client)
    for _ in range(4):
        app_on(client).send_task("shop.fine", ("x" * 500,))
    redisq("dlq", "replay", NAME, "--yes", code=1)
    assert "may have been sent again already" in redisq.err and client.llen("celery") == 4


@pytest.mark.alike
def test_a_step_reads_no_more_messages_than_came_since_the_last_one(client: Client) -> None:
    """Messages that were there before are read once."""
    queue, fill = ours(client), client.pipeline()
    for n in range(400):
        kept(client, f"bad{n}")
        fill.lpush(
            "celery", json.dumps({"headers": {"id": f"w{n}", "task": "f"}, "body": "x" * 900})
        )
    fill.execute()

    def replayed(step: int) -> int:
        """Bytes that the server sent."""
        sent = client.info("stats")["total_net_output_bytes"]
        ids = [f"bad{step * 10 + n}" for n in range(10)]
        move = queue.move.op("op", step, ids, source="dead", target="waiting", high_water_ms=2**52)
        assert run(client, move) == ["moved"] * 10
        return int(client.info("stats")["total_net_output_bytes"] - sent)

    first, *_, latest = [replayed(step) for step in range(1, 5)]
    assert first > 400 * 900 and latest < first / 5


@pytest.mark.alike
@pytest.mark.parametrize("codec", ["", "gzip"])
def test_a_replay_is_undone_until_a_worker_takes_the_message(
    redisq: Redisq, client: Client, codec: str
) -> None:
    result = json.dumps(kept(client, args=[1.5, "ü", {"a": [None]}], kwargs={"x": True})).encode()
    data = MARK + b"application/x-gzip\0" + zlib.compress(result) if codec else result
    client.set(meta("bad"), data, ex=900)
    for taken in (False, True):
        redisq("dlq", "replay", f"{NAME}/bad", "--yes")
        assert not client.exists(meta("bad"))
        waits = entries(client, "waiting")["bad"]
        assert json.loads(waits.payload or b"")["args"] == [1.5, "ü", {"a": [None]}]
        if taken:
            client.delete("celery")
        redisq("undo", "--yes", code=1 if taken else 0)
        assert client.get(meta("bad")) == (None if taken else data)
        assert taken or 890 < client.ttl(meta("bad")) <= 900


@pytest.mark.alike
def test_arguments_of_any_type_are_sent_as_celery_sent_them(redisq: Redisq, client: Client) -> None:
    app = app_on(client)
    args = [datetime(2026, 1, 2, tzinfo=UTC), UUID(int=5), Decimal("1.10"), b"\0\xff", "ü\ud800"]
    kwargs = {"most": 2**70, "least": -1e300, "ü": [None, {"deep": [True]}]}
    app.send_task("shop.fails", args, kwargs, task_id="bad")
    bound(client)
    fails(app, "bad", "shop.fails", args, kwargs)
    message = popped(client)
    redisq("dlq", "replay", NAME, "--yes")
    assert popped(client)["body"] == message["body"]


@pytest.mark.alike
@pytest.mark.parametrize("looked", [500, 3])
def test_the_preview_counts_what_the_replay_will_skip(
    redisq: Redisq, client: Client, monkeypatch: pytest.MonkeyPatch, looked: int
) -> None:
    monkeypatch.setattr("redisq_ops.ops.change.impact.MAX_BATCH", looked)
    for n in range(3):
        kept(client, f"a{n}")
        kept(client, f"0{n}", group_id="g1")
    kept(client, "c", args=None)
    said = redisq("dlq", "replay", NAME, "--dry-run")
    (row,) = redisq.rows("dlq", "replay", NAME, "--dry-run")
    found = row["consequences"]
    if looked == 3:
        assert "\n  of the first 3: would replay 0, skip 3: 3 grouped\n" in said
        assert found["asked"] == 3
        return
    assert "\n  would replay 3, skip 4: 3 grouped, 1 unkept\n  grouped: such entries belong" in said
    assert (found["asked"], found["skips"]) == (7, {"grouped": 3, "unkept": 1})
    (done,) = redisq.rows("dlq", "replay", NAME, "--yes", code=3)
    assert done["skipped"] == found["skips"]


@pytest.mark.alike
@pytest.mark.parametrize("ordered", [True, False])
def test_a_task_of_a_chord_says_how_many_of_it_have_ended(
    redisq: Redisq, client: Client, ordered: bool
) -> None:
    app = app_on(client, result_backend_transport_options={"result_chord_ordered": ordered})
    app.backend.set_chord_size("g1", 3)
    app.send_task("shop.fine", (1,), task_id="waits", group_id="g1")
    kept(client, group_id="g1")
    app.backend.on_chord_part_return(Context(id="bad", group="g1"), "FAILURE", ValueError("no"))
    redisq("discover", "--register", "--yes")
    for id in ("waits", "bad"):
        said = redisq("inspect", f"{NAME}/{id}")
        assert "1 of 3 tasks of its chord have ended" in said


def test_a_replayed_task_has_ended_when_its_result_is_there(client: Client) -> None:
    """One that was acknowledged when it began is in no key while it runs."""
    queue = ours(client)
    fates = queue.replay_tracker()

    def replay(step: int) -> None:
        kept(client, "a")
        queue.move("op", step, ["a"], source="dead", target="waiting", high_water_ms=2**52)
        fates.add(["a"], queue.now())
        assert run(client, fates.look()) == [] and fates.unsettled == 1

    replay(1)
    begun = popped(client)
    assert run(client, fates.look()) == [] and (fates.unsettled, fates.failing) == (1, 0)
    kept(client, "a")
    assert run(client, fates.look()) == [True] and fates.unsettled == 0
    replay(2)
    client.delete("celery")
    kept(client, "a", status="SUCCESS")
    assert run(client, fates.look()) == [False]
    replay(3)
    client.delete("celery")
    begun["headers"]["retries"] = 1  # as `Task.retry` sends it again
    client.lpush("celery", json.dumps(begun))
    assert run(client, fates.look()) == [] and (fates.unsettled, fates.failing) == (1, 1)


@pytest.mark.slow
def test_a_worker_runs_what_is_replayed(redisq: Redisq, client: Client) -> None:
    kept(client, args=["again"], kwargs={"region": "eu"})
    kept(client, "grouped", group_id="g1")
    redisq("dlq", "replay", NAME, "--yes", code=3)
    answer = app_on(client).AsyncResult("bad")
    assert answer.state == "PENDING"
    with worker(client):
        assert answer.get(timeout=60) == "again" and answer.state == "SUCCESS"
    assert ran(client) == Counter(["again"])
    assert list(entries(client, "dead")) == ["grouped"] and "bad" in entries(client, "done")


@pytest.mark.slow
def test_workers_run_what_was_brought_back_once_and_give_back_what_they_hold(
    client: Client,
) -> None:
    app = app_on(client)
    for what in "abcd":
        app.send_task("shop.fine", (what,), task_id=what, priority=3)
    app.send_task("shop.fine", ("late",), task_id="late", countdown=9000)
    purge = changed(ours(client), "purge", "waiting", "a", "b", "c")
    undone(client, purge)
    gone = changed(ours(client), "purge", "waiting", "c")
    with worker(client) as process:
        wait(lambda: len(ran(client)) == 3 and client.hlen("unacked") == 1)
        assert list(entries(client, "delayed")) == ["late"]
        assert undone(client, gone).outcome.done == 1
        wait(lambda: ran(client)["c"])
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert ran(client) == Counter("abcd")
    assert list(entries(client, "waiting")) == ["late"], "a worker that stops puts it back"


@pytest.mark.slow
def test_no_task_is_lost_between_operators_and_killed_workers(client: Client) -> None:
    """Operators purge and bring back beside a worker, which is killed while nothing waits that it
    could pop: Celery loses what it popped and had not written into `unacked`."""
    app = app_on(client)
    wanted: set[str] = set()
    held: tuple[State, ...] = ("waiting", "pending", "trash")

    def there() -> set[str]:
        return {*ran(client), *(id for state in held for id in entries(client, state))}

    for turn in range(2):
        for n in range(50):
            wanted.add(f"{turn}-{n}")
            app.send_task("shop.fine", (f"{turn}-{n}",), task_id=f"{turn}-{n}", priority=n % 10)
        with worker(client) as process:
            done = time.monotonic() + 90
            while process.poll() is None:
                purge = changed(ours(client), "purge", "waiting")
                begun = any(what.startswith(f"{turn}-") for what in ran(client))
                if begun and there() == wanted:
                    killed(process)
                if purge.outcome.done:
                    undone(client, purge)
                assert time.monotonic() < done
    assert there() == wanted
    assert set(ran(client).values()) == {1}


def test_explain_says_as_the_overview_does_that_no_worker_takes_tasks(
    redisq: Redisq, client: Client
) -> None:
    app_on(client).send_task("shop.fine", task_id="waits")
    assert "no worker is taking" in redisq("explain", NAME)
    assert "no worker is taking" in redisq("explain", f"{NAME}/waits")
    held: Any = {"tag": json.dumps([{}, "", "celery"])}
    client.hset("unacked", mapping=held)  # some worker has a task: whose it is, nobody can tell
    assert "no worker" not in redisq("explain", NAME)


def test_a_key_of_another_type_hides_no_failed_task(redisq: Redisq, client: Client) -> None:
    kept(client)
    client.rpush("celery-task-meta-odd", "x")
    assert [row["id"] for row in redisq.rows("dlq", "ls", NAME)] == ["bad"]
    redisq("dlq", "replay", NAME, "--yes")
    assert lists(client)
