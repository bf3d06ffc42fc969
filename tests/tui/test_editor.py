"""`E` on a real terminal: the person's editor has it, and the dashboard has it back."""

import os
import pty
import select
import signal
import sys
import time
from pathlib import Path
from typing import Self

import pytest
import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.request import RequestQueue

pytestmark = pytest.mark.slow

EDITOR = """#!/bin/sh
# What an editor does: it talks to the terminal, and reads keys from it.
test -t 0 && test -t 1 && printf '\\033[2J\\033[Hthe editor has %s\\n' "$(cat "$1")"
read -r typed
sed -i "s/payload/$typed/" "$1"
"""


class Terminal:
    """`redisq top` on a terminal of 100 × 30."""

    def __init__(self, *words: str) -> None:
        self.pid, self._fd = pty.fork()
        if not self.pid:
            os.environ.update(COLUMNS="100", LINES="30", TERM="xterm-256color")
            os.execv(sys.executable, [sys.executable, "-m", "redisq_ops", "top", *words])
        self.seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    def press(self, keys: str) -> None:
        self.seen = b""
        os.write(self._fd, keys.encode())

    def until(self, words: str) -> None:
        """Return once these words have been drawn since the latest key."""
        end = time.monotonic() + 60
        while words.encode() not in self.seen:
            assert time.monotonic() < end, f"no {words!r} on the screen: {self.seen[-3000:]!r}"
            if select.select([self._fd], [], [], 0.5)[0]:
                self.seen += os.read(self._fd, 65536)


def test_the_editor_has_the_terminal_and_the_dashboard_comes_back(
    url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "editor"
    path.write_text(EDITOR)
    path.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(path))
    monkeypatch.delenv("VISUAL", raising=False)
    queue = RequestQueue(client, "mail")
    queue.submit([b"payload"], id="r1")
    (taken,) = queue.take(1, consumer="w1").deliveries
    queue.settle([Settlement(taken, "reject", Failure("E", "boom").encoded())])
    with Terminal("--url", url, "--queue", "mail", "--interval", "0.2") as top:
        top.until(" of 1")
        top.press("5")
        top.until("r1/1")
        top.press("E")
        top.until("the editor has payload")
        assert b"\x1b[?1049l" in top.seen, "the screen that was there before is the editor's"
        top.press("fixed\n")  # a key that the dashboard took would be lost here
        top.until("\x1b[?1049h")
        top.until("+fixed")
        top.press("y")
        top.until("1 edited")
        found = queue.get("r1/1")
        assert found is not None and (found.payload, found.state) == (b"fixed", "dead")
        top.press("1")  # its keys are its own again
        top.until("1 of 1")
        top.press("q")
        top.until("\x1b[?1049l")
