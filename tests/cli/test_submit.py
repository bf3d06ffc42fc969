"""`submit` that has not sent anything says so."""

import fcntl
import io
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
import redis

import redisq_ops
from redisq_ops import RequestQueue
from redisq_ops.cli import main as cli

from ..command_line import Redisq

pytestmark = [pytest.mark.alike, pytest.mark.usefixtures("on_path")]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--json"], ["--per-line"], ["--dry-run"]])
@pytest.mark.parametrize("fed", [b"half a li", b"one\ntwo\n"])
def test_ctrl_c_before_the_first_batch_says_that_nothing_was_sent(
    client: redis.Redis, url: str, tmp_path: Path, fed: bytes, more: list[str]
) -> None:
    with subprocess.Popen(
        ["redisq", "submit", "-", "--id", "r", "--url", url, *more],
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
        error = {"type": "Interrupted", "message": "interrupted, nothing was sent", "column": None}
        assert json.loads(err) == {"error": error, "exit": 130}
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


@pytest.mark.parametrize("more", [[], ["--per-line"]])
def test_a_long_line_is_refused_before_anything_is_sent(
    redisq: Redisq, client: redis.Redis, tmp_path: Path, more: list[str]
) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"\n".join(b"%d" % n for n in range(300)) + b"\n" + b"x" * 99 + b"\nend")
    words = ["submit", str(source), "--id", "r", "--max-payload", "50", *more]
    said = redisq.refusal(*words, code=1)
    whose = "r-301" if more else "r"
    assert said == (
        f"{source}, row 301, request {whose}: 99 bytes, over the limit of 50 (--max-payload): "
        "nothing was sent (--skip-invalid FILE sends the others and lists these in FILE)"
    )
    (row,) = redisq.rows(*words, "--dry-run", code=1)
    assert (row["total"], row["refused"], row["lines"]) == (301, 1, 302)
    assert client.dbsize() == 0


@pytest.mark.parametrize("whence", ["file", "stdin"])
def test_skipped_lines_are_listed_and_counted(
    redisq: Redisq,
    client: redis.Redis,
    tmp_path: Path,
    whence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, rejects = tmp_path / "in.txt", tmp_path / "rejects"
    source.write_bytes(b"x" * 99 + b"\none\n\n" + b"y" * 51 + b"\nend\n")
    name = str(source) if whence == "file" else "-"

    def submit(*more: str, code: int) -> list[dict[str, Any]]:
        with source.open("rb") as fed:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(_Pipe(fed)))
            words = ["submit", name, "--max-payload", "50", "--skip-invalid", str(rejects)]
            return redisq.rows(*words, *more, code=code)

    (planned,) = submit("--id", "r", "--dry-run", code=3)
    assert (planned["total"], planned["refused"]) == (3, 2) and not rejects.exists()
    (done,) = submit("--id", "r", code=3)
    assert (done["total"], done["refused"], done["word"]) == (3, 2, "ok")
    assert [json.loads(line) for line in rejects.read_text().splitlines()] == [
        {
            "file": name,
            "row": row,
            "request": "r",
            "reason": f"{size} bytes, over the limit of 50 (--max-payload)",
        }
        for row, size in ((1, 99), (4, 51))
    ]
    assert rejects.stat().st_mode & 0o777 == 0o600
    queue = RequestQueue(client, "default")
    taken = queue.take(9, consumer="w").deliveries
    assert [delivery.payload for delivery in taken] == [b"one", b"", b"end"]
    # A request's number says which line it was: what is mended later is the request it lacks.
    submit("--id", "each", "--per-line", code=3)
    assert [queue.request(f"each-{n}") is not None for n in range(1, 6)] == [
        False,
        True,
        True,
        False,
        True,
    ]
    source.write_bytes(b"a\none\n\nb\nend\n")
    (mended,) = submit("--id", "each", "--per-line", code=0)
    assert (mended["total"], mended["refused"]) == (5, 0) and rejects.read_text() == ""
    source.write_bytes(b"z" * 99)
    redisq("submit", str(source), "--max-payload", "50", "--skip-invalid", str(rejects), code=1)
    assert "no line of" in redisq.err and len(rejects.read_text().splitlines()) == 1


class _Pipe(io.BufferedReader):
    """A file that can be read once."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__(file.raw)

    def seekable(self) -> bool:
        return False


def unread(pipe: int) -> int:
    """Bytes in a pipe that nobody has read."""
    (n,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(n)
