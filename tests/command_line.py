"""The command line run in this process, and queues to point it at."""

import json
import os
from typing import Any
from unittest.mock import patch

import pytest
import redis

from redisq_ops.cli import main as cli
from redisq_ops.core.model.clock import Clock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.request import RequestQueue

ERROR = Failure("SMTP", "no such [red]mailbox\x1b]52;c;aGk=\x07", "Traceback\n  line \x9b 2")


class Redisq:
    """Calls end with the exit code expected, or fail the test with what was said."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys
        self.err = ""
        self.code = 0
        """the latest call's exit code"""

    def __call__(self, *words: str, code: int | None = 0) -> str:
        """What was printed. ``code``: None where any is fine."""
        self._capsys.readouterr()
        with patch.dict(os.environ, REDIS_URL=self.url):
            self.code = ended = cli.run(words)
        out, self.err = self._capsys.readouterr()
        assert code in (None, ended), f"exit {ended}: {out}{self.err}"
        return out

    def rows(self, *words: str, code: int | None = 0) -> list[dict[str, Any]]:
        """The objects that were printed."""
        return [json.loads(line) for line in self(*words, "--json", code=code).splitlines()]

    def processes(self, *words: str, code: int | None = 0) -> list[dict[str, Any]]:
        """The worker processes that `redisq workers ls` prints, without what consumers hold."""
        return [row for row in self.rows("workers", "ls", *words, code=code) if "host" in row]

    def refusal(self, *words: str, code: int) -> str:
        """The one line that says no, without its ``redisq: ``; Spark may have been started."""
        out = self(*words, code=code)
        said = self.err.removeprefix("starting Spark…\n")
        assert out == "" and said.count("\n") == 1, (out, self.err)
        assert said.startswith("redisq: ")
        return said.removeprefix("redisq: ").rstrip("\n")


def everywhere(
    client: redis.Redis, name: str = "mail", clock: Clock | None = None
) -> RequestQueue[redis.Redis]:
    """A request r1 with 4 waiting (one again), and 1 each pending, delayed, dead and done."""
    queue = RequestQueue(client, name, clock=clock)
    payloads = [b"%d [red]\x1b]52;c;aGk=\x07\xff" % n for n in range(1, 9)]
    queue.submit(payloads, id="r1", limit=8)
    done, dead, delayed, again, _ = queue.take(5, consumer="w1").deliveries
    error = ERROR.encoded()
    queue.settle(
        [
            Settlement(done, "result", b"fine"),
            Settlement(dead, "reject", error),
            Settlement(delayed, "fail", error, 60),
            Settlement(again, "fail", error),
        ]
    )
    return queue


def dead_letters(
    client: redis.Redis, n: int, name: str = "mail", id: str = "r1"
) -> RequestQueue[redis.Redis]:
    """A request of ``n`` dead entries."""
    queue = RequestQueue(client, name)
    queue.submit([b"x"] * n, id=id, limit=1000)
    while taken := queue.take(500, consumer="w1").deliveries:
        queue.settle([Settlement(delivery, "reject", ERROR.encoded()) for delivery in taken])
    return queue
