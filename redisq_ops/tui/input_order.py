"""Keys, clicks and pasted text are handled in their order of arrival.

Textual sends a key to the widget that has the focus when the key arrives. Where several arrive at
once, that is too early: an earlier one may still wait in a queue, and move the focus.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from textual.app import App
from textual.events import Event, InputEvent, Key, Paste
from textual.message_pump import MessagePump

_ROUNDS = 3
"""first the key bubbles to the app, which posts to a widget; then the widget's message bubbles"""
_PATIENCE_S = 5.0
"""how long to wait for a widget that is being removed and doesn't answer any more"""


class InputOrder:
    """Holds each input back until all effects of the input before it are done."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._held: deque[Event] = deque()
        self._released: Event | None = None
        self._settling: asyncio.Task[None] | None = None

    def holds(self, event: Event) -> bool:
        """True if the event has to wait; it is posted again when its turn has come."""
        if not isinstance(event, (InputEvent, Paste)) or event.is_forwarded:
            return False
        if event is self._released:
            self._released = None
            return False
        if self._settling is not None and not self._settling.done():
            self._held.append(event)
            return True
        if isinstance(event, (Key, Paste)):
            self._settling = asyncio.create_task(self._settle(self._chain()))
        return False

    def _chain(self) -> list[MessagePump]:
        """The widgets through whose message queues a key goes now."""
        app = self._app
        if not app.screen_stack:
            return [app]
        return list((app.focused or app.screen).ancestors_with_self)

    async def _settle(self, chain: list[MessagePump]) -> None:
        await self._handled(chain)
        while self._held and self._app.is_running:
            self._released, chain = self._held.popleft(), self._chain()
            self._app.post_message(self._released)
            await self._handled(chain)

    async def _handled(self, chain: list[MessagePump]) -> None:
        await _passed([self._app])
        for _ in range(_ROUNDS):
            await _passed(chain)
            if (now := self._chain()) != chain:
                await _passed(now)


async def _passed(chain: Iterable[MessagePump]) -> None:
    """Wait until each of these widgets in turn has handled its present messages."""
    for pump in chain:
        handled = asyncio.Event()
        done: Callable[[], None] = handled.set
        if pump.call_later(done):
            with suppress(TimeoutError):
                await asyncio.wait_for(handled.wait(), _PATIENCE_S)
