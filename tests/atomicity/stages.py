"""Queues of every kind with entries in every state, and what workers, producers and operators do.

A stage's queue is on the server already when `Stage` is made. Each operation is given a fresh
object of it, as of a process that looked at the keys long ago, and always the same clock and the
same callers: on the same keys it does exactly the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis

from redisq_ops.core.engine import transfer
from redisq_ops.core.engine.idempotency import CallerSlots
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.consumer_load import StreamId
from redisq_ops.core.model.entry import Delivery, Failure, Settlement
from redisq_ops.core.model.states import FIXED
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run

ERROR = Failure("Boom", "it broke").encoded()
DAY = 86_400_000
MOVE, CAME = "move-00000000aa", "move-00000000bb"
"""a move of the queue's entries to another, and one of another's entries to it"""
Operation = Callable[[Any], Any]


@dataclass
class Stage:
    """A queue's ``operations``, by name. ``made`` is the object they are given copies of."""

    kind: str
    client: redis.Redis
    made: Any
    now_ms: int
    held: Sequence[Delivery]
    operations: dict[str, Operation] = field(default_factory=dict)
    absent: Sequence[bytes] = ()
    """keys that operations may create"""

    def queue(self) -> Any:
        found = copy.copy(self.made)
        found.clock = FakeClock(self.now_ms)
        numbers = iter(range(99))
        found.callers = CallerSlots(lambda: f"caller{next(numbers)}")
        return found

    def run(self, name: str) -> Any:
        return self.operations[name](self.queue())

    def flaws(self) -> list[str]:
        return list(self.queue().invariants())

    def owns(self, key: bytes) -> bool:
        """Not of another queue, whose entries came or went."""
        return b"other" not in key


KINDS = (
    "request",
    "fair",
    "circular",
    "rotating",
    "each",
    "delay",
    "carmine",
    "resque",
    "sidekiq",
    "stream",
)
_SHAPES: dict[str, dict[str, Any]] = {
    "rotating": {"residence": "rotate"},
    "each": {"repeats": "each"},
}
_OURS: dict[str, type[Any]] = {
    "request": RequestQueue,
    "fair": FairQueue,
    "circular": CircularQueue,
    "rotating": CircularQueue,
    "each": CircularQueue,
    "delay": DelaySet,
    "carmine": CarmineQueue,
}


def stage(client: redis.Redis, kind: str) -> Stage:
    """An empty server's queue of a kind, with entries in every state."""
    if kind == "stream":
        return _stream(client)
    return _jobs(client, kind) if kind in ("resque", "sidekiq") else _ours(client, kind)


def _payloads(first: int, n: int) -> list[bytes]:
    return [b"payload-%d" % number for number in range(first, first + n)]


def _put(queue: Any, first: int, n: int, tag: str = "r") -> None:
    pairs = [(f"e{first + k}", payload) for k, payload in enumerate(_payloads(first, n))]
    if _each(queue):  # no payloads; the ids stand for them
        pairs = [(payload.decode(), b"") for _, payload in pairs]
    match queue:
        case FairQueue():
            queue.submit("ann", pairs[::2])
            if n > 3:
                queue.submit("bob", pairs[1::2])
        case CircularQueue():
            queue.push(pairs)
        case CarmineQueue():
            queue.enqueue(pairs)
        case DelaySet():
            queue.schedule(pairs)
        case RequestQueue():
            queue.submit(_payloads(first, n), id=tag, limit=20)


def _each(queue: Any) -> bool:
    return isinstance(queue, CircularQueue) and queue.shape.repeats == "each"


def _move(
    op: str, step: int, ids: Sequence[str], source: str, target: str, **more: Any
) -> Operation:
    return lambda queue: queue.move(
        op, step, ids, source=source, target=target, high_water_ms=queue.clock.now_ms, **more
    )


