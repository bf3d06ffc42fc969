"""Entries as a file and back: every kind, every state, and what goes wrong on the way."""

import io
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import STATES, Entry, Request, Settlement
from redisq_ops.core.queues.carmine import CarmineQueue, ShardedCarmineQueue
from redisq_ops.core.queues.circular import CircularQueue, ShardedCircularQueue
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue, ShardedFairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.ops.files.export import Export

from ...command_line import ERROR, Redisq, dead_letters, everywhere

BYTES = b"\x00\xff [red]"


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "out.ndjson")


def rows(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def entries(file: str) -> list[dict[str, Any]]:
    return [row for row in rows(file) if "redisq" not in row]


def everything(queue: Queue[Any]) -> dict[str, Entry]:
    """Every entry with its payload, by id."""
    found: dict[str, Entry] = {}
    for state in STATES:
        page = queue.page(state, max=500, payloads=True)
        found |= {entry.id: entry for entry in page.entries}
    return found


def there(queue: Queue[Any], id: str) -> Entry:
    found: Entry | None = queue.get(id)
    assert found is not None
    return found


def known(queue: RequestQueue[redis.Redis], id: str) -> Request:
    found = queue.request(id)
    assert found is not None
    return found


def moved(from_: dict[str, Entry], to: dict[str, Entry], id: str) -> None:
    """That an entry is the same but for what belongs to a queue alone."""
    for name in ("state", "payload", "failures", "lost", "first_ms", "reason", "error", "client"):
        assert getattr(to[id], name) == getattr(from_[id], name), name


# --- every kind goes there and back ------------------------------------------------------------


def test_a_delay_set_comes_back_as_it_was(client: redis.Redis, redisq: Redisq, file: str) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([("dead", BYTES), ("back", b"text")])
    deliveries = {d.id: d for d in queue.take(2, consumer="w").deliveries}
    queue.settle(
        [
            Settlement(deliveries["dead"], "reject", ERROR.encoded()),
            Settlement(deliveries["back"], "fail", ERROR.encoded(), 60),
        ]
    )
    queue.schedule([("soon", "é".encode())], after=3600)
    queue.schedule([("due", b"")])
    before = everything(queue)
    redisq("export", "later", "-o", file)
    queue.client.flushall()

    assert "imported into later: 4 of 4" in redisq("import", file, "--yes")
    after = everything(queue)
    assert set(after) == set(before) == {"dead", "back", "soon", "due"}
    for id in after:
        moved(before, after, id)
    assert after["soon"].at_ms == before["soon"].at_ms
    assert after["dead"].error == ERROR
    assert queue.invariants() == []
    assert [d.id for d in queue.take(10, consumer="w").deliveries] == ["due"]


def test_a_circular_queue_comes_back_as_it_was(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = CircularQueue(client, "ring")
    queue.push([("dead", BYTES), ("back", b"x")])
    deliveries = {d.id: d for d in queue.take(2, consumer="w").deliveries}
    queue.settle(
        [
            Settlement(deliveries["dead"], "reject", ERROR.encoded()),
            Settlement(deliveries["back"], "fail", ERROR.encoded(), 60),
        ]
    )
    queue.push(["a", "b", ("c", b"with")])
    before = everything(queue)
    redisq("export", "ring", "-o", file)
    queue.client.flushall()

    redisq("import", file, "--yes")
    after = everything(CircularQueue(client, "ring"))
    assert set(after) == set(before)
    for id in after:
        moved(before, after, id)
    assert queue.invariants() == []
    assert [d.id for d in queue.take(10, consumer="w").deliveries] == ["a", "b", "c"]


def test_a_fair_queue_keeps_clients_and_their_order(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = FairQueue(client, "jobs")
    queue.submit("acme", [("a1", b"1"), ("a2", BYTES)])
    queue.submit("bell", [("b1", b"3")])
    before = everything(queue)
    redisq("export", "jobs", "-o", file)

    redisq("import", file, "--queue", "copy", "--yes")
    copy = FairQueue(client, "copy")
    assert {i: (e.client, e.payload) for i, e in everything(copy).items()} == {
        i: (e.client, e.payload) for i, e in before.items()
    }
    assert [d.id for d in copy.take(3, consumer="w").deliveries if d.client == "acme"] == [
        "a1",
        "a2",
    ]
    assert copy.invariants() == []


def test_a_carmine_queue_comes_back(client: redis.Redis, redisq: Redisq, file: str) -> None:
    queue = CarmineQueue(client, "carmine:q")
    queue.enqueue([("m1", b"one")])
    queue.enqueue([("m2", BYTES)], backoff=60)
    redisq("export", "carmine:q", "-o", file)
    client.flushall()

    redisq("import", file, "--yes")
    found = everything(CarmineQueue(client, "carmine:q"))
    assert {i: (e.state, e.payload) for i, e in found.items()} == {
        "m1": ("waiting", b"one"),
        "m2": ("delayed", BYTES),
    }


def test_a_request_comes_back_with_its_numbers(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = RequestQueue(client, "mail")
    payloads = [b"%d" % n for n in range(1, 251)]
    payloads[7] = BYTES
    queue.submit(payloads, id="r1", priority=7, limit=3)
    redisq("export", "mail", "-o", file)
    assert len(entries(file)) == 250

    redisq("import", file, "--queue", "copy", "--yes")
    copy = RequestQueue(client, "copy")
    request = copy.request("r1")
    assert request is not None
    assert (request.state, request.total, request.priority, request.limit) == ("sealed", 250, 7, 3)
    assert [there(copy, f"r1/{n}").payload for n in (1, 8, 250)] == [b"1", BYTES, b"250"]
    assert copy.invariants() == []
    assert "same" in redisq("import", file, "--queue", "copy", "--yes")
    assert copy.counts().waiting == 250


def test_dead_sub_requests_are_a_request_of_their_own(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    """What is dead can't be put among the dead of a request queue: that is said, not done."""
    dead_letters(client, 12)
    redisq("export", "mail/r1/3", "mail/r1/7", "--state", "dead", "-o", file)
    said = redisq.refusal("import", file, "--queue", "copy", "--yes", code=1)
    assert "2 of them are dead" in said and "--as-waiting" in said

    plan = redisq("import", file, "--queue", "copy", "--as-waiting", "--dry-run")
    assert "numbered afresh" in plan and "copy (new)" in plan
    redisq("import", file, "--queue", "copy", "--as-waiting", "--yes")
    assert known(RequestQueue(client, "copy"), "r1").total == 2


@pytest.mark.parametrize(
    ("made", "put"),
    [
        (
            lambda c: ShardedDelaySet(c, "q", shards=3),
            lambda q, ids: q.schedule([(i, i.encode()) for i in ids], after=3600),
        ),
        (
            lambda c: ShardedCircularQueue(c, "q", shards=3),
            lambda q, ids: q.push([(i, i.encode()) for i in ids]),
        ),
        (
            lambda c: ShardedFairQueue(c, "q", shards=3),
            lambda q, ids: [q.submit(f"c{i}", [(i, i.encode())]) for i in ids],
        ),
        (
            lambda c: ShardedCarmineQueue(c, "carmine:q", shards=3),
            lambda q, ids: q.enqueue([(i, i.encode()) for i in ids]),
        ),
    ],
    ids=["delay", "circular", "fair", "carmine"],
)
def test_into_a_queue_of_several_shards(
    client: redis.Redis,
    redisq: Redisq,
    file: str,
    made: Callable[[redis.Redis], Queue[Any]],
    put: Callable[[Any, list[str]], Any],
) -> None:
    ids = [f"e{n}" for n in range(120)]
    put(made(client), ids)
    redisq("export", made(client).name, "-o", file)
    client.flushall()
    put(made(client), ids[:20])

    redisq("import", file, "--yes")
    queue = made(client)
    assert sorted(everything(queue)) == sorted(ids)
    assert queue.invariants() == []


def test_another_programs_queue_is_exported_only(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    client.sadd("queues", "low")
    client.lpush(
        "queue:low",
        json.dumps(
            {
                "class": "Job",
                "args": [1],
                "jid": "abc",
                "queue": "low",
                "created_at": 1.0,
                "enqueued_at": 1.0,
            }
        ),
    )
    redisq("export", "sidekiq:low", "-o", file)
    assert [json.loads(row["payload"])["jid"] for row in entries(file)] == ["abc"]
    assert "exported only" in redisq.refusal("import", file, "--yes", code=1)


def test_where_nothing_can_go_in_no_import_is_begun(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    """One line instead of a plan, and not a key more: Carmine's own queue, a key in the way."""
    CarmineQueue(client, "carmine:q").enqueue([("m1", b"one")])
    redisq("export", "carmine:q", "-o", file)
    client.hset("carmine:mq:theirs:messages", "m", "x")
    client.lpush("carmine:mq:theirs:mid-circle", "end-of-circle", "m")
    client.set("carmine:mq:odd:locks", "str")
    before = sorted(client.scan_iter())
    for name, why in (("theirs", "can't add entries"), ("odd", "carmine:mq:odd:locks is a string")):
        said = redisq.refusal("import", file, "--queue", f"carmine:{name}", "--yes", code=1)
        assert why in said
    assert sorted(client.scan_iter()) == before


# --- what an export is ---------------------------------------------------------------------------


def test_an_export_says_what_it_is_and_is_all_there(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    everywhere(client)
    redisq("export", "mail", "-o", file)
    heads = [row for row in rows(file) if row.get("redisq") == "export"]
    assert [(h["queue"], h["kind"], h["state"], h["version"]) for h in heads] == [
        ("mail", "request", state, 1) for state in ("delayed", "waiting", "pending", "dead")
    ]
    ends = {row["state"]: row["entries"] for row in rows(file) if row.get("redisq") == "end"}
    assert ends == {"waiting": 4, "pending": 1, "delayed": 1, "dead": 1}
    dead = next(row for row in entries(file) if row["state"] == "dead")
    assert dead["error"]["type"] == "SMTP" and dead["reason"] == "rejected"
    assert dead["payload_b64"] and "payload" not in dead
    assert dead["request"] == {"priority": 50, "limit": 8, "total": 8}


def test_the_filter_chooses_what_is_exported(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    everywhere(client)
    redisq("export", "mail", "--match", "SMTP", "--state", "dead", "--state", "delayed", "-o", file)
    assert sorted(row["state"] for row in entries(file)) == ["dead", "delayed"]
    redisq("export", "mail", "--state", "waiting", "--max", "2", "-o", file)
    assert len(entries(file)) == 2
    assert rows(file)[-1]["complete"] is False
    assert "--state must be" in redisq.refusal("export", "mail", "--state", "gone", code=2)


def test_on_stdout_is_nothing_but_the_export(client: redis.Redis, redisq: Redisq) -> None:
    everywhere(client)
    lines = redisq("export", "mail").splitlines()
    assert all(json.loads(line) for line in lines)
    assert "7 entries of mail" in redisq.err


# --- what an import does -------------------------------------------------------------------------


def test_run_again_it_adds_nothing(client: redis.Redis, redisq: Redisq, file: str) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([(f"e{n}", b"x") for n in range(120)], after=3600)
    redisq("export", "later", "-o", file)
    again = redisq.rows("import", file, "--yes")
    assert again[-1] | {"op": ""} == {"op": "", "matched": 120, "done": 0, "skipped": {"same": 120}}
    queue.schedule([("e7", b"y")], after=3600)  # exists: nothing happens
    assert queue.counts().delayed == 120


def test_what_becomes_due_during_an_export_is_in_it(
    client: redis.Redis, redisq: Redisq, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([(f"e{n}", b"x") for n in range(20)], after=0.3)
    step = Export.step

    async def slow(self: Export) -> bool:
        more = await step(self)
        if not more:
            time.sleep(0.4)
        return more

    monkeypatch.setattr(Export, "step", slow)
    redisq("export", "later", "-o", file)
    client.flushall()
    redisq("import", file, "--yes", code=None)
    assert queue.counts().waiting == 20


def test_what_is_there_with_other_content_is_told_line_by_line(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([("a", b"1"), ("b", b"2"), ("c", b"3")], after=3600)
    redisq("export", "later", "-o", file)
    client.flushall()
    queue = DelaySet(client, "later")
    queue.schedule([("b", b"other")], after=3600)

    told = redisq.rows("import", file, "--yes", code=3)
    line = next(n for n, row in enumerate(rows(file), 1) if row.get("id") == "b")
    assert (
        told[0]["line"] == line and told[0]["id"] == "b" and "another payload" in told[0]["problem"]
    )
    assert told[-1]["done"] == 2 and told[-1]["skipped"] == {"exists": 1}
    assert there(queue, "b").payload == b"other"


def test_undo_takes_back_what_nobody_touched(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([("kept", b"1"), ("a", b"1"), ("b", b"2")], at=10**9)
    redisq("export", "later", "-o", file)
    client.flushall()
    queue = DelaySet(client, "later")
    queue.schedule([("kept", b"1")])
    redisq("import", file, "--yes", "--reason", "moved")
    (taken,) = queue.take(1, consumer="w").deliveries
    assert taken.id == "a"  # the earlier time
    said = redisq("undo", "--yes", code=3)
    assert "1 of 2, skipped 1 changed" in said
    left = everything(queue)
    assert {id: entry.state for id, entry in left.items()} == {
        "kept": "waiting",
        "a": "pending",
        "b": "trash",
    }
    assert queue.invariants() == []
    redisq("undo", "--yes", code=1)


@pytest.mark.parametrize("kind", ["delay", "fair", "circular"])
def test_undo_leaves_other_work_that_has_the_id_by_now(
    client: redis.Redis, redisq: Redisq, tmp_path: Path, kind: str
) -> None:
    file = str(tmp_path / "export")

    def put(payload: bytes) -> Queue[redis.Redis]:
        if kind == "delay":
            delays = DelaySet(client, "q")
            delays.schedule([("e1", payload)])
            return delays
        if kind == "fair":
            fair = FairQueue(client, "q")
            fair.submit("acme", [("e1", payload)])
            return fair
        circle = CircularQueue(client, "q")
        circle.push([("e1", payload)])
        return circle

    put(b"old")
    redisq("export", "q", "-o", file)
    client.flushall()
    redisq("import", file, "--yes")
    (operation,) = redisq.rows("log")
    queue = {"delay": DelaySet, "fair": FairQueue, "circular": CircularQueue}[kind](client, "q")
    queue.settle([Settlement(one, "ack") for one in queue.take(1, consumer="w").deliveries])
    put(b"new")
    said = redisq("undo", operation["id"], "--yes", code=1)
    assert "0 of 1" in said and "left alone: q/e1" in said + redisq.err
    found = queue.get("e1")
    assert found is not None and (found.state, found.payload) == ("waiting", b"new")


def test_more_than_can_be_undone_is_said_before_it_begins(
    client: redis.Redis, redisq: Redisq, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.ops.files.import_preview.UNDOABLE", 3)
    queue = DelaySet(client, "later")
    queue.schedule([(id, b"1") for id in "abcde"], at=10**9)
    redisq("export", "later", "-o", file)
    client.flushall()
    assert "  more than 3: there is no undo\n" in redisq("import", file, "--dry-run")
    assert redisq.rows("import", file, "--dry-run")[0]["undoable"] is False
    assert "more than 3: there is no undo" in redisq("import", file, code=5)
    redisq("import", file, "--yes")
    assert "more than 3: there is no undo" in redisq.err and "undo with" not in redisq.err
    redisq.refusal("undo", code=1)


def test_undo_cancels_the_requests_it_made(client: redis.Redis, redisq: Redisq, file: str) -> None:
    RequestQueue(client, "mail").submit([b"1", b"2"], id="r1")
    redisq("export", "mail", "-o", file)
    redisq("import", file, "--queue", "copy", "--yes")
    redisq("undo", "--yes")
    assert known(RequestQueue(client, "copy"), "r1").state == "cancelled"
    assert known(RequestQueue(client, "mail"), "r1").state == "sealed"


def test_a_full_queue_takes_what_it_has_room_for(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([(f"e{n}", b"x") for n in range(30)], after=3600)
    redisq("export", "later", "-o", file)
    client.flushall()
    queue = DelaySet(client, "later")
    queue.schedule([("first", b"x")])
    redisq("settings", "later", "max_waiting=10", "--yes")
    told = redisq.rows("import", file, "--yes", code=3)
    assert told[-1]["done"] == 9 and told[-1]["skipped"] == {"full": 21}
    assert "max_waiting" in told[0]["problem"]
    redisq("settings", "later", "max_waiting=0", "--yes")
    redisq("import", file, "--yes")
    assert queue.counts().delayed == 30


def test_a_queue_that_takes_no_new_work_takes_none_of_it(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    RequestQueue(client, "mail").submit([b"1", b"2"], id="r1")
    DelaySet(client, "later").schedule([("a", b"1")])
    for name in ("mail", "later"):
        redisq("export", name, "-o", file)
        redisq("import", file, "--queue", "copy" + name, "--yes")
        redisq("queue", "drain", "copy" + name, "--yes")
    Path(file).write_text(Path(file).read_text().replace('"a"', '"b"'))
    told = redisq.rows("import", file, "--queue", "copylater", "--yes", code=1)
    assert "draining" in told[0]["problem"] and told[-1]["skipped"] == {"closed": 1}


def test_a_dry_run_writes_nothing(client: redis.Redis, redisq: Redisq, file: str) -> None:
    DelaySet(client, "later").schedule([("a", b"1")], after=3600)
    redisq("export", "later", "-o", file)
    client.flushall()
    (plan,) = redisq.rows("import", file, "--dry-run")
    assert plan["matched"] == 1 and plan["states"] == {"delayed": 1}
    assert redisq.rows("import", file, code=5)
    assert client.keys("*") == []


def test_another_kind_is_refused(client: redis.Redis, redisq: Redisq, file: str) -> None:
    DelaySet(client, "later").schedule([("a", b"1")])
    CircularQueue(client, "ring").push(["x"])
    redisq("export", "later", "-o", file)
    said = redisq.refusal("import", file, "--queue", "ring", "--yes", code=1)
    assert said == "queue ring is a circular queue, and these are entries of a delay queue"


@pytest.mark.alike
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 2, "is not an export"),
        ("hello\n", 2, "line 1: not a JSON object"),
        ('{"id": "a", "state": "waiting", "payload": "x"}\n', 2, "before any line that says"),
        ('{"redisq": "export", "version": 9, "queue": "q"}\n', 2, "export of format 9"),
        ('HEAD\n{"id": "a b", "state": "waiting", "payload": "x"}\n', 2, "line 2: "),
        ('HEAD\n{"id": "a", "state": "gone", "payload": "x"}\n', 2, "state must be"),
        ('HEAD\n{"id": "a", "state": "waiting"}\n', 2, "a has no payload"),
        ('HEAD\n{"id": "a", "state": "waiting", "payload_b64": "%%%"}\n', 2, "not base64"),
        ('HEAD\n{"id": "a", "state": "dead", "payload": "x", "failures": -1}\n', 2, "failures"),
        ('HEAD\n{"id": "a", "state": "dead", "payload": "x", "error": [1]}\n', 2, "error of a"),
        ('HEAD\n{"id": "a", "state": "dead", "payload": "x", "reason": "a b"}\n', 2, "reason"),
        ('HEAD\n[[[[\n{"id": 3}\n', 2, "(and 1 more lines)"),
        (
            'HEAD\n{"id": "a", "state": "waiting", "payload": "***", "redacted": true}\n',
            1,
            "its payload or error was redacted",
        ),
    ],
)
def test_a_file_that_can_not_be_used_changes_nothing(
    client: redis.Redis, redisq: Redisq, file: str, text: str, code: int, said: str
) -> None:
    head = '{"redisq": "export", "version": 1, "queue": "q", "kind": "delay", "state": "waiting"}'
    Path(file).write_text(text.replace("HEAD", head))
    assert said in redisq.refusal("import", file, "--yes", code=code)
    assert client.keys("*") == []


def test_a_file_that_was_cut_off_says_so(client: redis.Redis, redisq: Redisq, file: str) -> None:
    DelaySet(client, "later").schedule([("a", b"1"), ("b", b"2")], after=3600)
    redisq("export", "later", "-o", file)
    whole = Path(file).read_text().splitlines(keepends=True)
    assert "cut off" not in redisq("import", file, "--dry-run")
    Path(file).write_text("".join(whole[:-1]))
    assert "cut off" in redisq("import", file, "--dry-run")


def test_a_pipe_is_read_as_well(
    client: redis.Redis, redisq: Redisq, monkeypatch: pytest.MonkeyPatch
) -> None:
    DelaySet(client, "later").schedule([("a", b"1")], after=3600)
    out = redisq("export", "later")
    client.flushall()

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    stdin = io.TextIOWrapper(Pipe(out.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    redisq("import", "-", "--yes")
    assert there(DelaySet(client, "later"), "a").payload == b"1"


# --- interruptions, and a disk that is full ------------------------------------------------------


def command(url: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "redisq_ops", "--url", url, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


@pytest.mark.alike
@pytest.mark.slow
def test_a_full_disk_leaves_no_half_file(url: str, client: redis.Redis, tmp_path: Path) -> None:
    DelaySet(client, "later").schedule([(f"e{n}", b"x" * 5000) for n in range(60)])
    out = tmp_path / "there"
    out.mkdir()
    (out / "e.ndjson").write_text("what was there before\n")

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = command(url, "export", "later", "-o", str(out / "e.ndjson"), preexec_fn=full)
    said = done.communicate(timeout=90)[1]
    assert done.returncode == 1
    assert said.count("\n") == 1 and "it was not written; make room" in said
    assert [path.name for path in out.iterdir()] == ["e.ndjson"]
    assert (out / "e.ndjson").read_text() == "what was there before\n"


def test_a_full_device_is_one_line(client: redis.Redis, redisq: Redisq) -> None:
    DelaySet(client, "later").schedule([("a", b"1")])
    said = redisq.refusal("export", "later", "-o", "/dev/full", code=1)
    assert said.startswith("/dev/full: No space left on device")
    assert "no such" in redisq.refusal("export", "later", "-o", "/nowhere/x", code=2).lower()


@pytest.mark.alike
@pytest.mark.slow
def test_an_export_stopped_by_ctrl_c_leaves_nothing(
    url: str, client: redis.Redis, tmp_path: Path
) -> None:
    queue = DelaySet(client, "later")
    for k in range(8):
        queue.schedule([(f"e{k}-{n}", b"x" * 100) for n in range(500)])
    out = tmp_path / "there"
    out.mkdir()
    done = command(url, "export", "later", "-o", str(out / "e.ndjson"), "--scan-rate", "2000/s")
    while not any(path.stat().st_size for path in out.iterdir()):
        assert done.poll() is None
        time.sleep(0.005)
    done.send_signal(signal.SIGINT)
    said = done.communicate(timeout=90)[1]
    assert done.returncode == 130 and "was not written" in said
    assert list(out.iterdir()) == []


@pytest.mark.alike
@pytest.mark.slow
def test_an_import_that_was_killed_goes_on(
    url: str, client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = DelaySet(client, "later")
    for k in range(10):
        queue.schedule([(f"e{k}-{n}", b"%d" % n) for n in range(500)], after=3600)
    redisq("export", "later", "-o", file)
    client.flushall()
    done = command(url, "import", file, "--yes", "--rate", "2000/s")
    queue = DelaySet(client, "later")
    while queue.counts().delayed < 200:
        assert done.poll() is None
        time.sleep(0.005)
    done.kill()
    done.communicate(timeout=90)
    before = queue.counts().delayed
    assert 0 < before < 5000

    (outcome,) = redisq.rows("import", file, "--yes")
    assert outcome["done"] == 5000 - before and outcome["skipped"] == {"same": before}
    assert queue.counts().delayed == 5000
    assert queue.invariants() == []


@pytest.mark.alike
@pytest.mark.slow
def test_an_import_stopped_by_ctrl_c_says_how_far_it_came(
    url: str, client: redis.Redis, redisq: Redisq, file: str
) -> None:
    DelaySet(client, "later").schedule([(f"e{n}", b"x") for n in range(400)], after=3600)
    redisq("export", "later", "-o", file)
    client.flushall()
    done = command(url, "import", file, "--yes", "--rate", "50/s")
    queue = DelaySet(client, "later")
    while not queue.counts().delayed:
        assert done.poll() is None
        time.sleep(0.005)
    done.send_signal(signal.SIGINT)
    out, err = done.communicate(timeout=90)
    there = queue.counts().delayed
    assert done.returncode == 130 and 0 < there < 400
    assert f"imported into later: {there} of 400" in out
    assert "run it again to continue" in err
    redisq("undo", "--yes")
    assert queue.counts().delayed == 0


@pytest.mark.alike
@pytest.mark.slow
def test_a_request_import_that_was_killed_goes_on(
    url: str, client: redis.Redis, redisq: Redisq, file: str
) -> None:
    RequestQueue(client, "mail").submit([b"%d" % n for n in range(20_000)], id="r1")
    redisq("export", "mail", "-o", file)
    client.flushall()
    done = command(url, "import", file, "--yes", "--rate", "8000/s")
    queue = RequestQueue(client, "mail")
    while (request := queue.request("r1")) is None or request.total < 300:
        assert done.poll() is None
        time.sleep(0.002)
    done.kill()
    done.communicate(timeout=90)
    begun = known(queue, "r1")
    assert begun.state == "open" and begun.total < 20_000

    (outcome,) = redisq.rows("import", file, "--yes")
    assert outcome["done"] == 20_000 - begun.total
    assert known(queue, "r1").state == "sealed" and known(queue, "r1").total == 20_000
    assert there(queue, "r1/19999").payload == b"19998"
    assert queue.invariants() == []


# --- the configuration ---------------------------------------------------------------------------


def test_what_is_redacted_can_not_come_back(
    client: redis.Redis, redisq: Redisq, file: str, configuration: Path
) -> None:
    configuration.write_text('[redact]\nkeys = ["password"]\n')
    queue = DelaySet(client, "later")
    secret, plain = b'{"password": "hunter2", "n": 1}', b'{"n": 2}'
    queue.schedule([("a", secret), ("b", plain)], after=3600)
    redisq("export", "later", "-o", file)
    assert "1 are redacted" in redisq.err
    assert "hunter2" not in Path(file).read_text()
    by_id = {row["id"]: row for row in entries(file)}
    assert by_id["a"]["redacted"] is True and "redacted" not in by_id["b"]
    assert by_id["b"]["payload"] == plain.decode()
    assert "was redacted" in redisq.refusal("import", file, "--yes", code=1)

    redisq("export", "later", "--raw-payloads", "-o", file)
    assert "hunter2" in Path(file).read_text()
    client.flushall()
    redisq("import", file, "--yes")
    assert there(DelaySet(client, "later"), "a").payload == secret
    configuration.write_text('[redact]\nkeys = ["password"]\nforced = true\n')
    redisq("export", "later", "-o", file)
    assert "1 are redacted and can't be imported (redact.forced in the configuration)" in redisq.err
    assert "--raw" not in redisq.err
    said = redisq.refusal("export", "later", "--raw-payloads", code=1)
    assert said == "--raw-payloads is not allowed here (redact.forced in the configuration)"


def test_an_export_says_what_an_import_can_not_take(
    client: redis.Redis, redisq: Redisq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dead_letters(client, 2)
    redisq("export", "mail", "-o", "mail.ndjson")
    line = (
        "mail: 2 dead: a request queue can import these only with --as-waiting: they wait for a "
        "worker then, attempts restart at zero\n"
    )
    assert line in redisq.err
    redisq("import", "mail.ndjson", "--queue", "copy", "--yes", code=1)
    redisq("import", "mail.ndjson", "--queue", "copy", "--as-waiting", "--yes")
    assert RequestQueue(client, "copy").counts().waiting == 2
    redisq("export", "copy", "-o", "copy.ndjson")
    assert "as-waiting" not in redisq.err
    client.xgroup_create("orders", "g", id="0", mkstream=True)
    client.xadd("orders", {"n": 1})
    redisq("export", "stream:orders", "-o", "orders.ndjson")
    assert "kept by another program: redisq import can't put these back" in redisq.err
