"""Changes of entries that another program keeps: moves by identity, and their undo.

A kind that allows any verb has the hooks that the shared scripts `move` and `undo` call, in
``lua/moves.lua`` of its folder (see docs/new-kind.md). From the first change on there are keys of
ours beside the owner's: audit log, callers, history, and the trash (``trash``, ``was``,
``purged``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import ClassVar

from redis.crc import key_slot

from ..engine.operator_changes import MoveStep, UndoStep
from ..engine.registry import find, server_ms
from ..model.entry import Entry, State
from ..model.errors import BadInput, Refused, WrongKind
from ..model.keys import registry_key
from ..model.quoting import bytes_of, stored
from ..model.settings import MAX_BATCH
from ..model.states import EDIT, Verb
from ..redis.operation import C_co, Call, operation, together
from ..redis.parsers import words
from . import undo_search
from .placed_queue import PlacedQueue
from .places import LocatedEntry
from .recognition import kinds_of
from .watched_code import guarded

DAY_MS = 86_400_000
ASKED = 100
"""entries about which one call asks, as many as a step of a change may have in 2 ms"""
JOB_VERBS: Mapping[Verb, tuple[State, ...]] = {
    "replay": ("dead",),
    "requeue": ("delayed",),
    "reschedule": ("delayed",),
    "purge": ("waiting", "delayed", "dead"),
    "hard": ("waiting", "delayed", "dead", "trash"),
    "restore": ("trash",),
}
"""the verbs for jobs that have ids and are held by their owner's workers only"""
PURGED_DONE: Mapping[Verb, tuple[State, ...]] = {
    "purge": (*JOB_VERBS["purge"], "done"),
    "hard": (*JOB_VERBS["purge"], "done", "trash"),
}
RUN_AGAIN: Mapping[Verb, tuple[State, ...]] = {"replay": ("dead", "done")}
"""verbs for done jobs, where the owner can run them again"""


