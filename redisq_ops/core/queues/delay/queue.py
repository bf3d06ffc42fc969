"""The delay set: entries that are delivered at or after their ready time, in that order.

From article 003, with its protocol mended (docs/explanation/faults.md). One sorted set holds the
ready times; an entry is *delayed* until then and *waiting* from then on. Keys beside the common
ones (docs/explanation/delay-set.md): ``body`` id → payload, ``next`` id → the run after the present
delivery, if the entry was rescheduled meanwhile, ``seen`` marks of entries handed over to here,
``transit`` entries between two shards, ``result`` and ``result_at`` id → what its handler returned,
and when, ``periodic``, ``periodic_at`` and ``periodic_run`` name → definition, next time and latest
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...engine.entry_results import EntryResults
from ...engine.optional_features import TakesEntries
from ...engine.queue import Queue
from ...engine.timed_queue import TimedQueue
from ...model.clock import Moment, Seconds, ready_words
from ...model.entry import Delivery, Entry, State
from ...model.errors import BadInput, Refused
from ...model.settings import BATCH, LEASE_S, MAX_PAYLOAD
from ...model.states import ZSETS
from ...model.validation import checked_pairs, pairs
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import number, row_words
from . import handover
from .handover import HandoverResult
from .periodic_entries import PeriodicEntries

if TYPE_CHECKING:
    from ..request import RequestQueue


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The reply to the schedule of one entry."""

    id: str
    word: str
    """ok | same | trash | moved | again | exists, see `DelaySet.schedule`"""
    ready_ms: int
    """the entry's ready time, ms since 1970 (UTC)"""


