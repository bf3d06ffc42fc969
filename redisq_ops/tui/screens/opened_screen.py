"""A screen about one entry, request or queue: keys and `%` mean that one, not a row of the list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen

from redisq_ops.ops.inspect.snapshot import Snapshot, View
from redisq_ops.tui.command.command_line import CommandInput
from redisq_ops.tui.keys.key_footer import KeyFooter
from redisq_ops.tui.keys.keys import CHANGE
from redisq_ops.tui.outline.section_tree import SectionTree

if TYPE_CHECKING:
    from ..dashboard import Dashboard

_CHANGES = frozenset(key.id for key in CHANGE if key.id)
"""keys for which a list's footer has no room"""


@dataclass(frozen=True, slots=True)
class Opened:
    """What such a screen shows."""

    queue: str
    id: str | None = None
    """of the entry or request; None: the queue itself"""
    view: View | None = None
    """the view that lists it now, whose keys apply to it; None: none does, or it isn't read yet"""
    settled: bool = False
    """whether it is a request of which nothing is left to do"""
    read: bool = False
    """whether it is known what it is"""


class OpenedScreen(Screen[None]):
    """Shows an :class:`Opened`, brought up to date by every snapshot, with a line for commands.

    It is no modal screen: the dashboard's own keys act here too.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "Back")]

    def __init__(self, opened: Opened, sections: SectionTree, line: CommandInput) -> None:
        """``line``: this screen's own line for commands."""
        super().__init__()
        self.opened = opened
        # Held, not queried: a snapshot may come before this screen is composed.
        self.sections = sections
        self.line = line

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield from self.content()
        yield self.line.completions
        yield self.line
        yield KeyFooter(_CHANGES, self._words)

    def _words(self) -> Mapping[str, str]:
        """What keys do in the view that lists it, in that view's words."""
        view = self.opened.view and cast("Dashboard", self.app).views[self.opened.view]
        keys = (key for key in view.BINDINGS if isinstance(key, Binding)) if view else ()
        return {key.id: key.description for key in keys if key.id}

    def content(self) -> ComposeResult:
        """The widgets of the sheet, `sections` among them."""
        yield self.sections

    def on_mount(self) -> None:
        self.take_focus()

    def take_focus(self) -> None:
        self.set_focus(self.sections.outline)

    def show(self, snapshot: Snapshot) -> None:
        """Draw the changes since the last snapshot."""
        raise NotImplementedError

    def listed_in(self, view: View | None, settled: bool = False) -> None:
        """Offer other keys, because the entry or request has another state now."""
        opened = replace(self.opened, view=view, settled=settled, read=True)
        if opened != self.opened:
            self.opened = opened
            self.app.refresh_bindings()
