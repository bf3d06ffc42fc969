"""The delay set: entries that are delivered at or after their ready time, in that order.

From article 003, with its protocol mended (docs/faults.md). One sorted set holds the ready times;
an entry is *delayed* until then and *waiting* from then on. Keys beside the common ones: ``body``
id → payload, ``next`` id → what runs after the present delivery, when rescheduled meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from ..errors import TooLarge
from ..io import C_co, Call, both, operation, together
from ..keys import checked_name
from ..queue import Queue, scored, words
from ..settings import MAX_PAYLOAD
from ..values import Counts, Entry, Page, State


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What became of one entry: ok | same | moved | again | exists, and its ready time (ms)."""

    id: str
    word: str
    ready_ms: int


class DelaySet(Queue[C_co]):
    """Entries by ready time, with a lease per delivery."""

    kind: ClassVar[str] = "delay"
    room: ClassVar[str] = "delay"
    capabilities: ClassVar[frozenset[str]] = frozenset({"timeline", "reschedule"})
    parts = ("body", "next")

    @operation
    async def schedule(
        self,
        entries: Sequence[tuple[str, bytes]],
        *,
        at_ms: int | None = None,
        after_ms: int | None = None,
        mode: Literal["new", "move"] = "new",
        max_payload: int = MAX_PAYLOAD,
    ) -> list[Scheduled]:
        """Put (id, payload) pairs in for a time: ``at_ms`` UTC, or ``after_ms`` from now.

        ``new``: an id that is there with the same payload and time answers ``same``, any other
        ``exists``. ``move`` reschedules; a pending entry then runs ``again`` after its ack.
        """
        at = f"+{max(0, after_ms or 0)}" if at_ms is None else str(max(0, at_ms))
        for id, payload in entries:
            checked_name(id, "entry id")
            if len(payload) > max_payload:
                raise TooLarge(f"entry {id} has {len(payload):,} bytes, over {max_payload:,}")
        await self._enrol()

        def read(reply: list[bytes]) -> list[Scheduled]:
            said = words(reply)
            return [
                Scheduled(id, said[2 * i], int(said[2 * i + 1]))
                for i, (id, _) in enumerate(entries)
            ]

        rows = [(id, at, payload) for id, payload in entries]
        done: list[Scheduled] = await self._guarded("schedule", read, rows, mode=mode)
        return done

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        now = now_ms if now_ms is not None else await self._now()
        due, stat, cfg = self.keys["delay"], self.keys["stat"], self.keys["cfg"]
        numbers, (flags, oldest) = await both(
            together(
                [
                    Call(("ZCOUNT", due, "-inf", now), int, key=due),
                    *(
                        Call(("ZCARD", self.keys[part]), int, key=self.keys[part])
                        for part in ("delay", "lease", "dead", "trash")
                    ),
                ]
            ),
            both(
                together(
                    [
                        Call(("HMGET", stat, "done"), list[Any], key=stat),
                        Call(("HMGET", cfg, "paused", "closed"), list[Any], key=cfg),
                    ]
                ),
                scored(due, "0", "0"),
            ),
        )
        waiting, all_, pending, dead, trash = numbers
        paused, closed = (None if v is None else v.decode() for v in flags[1])
        since = int(oldest[0][1]) if oldest and waiting else None
        return Counts(
            waiting, pending, all_ - waiting, dead, trash, int(flags[0][0] or 0), since, paused,
            closed,
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
        if state == "delayed":
            low = f"({await self._now()}"
            return await self._page_zset(state, "delay", cursor, max, start, payloads, low=low)
        return await Queue.page(self, state, cursor, max, start, payloads)

    async def _page_waiting(
        self, cursor: str | None, max: int, start: int | None, payloads: bool
    ) -> Page:
        high = str(await self._now())
        return await self._page_zset("waiting", "delay", cursor, max, start, payloads, high=high)

    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]:
        if not ids:
            return []
        key = self.keys["body"]
        return await Call(("HMGET", key, *ids), list[bytes | None], key=key)

    @operation
    async def get(self, id: str) -> Entry | None:
        entry = await Queue.get(self, id)
        if entry is not None and entry.state == "delayed":
            now = await self._now()
            if entry.at_ms is not None and entry.at_ms <= now:
                return replace(entry, state="waiting")
        return entry

    async def _get_waiting(self, id: str) -> Entry | None:
        return None

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)
