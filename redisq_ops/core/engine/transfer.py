"""Entries go elsewhere: to another queue or shard, or from a delay set or a file into a queue.

No script reaches both sides, so each step is a call of its own, which anybody may send again::

    in its state --hold--> held in the source --accept--> in its state in the target --drop--> done
         ^                      |                               |
         +-------restore--------+------------revert-------------+

hold     the entry leaves its state; where it is held no worker takes it
accept   the target stores it with a record that identifies a repeated call: never twice
restore  the target refused it, or the move is undone: it is as it was
drop     the source forgets it, or keeps a copy for undo
revert   an undo: to the target's trash, restored in the source, out of that trash

An entry is never where workers of both sides can take it. ``docs/explanation/transfers.md`` has the
table: what each step is for moves between queues, changes of shards, hand-overs and imports.
`queue_transfer` is a move; `transfer_recovery` finishes those that were interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from ..model import record
from ..model.batches import batches
from ..model.entry import Entry, State
from ..model.errors import Refused
from ..model.settings import BATCH
from ..redis.operation import Call, Description, together
from ..redis.parsers import words
from ..sharding.in_transit import mark_of
from ..sharding.shard_map import home
from ..sharding.sharded_queue import ShardedQueue
from .optional_features import HasClients, HasRequests
from .queue import Queue

BYTES = 256 * 1024
"""payload bytes in one call, unless a single entry has more"""
RESENT_MS = 3_600_000
"""for how long an import may send a step again"""
OK = "ok"
WITHDRAWN = "withdrawn"
_WIDTH = 7
Origin = Literal["queue", "shard", "delay", "file"]
"""where an entry comes from, see ``transfer_accept.lua``"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TransferEntry:
    """An entry that a step took out of the source, as stored by all queues of its kind."""

    shard: int
    """the number of the source's shard that has it"""
    id: str
    row: tuple[bytes, ...] = ()
    """state, score, record, payload, error, what runs next; empty: it isn't in the trash any more,
    or another operation put it there"""
    back: bool = False
    """it is restored already"""
    kept_ms: int = 0
    """for how long it can be restored"""
    mark: str = ""
    """what its target recognises it by, if no operation keeps its result; in an import: the words
    for the history"""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return sum(map(len, self.row))


async def read_step(
    queue: Queue[Any], op: str, step: int, *, brief: bool = False
) -> list[TransferEntry]:
    """The entries that a step took out; with ``brief`` without payloads and errors."""
    found: list[TransferEntry] = []
    for k, shard in enumerate(queue.shard_queues):
        start = 0
        while True:
            start, kept_ms, rows = await shard._call_script(
                "transfer_read", _rows, op=op, step=step, start=start, brief=int(brief)
            )
            found += [
                TransferEntry(k, id, row if row[0] else (), not row[0] and bool(row[1]), kept_ms)
                for id, row in rows
            ]
            if not start:
                break
    return found


def _rows(reply: list[bytes]) -> tuple[int, int, list[tuple[str, tuple[bytes, ...]]]]:
    rows = _split(reply[2:], _WIDTH)
    return int(reply[0]), int(reply[1]), [(id.decode(), tuple(rest)) for id, *rest in rows]


def _split(reply: list[bytes], width: int) -> Iterator[list[bytes]]:
    return (reply[i : i + width] for i in range(0, len(reply), width))


def hold_rows(
    shard: Queue[Any], ids: Sequence[str], layout: int
) -> Call[list[tuple[str, TransferEntry]]]:
    """Hold entries for their new shards (``transfer_hold.lua``).

    Returns (held | stays | gone, the entry) for as many of the ids as fit a call, in their order.
    ``layout``: the caller's version of the number of shards.
    """

    def read(reply: list[bytes]) -> list[tuple[str, TransferEntry]]:
        found = []
        for id, (word, nth, *row) in zip(ids, _split(reply, 8), strict=False):
            mark = mark_of(id, shard.shard, nth.decode())
            found.append((word.decode(), TransferEntry(shard.shard, id, tuple(row), mark=mark)))
        return found

    return shard._call_script("transfer_hold", read, [(id,) for id in ids], layout=layout)


