"""The storage interface in Python: every hook that the engine's classes call and a kind implements.

Entries in other states than waiting are stored alike in all kinds of ours, and the engine reads
them. Only the kind knows where entries wait, and these methods read them there. The other half, for
changes, is `lua/storage.lua`.
A new kind subclasses `Queue`, implements the first two methods, `Queue.counts` and
`Queue.invariants`, and replaces further ones where their defaults don't fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from ..model.consumer_load import PendingPage, PendingQuery
from ..model.entry import Delivery, Entry, Limit, Page, PageQuery, State, TakeResult
from ..redis.operation import Description
from .operator_changes import ChangeUndo
from .registry import Registered
from .state_scan import WaitingIds


class Storage(Protocol):
    """What a kind of ours tells the engine; what stands before “reads” has no default."""

    kind: ClassVar[str]
    """the kind's name in the registry and on the command line"""
    package: ClassVar[str]
    """the package under `redisq_ops.core` whose ``lua`` folder has the kind's scripts"""
    key_types: ClassVar[dict[str, str]]
    """the kind's own keys: key part -> Redis type"""

    # --- required -------------------------------------------------------------------------------

    async def _page_waiting(self, query: PageQuery) -> Page:
        """A page of waiting entries, as `Queue.page` returns it."""

    async def _get_waiting(self, id: str) -> Entry | None:
        """The entry with its payload if it waits, else None. Called when no other state has it."""

    # --- reads ----------------------------------------------------------------------------------

    async def _page(self, state: State, query: PageQuery) -> Page:
        """A page of any state. Default: of the common sets, and `_page_waiting`.

        Replaced where another state is kept with the waiting entries.
        """

    async def _pending_deliveries(self, query: PendingQuery) -> PendingPage:
        """Deliveries that aren't settled. Default: made of the page of pending entries.

        Replaced where a request or a consumer can be asked for its own.
        """

    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]:
        """The payload of each entry, in whatever state; None for an entry that doesn't exist.

        Default: the fields of the hash ``body``.
        """

    async def _payloads_or_errors(self, ids: Sequence[str]) -> list[bytes | Exception | None]:
        """`_payloads`, with an exception in the place of a corrupt one.

        Default: `_payloads`. Replaced where a payload is part of a record that has to be decoded.
        """

    async def _entries(
        self, state: State, rows: Sequence[tuple[str, float | None]], payloads: bool = True
    ) -> list[Entry]:
        """The entries of (id, score) rows of one state, in two round trips at most.

        Default: from the records and errors all kinds keep. Replaced to add fields (a client).
        """

    async def _zset_range(self, state: State) -> tuple[str, float | None, float | None] | None:
        """The sorted set that has a state's ids: (key part, lowest score, highest score).

        None: they are in no sorted set, and `_waiting_ids` lists them. Default: the common sets,
        so None for waiting entries.
        """

    async def _waiting_ids(self, query: PageQuery) -> WaitingIds:
        """The ids of a page of waiting entries, without records.

        Default: those of the page with records. Replaced where waiting entries are in no sorted
        set.
        """

    def _columns(
        self, state: State, ids: Sequence[str], want: frozenset[str]
    ) -> dict[str, Description[Any]]:
        """How to read columns of many entries: column -> a description of its read.

        ``want``: lines (the records), errors, payloads, and what else the kind has. All run in one
        round trip. Default: the three that all kinds have.
        """

    async def _limits_reached(self, max: int) -> list[Limit]:
        """Requests or clients, the first ``max``, whose entries wait because of a limit of theirs.

        Default: none. Replaced where requests or clients have limits.
        """

    # --- workers --------------------------------------------------------------------------------

    def _read_take(self, reply: list[Any], consumer: str) -> TakeResult:
        """Read the reply of the kind's ``take.lua``.

        Default: as it stands. Replaced to change when the consumer looks again.
        """

    def _deliveries(
        self,
        consumer: str,
        ids: Sequence[str],
        receipts: Sequence[str],
        payloads: Sequence[bytes],
        deadline_ms: int,
    ) -> list[Delivery]:
        """Deliveries of a reply of ``take.lua``. Default: an entry has no client."""

    # --- the queue's life -----------------------------------------------------------------------

    async def _undo_change(self, undo: ChangeUndo) -> int:
        """Take back a change that moved no entries; returns how many things it changed back.

        Default: imports and settings. Replaced by kinds that have further changes.
        """

    async def _is_marked(self, entry: Registered) -> bool:
        """Write the registration mark into every shard; False: one had none.

        A kind with options in the same key overrides this: it writes them before the mark.
        """

    async def _ensure_registered(self) -> None:
        """Find or create the registry entry, once per object; raise `WrongKind` for another kind.

        Replaced by kinds with options that are fixed at creation, or with keys of another program.
        """

    async def _destroy_entries(self, max: int) -> int:
        """Delete about ``max`` of the kind's keys that no fixed name leads to; 0 when none is left.

        Default: 0. Replaced by kinds that have keys per request or per client.
        """
