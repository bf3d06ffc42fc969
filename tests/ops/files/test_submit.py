"""Streaming submission, and the outcomes of a request."""

import io
import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.errors import Exists, QueueFull, TooLarge
from redisq_ops.core.model.ulid import ulids
from redisq_ops.core.queues.request import RequestQueue, stream
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.files.submit import EachLine, LineCounts, Submission, lines, memory
from redisq_ops.ops.inspect.results import PAGE, Results

from ...proxy import FlakyProxy

PAYLOADS = [b"%d" % n * (n % 7) for n in range(1, 1235)]


class Cut(Exception):
    """The input breaks off here."""


def breaking(payloads: list[bytes], at: int) -> Iterator[bytes]:
    yield from payloads[:at]
    raise Cut


def finish(client: redis.Redis, job: Submission | EachLine) -> None:
    while run(client, job.step()):
        pass


def submit(client: redis.Redis, payloads: Any, **more: Any) -> str:
    job = Submission(RequestQueue(client, "q"), payloads, id="r", **more)
    finish(client, job)
    assert job.done is not None
    return job.done.word


def content(client: redis.Redis, id: str = "r") -> list[bytes]:
    rows = run(client, stream.entries(RequestQueue(client, "q").keys["s_"] + id, "-", "+", 10**6))
    assert [number for number, _ in rows] == list(range(1, len(rows) + 1))
    return [payload for _, payload in rows]


def everything(client: redis.Redis) -> dict[bytes, bytes | None]:
    return {key: client.dump(key) for key in client.scan_iter() if not key.endswith(b"queues")}


def test_a_stream_becomes_one_sealed_request_in_order(client: redis.Redis) -> None:
    assert submit(client, iter(PAYLOADS), limit=7, priority=3) == "ok"
    queue = RequestQueue(client, "q")
    found = queue.request("r")
    assert found is not None
    assert (found.state, found.total, found.limit, found.priority) == ("sealed", 1234, 7, 3)
    assert content(client) == PAYLOADS
    assert queue.invariants() == []
    assert submit(client, iter(PAYLOADS), limit=7, priority=3) == "same"


@pytest.mark.parametrize("at", [1, 100, 101, 250, 1000, 1233])
def test_what_broke_off_goes_on_and_sends_only_what_is_missing(
    client: redis.Redis, at: int
) -> None:
    queue = RequestQueue(client, "q")
    job = Submission(queue, breaking(PAYLOADS, at), id="r")
    with pytest.raises(Cut):
        finish(client, job)
    known = queue.request("r")
    assert (known.total if known else 0) == job.sent <= at
    if known:
        assert known.state == "open"
        assert content(client) == PAYLOADS[: job.sent]
    assert submit(client, iter(PAYLOADS)) == "ok"
    assert content(client) == PAYLOADS
    minutes = queue.rates(queue.now(), 5).arrived
    assert sum(minutes) == len(PAYLOADS)


