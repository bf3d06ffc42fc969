"""The last line of a screen: the keys that have a use now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_Shown = tuple[str, str, str, str, bool, str]
"""the arguments of `FooterKey`"""


class KeyFooter(Footer):
    """Textual's footer, but composed again only when its keys change.

    Textual's own is composed at every change of the focus. The old `FooterKey` objects are never
    freed, because they watch the footer's `compact`.
    """

    def __init__(
        self, also: Collection[str] = (), words: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """``also``: the ids of keys to show that are hidden elsewhere. ``words``: key's id -> what
        it does here, where that isn't what it does elsewhere."""
        super().__init__(compact=True, show_command_palette=False)
        self._also, self._words = also, words
        self._shown: tuple[_Shown, ...] = ()

    def compose(self) -> ComposeResult:
        for key in self._shown:
            yield FooterKey(*key)

    async def recompose(self) -> None:
        """Called by Textual when the active keys may have changed."""
        if self.is_attached and (now := self._of_now()) != self._shown:
            self._shown = now
            await super().recompose()

    def _of_now(self) -> tuple[_Shown, ...]:
        """The keys to show: for each action, the first of its keys."""
        of_action: dict[str, _Shown] = {}
        words = self._words()
        for _, key, enabled, tooltip in self.screen.active_bindings.values():
            if (key.show or key.id in self._also) and key.action not in of_action:
                name = self.app.get_key_display(key)
                does = words.get(key.id or "", key.description)
                shown = (key.key, name, does, key.action, not enabled, tooltip)
                of_action[key.action] = shown
        return tuple(of_action.values())
