"""The last line of a screen: the keys that mean something now."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_Shown = tuple[str, str, str, str, bool, str]
"""what `FooterKey` is made of"""


class KeyFooter(Footer):
    """Textual's footer, but composed anew only when its keys change.

    Textual's own is composed at every change of the focus, and keeps each key that it ever drew,
    because the key watches the footer's `compact`.
    """

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._shown: tuple[_Shown, ...] = ()

    def compose(self) -> ComposeResult:
        for key in self._shown:
            yield FooterKey(*key)

    async def recompose(self) -> None:
        """Textual calls this when other keys may mean something."""
        if self.is_attached and (now := self._of_now()) != self._shown:
            self._shown = now
            await super().recompose()

    def _of_now(self) -> tuple[_Shown, ...]:
        """Each action once, with the first of its keys."""
        of_action: dict[str, _Shown] = {}
        for _, key, enabled, tooltip in self.screen.active_bindings.values():
            if key.show and key.action not in of_action:
                name = self.app.get_key_display(key)
                shown = (key.key, name, key.description, key.action, not enabled, tooltip)
                of_action[key.action] = shown
        return tuple(of_action.values())