def drop_rows(shard: Queue[Any], cargo: Sequence[TransferEntry]) -> Call[int]:
    """Drop held entries that their new shards have accepted; returns how many."""
    rows = [(one.id, one.mark.rpartition("-")[2]) for one in cargo]
    return shard._call_script("transfer_drop", int, rows)


def accept_rows(
    shard: Queue[Any],
    origin: Origin,
    cargo: Sequence[TransferEntry],
    *,
    op: str = "",
    step: int = 0,
    keep_ms: int = 0,
) -> Description[list[str]]:
    """Accept entries in one shard, each once: one word per entry (``transfer_accept.lua``)."""
    rows: list[tuple[bytes | str, ...]] = [(one.id, one.mark, *one.row) for one in cargo]
    return shard._call_registered(
        "transfer_accept",
        words,
        rows,
        origin=origin,
        op=op,
        step=step,
        keep_ms=keep_ms,
        layout=shard.layout,
    )


async def accept_entries(
    queue: Queue[Any],
    op: str,
    step: int,
    cargo: Sequence[TransferEntry],
    keep_ms: int,
    origin: Origin = "queue",
) -> dict[str, str]:
    """Put entries into the target: id -> ok | same | exists | full | closed | cancelled.

    The first result of an entry is stored and returned again for ``keep_ms``: as long as the source
    keeps what `restore_entries` needs. Without ``op`` an entry's mark is kept instead, for the
    setting ``keep_ms``, and answers ``same``. ``full`` and ``closed`` are results of moves; others
    raise `QueueFull` or `QueueClosed`, and a shard that does accepts nothing of the call.
    """
    if isinstance(queue, ShardedQueue):
        await queue._refresh()
    await queue._ensure_registered()
    if origin != "file" or not isinstance(queue, HasClients):  # (no entry of these changes shards)
        refuse_changing(queue)
    shards = list(queue.shard_queues)
    # Before the number of shards changed another shard may have stored a result.
    results = await read_results(queue, op, step, former=False) if op and len(shards) > 1 else {}
    left = [one for one in cargo if one.row and one.id not in results]
    shard_of, held_elsewhere = await _target_shards(queue, op, left)
    for k, shard in enumerate(shards):
        here = (one for one in left if shard_of[one.id] == k)
        for batch in batches(here, BATCH, BYTES, lambda one: one.size):
            rows = [_arriving(queue, op, one, held_elsewhere) for one in batch]
            replies = await accept_rows(shard, origin, rows, op=op, step=step, keep_ms=keep_ms)
            if "elsewhere" in replies:
                raise Refused(f"the shards of queue {queue.name} are changing; try again")
            results |= zip((one.id for one in batch), replies, strict=True)
    return results


def _arriving(
    queue: Queue[Any], op: str, one: TransferEntry, held_elsewhere: Collection[str]
) -> TransferEntry:
    state, *rest, following = one.row
    into = queue.transferred_id(op, one.id)
    if into != one.id:
        following += b" " + into.encode()
    state = b"-" if one.id in held_elsewhere else state
    return replace(one, row=(state, *rest, following))


async def import_entries(
    queue: Queue[Any], op: str, step: int, entries: Sequence[Entry]
) -> dict[str, str]:
    """Add entries of an export, each in its state, as one step of operation ``op``.

    Returns id -> ``ok``, or ``exists``: the id is taken, and nothing was changed. The same step
    sent again has the same results. Where the queue is full or closed, those of the entries that
    were sent before; if there are none, it raises `QueueFull` or `QueueClosed`.
    """
    cargo = [_of_file(queue, entry) for entry in entries]
    try:
        return await accept_entries(queue, op, step, cargo, RESENT_MS, "file")
    except Refused:
        results = await read_results(queue, op, step, former=False)
        known = {entry.id: results[entry.id] for entry in entries if entry.id in results}
        if not known:
            raise
        return known


