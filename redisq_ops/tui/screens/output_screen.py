"""The output of a `redisq` command, where it can't have the terminal: in a browser."""

from __future__ import annotations

import asyncio
import codecs
import os
import shlex
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Log

from redisq_ops.ops.terminal import count, printable
from redisq_ops.tui.keys.key_footer import KeyFooter

LINES: Final = 10_000
"""lines that are kept, the latest"""
_NOT_FOR_IT: Final = ("VISUAL", "EDITOR", "PAGER", "TEXTUAL_DRIVER")
"""variables that would make the command open another program or a dashboard"""


class OutputScreen(ModalScreen[None]):
    """Runs the command when it opens; it can't ask, so it prints what it would do without `--yes`.

    Esc sends it Ctrl+C; once it has ended, Esc goes back. It doesn't outlive this screen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Stop, or back"),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
        Binding("g,home", "first", "First", show=False),
        Binding("G,end", "last", "Last, and follow", show=False),
    ]

    def __init__(self, words: Sequence[str], options: Sequence[str], read_only: bool) -> None:
        super().__init__()
        self._line = printable(shlex.join(["redisq", *words]))
        self._words = [*options, *words]
        self._read_only = read_only
        self._log = Log(max_lines=LINES, auto_scroll=False)
        # Held, not queried: the command may end while the screen is being taken apart.
        self._sheet = Vertical(id="sheet")
        self._process: Process | None = None
        self.ended: int | None = None
        """its exit code; None: it runs"""

    def compose(self) -> ComposeResult:
        with self._sheet:
            self._sheet.border_title = Content(self._line)  # it may look like markup
            yield self._log
        yield KeyFooter()

    def on_mount(self) -> None:
        self._log.focus()
        self._say("running; Esc stops it")
        self.run_worker(self._run())

    async def _run(self) -> None:
        environment = {name: it for name, it in os.environ.items() if name not in _NOT_FOR_IT}
        environment["COLUMNS"] = str(max(40, self.size.width - 5))
        if self._read_only:
            environment["REDISQ_READ_ONLY"] = "true"
        command = [sys.executable, "-P", "-m", "redisq_ops", *self._words]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=environment
        )
        self._process = process
        try:
            assert process.stdout is not None
            await self._show(process.stdout)
            self.ended = await process.wait()
        finally:
            if process.returncode is None:  # the screen was left
                process.kill()
        dropped = f"; the last {count(LINES)} lines" if self._log.line_count >= LINES else ""
        self._say(f"ended with {self.ended}{dropped}; Esc goes back")

    async def _show(self, output: asyncio.StreamReader) -> None:
        decoder, rest = codecs.getincrementaldecoder("utf-8")("backslashreplace"), ""
        while chunk := await output.read(65536):
            *lines, rest = (rest + decoder.decode(chunk)).split("\n")
            self._write(lines)
        self._write([rest] if rest else [])

    def _write(self, lines: Sequence[str]) -> None:
        follows = self._log.scroll_offset.y > 0 and self._log.is_vertical_scroll_end
        # Not `write_lines`, whose thread fails if the screen is left at that moment.
        self._log.write("".join(f"{printable(line.expandtabs())}\n" for line in lines), follows)

    def _say(self, words: str) -> None:
        self._sheet.border_subtitle = words

    def action_leave(self) -> None:
        if self.ended is not None or self._process is None:
            self.dismiss(None)  # type: ignore[unused-awaitable]
        else:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            self._say("stopping")

    def action_scroll(self, lines: int) -> None:
        self._log.scroll_relative(y=lines, animate=False)

    def action_first(self) -> None:
        self._log.scroll_home(animate=False)

    def action_last(self) -> None:
        self._log.scroll_end(animate=False)