def _ours(client: redis.Redis, kind: str) -> Stage:
    cls, options = _OURS[kind], _SHAPES.get(kind, {})
    clock = FakeClock()
    prefix = "carmine:" if kind == "carmine" else ""
    queue = cls(client, f"{prefix}q", clock=clock, **options)
    other = cls(client, f"{prefix}other", clock=clock, **options)
    for one in (queue, other):
        run(client, one._ensure_registered())

    _put(other, 100, 4)
    rows = [entry.id for entry in other.page("waiting", None, 9).entries]
    _move(CAME, 1, rows[:2], "waiting", "trash")(other)
    _move(CAME, 2, rows[2:], "waiting", "trash")(other)
    came = [run(client, transfer.read_step(other, CAME, step)) for step in (1, 2)]

    _put(queue, 0, 17)
    held = queue.take(11, consumer="w1", lease=5).deliveries
    queue.settle([Settlement(d, "reject", ERROR) for d in held[:6]])
    queue.settle([Settlement(d, "fail", ERROR, 1) for d in held[6:8]])
    ids = [d.id for d in held]
    _move("before", 1, [ids[0]], "dead", "trash")(queue)
    _move("early", 1, [ids[1]], "dead", "waiting")(queue)
    queue.edit(
        "edited",
        1,
        [(ids[2], held[2].payload, held[2].payload + b"!")],
        source="dead",
        high_water_ms=clock.now_ms,
    )
    queue.move_range("whole", 1, 1, source="dead", target="trash", high_water_ms=clock.now_ms)
    waiting = [entry.id for entry in queue.page("waiting", None, 99).entries]
    if kind == "request":
        client.xgroup_createconsumer(queue.keys["s_"] + "r", "g", "w9")
        queue.submit(_payloads(30, 3), id="cut", priority=20)
        queue.control("cut-it", 1, "cancel", "cut")
        queue.submit(_payloads(33, 2), id="held-up", priority=20)
        queue.control("hold", 1, "pause", "held-up")
        queue.submit([], id="empty")
    if kind == "fair":
        queue.control("rule", 1, "weight", "bob", 2)
    if kind == "delay":
        queue.set_periodic(Periodic("tick", "* * * * *", b"payload-40"))
        queue.change_periodic(
            "changed",
            1,
            "tock",
            was="",
            at_ms=clock.now_ms + DAY,
            spec=Periodic("tock", "* * * * *", b"payload-43").encoded(),
        )
        periodic = queue.get_periodic("tick")
        queue.schedule([("e60", b"payload-60")], after=5000)
        queue.schedule([(ids[8], b"payload-80")], mode="move")
    if kind == "carmine":
        queue.enqueue([(ids[8], b"payload-80")], requeue=True)
    if isinstance(queue, CircularQueue):
        queue.push([(ids[8], b"" if _each(queue) else b"payload-80")])
    _move(MOVE, 1, waiting[-2:], "waiting", "trash")(queue)
    away = run(client, transfer.read_step(queue, MOVE, 1))
    run(client, transfer.accept_entries(queue, CAME, 1, came[0], DAY))
    known = list(run(client, transfer.read_results(queue, CAME, 1)))
    clock.advance(0.001)

    dead = [entry.id for entry in queue.page("dead", None, 9).entries]
    delayed, trash = [ids[6]], ids[0]
    own = held[8:]
    built = Stage(kind, client, queue, clock.now_ms, held)

    def relocated(work: Callable[[Any], Any]) -> Operation:
        return lambda queue: run(client, work(queue))

    def later(ms: int, do: Operation) -> Operation:
        def doing(queue: Any) -> Any:
            queue.clock.now_ms += ms
            return do(queue)

        return doing

    def settles(*outcomes: tuple[Any, ...]) -> Operation:
        ends = [Settlement(d, *rest) for d, rest in zip(own, outcomes, strict=False)]
        return lambda queue: queue.settle(ends)

    built.operations = {
        "take": lambda queue: queue.take(3, consumer="w2"),
        "take of what is due": later(6000, lambda queue: queue.take(3, consumer="w2")),
        "ack": settles(("ack",), ("ack",)),
        "result": settles(("result", b"r" * 9)),
        "fail": settles(("fail", ERROR), ("fail", ERROR, 1)),
        "reject": settles(("reject", ERROR)),
        "release": settles(("release",), ("ack",), ("release",)),
        "extend": lambda queue: queue.extend(own),
        "put": lambda queue: _put(queue, 50, 3, "more"),
        "replay": _move("op", 1, dead[:2], "dead", "waiting"),
        "requeue": _move("op", 1, delayed, "delayed", "waiting"),
        "requeue of pending": _move("op", 1, [own[2].id], "pending", "waiting"),
        "claim": _move("op", 1, [own[2].id], "pending", "pending", consumer="w3"),
        "reschedule": _move("op", 1, delayed, "delayed", "delayed", lease_ms=clock.now_ms + 99_000),
        "purge of waiting": _move("op", 1, waiting[:2], "waiting", "trash"),
        "purge of pending": _move("op", 1, [own[2].id], "pending", "trash"),
        "purge of delayed": _move("op", 1, delayed, "delayed", "trash"),
        "purge": _move("op", 1, dead[:2], "dead", "trash"),
        "purge for good": _move("op", 1, dead[:2], "dead", "gone"),
        "purge of waiting for good": _move("op", 1, waiting[:1], "waiting", "gone"),
        "restore": _move("op", 1, [trash], "trash", "restore"),
        "replay of all": lambda queue: queue.move_range(
            "op", 1, 9, source="dead", target="waiting", high_water_ms=queue.clock.now_ms
        ),
        "replay of all, later": lambda queue: queue.move_range(
            "op", 2, 9, source="dead", target="waiting", high_water_ms=queue.clock.now_ms
        ),
        "emptying": lambda queue: queue.move_range(
            "op", 2, 9, source="trash", target="gone", high_water_ms=queue.clock.now_ms
        ),
        "undo": lambda queue: queue.undo("early", 1, target="waiting", by="undone", seq=1),
        "undo of a purge": lambda queue: queue.undo(
            "before", 1, target="trash", by="undone", seq=1
        ),
        "undo of a step of all": lambda queue: queue.undo(
            "whole", 1, target="trash", by="undone", seq=1
        ),
        "undo of an edit": lambda queue: queue.undo("edited", 1, target="edit", by="undone", seq=1),
        "edit": lambda queue: queue.edit(
            "op",
            1,
            [(ids[3], held[3].payload, b"payload-3-new")],
            source="dead",
            high_water_ms=queue.clock.now_ms,
        ),
        "set": lambda queue: queue.configure("op", 1, {"max_lost": "5", "paused": "why"}),
        "sweep": lambda queue: queue.sweep(),
        "sweep of leases": later(6000, lambda queue: queue.sweep()),
        "sweep of the trash": later(DAY + 1, lambda queue: queue.sweep()),
        "land": relocated(lambda queue: transfer.accept_entries(queue, CAME, 2, came[1], DAY)),
        "withdraw": relocated(
            lambda queue: transfer.revert_entries(
                queue, "undo-00000000bb", 1, CAME, 1, known, "waiting", "trash"
            )
        ),
        "return": relocated(
            lambda queue: transfer.restore_entries(
                queue, "undo-00000000aa", 1, MOVE, 1, away, undone=True
            )
        ),
    }
    if kind == "request":
        for verb, rid, value in (
            ("cancel", "r", ""),
            ("pause", "r", ""),
            ("resume", "held-up", ""),
            ("limit", "r", "9"),
            ("priority", "r", "3"),
            ("reopen", "cut", "sealed"),
        ):
            built.operations[verb] = _controlled(verb, rid, value)
        built.operations["free"] = relocated(
            lambda queue: transfer.end_step(queue, MOVE, 1, "waiting")
        )
        built.operations["strike"] = lambda queue: queue.remove_consumer("r", "w9")
    if kind == "fair":
        for rule, to in (("weight", 3), ("cap", 1), ("blocked", 1)):
            built.operations[rule] = _ruled(rule, to)
    if kind == "delay":
        built.operations |= {
            "plan": lambda queue: queue.set_periodic(Periodic("tock", "* * * * *", b"payload-41")),
            "tick": later(120_000, lambda queue: queue.tick()),
            "change of a periodic entry": lambda queue: queue.change_periodic(
                "op",
                1,
                "tick",
                was=periodic.digest,
                spec=Periodic("tick", "0 * * * *", b"payload-42").encoded(),
                at_ms=queue.clock.now_ms + 9,
            ),
            "pause of a periodic entry": lambda queue: queue.change_periodic(
                "op", 1, "tick", was=periodic.digest, paused=True
            ),
            "removal of a periodic entry": lambda queue: queue.change_periodic(
                "op", 1, "tick", was=periodic.digest, spec=b""
            ),
            "undo of a periodic change": lambda queue: queue.undo_change(
                "undone", 1, "periodic", ["tock", "changed", "1"]
            ),
            "run of a periodic entry": lambda queue: queue.run_periodic(
                "op", 1, "tick", was=periodic.digest, id="tick@0000000000042", overlap=True
            ),
            "reschedule by its producer": lambda queue: queue.schedule(
                [("e60", b"payload-60-new"), (own[2].id, b"payload-x")], mode="move"
            ),
            "hand over": lambda queue: queue.hand_over(other, 3),
        }
    if isinstance(queue, CircularQueue):
        built.operations["push again"] = lambda queue: queue.push(
            [
                (id, b"" if _each(queue) else payload)
                for id, payload in (
                    (ids[9], held[9].payload + b" new"),
                    (dead[0], b"payload-new"),
                    (waiting[0], b"payload-new"),
                )
            ]
        )
    if kind in ("delay", "carmine") or isinstance(queue, CircularQueue):
        some = [dead[0], delayed[0], waiting[0]]
        built.operations["depart"] = lambda queue: run(
            client,
            queue._script("transfer_hold").call(
                queue.keys, queue.clock, list, [(id,) for id in some], layout=0
            ),
        )
        built.operations["arrive"] = lambda queue: run(
            client, transfer.accept_rows(queue, "shard", _arrivals(queue))
        )
    built.absent = list(_possible(queue, clock.now_ms))
    return built


