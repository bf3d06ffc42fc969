"""Recordings: what they hold, and what is left of one after a kill, a full disk and a restart."""

from __future__ import annotations

import errno
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops import DelaySet, RequestQueue, connect
from redisq_ops.core.model.errors import BadInput, RedisqError, Refused
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.control import pause
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.recording.file import (
    RecordedQueue,
    RecordedState,
    RecordingFile,
    lines,
    members,
    span_ms,
    state_at,
)
from redisq_ops.ops.recording.playback import differences, recorded_operations, recorded_reports
from redisq_ops.ops.recording.sampler import MOST, Sampler

from ... import corrupt_values
from ...command_line import Redisq, dead_letters, everywhere

MOMENT = 1_700_000_000_000
BIG = 1 << 30


def whole_row(name: str, **known: Any) -> dict[str, Any]:
    """A queue with all its fields."""
    row: dict[str, Any] = dict.fromkeys(RecordedQueue.__annotations__)
    return row | {
        "name": name,
        "kind": "request",
        "waiting": 0,
        "unfinished": [],
        "read_ms": MOMENT,
        **known,
    }


def states(n: int, first: int = MOMENT) -> Iterator[RecordedState]:
    """A state per second: the queue q's waiting entries count up."""
    state = RecordedState()
    for number in range(n):
        at_ms = first + 1000 * number
        changed = {"waiting": number} if number else whole_row("q")
        state.apply({"at_ms": at_ms, "queues": {"q": changed}})
        yield state


def write(path: Path, n: int, first: int = MOMENT, most: int = BIG, each: int = 10) -> None:
    """A recording of ``n`` seconds in members of ``each`` lines."""
    file = RecordingFile(str(path), most)
    for number, state in enumerate(states(n, first)):
        if number % each == 0:
            file.begin(state.whole())
        else:
            file.add({"at_ms": state.at_ms, "queues": {"q": {"waiting": number}}})
    file.end()
    file.close()


def waiting(path: Path, at_ms: int) -> Any:
    state = state_at(path, at_ms)
    return None if state is None else state.queues["q"]["waiting"]


# --- the file -------------------------------------------------------------------------------------