def _of_file(queue: Queue[Any], entry: Entry) -> TransferEntry:
    at = "" if entry.at_ms is None else str(entry.at_ms)
    payload, detail = entry.payload or b"", at
    if isinstance(queue, HasClients):
        detail = entry.client or ""
        payload = b" ".join((detail.encode(), payload))
    keeps = entry.attempts or entry.state == "dead"
    error = entry.error.encoded() if entry.error else b""
    row = (entry.state, at, record.line(entry) if keeps else "", payload, error, b"")
    mark = f"{entry.id}|{detail}" if detail else entry.id
    return TransferEntry(
        0, entry.id, tuple(w.encode() if isinstance(w, str) else w for w in row), mark=mark
    )


def refuse_changing(queue: Queue[Any]) -> None:
    """Raise `Refused` while the number of shards changes: entries are moving already."""
    if isinstance(queue, ShardedQueue) and queue.old_shards:
        raise Refused(
            f"queue {queue.name} is changing its shards: try again when that is done "
            f"(redisq explain {queue.name} says what it waits for)"
        )


async def _target_shards(
    queue: Queue[Any], op: str, cargo: Sequence[TransferEntry]
) -> tuple[dict[str, int], set[str]]:
    """The shard that accepts each entry, and the ids that another shard has."""
    shards = list(queue.shard_queues)
    n = len(shards)
    if not isinstance(queue, ShardedQueue) or n == 1 or not cargo:
        return {one.id: 0 for one in cargo}, set()
    if isinstance(queue, HasRequests):
        # The shard that has its new request from an earlier step, or will have it.
        into = {one.id: queue.transferred_id(op, one.id) for one in cargo}
        places = await queue._shards_of(sorted(set(into.values())))
        return {id: min(places[name]) for id, name in into.items()}, set()
    shard_of = {one.id: home(one.id, n) for one in cargo}
    if isinstance(queue, HasClients):  # the client's name is in front of the payload
        shard_of = {one.id: home(one.row[3].partition(b" ")[0].decode(), n) for one in cargo}
    places = await queue._shards_of([one.id for one in cargo])
    asked = [
        (one.id, shards[k].keys["body"])
        for one in cargo
        for k in places[one.id] - {shard_of[one.id]}
    ]
    found = await together(Call(("HEXISTS", key, id), bool, key=key) for id, key in asked)
    return shard_of, {id for (id, _), there in zip(asked, found, strict=True) if there}


async def read_results(
    queue: Queue[Any],
    op: str,
    step: int,
    *,
    close: bool = False,
    keep_ms: int = 0,
    former: bool = True,
) -> dict[str, str]:
    """The stored results of a step: id -> word.

    ``close``: from now on no more entries of the step are accepted. ``former``: also read shards
    that were given up since, up to 255 more reads.
    """

    def read(reply: list[bytes]) -> dict[str, str]:
        results = words(reply)
        return dict(zip(results[::2], results[1::2], strict=True))

    found, given_up = await together(
        together(
            shard._call_script(
                "transfer_results", read, op=op, step=step, close=int(close), keep_ms=keep_ms
            )
            for shard in queue.shard_queues
        ),
        _stored_results([keys["land_"] for keys in queue.former_shard_keys if former], op, step),
    )
    elsewhere = {id: word for id, (word, _) in given_up.items() if id != "*"}
    return elsewhere | {id: word for part in found for id, word in part.items()}


async def accepted_as(queue: Queue[Any], op: str, step: int) -> dict[str, tuple[str, str]]:
    """The stored results of a step: id -> (word, the entry's id in the target). Reads only."""
    return await _stored_results(
        [keys["land_"] for keys in (*queue.former_shard_keys, *queue.shard_keys)], op, step
    )


