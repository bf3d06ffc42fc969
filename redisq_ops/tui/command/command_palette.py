"""Ctrl+P: every key, queue, theme, context and command of `redisq`, found by its words.

What was used last comes first, then what fits the row under the cursor, then all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from textual import on
from textual.actions import parse as parse_action
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.markup import escape
from textual.types import IgnoreReturnCallbackType
from textual.widgets import Input

from redisq_ops.ops.terminal import printable, quantity
from redisq_ops.tui.keys import keys
from redisq_ops.tui.theme import THEMES

from .command_line import NOT_HERE

if TYPE_CHECKING:
    from ..app import Top
    from ..views.base import QueueView


_OF_ROWS: Final = frozenset({"explain", "move", "edit", "begin", "yank"})
"""actions of keys for the row under the cursor"""


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """A line of the palette, its explanation, and the function that it calls."""

    words: str
    help: str
    run: IgnoreReturnCallbackType


def entries(app: Top) -> list[PaletteEntry]:
    """All that can be done here and now, each once, in the palette's order."""
    keys_of_row, others = list(_keys(app, True)), [*_keys(app, False), *_lines(app)]
    known = {one.words: one for one in (*keys_of_row, *others)}
    recent = [
        replace(known.pop(words), help="used last") if words in known else _typed(app, words)
        for words in app.commands.recent
    ]
    return [*recent, *known.values()]


def _typed(app: Top, line: str) -> PaletteEntry:
    """A command that was typed; it is only typed again, since it may change something."""
    return PaletteEntry(printable(line), "typed last", partial(app.command.begin, line))


def _keys(app: Top, of_rows: bool) -> Iterator[PaletteEntry]:
    """The keys for the row under the cursor, if there is one, or else the other keys."""
    view = app.current
    has_row = view.table.identity is not None
    for binding in app.key_bindings:
        _, action, parameters = parse_action(binding.action)
        is_of_row = action in _OF_ROWS or (action == "hold" and view.holds != "queue")
        fits_row = is_of_row and has_row
        if action == "command_palette" or app.why_unfit(action, parameters):
            continue
        if fits_row == of_rows:
            signs = " ".join(map(keys.sign, binding.key.split(",")))
            words = f"{binding.tooltip or binding.description}  {signs}"
            run = partial(_use, app, words, binding.action)
            yield PaletteEntry(words, _meant(view, action) if of_rows else "", run)


def _meant(view: QueueView, action: str) -> str:
    """What an action on rows applies to."""
    table = view.table
    if action == "move" and view.everything:
        return "for all that match"
    if action in ("move", "begin", "hold") and table.marks:
        return f"for {quantity(len(table.marks), 'marked row')}"
    return f"for {printable(view.copied(table.identity or ''), 60)}"


async def _use(app: Top, words: str, action: str) -> None:
    app.commands.remember(words)
    await app.run_action(action)


def _lines(app: Top) -> Iterator[PaletteEntry]:
    """Queues, themes, contexts and the commands of `redisq`."""
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
        self._entries = entries(cast("Top", self.app))

    async def discover(self) -> Hits:
        for one in self._entries:
            yield DiscoveryHit(Content(one.words), one.run, one.words, escape(one.help))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for one in self._entries:
            if (score := matcher.match(one.words)) > 0:
                words = matcher.highlight(one.words)
                yield Hit(score, words, one.run, one.words, escape(one.help))
