"""A client for each event loop that needs one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from .operation import AsyncClient

T = TypeVar("T")


class LoopClients(Generic[T]):
    """What is made of a client, once for each event loop; the client closes when its loop ends.

    ``connect`` makes the client, ``made`` what is kept of it. For threads, each with its own loop.
    """

    def __init__(
        self, connect: Callable[[], AsyncClient], made: Callable[[AsyncClient], T]
    ) -> None:
        self._connect, self._made = connect, made
        self._of: dict[asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None]]] = {}

    async def here(self) -> T:
        """That of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._of:
            for each in list(self._of):  # other threads have loops, too
                if each.is_closed():  # it ended without its generators
                    self._of.pop(each, None)
            client = self._connect()
            closing = self._closing(client, loop)
            self._of[loop] = self._made(client), closing
            await anext(closing)
        made, _ = self._of[loop]
        return made

    async def _closing(
        self, client: AsyncClient, loop: asyncio.AbstractEventLoop
    ) -> AsyncGenerator[None]:
        """Closes the client when its event loop ends, which then ends its generators."""
        try:
            yield
        finally:
            self._of.pop(loop, None)
            await client.aclose()
