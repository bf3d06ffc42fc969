"""Dead letters in groups, and what a group has that the rest has not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, Failure, Settlement
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.fields import EntryFields
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.parser import parse_field
from redisq_ops.ops.groups.error_groups import ErrorGroups, Grouping
from redisq_ops.ops.groups.fingerprint import fingerprint
from redisq_ops.ops.groups.heavy_hitters import DistinctNames, HeavyHitters
from redisq_ops.ops.groups.traits import PAYLOADS, GroupComparison, share_difference
from redisq_ops.ops.groups.value_counts import KEPT, ValueCounts

from ...command_line import Redisq


def dies(
    client: redis.Redis, payloads: list[bytes], why: Callable[[Any], Failure], id: str = "r1"
) -> Any:
    """A request whose sub-requests all die, each of what its payload says."""
    queue = RequestQueue(client, "mail")
    queue.submit(payloads, id=id, limit=1000)
    while taken := queue.take(500, consumer="w1").deliveries:
        queue.settle([Settlement(d, "reject", why(d.payload).encoded()) for d in taken])
    return queue


def of_region(payload: bytes) -> Failure:
    order = json.loads(payload)
    if order.get("region") == "eu":
        return Failure("ConnectionError", f"connect ECONNREFUSED 10.0.0.{order['n'] % 250}:5432")
    return Failure("KeyError", "'region'")


def orders(n: int) -> list[bytes]:
    """Every second one is of region eu; the others have none."""
    return [
        json.dumps(
            {"n": i, "to": {"tier": "gold" if i % 2 else "free"}}
            | ({"region": "eu"} if i % 2 else {})
        ).encode()
        for i in range(n)
    ]


def contrasted(client: redis.Redis, queue: Queue[Any], group: str) -> GroupComparison:
    contrast = GroupComparison(queue, "dead", Filter(), group, 0)
    while not contrast.over:
        run(client, contrast.step())
    return contrast


# --- counting ---------------------------------------------------------------------------------


def test_heavy_hitter_counts_are_within_their_bounds() -> None:
    counted: HeavyHitters[str] = HeavyHitters(50)
    truth = {"often": 0}
    for i in range(20_000):
        value = "often" if i % 3 == 0 else f"v{i % 997}"
        truth[value] = truth.get(value, 0) + 1
        counted.add(value)
        assert len(counted.counts) <= 50
    for value, n in truth.items():
        assert counted.counts.get(value, 0) <= n <= counted.at_most(value)
    assert counted.top(1)[0][0] == "often" and counted.counts["often"] > 5000


def test_few_values_are_counted_exactly() -> None:
    counted: HeavyHitters[str] = HeavyHitters(3)
    for value in "abcaab":
        counted.add(value)
    assert counted.top(9) == [("a", 3), ("b", 2), ("c", 1)] and counted.slack == 0


def test_more_values_than_are_kept_give_lower_bounds() -> None:
    counts = ValueCounts(parse_field("client"))
    many = [f"c{n}" for n in range(KEPT * 2)] + ["acme"] * 500
    counts.add(EntryFields(Entry(f"e{n}", "dead", client=c), 0) for n, c in enumerate(many))
    acme = counts.ranked()[0]
    assert (acme.value, counts.total) == ("acme", len(many))
    assert counts.slack > 0 and acme.entries <= 500 <= acme.entries + counts.slack


def test_distinct_names_beyond_the_limit_are_a_lower_bound() -> None:
    names = DistinctNames()
    for i in range(DistinctNames.KEPT):
        names.add(f"c{i}")
    assert len(names) == DistinctNames.KEPT and not names.more
    names.add("one more")
    assert len(names) == DistinctNames.KEPT and names.more


def dead(i: int, message: str) -> Entry:
    return Entry(f"r1/{i}", "dead", since_ms=i, reason="failed", error=Failure("E", message))


def word(i: int) -> str:
    """A word without digits, another for each number."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(i))


