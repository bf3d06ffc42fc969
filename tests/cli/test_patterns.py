"""Patterns of queue names: `*`, `?` and `[…]` mean the same to every command that takes them."""

from __future__ import annotations

import pytest
import redis

from redisq_ops.core.queues.delay import DelaySet

from ..command_line import Redisq, dead_letters

PATTERNS = ["mai*", "mai?", "mai[lx]"]


@pytest.fixture
def queues(client: redis.Redis) -> None:
    for name in ("mail", "maix"):
        dead_letters(client, 2, name)
    dead_letters(client, 1, "other")


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.usefixtures("queues")
def test_a_pattern_means_its_queues(pattern: str, redisq: Redisq) -> None:
    assert {row["queue"] for row in redisq.rows("dlq", "ls", pattern)} == {"mail", "maix"}
    assert sum(row["entries"] for row in redisq.rows("dlq", "groups", pattern)) == 4
    (row,) = redisq.rows("select", pattern, "--by", "error")
    assert (row["queue"], row["entries"]) == (None, 4)
    rows = redisq.rows("request", "ls", pattern, "--settled")
    assert {row["queue"] for row in rows} == {"mail", "maix"}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_one_queue_of_a_pattern_that_cannot_be_looked_at_does_not_hide_the_others(
    pattern: str, redisq: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 2)
    DelaySet(client, "maix").schedule([("e", b"x")])
    client.delete(*client.scan_iter("redisq:{maix}:*"))
    client.hset("redisq:registry", "maix", b"{}")
    for words in (["select", pattern], ["dlq", "groups", pattern], ["dlq", "ls", pattern]):
        redisq.rows(*words, code=3)
        assert "maix: not looked at: the registry entry of maix is corrupt" in redisq.err
    client.hdel("redisq:registry", "mail")
    client.delete(*client.scan_iter("redisq:{mail}:*"))
    assert redisq("request", "ls", pattern, code=3) == ""
    assert "maix: not looked at: the registry entry of maix is corrupt" in redisq.err


@pytest.mark.usefixtures("queues")
def test_an_id_with_characters_of_a_pattern_is_an_id(redisq: Redisq, client: redis.Redis) -> None:
    later = DelaySet(client, "later")
    later.schedule([("cron[1]", b"x")], after=3600)
    DelaySet(client, "cron1").schedule([("other", b"x")], after=3600)
    for words in (["later/cron[1]"], ["--queue", "later", "cron[1]"]):
        (row,) = redisq.rows("delay", "ls", *words)
        assert row["id"] == "cron[1]"
    client.delete(*client.scan_iter("redisq:{cron1}:*"))
    client.hdel("redisq:registry", "cron1")
    (row,) = redisq.rows("delay", "ls", "cron[1]")  # there is no queue of such a name
    assert row["id"] == "cron[1]"
