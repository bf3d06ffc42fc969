"""`redisq-top` and `redisq top` from outside: one frame, errors in one line, nothing too early."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from redisq_ops.cli.main import run
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue

pytestmark = [pytest.mark.alike, pytest.mark.usefixtures("on_path")]

TOP = ["redisq-top"]


def top(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOP, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )


@pytest.mark.slow
def test_without_a_terminal_it_prints_one_frame(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"] * 7, id="r1")
    done = top("--url", url, COLUMNS="120", LINES="40")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert url in lines[0]
    row = next(line for line in lines if line.split()[:1] == ["mail"])
    assert row.split()[1:6] == ["request", "7", "0", "0", "0"]
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_a_frame_is_as_large_as_it_is_told(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    lines = top("--once", "--url", url, COLUMNS="60", LINES="12").stdout.splitlines()
    assert len(lines) == 12
    assert max(map(len, lines)) <= 60
    assert any("mail" in line for line in lines)


@pytest.mark.slow
def test_a_frame_of_one_queue(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"] * 3, id="r1", limit=2)
    done = top("--once", "--queue", "mail", "--utc", REDIS_URL=url)
    assert "held/limit" in done.stdout
    assert "0/2" in done.stdout
    assert "UTC" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--url", "redis://127.0.0.1:1"], "can't reach the server"),
        (["--url", "http://127.0.0.1"], "not a URL of a server"),
        (["--context", "nowhere"], "no context 'nowhere'"),
        (["--interval", "0"], "--interval"),
        (["--interval", "nan"], "--interval nan: say how many seconds"),
        (["--interval", "inf"], "--interval inf: say how many seconds"),
        (["--nonsense"], "No such option"),
    ],
)
def test_what_can_not_be_shown_is_said_in_one_line(words: list[str], said: str) -> None:
    done = top("--once", *words)
    assert done.returncode == (4 if "reach" in said else 2)
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_wrong_setting_ends_the_dashboard_too_with_one_line(tmp_path: Path) -> None:
    out = seen_in_terminal(["--url", "http://127.0.0.1"], b"not a URL of a server")
    assert out.count(b"not a URL of a server") == 1


@pytest.mark.slow
def test_a_terminal_gets_the_dashboard_and_q_ends_it(url: str) -> None:
    seen_in_terminal(["--url", url], b"no queues here yet", keys=b"q")


def seen_in_terminal(words: list[str], awaited: bytes, keys: bytes = b"") -> bytes:
    """What a terminal shows until these words came; then the keys, and the process ends."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "redisq_ops", "top", *words])
    out, end = b"", time.monotonic() + 90
    try:
        while awaited not in out:
            assert time.monotonic() < end, out
            if select.select([fd], [], [], 0.5)[0]:
                out += os.read(fd, 65536)
        os.write(fd, keys)
        while select.select([fd], [], [], 10)[0]:
            chunk = os.read(fd, 65536)
            if not chunk:
                break
            out += chunk
    except OSError:  # the terminal's other end is closed
        pass
    finally:
        os.close(fd)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if keys else 2)
    return out


def test_for_programs_it_prints_what_other_commands_do(
    url: str, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    RequestQueue(client, "mail").submit([b"x"] * 3, id="r1", limit=2)
    pairs = {"top --once": "ls", "top": "ls", "top --queue mail": "inspect mail"}
    for words, same in pairs.items():
        printed = []
        for command in (words, same):
            assert run(["--url", url, *command.split(), "--json"]) == 0
            rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            printed.append([{**row, "oldest_age_ms": None} for row in rows])
        assert printed[0] == printed[1]
        assert printed[0][0]["waiting"] == 3
    client.hset("redisq:registry", "tomorrow", '{"kind":"request","schema":99}')
    assert run(["--url", url, "top", "--json"]) == 3  # one queue can't be read, as `ls` says


@pytest.mark.slow
def test_a_frame_ends_as_ls_does_where_some_of_a_queue_can_not_be_read(
    url: str, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    SidekiqQueue(client, "sidekiq:mail").push([Job("A", [1])])
    assert run(["--url", url, "top", "--once", "--queue", "sidekiq:mail"]) == 0
    client.set("retry", "another program's")
    for words, said in ((["ls"], "keeps its data: retry"), (["top", "--once"], "data: retry")):
        capsys.readouterr()
        assert run(["--url", url, *words]) == 3
        assert said in capsys.readouterr().out
    assert run(["--url", url, "top", "--once", "--queue", "sidekiq:mail"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "keeps its data: retry" in err


@pytest.mark.slow
def test_the_first_frame_loads_no_module_of_other_views(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    DelaySet(client, "later").schedule([("e1", b"x")], after=600)
    code = (
        "import sys; from redisq_ops.cli.main import run; "
        f"run(['--url', {url!r}, 'top', '--once']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *frame, modules = done.stdout.splitlines()
    assert any("mail" in line for line in frame)
    loaded = modules.split()
    assert "redisq_ops.ops.inspect.snapshot_reader" in loaded
    later = (
        "redisq_ops.ops.inspect.queue_snapshot",
        "redisq_ops.ops.explain",
        "redisq_ops.ops.groups",
        "redisq_ops.ops.filter.parser",
        "redisq_ops.ops.check",
        "redisq_ops.ops.change.control",
        "redisq_ops.ops.change.runner",
        "redisq_ops.core.worker",
        "redisq_ops.core.queues.fair",
        "redisq_ops.tui.change.run_change",
        "redisq_ops.cli.dashboard_completion",
        "redisq_ops.demo",
        "rich.traceback",
        "rich.markdown",
        "cronsim",
        "jsonpatch",
        "plotille",
        "re2",
        "zoneinfo",
        "prometheus_client",
    )
    assert not [name for name in loaded if name.startswith(later)]


def test_a_frame_of_an_unknown_queue_is_refused(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--url", url, "top", "--once", "--queue", "nosuch"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "no queue 'nosuch'" in err
