"""Ctrl+P: every key, queue, theme, context and command of `redisq`, found by its words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from textual import on
from textual.actions import parse as parse_action
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.types import IgnoreReturnCallbackType
from textual.widgets import Input

from redisq_ops.ops.terminal import printable
from redisq_ops.tui.keys import keys
from redisq_ops.tui.theme import THEMES

from .command_line import NOT_HERE

if TYPE_CHECKING:
    from ..app import Top


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """A line of the palette, its explanation, and the function that it calls."""

    words: str
    help: str
    run: IgnoreReturnCallbackType


def entries(app: Top) -> Iterator[PaletteEntry]:
    """All that can be done here and now."""
    for binding in app.key_bindings:
        _, action, parameters = parse_action(binding.action)
        if action != "command_palette" and not app.why_unfit(action, parameters):
            signs = " ".join(map(keys.sign, binding.key.split(",")))
            words = f"{binding.tooltip or binding.description}  {signs}"
            yield PaletteEntry(words, "", partial(app.run_action, binding.action))
    for queue in app.queues:
        line = f"go {queue.name}"
        yield PaletteEntry(printable(line), f"{queue.kind} queue", partial(app.commands.run, line))
    for theme in THEMES:
        yield PaletteEntry(f"theme {theme}", "", partial(app.commands.run, f"theme {theme}"))
    for context in [one.text for one in app.host.contexts()]:
        line = f"ctx {context}"
        yield PaletteEntry(line, "Show the server of this context", partial(app.commands.run, line))
    for command in app.host.commands():
        if command.text not in NOT_HERE:
            begin = partial(app.command.begin, f"{command.text} ")
            yield PaletteEntry(command.text, command.help, begin)


class DashboardPalette(CommandPalette):
    """Textual's palette with these entries; a colon typed first opens the line for commands."""

    def __init__(self) -> None:
        super().__init__(providers=[PaletteEntries], placeholder="Find …")

    @on(Input.Changed)
    def leave_for_command(self, changed: Input.Changed) -> None:
        if changed.value == ":":
            cast("Top", self.app).action_command()


class PaletteEntries(Provider):
    """Finds the entries."""

    async def startup(self) -> None:
        self._entries = list(entries(cast("Top", self.app)))

    async def discover(self) -> Hits:
        for one in self._entries:
            yield DiscoveryHit(Content(one.words), one.run, one.words, one.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for one in self._entries:
            if (score := matcher.match(one.words)) > 0:
                yield Hit(score, matcher.highlight(one.words), one.run, one.words, one.help)
