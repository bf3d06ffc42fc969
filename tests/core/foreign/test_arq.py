"""arq's layout beside a real arq, which runs with packages of its own (see `arq_program`)."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.foreign.arq import ArqQueue
from redisq_ops.core.foreign.arq.job import Record
from redisq_ops.core.foreign.pickled import Unmade, unpickled
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select
from redisq_ops.tui.app import Top

from ...changes import AUTHOR, changed, entry_change, undone
from ...command_line import Redisq
from ...foreign_keys.arq_program import enqueue, specimen, started, work
from ...queue_steps import eventually, paged_ids
from ...tui.test_app import drive, see, until

pytestmark = pytest.mark.slow

Client = redis.Redis
NAME = "arq:arq:queue"
JOB, RESULT, MARK = "arq:job:", "arq:result:", "arq:in-progress:"


def ours(client: Client) -> ArqQueue[Client]:
    return ArqQueue(client, NAME)


def entries(client: Client, state: State) -> dict[str, Entry]:
    return {entry.id: entry for entry in ours(client).page(state).entries}


def keys(client: Client) -> dict[bytes, tuple[object, int]]:
    """arq's keys, byte for byte, and when they expire."""
    return {
        key: (client.dump(key), client.pexpiretime(key))
        for pattern in ("arq:*", "other")
        for key in client.scan_iter(pattern)
    }


def names(redisq: Redisq) -> list[str]:
    return sorted(row["name"] for row in redisq.rows("discover"))


# --- what is seen -------------------------------------------------------------------


def test_every_state_is_seen(client: Client) -> None:
    specimen(client)
    queue = ours(client)
    counts = queue.counts()
    assert (counts.waiting, counts.pending, counts.delayed) == (6, 4, 6)
    assert counts.of("dead") is None and counts.of("done") is None, "no key lists results"
    dead = entries(client, "dead")
    assert set(dead) == {f"bad{n}" for n in range(4)}, "results of other queues are not shown"
    bad = dead["bad2"]
    assert bad.error and (bad.error.type, bad.error.message) == ("ValueError", "no luck")
    assert (bad.reason, bad.failures, bad.called) == ("failed", 1, "failed")
    assert json.loads(bad.payload or b"") == {
        "function": "fails",
        "call": "fails('luck', order=2)",
        "try": 1,
        "args": ["luck"],
        "kwargs": {"order": 2},
        "data_bytes": client.strlen(RESULT + "bad2"),
    }
    delayed = entries(client, "delayed")
    assert delayed["d3"].at_ms == client.zscore("arq:queue", "d3")
    assert list(entries(client, "done")) == [f"good{n}" for n in range(4)]
    until = client.pexpiretime(MARK + "run1")
    assert entries(client, "pending")["run1"].at_ms == until
    for id, state in {"bad0": "dead", "good0": "done", "run0": "pending", "w0": "waiting"}.items():
        found = queue.get(id)
        assert found and (found.id, found.state) == (id, state)
    assert queue.get("other0") is None and queue.get("nothing") is None
    now = queue.now()
    assert queue.due_counts([now, now + 5_000_000, now + 10_000_000]) == [0, 6]


def test_how_many_workers_there_are_is_unknown(redisq: Redisq, client: Client) -> None:
    client.zadd("arq:queue", {"a": 1})
    assert redisq.processes(NAME) == [] and "unknown" in redisq.err
    client.set("arq:queue:health-check", "Nov-24 19:00:00 j_complete=1 j_ongoing=0")
    (row,) = redisq.processes(NAME)
    assert (row["state"], row["busy"]) == ("unknown", None)


def test_a_job_of_a_killed_worker_waits_when_its_mark_is_gone(client: Client) -> None:
    specimen(client)
    client.delete(MARK + "run1")  # as it expires
    assert "run1" in entries(client, "waiting") and "run1" not in entries(client, "pending")


def test_pages_by_rank_leave_out_what_is_in_progress(client: Client) -> None:
    specimen(client)
    client.zadd("arq:queue", {"w2": 5})  # in front of those
    whole = [entry.id for entry in ours(client).page("waiting").entries]
    assert len(whole) == 6 and whole[0] == "w2"
    for start in range(4):
        page = ours(client).page("waiting", start=start, max=2)
        assert [entry.id for entry in page.entries] == whole[start : start + 2]


