"""Changes of entries that another program keeps: moved by identity, and taken back.

A kind that allows any verb has ``lua/owner.lua`` in its folder: the hooks that the shared scripts
`move` and `undo` call say what is written (see docs/new-kind.md). Ours stand beside the owner's
keys, from the first change on: the audit log, callers, history, and the trash (``trash``, ``was``,
``purged``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from redis import RedisCluster
from redis.asyncio import RedisCluster as AsyncRedisCluster

from ..engine.queue import Queue
from ..engine.registry import Registered, find, server_ms
from ..engine.state_scan import HistoryExtent
from ..model.clock import Duration, checked_ms
from ..model.entry import Event, State
from ..model.errors import BadInput, Refused, WrongKind
from ..model.keys import checked_name, registry_key
from ..model.quoting import bytes_of
from ..model.settings import LEASE_MS, MAX_BATCH
from ..redis.operation import C_co, Call, both, operation, together
from ..redis.parsers import words
from .placed_queue import PlacedQueue
from .places import LocatedEntry


class ForeignHistory(PlacedQueue[C_co]):
    """A queue of which we keep a history: what operators, or our workers, did with it."""

    async def _ensure_registered(self) -> None:
        """Before the first key of ours: an entry in the registry, so that the journal is found."""
        if self._registered:
            return
        clustered = isinstance(self.client, (RedisCluster, AsyncRedisCluster))
        if clustered and not re.search(r"\{[^}]+\}", self.at):
            raise Refused(
                f"queue {self.name}: on a cluster its keys must begin with one hash tag, "
                f"like {{app}}:, and these begin with {self.at!r}"
            )
        entry, _ = await both(find(self.name, self.prefix), self._refuse_wrong_types())
        if entry is None:
            await self._check_submit_rights()
            mine = Registered(self.name, self.kind, self.schema, await server_ms(), at=self.at)
            key = registry_key(self.prefix)
            await Call(("HSETNX", key, self.name, mine.encoded()), int, key=key)
            entry = await find(self.name, self.prefix) or mine
        known = entry.checked(self.kind, self.schema).at
        if known != self.at:
            raise WrongKind(f"queue {self.name} is known with its keys under {known!r}")
        self._registered = True

    # --- as with queues of our own ---------------------------------------------------------------

    @operation
    async def history(self, max: int = 100, before: str = "+") -> list[Event]:
        return await Queue.history(self, max, before)

    @operation
    async def history_length(self) -> int:
        return await Queue.history_length(self)

    @operation
    async def history_extent(self) -> HistoryExtent:
        return await Queue.history_extent(self)

    @operation
    async def history_range(
        self, after: str, until: str, max: int = 100
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        return await Queue.history_range(self, after, until, max)

    @operation
    async def settings(self) -> dict[str, str]:
        return await Queue.settings(self)


class ForeignChanges(ForeignHistory[C_co]):
    """A queue of which operators can change entries. ``actions`` says how."""

    identity: ClassVar[tuple[str, ...]] = ()
    """fields of an entry's hash (``t_job_`` and its member) that tell it from a later one"""

    async def stamps(self, found: Sequence[LocatedEntry]) -> Sequence[bytes]:
        """The `identity` of each, as it is seen; `owner_take_out` compares it."""
        if not self.identity:
            return [b""] * len(found)
        keys = [bytes_of(self.keys["t_job_"]) + seen.member for seen in found]
        rows = await together(
            Call(("HMGET", key, *self.identity), list[Any], key=key) for key in keys
        )
        return [b" ".join(value or b"" for value in row) for row in rows]

    def refused(self, seen: LocatedEntry, target: str) -> str:
        """Why an entry may not be changed, in a word; empty: it may."""
        return ""

    @operation
    async def move(
        self,
        op: str,
        step: int,
        ids: Sequence[str],
        *,
        source: State,
        target: str,
        high_water_ms: int,
        consumer: str = "-",
        lease_ms: Duration = LEASE_MS,
        times: Mapping[str, int] | None = None,
        span: str = "",
    ) -> list[str]:
        """As every queue's; ``lease_ms`` is the time of a reschedule. Beside its words there are
        the kind's own for an entry that may not be changed now."""
        checked_name(op, "operation")
        if len(ids) > MAX_BATCH:
            raise BadInput(f"move: {len(ids)} at once, {MAX_BATCH} at most")
        await self._ensure_registered()
        rows = await self._rows(ids, source, target, high_water_ms)
        said: list[str] = await self._script("move").call(
            self.keys, self.clock, words, rows,
            caller=op, seq=step, **{"from": source, "to": target},
            at=checked_ms(lease_ms, "time"), span=span,
        )  # fmt: skip
        return said

    async def _rows(
        self, ids: Sequence[str], source: State, target: str, high_water_ms: int
    ) -> list[tuple[str, str, str, bytes, str, bytes]]:
        located, now = await both(self._located(ids, source), self._now())
        deep = source == "waiting" and await self._has_depths(located, ids)
        absent = "deep" if deep else "changed"
        found = [(id, located[id].pop(0) if located[id] else None) for id in ids]
        there = [seen for _, seen in found if seen is not None]
        stamps = iter([b""] * len(there) if source == "trash" else await self.stamps(there))
        rows = []
        for id, seen in found:
            if seen is None:
                rows.append((id, absent, "", b"", "", b""))
                continue
            # Their times are their machines': one that is still to come says nothing.
            since = seen.entry.since_ms
            late = since is not None and high_water_ms < since <= now
            why = "late" if late else self.refused(seen, target)
            place = str(seen.at) if seen.place.kind == "list" else f"{seen.score:.17g}"
            rows.append((id, why, seen.place.key, seen.member, place, next(stamps)))
        return rows

    @operation
    def undo(
        self,
        op: str,
        step: int,
        *,
        target: str,
        by: str,
        seq: int,
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> Call[tuple[int, ...]]:
        """As every queue's. What lies too deep inside a list to be taken out is left for a later
        undo (the third number)."""
        return self._script("undo").call(
            self.keys, self.clock, lambda reply: tuple(map(int, reply)),
            caller=by, seq=seq, op=op, step=step,
        )  # fmt: skip
