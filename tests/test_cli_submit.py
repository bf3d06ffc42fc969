"""`submit` that has not sent anything says so."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
import redis

import redisq_ops
from redisq_ops import cli

pytestmark = pytest.mark.alike

COMMAND = [sys.executable, "-m", "redisq_ops"]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--json"], ["--per-line"], ["--dry-run"]])
@pytest.mark.parametrize("fed", [b"half a li", b"one\ntwo\n"])
def test_ctrl_c_before_the_first_batch_says_that_nothing_was_sent(
    client: redis.Redis, url: str, tmp_path: Path, fed: bytes, more: list[str]
) -> None:
    with subprocess.Popen(
        [*COMMAND, "submit", "-", "--id", "r", "--url", url, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "XDG_CONFIG_HOME": str(tmp_path),
            "PYTHONPATH": str(Path(redisq_ops.__file__).parents[1]),
        },
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(fed)
        process.stdin.flush()
        while unread(process.stdin.fileno()):  # it has what there is, and wants more
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read().decode()
    assert (process.returncode, out) == (130, b""), err
    if "--json" in more:
        assert json.loads(err) == {"error": "interrupted, nothing was sent", "exit": 130}
    else:
        assert err == "redisq: interrupted, nothing was sent\n"
    assert client.dbsize() == 0


def test_another_programs_name_is_refused_before_anything_is_sent(
    client: redis.Redis, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines").write_text("one\n")
    words = ["--url", url, "submit", str(tmp_path / "lines"), "--queue", "sidekiq:mail"]
    assert cli.run(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "redisq: queue name 'sidekiq:mail': names that begin with sidekiq: are other programs'\n"
    )
    assert client.dbsize() == 0


def unread(pipe: int) -> int:
    """Bytes in a pipe that nobody has read."""
    (n,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(n)
