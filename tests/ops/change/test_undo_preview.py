"""What an undo left alone: how many can still be taken back, and afterwards which could not."""

import json
import re
from pathlib import Path

import pytest
import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.delay.sharded import ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue, ShardedFairQueue
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.audit_log import Author, read
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.ndjson import Format, line

from ...command_line import ERROR, Redisq, dead_letters

pytestmark = pytest.mark.alike


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(row) for row in path.read_text().splitlines()]


def test_what_was_touched_is_named(redisq: Redisq, client: redis.Redis, tmp_path: Path) -> None:
    queue = dead_letters(client, 30)
    (done,) = redisq.rows("replay", "mail", "--yes")
    taken = {delivery.id for delivery in queue.take(8, consumer="w").deliveries}
    said = redisq("undo", done["op"], "--dry-run")
    assert "22 of them are unchanged" in said
    assert f"redisq select mail --where 'state:waiting op={done['op']}'" in said
    (plan,) = redisq.rows("undo", done["op"], "--dry-run")
    assert plan["untouched"] == 22
    listed = redisq.rows("select", "mail", "--where", f"state:waiting op={done['op']}")
    assert {row["id"] for row in listed} == {f"r1/{n}" for n in range(1, 31)} - taken
    report = tmp_path / "left"
    (back,) = redisq.rows("undo", done["op"], "--yes", "--report", str(report), code=3)
    assert (back["done"], back["skipped"], back["unnamed"]) == (22, {"changed": 8}, 0)
    assert set(back["sample"]) < taken and len(back["sample"]) == 5
    head, *told, end = lines(report)
    assert head == {"redisq": "undo report", "version": 1, "op": done["op"]}
    assert {row["id"] for row in told} == taken and {row["said"] for row in told} == {"changed"}
    (again,) = redisq.rows("replay", "mail", "--yes")
    queue.settle([Settlement(each, "ack") for each in queue.take(30, consumer="w").deliveries])
    assert "nothing is left to undo: 22 of 22 changed since" in redisq(
        "undo", again["op"], "--dry-run"
    )
    assert (end["done"], end["unnamed"]) == (22, 0)


