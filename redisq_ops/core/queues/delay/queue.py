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

from ...engine.queue import Queue
from ...engine.timed_queue import TimedQueue
from ...model.clock import Duration, Moment, checked_moment, checked_ms
from ...model.entry import Delivery, Entry, EntryOutcome, State, task_of
from ...model.errors import BadInput, Refused
from ...model.settings import BATCH, LEASE_MS, MAX_PAYLOAD
from ...model.states import ZSETS
from ...model.validation import checked_pairs, pairs
from ...redis.operation import C_co, Call, Description, both, operation, together
from ...redis.parsers import moment, number, row_words
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


class DelaySet(PeriodicEntries[C_co], TimedQueue[C_co]):
    """Entries that are delivered at or after their ready time, in the order of these times.

    Each entry has an id and a payload. Periodic entries run on a cron schedule. Delivery is at
    least once; workers take due entries, also without any call at the ready time itself.

        delay = DelaySet(connect("redis://127.0.0.1:6379/0"), "later")
        delay.schedule([("reminder-7", b"hello")], after_ms=60_000)
        delay.set_periodic(Periodic("report", "0 6 * * *", b"daily", zone="Europe/Berlin"))
    """

    kind: ClassVar[str] = "delay"
    keeps_results: ClassVar[bool] = True
    package: ClassVar[str] = "queues.delay"
    key_types: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("body", "next", "result", "transit", "periodic", "periodic_run"), "hash"),
        **dict.fromkeys(("seen", "result_at", "periodic_at"), "zset"),
    }
    importable_states: ClassVar[frozenset[State]] = frozenset({"waiting", "delayed", "dead"})

    @operation
    async def schedule(
        self,
        entries: Iterable[tuple[str, bytes]],
        *,
        at_ms: Moment | None = None,
        after_ms: Duration | None = None,
        mode: Literal["new", "move"] = "new",
        max_payload: int = MAX_PAYLOAD,
    ) -> list[Scheduled]:
        """Schedule (id, payload) pairs for a time: up to 500, in one atomic step.

        ``at_ms``: ms since 1970 (UTC) or an aware datetime; ``after_ms``: ms or a timedelta from
        now; with neither they are due now. Returns a `Scheduled` for each, in their order.

        ``mode="new"`` never changes an entry. An id that is there answers ``same`` for the same
        payload and ready time (where it has one: it is delayed), or ``trash`` if it was purged and
        can be restored, else ``exists``. ``after_ms`` is another time at each call, so repeat a
        call with ``at_ms``. ``mode="move"`` reschedules: ``moved``, and for a pending entry
        ``again``: it runs again after its ack. Raises `BadInput` before anything is sent (both
        times, seconds instead of ms, a naive datetime), `TooLarge`, `QueueFull`, `QueueClosed`.

            delay.schedule([("reminder-7", b"hello")], after_ms=timedelta(minutes=5))
        """
        rows = pairs(entries, "entries")
        checked_pairs(rows, "entry", max_payload)
        at = _at(at_ms, after_ms)
        if not rows:
            return []
        await self._ensure_registered()
        replies = await self._schedule(rows, at, mode)
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
        lease_ms: Duration = LEASE_MS,
    ) -> HandoverResult:
        """Hand up to ``n`` due entries on to ``target``: one round.

        ``target``: a request queue, where an entry becomes a request of one sub-request; a delay
        set, where it is due at once; or a callable that gets each `Delivery`. A queue has to be in
        the same deployment and gets each id once within 24 hours (setting ``keep_ms``); a callable
        is called at least once. Returns a `HandoverResult`.
        """
        if not isinstance(target, Queue):
            return await handover.to_callable(self, target, n, consumer, lease_ms)
        if target.keys.base == self.keys.base:
            raise BadInput(f"queue {self.name} can't be handed over to itself")
        await self._ensure_registered()
        await target._ensure_registered()
        if isinstance(target, DelaySet) and handover.one_script(self, target):
            return await handover.at_once(self, target, n)
        return await handover.by_transport(self, target, n, consumer, lease_ms)

    # --- looking -------------------------------------------------------------------------------

    @operation
    async def get(self, id: str) -> Entry | None:
        entry = await Queue.get(self, id)
        if entry is not None and entry.state == "delayed":
            key = self.keys["delay"]
            now, at = await both(self._now(), Call(("ZSCORE", key, id), number, key=key))
            if at is not None and at <= now:
                return replace(entry, state="waiting")
        return entry

    @operation
    async def get_many(self, ids: Sequence[str], likely: State | None = None) -> list[Entry | None]:
        """`get` for several ids: an entry or None for each, in their order."""
        if not ids:
            return []
        now, scores = await both(
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

    async def _get_waiting(self, id: str) -> Entry | None:
        return (await self._done([id])).get(id)

    async def _done(self, ids: Sequence[str]) -> dict[str, Entry]:
        """The entries among these of which only a result is kept."""
        if not ids:
            return {}
        key = self.keys["result_at"]
        ends, times = await both(self._ends(ids), Call(("ZMSCORE", key, *ids), list[Any], key=key))
        return {
            id: Entry(id, "done", since_ms=moment(at), record=result, task=task_of(id))
            for id, (here, result), at in zip(ids, ends, times, strict=True)
            # What is here and in no state is on its way to another shard.
            if not here and result is not None
        }

    @operation
    async def outcomes(self, ids: Sequence[str]) -> list[EntryOutcome]:
        """What became of entries: an `EntryOutcome` for each, in their order; up to 500.

        A result is kept for 24 hours (setting ``keep_ms``). `wait` waits for the ends of entries.

            for outcome in delay.outcomes(["reminder-7", "reminder-8"]):
                print(outcome.id, outcome.state, outcome.result or outcome.error)
        """
        found = await self.get_many.op(ids)
        gone = [id for id, entry in zip(ids, found, strict=True) if entry is None]
        # Read later than the states: what has neither a state nor a payload has ended by now.
        ends = dict(zip(gone, await self._ends(gone), strict=True))
        outcomes = []
        for id, entry in zip(ids, found, strict=True):
            if entry is not None:
                result = entry.record if entry.state == "done" else None
                outcomes.append(EntryOutcome(id, entry.state, result, entry.reason, entry.error))
                continue
            here, result = ends[id]
            state: State | None = "pending" if here else None if result is None else "done"
            outcomes.append(EntryOutcome(id, state, result if state == "done" else None))
        return outcomes

    async def _ends(self, ids: Sequence[str]) -> list[tuple[bool, bytes | None]]:
        """For each entry whether it is here, in whatever state, and the result that is kept."""
        if not ids:
            return []
        body, key = self.keys["body"], self.keys["result"]
        here, results = await both(
            together(Call(("HEXISTS", body, id), bool, key=body) for id in ids),
            Call(("HMGET", key, *ids), list[bytes | None], key=key),
        )
        return list(zip(here, results, strict=True))

    @property
    def _end_channels(self) -> str:
        return self.keys["result"] + ":"

    def _awaited(self, ids: Sequence[str]) -> Description[list[EntryOutcome]]:
        return self.outcomes.op(ids)

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)


def _at(at_ms: Moment | None, after_ms: Duration | None) -> str:
    """A ready time as the script reads it: ms, or +ms from its now."""
    if at_ms is None:
        return f"+{checked_ms(0 if after_ms is None else after_ms, 'after_ms')}"
    if after_ms is not None:
        raise BadInput("at_ms or after_ms: give one of them")
    return str(checked_moment(at_ms, "at_ms"))
