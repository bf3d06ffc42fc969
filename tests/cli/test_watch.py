"""``--watch``: a look that repeats itself, in a pipe and on a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
import redis
from rich.console import Console

from redisq_ops.cli import watch
from redisq_ops.cli.watch import repeat
from redisq_ops.core.model.errors import NotFound, Unreachable
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue

from ..command_line import Redisq

pytestmark = pytest.mark.usefixtures("on_path")


def command(url: str, *words: str) -> list[str]:
    return ["redisq", "--url", url, *words, "--watch", "100ms"]


@pytest.mark.slow
def test_in_a_pipe_frames_follow_each_other_as_plain_text(url: str, client: redis.Redis) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([("e1", b"x")])
    with subprocess.Popen(command(url, "ls"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(3)]
        queue.schedule([("e2", b"x")])
        while " 2 " not in (line := process.stdout.readline()):
            assert "\x1b" not in line
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert first[0].startswith("name") and first[1].startswith("later") and first[2] == "\n"
    assert process.returncode == 130


def test_as_json_nothing_but_lines_is_printed(url: str, client: redis.Redis) -> None:
    DelaySet(client, "later").schedule([("e1", b"x")])
    with subprocess.Popen(
        command(url, "ls", "--json"), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        rows = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.kill()
    assert [row["waiting"] for row in rows] == [1, 1, 1]


@pytest.mark.slow
def test_on_a_terminal_it_is_redrawn_in_place(url: str, client: redis.Redis) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([("e1", b"x")])
    outer, inner = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(command(url, "ls"), stdout=inner, env=environment) as process:
        os.close(inner)
        drawn, deadline = b"", time.monotonic() + 90
        while b" 2 " not in drawn and time.monotonic() < deadline:
            if select.select([outer], [], [], 1)[0]:
                drawn += os.read(outer, 65536)
            if b"later" in drawn:
                queue.schedule([("e2", b"x")])
        process.send_signal(signal.SIGTERM)
    os.close(outer)
    assert b" 2 " in drawn and b"\x1b[1A" in drawn  # the cursor went up to draw the same line again
    assert drawn.rfind(b"\x1b[?25h") > drawn.rfind(b"\x1b[?25l")  # and can be seen


def test_a_server_that_goes_away_is_tried_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=lambda _: None))
    looks = iter([None, Unreachable("gone"), Unreachable("gone"), None, NotFound("no queue")])

    def look() -> None:
        if (error := next(looks)) is not None:
            raise error
        print("frame")

    with pytest.raises(NotFound):
        repeat(look, "2s", json=False)
    out, err = capsys.readouterr()
    assert out == "frame\n\nframe\n\n"
    assert err.count("redisq: seen at ") == err.count("trying again every 2s: gone\n") == 2


def test_a_long_frame_on_a_terminal_says_that_the_server_is_lost_and_what_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = io.StringIO()
    terminal = Console(file=drawn, width=80, height=6, force_terminal=True)
    monkeypatch.setattr(watch, "Console", lambda: terminal)
    monkeypatch.setattr(watch, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=lambda _: None))
    looks = iter([None, Unreachable("gone"), NotFound("no queue")])

    def look() -> None:
        if (error := next(looks)) is not None:
            raise error
        print(*(f"queue-{n}" for n in range(30)), sep="\n")

    with pytest.raises(NotFound):
        repeat(look, "2s", json=False)
    assert "… 26 more lines" in drawn.getvalue()
    lost = drawn.getvalue().partition("redisq: seen at ")[2]
    assert "gone" in lost and "queue-2" in lost and "… 27 more lines" in lost


def test_a_mistake_is_one_line_and_nothing_is_drawn(redisq: Redisq) -> None:
    assert "not a time span" in redisq.refusal("ls", "--watch", "2", code=2)
    assert "at least 100ms" in redisq.refusal("ls", "--watch", "5ms", code=2)
    redisq.refusal("inspect", "missing", "--watch", "1s", code=1)


@pytest.mark.parametrize(
    "words",
    [
        "ls",
        "inspect later",
        "inspect later/e1",
        "explain later",
        "dlq groups later",
        "workers ls later",
        "client ls fair",
    ],
)
def test_each_look_can_be_repeated(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    DelaySet(client, "later").schedule([("e1", b"x")])
    FairQueue(client, "fair").submit("ann", [("a", b"x")])
    once = redisq(*words.split(), "--json")
    sleeps = iter([None, None, KeyboardInterrupt()])

    def sleep(_: float) -> None:
        if (end := next(sleeps)) is not None:
            raise end

    # Of this module alone: another thread that sleeps would use up the pauses.
    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=sleep))
    watched = redisq(*words.split(), "--json", "--watch", "1s", code=130)
    assert len(watched.splitlines()) == 3 * len(once.splitlines())
