"""Entries on their way from one queue to another, which may be in different slots.

No script reaches both queues, so there are steps, and each may be sent again or done by somebody
else. `Queue.move` puts entries into the source's trash. `land` takes them in at the target: once,
for what it says of an entry in a step of an operation is kept there and said again. What it refuses
`put_back` makes as it was. The way back is `withdraw` (into the target's trash), `put_back`,
`withdraw` from there for good. At no moment is an entry where two can take it, and where it is in
neither queue's work it is in a trash, under the name of the move or of what takes it back: nobody
else brings it to life there, and nothing takes its place before that has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ..model.entry import State
from ..model.errors import NotFound, Refused, Superseded, Unreachable
from ..model.settings import BATCH, DAY_MS
from ..redis.operation import Call, Description, both, together
from ..redis.parsers import words
from ..sharding.sharded_queue import ShardedQueue, home
from .optional_features import HasClients, HasRequests
from .queue import Queue
from .registry import find

BYTES = 256 * 1024
"""of payloads in one call, unless an entry has more by itself"""
OK = "ok"
WITHDRAWN = "withdrawn"
_WIDTH = 7
_WORDS = {OK, WITHDRAWN, "exists", "full", "closed", "cancelled", "elsewhere"}
_COURSE = ("ended", "landed", "tried", "undoing", "steps")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TransferBatch:
    """An entry that a step took out, as the layout has it; the same in all queues of its kind."""

    leaf: int
    """which of the source's shards has it"""
    id: str
    row: tuple[bytes, ...] = ()
    """state, score, record, payload, error, what follows; empty: it isn't in the trash any more, or
    not by that operation"""
    back: bool = False
    """it was put back"""
    kept_ms: int = 0
    """for how long it can be"""

    @property
    def size(self) -> int:
        return sum(map(len, self.row))


async def taken_out(
    queue: Queue[Any], op: str, step: int, *, brief: bool = False
) -> list[TransferBatch]:
    """What a step took out; with ``brief`` without payloads and errors."""
    found: list[TransferBatch] = []
    for k, leaf in enumerate(queue.shard_queues):
        start = 0
        while True:
            start, kept_ms, rows = await leaf._script("transfer_read").call(
                leaf.keys, leaf.clock, _rows, op=op, step=step, start=start, brief=int(brief)
            )
            found += [
                TransferBatch(k, id, row if row[0] else (), not row[0] and bool(row[1]), kept_ms)
                for id, row in rows
            ]
            if not start:
                break
    return found


def _rows(reply: list[bytes]) -> tuple[int, int, list[tuple[str, tuple[bytes, ...]]]]:
    rows = (reply[i : i + _WIDTH] for i in range(2, len(reply), _WIDTH))
    return int(reply[0]), int(reply[1]), [(id.decode(), tuple(rest)) for id, *rest in rows]


async def land(
    queue: Queue[Any], op: str, step: int, cargo: Sequence[TransferBatch], keep_ms: int
) -> dict[str, str]:
    """Take entries in; of each id ok | exists | full | closed | cancelled, as it was said first.

    ``keep_ms``: how long that is kept; as long as the source keeps what `put_back` needs.
    """
    if isinstance(queue, ShardedQueue):
        await queue._refresh()
    await queue._ensure_registered()
    refuse_changing(queue)
    leaves = list(queue.shard_queues)
    # Under another number of shards it may have been said elsewhere.
    said = await verdict(queue, op, step, former=False) if len(leaves) > 1 else {}
    left = [one for one in cargo if one.row and one.id not in said]
    docks, strange = await _docks(queue, op, left)
    for k, leaf in enumerate(leaves):
        for batch in _batches(one for one in left if docks[one.id] == k):
            over: set[str] = set()
            while batch:  # again with those that meet another move's copy, once that is judged
                rows = [_landing(queue, op, one, strange) for one in batch]
                heard = await leaf._script("transfer_accept").call(
                    leaf.keys, leaf.clock, words, rows, op=op, step=step, keep_ms=keep_ms,
                    layout=leaf.layout, past=" ".join(sorted(over)),
                )  # fmt: skip
                if "elsewhere" in heard:
                    raise Refused(f"the shards of queue {queue.name} are changing; try again")
                told = dict(zip((one.id for one in batch), heard, strict=True))
                copies = {id: word for id, word in told.items() if word not in _WORDS}
                over |= await _ended(queue, set(copies.values()) - over)
                strange |= {id for id, word in copies.items() if word not in over}
                said |= {id: word for id, word in told.items() if id not in copies}
                batch = [one for one in batch if one.id in copies]
    return said


