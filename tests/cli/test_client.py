"""`redisq client`: rules by which clients are served, changed and taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.queues.fair import FairQueue, ShardedFairQueue
from redisq_ops.core.queues.request import RequestQueue

from ..command_line import Redisq
from ..model.wire import picture

pytestmark = pytest.mark.alike

Make = Callable[[], Queue[redis.Redis]]


@pytest.fixture(params=["one shard", "four"])
def jobs(request: pytest.FixtureRequest, client: redis.Redis) -> FairQueue[redis.Redis]:
    """Five waiting of each of three clients."""
    kind: Any = FairQueue if request.param == "one shard" else ShardedFairQueue
    given = {} if kind is FairQueue else {"shards": 4}
    queue: FairQueue[redis.Redis] = kind(client, "jobs", **given)
    for name in ("acme", "bolt", "coil"):
        queue.submit(name, [(f"{name}-{n}", b"x") for n in range(5)])
    return queue


def takers(queue: FairQueue[redis.Redis], n: int = 15) -> set[str | None]:
    return {d.client for _ in range(3) for d in queue.take(n, consumer="w").deliveries}


def test_clients_are_listed_by_name(jobs: FairQueue[redis.Redis], redisq: Redisq) -> None:
    jobs.weigh("bolt", 3)
    rows = redisq.rows("client", "ls", "jobs")
    assert [row["name"] for row in rows] == ["acme", "bolt", "coil"]
    assert rows[1] == {
        "queue": "jobs",
        "name": "bolt",
        "waiting": 5,
        "pending": 0,
        "weight": 3,
        "blocked": False,
        "cap": None,
        "rate": None,
        "rests": False,
    }
    assert [
        r["name"] for r in redisq.rows("client", "ls", "jobs", "--start", "1", "--max", "1")
    ] == ["bolt"]
    assert "acme" in redisq("client", "ls", "jobs", "--max", "1")
    assert "1 of 3 shown" in redisq.err


def test_a_blocked_client_is_passed_over_until_an_undo(
    jobs: FairQueue[redis.Redis], redisq: Redisq
) -> None:
    said = redisq("client", "block", "jobs", "acme", "--reason", "too loud", "--yes")
    assert "1 of 1" in said and "undo with" in redisq.err
    assert takers(jobs, 15) == {"bolt", "coil"}
    (noted,) = redisq.rows("log")
    assert (noted["verb"], noted["reason"], noted["what"]) == ("block", "too loud", "client acme")
    assert "0 matched" in redisq("client", "block", "jobs", "acme", "--yes")
    redisq("undo", "--yes")
    assert takers(jobs, 15) == {"acme"}


@pytest.mark.parametrize(
    ("verb", "value", "shown"), [("weight", "7", 7), ("cap", "2", 2), ("cap", "0", None)]
)
def test_weight_and_cap_go_back_to_what_they_were(
    jobs: FairQueue[redis.Redis], redisq: Redisq, verb: str, value: str, shown: int | None
) -> None:
    jobs.weigh("acme", 4)
    jobs.limit("acme", 9)
    (ended,) = redisq.rows("client", verb, "jobs", "acme", value, "--yes")
    assert (ended["matched"], ended["done"], ended["skipped"]) == (1, 1, {})
    rules = redisq.rows("client", "ls", "jobs")[0]
    assert rules[verb] == shown
    redisq("undo", ended["op"], "--yes")
    rules = redisq.rows("client", "ls", "jobs")[0]
    assert (rules["weight"], rules["cap"]) == (4, 9)


def test_unblocking_and_its_inverse(jobs: FairQueue[redis.Redis], redisq: Redisq) -> None:
    jobs.block("acme")
    redisq("client", "unblock", "jobs", "acme", "--yes")
    assert jobs.get_client("acme").blocked is False  # type: ignore[union-attr]
    redisq("undo", "--yes")
    assert jobs.get_client("acme").blocked is True  # type: ignore[union-attr]


def test_a_client_nothing_is_here_of_can_be_blocked_before_it_comes(
    jobs: FairQueue[redis.Redis], redisq: Redisq
) -> None:
    redisq("client", "block", "jobs", "dyno", "--yes")
    jobs.submit("dyno", [b"x"])
    assert "dyno" not in takers(jobs, 15)


def test_nothing_is_written_without_a_yes(
    client: redis.Redis, jobs: FairQueue[redis.Redis], redisq: Redisq
) -> None:
    before = picture(client)
    shown = redisq("client", "weight", "jobs", "acme", "3", "--dry-run")
    assert "change weight of client acme of queue jobs from 1 to 3" in shown
    assert "5 waiting, 0 pending" in shown
    (plan,) = redisq.rows("client", "cap", "jobs", "acme", "2", "--dry-run")
    assert (plan["verb"], plan["client"], plan["value"]) == ("cap", "acme", 2)
    redisq("client", "block", "jobs", "acme", code=5)
    assert "--yes" in redisq.err
    assert "1 to 100" in redisq.refusal("client", "weight", "jobs", "acme", "101", "--yes", code=2)
    redisq.refusal("client", "cap", "jobs", "a b", "1", "--yes", code=2)
    redisq.refusal("client", "block", "nowhere", "acme", "--yes", code=1)
    assert picture(client) == before


def test_a_queue_without_clients_says_so(client: redis.Redis, redisq: Redisq) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    assert "has no clients" in redisq.refusal("client", "ls", "mail", code=1)
    assert "has no clients" in redisq.refusal("client", "block", "mail", "a", "--yes", code=1)
