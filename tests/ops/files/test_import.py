"""Files that an export of a queue at work leaves, of many queues, or that somebody wrote."""

import json
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.files.export import Export
from redisq_ops.ops.files.import_check import FileContents
from redisq_ops.ops.files.import_steps import ImportSteps
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.target import Target

from ...command_line import Redisq
from ...queue_steps import Killed, run_until

ME = Author("ada", "laptop")


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "in.ndjson")


def head(queue: str, kind: str, state: str = "waiting") -> dict[str, Any]:
    return {"redisq": "export", "version": 1, "queue": queue, "kind": kind, "state": state}


def entry(id: str, payload: str = "x", total: int = 0, **more: Any) -> dict[str, Any]:
    request = {"request": {"priority": 50, "limit": 4, "total": total}} if total else {}
    return {"id": id, "state": "waiting", "payload": payload, **request, **more}


def write(file: str, *rows: dict[str, Any]) -> None:
    Path(file).write_text("".join(json.dumps(row) + "\n" for row in rows))


def all_run(queue: RequestQueue[redis.Redis]) -> list[tuple[str, bytes]]:
    """What consumers get of it, by and by."""
    found: list[tuple[str, bytes]] = []
    while taken := queue.take(10, consumer="w").deliveries:
        found += [(each.id, each.payload) for each in taken]
        queue.settle([Settlement(each, "ack") for each in taken])
    return found


# --- sub-requests that are there twice -----------------------------------------------------------


def test_what_a_worker_took_during_the_export_runs_once(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"one", b"two", b"three"], id="r1", limit=2)
    rows: list[dict[str, Any]] = []
    for state in ("waiting", "pending"):
        section = Export(Target(queue, state, Filter()), queue.now())
        while run(client, section.step()):
            rows += section.rows
        rows += section.rows
        if state == "waiting":
            queue.take(1, consumer="w")
    write(file, *rows)
    assert [row["id"] for row in rows if "id" in row] == ["r1/1", "r1/2", "r1/3", "r1/1"]

    said = redisq("import", file, "--queue", "copy", "--dry-run")
    assert "1 line has a later one of the same entry, which counts" in said
    assert "in part" not in said
    (outcome,) = redisq.rows("import", file, "--queue", "copy", "--yes")
    assert (outcome["matched"], outcome["done"], outcome["skipped"]) == (4, 3, {"same": 1})
    copy = RequestQueue(client, "copy")
    (outcome,) = redisq.rows("import", file, "--queue", "copy", "--yes")
    assert (outcome["done"], outcome["skipped"]) == (0, {"same": 4})
    assert all_run(copy) == [("r1/1", b"one"), ("r1/2", b"two"), ("r1/3", b"three")]
    assert copy.invariants() == []


