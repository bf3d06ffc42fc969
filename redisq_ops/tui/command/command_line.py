"""`:` runs any command of `redisq` on the same server, in the terminal that the dashboard leaves.

So every command has the options, plan and question that it has in a shell.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from redisq_ops.ops.terminal import printable
from redisq_ops.tui.host import Completion
from redisq_ops.tui.signals import terminal_lent
from redisq_ops.tui.theme import DIM, HELD, INK

NOT_HERE = {
    "work": "a worker runs until it is stopped: start it in a shell",
    "top": "the dashboard is open already",
    "demo": "the demo brings a dashboard of its own: start it in a shell",
}
"""commands that make no sense inside the dashboard, and why"""
ROWS, QUEUE = "%", "%q"
_CHOSEN = f"{INK} on {HELD}"


@dataclass(frozen=True, slots=True)
class RowAddresses:
    """The values of `%` (the marked rows, else the one under the cursor) and `%q` (the queue that
    is open or under the cursor)."""

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


def run_in_terminal(words: Sequence[str], options: Sequence[str], read_only: bool) -> str:
    """Run a command in the terminal, and wait until the user has read its output and errors.
    Returns ''."""
    environment = dict(os.environ)
    if read_only:
        environment["REDISQ_READ_ONLY"] = "true"
    print(f"\n$ {shlex.join(['redisq', *words])}", flush=True)
    command = [sys.executable, "-P", "-m", "redisq_ops", *options, *words]
    with terminal_lent():
        code = subprocess.run(command, env=environment, check=False).returncode
        print(f"\n[ended with {code}] Enter goes back to the dashboard ", end="", flush=True)
        sys.stdin.readline()
    return ""


def run_in_pager(words: Sequence[str], options: Sequence[str]) -> str:
    """Show a command's output in ``$PAGER`` (else ``less``); returns why that failed, if it did."""
    named = os.environ.get("PAGER", "").strip() or "less -R"
    command = [sys.executable, "-P", "-m", "redisq_ops", *options, *words]
    try:
        pager = shlex.split(named)
        with terminal_lent(), subprocess.Popen(pager, stdin=subprocess.PIPE) as reader:
            # Its errors are shown too. Without a pager nothing would read the pipe.
            subprocess.run(command, stdout=reader.stdin, stderr=subprocess.STDOUT, check=False)
            reader.communicate()
    except (OSError, ValueError) as error:
        return f"{named}: {getattr(error, 'strerror', None) or error}; set PAGER"
    return f"{named} ended with {reader.returncode}" if reader.returncode else ""


class CompletionList(Static):
    """The words that can be typed next, a line each, above the line for the command."""

    LINES = 8

    def __init__(self) -> None:
        super().__init__(id="completions", markup=False)
        self.display = False

    def show(self, found: Sequence[Completion], chosen: int | None) -> None:
        """Show as many words as fit, among them the chosen one."""
        first = max(0, min((chosen or 0) - self.LINES // 2, len(found) - self.LINES))
        shown = found[first : first + self.LINES]
        width = max((cell_len(one.text) for one in shown), default=0)
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        for number, one in enumerate(shown, first):
            word = printable(one.text)
            text.append("\n" if number > first else "")
            text.append(
                f" {word}{' ' * (width - cell_len(word))} ", _CHOSEN if number == chosen else HELD
            )
            text.append(f" {printable(one.help)}", DIM)
        if len(found) > len(shown):
            text.append(f"   ({len(found)} in all)", DIM)
        self.update(text)
        self.display = bool(found)


class CommandInput(Input):
    """The line for a command: Tab completes the word at its end, Up brings back earlier lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Run it"),
        Binding("escape", "drop", "Drop it"),
        Binding("tab", "complete(1)", "Complete"),
        Binding("shift+tab", "complete(-1)", "Complete backwards", show=False),
        Binding("up", "recall(-1)", "The one before", show=False),
        Binding("down", "recall(1)", "The one after", show=False),
    ]

    def __init__(self, find: Callable[[str], Sequence[Completion]], earlier: list[str]) -> None:
        """``find``: a line -> completions of its last word; ``earlier``: the lines typed before,
        which all lines for commands share."""
        placeholder = (
            "a command of redisq; Tab completes; % is the row under the cursor, %q the queue"
        )
        super().__init__(id="command", compact=True, placeholder=placeholder, select_on_focus=False)
        self.cursor_blink = False
        self.display = False
        self._find = find
        self.completions = CompletionList()
        """to be shown above the line"""
        self._found: Sequence[Completion] = ()
        self._chosen: int | None = None
        self._completed = ""
        """the line as Tab left it"""
        self._lines = earlier
        self._at = 0

    def begin(self, start: str = "") -> None:
        """Show the line, with the beginning of a command."""
        self.display = True
        self._at, self._completed = len(self._lines), ""
        self.value = start
        self.cursor_position = len(start)
        self._look_up()
        # Not `focus()`, which waits for the next turn: letters typed until then would act as keys.
        self.screen.set_focus(self)

    def end(self) -> str:
        """Hide the line; returns the typed text."""
        self.display = self.completions.display = False
        line = self.value.strip()
        if line and self._lines[-1:] != [line]:
            self._lines.append(line)
        return line

    def watch_value(self, value: str) -> None:
        if self.display and value != self._completed:
            self._look_up()

    def _look_up(self) -> None:
        self._found, self._chosen = self._find(self.value), None
        self.completions.show(self._found, None)

    def action_complete(self, step: int) -> None:
        """Put the next completion in place of the last word; a space follows the only one."""
        if not self._found:
            return
        at = -1 if self._chosen is None else self._chosen
        self._chosen = (max(at, 0 if step < 0 else -1) + step) % len(self._found)
        head, space, _ = self.value.rpartition(" ")
        line = head + space + shlex.quote(self._found[self._chosen].text)
        if len(self._found) == 1:
            self.value = line + " "
        else:
            self._completed = self.value = line
            self.completions.show(self._found, self._chosen)
        self.cursor_position = len(self.value)

    def action_recall(self, step: int) -> None:
        self._at = max(0, min(self._at + step, len(self._lines)))
        self.value = self._lines[self._at] if self._at < len(self._lines) else ""
        self.cursor_position = len(self.value)

    async def action_drop(self) -> None:
        self.value = ""
        await self.action_submit()
