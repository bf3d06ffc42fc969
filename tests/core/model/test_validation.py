"""What producers hand in by mistake: one error of ours that says what belongs there, alike for all
kinds of queue, before anything is sent. What is iterable is as good as a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any, cast

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
    Retry,
    ShardedDelaySet,
    SidekiqQueue,
    Worker,
    aconnect,
    connect,
)
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, NotFound
from redisq_ops.core.queues.request import ShardedRequestQueue

from ...command_line import Redisq
from ...model.wire import picture
from ...queue_steps import numbered

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
        assert str(said.value) == f"{what} must be a list, not {type(single).__name__}"
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
    with pytest.raises(BadInput, match="must be a list, not str"):
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
        "request": RequestQueue,
        "circular": CircularQueue,
        "fair": FairQueue,
        "client": FairQueue,
        "carmine": CarmineQueue,
        "resque": ResqueQueue,
        "sidekiq": SidekiqQueue,
        "shards": ShardedDelaySet,
    }.get(kind, DelaySet)
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
        RequestQueue,
        DelaySet,
        CircularQueue,
        FairQueue,
        CarmineQueue,
        ResqueQueue,
        SidekiqQueue,
        partial(ShardedDelaySet, shards=2),
    ]
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
    with pytest.raises(BadInput, match="url must be a str, not Redis"):
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


E = ("e", b"x")
JOB = Job("A", [])
AT = 1_800_000_000
MOMENT = datetime.fromtimestamp(AT, UTC)
WRONG: list[tuple[str, Callable[[redis.Redis], Any], str]] = [
    ("mode", lambda c: later(c).schedule([E], mode="mvoe"), "mode 'mvoe': one of new, move"),  # type: ignore[arg-type]
    ("negative", lambda c: later(c).schedule([E], after=-1), "after of -1: seconds from 0 to"),
    ("ms", lambda c: later(c).schedule([E], at=AT * 1000), "at of 1800000000000: Unix seconds exp"),
    ("duration", lambda c: later(c).schedule([E], at=60), "at of 60: Unix seconds expected, and"),
    ("bool", lambda c: later(c).schedule([E], after=True), "a timedelta, not bool"),
    ("bool at", lambda c: later(c).schedule([E], at=True), "a datetime, not bool"),
    ("both", lambda c: later(c).schedule([E], at=AT, after=0), "give one of them"),
    ("naive", lambda c: later(c).schedule([E], at=MOMENT.replace(tzinfo=None)), "no time zone"),
    ("both of a job", lambda c: jobs(c).push([JOB], at=AT, after=0), "give one of them"),
    ("ms of a job", lambda c: jobs(c).push([JOB], at=AT * 1000), "Unix seconds expected, until"),
    ("lease", lambda c: later(c).take(1, consumer="w", lease=-1), "lease of -1: seconds from 0"),
    ("lease bool", lambda c: later(c).take(1, consumer="w", lease=True), "timedelta, not bool"),
    ("worker", lambda c: Worker(later(c), str, lease=timedelta(-1)), "seconds from 0.001"),
    ("backoff", lambda c: mails(c).enqueue([E], backoff=timedelta(-1)), "seconds from 0"),
    ("n", lambda c: later(c).take(True, consumer="w"), "n must be an int, not bool"),
    ("n float", lambda c: later(c).take(1.0, consumer="w"), "n must be an int, not float"),  # type: ignore[arg-type]
    ("state", lambda c: later(c).page("death"), "state 'death': one of waiting, pending"),  # type: ignore[arg-type]
    ("max", lambda c: later(c).page("dead", max=-1), "max must be at least 0, not -1"),
    ("start", lambda c: later(c).page("dead", start=-1), "start must be at least 0"),
    ("cursor", lambda c: later(c).page("dead", cursor=5), "cursor must be a str, not int"),  # type: ignore[arg-type]
    ("id", lambda c: later(c).get(5), "id must be a str, not int"),  # type: ignore[arg-type]
    ("minutes", lambda c: later(c).rates(AT, 0), "minutes must be at least 1"),
    ("results", lambda c: requests(c).results("r", 0), "start must be at least 1"),
    ("limit", lambda c: requests(c).submit([b"x"], id="r", limit=True), "limit must be an int"),
    ("priority", lambda c: requests(c).submit([b"x"], id="r", priority="9"), "priority must be an"),  # type: ignore[arg-type]
    ("settled", lambda c: requests(c).requests(settled=1), "settled must be a bool, not int"),  # type: ignore[arg-type]
    ("retry", lambda c: Retry(after=-1), "after of -1: seconds from 0 to"),
    ("retry nan", lambda c: Retry(after=float("nan")), "after of nan: seconds from 0 to"),
    ("retry bool", lambda c: Retry(after=True), "a timedelta, not bool"),
]


def later(client: redis.Redis) -> DelaySet[redis.Redis]:
    return DelaySet(client, "q")


def jobs(client: redis.Redis) -> SidekiqQueue[redis.Redis]:
    return SidekiqQueue(client, "sidekiq:q")


def mails(client: redis.Redis) -> CarmineQueue[redis.Redis]:
    return CarmineQueue(client, "carmine:q")


def requests(client: redis.Redis) -> RequestQueue[redis.Redis]:
    return RequestQueue(client, "q")


@pytest.mark.alike
@pytest.mark.parametrize(("call", "said"), [case[1:] for case in WRONG], ids=[c[0] for c in WRONG])
def test_a_wrong_argument_is_one_line_and_nothing_is_sent(
    client: redis.Redis, call: Callable[[redis.Redis], Any], said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        call(client)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not picture(client)


def test_a_datetime_and_a_timedelta_are_times(client: redis.Redis) -> None:
    queue, stored = later(client), cast(Any, client)
    moment = MOMENT.astimezone(timezone(timedelta(hours=2)))
    assert [one.ready_ms for one in queue.schedule([E], at=moment)] == [AT * 1000]
    assert queue.schedule([E], at=AT)[0].word == "same"
    assert queue.schedule([E], at=AT + 0.001)[0].word == "exists"
    assert queue.schedule([E], after=timedelta(hours=1))[0].word == "exists"
    assert jobs(client).push([JOB], at=moment)
    ((_, score),) = stored.zrange("schedule", 0, -1, withscores=True)
    assert score == AT
    fast = FairQueue(client, "fast", clock=FakeClock())
    fast.submit("ann", [b"x", b"y"])
    one, two = fast.take(2, consumer="w", lease=timedelta(minutes=1)).deliveries
    assert one.deadline_ms == 1_700_000_060_000
    assert fast.extend([one], timedelta(minutes=2)) == [True]
    fast.settle([Settlement(one, "fail", b"{}", timedelta(seconds=5)), Settlement(two, "ack")])
    (entry,) = fast.page("delayed").entries
    assert entry.at_ms == 1_700_000_005_000
    assert Retry(after=timedelta(seconds=1.5)).after == 1.5
    sent = queue.score_ranges("delayed", 10, AT * 1000, AT * 1000)
    assert sent is not None and [span.entries for span in sent] == [1]


def test_results_are_those_there_are(client: redis.Redis, redisq: Redisq) -> None:
    for queue in (requests(client), ShardedRequestQueue(client, "wide", shards=2)):
        queue.submit([b"x"] * 3, id="r")
        (held,) = queue.take(1, consumer="w").deliveries
        queue.settle([Settlement(held, "result", b"done")])
        assert numbered(queue.results("r")) == [(1, b"done"), (2, None), (3, None)]
        assert (
            numbered(queue.results("r", 3)) == [(3, None)] and numbered(queue.results("r", 4)) == []
        )
        with pytest.raises(NotFound, match="no request other in queue"):
            queue.results("other")
    assert "no request other in queue q" in redisq.refusal("results", "q/other", code=1)
