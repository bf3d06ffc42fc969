"""The dashboard on a recording: it moves through the past and changes nothing."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Input

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.recording.file import RecordingFile, state_at
from redisq_ops.ops.recording.sampler import Sampler
from redisq_ops.tui.frame import text
from redisq_ops.tui.recording_player import Replay, ReplayTop, timeline

from ..command_line import Redisq, everywhere
from ..model.wire import picture
from .test_app import Body, press, see, until

pytestmark = [pytest.mark.alike, pytest.mark.slow]


@pytest.fixture
def path(tmp_path: Path, client: redis.Redis) -> Path:
    """A minute of the queue mail: 4 entries wait, and 9 from the 29th second on; 12 die at the
    end. The delay set reminders has no periodic entries."""
    queue = everywhere(client)
    DelaySet(client, "reminders").schedule([("e1", b"x")], after=3600)
    sampler = Sampler(Deployment(client))
    run(client, sampler.sample())
    path = tmp_path / "q.rec"
    first = sampler.state.at_ms
    with closing(RecordingFile(str(path), 1 << 30)) as file:
        file.add(asdict(sampler.state))
        queue.submit([b"x"] * 5, id="r2")
        later = run(client, sampler.sample())
        file.add(later | {"at_ms": first + 29_000})
        file.add({"at_ms": first + 59_999, "queues": {"mail": {"dead": 13}}})
    return path


def drive(path: Path, body: Body, at_ms: int | None = None) -> ReplayTop:
    app = ReplayTop(Replay(path, at_ms), interval=0.1, read_only=True)

    async def go() -> None:
        async with app.run_test(size=(140, 24)) as pilot:
            await until(pilot, lambda: app.snapshot is not None)
            await body(app, pilot)

    asyncio.run(go())
    return app


def waiting(app: ReplayTop) -> int | None:
    row = app.snapshot.overview[0] if app.snapshot and app.snapshot.overview else None
    return row.counts.waiting if row and row.counts else None


def test_keys_move_through_the_past(path: Path) -> None:
    async def body(app: object, pilot: Pilot[Exception]) -> None:
        assert isinstance(app, ReplayTop)
        end = app.replay.end_ms
        await until(pilot, lambda: waiting(app) == 9)
        await see(pilot, "12 dead in 5 m", "1 in trouble")
        await press(pilot, "left_square_bracket")
        assert app.replay.at_ms == end - 10_000 and waiting(app) == 9
        for _ in range(3):
            await press(pilot, "left_square_bracket")
        await until(pilot, lambda: waiting(app) == 4)
        await press(pilot, "right_square_bracket")
        await until(pilot, lambda: waiting(app) == 9)
        await press(pilot, "left_curly_bracket")
        assert app.replay.at_ms == app.replay.begin_ms, "it stops at the beginning"
        await press(pilot, "space")
        assert app.replay.playing
        began = app.replay.at_ms
        await until(pilot, lambda: app.replay.at_ms > began)
        await press(pilot, "space")
        assert not app.replay.playing
        await see(pilot, "PAST", "stopped", "read-only")

    drive(path, body)


def test_the_charts_show_what_was_before_the_moment(path: Path) -> None:
    async def body(app: object, pilot: Pilot[Exception]) -> None:
        assert isinstance(app, ReplayTop)
        history, end = app.replay.history, app.replay.end_ms
        drawn = [point.waiting for point in history.by_sample("mail", end, 75_000)]
        assert drawn == [4, 9, 9] and history.by_sample("none", end, 75_000) == []
        assert [point.waiting for point in history.by_minute(None, end, 60)] == [4]
        arrived, _, _ = history.rates("mail", end, 60).last_minute(end)
        assert arrived is not None and arrived >= 13  # submitted just before
        await press(pilot, "v")
        await see(pilot, "mail  last 60 seconds", "● 9 waiting", "PAST", "● in")
        app.replay.at_ms = app.replay.begin_ms
        await see(pilot, "● 4 waiting")
        await press(pilot, "a")
        await see(pilot, "all queues  last 60 seconds", "● 4 waiting")
        await press(pilot, "-")
        await see(pilot, "last hour", "● in")

    drive(path, body)


@pytest.mark.parametrize("view", ["1", "8", "v", "l"])
def test_a_moment_at_which_the_server_was_lost_has_no_figures(path: Path, view: str) -> None:
    end = Replay(path, None).end_ms
    last = state_at(path, end)
    assert last is not None
    with closing(RecordingFile(str(path), 1 << 30)) as file:
        file.add(asdict(last) | {"at_ms": end + 500})
        file.add({"at_ms": end + 1000, "lost": "can't reach the server"})

    async def body(app: object, pilot: Pilot[Exception]) -> None:
        assert isinstance(app, ReplayTop)
        await press(pilot, view)
        await see(pilot, "the server could not be read at that moment: can't reach the server")
        assert "12 dead" not in text(app) and "in trouble" not in text(app)
        await press(pilot, "left_square_bracket", "1")
        await see(pilot, "1 in trouble")

    drive(path, body)


def test_playing_stops_at_the_end(path: Path) -> None:
    async def body(app: object, pilot: Pilot[Exception]) -> None:
        assert isinstance(app, ReplayTop)
        app.replay.at_ms = app.replay.end_ms - 200
        await press(pilot, "space")
        await until(pilot, lambda: not app.replay.playing)
        assert app.replay.at_ms == app.replay.end_ms

    drive(path, body)


def test_nothing_can_be_changed(path: Path, client: redis.Redis) -> None:
    before = picture(client)

    async def body(app: object, pilot: Pilot[Exception]) -> None:
        assert isinstance(app, ReplayTop)
        await press(pilot, "R")
        await see(pilot, "nothing can be changed")
        await press(pilot, "5")
        await see(pilot, "dead: not recorded")
        for key in "ARCPXEHMTBKLOU":
            await press(pilot, key)
            assert len(app.screen_stack) == 1, key
        await press(pilot, "colon")
        await see(pilot, "nothing can be changed")
        assert not app.query_one("#command", Input).display
        for key in ("t", "ctrl+p"):
            await press(pilot, key)
            assert len(app.screen_stack) == 1, key
        await press(pilot, "8")
        await see(pilot, "w1", "PAST")
        await press(pilot, "slash", "left_square_bracket", "space")
        assert app.query_one("#filter", Input).value == "[ ", "keys are text in a filter"

    drive(path, body)
    assert picture(client) == before


def test_the_time_line_says_where_the_moment_is(path: Path) -> None:
    replay = Replay(path, None)
    bars = set()
    for at_ms in (replay.begin_ms, (replay.begin_ms + replay.end_ms) // 2, replay.end_ms):
        replay.at_ms = at_ms
        line = timeline(replay, None)
        assert line.startswith(" PAST 20")
        bars.add(line.index("●"))
    low, middle, high = sorted(bars)
    assert high - low == 39 and middle - low in (19, 20)
    narrow = timeline(replay, None, 80)
    assert len(narrow) <= 80 and "●" in narrow and narrow.endswith("Space plays")


def test_one_frame_and_what_is_refused(path: Path, redisq: Redisq, tmp_path: Path) -> None:
    replay = Replay(path, None)
    redisq.url = "redis://127.0.0.1:1"  # nothing answers there
    out = redisq("top", "--recording", str(path), "--once")
    assert "PAST" in out and "mail" in out
    moment = datetime.fromtimestamp(replay.begin_ms // 1000 + 1, UTC).isoformat()
    assert " 4 " in redisq("top", "--recording", str(path), "--at", moment, "--once")
    late = redisq("top", "--recording", str(path), "--at", "2050-01-01T00:00:00Z", "--once")
    assert "PAST 2050" not in late and "12 dead in 5 m" in late
    early = ("--at", "2020-01-01T00:00:00Z", "--once")
    assert "begins at" in redisq.refusal("top", "--recording", str(path), *early, code=1)
    redisq.refusal("top", "--at", "03:12", "--once", code=2)
    redisq("top", "--recording", str(path), "--json", code=2)
    redisq.refusal("top", "--recording", str(tmp_path / "nothing"), "--once", code=2)


def test_a_recording_without_a_sample_is_refused(redisq: Redisq, tmp_path: Path) -> None:
    path = tmp_path / "empty.rec"
    path.touch()
    assert "has no sample" in redisq.refusal("top", "--recording", str(path), "--once", code=2)