def test_a_job_that_asked_for_another_try_is_delayed(client: Client) -> None:
    enqueue(client, ("later", [], {"_job_id": "again"}))
    work(client)
    again = entries(client, "delayed")["again"]
    assert again.failures == 1 and again.at_ms and again.at_ms > ours(client).now() + 3_000_000


def test_a_job_that_is_done_at_its_third_try_failed_twice(client: Client) -> None:
    specimen(client)
    data = pickle.loads(client.get(RESULT + "good0") or b"")  # type: ignore[arg-type]
    client.set(RESULT + "good0", pickle.dumps(data | {"t": 3}))
    assert [entries(client, "done")[id].failures for id in ("good0", "good1")] == [2, 0]


def test_what_is_no_pickle_of_arqs_is_shown_as_such(client: Client) -> None:
    specimen(client)
    client.set(JOB + "w0", b"\x82\xa1t\xc0\xa1f\xa1x")  # MessagePack
    client.set(JOB + "w1", json.dumps({"t": None, "f": "fine", "a": [1], "k": {}, "et": 5}))
    client.set(JOB + "w2", pickle.dumps(["fine"]))
    client.set(JOB + "w3", pickle.dumps({"f": "x", "a": [10**9000], "k": {}}))
    waiting = entries(client, "waiting")
    assert "neither a pickle" in (waiting["w0"].problem or "") and waiting["w2"].problem
    assert b"fine(1)" in (waiting["w1"].payload or b"")
    assert "w3" in waiting  # whether such a number can be shown depends on Python


def test_many_results_are_complete_by_pages(client: Client) -> None:
    specimen(client)
    data: Any = client.get(RESULT + "bad0")
    for n in range(3000):
        client.set(f"{RESULT}more{n}", data)
        client.set(f"key{n}", "x")
    seen = paged_ids(ours(client), "dead", 130)
    assert len(seen) == len(set(seen)) == 3004


def test_queues_are_found(redisq: Redisq, client: Client) -> None:
    specimen(client)
    assert names(redisq) == ["arq:arq:queue", "arq:other"], "a set of ids of jobs is one"
    client.delete("arq:queue", "other")
    assert names(redisq) == ["arq:arq:queue", "arq:other"], "they have results"
    client.flushdb()
    with started(client, "serve", "quiet") as worker:
        try:
            eventually(lambda: client.exists("quiet:health-check"))
            assert names(redisq) == ["arq:quiet"], "a worker serves it"
            assert redisq.rows("inspect", "arq:quiet")
        finally:
            worker.kill()


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_nothing_is_unpickled(redisq: Redisq, client: Client, tmp_path: Path) -> None:
    specimen(client)
    folder = tmp_path / "unpickled"
    job = {"t": 1, "f": "fine", "a": (Trap(folder),), "k": {"x": Trap(folder)}, "et": 5}
    ended = {"s": False, "r": Trap(folder), "st": 5, "ft": 6, "q": "arq:queue", "id": "bad0"}
    client.set(JOB + "d0", pickle.dumps(job))
    client.set(RESULT + "bad0", pickle.dumps(job | ended))
    assert b"<posix.mkdir>" in (entries(client, "delayed")["d0"].payload or b"")
    for words in (
        ["discover"],
        ["ls"],
        ["inspect", f"{NAME}/bad0"],
        ["dlq", "groups", NAME],
        ["explain", f"{NAME}/d0"],
        ["replay", NAME, "--yes"],
        ["purge", NAME, "--state", "delayed", "--yes"],
    ):
        redisq(*words)
    assert not folder.exists()
    pickle.loads(pickle.dumps(Trap(folder)))
    assert folder.exists(), "the trap works"


