"""The periodic entries of a delay set: their schedule, their runs, and what operators change.

A definition is in the hash ``periodic``, the time of the next run in ``periodic_at``. A paused
entry has the score inf there: no scheduler, also of an older release, finds it due.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha1
from math import inf

from ...engine.operator_changes import ChangeUndo
from ...engine.optional_features import HasPeriodicEntries
from ...engine.queue import Queue
from ...model.errors import CORRUPT, BadInput, Unreadable
from ...model.settings import BATCH, MAX_PAYLOAD
from ...model.validation import checked_size, listed
from ...redis.operation import C_co, Call, Description, attempt, operation, together
from ...redis.parsers import moment, number, optional, scored, words
from ...redis.whole_keys import fields
from . import periodic
from .periodic import Periodic, ScheduledPeriodic

UNDO = "periodic"
"""the inverse of a change of a periodic entry: its name, the operation and the step"""


class PeriodicEntries(HasPeriodicEntries[C_co]):
    """Entries that run on a schedule, each run an entry of its own."""

    @operation
    async def set_periodic(self, spec: Periodic) -> str:
        """Add or change a periodic entry: ok | changed | same (its next run stays as it is).

        A worker of the queue schedules the runs, up to a minute ahead; these stay when the entry is
        changed. One that an operator paused stays paused. Raises `BadInput` for a bad cron
        expression, zone or name.
        """
        checked_spec(spec)
        await self._ensure_registered()
        key = self.keys["periodic_run"]
        now, run = await together(self._now(), Call(("HGET", key, spec.name), _maybe_text, key=key))
        at = periodic.following(spec, now, run)
        return await self._set_periodic(spec.name, spec.encoded(), at)

    @operation
    async def remove_periodic(self, name: str) -> bool:
        """Remove a periodic entry; False: there was none. Runs that are scheduled already stay."""
        return await self._set_periodic(name, b"", 0) == "gone"

    @operation
    async def declare_periodics(self, specs: Sequence[Periodic], ending: str) -> None:
        """Make the periodic entries whose names end with ``ending`` these: others are removed.

        For code that declares its schedules and writes them when it starts. Raises `BadInput`
        before anything is written.
        """
        given = [checked_spec(spec) for spec in listed(specs, "specs")]
        if not isinstance(ending, str) or not ending:
            raise BadInput(f"ending must be a text (str), not {ending!r:.60}")
        if await self.exists.op():
            there = {periodic.name for periodic in await self.periodics.op()}
            for name in there - {spec.name for spec in given}:
                if name.endswith(ending):
                    await self.remove_periodic.op(name)
        for spec in given:
            await self.set_periodic.op(spec)

    def _set_periodic(self, name: str, spec: bytes, at: int) -> Description[str]:
        return self._call_registered("set_periodic", bytes.decode, name=name, spec=spec, at=at)

    @operation
    async def periodics(self) -> list[ScheduledPeriodic]:
        """All periodic entries, the one that runs next first, paused and corrupt ones last.

        A corrupt one has a ``problem`` and does not hide the others.
        """
        times, (lines, runs) = await together(
            scored(self.keys["periodic_at"], "0", "-1"),
            together([fields(self.keys["periodic"]), fields(self.keys["periodic_run"])]),
        )
        scores = dict(times)
        found = [
            self._scheduled(name, lines.get(name), scores.get(name), runs.get(name))
            for name in dict.fromkeys([*scores, *lines])
        ]
        return sorted(found, key=lambda one: inf if one.next_ms is None else one.next_ms)

    @operation
    async def get_periodic(self, name: str) -> ScheduledPeriodic | None:
        """One periodic entry; None: there is none of that name."""
        keys = self.keys
        score, (line, run) = await together(
            Call(("ZSCORE", keys["periodic_at"], name), number, key=keys["periodic_at"]),
            together(
                Call(("HGET", keys[part], name), optional, key=keys[part])
                for part in ("periodic", "periodic_run")
            ),
        )
        if line is None and score is None:
            return None
        return self._scheduled(name, line, score, run)

    @operation
    async def periodic_counts(self, now_ms: int) -> tuple[int, int]:
        """How many periodic entries there are, and how many of them missed a run."""
        key = self.keys["periodic_at"]
        total, overdue = await together(
            Call(command, int, key=key)
            for command in (("ZCARD", key), ("ZCOUNT", key, "-inf", f"({now_ms}"))
        )
        return total, overdue

    def _scheduled(
        self, name: str, line: bytes | None, score: float | None, run: bytes | None
    ) -> ScheduledPeriodic:
        spec, problem = None, f"periodic entry {name!r} has no definition"
        if line is not None:
            try:
                spec, problem = self._periodic(name, line), ""
            except (BadInput, Unreadable) as error:
                problem = str(error)
        at = None if score is None or score < 0 else moment(score)
        if not problem and at is None and score != inf:
            problem = f"key {self.keys['periodic_at']}: the time of {name!r} is corrupt or missing"
        return ScheduledPeriodic(
            name,
            spec,
            at,
            _maybe_text(run),
            paused=score == inf,
            problem=problem or None,
            digest="" if line is None else sha1(line).hexdigest(),
        )

    def _periodic(self, name: str, line: bytes) -> Periodic:
        try:
            return Periodic.decoded(line).checked()
        except BadInput as error:
            raise BadInput(f"periodic entry {name!r}: {error}") from error
        except CORRUPT as error:
            raise Unreadable(f"key {self.keys['periodic']}: entry {name!r} is corrupt") from error

    # --- runs ----------------------------------------------------------------------------------

    @operation
    async def tick(self, max: int = BATCH) -> int:
        """Schedule the runs of periodic entries that are due within a minute or were missed.

        Workers call it from `upkeep`; each run is scheduled once, however many workers there are.
        Looks at ``max`` periodic entries; returns how many had runs to schedule. Once the others
        have run, raises `Unreadable` for a corrupt one, `BadInput` for one that can't run here.
        """
        at = self.keys["periodic_at"]
        soon, now = await together(scored(at, "0", str(max - 1)), self._now())
        names = {name: slot for name, slot in soon if slot <= now + periodic.AHEAD_MS}
        if not names:
            return 0
        key = self.keys["periodic"]
        specs = await Call(("HMGET", key, *names), list[bytes | None], key=key)
        fired = await together(
            attempt(self._fire(name, spec, slot, now))
            for (name, slot), spec in zip(names.items(), specs, strict=True)
            if spec is not None
        )
        # A corrupt entry doesn't keep the others from running: the next call reports it, once these
        # have run.
        errors = [word for word in fired if isinstance(word, Exception)]
        if errors and "fired" not in fired:
            raise errors[0]
        return fired.count("fired")

    async def _fire(self, name: str, line: bytes, score: float, now: int) -> str:
        spec, slot = self._periodic(name, line), moment(score)
        if slot is None or slot < 0:
            raise Unreadable(f"key {self.keys['periodic_at']}: the time of {name!r} is corrupt")
        runs, following = periodic.due(spec, slot, now)
        return await self._call_script(
            "fire_periodic",
            bytes.decode,
            [(periodic.run_id(name, run), run) for run in runs],
            name=name,
            spec=line,
            at=slot,
            following=following,
            overlap=int(spec.overlap),
        )

    # --- what operators change -----------------------------------------------------------------

    @operation
    async def change_periodic(
        self,
        op: str,
        step: int,
        name: str,
        *,
        was: str,
        spec: bytes | None = None,
        at_ms: int | None = None,
        run: str | None = None,
        paused: bool | None = None,
    ) -> str:
        return await self._call_script(
            "change_periodic",
            bytes.decode,
            caller=op,
            seq=step,
            name=name,
            was=was,
            spec="=" if spec is None else spec,
            at="" if at_ms is None else at_ms,
            run=run or "",
            paused="" if paused is None else int(paused),
        )

    @operation
    def run_periodic(
        self, op: str, step: int, name: str, *, was: str, id: str, overlap: bool
    ) -> Call[list[str]]:
        """Run a periodic entry once, now, as the entry ``id``: one step of an operation.

        Returns ok | changed (it has another definition than the one with digest ``was``) | held
        (without ``overlap``: the run before has not ended), and the id of the run before.
        """
        return self._call_script(
            "run_periodic",
            words,
            caller=op,
            seq=step,
            name=name,
            was=was,
            id=id,
            overlap=int(overlap),
        )

    async def _undo_change(self, undo: ChangeUndo) -> int:
        if undo.verb != UNDO:
            return await Queue._undo_change(self, undo)
        name, changed_by, step = undo.args
        key = f"{self.keys['undo_']}{changed_by}:{step}"
        word = "raced"
        while word == "raced":
            kept, now, entry = await together(
                Call(("LRANGE", key, 0, 2), list[bytes], key=key),
                self._now(),
                self.get_periodic.op(name),
            )
            run = None if entry is None else entry.run
            at = _next_time(kept[1], kept[2], run, now) if len(kept) == 3 else 0
            word = await self._call_script(
                "undo_periodic",
                bytes.decode,
                caller=undo.op,
                seq=undo.seq,
                op=changed_by,
                step=step,
                at=at,
                run=run or "",
            )
        if word == "changed":
            undo.left([name])
        return int(word == "ok")


def _next_time(line: bytes, time: bytes, run: str | None, now: int) -> int:
    """The next time of an entry that an undo puts back: the first from now on. Runs of the time in
    between don't count as missed."""
    try:
        return periodic.following(Periodic.decoded(line), now - 1, run)
    except (BadInput, *CORRUPT):  # it is put back as it was
        try:
            return max(0, moment(float(time or 0)) or 0)
        except ValueError as error:
            raise Unreadable("the undo record of a periodic entry has no time") from error


def _maybe_text(reply: bytes | None) -> str | None:
    return None if reply is None else reply.decode(errors="backslashreplace")


def checked_spec(spec: Periodic) -> Periodic:
    """Return ``spec``; raises `BadInput`, or `TooLarge` for its payload."""
    if not isinstance(spec, Periodic):
        raise BadInput(f"spec must be a Periodic, not {type(spec).__name__}")
    spec.checked()
    checked_size(spec.name, spec.payload, MAX_PAYLOAD)
    return spec
