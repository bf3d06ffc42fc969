"""A program that stays and does what it is told, line by line, because it is slow to start."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache


class ListeningProgram:
    """It reads a line, does it, and answers with a line: ``ok`` or more, or why not. It ends with
    us."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            env=environment,
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def does(self, line: str) -> None:
        answer = self.asked(line)
        assert answer == "ok", answer

    def asked(self, line: str) -> str:
        """What it answers."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().strip() or "it ended"


@cache
def listening(*command: str, environment: tuple[tuple[str, str], ...]) -> ListeningProgram:
    """The same one for the same command."""
    return ListeningProgram(command, dict(environment))
