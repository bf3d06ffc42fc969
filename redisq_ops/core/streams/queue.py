"""A plain stream with its consumer groups, as a queue to look at: kind ``stream``.

The one key is ``at``, or what stands behind the colon of the name (``stream:orders``). Every group
is a reader of its own, so an entry may be pending in one and waiting for another: ids say which
(``group:ms-seq``). *Waiting* is what the group that is furthest behind has not been given yet,
*pending* what all groups together have handed out and not had acknowledged. What was acknowledged
by all stays in the stream, and nobody counts it.
"""

from __future__ import annotations

from typing import ClassVar

from ..foreign import ForeignQueue
from ..io import C_co, Call, both, operation, together
from ..quoting import bytes_of, legal
from ..values import Checkup, Consumer, Counts, Entry, Page, State
from . import groups
from .checkup import checkup
from .groups import Group, Part


class StreamQueue(ForeignQueue[C_co]):
    """One stream. Read-only: who reads it settles what it reads, with XACK."""

    kind: ClassVar[str] = "stream"
    room: ClassVar[str] = "streams"
    capabilities: ClassVar[frozenset[str]] = frozenset({"consumers"})
    faults: ClassVar[tuple[str, ...]] = (
        "a pending entry has no deadline: what a dead consumer holds stays there until somebody "
        "claims it",
        "there is no limit of attempts and there are no dead letters: an entry that kills its "
        "consumer comes back for ever",
        "an entry that is trimmed while it is pending is lost, and its id stays pending",
    )

    @property
    def key(self) -> bytes:
        return bytes_of(self.at or self.own_name)

    @operation
    def exists(self) -> Call[bool]:
        return Call(("TYPE", self.key), lambda reply: bytes(reply) == b"stream", key=self.key)

    def _part(self, group: Group) -> Part:
        return Part(self.key, group, f"{legal(group.name)}:")

    @property
    def _nobody(self) -> Part:
        """Whoever will come to read a stream without groups."""
        return Part(self.key, Group(b"", 0, 0, "0-0", None), ":")

    @operation
    async def groups(self) -> list[Group]:
        """The consumer groups by name."""
        return await groups.groups(self.key)

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        there, length = await both(
            groups.groups(self.key), Call(("XLEN", self.key), int, key=self.key)
        )
        last = min((group.place for group in there), default=None)
        behind = min(there, key=lambda group: group.place, default=None)
        low = "-" if last is None else f"({last[0]}-{last[1]}"
        ahead = await groups.content(self.key, low, "+", 1)
        waiting = (behind.lag if behind else length) if ahead else 0
        unknown: frozenset[State] = frozenset({"done"})
        return Counts(
            waiting or 0, sum(group.pending for group in there), 0, 0, 0, 0,
            groups.came_ms(ahead[0][0]) if ahead else None,
            unknown=unknown | {"waiting"} if waiting is None else unknown,
        )  # fmt: skip

    @operation
    async def page(
        self,
        state: State,
        cursor: str | None = None,
        max: int = 100,
        start: int | None = None,
        payloads: bool = False,
    ) -> Page:
        if state not in ("waiting", "pending"):
            return Page((), None, 0)
        there, now = await both(groups.groups(self.key), self._now())
        total = sum(group.pending for group in there)
        if state == "waiting":
            if not there:
                return await self._unread(cursor, max, start)
            there = [min(there, key=lambda group: group.place)]
            total = there[0].lag or 0
        parts = [self._part(group) for group in there]
        return await groups.page(state, parts, total, cursor, max, start, now, payloads)

    async def _unread(self, cursor: str | None, max: int, start: int | None) -> Page:
        """A stream without groups: everything waits for a reader to come."""
        size = await Call(("XLEN", self.key), int, key=self.key)
        return await groups.page("waiting", [self._nobody], size, cursor, max, start, 0, False)

    @operation
    async def get(self, id: str) -> Entry | None:
        """An entry as a group sees it (``group:ms-seq``), or as the first group does that has it
        pending or still to come (``ms-seq``)."""
        label, _, rest = id.rpartition(":")
        there, now = await both(groups.groups(self.key), self._now())
        parts = [self._part(group) for group in there] or [self._nobody]
        if label:
            parts = [part for part in parts if part.label == f"{label}:"]
        parts = [part for part in parts if part.rest(part.label + rest)]
        found = await together(groups.entry(part, rest, now) for part in parts)
        known = [entry for entry in found if entry is not None]
        return min(known, key=lambda e: ("pending", "waiting", "done").index(e.state), default=None)

    async def _get_waiting(self, id: str) -> Entry | None:
        return None

    @operation
    async def consumers(self, id: str) -> list[Consumer]:
        """The consumers of a group, or of all (``''``), as ``group:consumer``."""
        there = [self._part(group) for group in await groups.groups(self.key)]
        wanted = [part for part in there if id in ("", part.label[:-1])]
        rows = await together(groups.consumers(part) for part in wanted)
        return [consumer for found in rows for consumer in found]

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        parts = [self._part(group) for group in await groups.groups(self.key)]
        return await checkup(parts, thorough)

    @operation
    async def invariants(self) -> list[str]:
        return list((await self.checkup.op(thorough=True)).flaws)