PLAIN: list[Any] = [
    None,
    True,
    -5,
    2**70,
    1.5,
    "é",
    b"x",
    bytearray(b"y"),
    "s" * 300,
    (),
    (1,),
    (1, 2, 3, 4),
    [],
    [1, [2, "a"], {"s": "s"}],
    {},
    {"k": {"f": (None, False)}, 1: [2.5]},
    ["same", "same"],
]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_read_from_a_pickle(protocol: int) -> None:
    data = pickle.dumps({"f": PLAIN if protocol > 4 else [x for x in PLAIN if x != b"y"]}, protocol)
    found = unpickled(data)
    wanted = pickle.loads(data)
    if protocol < 3:  # bytes are made by a call
        found["f"][6] = wanted["f"][6]
    assert found == wanted
    (made,) = unpickled(pickle.dumps([OrderedDict(a=1)], protocol))
    assert isinstance(made, Unmade) and repr(made) == "<collections.OrderedDict>"
    for n in range(len(data)):
        with pytest.raises((ValueError, LookupError, TypeError)):
            unpickled(data[:n])


def test_the_dashboard_shows_results_although_no_number_is_known(client: Client, url: str) -> None:
    specimen(client)
    run(client, register(Deployment(client), [Registered(NAME, "arq", 1)]))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, NAME)
        await pilot.press("enter")
        await until(pilot, lambda: app.queue == NAME)
        await app.run_action("view('dead')")
        await see(pilot, "bad3", "ValueError")
        await app.run_action("view('pending')")
        await see(pilot, "run0", "run3")

    drive(url, body, size=(150, 30))


def test_a_small_pickle_of_something_endless_is_read_at_once() -> None:
    """Tuples of the one before, twice: nobody can print or hash the last."""
    endless = b"\x80\x04)" + b"2\x86" * 200
    assert isinstance(unpickled(endless + b"2\x86\x8c\x01a\x93."), Unmade)
    assert list(map(repr, unpickled(b"\x80\x04})" + b"2\x86" * 200 + b"Ns."))) == ["<tuple>"]


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_a_job_is_cut_out_of_its_result(protocol: int) -> None:
    large = [f"s{n}" * 50 for n in range(3000)]  # several frames
    job = {"t": 3, "f": "s", "a": (large, b"x" * 200_000), "k": {"s": 1, "t": "f"}, "et": 5}
    ended = {"s": False, "r": ValueError("s"), "st": 5, "ft": 6, "q": "arq:queue", "id": "bad0"}
    data = pickle.dumps(job | ended, protocol)
    assert pickle.loads(Record.read(data).job()) == job | {"t": None}


# --- what operators change ----------------------------------------------------------


def test_a_requeued_job_runs_once(client: Client) -> None:
    enqueue(client, ("spent", ["a"], {"_job_id": "a", "_defer_by": 9000}))
    assert changed(ours(client), "requeue", "delayed", "a").outcome.done == 1
    work(client)
    assert client.hgetall("ran") == {b"a": b"1"} and list(entries(client, "done")) == ["a"]


def test_a_rescheduled_job_is_kept_until_it_is_due(client: Client) -> None:
    """arq lets a job expire a day after it was due: later, only its id would be left."""
    enqueue(client, ("fine", [1], {"_job_id": "a", "_defer_by": 100}))
    at = int(time.time() * 1000) + 30 * 86_400_000
    changed(ours(client), "reschedule", "delayed", "a", at_ms=at)
    assert client.zscore("arq:queue", "a") == at
    assert client.pexpiretime(JOB + "a") == at + 86_400_000
    soon = int(time.time() * 1000) + 5000
    until = client.pexpiretime(JOB + "a")
    changed(ours(client), "reschedule", "delayed", "a", at_ms=soon)
    assert client.pexpiretime(JOB + "a") == until


def test_a_purged_job_does_not_run_and_its_undo_brings_it_back(client: Client) -> None:
    enqueue(client, *[("spent", [id], {"_job_id": id}) for id in "abc"])
    purge = changed(ours(client), "purge", "waiting", "a", "b")
    work(client)
    assert client.hgetall("ran") == {b"c": b"1"}
    enqueue(client, ("fine", [1], {"_job_id": "b", "_defer_by": 100}))  # arq takes its id again
    assert "b" in entries(client, "delayed")
    undo = undone(client, purge)
    assert undo.outcome.done == 1 and sum(undo.outcome.skipped.values()) == 1
    work(client)
    assert client.hgetall("ran") == {b"a": b"1", b"c": b"1"}