def test_an_undo_that_was_killed_is_unfinished_until_another_ended(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = dead_letters(client, 600)
    (done,) = redisq.rows("replay", "mail", "--yes")
    operation = run(client, read(queue, done["op"]))
    assert operation is not None
    for _ in range(2):
        run(client, ChangeRun(UndoSteps(queue, operation), Author("ada", "vm")).step())
    assert redisq("log").count("unfinished") == 2
    redisq("undo", done["op"], "--yes")
    assert "unfinished" not in redisq("log")
    assert [row["ended"] for row in redisq.rows("log")] == [True] * 4


@pytest.mark.parametrize("shards", [1, 3])
def test_a_setting_that_was_set_again_since_stays(
    redisq: Redisq, client: redis.Redis, shards: int
) -> None:
    queue = ShardedRequestQueue(client, "mail", shards=shards)
    queue.submit([b"x"] * 5, id="r1")
    (mine,) = redisq.rows("queue", "pause", "mail", "--yes")
    redisq("queue", "resume", "mail", "--yes")
    redisq("queue", "pause", "mail", "--reason", "migration, do not resume", "--yes")
    (back,) = redisq.rows("undo", mine["op"], "--yes", code=1)
    assert (back["done"], back["skipped"], back["sample"]) == (0, {"changed": 1}, ["paused"])
    assert redisq.rows("ls")[0]["paused"] == "migration, do not resume"
    assert queue.take(1, consumer="w").deliveries == ()
    assert "undone already" in redisq.refusal("undo", mine["op"], "--yes", code=1)

    (mine,) = redisq.rows("settings", "mail", "max_failures=5", "max_lost=6", "--yes")
    redisq("settings", "mail", "max_failures=7", "--yes")
    assert "1 of 2" in redisq("undo", mine["op"], "--yes", code=3)
    assert "left alone: mail/max_failures\n" in redisq.err
    have = [run(client, part.settings.op()) for part in queue._all_shards()]
    assert all(one["max_failures"] == "7" and "max_lost" not in one for one in have)

    redisq("queue", "resume", "mail", "--yes")
    redisq("queue", "pause", "mail", "--reason", "-", "--yes")  # no value, in a script's reply
    assert redisq.rows("undo", "--yes")[0]["done"] == 1
    assert "paused" not in queue.settings()

    # What somebody else put back already is as it was to be.
    (mine,) = redisq.rows("queue", "drain", "mail", "--yes")
    redisq("queue", "resume", "mail", "--yes")
    (back,) = redisq.rows("undo", mine["op"], "--yes")
    assert (back["done"], back["skipped"]) == (0, {"same": 1})


@pytest.mark.parametrize("shards", [1, 3])
def test_a_limit_or_rule_that_was_changed_again_since_stays(
    redisq: Redisq, client: redis.Redis, shards: int
) -> None:
    mail = ShardedRequestQueue(client, "mail", shards=shards)
    mail.submit([b"x"] * 5, id="r1", limit=4)
    (mine,) = redisq.rows("request", "limit", "mail/r1", "16", "--yes")
    redisq("request", "limit", "mail/r1", "1", "--yes")
    (back,) = redisq.rows("undo", mine["op"], "--yes", code=1)
    assert (back["skipped"], back["sample"]) == ({"changed": 1}, ["r1"])
    request = mail.request("r1")
    assert request is not None and request.limit == 1
    jobs = ShardedFairQueue(client, "jobs", shards=shards)
    jobs.submit("acme", [b"x"])
    for rule, first, second in (("weight", "4", "9"), ("cap", "16", "1")):
        (mine,) = redisq.rows("client", rule, "jobs", "acme", first, "--yes")
        (theirs,) = redisq.rows("client", rule, "jobs", "acme", second, "--yes")
        (back,) = redisq.rows("undo", mine["op"], "--yes", code=1)
        assert (back["skipped"], back["sample"]) == ({"changed": 1}, ["acme"])
        assert redisq.rows("client", "ls", "jobs")[0][rule] == int(second)
        assert redisq.rows("undo", theirs["op"], "--yes")[0]["done"] == 1
        assert redisq.rows("client", "ls", "jobs")[0][rule] == int(first)


def test_a_person_sees_some_of_them(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 10)
    redisq("replay", "mail", "--yes")
    taken = [delivery.id for delivery in queue.take(7, consumer="w").deliveries]
    redisq("undo", "--yes", code=3)
    (line,) = [line for line in redisq.err.splitlines() if line.startswith("left alone: ")]
    assert line.endswith(" and 2 more (--report FILE lists them)")
    assert sum(f"mail/{id}" in line for id in taken) >= 5


def test_of_shards_and_edits_and_whole_states_they_are_named_too(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = ShardedRequestQueue(client, "wide", shards=3)
    queue.submit([b'{"a": 1}'] * 40, id="r1", limit=100)
    while taken := queue.take(40, consumer="w").deliveries:
        queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken])
    (done,) = redisq.rows("purge", "wide", "--state", "dead", "--yes")
    queue.move("x", 1, ["r1/7"], source="trash", target="restore", high_water_ms=2**52)
    (back,) = redisq.rows("undo", done["op"], "--yes", code=3)
    assert (back["sample"], back["skipped"]) == (["r1/7"], {"changed": 1})
    patch = '[{"op": "replace", "path": "/a", "value": 2}]'
    (done,) = redisq.rows("dlq", "edit", "--queue", "wide", "--patch", patch, "--yes")
    queue.move("y", 1, ["r1/3"], source="dead", target="waiting", high_water_ms=2**52)
    (plan,) = redisq.rows("undo", done["op"], "--dry-run")
    assert plan["untouched"] == 39
    (back,) = redisq.rows("undo", done["op"], "--yes", code=3)
    assert (back["done"], back["sample"]) == (39, ["r1/3"])


