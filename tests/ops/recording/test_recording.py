"""Recordings: what they hold, and what is left of one after a kill, a full disk and a restart."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

import pytest
import redis

from redisq_ops import DelaySet, RequestQueue, connect
from redisq_ops.core.model.errors import BadInput, RedisqError, Refused
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.model.row_fields import row_fields
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change.audit_log import Author, Operation
from redisq_ops.ops.change.control import pause
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.queue_fields import QueueFields
from redisq_ops.ops.recording.file import (
    RecordedState,
    RecordingFile,
    span_ms,
    state_at,
    states,
    whole_times,
)
from redisq_ops.ops.recording.history import RecordedHistory
from redisq_ops.ops.recording.playback import differences, recorded_operations, recorded_reports
from redisq_ops.ops.recording.recorded_queue import FieldChange
from redisq_ops.ops.recording.sampler import MOST, MOST_CONSUMERS, MOST_TASKS, Sampler

from ... import corrupt_values
from ...command_line import Redisq, dead_letters, everywhere

MOMENT = 1_700_000_000_000
BIG = 1 << 30


def whole_row(name: str, **known: Any) -> dict[str, Any]:
    """A queue with all its fields."""
    row: dict[str, Any] = dict.fromkeys(row_fields(QueueFields))
    del row["oldest_age_ms"]
    return row | {
        "name": name,
        "kind": "request",
        "waiting": 0,
        "unfinished": [],
        "read_ms": MOMENT,
        **known,
    }


def samples(n: int, first: int = MOMENT) -> Iterator[dict[str, Any]]:
    """A sample per second: the queue q's waiting entries count up."""
    for number in range(n):
        changed = {"waiting": number} if number else whole_row("q")
        yield {"at_ms": first + 1000 * number, "queues": {"q": changed}}


def write(path: Path, n: int, first: int = MOMENT, most: int = BIG) -> None:
    """A recording of ``n`` seconds."""
    with closing(RecordingFile(str(path), most)) as file:
        for sample in samples(n, first):
            file.add(sample)


def waiting(path: Path, at_ms: int) -> Any:
    state = state_at(path, at_ms)
    return None if state is None else state.queues["q"]["waiting"]


def sql(path: Path, *statements: str) -> list[Any]:
    """As somebody changes or reads the file with `sqlite3`."""
    with closing(sqlite3.connect(path)) as db, db:
        return [row for each in statements for row in db.execute(each)]


# --- the file -------------------------------------------------------------------------------------