def test_every_moment_is_found(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    write(path, 35)
    assert span_ms(path) == (MOMENT, MOMENT + 34_000)
    for number in range(35):
        assert waiting(path, MOMENT + 1000 * number + 999) == number
    assert waiting(path, MOMENT - 1) is None
    assert len(members(path)) == 4
    with gzip.open(path, "rt") as unpacked:  # as zcat reads it
        assert [json.loads(line)["at_ms"] for line in unpacked][-1] == MOMENT + 34_000


def test_a_recording_that_was_cut_anywhere_is_read_and_continued(tmp_path: Path) -> None:
    whole = tmp_path / "whole.rec"
    write(whole, 15)
    data, path = whole.read_bytes(), tmp_path / "cut.rec"
    seen = -1
    for size in range(len(data)):
        path.write_bytes(data[:size])
        found = span_ms(path)
        last = -1 if found is None else (found[1] - MOMENT) // 1000
        assert last >= seen, "more of the file never has less"
        seen = last
        if size % 7 == 0:
            write(path, 3, first=MOMENT + 100_000)
            if last >= 0:
                assert waiting(path, MOMENT + 1000 * last) == last
            assert waiting(path, MOMENT + 101_000) == 1
            with gzip.open(path) as unpacked:
                assert unpacked.read().endswith(b"\n")
    assert seen == 14


def test_a_file_that_is_too_big_loses_its_older_half(tmp_path: Path) -> None:
    path, most = tmp_path / "q.rec", 3000
    write(path, 200, most=most)
    begin, end = span_ms(path) or (0, 0)
    assert MOMENT < begin < end == MOMENT + 199_000
    assert path.stat().st_size < 2 * most and [each.name for each in tmp_path.iterdir()] == [
        "q.rec"
    ]
    assert waiting(path, begin) == (begin - MOMENT) // 1000
    assert waiting(path, end) == 199


def test_a_full_disk_stops_the_recording_and_leaves_it_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new = tmp_path / "q.rec", tmp_path / "new.rec"
    write(path, 12)
    before = path.read_bytes()
    file, empty = RecordingFile(str(path), BIG), RecordingFile(str(new), BIG)
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 5:
            return real(descriptor, data[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RedisqError, match=r"No space left.*readable up to here"):
        file.begin(next(states(1)).whole())
    with pytest.raises(RedisqError, match=r"No space left on device: nothing recorded"):
        empty.begin(next(states(1)).whole())
    monkeypatch.undo()
    file.close()
    empty.close()
    assert not new.exists()
    assert path.read_bytes() == before and waiting(path, MOMENT + 11_000) == 11


def test_one_process_writes_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    first = RecordingFile(str(path), BIG)
    with pytest.raises(Refused, match="another redisq record"):
        RecordingFile(str(path), BIG)
    first.close()
    RecordingFile(str(path), BIG).close()


def test_other_files_and_newer_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    for other in (b"text\n", gzip.compress(b"x"), b"\x1f\x8b"):
        path.write_bytes(other)
        if other == b"\x1f\x8b":  # a header that was cut
            assert members(path) == []
            continue
        with pytest.raises(BadInput, match="is no recording"):
            members(path)
        with pytest.raises(BadInput, match="is no recording"):
            RecordingFile(str(path), BIG)
        assert path.read_bytes() == other
    path.unlink()
    write(path, 1)
    path.write_bytes(path.read_bytes().replace(b"redisq0001", b"redisq0002"))
    with pytest.raises(BadInput, match="version 2; this release reads 1"):
        members(path)
    with pytest.raises(BadInput, match="No such file"):
        members(tmp_path / "nothing")


def test_a_damaged_member_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    write(path, 30)
    data = bytearray(path.read_bytes())
    middle = members(path)[1].offset
    data[middle + 60 : middle + 70] = bytes(10)
    path.write_bytes(data)
    assert waiting(path, MOMENT + 9_000) == 9 and waiting(path, MOMENT + 25_000) == 25
    found, end = lines(path, members(path)[1])
    assert len(found) < 10 and end is None


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.alike
def test_a_sample_has_every_kind_of_queue_as_ls_shows_it(
    redisq: Redisq, client: redis.Redis
) -> None:
    corrupt_values.populate(client, redisq.url)
    sampler = Sampler(Deployment(client))
    run(client, sampler.sample())
    changing = {"oldest_age_ms"}
    for row in redisq.rows("ls"):
        recorded = json.loads(json.dumps(sampler.state.queues[row["name"]]))
        assert {name: recorded.get(name) for name in row if name not in changing} == {
            name: value for name, value in row.items() if name not in changing
        }
    reports = recorded_reports(sampler.state, "good")
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
    assert calls["cmdstat_hvals"] == len(queues) and "cmdstat_zcard" not in calls
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
    before.apply(sampler.state.whole())
    run(client, pause(mail, Author("ada", "here", "smtp is down")))
    DelaySet(client, "later").schedule([("e1", b"x")], after_ms=0)
    for name in ("_registry_ms", "_log_ms"):  # as ten seconds later
        setattr(sampler, name, 0)
    sampler._full.clear()
    run(client, sampler.sample())
    found = {each.name: each for each in differences(before, sampler.state)}
    assert found["later"].appeared and not found["later"].gone
    assert found["mail"].changes == {"paused": (None, "smtp is down")}
    (operation,) = recorded_operations(sampler.state, "mail")
    assert (operation.who, operation.why) == ("ada", "smtp is down")


# --- the commands ---------------------------------------------------------------------------------


def recorded(redisq: Redisq, path: Path) -> dict[str, Any]:
    """A short recording in this process."""
    words = ("record", str(path), "--interval", "100ms", "--for", "500ms")
    (row,) = redisq.rows(*words)
    return row


@pytest.mark.alike
def test_a_recording_is_played_back(redisq: Redisq, client: redis.Redis, tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    everywhere(client)
    (live,) = redisq.rows("ls")
    assert recorded(redisq, path)["samples"] >= 2
    begin = members(path)[0].at_ms
    dead_letters(client, 3, "other")
    redisq("dlq", "purge", "mail", "--reason", "known bug", "--yes")
    recorded(redisq, path)

    def rows(*words: str) -> list[dict[str, Any]]:
        redisq.url = "redis://127.0.0.1:1"  # nothing answers there
        return redisq.rows("playback", str(path), *words)

    first = state_at(path, begin)
    assert first is not None and first.queues.keys() == {"mail"}
    names = ("waiting", "pending", "delayed", "dead", "done", "trash", "kind", "name")
    assert {name: first.queues["mail"][name] for name in names} == {
        name: live[name] for name in names
    }
    now = {row["name"]: row for row in rows()}
    assert now["other"]["dead"] == 3 and now["mail"]["dead"] == 0 and now["mail"]["trash"] == 1
    assert rows("log")[0]["reason"] == "known bug"
    reports = rows("consumers", "--queue", "mail")
    assert [each["name"] for report in reports for each in report["consumers"]] == ["w1"]


@pytest.mark.alike
def test_the_difference_of_two_moments(tmp_path: Path, redisq: Redisq) -> None:
    path = tmp_path / "q.rec"
    write(path, 130)
    out = redisq(
        "--utc", "playback", str(path), "--at", "22:15:20", "--diff", "2023-11-14T22:14:20+00:00"
    )
    assert out.split("\n")[1].split() == ["q", "waiting", "60", "120", "+60"]
    assert "recorded at 2023-11-14 22:15:20" in redisq.err
    same = ("--at", "22:14:20", "--diff", "22:14:20")
    assert redisq("--utc", "playback", str(path), *same) == ""
    assert "nothing changed" in redisq.err
    early = redisq.refusal("--utc", "playback", str(path), "--at", "2023-11-14T22:13:00Z", code=1)
    assert "has nothing of 2023-11-14 22:13:00" in early and "begins at 2023-11-14 22:13" in early
    late = ("--at", "2023-11-14T22:14:00Z", "--diff", "2023-11-14T22:15:00Z")
    assert "later than --at" in redisq.refusal("playback", str(path), *late, code=2)
    assert "no queue 'nope'" in redisq.refusal("playback", str(path), "--queue", "nope", code=1)
    redisq.refusal("playback", str(path), "dlq", code=2)
    redisq.refusal("playback", str(path), "consumers", "--diff", "22:14:20", code=2)
    redisq.refusal("playback", str(tmp_path / "nothing"), code=2)
    redisq.refusal("record", str(tmp_path / "x.rec"), "--interval", "1ms", code=2)


@pytest.mark.slow
@pytest.mark.alike
def test_a_server_that_was_down_is_recorded_again(tmp_path: Path) -> None:
    path = tmp_path / "q.rec"
    with EmbeddedServer(appendonly=True) as server:
        url = server.url
        queue = RequestQueue(connect(url), "mail")
        queue.submit([b"x"], id="r1")
        words = ("record", str(path), "--interval", "100ms", "--url", url)
        process = subprocess.Popen(
            [sys.executable, "-m", "redisq_ops", *words], stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        assert "recording 1 queue" in process.stderr.readline()
        server.kill()
        assert "connection lost" in process.stderr.readline()
        server.restart()
        assert "answers again" in process.stderr.readline()
        process.terminate()
        assert process.wait(10) == 0
    begin, end = span_ms(path) or (0, 0)
    rows = [row for member in members(path) for row in lines(path, member)[0]]
    down = [row["at_ms"] for row in rows if row.get("lost")]
    during, last = state_at(path, down[0]), state_at(path, end)
    assert during is not None and during.lost and begin < down[0] < end
    assert last is not None and last.lost is None
    assert last.queues["mail"]["read_ms"] > down[0], "it was read again"
    process.stderr.close()