def _landing(
    queue: Queue[Any], op: str, one: TransferBatch, strange: Collection[str]
) -> tuple[bytes | str, ...]:
    state, score, record, payload, error, following = one.row
    into = queue.transferred_id(op, one.id)
    if into != one.id:
        following += b" " + into.encode()
    state = b"-" if one.id in strange else state
    return one.id, state, score, record, payload, error, following


async def _ended(queue: Queue[Any], ops: Iterable[str]) -> set[str]:
    """Which of these moves out of a queue have ended, so that what is left of them there lives
    elsewhere, and nobody is about to bring it back."""

    def read(reply: list[bytes | None]) -> list[int]:
        return [int(value or 0) for value in reply]

    names, found = sorted(ops), set()
    for op in names:
        keys = [each["op_"] + op for each in queue.shard_keys]
        rows = await together(Call(("HMGET", key, *_COURSE), read, key=key) for key in keys)
        ended, landed, tried, undoing, _ = rows[0]
        steps = max(row[-1] for row in rows)
        if tried or (not undoing and (ended or 0 < steps <= landed)):
            found.add(op)
    return found


def refuse_changing(queue: Queue[Any]) -> None:
    """While the number of shards changes, entries are on their way already."""
    if isinstance(queue, ShardedQueue) and queue.old_shards:
        raise Refused(f"queue {queue.name} is changing its shards: move when that is done")


async def _docks(
    queue: Queue[Any], op: str, cargo: Sequence[TransferBatch]
) -> tuple[dict[str, int], set[str]]:
    """The shard that takes each of them in, and the ids that another shard has."""
    leaves = list(queue.shard_queues)
    n = len(leaves)
    if not isinstance(queue, ShardedQueue) or n == 1 or not cargo:
        return {one.id: 0 for one in cargo}, set()
    if isinstance(queue, HasRequests):
        # Where its new request is, from an earlier step, or will be.
        into = {one.id: queue.transferred_id(op, one.id) for one in cargo}
        places = await queue._shards_of(sorted(set(into.values())))
        return {id: min(places[name]) for id, name in into.items()}, set()
    docks = {one.id: home(one.id, n) for one in cargo}
    if isinstance(queue, HasClients):  # whose name stands in front of the payload
        docks = {one.id: home(one.row[3].partition(b" ")[0].decode(), n) for one in cargo}
    places = await queue._shards_of([one.id for one in cargo])
    asked = [
        (one.id, leaves[k].keys["body"]) for one in cargo for k in places[one.id] - {docks[one.id]}
    ]
    found = await together(Call(("HEXISTS", key, id), bool, key=key) for id, key in asked)
    return docks, {id for (id, _), there in zip(asked, found, strict=True) if there}


