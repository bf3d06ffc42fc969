"""What producers hand in by mistake: one error of ours that says what belongs there, alike for all
kinds of queue, before anything is sent. What is iterable is as good as a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import redis

from redisq_ops import (
    CarmineQueue,
    CircularQueue,
    DelaySet,
    FairQueue,
    Job,
    Periodic,
    RequestQueue,
    ResqueQueue,
    ShardedDelaySet,
    SidekiqQueue,
    Worker,
    aconnect,
    connect,
)
from redisq_ops.core.errors import BadInput

from .model.wire import picture

PAIR = "(id, payload), str and bytes,"
Put = Callable[[Any], Any]
KINDS: dict[str, tuple[Callable[[Any], Put], str, str]] = {
    "request": (
        lambda c: lambda given: RequestQueue(c, "q").submit(given, id="r"),
        "payloads",
        "a payload (bytes)",
    ),
    "delay": (lambda c: DelaySet(c, "q").schedule, "entries", PAIR),
    "shards": (lambda c: ShardedDelaySet(c, "q", shards=2).schedule, "entries", PAIR),
    "circular": (lambda c: CircularQueue(c, "q").push, "ids", f"an id (str), or {PAIR}"),
    "fair": (
        lambda c: lambda given: FairQueue(c, "q").submit("ann", given),
        "entries",
        f"a payload (bytes), or {PAIR}",
    ),
    "client": (
        lambda c: FairQueue(c, "q").of("ann").submit,
        "entries",
        f"a payload (bytes), or {PAIR}",
    ),
    "carmine": (lambda c: CarmineQueue(c, "carmine:q").enqueue, "messages", PAIR),
    "resque": (lambda c: ResqueQueue(c, "resque:q").push, "jobs", "a Job"),
    "sidekiq": (lambda c: SidekiqQueue(c, "sidekiq:q").push, "jobs", "a Job"),
}
GOOD: dict[str, tuple[Any, ...]] = {
    "request": (b"x", b"y"),
    "circular": ("a", ("b", b"y")),
    "fair": (b"x", ("b", b"y")),
    "client": (b"x", ("b", b"y")),
    "resque": (Job("A", [1]), Job("A", [2])),
    "sidekiq": (Job("A", [1]), Job("A", [2])),
}
SINGLE: list[Any] = [5, None, b"x", {"a": b"x"}, Job("A")]
ODD: list[tuple[Any, str]] = [
    (5, "int"),
    (None, "NoneType"),
    (("a", "x"), "(str, str)"),
    ((b"a", b"x"), "(bytes, bytes)"),
    (("a", 5), "(str, int)"),
    (("a", None), "(str, NoneType)"),
    (("a",), "(str)"),
    (("a", b"x", b"y"), "(str, bytes, bytes)"),
    ((), "()"),
    (bytearray(b"x"), "bytearray"),
    ({"id": "a"}, "dict"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_one_error_says_what_belongs_there(client: redis.Redis, kind: str) -> None:
    make, what, wanted = KINDS[kind]
    put = make(client)
    for single in SINGLE:
        with pytest.raises(BadInput) as said:
            put(single)
        assert str(said.value) == f"{what} are given as a list, not as {type(single).__name__}"
    good = GOOD.get(kind, (("a", b"x"), ("b", b"y")))
    odd = [*ODD, *([] if kind == "circular" else [("x", "str")])]
    odd += [] if kind in ("fair", "client", "request") else [(b"x", "bytes")]
    for one, is_ in odd:
        with pytest.raises(BadInput) as said:
            put([good[0], one])
        assert str(said.value) == f"entry 2 is {is_}, where {wanted} belongs"
    assert not picture(client), "nothing of it was sent"


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_no_list_of_letters(client: redis.Redis, kind: str) -> None:
    put = KINDS[kind][0](client)
    if kind == "circular":
        assert put("abc") == ["new"]  # as documented: one id
        return
    with pytest.raises(BadInput, match="are given as a list, not as str"):
        put("abc")


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_gone_through_once_is_put_in_whole(client: redis.Redis, kind: str) -> None:
    put = KINDS[kind][0](client)
    good = GOOD.get(kind, (("a", b"x"), ("b", b"y")))

    def generated() -> Iterable[Any]:
        yield from good

    said = put(generated())
    assert said.total == 2 if kind == "request" else len(said) == 2
    made: Any = {
        "request": RequestQueue, "circular": CircularQueue, "fair": FairQueue, "client": FairQueue,
        "carmine": CarmineQueue, "resque": ResqueQueue, "sidekiq": SidekiqQueue,
        "shards": ShardedDelaySet,
    }.get(kind, DelaySet)  # fmt: skip
    queue = made(client, f"{kind}:q" if kind in ("carmine", "resque", "sidekiq") else "q")
    counts = queue.counts()
    assert counts.waiting + counts.delayed == 2


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "request"])
def test_nothing_is_put_in_by_an_empty_list(client: redis.Redis, kind: str) -> None:
    put = KINDS[kind][0](client)
    assert put([]) == [] == put(iter(()))
    assert not picture(client)


def test_a_queue_needs_a_client(url: str) -> None:
    kinds: list[Any] = [
        RequestQueue, DelaySet, CircularQueue, FairQueue, CarmineQueue, ResqueQueue, SidekiqQueue,
        partial(ShardedDelaySet, shards=2),
    ]  # fmt: skip
    for kind in kinds:
        name = getattr(kind, "kind", "q")
        with pytest.raises(
            BadInput, match=r"needs a client, not str: make one with connect\(URL\)"
        ):
            kind(url, f"{name}:q" if name in ("resque", "sidekiq") else "q")
    for queues in (url, [url], 5):
        with pytest.raises(BadInput, match="a worker"):
            Worker(queues, print)  # type: ignore[arg-type]
    client: Any = connect(url)
    with pytest.raises(BadInput, match="connect takes a URL or a Target, not Redis"):
        connect(client)
    for prefix in ("a{b", "", "a b", 5):
        with pytest.raises(BadInput, match="prefix"):
            RequestQueue(client, prefix=prefix)  # type: ignore[arg-type]
    client.close()


def test_names_are_texts(client: redis.Redis) -> None:
    makes: list[Callable[[], Any]] = [
        lambda: RequestQueue(client, "q").submit([b"x"], id=5),  # type: ignore[arg-type]
        lambda: FairQueue(client, "q").submit(None, [b"x"]),  # type: ignore[arg-type]
        lambda: DelaySet(client, 7),  # type: ignore[arg-type]
    ]
    for make, is_ in zip(makes, ("int", "NoneType", "int"), strict=True):
        with pytest.raises(BadInput, match=f"must be a str, not {is_}"):
            make()


def test_what_a_job_and_a_periodic_entry_are_made_of(client: redis.Redis) -> None:
    for kind in (ResqueQueue, SidekiqQueue):
        queue: Any = kind(client, f"{kind.kind}:q")
        args: Any
        for args in ("text", b"x", {"a": 1}, 5, None):
            with pytest.raises(BadInput, match="job A: its arguments are given as a list, not as"):
                queue.push([Job("A", args)])
        name: Any
        for name in ("", None, 5):
            with pytest.raises(BadInput, match=r"a job names a class \(str\)"):
                queue.push([Job(name, [])])
    with pytest.raises(BadInput, match="its payload must be bytes, not str"):
        DelaySet(client, "q").set_periodic(Periodic("p", "* * * * *", "x"))  # type: ignore[arg-type]
    assert not picture(client)


async def _awaited(url: str) -> None:
    queue = CircularQueue(aconnect(url), "q")
    with pytest.raises(BadInput, match="entry 1 is int, where an id"):
        await queue.push([1])  # type: ignore[list-item]
    await queue.client.aclose()


def test_awaited_methods_say_the_same(url: str) -> None:
    import asyncio

    asyncio.run(_awaited(url))
