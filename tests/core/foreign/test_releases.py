"""Which releases of another program a kind may change."""

from __future__ import annotations

import json

import pytest
import redis

from redisq_ops.core.foreign.releases import Releases
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue

from ...command_line import Redisq


@pytest.mark.parametrize(
    ("there", "other"),
    [
        ([], None),
        (["1.10"], None),
        (["1.10.1", "3.99.1"], None),
        (["1.9.9"], "1.9.9"),
        (["1"], "1"),
        (["2.0", "4.0.0b1"], "4.0.0"),
        (["11.2", "4.1"], "4.1"),
        (["fork", ""], None),
    ],
)
def test_a_release_is_within_the_bounds_or_not(there: list[str], other: str | None) -> None:
    assert Releases(("1.10", "2.0"), known=("3.0",)).other(there) == other


@pytest.mark.parametrize(
    ("known", "bounds"),
    [
        (("1.10", "3.2"), "1.10 to 3"),
        (("5.2", "5.7"), "5.2 to 5.x"),
        (("0.28",), "0.28"),
        (("0.23", "0.26"), "0.23 to 0.26"),
    ],
)
def test_the_bounds_are_said_in_words(known: tuple[str, ...], bounds: str) -> None:
    assert Releases((), known).bounds == bounds


@pytest.mark.parametrize(
    ("release", "shown"),
    [
        ("5.2.9", True),
        ("6.3.9", True),
        ("6.4.0", False),
        ("8.0.4", False),
        ("9.1.0", True),
    ],
)
def test_another_sidekiq_is_only_shown_and_not_worked_for(
    client: redis.Redis, redisq: Redisq, release: str, shown: bool
) -> None:
    SidekiqQueue(client, "sidekiq:low").push([Job("Task", [1])])
    client.sadd("processes", "box:1:ab", "odd:2:cd")
    client.hset("box:1:ab", "info", json.dumps({"version": release}))
    redisq("purge", "sidekiq:low", "--state", "waiting", "--yes", code=int(shown))
    told = f"queue sidekiq:low is only shown: it is of Sidekiq {release}"
    assert (told in redisq.err) is shown
    assert client.llen("queue:low") == int(shown)
