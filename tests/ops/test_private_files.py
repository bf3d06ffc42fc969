"""Files that others put in the way."""

import os
from pathlib import Path

import pytest
import redis

from ..command_line import Redisq, dead_letters


@pytest.mark.alike
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("export", "mail", "-o", "pipe"), 1, "pipe that nobody reads"),
        (("metrics", "--file", "pipe"), 1, "pipe that nobody reads"),
        (("replay", "mail", "--plan", "pipe"), 2, "is no file"),
        (("apply", "pipe", "--yes"), 2, "pipe is a pipe"),
        (("recording", "write", "pipe", "--for", "1s"), 2, "pipe is a pipe"),
        (("recording", "show", "pipe"), 2, "pipe is a pipe"),
    ],
)
def test_nothing_waits_for_a_pipe(
    redisq: Redisq,
    client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    dead_letters(client, 1)
    os.mkfifo("pipe")
    assert said in redisq.refusal(*words, code=code)


def test_a_pipe_that_is_read_is_written_to(
    redisq: Redisq, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dead_letters(client, 1)
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    redisq("export", "mail", "-o", "pipe")
    assert os.read(reader, 1000).startswith(b'{"redisq": "export"')
    os.close(reader)