def test_of_a_move_they_are_named_where_they_went(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    dead_letters(client, 1)  # of a request queue: not moved, and in nobody's way
    first, other = FairQueue(client, "a"), FairQueue(client, "b")
    first.submit("ann", [(f"e{n}", b"x") for n in range(6)])
    other.submit("bob", [("e9", b"y")])
    redisq("move", "a", "--to", "b", "--state", "waiting", "--yes")
    assert redisq("log", "--queue", "b").splitlines()[-1].endswith("see a")
    taken = {one.id for one in other.take(3, consumer="w").deliveries} - {"e9"}
    assert taken
    report = tmp_path / "left"
    redisq("undo", "--yes", "--report", str(report), code=3)
    (line,) = [line for line in redisq.err.splitlines() if line.startswith("left alone: ")]
    assert sorted(taken) == sorted(re.findall(r"b/(e\d)", line))
    _, *told, end = lines(report)
    assert {row["id"] for row in told} == taken and end["unnamed"] == 0


def test_what_an_import_put_in_is_counted_once_and_named(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    """Over shards too, where each counts what it moved."""
    file = str(tmp_path / "file")
    wide = ShardedDelaySet(client, "wide", shards=3)
    wide.schedule([(f"e{n}", b"x") for n in range(20)], after=0)
    redisq("export", "wide", "-o", file)
    redisq("queue", "rm", "wide", "--hard", "--yes")
    wide = ShardedDelaySet(client, "wide", shards=3)
    redisq("import", file, "--yes")
    taken = {delivery.id for delivery in wide.take(3, consumer="w").deliveries}
    wide.move("x", 1, ["e5", "e6"], source="waiting", target="trash", high_water_ms=2**52)
    put_away = 20 - len(taken) - (wide.counts().trash or 0)
    (imported,) = [row for row in redisq.rows("log") if row["verb"] == "import"]
    (back,) = redisq.rows("undo", imported["id"], "--yes", code=3)
    assert (back["matched"], back["done"], set(back["sample"])) == (20, put_away, taken)
    assert back["skipped"] == {"changed": len(taken), "same": 20 - put_away - len(taken)}
    (row,) = [row for row in redisq.rows("log") if row["verb"] == "undo"]
    assert (row["done"], row["matched"]) == (put_away, 20)


def test_an_imported_request_that_is_done_stays(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    file = str(tmp_path / "file")
    for name in ("r1", "r2", "r3"):
        RequestQueue(client, "mail").submit([b"x"], id=name)
    redisq("export", "mail", "-o", file)
    redisq("import", file, "--queue", "copy", "--yes")
    copy = RequestQueue(client, "copy")
    for delivery in copy.take(1, consumer="w").deliveries:
        copy.settle([Settlement(delivery, "ack")])
    left = {"r1", "r2", "r3"} - {delivery.request}
    redisq("request", "cancel", f"copy/{min(left)}", "--yes")
    (imported,) = [row for row in redisq.rows("log") if row["verb"] == "import"]
    (back,) = redisq.rows("undo", imported["id"], "--yes", code=3)
    assert (back["done"], back["skipped"]) == (1, {"same": 1, "changed": 1})
    assert back["sample"] == [delivery.request]
    assert {copy.request(name).state for name in left} == {"cancelled"}  # type: ignore[union-attr]


def test_a_setting_that_is_as_it_was_is_the_same(redisq: Redisq, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1", limit=4)
    (changed,) = redisq.rows("request", "limit", "mail/r1", "9", "--yes")
    redisq("request", "limit", "mail/r1", "4", "--yes")
    (back,) = redisq.rows("undo", changed["op"], "--yes")
    assert (back["matched"], back["done"], back["skipped"]) == (1, 0, {"same": 1})
    assert (back["sample"], back["unnamed"]) == ([], 0)


def test_only_one_s_own_change_is_taken_back_unasked(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dead_letters(client, 4)
    redisq("purge", "mail/r1/1", "--state", "dead", "--yes")
    monkeypatch.setenv("REDISQ_USER", "kim")
    (theirs,) = redisq.rows("purge", "mail/r1/2", "--state", "dead", "--yes")
    monkeypatch.setenv("REDISQ_USER", "ann")
    said = redisq.refusal("undo", "--yes", code=1)
    assert "the latest change isn't yours: purge in queue mail by kim@" in said
    assert said.endswith(f"redisq undo {theirs['op']} --yes")
    assert queue.counts().trash == 2
    assert "purge in queue mail by kim@" in redisq("undo", "--dry-run")
    monkeypatch.setenv("REDISQ_USER", "kim")
    assert redisq.rows("undo", "--yes")[0]["done"] == 1
    assert queue.counts().trash == 1


def test_a_report_that_is_another_s_is_left_alone(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    queue = dead_letters(client, 3)
    redisq("replay", "mail", "--yes")
    (tmp_path / "notes").write_text("mine\n")
    said = redisq.refusal("undo", "--yes", "--report", str(tmp_path / "notes"), code=2)
    assert "is no report of this undo" in said and queue.counts().waiting == 3
    (latest,) = redisq.rows("log", "--max", "1")
    head = Format("report").head(op=latest["id"])
    (tmp_path / "notes").write_bytes(line(head))
    redisq.refusal("undo", "--yes", "--report", str(tmp_path / "notes"), code=2)  # its apply's
    redisq("undo", "--yes", "--report", "/dev/full", code=1)
    assert "--report /dev/full: No space left on device: nothing was changed" in redisq.err
    assert queue.counts().waiting == 3
