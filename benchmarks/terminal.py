"""A dashboard's process on a terminal of 120 × 40: what it has shown, its keys, its memory."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path
from typing import Self

PATIENCE_S = 20.0


class Terminal:
    """`redisq-top` with these words behind it; gone when the block ends."""

    def __init__(self, *words: str) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(COLUMNS="120", LINES="40", TERM="xterm-256color")
            os.execv(sys.executable, [sys.executable, "-m", "redisq_ops", "top", *words])
        self._seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def until(self, words: str) -> None:
        """Return as soon as these words have been drawn since the latest key."""
        end = time.perf_counter() + PATIENCE_S
        while words.encode() not in self._seen:
            if time.perf_counter() > end:
                raise TimeoutError(f"no {words!r} on the screen, but {self._seen[-2000:]!r}")
            self._read(0.5)

    def rest(self, seconds: float) -> None:
        """Let it go on for a while; its terminal takes what it draws."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self._read(left)

    def press(self, keys: str) -> None:
        self._seen = b""
        os.write(self._terminal, keys.encode())

    def memory(self, field: str) -> float:
        """MB of a line of its /proc status: ``VmRSS`` now, ``VmHWM`` the most so far."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith(f"{field}:"))
        return int(line.split()[1]) * 1024 / 1e6

    def _read(self, patience: float) -> None:
        if select.select([self._terminal], [], [], patience)[0]:
            self._seen += os.read(self._terminal, 65536)