class ForeignChanges(PlacedQueue[C_co]):
    """A queue whose entries operators can change, as `actions` lists it."""

    by_stamp: ClassVar[Collection[str]] = ()
    """the targets of a move for which a stamp is enough, in a kind whose ids are unique:
    `destination`, `shown` and `refused` need no record then"""

    async def _ensure_registered(self) -> None:
        """Write the registry entry before the first key of ours, so that the audit log is found."""
        if self._registered:
            return
        self.refuse_several_slots()
        await self._refuse_other_release()
        await self._refuse_other_program()
        entry, _ = await together(find(self.name, self.prefix), self._refuse_wrong_types())
        if entry is None:
            await self._check_submit_rights()
            mine = self._as_registered(await server_ms())
            key = registry_key(self.prefix)
            await Call(("HSETNX", key, stored(self.name), mine.encoded()), int, key=key)
            entry = await find(self.name, self.prefix) or mine
        known = entry.checked(self.kind, self.schema).at
        if known != self.at:
            raise WrongKind(f"queue {self.name} is known with its keys under {known!r}")
        self._registered = True

    def refuse_several_slots(self) -> None:
        if not self.on_cluster:
            return
        keys = [self.keys["op_"], *self.written_keys()]
        if len({key_slot(bytes_of(key)) for key in keys}) > 1:
            raise Refused(
                f"queue {self.name}: on a cluster its keys must begin with one hash tag, "
                f"like {{app}}:, and these begin with {self.at!r}"
            )

    def written_keys(self) -> list[str]:
        """The owner's keys that changes write to: fixed keys, and one for each declared place."""
        places = chain.from_iterable(self.states.values())
        theirs = [*self.theirs, *(one.key.replace("{q}", self.own_name) for one in places)]
        return [self.at + key for key in theirs]

    async def _refuse_other_program(self) -> None:
        """A registry entry may name any keys. Keys that don't begin as usual are recognised again;
        raises `WrongKind` if they are of another kind."""
        if self.at == self.home_of(self.own_name) or self._is_key(self.at):
            return
        owners = await kinds_of(await self._owners_types(), self.at, self.own_name)
        if owners and self.kind not in owners:
            raise WrongKind(
                f"the registry entry of {self.name} is wrong: what is under {self.at!r} is of kind"
                f" {' and '.join(sorted(owners))}. Remove it with redisq queue rm {self.name}"
            )

    async def _refuse_other_release(self) -> None:
        if (why := await self.only_shown.op()) is not None:
            raise Refused(f"queue {self.name} is only shown: {why}")

    def stamp(self, entry: Entry) -> bytes:
        """Bytes that tell an entry from a later one of its id; `moves_take_out` compares them."""
        return b""

    def selected_stamp(self, entry: Entry, target: str, high_water_ms: int) -> bytes:
        """As for every queue: its `stamp`, unless a step to ``target`` needs more of its record."""
        early = entry.since_ms is None or entry.since_ms <= high_water_ms
        sure = early and target in self.by_stamp and not entry.orphan
        return self.stamp(entry) if sure else b""

    def shown(self, entry: Entry) -> bytes | None:
        """What the trash shows of an entry; None: what `moves_take_out` says, or its element."""
        return None

    def refused(self, seen: LocatedEntry, target: str) -> str:
        """Why an entry may not be changed, in a word; empty: it may."""
        return ""

    @staticmethod
    def _orphan_refused(seen: LocatedEntry, target: str) -> str:
        """An orphan can only be removed, and not while a worker holds it (``busy``)."""
        if target not in ("trash", "gone"):
            return "gone"
        return "busy" if seen.place.kind == "busy" else ""

    def _refused(self, seen: LocatedEntry, target: str) -> str:
        if target in ("trash", "gone") and seen.entry.state in self.orphan_states:
            return "whole"
        return self.refused(seen, target)

    @operation
    async def would_move(
        self,
        ids: Sequence[str],
        source: State,
        target: str,
        orphans: Collection[str] = (),
        stamps: Mapping[str, bytes] | None = None,
    ) -> list[str]:
        """Calls the same hooks as the script `move`. Needs the right to run scripts."""
        later = await self._now() + DAY_MS  # so far ahead that no entry is ``late``
        seen = stamps or {}
        step = MoveStep("-", 0, ids, source, target, later, "-", later, {}, orphans, "", seen)
        rows, found = await guarded(self.kind, self._rows(step)), list[str]()
        for at in range(0, len(rows), ASKED):
            found += await self._call_script(
                "would_move",
                words,
                rows[at : at + ASKED],
                caller="-",
                seq=0,
                **{"from": source, "to": target},
                queue=self.own_name,
            )
        return ["" if word == "moved" else word for word in found]

    def destination(
        self, seen: LocatedEntry, target: str, at_ms: int
    ) -> tuple[bytes | None, str] | None:
        """What `move` writes for an entry that will wait from ``at_ms`` on, or be delayed until
        then: its bytes (None: the entry's own) and the owner's queue (empty: `moves_put_in` finds
        it). None: the entry can't go there."""
        return None, ""

    async def _move(self, step: MoveStep) -> list[str]:
        """As for every queue; ``lease_ms`` is the time of a reschedule. A kind has words of its own
        for entries that may not be changed now; ``deep``: too far inside a list to be removed."""
        if len(step.ids) > MAX_BATCH:
            raise BadInput(f"move: {len(step.ids)} at once, {MAX_BATCH} at most")
        await self._ensure_registered()
        rows = await guarded(self.kind, self._rows(step))
        found: list[str] = await self._call_script(
            "move",
            words,
            rows,
            caller=step.op,
            seq=step.step,
            **{"from": step.source, "to": step.target},
            consumer=step.consumer,
            at=step.lease_ms,
            queue=self.own_name,
            span=step.span,
        )
        return found

    async def _rows(self, step: MoveStep) -> list[tuple[str | bytes, ...]]:
        bare = all(id in step.stamps for id in step.ids)
        located, now = await together(self._located(step.ids, step.source, bare=bare), self._now())
        deep = step.source == "waiting" and await self._has_depths(located, step.ids)
        absent = "deep" if deep else "changed"
        found = [(id, located[id].pop(0) if located[id] else None) for id in step.ids]
        return [
            (stored(id), absent, "", b"", "", b"", b"", "", "", b"")
            if seen is None
            else self._row(stored(id), seen, step, now)
            for id, seen in found
        ]

    def _row(
        self, id: str, seen: LocatedEntry, step: MoveStep, now_ms: int
    ) -> tuple[str | bytes, ...]:
        # By the clocks of the owner's machines: a time in the future proves nothing.
        since_ms = seen.entry.since_ms
        late = since_ms is not None and step.high_water_ms < since_ms <= now_ms
        orphan = seen.entry.orphan
        if orphan is not (seen.entry.id in step.orphans):  # its record came back, or went
            why = "changed"
        else:
            refused = self._orphan_refused if orphan else self._refused
            why = refused(seen, step.target) or ("late" if late else "")
        put: bytes | None = None
        queue = ""
        if not why and step.target in ("waiting", "delayed"):
            at_ms = now_ms if step.target == "waiting" else step.lease_ms
            destination = self.destination(seen, step.target, at_ms)
            why = "" if destination else "invalid"
            put, queue = destination or (None, "")
        at = str(seen.at) if seen.place.kind == "list" else f"{seen.score:.17g}"
        stamp = b"" if step.source == "trash" or why else step.stamps.get(seen.entry.id)
        stamp = self.stamp(seen.entry) if stamp is None else stamp
        shown = self.shown(seen.entry) if step.target == "trash" and not why else None
        return (
            id,
            why,
            seen.place.key,
            seen.member,
            at,
            stamp,
            _given(put),
            queue,
            self.next_end if orphan else "",
            _given(shown),
        )

    async def _undo(self, undo: UndoStep) -> tuple[int, ...]:
        """As for every queue. Lists of any length are searched by pages. Entries too deep inside a
        list to be removed are left for a later undo; the third number counts them."""
        await self._refuse_other_release()
        if undo.target == EDIT:
            return await undo_search.undo_edit(self, undo)
        return await undo_search.undo(self, undo)


def _given(value: bytes | None) -> bytes:
    """A value as scripts expect it: ``=`` and the bytes; empty for None."""
    return b"" if value is None else b"=" + value