def test_of_lines_of_one_sub_request_the_last_one_counts(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    write(
        file,
        head("mail", "request"),
        entry("r1/2", "b", 2),
        entry("r1/1", "old", 2),
        entry("r1/1", "older", 2),
        entry("r1/1", "a", 2),
        entry("r2/1", "c", 1),
    )
    (outcome,) = redisq.rows("import", file, "--yes")
    assert (outcome["matched"], outcome["done"], outcome["skipped"]) == (5, 3, {"same": 2})
    assert sorted(all_run(RequestQueue(client, "mail"))) == [
        ("r1/1", b"a"),
        ("r1/2", b"b"),
        ("r2/1", b"c"),
    ]


def test_a_line_that_is_there_twice_makes_up_for_none_that_is_missing(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    write(
        file,
        head("mail", "request"),
        entry("r1/1", "a", 3),
        entry("r1/3", "c", 3),
        head("mail", "request", "pending"),
        entry("r1/1", "a", 3),
    )
    assert "1 of them in part, numbered afresh: r1" in redisq("import", file, "--dry-run")


def test_where_another_request_has_its_id_each_line_is_counted(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"a", b"other"], id="r1")
    write(
        file,
        head("mail", "request"),
        entry("r1/1", "a", 2),
        entry("r1/2", "b", 2),
        entry("r1/1", "a", 2),
    )
    told = redisq.rows("import", file, "--yes", code=3)
    assert [row["id"] for row in told[:-1]] == ["r1/2"]
    assert (told[-1]["done"], told[-1]["skipped"]) == (0, {"same": 2, "exists": 1})


# --- queues of several kinds ---------------------------------------------------------------------


@pytest.mark.parametrize("order", [("jobs", "later", "mail"), ("mail", "later", "jobs")])
def test_one_file_has_queues_of_several_kinds(
    client: redis.Redis, redisq: Redisq, file: str, order: tuple[str, ...]
) -> None:
    FairQueue(client, "jobs").submit("acme", [("j1", b"x"), ("j2", b"y")])
    DelaySet(client, "later").schedule([("e1", b"1"), ("e2", b"2")], after=3600)
    RequestQueue(client, "mail").submit([b"a", b"b", b"c"], id="r1")
    redisq("export", *order, "-o", file)
    client.flushall()

    outcomes = redisq.rows("import", file, "--yes")
    there = {"jobs": 2, "later": 2, "mail": 3}
    assert [row["done"] for row in outcomes] == [there[name] for name in order]
    assert FairQueue(client, "jobs").counts().waiting == 2
    assert DelaySet(client, "later").counts().delayed == 2
    assert RequestQueue(client, "mail").counts().waiting == 3


# --- who reads what it says ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
def test_an_import_goes_on_when_nobody_reads_its_lines_any_more(
    url: str, client: redis.Redis, file: str
) -> None:
    """`redisq import … --json | head -1`: more lines than a pipe's buffer, then some to put in."""
    queue = DelaySet(client, "later")
    there = [(f"e{n:04}", b"other") for n in range(400)]
    queue.schedule(there)
    write(
        file,
        head("later", "delay"),
        *(entry(id, "new") for id, _ in there),
        *(entry(f"f{n}", "new") for n in range(200)),
        head("second", "delay"),
        entry("g", "new"),
    )
    going = subprocess.Popen(
        ["redisq", "--url", url, "import", file, "--yes", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert going.stdout is not None and going.stderr is not None
    assert json.loads(going.stdout.readline())["id"] == "e0000"
    going.stdout.close()
    said = going.stderr.read().decode()
    assert going.wait(90) == 3
    assert queue.counts().waiting == 600
    assert DelaySet(client, "second").counts().waiting == 1
    first, second = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert (first["done"], first["skipped"], second["done"]) == (200, {"exists": 400}, 1)
    assert "Traceback" not in said


# --- what somebody wrote -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"request": {"priority": 50, "limit": 0, "total": 1}}, "limit 0: must be 1 to 1000"),
        ({"request": {"priority": 50, "limit": 1001, "total": 1}}, "limit 1001: must be 1 to 1000"),
        (
            {"request": {"priority": 100, "limit": 4, "total": 1}},
            "priority 100: must be 0 (first)",
        ),
        ({"id": "a/b/1"}, "a/b/1 is no sub-request"),
        ({"id": "r2/99999999999999999999"}, "r2/99999999999999999999 is no sub-request"),
        ({"id": "r2/0"}, "r2/0 is no sub-request"),
        ({"id": "r2/01"}, "r2/01 is no sub-request"),
    ],
)
def test_what_would_stop_it_later_is_refused_before_anything_is_written(
    client: redis.Redis, redisq: Redisq, file: str, wrong: dict[str, Any], said: str
) -> None:
    write(
        file,
        head("mail", "request"),
        entry("r1/1", total=1),
        entry("r2/1", total=1) | wrong,
        entry("r3/1", total=1),
    )
    refusal = redisq.refusal("import", file, "--yes", code=2)
    assert f"line 3: {said}" in refusal and refusal.endswith("; nothing was imported")
    assert client.keys("*") == []


def test_an_id_that_comes_again_with_other_content_is_not_the_same(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    write(
        file,
        head("later", "delay"),
        entry("e1", "first"),
        entry("e1", "first"),
        entry("e1", "second"),
        head("jobs", "fair"),
        entry("j1", client="acme"),
        entry("j1", client="bell"),
    )
    told, later, of_jobs, jobs = redisq.rows("import", file, "--yes", code=3)
    assert (told["line"], told["id"]) == (4, "e1")
    assert told["problem"] == "its id is on line 2 too, with another payload"
    assert (later["done"], later["skipped"]) == (1, {"same": 1, "exists": 1})
    assert (of_jobs["line"], jobs["done"], jobs["skipped"]) == (7, 1, {"exists": 1})
    assert redisq.rows("import", file, "--yes", code=3)[-1]["skipped"] == {"same": 1, "exists": 1}
    taken = DelaySet(client, "later").take(9, consumer="w").deliveries
    assert [each.payload for each in taken] == [b"first"]


# --- batches that are sent again -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        ("delay", DelaySet),
        ("fair", FairQueue),
        ("circular", CircularQueue),
        ("carmine", CarmineQueue),
    ],
)
def test_a_batch_whose_reply_was_lost_counts_and_can_be_undone(
    client: redis.Redis, redisq: Redisq, file: str, kind: str, cls: Any
) -> None:
    name = "carmine:q" if kind == "carmine" else "q"
    own: dict[str, Any] = {"client": "acme"} if kind == "fair" else {}
    write(file, head(name, kind), *(entry(f"e{n}", **own) for n in range(5)))
    for nth in count():
        client.flushall()
        queue = cls(client, name)
        with open(file, "rb") as lines:
            change = ChangeRun(
                ImportSteps(lines, FileContents.of(lines, file).contents[name], queue), ME
            )
            try:
                run_until(client, change.step(), nth, heard=True)
            except Killed:
                while run(client, change.step()):
                    pass
            else:
                break
        assert (change.outcome.done, change.outcome.skipped) == (5, {})
        assert queue.counts().waiting == 5 and queue.invariants() == []
        redisq("undo", change.op, "--yes")
        assert (queue.counts().waiting, queue.counts().trash) == (0, 5)
    assert nth > 3


def test_a_done_message_can_be_imported_unless_equal_ones_are_refused(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    queue = CarmineQueue(client, "carmine:q")
    queue.enqueue([("m1", b"old"), ("m2", b"old")])
    first, second = queue.take(2, consumer="w").deliveries
    queue.settle([Settlement(first, "ack"), Settlement(second, "ack", delay=60)])
    write(file, head("carmine:q", "carmine"), *map(entry, ("m1", "m2", "end-of-circle")))
    (outcome,) = (row for row in redisq.rows("import", file, "--yes", code=3) if "done" in row)
    assert (outcome["done"], outcome["skipped"]) == (1, {"exists": 2})
    assert client.lrange("carmine:mq:q:mid-circle", 0, -1).count(b"m1") == 1
    assert [(each.id, each.payload) for each in queue.take(9, consumer="w").deliveries] == [
        ("m1", b"x"),
    ]
    assert queue.invariants() == []
