"""The articles' own layouts, filled by the articles' own programs: shown as they are, and flagged
where the data shows what the layout is known for. Healthy data is not flagged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from redisq_ops.core.foreign.articles import (
    RawCircularQueue,
    RawDelaySet,
    RawFairQueue,
    RawRequestQueue,
)
from redisq_ops.core.foreign.articles.base import STALE_MS
from redisq_ops.core.model.entry import Entry, Page
from redisq_ops.core.model.errors import Refused, WrongKind
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq
from ...foreign_keys.article_programs import (
    CircularArticle,
    DelayArticle,
    FairArticle,
    RequestArticle,
)
from ...queue_steps import paged_ids

Client = redis.Redis


def ids(page: Page) -> list[str]:
    return [entry.id for entry in page.entries]


def seconds(client: Client) -> int:
    now: Any = client.time()
    return int(now[0])


def state_of(entry: Entry | None) -> str | None:
    return None if entry is None else entry.state


# --- article 000: tokens, streams and counters ------------------------------------


@pytest.fixture
def requests(client: Client) -> RawRequestQueue[Client]:
    return RawRequestQueue(client, "raw-request:req")


@pytest.fixture
def article(client: Client) -> RequestArticle:
    return RequestArticle(client)


def test_requests_at_work_are_not_flagged(
    requests: RawRequestQueue[Client], article: RequestArticle
) -> None:
    article.submit("r1", ["a", "b", "c"], limit=2, priority=7)
    article.submit("r2", ["d"], limit=1)
    assert requests.checkup().flaws == ()
    token = article.pop()
    assert token is not None and token[1] == "r2"
    held = article.read("r2", "w1")
    assert requests.checkup().flaws == ()  # its only token is with the worker
    assert held is not None
    article.done("r2", held[0])
    token = article.pop()
    held = article.read("r1", "w1")
    assert token is not None and held is not None
    article.done("r1", held[0])
    article.give_back(token)
    assert requests.checkup(thorough=True).flaws == ()
    assert requests.invariants() == []


def test_requests_are_counted_and_paged(
    requests: RawRequestQueue[Client], article: RequestArticle
) -> None:
    article.submit("r1", [f"a{n}" for n in range(5)], limit=3, priority=7)
    article.submit("{r} 2", [], limit=1)  # braces: A11
    article.submit("r3", ["x", "y"], limit=1)
    assert article.pop() == ("{req}:0", "{r} 2")
    first = article.read("r3", "w1")
    assert first is not None
    (level_0, level_7) = requests.levels()
    assert (level_7.priority, level_7.tokens, level_7.requests) == (7, 3, ("r1",))
    assert (level_0.tokens, level_0.requests) == (1, ("r3",))
    # Nothing lists the requests: an overview can't know how much there is.
    assert {requests.counts().of(state) for state in ("waiting", "pending", "done")} == {None}
    pending = requests.page("pending")
    assert ids(pending) == [f"r3/{first[0]}"] and pending.entries[0].consumer == "w1"
    waiting = paged_ids(requests, "waiting", 2)
    assert [id.partition("/")[0] for id in waiting] == ["r1"] * 5 + ["r3"]
    assert [state_of(requests.get(id)) for id in waiting] == ["waiting"] * 6
    entry = requests.get(pending.entries[0].id)
    assert state_of(entry) == "pending" and entry and entry.payload == b'{"req": "x"}'
    assert requests.get("r1/nope") is requests.get("r9/1-1") is requests.get("r1") is None
    requests.found = frozenset({b"r1", b"r3"})
    counts = requests.counts()
    assert (counts.of("waiting"), counts.of("pending"), counts.of("done")) == (6, 1, None)


def test_pages_go_on_when_the_cursors_request_is_gone(
    requests: RawRequestQueue[Client], article: RequestArticle, client: Client
) -> None:
    for name in ("r1", "r10", "r2", "r3"):
        article.submit(name, ["a", "b"], limit=2)
    for name in ("r10", "r3"):
        article.read(name, "w")
    page = requests.page("waiting", None, 3)
    assert [id.partition("/")[0] for id in ids(page)] == ["r1", "r1", "r10"]
    assert page.cursor is not None
    client.delete("sub:{r10}", "counter:{r10}")
    rest = paged_ids(requests, "waiting", 2, page.cursor)
    assert [id.partition("/")[0] for id in rest] == ["r2", "r2", "r3"]
    held = requests.page("pending", page.cursor, 9)
    assert [id.partition("/")[0] for id in ids(held)] == ["r3"]


def test_an_insertion_sent_again_is_flagged(
    requests: RawRequestQueue[Client], article: RequestArticle
) -> None:
    article.submit("r", ["a", "b", "c"], limit=1)
    with pytest.raises(redis.ResponseError):
        article.insert("r", ["a", "b", "c"])
    assert requests.checkup().flaws == ("r: its counter says 3, 0 are left: it never ends",)


def test_one_counted_twice_is_flagged_before_it_ends_too_early(
    requests: RawRequestQueue[Client], article: RequestArticle
) -> None:
    article.submit("r", ["a", "b", "c"], limit=1)
    token, held = article.pop(), article.read("r", "w1")
    assert token is not None and held is not None
    article.done("r", held[0])
    article.done("r", held[0])
    article.give_back(token)
    assert requests.checkup().flaws == (
        "r: its counter says 1, 2 are left: it ends before they ran",
    )


def test_what_is_left_after_the_end_is_flagged(
    requests: RawRequestQueue[Client], article: RequestArticle
) -> None:
    article.submit("r", ["a"], limit=3)
    token, held = article.pop(), article.read("r", "w1")
    assert token is not None and held is not None
    article.done("r", held[0])
    article.done("r", held[0])
    article.give_back(token)
    assert requests.checkup().flaws == (
        "r: its counter is -1: something was acknowledged after its end",
        "r: 3 tokens are left of a request that is gone",
    )


def test_a_lost_token_is_flagged(
    requests: RawRequestQueue[Client], article: RequestArticle, client: Client
) -> None:
    article.submit("r", ["a", "b"], limit=1)
    article.submit("held", ["a", "b"], limit=1)
    assert [article.pop() for _ in "12"] and article.read("held", "dead")
    assert requests.checkup().flaws == (
        "r: no token is left and nobody is at it: 2 of its entries never run",
    )
    (entry,) = requests.page("pending").entries
    stream = "sub:{held}"
    client.xclaim(stream, stream, "dead", 0, [entry.id.partition("/")[2]], idle=2 * STALE_MS)
    (said,) = (flaw for flaw in requests.checkup().flaws if flaw.startswith("held: "))
    assert said == (
        "held: no token is left, and what its workers have, they have had for 2 h: it stands still"
    )


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c: c.delete("counter:{r}"), "r: it has a stream and no counter"),
        (lambda c: c.delete("sub:{r}"), "r: its counter is 2 and it has no stream"),
        (lambda c: c.set("counter:{r}", "many"), "r: its counter is no number"),
        (lambda c: c.xgroup_destroy("sub:{r}", "sub:{r}"), "r: its stream has no group"),
        (lambda c: c.lpush("{req}:100", "r"), "tokens of priorities over 99 (1 lists)"),
        (lambda c: (c.delete("sub:{r}"), c.set("sub:{r}", "text")), "it has no stream"),
        (lambda c: (c.delete("counter:{r}"), c.lpush("counter:{r}", 1)), "no number"),
    ],
)
def test_spoilt_requests_are_flagged_and_read_on(
    requests: RawRequestQueue[Client],
    article: RequestArticle,
    client: Client,
    spoil: Callable[[Any], object],
    said: str,
) -> None:
    article.submit("r", ["a", "b"], limit=1)
    article.submit("sound", ["a", "b"], limit=1)
    spoil(client)
    flaws = requests.checkup().flaws
    assert any(said in flaw for flaw in flaws)
    assert not any("sound" in flaw for flaw in flaws)
    assert len(ids(requests.page("waiting"))) >= 2


def test_a_request_still_being_added_to_is_not_flagged(
    requests: RawRequestQueue[Client], article: RequestArticle, client: Client
) -> None:
    article.submit("r", ["a", "b"], limit=1)
    client.incr("counter:{r}")  # its sender counts as one until it is through
    assert requests.checkup().flaws == ()


def test_what_is_wrong_for_a_moment_only_is_not_flagged(
    requests: RawRequestQueue[Client],
    article: RequestArticle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    article.submit("r", ["a", "b"], limit=1)
    article.submit("lost", ["a"], limit=1)
    assert [article.pop() for _ in "12"] == [("{req}:0", "r"), ("{req}:0", "lost")]
    wrong, looks = RawRequestQueue._wrong, []

    async def moving(self: Any, ids: Any, tokens: Any) -> Any:
        looks.append(sorted(ids))
        found = await wrong(self, ids, tokens)
        article.read("r", "w1")  # the worker that had the token gets to its entry
        return found

    monkeypatch.setattr(RawRequestQueue, "_wrong", moving)
    (said,) = requests.checkup().flaws
    assert said.startswith("lost: ") and looks == [[b"lost", b"r"]] * 2


def test_a_look_at_many_requests_takes_few_round_trips(
    requests: RawRequestQueue[Client], article: RequestArticle, client: Client
) -> None:
    for n in range(300):
        article.submit(f"r{n}", ["a", "b"], limit=1)
        if n % 2:
            article.read(f"r{n}", "w")
    client.delete("{req}:0")
    trips = []
    send: Any = redis.Connection.send_packed_command

    def counted(self: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        trips.append(command)
        return send(self, command, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Connection, "send_packed_command", counted)
        flaws = requests.checkup().flaws
    assert len(flaws) == 150 and len(trips) <= 30


def test_another_tag_is_not_the_articles(client: Client) -> None:
    RequestArticle(client).insert("r", ["a"])
    assert RawRequestQueue(client, "raw-request:req").exists()
    assert not RawRequestQueue(client, "raw-request:other").exists()
    assert not RawRequestQueue(client, "raw-request").exists()


def test_no_sub_requests_at_all_is_flagged(
    requests: RawRequestQueue[Client], article: RequestArticle
) -> None:
    article.insert("r", [])
    assert requests.checkup().flaws == ("r: it has no sub-requests: nobody is notified of its end",)


def test_a_bounded_look_says_what_it_left_out(
    requests: RawRequestQueue[Client],
    article: RequestArticle,
    monkeypatch: pytest.MonkeyPatch,
    client: Client,
) -> None:
    for n in range(30):
        article.submit(f"r{n:02}", ["a"], limit=1)
    monkeypatch.setattr("redisq_ops.core.foreign.articles.request.REQUESTS", 20)
    assert requests.checkup().unseen == "only 20 of 30 requests"
    assert requests.checkup(thorough=True).unseen is None
    monkeypatch.setattr("redisq_ops.core.foreign.articles.request.TOKENS", 10)
    looked = requests.checkup()
    assert looked.unseen is not None and "not all tokens" in looked.unseen
    assert looked.flaws == ()  # tokens that were not read are not missing
    monkeypatch.setattr("redisq_ops.core.foreign.articles.request.LOOK_KEYS", 1000)
    client.mset({f"other:{n}": "x" for n in range(5000)})
    unseen = requests.checkup().unseen
    assert unseen is not None and "keys were looked through" in unseen


def test_a_key_of_another_type_where_tokens_are(
    requests: RawRequestQueue[Client], client: Client
) -> None:
    client.set("{req}:5", "text")
    with pytest.raises(WrongKind):
        requests.levels()


# --- article 002: the turning list --------------------------------------------------


@pytest.fixture
def circle(client: Client) -> RawCircularQueue[Client]:
    return RawCircularQueue(client, "raw-circular:queue")


@pytest.fixture
def turning(client: Client) -> CircularArticle:
    return CircularArticle(client)


def test_a_turning_list_is_counted_and_paged(
    circle: RawCircularQueue[Client], turning: CircularArticle, client: Client
) -> None:
    turning.push(*(str(n) for n in range(10)))
    now = seconds(client)
    assert [turning.next(now) for _ in range(4)] == ["0", "1", "2", "3"]
    assert (circle.counts().waiting, circle.counts().of("pending")) == (6, 4)
    assert paged_ids(circle, "waiting", 3) == [str(n) for n in range(4, 10)]
    assert paged_ids(circle, "pending", 3) == ["0", "1", "2", "3"]
    assert ids(circle.page("pending", start=1, max=2)) == ["1", "2"]
    entry = circle.get("2")
    assert entry is not None and (entry.state, entry.called) == ("pending", "processing")
    assert entry.since_ms == now * 1000 and entry.payload == b"2"
    assert state_of(circle.get("7")) == "waiting" and circle.get("17") is None
    assert circle.checkup().flaws == ()


def test_left_behind_marked_twice_and_asterisks_are_flagged(
    circle: RawCircularQueue[Client], turning: CircularArticle, client: Client
) -> None:
    now = seconds(client)
    turning.push("old", "user*1", "-1", "ahead")
    assert turning.next(now - 8000) == "old"
    assert turning.next(now) == "user*1"  # taken for one in progress since 1970
    assert turning.next(now) == "-1"
    assert turning.next(now + 3600) == "ahead"
    client.lpush("queue", f"45*{now}", f"45*{now - 1}")  # two saw the same time-out
    said = "\n".join(circle.checkup().flaws)
    assert "1 of 6 elements have an id with an asterisk (user)" in said
    assert (
        "1 of 6 elements have been in progress for more than an hour (old; the longest 2 h)" in said
    )
    assert "1 of 6 elements are marked more than once (45)" in said
    assert "the sentinel -1 is marked" in said
    assert "1 of 6 elements have a mark from the future" in said


def test_of_a_long_list_only_the_ends_are_read_and_it_says_so(
    circle: RawCircularQueue[Client], turning: CircularArticle, client: Client
) -> None:
    turning.push(*(str(n) for n in range(12_000)))
    turning.next(seconds(client))
    counts = circle.counts()
    assert (counts.waiting, counts.of("pending")) == (11_999, None)
    assert circle.checkup().unseen == "only 1,000 of 12,000 elements, from the tail"
    assert circle.checkup(thorough=True).unseen == "only 10,000 of 12,000 elements, from the tail"
    assert state_of(circle.get("0")) == "pending" and circle.get("6000") is None


# --- article 003: the delay set -----------------------------------------------------


@pytest.fixture
def later(client: Client) -> RawDelaySet[Client]:
    return RawDelaySet(client, "raw-delay:delay_set")


@pytest.fixture
def delays(client: Client) -> DelayArticle:
    return DelayArticle(client)


@pytest.mark.parametrize("unit", [1, 1000], ids=["seconds", "milliseconds"])
def test_a_delay_set_is_counted_and_paged(
    later: RawDelaySet[Client], delays: DelayArticle, client: Client, unit: int
) -> None:
    now = seconds(client)
    for n in range(7):
        delays.enqueue(f"due{n}", (now - 60 + n // 3) * unit)
    for n in range(5):
        delays.enqueue(f"late {n}", (now + 3600 + n / 4) * unit)
    counts = later.counts()
    assert (counts.waiting, counts.delayed, counts.oldest_ms) == (7, 5, (now - 60) * 1000)
    assert counts.of("pending") is None  # scheduled and in flight look alike
    assert paged_ids(later, "waiting", 2) == [f"due{n}" for n in range(7)]
    assert paged_ids(later, "delayed", 2) == [f"late%20{n}" for n in range(5)]
    assert ids(later.page("delayed", start=3, max=9)) == ["late%203", "late%204"]
    assert ids(later.page("waiting", start=5, max=9)) == ["due5", "due6"]
    entry = later.get("late%201")
    assert entry is not None and entry.at_ms == (now + 3600) * 1000 + 250
    assert (entry.state, entry.payload) == ("delayed", b"late 1")
    assert state_of(later.get("due0")) == "waiting" and later.get("nope") is None
    assert later.due_counts([(now + 3000) * 1000, (now + 3601) * 1000, (now + 4000) * 1000]) == [
        4,
        1,
    ]
    assert later.checkup().flaws == ()


def test_what_may_be_in_flight_is_flagged(
    later: RawDelaySet[Client], delays: DelayArticle, client: Client
) -> None:
    now = seconds(client)
    for n in range(3):
        delays.enqueue(f"job{n}", now - 5)
    assert later.checkup().flaws == ()
    delays.dequeue(now, 2)
    assert later.checkup().flaws == (
        "2 of 3 are due within 30 s: scheduled for then, or being worked on now; the set doesn't "
        "say which",
    )


def test_scores_that_are_no_times_and_nobody_taking_are_flagged(
    later: RawDelaySet[Client], client: Client
) -> None:
    now = seconds(client)
    client.zadd("delay_set", {"a": now - 7200, "b": now + 9e3, "c": 0, "d": (now + 9e3) * 1000})
    client.zadd("delay_set", {"e": now + 20 * 365 * 86400})
    said = "\n".join(later.checkup().flaws)
    assert "1 of 5 have been due for more than an hour" in said
    assert "1 of 5 have a score that is no time of this century" in said
    assert "1 of 5 have their time in milliseconds, the others in seconds" in said
    assert "1 of 5 are due in more than ten years" in said


# --- article 004: a list per client -------------------------------------------------


@pytest.fixture
def fair(client: Client) -> FairArticle:
    return FairArticle(client)


@pytest.fixture
def lists(client: Client) -> RawFairQueue[Client]:
    return RawFairQueue(client, "raw-fair:worker1")


def test_clients_lists_are_counted_and_paged(
    lists: RawFairQueue[Client], fair: FairArticle
) -> None:
    fair.send("ann", 1, 2, 3)
    fair.send("bob", *range(4))
    fair.processed(fair.receive("ann"))
    assert lists.checkup().flaws == ()  # nothing is wrong with what only waits
    held = fair.receive("bob")
    counts = lists.counts()
    # Nothing lists the clients: how much waits is found out by a look through the keys.
    assert (counts.of("waiting"), counts.pending, counts.dead) == (None, 1, 0)
    lists.found = frozenset({b"bqueues:worker1:ann", b"bqueues:worker1:bob"})
    assert lists.counts().of("waiting") == 5
    lists.found = None
    (pending,) = lists.page("pending").entries
    assert (pending.client, pending.called) == ("bob", "processing")
    assert json.loads(pending.payload or b"") == held
    for max in (1, 2, 5, 100):
        waiting = paged_ids(lists, "waiting", max)
        assert [id.partition(":")[0] for id in waiting] == ["ann"] * 2 + ["bob"] * 3
        assert len(set(waiting)) == 5
    assert [state_of(lists.get(id)) for id in [*waiting, pending.id, "ann:0"]] == (
        ["waiting"] * 5 + ["pending", None]
    )


def test_processing_without_lease_and_what_no_ack_removes_are_flagged(
    lists: RawFairQueue[Client], fair: FairArticle, client: Client
) -> None:
    fair.send("ann", "same", "same", 1)
    for _ in range(3):
        fair.receive("ann")
    processing = "bqueues:processing:worker1"
    client.lpush(processing, '{"client_id":"c","msg":1,"attempts":0}', "no json", "[1]")
    client.lpush(processing, json.dumps({"client_id": "d", "msg": 1, "attempts": 5}))
    said = "\n".join(lists.checkup().flaws)
    assert "7 in processing, and nothing says since when" in said
    assert "2 of 7 in processing are no messages" in said
    assert "1 of 7 in processing were not written as Python writes them" in said
    assert "2 of 7 in processing equal another" in said
    assert "1 of 7 in processing have no attempts left" in said


def test_what_waits_is_looked_at_too(
    lists: RawFairQueue[Client], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"client_id": "ann", "msg": "x", "attempts": 0}
    same = json.dumps(good)
    client.lpush("bqueues:worker1:ann", same, same, "junk", '{"client_id":"ann","attempts":0}')
    client.lpush("bqueues:worker1:bob", json.dumps({**good, "client_id": "bob", "attempts": 5}))
    client.lpush("bqueues:worker1:cem", *(json.dumps({**good, "msg": n}) for n in range(250)))
    assert lists.checkup(thorough=True).flaws == (
        "1 of 255 in clients' lists are no messages: who takes one leaves all it took with it in "
        "processing",
        "1 of 255 in clients' lists were not written as Python writes them: their acknowledgement "
        "removes nothing",
        "2 of 255 in clients' lists equal another: one acknowledgement removes them together",
        "1 of 255 in clients' lists have one attempt left",
    )
    assert lists.checkup(thorough=True).unseen is None
    # A quick look reads a hundred: all of short lists, and of the long one what is left of them.
    looked = lists.checkup()
    assert looked.unseen == "only 100 of 255 messages in clients' lists"
    assert len(looked.flaws) == 4 and all("of 100 in clients' lists" in one for one in looked.flaws)
    monkeypatch.setattr("redisq_ops.core.foreign.articles.fair.CLIENTS", 2)
    assert "only 2 of 3 clients' lists" in (lists.checkup().unseen or "")


def test_names_that_begin_alike_are_flagged(lists: RawFairQueue[Client], fair: FairArticle) -> None:
    fair.send("ann", 1)
    FairArticle(fair.client, "worker10").send("z", 1)
    assert lists.checkup().flaws == (
        "its workers also take from bqueues:worker10:z: the names begin alike",
    )
    assert RawFairQueue(fair.client, "raw-fair:worker10").checkup().flaws == ()
    fair.send("eu:ann", 1)
    assert any("bqueues:worker1:eu:ann" in flaw for flaw in lists.checkup().flaws)
    assert ids(lists.page("waiting"))[1].startswith("eu:ann:")


def test_the_articles_own_recovery_is_seen(lists: RawFairQueue[Client], fair: FairArticle) -> None:
    fair.send("ann", "boom")
    for _ in range(6):
        fair.receive("ann")
        fair.recover()
    assert (lists.counts().pending, lists.counts().dead) == (0, 1)
    (entry,) = lists.page("dead").entries
    assert (entry.client, entry.failures) == ("ann", 5)


def test_glob_characters_in_a_queues_name(client: Client) -> None:
    FairArticle(client, "w*[a]?\\").send("ann", 1)
    FairArticle(client, "wx[a]y").send("bob", 1)
    name = "raw-fair:w%2A[a]?\\"
    queue = RawFairQueue(client, name)
    assert [entry.client for entry in queue.page("waiting").entries] == ["ann"]
    assert any("is a pattern" in flaw for flaw in queue.checkup().flaws)


# --- all of them --------------------------------------------------------------------

WRITES = (
    "set",
    "del",
    "unlink",
    "lpush",
    "rpush",
    "lrem",
    "zadd",
    "zrem",
    "hset",
    "hsetnx",
    "xadd",
    "xack",
    "xclaim",
    "eval",
    "evalsha",
    "expire",
    "sadd",
    "srem",
)
NAMES = ("raw-request:req", "raw-circular:queue", "raw-delay:delay_set", "raw-fair:worker1")


@pytest.fixture
def filled(client: Client) -> Client:
    RequestArticle(client).submit("r1", ["a", "b"], limit=1)
    turning = CircularArticle(client)
    turning.push("1", "2")
    turning.next(int(time.time()))
    DelayArticle(client).enqueue("job", time.time() + 600)
    fair = FairArticle(client)
    fair.send("ann", 1, 2)
    fair.receive("ann")
    return client


@pytest.mark.parametrize("name", NAMES)
def test_names_resolve_where_the_keys_are(filled: Client, name: str) -> None:
    from redisq_ops.core.redis.operation import run

    deployment = Deployment(filled)
    assert run(filled, deployment.queue(name)).name == name
    filled.flushall()
    with pytest.raises(Refused, match="no queue"):
        run(filled, deployment.queue(name))


def test_what_is_unknown_is_not_waited_for(filled: Client, redisq: Redisq) -> None:
    said = redisq.refusal("wait", "raw-fair:worker1", "--until", "waiting==0", code=1)
    assert "does not show how many entries are waiting" in said
    redisq("wait", "raw-fair:worker1", "--until", "pending>0", "--timeout", "5s")
