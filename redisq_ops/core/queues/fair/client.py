"""One client of a fair queue, with the methods of the article's class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from ...model.keys import checked_name
from ...redis.operation import Bound, C_co, Description, operation

if TYPE_CHECKING:
    from .queue import Deleted, FairQueue, SubmittedEntry


class ClientQueue(Bound[C_co]):
    """The operations of `FairQueue` for one client; see there."""

    def __init__(self, queue: FairQueue[C_co], name: str) -> None:
        super().__init__(queue.client)
        self._queue = cast("FairQueue[None]", queue)  # only its descriptions are used
        self.name = checked_name(name, "client name")

    @operation
    def submit(
        self, entries: Iterable[bytes | tuple[str, bytes]]
    ) -> Description[list[SubmittedEntry]]:
        """As `FairQueue.submit`."""
        return self._queue.submit.op(self.name, entries)

    @operation
    def length(self) -> Description[int]:
        """Number of its waiting entries."""
        return self._queue.length.op(self.name)

    @operation
    async def exists(self) -> bool:
        """Whether it has entries waiting or pending, or rules."""
        return await self._queue.get_client.op(self.name) is not None

    @operation
    def delete(self, op: str) -> Description[Deleted]:
        """As `FairQueue.delete`."""
        return self._queue.delete.op(self.name, op)

    @operation
    def block(self) -> Description[bool]:
        """As `FairQueue.block`."""
        return self._queue.block.op(self.name)

    @operation
    def unblock(self) -> Description[bool]:
        """As `FairQueue.unblock`."""
        return self._queue.unblock.op(self.name)

    @operation
    def weigh(self, weight: int) -> Description[int]:
        """As `FairQueue.weigh`."""
        return self._queue.weigh.op(self.name, weight)

    @operation
    def rate(self, rate: str) -> Description[str]:
        """As `FairQueue.rate`."""
        return self._queue.rate.op(self.name, rate)

    @operation
    def limit(self, cap: int) -> Description[int]:
        """As `FairQueue.limit`."""
        return self._queue.limit.op(self.name, cap)
