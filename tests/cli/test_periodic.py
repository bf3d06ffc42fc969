"""`redisq periodic`: what is listed, and what every change does and its undo takes back."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from redisq_ops.core.queues.delay import DelaySet, Periodic, ShardedDelaySet
from redisq_ops.core.queues.request import RequestQueue

from ..command_line import Redisq
from ..model.wire import picture

HOUR = 3_600_000
YES = ("--yes",)


@pytest.fixture(params=[1, 3])
def later(request: pytest.FixtureRequest, client: redis.Redis) -> Any:
    """A delay set, of one shard and of several, with an hourly entry; its next run is ahead."""
    shards = request.param
    queue: Any = DelaySet(client, "later")
    if shards > 1:
        queue = ShardedDelaySet(client, "later", shards=shards)
    queue.set_periodic(Periodic("hourly", "0 * * * *", b"go", zone="Europe/Berlin"))
    return queue


def only(redisq: Redisq, name: str = "hourly") -> dict[str, Any]:
    (row,) = (row for row in redisq.rows("periodic", "ls", "later") if row["name"] == name)
    return row


def stored(client: redis.Redis) -> dict[bytes, Any]:
    """The periodic entries as they are stored."""
    parts = ("periodic", "periodic_run")
    kept: dict[bytes, Any] = {
        part.encode(): client.hgetall(f"redisq:{{later}}:{part}") for part in parts
    }
    return kept | {b"at": client.zrange("redisq:{later}:periodic_at", 0, -1, withscores=True)}


def test_added_entry_is_listed_and_undo_removes_it(redisq: Redisq, client: redis.Redis) -> None:
    words = (
        "periodic",
        "add",
        "later/report",
        "--cron",
        "0 6 * * mon-fri",
        "daily",
        "--zone",
        "Europe/Berlin",
        "--missed",
        "all",
        "--overlap",
    )
    assert "it becomes a delay set" in redisq(*words, "--dry-run")
    assert client.keys() == []
    assert "next run" in redisq(*words, code=5) and client.keys() == []
    redisq(*words, *YES)
    row = only(redisq, "report")
    assert row["address"] == "later/report" and row["payload"] == "daily"
    assert (row["cron"], row["zone"], row["missed"], row["overlap"]) == (
        "0 6 * * mon-fri",
        "Europe/Berlin",
        "all",
        True,
    )
    assert (row["run"], row["missed_runs"], row["paused"]) == (None, 0, False)
    (entry,) = DelaySet(client, "later").periodics()
    assert entry.next_ms == row["next_ms"]
    seen = stored(client)
    assert "0 matched" in redisq(*words, *YES) and stored(client) == seen
    assert "periodic edit later/report" in redisq.refusal(*words, "--missed", "one", *YES, code=1)
    redisq("undo", *YES)
    assert redisq.rows("periodic", "ls") == []
    assert "periodic-add" in redisq("log", "--queue", "later")


@pytest.mark.alike
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cron", "0 0 30 2 *"), "never fires: no month of it has such a day"),
        (("--cron", "61 * * * *"), "bad minute"),
        (("--cron", "* * * *"), "five fields"),
        (("--cron", "0 0 * * *", "--zone", "Mars/Olympus"), "Mars/Olympus"),
        (("--cron", "0 0 * * *", "--missed", "some"), "one, all or none"),
        (("--every", "7m"), "must divide an hour"),
        (("--every", "1500ms"), "must divide an hour"),
        (("--every", "soon"), "not a time span"),
        (("--every", "5m", "--cron", "0 0 * * *"), "give one of them"),
        ((), "either --cron or --every"),
    ],
)
def test_bad_schedule_is_one_line_and_exit_2(
    redisq: Redisq, client: redis.Redis, words: tuple[str, ...], message: str
) -> None:
    assert message in redisq.refusal("periodic", "add", "later/p", *words, *YES, code=2)
    assert client.keys() == []


@pytest.mark.parametrize(
    ("span", "cron"),
    [
        ("1m", "* * * * *"),
        ("15m", "*/15 * * * *"),
        ("1h", "0 * * * *"),
        ("6h", "0 */6 * * *"),
        ("1d", "0 0 * * *"),
    ],
)
@pytest.mark.alike
def test_interval_is_stored_as_cron(redisq: Redisq, span: str, cron: str) -> None:
    redisq("periodic", "add", "later/p", "--every", span, *YES)
    assert only(redisq, "p")["cron"] == cron


def test_paused_entry_has_no_runs_until_it_is_resumed(
    redisq: Redisq, client: redis.Redis, later: Any
) -> None:
    before = stored(client)
    redisq("periodic", "pause", "later/hourly", "--reason", "too slow", *YES)
    row = only(redisq)
    assert row["paused"] and row["next_ms"] is None
    assert "too slow" in redisq("explain", "later/hourly")
    # A worker that declares its schedule when it starts does not resume it, also with a new one.
    later.set_periodic(Periodic("hourly", "0 * * * *", b"go", zone="Europe/Berlin"))
    later.set_periodic(Periodic("hourly", "30 * * * *", b"go", zone="Europe/Berlin"))
    assert only(redisq)["paused"] and only(redisq)["cron"] == "30 * * * *"
    later.set_periodic(Periodic("hourly", "0 * * * *", b"go", zone="Europe/Berlin"))
    assert "0 matched" in redisq("periodic", "pause", "later/hourly", *YES)
    redisq("periodic", "resume", "later/hourly", *YES)
    assert stored(client) == before
    assert "0 matched" in redisq("periodic", "resume", "later/hourly", *YES)
    redisq("undo", *YES)
    assert only(redisq)["paused"]
    assert later.invariants() == []


def test_undo_puts_an_edited_entry_back(redisq: Redisq, client: redis.Redis, later: Any) -> None:
    before = stored(client)
    words = ("periodic", "edit", "later/hourly", "--cron", "30 5 * * *", "--payload", "stop")
    assert "cron: 0 * * * * to 30 5 * * *" in redisq(*words, "--dry-run")
    assert stored(client) == before
    redisq(*words, *YES)
    row = only(redisq)
    assert (row["cron"], row["payload"], row["zone"]) == ("30 5 * * *", "stop", "Europe/Berlin")
    redisq("undo", *YES)
    assert stored(client) == before
    redisq(*words, *YES)
    redisq("periodic", "edit", "later/hourly", "--zone", "UTC", *YES)
    edits = [row["id"] for row in redisq.rows("log") if row["verb"] == "periodic-edit"]
    seen = stored(client)
    assert redisq.rows("undo", edits[1], *YES, code=1)[0]["skipped"] == {"changed": 1}
    assert stored(client) == seen


def test_removed_entry_comes_back_with_its_latest_run(
    redisq: Redisq, client: redis.Redis, later: Any
) -> None:
    client.hset("redisq:{later}:periodic_run", "hourly", f"hourly@{HOUR:013}")
    before = stored(client)
    redisq("periodic", "rm", "later/hourly", *YES)
    assert redisq.rows("periodic", "ls") == []
    assert "0 matched" not in redisq("undo", *YES)
    assert stored(client) == before


def test_run_now_is_an_entry_that_undo_purges(redisq: Redisq, later: Any) -> None:
    next_ms = only(redisq)["next_ms"]
    redisq("periodic", "run", "later/hourly", *YES)
    row = only(redisq)
    assert row["run_state"] == "waiting" and row["next_ms"] == next_ms
    held = redisq.refusal("periodic", "run", "later/hourly", *YES, code=1)
    assert row["run"] in held and "--overlap" in held
    redisq("undo", *YES)
    assert only(redisq)["run_state"] == "trash"
    redisq("periodic", "run", "later/hourly", *YES)
    (taken,) = later.take(5, consumer="w").deliveries
    assert taken.payload == b"go" and taken.id == only(redisq)["run"]
    assert redisq.rows("undo", *YES, code=1)[0]["skipped"] == {"changed": 1}
    assert only(redisq)["run_state"] == "pending" and later.invariants() == []


def test_missed_runs_are_shown_with_what_holds_them(
    redisq: Redisq, client: redis.Redis, later: Any
) -> None:
    late = later.now() - 3 * HOUR
    client.zadd("redisq:{later}:periodic_at", {"hourly": late // HOUR * HOUR})
    row = only(redisq)
    assert row["missed_runs"] == 4 and not row["held"]
    assert "4 missed" in redisq("periodic", "ls")
    (queue,) = redisq.rows("ls")
    assert (queue["periodic"], queue["periodic_overdue"]) == (1, 1)
    assert "1 periodic entry missed a run" in redisq("ls")
    assert redisq.rows("explain", "later")[0]["rule"] == "periodic-overdue"
    assert redisq.rows("explain", "later/hourly")[0]["rule"] == "no-worker"
    later.tick()
    assert only(redisq)["missed_runs"] == 0 and only(redisq)["run_state"] == "waiting"
    client.zadd("redisq:{later}:periodic_at", {"hourly": late // HOUR * HOUR})
    assert only(redisq)["held"]
    (reason,) = redisq.rows("explain", "later/hourly")
    assert reason["rule"] == "periodic-held" and only(redisq)["run"] in reason["sentence"]


def test_corrupt_entry_is_named_and_hides_no_other(
    redisq: Redisq, client: redis.Redis, later: Any
) -> None:
    client.hset("redisq:{later}:periodic", "odd", b"\xffsecret")
    client.zadd("redisq:{later}:periodic_at", {"odd": 0, "orphan": 5})
    rows = {row["name"]: row for row in redisq.rows("periodic", "ls", code=3)}
    assert rows["hourly"]["problem"] is None
    assert "'odd' is corrupt" in rows["odd"]["problem"] and rows["odd"]["cron"] is None
    assert "'orphan' has no definition" in rows["orphan"]["problem"]
    assert "secret" not in redisq("periodic", "ls", "later", code=3)
    assert len(redisq.rows("inspect", "later")[0]["periodic_entries"]) == 3
    assert redisq.rows("explain", "later/odd")[0]["rule"] == "periodic-corrupt"
    seen = stored(client)
    assert "periodic rm later/odd" in redisq.refusal("periodic", "pause", "later/odd", *YES, code=1)
    redisq("periodic", "rm", "later/odd", *YES)
    redisq("undo", *YES)
    assert stored(client) == seen
    for name in ("odd", "orphan"):
        redisq("periodic", "rm", f"later/{name}", *YES)
    assert [row["name"] for row in redisq.rows("periodic", "ls")] == ["hourly"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("ls nothing", 1, "no queue 'nothing'"),
        ("ls mail", 1, "it has no periodic entries"),
        ("pause later/nothing", 1, "no periodic entry 'nothing'"),
        ("run later", 2, "QUEUE/NAME"),
        ("rm later/a/b", 2, "periodic name"),
        ("edit later/hourly", 2, "name an option to change"),
        ("edit later/hourly --cron nonsense", 2, "five fields"),
        ("add mail/p --every 5m", 1, "it has no periodic entries"),
    ],
)
@pytest.mark.alike
def test_mistakes_have_their_codes_and_change_nothing(
    redisq: Redisq, client: redis.Redis, words: str, code: int, message: str
) -> None:
    DelaySet(client, "later").set_periodic(Periodic("hourly", "0 * * * *"))
    RequestQueue(client, "mail").submit([b"x"], id="r")
    seen = picture(client)
    go = () if words.startswith("ls") else YES
    assert message in redisq.refusal("periodic", *words.split(), *go, code=code)
    assert picture(client) == seen


def test_draining_queue_refuses_a_run(redisq: Redisq, later: Any) -> None:
    redisq("queue", "drain", "later", *YES)
    assert "draining" in redisq.refusal("periodic", "run", "later/hourly", *YES, code=1)
    assert later.counts().waiting == 0