def _controlled(verb: str, rid: str, value: Any) -> Operation:
    return lambda queue: queue.control("op", 1, verb, rid, value)


def _ruled(rule: str, value: int) -> Operation:
    return lambda queue: queue.control("op", 1, rule, "bob", value)


def _arrivals(queue: Any) -> list[transfer.TransferEntry]:
    at = b"%d" % queue.clock.now_ms
    state = b"waiting" if isinstance(queue, CircularQueue) else b"delayed"
    record = b"- 1 0 5 %b w - rejected 0" % at
    rows = [
        (state, at, b"", b"payload-70", b"", b""),
        (b"dead", at, record, b"payload-71", ERROR, b""),
    ]
    return [transfer.TransferEntry(0, f"n{n}", row, mark=f"{n}") for n, row in enumerate(rows, 1)]


def _possible(queue: Any, now_ms: int) -> Iterator[bytes]:
    """Keys that aren't there and that operations on the queue write."""
    for part in {*FIXED, *queue.key_types}:
        if not part.startswith("p:") or part in ("p:50", "p:3"):
            yield queue.keys[part].encode()
    for named in (
        f"rate_{now_ms // 3_600_000}",
        "op_op",
        "op_undone",
        "undo_op:1",
        "undo_op:2",
        f"land_{CAME}:2",
    ):
        base, _, rest = named.partition("_")
        yield (queue.keys[f"{base}_"] + rest).encode()
    if isinstance(queue, RequestQueue):
        for name in ("s:more", "again:r", "later:r", "r:more", "res:r:0"):
            yield queue.keys[name].encode()
    if isinstance(queue, FairQueue):
        for name in ("c:ann", "c:bob", "f:ann", "c:new"):
            yield queue.keys[name].encode()