def _batches(cargo: Iterable[TransferBatch]) -> Iterable[list[TransferBatch]]:
    batch: list[TransferBatch] = []
    size = 0
    for one in cargo:
        if batch and (len(batch) == BATCH or size + one.size > BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += one.size
    if batch:
        yield batch


async def verdict(
    queue: Queue[Any],
    op: str,
    step: int,
    *,
    close: bool = False,
    keep_ms: int = 0,
    former: bool = True,
) -> dict[str, str]:
    """What was said of the entries of a step; ``close``: and nothing more of it is let in.
    ``former``: also in shards that were given up since, up to 255 more reads."""

    def read(reply: list[bytes]) -> dict[str, str]:
        said = words(reply)
        return dict(zip(said[::2], said[1::2], strict=True))

    found, given_up = await both(
        together(
            leaf._script("transfer_results").call(
                leaf.keys, leaf.clock, read, op=op, step=step, close=int(close), keep_ms=keep_ms
            )
            for leaf in queue.shard_queues
        ),
        _marked([keys["land_"] for keys in queue.former_shard_keys if former], op, step),
    )
    elsewhere = {id: word for id, (word, _) in given_up.items() if id != "*"}
    return elsewhere | {id: word for part in found for id, word in part.items()}


async def marks(queue: Queue[Any], op: str, step: int) -> dict[str, tuple[str, str]]:
    """What was said of the entries of a step, and what each is called here. Reads only."""
    return await _marked(
        [keys["land_"] for keys in (*queue.former_shard_keys, *queue.shard_keys)], op, step
    )


async def _marked(places: Sequence[str], op: str, step: int) -> dict[str, tuple[str, str]]:
    def read(reply: dict[bytes, bytes]) -> dict[str, tuple[str, str]]:
        said = {id.decode(): mark.decode().split(" ") for id, mark in reply.items()}
        return {id: (mark[0], mark[1] if mark[1:] else id) for id, mark in said.items()}

    keys = [f"{place}{op}:{step}" for place in places]
    found = await together(Call(("HGETALL", key), read, key=key) for key in keys)
    return {id: mark for part in found for id, mark in part.items()}


async def withdraw(
    queue: Queue[Any],
    by: str,
    seq: int,
    op: str,
    step: int,
    ids: Sequence[str],
    state: State,
    to: Literal["trash", "gone", "back"],
) -> set[str]:
    """Put away what a step brought into ``state`` and nobody touched since; or remove what was put
    away so for good, or bring it back. Of which that is done. ``by`` and ``seq`` are its own."""
    moves = {"from": state, "to": to}
    return await _step_in_leaf(
        [(leaf, ids) for leaf in queue.shard_queues],
        lambda leaf, some: leaf._script("transfer_revert").call(
            leaf.keys, leaf.clock, words, [(id,) for id in some], caller=by, seq=seq, op=op,
            step=step, **moves,
        ),
    )  # fmt: skip


async def put_back(
    queue: Queue[Any],
    by: str,
    seq: int,
    op: str,
    step: int,
    cargo: Sequence[TransferBatch],
    *,
    undone: bool,
) -> set[str]:
    """Make entries that a step took out as they were, where they still are as it left them."""
    leaves = list(queue.shard_queues)
    return await _step_in_leaf(
        [(leaf, [one.id for one in cargo if one.leaf == k]) for k, leaf in enumerate(leaves)],
        lambda leaf, some: leaf._script("transfer_restore").call(
            leaf.keys, leaf.clock, words, [(id,) for id in some], caller=by, seq=seq, op=op,
            step=step, undone=int(undone),
        ),
    )  # fmt: skip


async def _step_in_leaf(
    places: Sequence[tuple[Queue[Any], Sequence[str]]],
    ask: Callable[[Queue[Any], Sequence[str]], Description[list[str]]],
) -> set[str]:
    """Which entries one of the shards said ``moved`` of."""
    asked = [(leaf, some) for leaf, some in places if some]
    found = await together(ask(leaf, some) for leaf, some in asked)
    return {
        id
        for (_, some), said in zip(asked, found, strict=True)
        for id, word in zip(some, said, strict=False)
        if word == "moved"
    }


async def free(queue: Queue[Any], op: str, step: int, state: State) -> None:
    """A step's end, said in their order: the requests it took from are held up by it no longer."""
    if isinstance(queue, HasRequests):
        await together(
            leaf._script("transfer_step_ended").call(
                leaf.keys, leaf.clock, int, op=op, step=step, state=state
            )
            for leaf in queue.shard_queues
        )


async def forget(queue: Queue[Any], op: str, step: int) -> None:
    """A step that was taken back has nothing any more that could be put back."""
    keys = [f"{leaf.keys['undo_']}{op}:{step}" for leaf in queue.shard_queues]
    await together(Call(("UNLINK", key), int, key=key) for key in keys)


async def forget_some(
    queue: Queue[Any], op: str, step: int, cargo: Sequence[TransferBatch]
) -> None:
    """Of these nothing can be put back any more."""
    leaves = list(queue.shard_queues)

    def call(one: TransferBatch) -> Call[int]:
        key = f"{leaves[one.leaf].keys['undo_']}{op}:{step}"
        line = b" ".join((one.id.encode(), *one.row[:3]))
        return Call(("LREM", key, 1, line), int, key=key)

    await together(call(one) for one in cargo)


async def bring(
    source: Queue[Any],
    target: Queue[Any],
    into_ms: int,
    op: str,
    step: int,
    state: State,
    keep_ms: int,
    *,
    again: bool = False,
    timed: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> dict[str, str]:
    """Put in at the target what a step took out, and back what it refuses; of each id the word that
    `land` said, or ``back``.

    ``into_ms``: when the target was registered. If another queue or none has its name by now, all
    of the step goes back, and `NotFound` says so. ``again``: somebody may have done this before.
    ``timed`` is entered around the calls that bring entries in. After any other refusal of the
    target as a whole, all is back as well and the error raised; `Superseded`: the move was taken
    back meanwhile.
    """
    rows, entry = await both(taken_out(source, op, step), find(target.name, target.prefix))
    cargo = [one for one in rows if one.row]
    if entry is None or entry.created_ms != into_ms:
        await give_back(source, op, step, state, cargo)
        raise NotFound(
            f"queue {target.name} was destroyed: what was on its way there is back in {source.name}"
        )
    # Where some aren't there any more, somebody was here before: that was said of them, too.
    again = again or not rows or len(cargo) < len(rows)
    said = await verdict(target, op, step) if again else {}
    # The source may have been told to keep its trash longer since the move began.
    keep_ms = max([keep_ms, *(one.kept_ms + DAY_MS for one in rows)])
    back = {one.id: "back" for one in rows if one.back and one.id not in said}
    try:
        if fresh := [one for one in cargo if one.id not in said]:
            with timed():
                said |= await land(target, op, step, fresh, keep_ms)
    except Unreachable:
        raise
    except Exception:  # as a full server's: they are to wait where they were, not in the trash
        said = await verdict(target, op, step, close=True, keep_ms=keep_ms)
        await _refused(source, op, step, cargo, said)
        await free(source, op, step, state)
        raise
    await _refused(source, op, step, cargo, said)
    if {"cancelled", WITHDRAWN} & set(said.values()):
        raise Superseded(f"{op} was taken back meanwhile")
    return said | back


async def _refused(
    source: Queue[Any], op: str, step: int, cargo: Sequence[TransferBatch], said: dict[str, str]
) -> None:
    refused = [one for one in cargo if said.get(one.id) not in (OK, WITHDRAWN)]
    if refused:
        with suppress(Superseded):  # somebody else is behind this step, and did it
            await put_back(source, f"{op}.back", step, op, step, refused, undone=False)


async def give_back(
    source: Queue[Any], op: str, step: int, state: State, cargo: Sequence[TransferBatch]
) -> set[str]:
    """Put back what a step took out for a queue that was destroyed since: which entries came."""
    back = set[str]()
    if cargo:
        with suppress(Superseded):
            back = await put_back(source, f"{op}.gone", step, op, step, cargo, undone=False)
    await free(source, op, step, state)
    return back


@dataclass(frozen=True, slots=True)
class TransferRevert:
    """What became of the entries of a step of a move that was taken back."""

    rows: list[TransferBatch]
    """what the step took out"""
    said: dict[str, str]
    """what the target says of each"""
    out: set[str]
    """what left the target by this call"""
    back: set[str]
    """what is in the source again"""
    stay: set[str]
    """what can only live in the target, since its copy in the source was removed"""


async def take_back(
    source: Queue[Any],
    target: Queue[Any] | None,
    op: str,
    step: int,
    state: State,
    by: str,
    seq: int,
    keep_ms: int,
) -> TransferRevert:
    """Take one step of a move back: what nobody touched in the target leaves it and has its old
    place in the source. ``target``: None if it was destroyed, then all come back."""
    said: dict[str, str] = {}
    if target is not None:  # from now on nothing more of it is let in
        said = await verdict(target, op, step, close=True, keep_ms=keep_ms)
    rows = await taken_out(source, op, step, brief=True)
    here = [one for one in rows if one.row]
    landed = [one.id for one in here if said.get(one.id) in (OK, WITHDRAWN)]
    # Of those, what an undo that was killed has put away there already.
    away = {one.id for one in rows if not one.row and said.get(one.id) == WITHDRAWN}
    out = set[str]()
    if landed and target is not None:
        out = await withdraw(target, by, 3 * seq, op, step, landed, state, "trash")
        if len(out) < len(landed):  # somebody else's undo may have got hold of the others
            said = await verdict(target, op, step)
    coming = [one for one in here if one.id in out or said.get(one.id) != OK]
    back = await put_back(source, by, seq, op, step, coming, undone=True)
    away |= out - back
    # Also what another undo put away and hasn't brought back yet: it is about to ask for it.
    gone, stay = {one for one in back if one in out or said.get(one) == WITHDRAWN}, set[str]()
    if away:
        again = await taken_out(source, op, step, brief=True)
        gone |= away & {one.id for one in again if one.back}
        stay = away - gone
    if gone and target is not None:
        await withdraw(target, by, 3 * seq + 1, op, step, sorted(gone), "trash", "gone")
    if stay and target is not None:  # what was to come back was emptied: only there they can live
        # (What another undo that is through with this step brought back isn't there any more.)
        stay = await withdraw(target, by, 3 * seq + 2, op, step, sorted(stay), "trash", "back")
    await free(source, op, step, state)
    return TransferRevert(rows, said, out, back, stay)
