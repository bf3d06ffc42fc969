"""`:` runs any command of `redisq` on the same server, in the terminal that the dashboard leaves.

So every verb has its own options, plan and question here too, in the command's own words.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from redisq_ops.tui.signals import terminal_lent

NOT_HERE = {
    "work": "a worker runs until it is stopped: start it in a shell",
    "top": "the dashboard is open already",
    "demo": "the demo brings a dashboard of its own: start it in a shell",
}
"""commands that make no sense inside the dashboard, and why"""
ROWS, QUEUE = "%", "%q"


@dataclass(frozen=True, slots=True)
class RowAddresses:
    """What `%` (the marked rows, else the one under the cursor) and `%q` (the queue) stand for."""

    rows: tuple[str, ...] = ()
    queue: str | None = None


def parsed(line: str, addresses: RowAddresses) -> list[str]:
    """The words of a command; raises ValueError with the reason why it can't be run."""
    words: list[str] = []
    for word in shlex.split(line):
        if word == ROWS:
            if not addresses.rows:
                raise ValueError("% stands for the rows that are marked or under the cursor: none")
            words += addresses.rows
        elif word == QUEUE:
            if addresses.queue is None:
                raise ValueError("%q stands for the queue: there is none")
            words.append(addresses.queue)
        else:
            words.append(word)
    if words[:1] == ["redisq"]:
        del words[0]
    if words and words[0] in NOT_HERE:
        raise ValueError(f"{words[0]}: {NOT_HERE[words[0]]}")
    return words


def run_in_terminal(words: Sequence[str], options: Sequence[str], read_only: bool) -> int:
    """Run a command with the terminal as its own, and wait until its output is read."""
    environment = dict(os.environ)
    if read_only:
        environment["REDISQ_READ_ONLY"] = "true"
    print(f"\n$ {shlex.join(['redisq', *words])}", flush=True)
    command = [sys.executable, "-m", "redisq_ops", *options, *words]
    with terminal_lent():
        code = subprocess.run(command, env=environment, check=False).returncode
        print(f"\n[ended with {code}] Enter goes back to the dashboard ", end="", flush=True)
        sys.stdin.readline()
    return code


class CommandInput(Input):
    """The line for a command; Up brings back the one before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Run it"),
        Binding("escape", "drop", "Drop it"),
        Binding("up", "recall", "The one before", show=False),
    ]

    def __init__(self) -> None:
        placeholder = "a command of redisq; % is the row under the cursor, %q the queue"
        super().__init__(id="command", compact=True, placeholder=placeholder, select_on_focus=False)
        self.cursor_blink = False
        self.display = False
        self._latest = ""

    def begin(self, start: str = "") -> None:
        """Come into sight with the beginning of a command."""
        self.value = start
        self.cursor_position = len(start)
        self.display = True
        # At once: `focus()` waits for the next turn, and letters that came along are keys then.
        self.screen.set_focus(self)

    def end(self) -> str:
        """Go out of sight; returns what was typed."""
        self.display = False
        line = self.value.strip()
        self._latest = line or self._latest
        return line

    def action_recall(self) -> None:
        self.value = self._latest
        self.cursor_position = len(self.value)

    async def action_drop(self) -> None:
        self.value = ""
        await self.action_submit()