def test_smallest_groups_are_counted_as_others() -> None:
    found = ErrorGroups(kept=10)
    found.add(dead(i, f"kind {word(i % 100)}") for i in range(1000))
    found.add(dead(i, "the big one") for i in range(1000, 1300))
    ranked = found.ranked()
    assert len(ranked) == 10 and found.total == 1300
    assert sum(group.count for group in ranked) + found.others.count == 1300
    big = next(group for group in ranked if group.form == "the big one")
    assert big.count == 300 and big is ranked[0]
    # It came when others had gone: for all that is known there was more of it before.
    assert not big.exact
    assert 91 >= found.others.groups >= 10


def test_groups_that_fit_are_exact() -> None:
    found = ErrorGroups(kept=10)
    found.add(dead(i, f"kind {word(i % 20)}") for i in range(1000))
    assert [group.count for group in found.ranked()] == [50] * 10
    assert all(group.exact for group in found.ranked())
    assert (found.others.count, found.others.groups) == (500, 10)


# --- groups of a real queue -------------------------------------------------------------------


async def groups(queue: Queue[Any], filter: Filter | None = None) -> Grouping:
    grouping = Grouping(queue, "dead", filter or Filter(), await queue.now.op())
    while not grouping.over:
        await grouping.step()
    return grouping


def test_dead_letters_in_groups(client: redis.Redis) -> None:
    queue = dies(client, orders(1100), of_region)
    found = run(client, groups(queue))
    one, two = found.groups.ranked()
    assert {one.count, two.count} == {550} and found.complete and found.scanned == 1100
    refused = one if one.type == "ConnectionError" else two
    assert refused.form == "connect ECONNREFUSED <addr>"
    assert refused.first_ms is not None and refused.last_ms is not None
    assert refused.first_ms <= refused.last_ms
    assert refused.reasons == {"rejected": 550} and refused.requests.top(1) == [("r1", 550)]
    sample = queue.get(refused.sample)
    assert sample.since_ms == refused.last_ms and fingerprint(sample) == refused.fingerprint
    assert sample.error.message == refused.message