def test_a_count_of_tries_that_expired_meanwhile_does_not_keep_its_job_away(
    client: Client,
) -> None:
    enqueue(client, ("fine", ["a"], {"_job_id": "a"}))
    client.set("arq:retry:a", 2, px=50)
    purge = changed(ours(client), "purge", "waiting")
    time.sleep(0.1)
    assert undone(client, purge).outcome.done == 1
    assert [*entries(client, "waiting")] == ["a"] and not client.exists("arq:retry:a")


@pytest.mark.parametrize("function", ["spent", "odd"])
def test_a_replayed_job_runs_again_with_its_arguments(client: Client, function: str) -> None:
    """Also one that used up its tries, and one whose error can't be unpickled: arq would end a job
    that has it inside, without its arguments."""
    client.set("again", 1)
    enqueue(client, (function, ["a"], {"_job_id": "a"}))
    work(client)
    (dead,) = entries(client, "dead").values()
    before = int(client.hget("ran", "a") or 0)
    client.delete("again")
    assert changed(ours(client), "replay", "dead", "a").outcome.done == 1
    assert client.ttl(JOB + "a") > 86_000 and not client.exists(RESULT + "a")
    assert dead.payload and json.loads(dead.payload)["call"] == f"{function}('a')"
    work(client)
    assert client.hgetall("ran") == {b"a": str(before + 1).encode()}
    assert list(entries(client, "done")) == ["a"] and not entries(client, "dead")


def test_a_result_without_its_job_is_not_replayed(client: Client) -> None:
    enqueue(client, ("fine", [1], {"_job_id": "a"}))
    client.delete(JOB + "a")
    work(client)
    (expired,) = entries(client, "dead").values()
    assert expired.error and expired.error.message == "job expired"
    before = keys(client)
    assert changed(ours(client), "replay", "dead", "a").outcome.skipped == {"invalid": 1}
    assert keys(client) == before


def test_a_replayed_job_is_not_aborted_by_what_was_asked_before_it_ended(client: Client) -> None:
    """`Job.abort` of a job that has just ended stays in ``arq:abort`` for a day."""
    client.set("again", 1)
    enqueue(client, ("spent", ["a"], {"_job_id": "a"}))
    work(client)
    client.zadd("arq:abort", {"a": ours(client).now(), "b": 1})
    before = keys(client)
    replay = changed(ours(client), "replay", "dead", "a")
    assert replay.outcome.done == 1 and client.zrange("arq:abort", 0, -1) == [b"b"]
    undone(client, replay)
    assert keys(client) == before


def test_a_running_job_is_left_alone(client: Client) -> None:
    enqueue(client, ("lasts", [], {"_job_id": "a", "_defer_by": 3600}))
    changed(ours(client), "requeue", "delayed", "a")
    selection = run(client, select(ours(client), "waiting", Filter(ids=("a",))))
    with started(client, "serve") as worker:
        try:
            eventually(lambda: client.exists("started"))
            purge = entry_change(selection, "purge", AUTHOR)
            while run(client, purge.step()):
                pass
            assert purge.outcome.done == 0 and list(entries(client, "pending")) == ["a"]
        finally:
            worker.kill()
    assert client.exists(JOB + "a")


def test_a_job_with_a_workers_mark_is_busy(client: Client) -> None:
    """arq leaves the mark of a cron job for a minute after its end."""
    specimen(client)
    client.set(MARK + "bad0", "1", ex=60)
    before = keys(client)
    assert changed(ours(client), "replay", "dead", "bad0").outcome.skipped == {"busy": 1}
    assert keys(client) == before


def test_a_worker_that_looked_before_a_purge_does_not_start_the_job(client: Client) -> None:
    """What a worker does to start a job, with a purge between its two steps."""
    enqueue(client, ("fine", [1], {"_job_id": "a"}))
    with client.pipeline(transaction=True) as pipe:
        pipe.watch(MARK + "a")  # type: ignore[no-untyped-call]
        assert not pipe.exists(MARK + "a") and pipe.zscore("arq:queue", "a")
        assert changed(ours(client), "purge", "waiting", "a").outcome.done == 1
        pipe.multi()
        pipe.psetex(MARK + "a", 10_000, b"1")
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert not client.exists(MARK + "a")
