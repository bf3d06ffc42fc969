"""A process on a pseudo-terminal of 120 × 40: its output, keys, CPU time and memory."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import termios
import time
from pathlib import Path
from typing import Self

TIMEOUT_S = 20.0


class TerminalProcess:
    """A program in a terminal; killed when the block ends."""

    def __init__(self, *command: str) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(COLUMNS="120", LINES="40", TERM="xterm-256color")
            os.execv(command[0], list(command))
        termios.tcsetwinsize(self._terminal, (40, 120))
        self._output = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def until(self, text: str) -> None:
        """Wait until the text has been drawn since the latest key press."""
        self.until_match(re.escape(text))

    def until_match(self, pattern: str, timeout_s: float = TIMEOUT_S) -> None:
        """The same of what matches a regular expression."""
        end = time.perf_counter() + timeout_s
        while re.search(pattern.encode(), self._output) is None:
            if time.perf_counter() > end:
                raise TimeoutError(f"no {pattern!r} on the screen, but {self._output[-2000:]!r}")
            self._read(0.5)

    def run_for(self, seconds: float) -> None:
        """Let the process run, and read its output."""
        end = time.perf_counter() + seconds
        while (remaining := end - time.perf_counter()) > 0:
            self._read(remaining)

    def drawn_until(self, text: str, quiet_s: float) -> float:
        """Wait until the text wasn't drawn for so long; returns when it was drawn last."""
        last = time.perf_counter()
        while time.perf_counter() - last < quiet_s:
            self._output = b""
            self._read(0.5)
            if text.encode() in self._output:
                last = time.perf_counter()
        return last

    def press_keys(self, keys: str) -> None:
        self._output = b""
        os.write(self._terminal, keys.encode())

    def memory_mb(self, field: str) -> float:
        """MB from a line of /proc/PID/status: ``VmRSS`` now, ``VmHWM`` the peak."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith(f"{field}:"))
        return int(line.split()[1]) * 1024 / 1e6

    def cpu_s(self) -> float:
        """Seconds of CPU time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_percent(self, seconds: float) -> float:
        """Let it run, and return its CPU time as a share of one core."""
        before, began = self.cpu_s(), time.perf_counter()
        self.run_for(seconds)
        return 100 * (self.cpu_s() - before) / (time.perf_counter() - began)

    def _read(self, patience: float) -> None:
        if select.select([self._terminal], [], [], patience)[0]:
            self._output += os.read(self._terminal, 65536)


class DashboardProcess(TerminalProcess):
    """`redisq top` with these arguments."""

    def __init__(self, *arguments: str) -> None:
        super().__init__(sys.executable, "-m", "redisq_ops", "top", *arguments)
