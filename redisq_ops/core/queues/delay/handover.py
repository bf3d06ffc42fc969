"""Hands due entries on: to another queue, each once, or to a callable, at least once.

To another queue: take, submit there under the entry's id, acknowledge. After a crash in between the
entry is delivered again, and the target recognises its id: a request queue as long as it keeps the
request (``keep_ms``, 24 h, after its end), a delay set for ``keep_ms`` after it came. Within that
time an id is handed over once. Where one script can write both queues (two delay sets in one slot,
or not on a cluster), it is one atomic step instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio as aredis
from redis.crc import key_slot

from ...engine.transfer import TransferEntry, accept_entries
from ...model.clock import Seconds
from ...model.entry import Delivery, Failure, Settlement
from ...model.errors import BadInput, Exists, Refused, TooLarge
from ...model.keys import Keys
from ...redis.operation import attempt, together

if TYPE_CHECKING:
    from ..request import RequestQueue
    from .queue import DelaySet


@dataclass(frozen=True, slots=True)
class HandoverResult:
    """The result of one round of `DelaySet.hand_over`."""

    done: int
    """entries that were handed over"""
    dead: int
    """entries that the target refused for good, or for which the callable failed once too often:
    dead letters now, each with the reason"""
    back: int
    """entries to try again: the target accepts none now, the callable failed, or its lease ended
    first"""
    more: bool
    """more entries may be due now"""
    refusal: str | None = None
    """why the target accepts no entries now; wait before the next round"""


class _Pair(Keys):
    """The keys of two queues for one script; ``to_…`` are those of the second."""

    __slots__ = ("_target",)

    def __init__(self, source: Keys, target: Keys) -> None:
        super().__init__(source.tag)
        self.base, self._target = source.base, target

    def __getitem__(self, part: str) -> str:
        return self._target[part[3:]] if part.startswith("to_") else Keys.__getitem__(self, part)


def one_script(source: DelaySet[Any], target: DelaySet[Any] | RequestQueue[Any]) -> bool:
    """Whether one script can hand over between these two queues."""
    if source.kind != target.kind or len(source.shard_keys) + len(target.shard_keys) > 2:
        return False
    if isinstance(source.client, (redis.Redis, aredis.Redis)):
        return True
    return key_slot(source.keys.base.encode()) == key_slot(target.keys.base.encode())


async def at_once(source: DelaySet[Any], target: DelaySet[Any], n: int) -> HandoverResult:
    """Hand over between two delay sets in one atomic step."""
    call = source._script("hand_over").call(
        _Pair(source.keys, target.keys),
        source.clock,
        tuple[int, int, int],
        n=n,
        layout=target.layout,
    )
    try:
        went, dead, more = await target._once_registered(call)
    except Refused as error:
        return HandoverResult(0, 0, 0, False, str(error))
    return HandoverResult(went, dead, 0, bool(more))


async def by_transport(
    source: DelaySet[Any],
    target: DelaySet[Any] | RequestQueue[Any],
    n: int,
    consumer: str,
    lease: Seconds,
) -> HandoverResult:
    """Take, submit to the target, acknowledge: three round trips for up to ``n`` entries."""
    taken = await source.take.op(n, consumer=consumer, lease=lease)
    if not taken.deliveries:
        return HandoverResult(0, 0, 0, taken.more)
    answers = await _put(target, taken.deliveries)
    ends = [_end(d, answer) for d, answer in zip(taken.deliveries, answers, strict=True)]
    await source.settle.op(ends)
    kinds = [end.outcome for end in ends]
    refusals = [str(a) for a, kind in zip(answers, kinds, strict=True) if kind == "release"]
    return HandoverResult(
        kinds.count("ack"),
        kinds.count("reject"),
        len(refusals),
        taken.more,
        refusals[0] if refusals else None,
    )


async def _put(
    target: DelaySet[Any] | RequestQueue[Any], deliveries: Sequence[Delivery]
) -> Sequence[object]:
    """The target's word, or an exception, for each delivery."""
    from .queue import DelaySet

    if isinstance(target, DelaySet):
        words = await attempt(admit(target, [(d.id, d.payload) for d in deliveries]))
        return [words] * len(deliveries) if isinstance(words, Exception) else words
    return await together(attempt(target.submit.op([d.payload], id=d.id)) for d in deliveries)


async def admit(target: DelaySet[Any], entries: Sequence[tuple[str, bytes]]) -> list[str]:
    """Accept (id, payload) pairs in a delay set, due at once: ok | same | exists for each.

    ``same``: the id came within the last 24 hours (setting ``keep_ms``), whatever happened to it
    since. ``exists``: an entry that wasn't handed over has the id.
    """
    rows = [
        TransferEntry(0, id, (b"delayed", b"", b"", payload, b"", b""), mark=id)
        for id, payload in entries
    ]
    words = await accept_entries(target, "", 0, rows, 0, "delay")
    return [words[id] for id, _ in entries]


def _end(delivery: Delivery, answer: object) -> Settlement:
    if answer == "exists":
        answer = Exists(f"entry {delivery.id} is there by another submission")
    if isinstance(answer, (Exists, TooLarge, BadInput)):
        failure = Failure(type(answer).__name__, str(answer))
        return Settlement(delivery, "reject", failure.encoded())
    if isinstance(answer, Refused):
        return Settlement(delivery, "release")
    if isinstance(answer, Exception):
        raise answer
    return Settlement(delivery, "ack")


async def to_callable(
    source: DelaySet[Any],
    call: Callable[[Delivery], object],
    n: int,
    consumer: str,
    lease: Seconds,
) -> HandoverResult:
    """Call ``call`` with each of up to ``n`` due entries; an exception fails the attempt.

    While ``call`` handles one entry, the others wait: their leases are renewed before each call.
    """
    from ...worker.retry import decided  # here: who only looks at a queue needs no worker

    taken = await source.take.op(n, consumer=consumer, lease=lease)
    ours = [True] * len(taken.deliveries)
    words: list[str] = []
    for k, delivery in enumerate(taken.deliveries):
        if not ours[k]:
            continue
        end = decided(_called(call, delivery), None, source.retry)
        rest = taken.deliveries[k + 1 :]
        if rest:
            word, ours[k + 1 :] = await together(
                source.settle.op([end]), source.extend.op(rest, lease)
            )
        else:
            word = await source.settle.op([end])
        words += word
    done, dead = words.count("done"), words.count("dead")
    return HandoverResult(done, dead, len(words) - done - dead, taken.more)


def _called(call: Callable[[Delivery], object], delivery: Delivery) -> Settlement:
    from ...worker.retry import failed

    try:
        call(delivery)
    except Exception as error:
        return failed(delivery, error)
    return Settlement(delivery, "ack")