def test_lost_entries_share_a_group_and_are_counted(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.configure("op", 1, {"max_lost": "0"})
    queue.submit([b"a", b"b"], id="r1")
    queue.take(2, consumer="w1", lease=0)
    assert not queue.take(2, consumer="w2").deliveries
    (group,) = run(client, groups(queue)).groups.ranked()
    assert (group.type, group.form, group.count, group.lost) == (None, "lost", 2, 2)


def test_filter_and_window_bound_what_is_grouped(client: redis.Redis) -> None:
    queue = dies(client, orders(1200), of_region)
    only = run(client, groups(queue, filter=Filter(requests=("none",))))
    assert only.groups.total == 0 and only.complete
    some = run(client, groups(queue, filter=Filter(window=500)))
    assert some.scanned == 500 and some.total == 1200 and not some.complete


def test_groups_of_clients(client: redis.Redis) -> None:
    queue = FairQueue(client, "mail")
    for client_name, n in (("acme", 7), ("bolt", 3)):
        queue.submit(client_name, [b"x"] * n)
    while taken := queue.take(10, consumer="w").deliveries:
        why = Failure("TimeoutError", "no answer in 30s").encoded()
        queue.settle([Settlement(delivery, "reject", why) for delivery in taken])
    (group,) = run(client, groups(queue)).groups.ranked()
    assert len(group.clients) == 2 and group.clients.top(2) == [("acme", 7), ("bolt", 3)]


def sidekiq(client: redis.Redis, n: int) -> None:
    """A dead set as Sidekiq leaves one: of region eu all for want of a connection."""
    client.sadd("queues", "default")
    for i in range(n):
        eu = i % 2
        job = {
            "class": "Ship",
            "jid": f"{i:024x}",
            "queue": "default",
            "retry": True,
            "args": [{"order": i, "region": "eu" if eu else "us"}],
            "retry_count": 25,
            "error_class": "Errno::ECONNREFUSED" if eu else "KeyError",
            "error_message": f"connect to 10.0.0.{i}:5432" if eu else "key not found: :total",
            "failed_at": 1_700_000_000.0 + i,
            "created_at": 1_700_000_000.0,
        }
        client.zadd("dead", {json.dumps(job): 1_700_000_000 + i})


def test_dead_letters_of_another_program_have_groups_and_traits(client: redis.Redis) -> None:
    sidekiq(client, 60)
    queue = run(client, Deployment(client).queue("sidekiq:default"))
    one, two = run(client, groups(queue)).groups.ranked()
    assert {one.count, two.count} == {30}
    refused = one if one.type == "Errno::ECONNREFUSED" else two
    assert refused.form == "connect to <addr>"
    contrast = contrasted(client, queue, refused.fingerprint)
    found = {(trait.field, trait.value) for trait in contrast.traits()}
    assert found == {("payload.args[0].region", "eu")}


def test_resque_failures_are_grouped(client: redis.Redis) -> None:
    client.sadd("resque:queues", "low")
    for i in range(4):
        failure = {
            "failed_at": "2026/11/21 10:00:00 UTC",
            "payload": {"class": "A", "args": [i]},
            "exception": "RuntimeError",
            "error": f"row {i} is bad",
            "backtrace": [],
            "worker": "host:1:low",
            "queue": "low",
        }
        client.rpush("resque:failed", json.dumps(failure))
    queue = run(client, Deployment(client).queue("resque:low"))
    (group,) = run(client, groups(queue)).groups.ranked()
    assert (group.type, group.form, group.count) == ("RuntimeError", "row <n> is bad", 4)


# --- contrast ---------------------------------------------------------------------------------


def test_traits_of_a_group(client: redis.Redis) -> None:
    queue = dies(client, orders(400), of_region)
    refused = fingerprint(next(e for e in queue.page("dead").entries if e.error.type[0] == "C"))
    contrast = contrasted(client, queue, refused)
    traits = {(t.field, t.value): (t.here, t.rest) for t in contrast.traits()}
    assert traits == {
        ("payload.region", "eu"): (1.0, 0.0),
        ("payload.to.tier", "gold"): (1.0, 0.0),
    }
    other = fingerprint(next(e for e in queue.page("dead").entries if e.error.type[0] == "K"))
    lacking = {(t.field, t.value) for t in contrasted(client, queue, other).traits()}
    assert lacking == {("payload.region", None), ("payload.to.tier", "free")}


def test_random_differences_are_no_traits(client: redis.Redis) -> None:
    """60 entries of one group: there are no others to compare them with."""
    payloads = [json.dumps({"a": i % 3, "b": i // 2 % 5}).encode() for i in range(60)]
    queue = dies(client, payloads, lambda _: Failure("E", "x"))
    every = [queue.get(f"r1/{n}") for n in range(1, 61)]
    assert len({fingerprint(entry) for entry in every}) == 1
    contrast = contrasted(client, queue, fingerprint(every[0]))
    assert contrast.rest.total == 0
    assert contrast.traits() == []


@pytest.mark.parametrize(
    ("counts", "sure"),
    [
        ((97, 100, 4, 100), True),
        ((4, 4, 0, 4), False),  # four of four prove little
        ((50, 100, 48, 100), False),
        ((5200, 10_000, 4800, 10_000), True),
    ],
)
def test_lower_bound_of_share_difference(counts: tuple[int, int, int, int], sure: bool) -> None:
    assert (share_difference(*counts) > 0) is sure


def test_payloads_that_are_not_json_can_be_a_trait(client: redis.Redis) -> None:
    odd = [b"\xff\x00", b'{"a":', b"[" * 100_000, b'{"a":NaN}', b'"text"', b"17", b"x" * 70_000]
    payloads = [*(odd * 6), *orders(60)]

    def why(payload: bytes) -> Failure:
        return Failure("Parse" if payload in odd else "Other", "x")

    queue = dies(client, payloads, why)
    parse = next(g for g in run(client, groups(queue)).groups.ranked() if g.type == "Parse")
    contrast = contrasted(client, queue, parse.fingerprint)
    assert contrast.here.looked == 42
    assert ("payload", "not JSON") in {(t.field, t.value) for t in contrast.traits()}


@pytest.mark.slow
def test_many_payloads_are_sampled(client: redis.Redis) -> None:
    queue = dies(client, orders(2 * PAYLOADS + 1000), of_region)
    group = run(client, groups(queue)).groups.ranked()[0]
    contrast = contrasted(client, queue, group.fingerprint)
    assert contrast.here.looked == contrast.rest.looked == PAYLOADS
    assert contrast.here.total == PAYLOADS + 500


# --- the command line -------------------------------------------------------------------------


def test_groups_as_a_table_and_as_rows(redisq: Redisq, client: redis.Redis) -> None:
    dies(client, orders(30), of_region)
    head, *lines = redisq("dlq", "groups", "mail").splitlines()
    assert head.split() == ["group", "entries", "share", "lost", "last", "requests", "error"]
    assert len(lines) == 2 and "50 %" in lines[0]
    assert any("ConnectionError: connect ECONNREFUSED <addr>" in line for line in lines)
    assert redisq.err == "mail: 30 dead entries in 2 groups\n"
    rows = redisq.rows("dlq", "groups", "mail")
    assert [row["entries"] for row in rows] == [15, 15] and rows[0]["total"] == 30
    assert rows[0]["at_least"] == [] and rows[0]["complete"]
    assert redisq("dlq", "groups", "mail", "--match", "nothing") == ""
    assert redisq.err == "mail: 0 of 30 dead entries match\n"


def test_one_group_with_its_traits_and_commands(redisq: Redisq, client: redis.Redis) -> None:
    dies(client, orders(30), of_region)
    rows = redisq.rows("dlq", "groups", "mail")
    name = next(row["group"] for row in rows if row["error"]["type"] == "ConnectionError")
    said = redisq("dlq", "group", "mail", name)
    assert f"group {name} of mail: 15 of 30 dead entries (50 %)" in said
    assert "100 % have payload.region=eu, 0 % of the rest" in said
    assert "payloads of 15 of 15 looked at, and of 15 of 15 others" in said
    assert f"redisq replay mail --where group={name}" in said
    (row,) = redisq.rows("dlq", "group", "mail", name)
    assert row["contrast"][0]["rest"] == 0.0 and len(row["samples"]) == 5
    assert "redisq dlq groups mail" in redisq.refusal("dlq", "group", "mail", "00000000", code=1)
    client.flushall()
    dies(client, orders(30), lambda _: Failure("E", "x"))
    (alone,) = redisq.rows("dlq", "groups", "mail")
    said = redisq("dlq", "group", "mail", alone["group"])
    assert "of this group: there is nothing to compare them with" in said and "common" not in said


def test_group_name_in_a_filter_selects_its_entries(redisq: Redisq, client: redis.Redis) -> None:
    queue = dies(client, orders(30), of_region)
    queue.submit([b"y"], id="r2")
    queue.configure("op", 1, {"max_lost": "0"})
    queue.take(1, consumer="w1", lease=0)
    assert not queue.take(1, consumer="w2").deliveries
    rows = redisq.rows("dlq", "groups", "mail")
    assert sorted(row["entries"] for row in rows) == [1, 15, 15]
    for row in rows:
        chosen = redisq.rows("dlq", "ls", "mail", "--where", f"group={row['group']}")
        assert len(chosen) == row["entries"]
    lost = next(row["group"] for row in rows if row["error"]["type"] is None)
    (done,) = redisq.rows("dlq", "replay", "mail", "--where", f"group={lost}", "--yes")
    assert done["done"] == 1 and queue.get("r2/1").state == "waiting"


def test_groups_are_escaped_and_redacted(
    redisq: Redisq, client: redis.Redis, configuration: Path
) -> None:
    configuration.write_text(
        '[redact]\nkeys = ["region"]\n[redact.patterns]\nmail = "[a-z]+@[a-z.]+"\n'
    )
    dies(client, orders(30), lambda _: Failure("E\x1b[31m", "said \x07 bob@acme.com"))
    (row,) = redisq.rows("dlq", "groups", "mail")
    said = redisq("dlq", "groups", "mail") + redisq("dlq", "group", "mail", row["group"])
    assert "\x1b" not in said and "\x07" not in said and "bob" not in said
    assert "region=eu" not in said and "***" in said
    # That all of them have what isn't shown tells nothing; that only they have it is said in words.
    (row,) = redisq.rows("dlq", "group", "mail", row["group"])
    assert "region" not in str(row["contrast"])
    assert "region" not in said
    dies(client, [b"{}"] * 30, lambda _: Failure("Other", "x"), "r2")
    said = redisq("dlq", "group", "mail", row["group"])
    assert "50 % have payload.region (redacted), 0 % of the rest" in said
