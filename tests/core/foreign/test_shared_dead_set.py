"""One queue's part of a dead set that all share: how many there are is said once it is known."""

import json

import pytest
import redis

from redisq_ops.cli.output import rate_limited
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.scan import Scan
from redisq_ops.ops.inspect.snapshot import Viewport
from redisq_ops.ops.inspect.snapshot_reader import fetch
from redisq_ops.tui.views.dead_letters import DeadView

from ...command_line import Redisq

pytestmark = pytest.mark.slow

T = 1_700_000_000
OURS = 3_000


@pytest.fixture
def redisq(client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]) -> Redisq:
    """Two queues of a Sidekiq, whose dead jobs lie in turn in one set."""
    jobs = {}
    for n in range(2 * OURS):
        error = "TimeoutError" if n % 20 < 2 else "KeyError"
        said = {
            "class": "HardJob",
            "args": [],
            "jid": f"{n:024x}",
            "queue": ("default", "other")[n % 2],
            "retry": True,
            "error_class": error,
            "error_message": "no answer",
            "failed_at": T,
            "retry_count": 3,
        }
        jobs[json.dumps(said)] = T + n
    client.zadd("dead", jobs)
    client.sadd("queues", "default", "other")
    return Redisq(url, capsys)


def test_a_page_says_whether_it_has_seen_all(redisq: Redisq, client: redis.Redis) -> None:
    queue = SidekiqQueue(client, "sidekiq:default")
    page = queue.page("dead", None, 200)
    assert (len(page.entries), page.total, page.exact) == (200, 200, False)
    page = queue.page("dead", None, 5000)
    assert (page.total, page.exact) == (OURS, True)
    window = queue.page("dead", max=10, start=5)
    assert (len(window.entries), window.exact) == (10, False)
    assert SidekiqQueue(client, "sidekiq").page("dead", None, 10).exact


def test_no_face_takes_what_it_has_seen_for_all_there_is(redisq: Redisq) -> None:
    name = "sidekiq:default"
    redisq("dlq", "ls", name, "--max", "3")
    assert "3 dead entries of ≥250: --max shows more" in redisq.err
    redisq("dlq", "groups", name, "--window", "100")
    assert "examined 100 of ≥100" in redisq.err
    rows = redisq.rows("dlq", "groups", name, "--window", "100")
    assert rows and not any(row["complete"] for row in rows)
    assert "≥100" in redisq("select", name, "--window", "100", "--count")
    by_state = {
        row["state"]: row for row in redisq.rows("select", name, "--window", "100", "--count")
    }
    assert (by_state["dead"]["scanned"], by_state["dead"]["total"]) == (100, None)
    redisq("select", name, "--window", "100")
    assert "examined 100 of ≥100 dead" in redisq.err
    because = redisq("explain", f"{name}/{0:024x}")
    assert "among 200 dead entries" in because and "of 200" not in because
    # Read to its end it is known.
    redisq("dlq", "groups", name, "--window", str(OURS + 1))
    assert f"examined {OURS:,} of {OURS:,}" in redisq.err


def test_a_scan_is_kept_to_its_pace_there_too(redisq: Redisq, client: redis.Redis) -> None:
    queue, waited = SidekiqQueue(client, "sidekiq:default"), list[float]()
    told = rate_limited(lambda *_: None, 100, lambda: 0.0, waited.append)
    scan = Scan(queue, "dead", Filter(), queue.now())
    while not scan.over:
        run(client, scan.step())
        told(scan.scanned, scan.expected)
    assert scan.exact and waited[:2] == [2.5, 5.0]


def test_the_dashboard_shows_what_it_has_seen_as_at_least_so_many(
    redisq: Redisq, client: redis.Redis
) -> None:
    redisq("discover", "--register", "--yes")
    deployment = Deployment(client)
    viewport = Viewport("dead", "sidekiq:default", 0, 60, descending=True)
    seen = run(client, fetch(deployment, viewport))
    assert len(seen.entries) == 60 and 60 < seen.total < OURS and not seen.exact
    view = DeadView()
    items = view.items(seen)
    assert (items.exact, items.complete, items.total) == (False, False, seen.total)