class DelaySet(PeriodicEntries[C_co], EntryResults[C_co], TimedQueue[C_co], TakesEntries[C_co]):
    """Entries that are delivered at or after their ready time, in the order of these times.

    Each entry has an id and a payload. Periodic entries run on a cron schedule. Delivery is at
    least once; workers take due entries, also without any call at the ready time itself.

        delay = DelaySet(connect("redis://127.0.0.1:6379/0"), "later")
        delay.schedule([("reminder-7", b"hello")], after=60)
        delay.set_periodic(Periodic("report", "0 6 * * *", b"daily", zone="Europe/Berlin"))
    """

    public: ClassVar[tuple[str, ...]] = (
        *("schedule", "outcomes", "hand_over", "tick"),
        *("set_periodic", "declare_periodics", "remove_periodic", "periodics", "get_periodic"),
    )
    kind: ClassVar[str] = "delay"
    takes_ready_times: ClassVar[bool] = True
    bounds_delayed: ClassVar[bool] = True
    package: ClassVar[str] = "queues.delay"
    key_types: ClassVar[dict[str, str]] = {
        **EntryResults.key_types,
        **dict.fromkeys(("body", "next", "transit", "periodic", "periodic_run"), "hash"),
        **dict.fromkeys(("seen", "periodic_at"), "zset"),
    }
    importable_states: ClassVar[frozenset[State]] = frozenset({"waiting", "delayed", "dead"})

    @operation
    async def schedule(
        self,
        entries: Iterable[tuple[str, bytes]],
        *,
        at: Moment | None = None,
        after: Seconds | None = None,
        mode: Literal["new", "move"] = "new",
        max_payload: int = MAX_PAYLOAD,
    ) -> list[Scheduled]:
        """Schedule (id, payload) pairs for a time: up to 500, in one atomic step.

        ``at``: an aware datetime or Unix seconds; ``after``: seconds or a timedelta from now; with
        neither they are due now. Both are kept in whole ms. Returns a `Scheduled` for each, in
        their order.

        ``mode="new"`` never changes an entry. An id that is there answers ``same`` for the same
        payload and ready time (where it has one: it is delayed), or ``trash`` if it was purged and
        can be restored, else ``exists``. ``after`` is another time at each call, so repeat a
        call with ``at``. ``mode="move"`` reschedules: ``moved``, and for a pending entry
        ``again``: it runs again after its ack. Raises `BadInput` before anything is sent (both
        times, ms instead of seconds, a naive datetime), `TooLarge`, `QueueFull`, `QueueClosed`.

            delay.schedule([("reminder-7", b"hello")], after=timedelta(minutes=5))
        """
        rows = pairs(entries, "entries")
        checked_pairs(rows, "entry", max_payload)
        ready = ready_words(at, after) or "+0"
        if not rows:
            return []
        await self._ensure_registered()
        replies = await self._schedule(rows, ready, mode)
        if any(one.word == "elsewhere" for one in replies):
            raise Refused(f"queue {self.name} has shards now: open it as a sharded queue")
        return replies

    async def _schedule(
        self, entries: Sequence[tuple[str, bytes]], at: str, mode: str
    ) -> list[Scheduled]:
        def read(reply: list[bytes]) -> list[Scheduled]:
            found = []
            for (id, _), each in zip(entries, row_words(len(entries))(reply), strict=True):
                word, _, ready = each.partition(":")
                found.append(Scheduled(id, word, int(ready)))
            return found

        rows = [(id, at, payload) for id, payload in entries]
        done: list[Scheduled] = await self._call_idempotent(
            "schedule", read, rows, mode=mode, layout=self.layout
        )
        return done

    async def _add_entries(
        self,
        entries: Sequence[tuple[str, bytes]],
        client: str | None,
        at: Moment | None,
        after: Seconds | None,
    ) -> list[str]:
        return [one.word for one in await self.schedule.op(entries, at=at, after=after)]

    @operation
    async def upkeep(self) -> int:
        return await self.tick.op() + await self.sweep.op()

    # --- handing over --------------------------------------------------------------------------

    @operation
    async def hand_over(
        self,
        target: DelaySet[Any] | RequestQueue[Any] | Callable[[Delivery], object],
        n: int = BATCH,
        *,
        consumer: str = "handover",
        lease: Seconds = LEASE_S,
    ) -> HandoverResult:
        """Hand up to ``n`` due entries on to ``target``: one round.

        ``target``: a request queue, where an entry becomes a request of one sub-request; a delay
        set, where it is due at once; or a callable that gets each `Delivery`. A queue has to be in
        the same deployment and gets each id once within 24 hours (setting ``keep_ms``); a callable
        is called at least once. Returns a `HandoverResult`.
        """
        if not isinstance(target, Queue):
            return await handover.to_callable(self, target, n, consumer, lease)
        if target.keys.base == self.keys.base:
            raise BadInput(f"queue {self.name} can't be handed over to itself")
        await self._ensure_registered()
        await target._ensure_registered()
        if isinstance(target, DelaySet) and handover.one_script(self, target):
            return await handover.at_once(self, target, n)
        return await handover.by_transport(self, target, n, consumer, lease)

    # --- looking -------------------------------------------------------------------------------

    @operation
    async def get(self, id: str) -> Entry | None:
        entry = await Queue.get(self, id)
        if entry is not None and entry.state == "delayed":
            key = self.keys["delay"]
            now, at = await together(self._now(), Call(("ZSCORE", key, id), number, key=key))
            if at is not None and at <= now:
                return replace(entry, state="waiting")
        return entry

    @operation
    async def get_many(self, ids: Sequence[str], likely: State | None = None) -> list[Entry | None]:
        """`get` for several ids: an entry or None for each, in their order."""
        if not ids:
            return []
        now, scores = await together(
            self._now(),
            together(
                Call(("ZMSCORE", self.keys[part], *ids), list[Any], key=self.keys[part])
                for part in ZSETS.values()
            ),
        )
        rows: dict[State, list[tuple[str, float | None]]] = {}
        for id, *places in zip(ids, *scores, strict=True):
            for state, score in zip(ZSETS, places, strict=True):
                if score is not None:
                    rows.setdefault(state, []).append((id, float(score)))
                    break
        found = await together(self._entries(state, part) for state, part in rows.items())
        known = {entry.id: entry for part in found for entry in part}
        due = {id for id, at in rows.get("delayed", ()) if at is not None and at <= now}
        known |= {id: replace(known[id], state="waiting") for id in due & known.keys()}
        known |= await self._done([id for id in ids if id not in known])
        return [known.get(id) for id in ids]

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)
