"""Keys of another type in the way: whatever is refused has changed nothing, and nothing is lost.

Each kind's every fixed key is taken away and a string put in its place; then all that workers and
operators do is tried, by a process that never looked at the keys (`tests/atomicity`: by one that
did). What is not refused works on the rest. With the key back all adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from redisq_ops.core.engine import transfer
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Failure, Settlement, State
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.model.states import FIXED
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue, ShardedFairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run

from ...command_line import Redisq
from ...model.wire import Picture, picture

pytestmark = pytest.mark.slow

KINDS: dict[str, type[Queue[Any]]] = {
    "fair": FairQueue,
    "circular": CircularQueue,
    "carmine": CarmineQueue,
    "delay": DelaySet,
    "request": RequestQueue,
}
NAMES = {"carmine": "carmine:q"}
VARIABLE = ("rate", "op", "undo")
LATER = "front, not its first step"
REQUESTS = ("s:r", "again:r", "later:r", "p:50")
ERROR = Failure("Boom", "it broke").encoded()
STATES: tuple[State, ...] = ("waiting", "pending", "delayed", "dead", "trash")


def cases() -> Iterator[tuple[str, str]]:
    for kind, cls in KINDS.items():
        fixed = [part for part in sorted({*FIXED, *cls.key_types}) if not part.startswith("p:")]
        for part in (*fixed, *VARIABLE, *(REQUESTS if kind == "request" else ())):
            yield kind, part


def made(client: redis.Redis, kind: str, clock: FakeClock) -> Any:
    return KINDS[kind](client, NAMES.get(kind, "q"), clock=clock)


def put(queue: Any, n: int, tag: str = "e") -> None:
    pairs = [(f"{tag}{k}", b"x") for k in range(n)]
    match queue:
        case FairQueue():
            queue.submit("ann", pairs[::2])
            queue.submit("bob", pairs[1::2])
        case CircularQueue():
            queue.push(pairs)
        case CarmineQueue():
            queue.enqueue(pairs)
        case DelaySet():
            queue.schedule(pairs)
        case RequestQueue():
            queue.submit([b"x"] * n, id="r" if tag == "e" else tag, limit=20)


def filled(queue: Queue[redis.Redis], clock: FakeClock) -> Sequence[Delivery]:
    """Twelve entries, in all states; and an operation, ``before``, that can be taken back."""
    put(queue, 12)
    held = queue.take(8, consumer="w1", lease=5).deliveries
    queue.settle([Settlement(d, "reject", ERROR) for d in held[:4]])
    queue.settle([Settlement(d, "fail", ERROR, 1) for d in held[4:6]])
    queue.move("before", 1, [held[0].id], source="dead", target="trash", high_water_ms=clock.now_ms)
    queue.move(
        "early", 1, [held[1].id], source="dead", target="waiting", high_water_ms=clock.now_ms
    )
    clock.advance(0.001)
    return held


def ids(queue: Any) -> set[str]:
    return {entry.id for state in STATES for entry in queue.page(state, None, 100).entries}


def attempts(
    queue: Any, held: Sequence[Delivery], clock: FakeClock
) -> dict[str, Callable[[], Any]]:
    """What is done to a queue: nothing that ends an entry."""
    now = clock.now_ms
    fails = [Settlement(held[6], "fail", ERROR), Settlement(held[7], "release")]

    def step(op: str, n: int, source: State, target: str) -> Callable[[], Any]:
        return lambda: queue.move(
            op, n, known[source], source=source, target=target, high_water_ms=now
        )

    known: dict[str, list[str]] = {
        "waiting": [],
        "delayed": [held[4].id],
        "dead": [held[2].id],
        "pending": [held[6].id],
        "trash": [held[0].id],
    }
    done: dict[str, Callable[[], Any]] = {
        "undo": lambda: queue.undo("early", 1, target="waiting", by="undone", seq=1),
        "undo of a purge": lambda: queue.undo("before", 1, target="trash", by="undo2", seq=1),
        "replay": step("op", 1, "dead", "waiting"),
        "requeue": step("op", 2, "delayed", "waiting"),
        "claim": step("op", 3, "pending", "pending"),
        "purge": step("op", 4, "dead", "trash"),
        "restore": step("op", 5, "trash", "restore"),
        "front": lambda: queue.move_range(
            "front", 1, 1, source="dead", target="waiting", high_water_ms=now
        ),
        LATER: lambda: queue.move_range(
            "front", 2, 9, source="dead", target="waiting", high_water_ms=now
        ),
        "edit": lambda: queue.edit(
            "edit", 1, [(held[3].id, b"x", b"y")], source="dead", high_water_ms=now
        ),
        "extend": lambda: queue.extend(held[6:]),
        "settle": lambda: queue.settle(fails),
        "set": lambda: queue.configure("conf", 1, {"max_lost": "5"}),
        "sweep": queue.sweep,
    }

    if isinstance(queue, FairQueue):
        done["weigh"] = lambda: queue.control("rule", 1, "weight", "bob", 2)

    def lapsed() -> Any:
        clock.advance(6)
        return queue.take(3, consumer="w2")

    return done | {"take": lapsed, "put": lambda: put(queue, 2, "more")}


@contextmanager
def in_the_way(client: redis.Redis, key: str, saved: str = "saved") -> Iterator[None]:
    """A string where a key should be, or could be; as it was afterwards."""
    there = client.exists(key)
    if there:
        client.rename(key, saved)
    client.set(key, "somebody else's")
    try:
        yield
    finally:
        if there:
            client.rename(saved, key)
        else:
            client.delete(key)


def key_of(queue: Queue[redis.Redis], part: str, clock: FakeClock) -> str:
    variable = {
        "rate": f"rate_{clock.now_ms // 3_600_000}",
        "op": "op_front",
        "undo": "undo_front:2",
    }
    base, _, rest = variable.get(part, part).partition("_")
    whole = part in queue.key_types or part in FIXED or not rest
    return queue.keys[part] if whole else queue.keys[base + "_"] + rest


def shown(client: redis.Redis, queue: Queue[redis.Redis]) -> Picture:
    """All keys, but for the fence: its numbers are never given back."""
    found = picture(client)
    stat = found.get(queue.keys["stat"].encode())
    if isinstance(stat, dict):
        stat.pop(b"fence", None)
    return found


@pytest.mark.alike
@pytest.mark.parametrize(("kind", "part"), cases())
def test_what_is_refused_has_changed_nothing(client: redis.Redis, kind: str, part: str) -> None:
    clock = FakeClock()
    seed = made(client, kind, clock)
    held = filled(seed, clock)
    before = ids(seed)
    assert len(before) == 12
    queue = made(client, kind, clock)
    key = key_of(queue, part, clock)

    with in_the_way(client, key):
        seen = shown(client, queue)
        for verb, attempt in attempts(queue, held, clock).items():
            try:
                attempt()
            except WrongKind as error:
                assert key in str(error) or part == "s:r" or verb == LATER, verb
                assert shown(client, queue) == seen, verb
            else:
                seen = shown(client, queue)
    assert seed.invariants() == []
    assert before <= ids(seed)


@pytest.fixture
def fair(client: redis.Redis) -> tuple[FairQueue[redis.Redis], FakeClock]:
    clock = FakeClock()
    return made(client, "fair", clock), clock


def served(queue: FairQueue[redis.Redis], n: int = 1) -> list[str | None]:
    return [d.client for d in queue.take(n, consumer="w", lease=5).deliveries]


@pytest.mark.parametrize("n", [1, 5])
def test_a_client_whose_list_is_no_list_holds_nobody_up(
    client: redis.Redis, fair: tuple[FairQueue[redis.Redis], FakeClock], n: int
) -> None:
    queue, _ = fair
    for name in ("ann", "bob", "cem", "dan"):
        queue.submit(name, [(f"{name}{k}", b"x") for k in range(6)])
    seen = client.lrange(queue.keys["c_"] + "ann", 0, -1)
    with (
        in_the_way(client, queue.keys["c_"] + "ann", "anns"),
        in_the_way(client, queue.keys["c_"] + "cem", "cems"),
    ):
        got = [one for _ in range(12) for one in served(queue, n)]
        assert sorted(map(str, got)) == ["bob"] * 6 + ["dan"] * 6
        assert got[:4] in (["bob", "dan"] * 2, ["dan", "bob"] * 2)
        assert served(queue, n) == []
        assert queue.checkup(thorough=True).flaws == (
            f"key {queue.keys['c_']}ann is a string where a list belongs",
            f"key {queue.keys['c_']}cem is a string where a list belongs",
        )
    assert queue.invariants() == []
    assert client.lrange(queue.keys["c_"] + "ann", 0, -1) == seen
    queue.submit("bob", [("late", b"x")])
    got = [served(queue)[0] for _ in range(6)]
    assert got.count("bob") == 1 and got.count("ann") > 1 and got.count("cem") > 1
    assert len(served(queue, 20)) == 7
    assert queue.invariants() == []


def test_what_comes_back_to_such_a_client_is_put_off_and_not_lost(
    client: redis.Redis, fair: tuple[FairQueue[redis.Redis], FakeClock]
) -> None:
    queue, clock = fair
    held = filled(queue, clock)
    before = queue.counts()
    with in_the_way(client, queue.keys["c_"] + "ann"):
        said = queue.settle([Settlement(held[6], "fail", ERROR), Settlement(held[7], "ack")])
        assert said == ["retry", "done"]
        clock.advance(6)
        taken = queue.take(50, consumer="w2").deliveries
        assert taken and {d.client for d in taken} == {"bob"}
        with pytest.raises(WrongKind, match="c:ann is a string"):
            queue.submit("ann", [b"more"])
        counts = queue.counts()
        assert (counts.of("delayed"), counts.of("dead")) == (2, before.of("dead"))
        queue.settle([Settlement(d, "ack") for d in taken])
        assert served(queue, 50) == []
        queue.sweep()
    assert queue.invariants() == []
    clock.advance(10)
    assert set(served(queue, 50)) == {"ann"}
    assert queue.invariants() == []


def test_a_replay_for_such_a_client_is_refused_and_for_others_is_not(
    client: redis.Redis, fair: tuple[FairQueue[redis.Redis], FakeClock]
) -> None:
    queue, clock = fair
    held = filled(queue, clock)
    by = {d.client: d.id for d in held[2:4]}
    with in_the_way(client, queue.keys["c_"] + "ann"):
        seen = picture(client)
        for step, some in enumerate(([by["ann"]], [by["bob"], by["ann"]], [by["bob"]]), 1):
            if some[-1] == by["ann"]:
                with pytest.raises(WrongKind, match="c:ann is a string"):
                    queue.move(
                        "op",
                        step,
                        some,
                        source="dead",
                        target="waiting",
                        high_water_ms=clock.now_ms,
                    )
                assert picture(client) == seen
            else:
                assert queue.move(
                    "op", step, some, source="dead", target="waiting", high_water_ms=clock.now_ms
                ) == ["moved"]
    assert queue.invariants() == []


def test_a_move_from_or_to_such_a_client_is_refused(
    client: redis.Redis, fair: tuple[FairQueue[redis.Redis], FakeClock]
) -> None:
    source, clock = fair
    target = FairQueue(client, "into", clock=clock)
    target.submit("dan", [b"x"])
    filled(source, clock)
    op, some = "move-00000000aa", [e.id for e in source.page("waiting", None, 9).entries]
    said = source.move(op, 1, some, source="waiting", target="trash", high_water_ms=clock.now_ms)
    assert said == ["moved"] * len(some)
    cargo = run(client, transfer.read_step(source, op, 1))
    with in_the_way(client, target.keys["c_"] + "ann"):
        seen = picture(client)
        with pytest.raises(WrongKind, match=r"into}:c:ann is a string"):
            run(client, transfer.accept_entries(target, op, 1, cargo, 1000))
        assert picture(client) == seen
    with in_the_way(client, source.keys["c_"] + "ann"):
        seen = picture(client)
        with pytest.raises(WrongKind, match=r"q}:c:ann is a string"):
            run(
                client, transfer.restore_entries(source, "back", 1, op, 1, cargo[::-1], undone=True)
            )
        assert picture(client) == seen
    run(client, transfer.restore_entries(source, "back", 1, op, 1, cargo, undone=True))
    assert source.invariants() == target.invariants() == []
    assert {e.id for e in source.page("waiting", None, 9).entries} == set(some)


def test_every_shards_keys_are_looked_at(client: redis.Redis) -> None:
    queue = ShardedFairQueue(client, "q", shards=3)
    queue.submit("ann", [("a", b"x")])
    other = ShardedFairQueue(client, "q")
    with in_the_way(client, "redisq:{q/2}:dead"):
        seen = picture(client)
        for attempt in (
            lambda: other.take(1, consumer="w"),
            lambda: other.submit("bob", [("b", b"x")]),
        ):
            with pytest.raises(WrongKind, match=r"redisq:{q/2}:dead"):
                attempt()
        assert picture(client) == seen
        assert other.checkup().flaws == ("key redisq:{q/2}:dead is a string where a zset belongs",)
    assert len(other.take(5, consumer="w").deliveries) == 1


@pytest.mark.alike
@pytest.mark.parametrize(
    ("kind", "part"), [("fair", "c_"), ("circular", "queue"), ("carmine", "locks")]
)
def test_fsck_names_the_key(
    client: redis.Redis,
    capsys: pytest.CaptureFixture[str],
    naps: list[Callable[[float], object]],
    url: str,
    kind: str,
    part: str,
) -> None:
    naps.append(lambda seconds: None)
    queue = made(client, kind, FakeClock())
    put(queue, 2)
    queue.take(1, consumer="w")
    key = queue.keys[part] + ("ann" if part == "c_" else "")
    with in_the_way(client, key):
        out = Redisq(url, capsys)("fsck", queue.name, code=1)
    assert out.splitlines()[1:] == [
        f"  key {key} is a string where a {'hash' if kind == 'carmine' else 'list'} belongs"
    ]
