"""`redisq dlq groups` by task and other fields, of one queue and of many."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from redisq_ops.core.model.entry import Failure
from redisq_ops.core.queues.delay import DelaySet

from ..command_line import Redisq
from ..fleet import cards_die, fleet, mail_dies

pytestmark = pytest.mark.alike


@pytest.mark.slow
def test_errors_tasks_and_a_field_of_the_payload_over_all_queues(
    redisq: Redisq, client: redis.Redis
) -> None:
    fleet(client)
    rows = redisq.rows("dlq", "groups", "--by", "error,task,release")
    assert [(r["queue"], r["task"], r["error"]["type"], r["entries"]) for r in rows] == [
        ("sidekiq:cards", "ChargeCard", "KeyError", 90),
        ("bullmq:orders", "ship", "Error", 12),
        ("mail", None, "KeyError", 5),
        ("rq:thumbs", "tests.foreign_keys.rq_tasks.fails", "ValueError", 3),
    ]
    assert [row["values"]["release"] for row in rows] == ["v2.4.1", "v9", "v7", None]
    assert {(row["total"], row["scanned"], row["complete"]) for row in rows} == {(110, 110, True)}
    shown = redisq("dlq", "groups", "--by", "task,error")
    assert shown.splitlines()[0].split()[:4] == ["group", "queue", "task", "entries"]
    assert "unknown" in shown and "110 dead entries in 4 groups" in redisq.err
    # What a row's filter selects is what the row counts.
    replayed = redisq.rows("dlq", "replay", rows[0]["queue"], "--where", rows[0]["where"], "--yes")
    assert replayed[-1]["done"] == 90


def test_a_task_alone_and_the_number_of_its_errors(redisq: Redisq, client: redis.Redis) -> None:
    cards_die(client, 3)
    cards_die(client, 1, error="Timeout")
    (row,) = redisq.rows("dlq", "groups", "sidekiq:cards", "--by", "task")
    assert (row["task"], row["errors"], row["group"], row["by"]) == (
        "ChargeCard",
        2,
        None,
        ["task"],
    )
    assert row["where"] == 'task="ChargeCard"'
    (row, _) = redisq.rows("dlq", "groups", "sidekiq:cards")
    assert (row["task"], row["errors"], row["by"]) == ("ChargeCard", 1, ["error"])


def test_a_field_that_nobody_has_is_named(redisq: Redisq, client: redis.Redis) -> None:
    """But not one that some have, with other values."""
    mail_dies(client, "r1", 2, "v2")
    where = ("mail", "--where", "release=v1 lease<5m")
    lacks = "no dead entry that was read has lease"
    for command in (("dlq", "groups"), ("dlq", "ls")):
        redisq(*command, *where)
        assert lacks in redisq.err and "has release" not in redisq.err
    assert lacks in redisq("replay", *where, "--state", "dead", "--dry-run")
    redisq("dlq", "groups", "mail", "--where", "release=v2 or lease<5m")
    assert "that was read" not in redisq.err


def test_a_name_with_a_star_and_a_window_of_each_queue(redisq: Redisq, client: redis.Redis) -> None:
    mail_dies(client, "r1", 5)
    mail_dies(client, "r1", 4, queue="mail-eu")
    mail_dies(client, "r1", 3, queue="other")
    rows = redisq.rows("dlq", "groups", "mail*", "--window", "-3")
    assert {row["queue"]: row["entries"] for row in rows} == {"mail": 3, "mail-eu": 3}
    assert {(row["total"], row["complete"]) for row in rows} == {(6, False)}
    redisq("dlq", "groups", "mail*", "--window", "-3")
    assert (
        "2 queues: 6 dead entries in 2 groups; examined 6 of 9: the latest 3 of each" in redisq.err
    )
    assert sum(row["entries"] for row in redisq.rows("dlq", "groups", "--max", "7")) == 7
    redisq("dlq", "groups", "nail*", code=1)
    assert "no queue matches 'nail*'" in redisq.err
    redisq("dlq", "groups", "mail", "--by", "age", code=2)
    assert "group by error, task" in redisq.err


def test_by_and_where_take_the_same_fields(redisq: Redisq, client: redis.Redis) -> None:
    mail_dies(client, "r1", 2, "v2")
    (row,) = redisq.rows("dlq", "groups", "mail", "--by", "release")
    assert row["entries"] == len(redisq.rows("dlq", "ls", "mail", "--where", "release=v2")) == 2
    for words in (["--by", "tenant"], ["--where", "tenant=acme"]):
        assert "arg.tenant, payload.tenant, id" in redisq.refusal("dlq", "groups", *words, code=2)
    redisq("dlq", "groups", "mail", "--by", "arg.tenant")
    assert "no dead entry that was read has arg.tenant" in redisq.err


def test_a_queue_that_can_not_be_read_is_named(redisq: Redisq, client: redis.Redis) -> None:
    mail_dies(client, "r1", 2)
    DelaySet(client, "later").schedule([("e1", b"x")], after=10)
    client.hset("redisq:registry", "broken", b"\xff")
    client.set("redisq:{later}:dead", "no sorted set")
    (row,) = redisq.rows("dlq", "groups", code=3)
    assert (row["queue"], row["entries"]) == ("mail", 2)
    assert "broken: not looked at" in redisq.err and "later: " in redisq.err


def test_errors_and_values_are_redacted(
    redisq: Redisq, client: redis.Redis, configuration: Path
) -> None:
    configuration.write_text("[redact.patterns]\ntoken = 'tok_[a-z]+'\n")
    mail_dies(client, "r1", 2, "tok_release", Failure("AuthError", "no such token tok_secret"))
    found = redisq("dlq", "groups", "--by", "error,task,release", "--json")
    assert "tok_" not in found and '"where": null' in found and "AuthError" in found