def test_every_moment_is_found(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    write(path, 135)
    assert span_ms(path) == (MOMENT, MOMENT + 134_000)
    for number in range(0, 135, 7):
        assert waiting(path, MOMENT + 1000 * number + 999) == number
    assert waiting(path, MOMENT - 1) is None
    assert whole_times(path, MOMENT, MOMENT + 119_999) == [MOMENT, MOMENT + 60_000]


def test_only_what_is_needed_for_a_moment_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    write(path, 135)
    begin, end = MOMENT + 60_000, MOMENT + 70_000
    sql(path, f"UPDATE sample SET line = 'x' WHERE at_ms NOT BETWEEN {begin} AND {end}")
    assert waiting(path, MOMENT + 70_999) == 70
    with pytest.raises(BadInput, match="damaged: sample 72"):
        state_at(path, MOMENT + 71_000)


def test_a_recording_is_one_private_file_and_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    write(path, 3)
    write(path, 3, first=MOMENT + 100_000)
    assert [each.name for each in tmp_path.iterdir()] == ["q.rec"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert waiting(path, MOMENT + 99_000) == 2 and waiting(path, MOMENT + 101_000) == 1
    tmp_path.chmod(0o500)  # as on a disk that can only be read
    path.chmod(0o400)
    assert span_ms(path) == (MOMENT, MOMENT + 102_000)
    tmp_path.chmod(0o700)


def test_a_copy_is_whole_though_somebody_read_while_the_recorder_ended(tmp_path: Path) -> None:
    path, copy = tmp_path / "q.rec", tmp_path / "copy.rec"
    file = RecordingFile(str(path), BIG)
    for sample in samples(3):
        file.add(sample)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("SELECT * FROM sample").fetchall()
        file.close()
        copy.write_bytes(path.read_bytes())
    assert span_ms(copy) == (MOMENT, MOMENT + 2000)


def start_recorder(path: Path, first: int) -> tuple[int, IO[bytes]]:
    """A process that prints the number of each sample once it is added; its id and its output."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            file = RecordingFile(str(path), BIG)
            for number, sample in enumerate(samples(10**6, first)):
                file.add(sample)
                os.write(writing, b"%d\n" % number)
        finally:
            os._exit(1)
    os.close(writing)
    return pid, os.fdopen(reading, "rb")


def test_a_kill_loses_no_earlier_sample(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    ends = list[tuple[int, int]]()
    for kill in range(6):
        first = MOMENT + kill * 10**9
        pid, output = start_recorder(path, first)
        try:
            printed = [output.readline() for _ in range(1 + 40 * kill)]
            if kill == 1:
                with pytest.raises(Refused, match="another redisq recording write"):
                    RecordingFile(str(path), BIG)
                assert waiting(path, first) == 0, "it can be read meanwhile"
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        with output:
            added = int((printed + output.readlines())[-1])
        ends.append((first + 1000 * added, added))
        assert [waiting(path, at_ms) for at_ms, _ in ends] == [number for _, number in ends]
    write(path, 1, first=MOMENT + 10**10)
    assert [each.name for each in tmp_path.iterdir()] == ["q.rec"]
    assert [waiting(path, at_ms) for at_ms, _ in ends] == [number for _, number in ends]


def test_a_file_that_is_too_big_loses_its_oldest_minutes(tmp_path: Path) -> None:
    path, most = tmp_path / "q.rec", 100_000
    write(path, 4000, most=most)
    begin, end = span_ms(path)
    assert MOMENT < begin < end == MOMENT + 3_999_000
    assert most // 2 < path.stat().st_size < most + 20_000
    assert waiting(path, begin) == (begin - MOMENT) // 1000
    assert waiting(path, end) == 3999
    write(path, 1, first=MOMENT + 10**7, most=most // 2)
    assert path.stat().st_size < most // 2 + 20_000 and span_ms(path)[0] > begin


def test_a_full_disk_stops_the_recording_and_leaves_it_readable(tmp_path: Path) -> None:
    path, new = tmp_path / "q.rec", tmp_path / "new.rec"
    write(path, 12)
    file, empty = RecordingFile(str(path), BIG), RecordingFile(str(new), BIG)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        with pytest.raises(RedisqError, match=r"recording stopped; the file is readable up to"):
            for sample in samples(100, MOMENT + 20_000):
                file.add(sample)
        with pytest.raises(RedisqError, match=r"recording stopped; nothing recorded"):
            empty.add({"at_ms": MOMENT, "queues": {str(n): whole_row(str(n)) for n in range(2000)}})
        file.close()
        empty.close()
        assert waiting(path, MOMENT + 11_000) == 11
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not new.exists()
    write(path, 1, MOMENT + 100_000)
    assert waiting(path, MOMENT + 11_000) == 11 and waiting(path, MOMENT + 100_000) == 0


def test_other_files_and_newer_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"

    def refused(why: str) -> None:
        before = path.read_bytes()
        for use in (lambda: span_ms(path), lambda: RecordingFile(str(path), BIG)):
            with pytest.raises(BadInput, match=why):
                use()
        assert path.read_bytes() == before
        path.unlink()

    for other in (b"text\n", gzip.compress(b"x"), b"\0" * 5000):
        path.write_bytes(other)
        refused("is no recording")
    sql(path, "CREATE TABLE t (x)")
    refused("is no recording")
    write(path, 1)
    sql(path, "PRAGMA user_version = 2")
    refused("version 2; this release reads 1")
    write(path, 1)
    sql(path, "CREATE TRIGGER t AFTER INSERT ON sample BEGIN DELETE FROM sample; END")
    refused("is damaged: it has other tables")
    with pytest.raises(BadInput, match="No such file"):
        span_ms(path)


def test_a_recording_that_was_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    write(path, 135)
    data = path.read_bytes()
    for size in range(1, len(data), 997):
        path.write_bytes(data[:size])
        for use in (lambda: span_ms(path), lambda: RecordingFile(str(path), BIG)):
            with pytest.raises(BadInput, match=r"is damaged|is no recording"):
                use()


def test_a_damaged_sample_hides_no_other_minute(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    write(path, 190)
    sql(path, "UPDATE sample SET line = zeroblob(9) WHERE at_ms = 1700000090000")
    assert waiting(path, MOMENT + 89_999) == 89 and waiting(path, MOMENT + 125_000) == 125
    with pytest.raises(BadInput, match="damaged: sample 91"):
        state_at(path, MOMENT + 100_000)
    history = RecordedHistory(path)
    points = history.by_sample("q", MOMENT + 100_000, 30_000)
    assert [point.waiting for point in points] == list(range(70, 90))
    assert len(history.by_minute("q", MOMENT + 189_000, 60)) == 4


def test_rates_that_are_not_recorded_are_no_zeros(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    rows: dict[str, dict[str, Any]] = {
        "counts": {"in_per_min": 6, "out_per_min": 5, "failed_per_min": 0},
        "partly": {"in_per_min": None, "out_per_min": 5, "failed_per_min": None},
        "not": {"in_per_min": None, "out_per_min": None, "failed_per_min": None},
    }
    queues = {name: whole_row(name, **rates) for name, rates in rows.items()}
    with closing(RecordingFile(str(path), BIG)) as file:
        for number in range(0, 900, 10):
            if number != 300:
                file.add({"at_ms": MOMENT + 1000 * number, "queues": queues})
        lost = [MOMENT + 900_000 + 1000 * number for number in range(0, 600, 10)]
        for at_ms in lost:
            file.add({"at_ms": at_ms, "lost": "no route"})
        for number in range(10, 300, 10):
            file.add({"at_ms": lost[-1] + 1000 * number, "queues": queues})
    history, before, after = RecordedHistory(path), lost[0] - 1000, lost[-1] + 290_000
    for at_ms, minutes in ((before, 15), (after, 5)):
        found = history.rates("counts", at_ms, 60)
        (length,) = {len(series) for series in found.series}
        assert minutes <= length <= minutes + 2  # the first sample tells of the minute before
        assert set(found.arrived[:-1]) == {6} and set(found.settled[:-1]) == {5}
        assert found.last_minute(at_ms) == (6, 5, 0)
        partly = history.rates("partly", at_ms, 60)
        assert partly.settled == found.settled and partly.arrived == partly.failed == ()
        assert history.rates("not", at_ms, 60) == Rates()
        assert history.rates(None, at_ms, 60).arrived == found.arrived
    assert history.rates("counts", lost[-1], 60) == Rates()


def test_sqlite_prints_it(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    write(path, 3)
    rows = sql(path, "SELECT at_ms, line FROM sample")
    assert json.loads(zlib.decompress(rows[2][1])) == {
        "at_ms": rows[2][0],
        "queues": {"q": {"waiting": 2}},
    }


CHANGE = Operation(
    id="op",
    queue="q",
    verb="purge",
    started_ms=MOMENT,
    who="ada",
    whence="here",
    why="",
    what="all",
    source="dead",
    target="trash",
    matched=1,
    done=1,
    steps=1,
    undone=0,
    inverse="",
    ended=True,
    tried=0,
)


def test_a_state_keeps_the_latest_changes_only() -> None:
    """A recorder that runs for months writes them again each minute."""
    state = RecordedState()
    for n in range(1200):
        change = replace(CHANGE, id=f"op{n}", started_ms=MOMENT + n)
        state.apply({"at_ms": MOMENT + n, "operations": {change.id: change}})
    assert list(state.operations) == [f"op{n}" for n in range(700, 1200)]


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.alike
def test_a_sample_has_every_kind_of_queue_as_ls_shows_it(
    redisq: Redisq, client: redis.Redis
) -> None:
    corrupt_values.populate(client, redisq.url)
    sampler = Sampler(Deployment(client))
    run(client, sampler.sample())
    changing = {"oldest_age_ms", "trouble"}  # these follow from the time, and from the rest
    for row in redisq.rows("ls"):
        recorded = json.loads(json.dumps(sampler.state.queues[row["name"]]))
        assert {name: recorded.get(name) for name in row if name not in changing} == {
            name: value for name, value in row.items() if name not in changing
        }
    reports = recorded_reports(sampler.state, ["good"])
    assert [each.name for report in reports for each in report.consumers] == ["w1"]
    assert recorded_operations(sampler.state)[0].verb == "purge"


@pytest.mark.alike
def test_a_sample_reads_in_full_only_what_changed(client: redis.Redis) -> None:
    queues = [RequestQueue(client, f"q{n}") for n in range(2 * MOST)]
    for queue in queues:
        queue.submit([b"x"], id="r1")
    sampler = Sampler(Deployment(client))
    first = run(client, sampler.sample())
    assert len(first["queues"]) == len(queues), "the first sample has all queues"
    client.config_resetstat()
    assert run(client, sampler.sample())["queues"] == {}
    stats: Any = client.info("commandstats")
    calls = {name: stats[name]["calls"] for name in stats if name.startswith("cmdstat_")}
    assert calls["cmdstat_hvals"] == len(queues)
    assert calls["cmdstat_zcard"] <= 4 * MOST_TASKS, "each queue whose tasks are read, once"
    queues[3].take(1, consumer="w1")
    changed = run(client, sampler.sample())["queues"]
    assert {name: row["pending"] for name, row in changed.items()} == {"q3": 1}
    for queue in queues:
        queue.submit([b"y"], id="r2")
    client.config_resetstat()
    busy = [run(client, sampler.sample())["queues"] for _ in range(2)]
    assert [len(each) for each in busy] == [MOST, MOST], "a sample's cost is bounded"
    stats = client.info("commandstats")
    assert stats["cmdstat_hvals"]["calls"] == len(queues), "compared again once all are read"
    assert sampler.state.queues.keys() == {queue.name for queue in queues}
    assert all(row["waiting"] + row["pending"] == 2 for row in sampler.state.queues.values())


def test_consumers_of_queues_that_become_busy_at_once_are_read_by_turns(
    client: redis.Redis,
) -> None:
    queues = [RequestQueue(client, f"q{n}") for n in range(2 * MOST_CONSUMERS + 1)]
    for queue in queues:
        queue.submit([b"x"] * 2, id="r1")
    queues[0].take(1, consumer="w0")
    sampler = Sampler(Deployment(client))
    run(client, sampler.sample())
    for queue in queues[1:]:
        queue.take(1, consumer="w1")
    read = [run(client, sampler.sample()).get("consumers", {}) for _ in range(3)]
    assert [len(each) for each in read] == [MOST_CONSUMERS, MOST_CONSUMERS, 0]
    assert sampler.state.consumers.keys() == {queue.name for queue in queues}


@pytest.mark.alike
def test_a_queue_that_can_not_be_read_hides_no_other(client: redis.Redis) -> None:
    everywhere(client)
    bad = RequestQueue(client, "bad")
    bad.submit([b"x"], id="r1")
    sampler = Sampler(Deployment(client))
    run(client, sampler.sample())
    for part in ("stat", "ops"):
        client.delete(bad.keys[part])
        client.set(bad.keys[part], "x")
    RequestQueue(client, "mail").submit([b"x"] * 5, id="r2")
    sampler._log_ms = 0  # it is time to look
    run(client, sampler.sample())
    assert sampler.state.queues["mail"]["waiting"] == 9
    assert "another type" in sampler.state.queues["bad"]["problem"]
    run(client, Sampler(Deployment(client)).sample())


def test_queues_appear_and_go_and_changes_of_operators_are_kept(client: redis.Redis) -> None:
    mail = RequestQueue(client, "mail")
    mail.submit([b"x"], id="r1")
    sampler = Sampler(Deployment(client))
    run(client, sampler.sample())
    before = RecordedState()
    before.apply(asdict(sampler.state))
    run(client, pause(mail, Author("ada", "here", "smtp is down")))
    DelaySet(client, "later").schedule([("e1", b"x")], after=0)
    for name in ("_registry_ms", "_log_ms"):  # as ten seconds later
        setattr(sampler, name, 0)
    sampler._full.clear()
    run(client, sampler.sample())
    found = {each.name: each for each in differences(before, sampler.state)}
    assert found["later"].appeared and not found["later"].gone
    assert found["mail"].changes == {"paused": FieldChange(None, "smtp is down")}
    (operation,) = recorded_operations(sampler.state, ["mail"])
    assert (operation.who, operation.why) == ("ada", "smtp is down")


# --- the commands ---------------------------------------------------------------------------------


def recorded(redisq: Redisq, path: Path) -> dict[str, Any]:
    """A short recording in this process."""
    words = ("recording", "write", str(path), "--interval", "100ms", "--for", "500ms")
    (row,) = redisq.rows(*words)
    return row


@pytest.mark.alike
def test_a_recording_is_played_back(redisq: Redisq, client: redis.Redis, tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    everywhere(client)
    (live,) = redisq.rows("ls")
    assert recorded(redisq, path)["samples"] >= 2
    begin, _ = span_ms(path)
    dead_letters(client, 3, "other")
    redisq("queue", "pause", "other", "--reason", "smtp is down", "--yes")
    redisq("dlq", "purge", "mail", "--reason", "known bug", "--yes")
    recorded(redisq, path)

    def rows(*words: str) -> list[dict[str, Any]]:
        redisq.url = "redis://127.0.0.1:1"  # nothing answers there
        return redisq.rows("recording", "show", str(path), *words)

    first = state_at(path, begin)
    assert first is not None and first.queues.keys() == {"mail"}
    names = ("waiting", "pending", "delayed", "dead", "done", "trash", "kind", "name")
    assert {name: first.queues["mail"][name] for name in names} == {
        name: live[name] for name in names
    }
    now = {row["name"]: row for row in rows()}
    assert now["other"]["paused"] == "smtp is down"
    assert now["other"]["dead"] == 3 and now["mail"]["dead"] == 0 and now["mail"]["trash"] == 1
    assert rows("log")[0]["reason"] == "known bug"
    reports = rows("workers", "--queue", "mail")
    assert [each["name"] for report in reports for each in report["consumers"]] == ["w1"]


@pytest.mark.alike
def test_the_difference_of_two_moments(tmp_path: Path, redisq: Redisq) -> None:
    path = tmp_path / "q.rec"
    write(path, 130)
    out = redisq(
        "--utc",
        "recording",
        "show",
        str(path),
        "--at",
        "22:15:20",
        "--diff",
        "2023-11-14T22:14:20+00:00",
    )
    assert out.split("\n")[1].split() == ["q", "waiting", "60", "120", "+60"]
    assert "recorded at 2023-11-14 22:15:20" in redisq.err
    same = ("--at", "22:14:20", "--diff", "22:14:20")
    assert redisq("--utc", "recording", "show", str(path), *same) == ""
    assert "nothing changed" in redisq.err
    early = redisq.refusal(
        "--utc", "recording", "show", str(path), "--at", "2023-11-14T22:13:00Z", code=1
    )
    assert "has nothing of 2023-11-14 22:13:00" in early and "begins at 2023-11-14 22:13" in early
    late = ("--at", "2023-11-14T22:14:00Z", "--diff", "2023-11-14T22:15:00Z")
    assert "later than --at" in redisq.refusal("recording", "show", str(path), *late, code=2)
    assert "no queue 'nope'" in redisq.refusal(
        "recording", "show", str(path), "--queue", "nope", code=1
    )
    redisq.refusal("recording", "show", str(path), "dlq", code=2)
    redisq.refusal("recording", "show", str(path), "workers", "--diff", "22:14:20", code=2)
    redisq.refusal("recording", "show", str(tmp_path / "nothing"), code=2)
    redisq.refusal("recording", "write", str(tmp_path / "x.rec"), "--interval", "1ms", code=2)


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.usefixtures("on_path")
def test_a_server_that_was_down_is_recorded_again(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    with EmbeddedServer(appendonly=True) as server:
        url = server.url
        queue = RequestQueue(connect(url), "mail")
        queue.submit([b"x"], id="r1")
        words = ("recording", "write", str(path), "--interval", "100ms", "--url", url)
        process = subprocess.Popen(["redisq", *words], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert "recording 1 queue" in process.stderr.readline()
        server.kill()
        assert "connection lost" in process.stderr.readline()
        server.restart()
        assert "answers again" in process.stderr.readline()
        process.terminate()
        assert process.wait(90) == 0
    begin, end = span_ms(path)
    down = [state.at_ms for state in states(path, begin, end) if state.lost]
    during, last = state_at(path, down[0]), state_at(path, end)
    assert during is not None and during.lost and begin < down[0] < end
    assert last is not None and last.lost is None
    assert last.queues["mail"]["read_ms"] > down[0], "it was read again"
    process.stderr.close()
