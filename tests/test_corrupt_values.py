"""One corrupt value never hides what stands beside it: it is named, and all else is shown.

What is corrupted at random, and which commands run then, is in `corruption`; its long form runs 500
mutations.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
import redis

from redisq_ops.cli import main as cli
from redisq_ops.core.model.errors import Unreadable
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work

from . import corrupt_values
from .command_line import Redisq, dead_letters, everywhere
from .model.wire import picture

pytestmark = pytest.mark.alike
NESTED = b"[" * 100_000


@pytest.mark.slow
def test_no_corrupt_value_hides_anything_else(url: str) -> None:
    there = corrupt_values.Deployment(url)
    try:
        found = corrupt_values.fuzz(there, 20, 35, 4, lambda line: None)
    finally:
        there.close()
    assert found == []
    assert there.ended["3"] and there.ended["1"], "the mutations were noticed"


def test_a_corrupt_record_is_listed_with_why(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 3)
    client.hset("redisq:{mail}:meta", "r1/2", "garbage here")
    before = picture(client)
    rows = redisq.rows("dlq", "ls", "mail", code=3)
    told = {row["id"]: row["problem"] for row in rows}
    assert told == {"r1/1": None, "r1/2": "the record of r1/2 is corrupt", "r1/3": None}
    assert redisq.err == "mail: 1 entry has a corrupt record (r1/2)\n"
    assert "the record of r1/2 is corrupt" in redisq("select", "mail", code=3)
    assert redisq.rows("inspect", "mail/r1/2")[0]["problem"]
    assert redisq.rows("inspect", "mail/r1/3")[0]["problem"] is None
    (group,) = redisq.rows("dlq", "groups", "mail", code=3)
    assert group["entries"] == 2
    assert len(redisq("export", "--queue", "mail", code=3).splitlines()) == 2 + 2 + 6
    assert "r1/2" in redisq("dlq", "purge", "mail", "--match", ".", "--dry-run")
    assert picture(client) == before
    said = redisq.rows("dlq", "purge", "mail", "--match", ".", "--yes", code=3)
    assert (said[-1]["done"], said[-1]["skipped"]) == (2, {"corrupt": 1})
    (row,) = redisq.rows("fsck", "mail", code=1)
    assert row["faults"] == ["the record of r1/2 is corrupt"]


def test_a_corrupt_registry_entry_is_one_queue_less(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client, "mail")
    for name, value in (("bad", NESTED), ("worse", b'{"kind": 1}'), (b"\xff", b"{}")):
        client.hset("redisq:registry", name, value)
    rows = {row["name"]: row for row in redisq.rows("ls", code=3)}
    assert rows["mail"]["dead"] == 1 and rows["mail"]["problem"] is None
    assert rows["bad"]["problem"] == "the registry entry of bad is corrupt"
    assert len(rows) == 4
    broken = {row["queue"]: row["faults"] for row in redisq.rows("fsck", code=1)}
    assert broken["mail"] == [] and all(broken[name] for name in ("bad", "worse", "\udcff"))
    assert len(redisq.rows("select", "*", code=3)) == 8 - 1
    assert redisq.err.count("not looked at: the registry entry of") == 3
    assert redisq.rows("log", code=3) == []
    assert redisq.refusal("dlq", "ls", "bad", code=1) == "the registry entry of bad is corrupt"
    assert "mail" in redisq("top", "--once", code=3)
    assert redisq.rows("inspect", "r1/3")[0]["queue"] == "mail"


def test_fsck_names_a_counter_that_stops_the_queue(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    client.hset("redisq:{mail}:stat", "fence", b"secret")
    with pytest.raises(Unreadable, match="field fence"):
        queue.take(1, consumer="w")
    (row,) = redisq.rows("fsck", code=1)
    assert [line for line in row["faults"] if "field fence" in line]
    assert "secret" not in str(row)


def test_infinite_scores_and_any_bytes_are_shown(redisq: Redisq, client: redis.Redis) -> None:
    later = DelaySet(client, "later")
    later.schedule([(f"e{n}", b"x") for n in range(4)], after=600)
    odd: dict[Any, Any] = {"e0": "inf", "e1": "-inf", b"\xff": 1e300, b"": 0.5}
    client.zadd("redisq:{later}:delay", odd)
    rows = redisq.rows("delay", "ls", "--queue", "later")
    assert [row["id"] for row in rows] == ["e2", "e3", "\udcff", "e0"]
    assert [row["ready_ms"] is None for row in rows] == [False, False, True, True]
    shown = redisq("delay", "ls", "--queue", "later")
    assert r"later/\xff" in shown
    assert [row["id"] for row in redisq.rows("waiting", "ls", "later")] == ["e1", ""]
    assert redisq.rows("ls")[0]["delayed"] == 4


def test_what_is_foreign_in_streams_and_errors_is_passed_over(
    redisq: Redisq, client: redis.Redis
) -> None:
    everywhere(client, "mail")
    client.xadd("redisq:{mail}:hist", {b"\xff": b"secret", "t": "when"})
    events = redisq.rows("history", "mail")
    assert events[-1]["what"] == {"foreign": ["\\xff", "t"]} and len(events) > 1
    assert "secret" not in redisq("history", "mail")
    (dead,) = redisq.rows("dlq", "ls", "mail")
    client.hset("redisq:{mail}:err", dead["id"], NESTED)
    (row,) = redisq.rows("dlq", "ls", "mail")
    assert row["error"]["type"] == "error" and row["error"]["message"].startswith("[[[")
    client.xadd("redisq:{mail}:s:r1", {"somebody": "else's"})
    assert len(redisq.rows("waiting", "ls", "mail")) == 4
    assert redisq.rows("inspect", "mail")


def test_a_clients_corrupt_account_hides_no_other_client(
    redisq: Redisq, client: redis.Redis
) -> None:
    fair = FairQueue(client, "fair")
    for name in ("ann", "bob"):
        fair.submit(name, [(f"{name}1", b"x")])
    client.hset("redisq:{fair}:accounts", "ann", b"\xff" * 1000)
    client.zadd("redisq:{fair}:clients", {b"\xfe": 0})
    rows = redisq.rows("waiting", "ls", "fair", code=3)
    assert [row["id"] for row in rows] == ["bob1"]
    assert "fair: client ann is corrupt" in redisq.err
    ring = CircularQueue(client, "ring")
    ring.push(["e1", "e2", "e3"])
    client.hset("redisq:{ring}:spent", "e2", "many")
    rows = redisq.rows("waiting", "ls", "ring", code=3)
    assert [row["id"] for row in rows] == ["e1", "e3"]
    assert "ring: id e2 is corrupt" in redisq.err


def test_a_corrupt_operation_hides_no_other(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client, "mail")
    everywhere(client, "other")
    for name in ("mail", "other"):
        redisq("delay", "requeue", "--queue", name, "--yes")
        redisq("dlq", "purge", "--queue", name, "--yes")
    first, second = (row["id"] for row in redisq.rows("log", "--queue", "mail"))
    client.hset(f"redisq:{{mail}}:op:{first}", "done", "9" * 5000)
    assert [row["id"] for row in redisq.rows("log", "--queue", "mail", code=3)] == [second]
    assert f"operation {first} of queue mail is corrupt in the audit log" in redisq.err
    assert len(redisq.rows("log", code=3)) == 3
    (row,) = redisq.rows("fsck", "mail", code=1)
    assert row["faults"] == [f"operation {first} of queue mail is corrupt in the audit log"]


@pytest.mark.parametrize(
    ("key", "field", "value"), [("", "span", "x-y"), ("", "steps", "x"), (".0", "steps", "x")]
)
def test_an_operation_with_a_corrupt_part_or_end_ends_no_log(
    redisq: Redisq, client: redis.Redis, key: str, field: str, value: str
) -> None:
    everywhere(client, "mail")
    redisq("delay", "requeue", "--queue", "mail", "--yes")
    redisq("dlq", "purge", "--queue", "mail", "--yes")
    first, second = (row["id"] for row in redisq.rows("log"))
    client.hset(f"redisq:{{mail}}:op:{first}", "parts", "1")
    client.hset(f"redisq:{{mail}}:op:{first}{key}", field, value)
    why = f"operation {first} of queue mail is corrupt in the audit log"
    assert [row["id"] for row in redisq.rows("log", code=3)] == [second]
    assert why in redisq.err
    assert why in redisq.refusal("undo", first, "--yes", code=1)


def test_what_nobody_foresaw_is_one_line(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("secret\nof a payload")

    everywhere(client, "mail")
    monkeypatch.setattr("redisq_ops.ops.deployment.Deployment.open", broken)
    for words in (("history", "mail"), ("dlq", "ls", "mail")):
        line = redisq.refusal(*words, code=1)
        assert line.startswith("unexpected error: RuntimeError at ") and "secret" not in line
    assert redisq.rows("ls", code=3)[0]["problem"] == "unexpected error: RuntimeError"
    redisq("history", "mail", "-vv", code=1)
    assert "Traceback (most recent call last)" in redisq.err and "secret" in redisq.err
    assert cli.run(["--version"]) == 0


def test_a_worker_goes_on_beside_a_corrupt_queue(
    client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = RequestQueue(client, "good"), RequestQueue(client, "bad")
    ran: list[str] = []

    def handle(work: Work) -> None:
        ran.append(work.queue)
        if len(ran) == 1:
            client.hset("redisq:{bad}:stat", "fence", "x")
            bad.submit([b"x"], id="b")
            good.submit([b"x"] * 5, id="g2")
        if len(ran) == 6:
            worker.stop()

    worker = Worker([good, bad], handle)
    good.submit([b"x"], id="g1")
    bad.submit([], id="begun")
    with caplog.at_level(logging.ERROR, "redisq_ops"):
        thread = threading.Thread(target=worker.run)
        thread.start()
        thread.join(20)
    assert not thread.is_alive() and ran == ["good"] * 6
    assert good.counts().done == 6
    assert any(
        line.startswith("bad: key redisq:{bad}:stat, field fence") for line in caplog.messages
    )