def _jobs(client: redis.Redis, kind: str) -> Stage:
    cls: Any = ResqueQueue if kind == "resque" else SidekiqQueue
    clock = FakeClock()
    queue = cls(client, f"{kind}:low", clock=clock)
    queue.push([Job("A", [token.decode()]) for token in map(bytes, _payloads(0, 16))])
    held = queue.take(9, consumer="w1", lease=5).deliveries
    queue.settle([Settlement(d, "reject", ERROR) for d in held[:4]])
    timed = kind == "sidekiq"
    if timed:
        queue.settle([Settlement(d, "fail", ERROR, 1) for d in held[4:6]])
        queue.push([Job("A", ["payload-30"])], after=2)
    own = held[6:] if timed else held[4:]

    def listed(state: str) -> list[str]:
        return [entry.id for entry in queue.page(state, None, 99).entries]

    waiting, dead = listed("waiting"), listed("dead")
    clock.advance(0.001)
    _move("before", 1, dead[:1], "dead", "trash")(queue)
    _move("early", 1, dead[1:2], "dead", "waiting")(queue)
    _move("purged", 1, waiting[:1], "waiting", "trash")(queue)
    waiting, dead, trash = listed("waiting"), listed("dead"), listed("trash")
    clock.advance(0.01)
    queue.take(1, consumer="w9", lease=90)
    waiting = listed("waiting")
    built = Stage(kind, client, queue, clock.now_ms, held)

    def settles(*outcomes: tuple[Any, ...]) -> Operation:
        ends = [Settlement(d, *rest) for d, rest in zip(own, outcomes, strict=False)]
        return lambda queue: queue.settle(ends)

    def later(ms: int, do: Operation) -> Operation:
        def doing(queue: Any) -> Any:
            queue.clock.now_ms += ms
            return do(queue)

        return doing

    built.operations = {
        "take": lambda queue: queue.take(3, consumer="w2"),
        "take of what is due": later(6000, lambda queue: queue.take(3, consumer="w2")),
        "ack": settles(("ack",), ("ack",)),
        "reject": settles(("reject", ERROR)),
        "release": settles(("release",), ("ack",), ("release",)),
        "extend": lambda queue: queue.extend(own),
        "put": lambda queue: queue.push(
            [Job("A", ["payload-50"], jid="a" * 24 if timed else None)]
        ),
        "replay": _move("op", 1, dead[:2], "dead", "waiting"),
        "requeue of pending": _move("op", 1, [own[2].id], "pending", "waiting"),
        "claim": _move("op", 1, [own[2].id], "pending", "pending", consumer="w3"),
        "purge of waiting": _move("op", 1, waiting[:2], "waiting", "trash"),
        "purge of pending": _move("op", 1, [own[2].id], "pending", "trash"),
        "purge": _move("op", 1, dead[:2], "dead", "trash"),
        "purge for good": _move("op", 1, dead[:2], "dead", "gone"),
        "restore": _move("op", 1, trash, "trash", "restore"),
        "undo": lambda queue: queue.undo("early", 1, target="waiting", by="undone", seq=1),
        "undo of a purge": lambda queue: queue.undo(
            "before", 1, target="trash", by="undone", seq=1
        ),
        "undo of a purge of waiting": lambda queue: queue.undo(
            "purged", 1, target="trash", by="undone", seq=1
        ),
        "set": lambda queue: queue.configure("op", 1, {"max_lost": "5", "paused": "why"}),
        "sweep": lambda queue: queue.sweep(),
        "sweep of leases": later(6000, lambda queue: queue.sweep()),
        "sweep of the trash": later(DAY + 1, lambda queue: queue.sweep()),
    }
    if timed:
        delayed = listed("delayed")
        built.operations |= {
            "fail": settles(("fail", ERROR), ("fail", ERROR, 1)),
            "schedule": lambda queue: queue.push([Job("A", ["payload-51"], jid="b" * 24)], after=1),
            "requeue": _move("op", 1, delayed[:1], "delayed", "waiting"),
            "reschedule": _move(
                "op", 1, delayed[:1], "delayed", "delayed", lease_ms=clock.now_ms + 99_000
            ),
            "purge of delayed": _move("op", 1, delayed[:1], "delayed", "trash"),
        }
    made = [*FIXED, *queue.key_types, "rate_" + str(clock.now_ms // 3_600_000)]
    keys = {queue.keys[part].encode() for part in made if "_" not in part}
    keys |= {
        (queue.keys["op_"] + "op").encode(),
        (queue.keys["undo_"] + "op:1").encode(),
        queue.list_key.encode(),
        *map(str.encode, queue._their_keys()),
    }
    built.absent = sorted(keys)
    return built


def _stream(client: redis.Redis) -> Stage:
    for payload in _payloads(0, 9):
        client.xadd("orders", {"data": payload})
    client.xgroup_create("orders", "g", "0")
    client.xreadgroup("g", "w1", {"orders": ">"}, count=6)
    queue: Any = StreamQueue(client, "stream:orders")
    rows: Any = client.xpending_range("orders", "g", "-", "+", 9)
    acked, *pending = [row["message_id"].decode() for row in rows]
    client.xack("orders", "g", acked)
    first = StreamId(*map(int, acked.split("-")))
    client.hset(queue.keys["op_"] + "op", "done", "0")
    queue._registered = True
    built = Stage("stream", client, queue, 1_700_000_000_000, ())

    def given(n: int, remove: bool) -> Operation:
        return lambda queue: queue.reassign("g", "w1", "w2", pending[:n], remove=remove, op="op")

    def settled(queue: Any) -> Any:
        how: Any = {"min_idle_ms": 0, "op": "op", "step": 1}
        return queue.settle_held("g", "w1", pending[:2], acknowledge=True, **how)

    built.operations = {
        "claim": given(2, False),
        "removal of a consumer": given(9, True),
        "acknowledgement": settled,
        "undo of one": lambda queue: queue.undo_change("u", 1, "pend", ["g", "w1", f"{acked}/1/1"]),
        "new group": lambda queue: queue.place_group("h", None, StreamId(0, 0)),
        "trim": lambda queue: queue.trim_step(first, "op"),
    }
    built.flaws = lambda: []  # type: ignore[method-assign]
    return built