def test_an_open_request_that_has_everything_is_sealed(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")
    job = Submission(queue, breaking(PAYLOADS, 500), id="r")
    with pytest.raises(Cut):
        finish(client, job)
    assert submit(client, PAYLOADS[: job.sent]) == "ok"
    found = queue.request("r")
    assert found is not None
    assert (found.state, found.total) == ("sealed", job.sent)


@pytest.mark.parametrize("there", [2, 300])
@pytest.mark.parametrize(
    "other",
    [
        lambda p: p[:-1],
        lambda p: [*p, b"more"],
        lambda p: [b"x", *p[1:]],
        lambda p: [*p[:-1], b"x"],
        lambda p: [p[0] + p[1], *p[2:]],
        lambda p: [],
    ],
    ids=["shorter", "longer", "first", "last", "joined", "none"],
)
def test_other_content_is_refused_and_changes_nothing(
    client: redis.Redis, there: int, other: Any
) -> None:
    mine = PAYLOADS[6 : 6 + there]
    submit(client, mine)
    before = everything(client)
    with pytest.raises(Exists, match="request r "):
        submit(client, other(mine))
    with pytest.raises(Exists):
        RequestQueue(client, "q").submit(other(mine), id="r")
    assert everything(client) == before


@pytest.mark.parametrize("more", [{"limit": 5}, {"priority": 51}])
def test_other_parameters_are_refused(client: redis.Redis, more: dict[str, int]) -> None:
    submit(client, PAYLOADS)
    with pytest.raises(Exists):
        submit(client, PAYLOADS, **more)


def test_a_cancelled_request_is_not_gone_on_with(client: redis.Redis) -> None:
    submit(client, PAYLOADS)
    RequestQueue(client, "q").control("op", 1, "cancel", "r")
    with pytest.raises(Exists, match="was cancelled"):
        submit(client, PAYLOADS)


def test_twins_at_the_same_time_make_one_request(client: redis.Redis) -> None:
    dice = random.Random(5)
    jobs = [Submission(RequestQueue(client, "q"), iter(PAYLOADS), id="r") for _ in range(3)]
    open_ = list(jobs)
    while open_:
        job = dice.choice(open_)
        if not run(client, job.step()):
            open_.remove(job)
    assert content(client) == PAYLOADS
    assert sorted(job.done.word for job in jobs if job.done) == ["ok", "same", "same"]


def test_a_full_queue_takes_the_rest_later(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")
    queue.configure("op", 1, {"max_waiting": "500"})
    with pytest.raises(QueueFull):
        submit(client, PAYLOADS)
    queue.configure("op", 2, {"max_waiting": ""})
    assert submit(client, PAYLOADS) == "ok"
    assert content(client) == PAYLOADS


def test_a_step_that_found_the_queue_full_can_be_called_again(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")
    queue.submit([b"first"], id="first")
    queue.configure("op", 1, {"max_waiting": "650"})
    job = Submission(queue, iter(PAYLOADS), id="r")
    for _ in range(2):
        with pytest.raises(QueueFull):
            finish(client, job)
        assert 0 < job.sent < len(PAYLOADS)
    queue.configure("op", 2, {"max_waiting": ""})
    finish(client, job)
    assert job.done is not None and job.done.word == "ok"
    assert content(client) == PAYLOADS


@pytest.mark.slow
def test_lost_replies_double_nothing(server: EmbeddedServer, client: redis.Redis) -> None:
    with FlakyProxy(server.port) as proxy:
        flaky = connect(proxy.url)
        assert isinstance(flaky, redis.Redis)
        job = Submission(RequestQueue(flaky, "q"), iter(PAYLOADS), id="r")
        each = EachLine(RequestQueue(flaky, "q"), iter(PAYLOADS[:250]), id="e")
        for one in (job, each):
            proxy.drop_replies(1)
            while run(flaky, one.step()):
                proxy.drop_replies(1)
        proxy.drop_replies(0)
        flaky.close()
    assert content(client) == PAYLOADS
    assert each.done is not None
    assert RequestQueue(client, "q").requests_total() == 1 + 250


def test_a_request_per_line(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")

    def each(payloads: list[bytes]) -> EachLine:
        job = EachLine(queue, iter(payloads), id="e", priority=7)
        finish(client, job)
        return job

    first = each(PAYLOADS[:250]).done
    assert first is not None
    assert (first.word, first.total) == ("ok", 250)
    assert queue.requests_total() == 250
    assert content(client, "e-17") == [PAYLOADS[16]]
    last = queue.request("e-250")
    assert last is not None
    assert (last.state, last.total, last.priority) == ("sealed", 1, 7)
    again, longer = each(PAYLOADS[:250]).done, each(PAYLOADS[:251]).done
    assert again is not None
    assert longer is not None
    assert (again.word, longer.word, longer.total) == ("same", "ok", 251)
    with pytest.raises(Exists, match="request e-7 "):
        each([*PAYLOADS[:6], b"other"])


@pytest.mark.slow
def test_a_request_of_one_takes_the_memory_we_say(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")
    finish(client, EachLine(queue, [b"x" * 100] * 1000, id="warm-up"))
    before = client.info("memory")["used_memory"]
    finish(client, EachLine(queue, [b"x" * 100] * 4000, id=ulids(1)[0]))
    taken = client.info("memory")["used_memory"] - before
    assert 0.9 < taken / memory(4000, 400_000) < 1.1


# --- reading input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "split", "payloads"),
    [
        (b"", 1, []),
        (b"\n", 1, [b""]),
        (b"a\n\nb", 1, [b"a", b"", b"b"]),
        (b"a\r\n\xff\x00\r\n", 1, [b"a\r", b"\xff\x00\r"]),
        (b"a\nb\nc\nd\ne\n", 2, [b"a\nb", b"c\nd", b"e"]),
        (b"\n\n\n", 2, [b"\n", b""]),
    ],
)
def test_lines_become_payloads(data: bytes, split: int, payloads: list[bytes]) -> None:
    assert list(lines(io.BytesIO(data), split=split)) == payloads


@pytest.mark.parametrize(
    ("data", "split", "good", "said"),
    [
        (b"12345\n123456\n1\n", 1, 1, "line 2 is over the limit of 5 bytes"),
        (b"12345\n" + b"x" * 10_000, 1, 1, "line 2 is over"),
        (b"1\n2\n12\n345\n1\n", 2, 1, "with line 4 the chunk is over"),
        (b"12345\n\n", 2, 0, "with line 2 the chunk is over"),
    ],
)
def test_a_line_over_the_limit_is_named(data: bytes, split: int, good: int, said: str) -> None:
    found: list[bytes | None] = []
    source = io.BytesIO(data)
    with pytest.raises(TooLarge, match=said):
        for payload in lines(source, 5, split):
            found.append(payload)
    assert len(found) == good
    assert source.tell() < 30


@pytest.mark.parametrize(
    ("data", "split", "payloads", "skipped"),
    [
        (b"12345\n123456\n1\n", 1, [b"12345", None, b"1"], [2]),
        (b"1234567\n" + b"x" * 10_000, 1, [None, None], [1, 2]),
        (b"1\n123456\n2\n3\n", 2, [b"1\n2", b"3"], [2]),
        (b"1\n2\n12\n345\n1\n", 2, [b"1\n2", None, b"1"], [3, 4]),
        (b"123\n1234567\n456", 2, [None], [2, 1, 3]),
        (b"", 1, [], []),
    ],
)
def test_lines_over_the_limit_are_left_out_where_that_is_wanted(
    data: bytes, split: int, payloads: list[bytes | None], skipped: list[int]
) -> None:
    seen: list[tuple[int, str]] = []
    found = list(lines(io.BytesIO(data), 5, split, lambda *each: seen.append(each)))
    assert (found, [number for number, _ in seen]) == (payloads, skipped)
    assert all("over the limit of 5" in why for _, why in seen)
    if len(data) > 5000:
        assert seen[-1][1].startswith("10,000 bytes")
    counts = LineCounts()
    counts.of(lines(io.BytesIO(data), 5, split, counts.reject))
    assert counts.lines == len(data.splitlines()) and counts.rejects == len(skipped)
    kept = [payload for payload in payloads if payload is not None]
    assert (counts.payloads, counts.size) == (len(kept), sum(map(len, kept)))


def test_ids_are_ulids() -> None:
    assert ulids(1, lambda: 0, lambda bits: 0) == ["0" * 26]
    assert ulids(1, lambda: (1 << 48) - 1, lambda bits: (1 << bits) - 1) == ["7" + "Z" * 25]
    (example,) = ulids(1, lambda: 1469918176385)  # of the ULID specification
    assert example.startswith("01ARYZ6S41")
    ticks = count(1)
    made = [ulids(1, lambda: next(ticks))[0] for _ in range(2000)]
    assert made == sorted(made)
    assert len({ulids(1, lambda: 7)[0] for _ in range(1000)}) == 1000


# --- what came of it ------------------------------------------------------------------------------


def test_every_state_is_told_with_its_result_or_error(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")
    queue.submit([b"%d" % n for n in range(1, 12)], id="r", limit=20)
    d = queue.take(8, consumer="w").deliveries
    why = Failure("Odd", "it is odd").encoded()
    queue.settle(
        [
            Settlement(d[0], "result", b"one"),
            Settlement(d[1], "ack"),
            Settlement(d[2], "reject", why),
            Settlement(d[3], "fail", why, 60),
            Settlement(d[4], "release"),
            Settlement(d[6], "result", b"\xff\xfe"),
        ]
    )
    queue.move("op", 1, ["r/9", "r/8"], source="waiting", target="trash", high_water_ms=1 << 50)
    queue.move("op2", 1, ["r/8"], source="pending", target="trash", high_water_ms=1 << 50)
    page = run(client, Results(queue, "r").page())
    assert [(o.number, o.state, o.result) for o in page] == [
        (1, "done", b"one"),
        (2, "done", None),
        (3, "dead", None),
        (4, "delayed", None),
        (5, "waiting", None),
        (6, "pending", None),
        (7, "done", b"\xff\xfe"),
        (8, "trash", None),
        (9, "trash", None),
        (10, "waiting", None),
        (11, "waiting", None),
    ]
    assert (page[2].reason, page[2].error) == ("rejected", Failure("Odd", "it is odd"))
    queue.control("op3", 1, "cancel", "r")
    states = [o.state for o in run(client, Results(queue, "r").page())]
    assert (states[0], states[2], states[9]) == ("done", "dead", "trash")


def test_results_come_by_pages_in_order_also_of_a_finished_request(client: redis.Redis) -> None:
    queue = RequestQueue(client, "q")
    total = PAGE * 4 + 17  # across the hashes of a thousand results, too
    queue.submit([b"%d" % n for n in range(total)], id="r", limit=1000)
    while taken := queue.take(500, consumer="w").deliveries:
        queue.settle([Settlement(d, "result", b"<%s>" % d.payload) for d in reversed(taken)])
    look = Results(queue, "r")
    found = []
    while page := run(client, look.page()):
        assert len(page) <= PAGE
        found += page
    assert [(o.number, o.state, o.result) for o in found] == [
        (n + 1, "done", b"<%d>" % n) for n in range(total)
    ]