async def _stored_results(places: Sequence[str], op: str, step: int) -> dict[str, tuple[str, str]]:
    def read(reply: dict[bytes, bytes]) -> dict[str, tuple[str, str]]:
        results = {id.decode(): mark.decode().split(" ") for id, mark in reply.items()}
        return {id: (mark[0], mark[1] if mark[1:] else id) for id, mark in results.items()}

    keys = [f"{place}{op}:{step}" for place in places]  # of one step: 500 entries at most
    found = await together(Call(("HGETALL", key), read, key=key) for key in keys)
    return {id: mark for part in found for id, mark in part.items()}


async def revert_entries(
    queue: Queue[Any],
    by: str,
    seq: int,
    op: str,
    step: int,
    ids: Sequence[str],
    state: State,
    to: Literal["trash", "gone", "back"],
) -> set[str]:
    """Move what a step put into ``state``, unless it was touched since; returns the ids it moved.

    ``to``: ``trash``; from there ``gone`` (deleted) or ``back``. ``by``, ``seq``: the operation and
    step that do it.
    """
    moves = {"from": state, "to": to}
    return await _moved_ids(
        [(shard, ids) for shard in queue.shard_queues],
        lambda shard, some: shard._call_script(
            "transfer_revert",
            words,
            [(id,) for id in some],
            caller=by,
            seq=seq,
            op=op,
            step=step,
            **moves,
        ),
    )


async def restore_entries(
    queue: Queue[Any],
    by: str,
    seq: int,
    op: str,
    step: int,
    cargo: Sequence[TransferEntry],
    *,
    undone: bool,
) -> set[str]:
    """Restore entries that a step took out and nobody changed since; returns their ids."""
    shards = list(queue.shard_queues)
    return await _moved_ids(
        [(shard, [one.id for one in cargo if one.shard == k]) for k, shard in enumerate(shards)],
        lambda shard, some: shard._call_script(
            "transfer_restore",
            words,
            [(id,) for id in some],
            caller=by,
            seq=seq,
            op=op,
            step=step,
            undone=int(undone),
        ),
    )


async def _moved_ids(
    places: Sequence[tuple[Queue[Any], Sequence[str]]],
    ask: Callable[[Queue[Any], Sequence[str]], Description[list[str]]],
) -> set[str]:
    """Run a step in several shards; returns the ids that were moved."""
    asked = [(shard, some) for shard, some in places if some]
    found = await together(ask(shard, some) for shard, some in asked)
    return {
        id
        for (_, some), results in zip(asked, found, strict=True)
        for id, word in zip(some, results, strict=False)
        if word == "moved"
    }


async def end_step(queue: Queue[Any], op: str, step: int, state: State) -> None:
    """End a step, in the order of steps: it no longer keeps requests from being done."""
    if isinstance(queue, HasRequests):
        await together(
            shard._call_script("transfer_step_ended", int, op=op, step=step, state=state)
            for shard in queue.shard_queues
        )


async def drop_undo_list(queue: Queue[Any], op: str, step: int) -> None:
    """Delete the list of a step's entries that can be restored, once the step was undone."""
    keys = [f"{shard.keys['undo_']}{op}:{step}" for shard in queue.shard_queues]
    await together(Call(("UNLINK", key), int, key=key) for key in keys)


async def drop_undo_entries(
    queue: Queue[Any], op: str, step: int, cargo: Sequence[TransferEntry]
) -> None:
    """Remove entries from the list of a step's entries that can be restored."""
    shards = list(queue.shard_queues)

    def call(one: TransferEntry) -> Call[int]:
        key = f"{shards[one.shard].keys['undo_']}{op}:{step}"
        line = b" ".join((one.id.encode(), *one.row[:3]))
        return Call(("LREM", key, 1, line), int, key=key)

    await together(call(one) for one in cargo)
