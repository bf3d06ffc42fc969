"""A program that stays and does what it is told, line by line, because it is slow to start."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache


class ListeningProgram:
    """It reads a line, does it, and answers with a line: ``ok`` or more, or why not. It ends with
    us."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it ends with us)
        self.process = subprocess.Popen(
            command,
            env=environment,
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )

    def does(self, line: str) -> None:
        answer = self.asked(line)
        assert answer == "ok", answer

    def asked(self, line: str) -> str:
        """What it answers."""
        assert self.process.stdin and self.process.stdout
        with suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().strip() or self._last_words()

    def _last_words(self) -> str:
        self.process.wait(10)
        self.log.seek(0)
        return f"it ended: {self.log.read()[-1000:]}"


@cache
def listening(*command: str, environment: tuple[tuple[str, str], ...]) -> ListeningProgram:
    """The same one for the same command."""
    return ListeningProgram(command, dict(environment))
