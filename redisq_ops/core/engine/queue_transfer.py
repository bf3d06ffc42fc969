"""A move of entries between two queues: how its steps are completed, and taken back.

What each step does, and why no entry is lost or doubled: `transfer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from ..model.entry import State
from ..model.errors import NotFound, Superseded, Unreachable
from ..model.settings import DAY_MS
from ..redis.operation import together
from . import transfer
from .queue import Queue
from .registry import find
from .transfer import OK, WITHDRAWN, TransferEntry


async def _refused(
    source: Queue[Any], op: str, step: int, cargo: Sequence[TransferEntry], results: dict[str, str]
) -> None:
    refused = [one for one in cargo if results.get(one.id) not in (OK, WITHDRAWN)]
    if refused:
        with suppress(Superseded):  # another process did it, and went on
            await transfer.restore_entries(
                source, f"{op}.back", step, op, step, refused, undone=False
            )


@dataclass(frozen=True, slots=True)
class TransferRevert:
    """The result of `Transfer.revert`."""

    rows: list[TransferEntry]
    """the entries that the step took out"""
    results: dict[str, str]
    """the target's stored result for each id"""
    out: set[str]
    """ids that left the target by this call"""
    back: set[str]
    """ids that are in the source again"""
    stay: set[str]
    """ids that stay in the target, because their copy in the source was deleted"""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A move between two queues. Any process can end a step of it that still holds entries."""

    source: Queue[Any]
    target: Queue[Any] | None
    """None: it was destroyed"""
    into_ms: int
    """when the target was registered"""
    op: str
    state: State
    """the state that the entries left"""
    keep_ms: int
    """for how long the target keeps its results"""

    async def complete(self, step: int, *, again: bool = False) -> dict[str, str]:
        """Put what a step holds into the target, and restore what the target refuses.

        Returns id -> word, as `accept_entries` does, or ``back``. ``again``: the call may have been
        made before. If the target was destroyed, all entries are restored and `NotFound` is raised;
        if it refuses the whole step, all are restored and the error is raised. `Superseded`: the
        move was undone meanwhile.
        """
        source, target, op = self.source, self.target, self.op
        name = target.name if target is not None else ""
        rows, entry = await together(
            transfer.read_step(source, op, step), find(name, source.prefix)
        )
        cargo = [one for one in rows if one.row]
        if target is None or entry is None or entry.created_ms != self.into_ms:
            if cargo:
                with suppress(Superseded):
                    await transfer.restore_entries(
                        source, f"{op}.gone", step, op, step, cargo, undone=False
                    )
            await transfer.end_step(source, op, step, self.state)
            raise NotFound(
                f"queue {name} was removed: what was on its way there is back in {source.name}"
            )
        # If rows are missing, the step was carried out before, and the target has their results.
        again = again or not rows or len(cargo) < len(rows)
        results = await transfer.read_results(target, op, step) if again else {}
        # The source's trash_ms may be longer now than when the move began.
        keep_ms = max([self.keep_ms, *(one.kept_ms + DAY_MS for one in rows)])
        back = {one.id: "back" for one in rows if one.back and one.id not in results}
        try:
            if fresh := [one for one in cargo if one.id not in results]:
                results |= await transfer.accept_entries(target, op, step, fresh, keep_ms)
        except Unreachable:
            raise
        except Exception:  # for example a full server: the entries must not stay in the trash
            results = await transfer.read_results(target, op, step, close=True, keep_ms=keep_ms)
            await _refused(source, op, step, cargo, results)
            await transfer.end_step(source, op, step, self.state)
            raise
        await _refused(source, op, step, cargo, results)
        if {"cancelled", WITHDRAWN} & set(results.values()):
            raise Superseded(f"{op} was taken back meanwhile")
        await transfer.end_step(source, op, step, self.state)
        return results | back

    async def revert(self, step: int, by: str, seq: int) -> TransferRevert:
        """Undo one step: entries that nobody touched in the target go back to the source.

        If the target was destroyed, all go back. ``by``, ``seq``: the undo and its step.
        """
        source, target, op = self.source, self.target, self.op
        results: dict[str, str] = {}
        if target is not None:  # from now on no more entries are accepted
            results = await transfer.read_results(
                target, op, step, close=True, keep_ms=self.keep_ms
            )
        rows = await transfer.read_step(source, op, step, brief=True)
        here = [one for one in rows if one.row]
        landed = [one.id for one in here if results.get(one.id) in (OK, WITHDRAWN)]
        # Entries that an interrupted undo moved to the target's trash already.
        away = {one.id for one in rows if not one.row and results.get(one.id) == WITHDRAWN}

        async def moved(
            nth: int, ids: Iterable[str], to: Literal["trash", "gone", "back"]
        ) -> set[str]:
            names = sorted(ids)
            if target is None or not names:
                return set()
            number = 3 * seq + nth
            return await transfer.revert_entries(
                target, by, number, op, step, names, self.state, to
            )

        out = await moved(0, landed, "trash")
        if target is not None and len(out) < len(landed):  # another undo may have moved the others
            results = await transfer.read_results(target, op, step)
        coming = [one for one in here if one.id in out or results.get(one.id) != OK]
        back = await transfer.restore_entries(source, by, seq, op, step, coming, undone=True)
        away |= out - back
        # Also those that another undo moved and hasn't restored yet: it is about to.
        gone = {one for one in back if one in out or results.get(one) == WITHDRAWN}
        if away:
            again = await transfer.read_step(source, op, step, brief=True)
            gone |= away & {one.id for one in again if one.back}
        await moved(1, gone, "gone")
        # Copies of the others were deleted in the source: they stay in the target. (Entries that
        # another undo restored aren't in the target's trash any more.)
        stay = await moved(2, away - gone, "back")
        await transfer.end_step(source, op, step, self.state)
        return TransferRevert(rows, results, out, back, stay)
