"""`redisq explain`: the rule that holds something, in words and as JSON, of every kind of queue."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.celery import CeleryQueue
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.foreign.ruby_jobs.job import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Failure, Settlement
from redisq_ops.core.model.errors import NotFound, QueueClosed
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.queues.request.digest import Digest
from redisq_ops.core.redis.operation import Round, arun, run
from redisq_ops.ops.change import audit_log, control
from redisq_ops.ops.change.audit_log import Author, read
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.change.unfinished import Unfinished
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.explain import observation
from redisq_ops.ops.explain.explanation import explain, explain_text
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select
from redisq_ops.ops.inspect.history import PAGE

from ...changes import entry_change
from ...command_line import Redisq, everywhere
from ...foreign_keys import far_apart
from ...model.wire import picture

ADA = Author("ada", "desk", "smtp is down")
MINUTE = 60_000
TIMEOUT = Failure("Timeout", "smtp-3 did not answer in 30 s")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def mail(client: redis.Redis, clock: FakeClock) -> RequestQueue[redis.Redis]:
    return RequestQueue(client, "mail", clock=clock)


class Answer:
    """An explanation as a program gets it, and its sentence."""

    def __init__(self, queue: Queue[Any], id: str | None = None) -> None:
        self.found = run(queue.client, explain(queue, id))
        self.row = self.found.row()
        self.rule: str = self.row["rule"]
        self.sentence: str = self.row["sentence"]
        self.facts: dict[str, Any] = self.row["facts"]
        self.command: str | None = self.row["command"]
        self.also: list[str] = [one["rule"] for one in self.row["also"]]
        words = (self.rule, self.command)
        assert all(isinstance(word, (str, type(None))) for word in words)


def settled(queue: Queue[redis.Redis], delivery: Delivery, outcome: Any, delay: float = 0) -> None:
    queue.settle([Settlement(delivery, outcome, TIMEOUT.encoded(), delay)])


def moved(queue: Queue[redis.Redis], state: Any, verb: Any, **how: Any) -> str:
    """A bulk change of a whole state; its name."""
    chosen = run(queue.client, select(queue, state, Filter()))
    change = entry_change(chosen, verb, ADA, **how)
    while run(queue.client, change.step()):
        pass
    assert change.outcome.op is not None
    return change.outcome.op


# --- entries of requests ------------------------------------------------------


def test_entry_waits_behind_higher_priorities(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 30, id="urgent", priority=1, limit=4)
    mail.submit([b"x"] * 10, id="same", limit=2)
    mail.submit([b"x"] * 10, id="r1", limit=2)
    mail.take(1, consumer="w1")
    answer = Answer(mail, "r1/3")
    assert answer.rule == "behind"
    assert answer.sentence == (
        "it waits behind 3 tokens of higher priorities, 2 tokens of other requests of its "
        "priority, 2 entries of its request (≈ 33 entries in all)"
    )
    assert [a["number"] for a in answer.facts["ahead"]] == [3, 2, 2]
    assert all(a["exact"] for a in answer.facts["ahead"])
    assert answer.command == "redisq request priority mail/r1 0"
    assert (
        answer.row["eta_ms"] is None and not answer.row["estimate"]
    )  # nobody settled anything yet


def test_each_token_ahead_delivers_one_entry(mail: RequestQueue[redis.Redis]) -> None:
    """The second of two requests: its first entry comes when the other's token was taken once."""
    mail.submit([b"x"] * 4, id="first", limit=2)
    mail.submit([b"x"] * 3, id="second", limit=1)
    mail.take(1, consumer="w1")
    behind = "wait behind 1 token of other requests of its priority"
    assert Answer(mail, "second").sentence == f"3 of 3 entries {behind}"
    assert Answer(mail, "second/1").sentence == behind.replace("wait", "it waits", 1)
    answer = Answer(mail, "second/3")
    assert answer.sentence.endswith("2 entries of its request (≈ 4 entries in all)")
    assert answer.facts["before"] == 4


def test_count_beyond_search_depth_is_approximate(
    mail: RequestQueue[redis.Redis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.core.queues.request.position.DEPTH", 10)
    for n in range(8):
        mail.submit([b"x"] * 4, id=f"other-{n}", limit=4)
    mail.submit([b"x"] * 4, id="r1", limit=4)
    mail.take(1, consumer="w1")
    (ahead,) = Answer(mail, "r1/1").facts["ahead"]
    assert ahead == {
        "what": "tokens of other requests of its priority",
        "number": 10,
        "exact": False,
    }
    assert "≈ 10 tokens" in Answer(mail, "r1/1").sentence


def test_estimate_uses_rate_of_last_minutes(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    clock.now_ms = 1_700_000_040_000  # a whole minute
    mail.submit([b"x"] * 100, id="r1", limit=100)
    for delivery in mail.take(10, consumer="w1").deliveries:
        settled(mail, delivery, "ack")
    clock.now_ms += MINUTE
    mail.take(0 + 1, consumer="w1")
    answer = Answer(mail, "r1/21")
    assert answer.facts["before"] == 9  # 12 to 20
    assert answer.row["eta_ms"] == clock.now_ms + MINUTE  # ten a minute
    assert answer.row["estimate"] is True
    assert answer.row["basis"] == "10 left, at ≈ 10.0 settled per minute as in the last 1m 00s"
    clock.now_ms += 5_000
    said = "≈ 9.2 settled and ≈ 92.3 added per minute (last 1m 05s); 89 waiting, 1 pending"
    assert Answer(mail).sentence == said


def test_limit_names_the_holders_of_the_tokens(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 5, id="r1", limit=2)
    mail.take(1, consumer="w1")
    clock.advance(12)
    mail.take(1, consumer="w2")
    clock.advance(3)
    answer = Answer(mail, "r1/4")
    assert answer.rule == "limit"
    assert answer.sentence == (
        "request r1 is at its limit of 2: w1 has r1/1 for 15s (lease ends in 15s); "
        "w2 has r1/2 for 3s (lease ends in 27s)"
    )
    first = answer.facts["holders"][0]
    assert (first["consumer"], first["id"]) == ("w1", "r1/1")
    assert first["until_ms"] - clock.now_ms == 15_000 and clock.now_ms - first["since_ms"] == 15_000
    assert answer.command == "redisq request limit mail/r1 4"
    (line,) = (one for one in Answer(mail, "r1/3").row["also"] if one["rule"] == "next")
    assert line["sentence"] == "it waits and is next of its request"  # not: fsck


def test_a_request_that_follows_another_names_it(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"], id="r1")
    mail.submit([b"x"], id="r2", follows="r1")
    answer = Answer(mail, "r2/1")
    assert (answer.rule, answer.command) == ("request-paused", "redisq explain mail/r1")
    assert answer.sentence == "request r2 is paused until request r1 is done"
    run(mail.client, control.change_request(mail, "r2", "pause", ADA))
    assert Answer(mail, "r2/1").command == "redisq explain mail/r1", "nobody else paused it"
    with pytest.raises(QueueClosed, match="r2 follows r1 and would wait for ever"):
        run(mail.client, control.change_request(mail, "r1", "cancel", ADA))


def test_pause_of_request_and_queue_names_user_and_reason(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 2, id="r1")
    run(mail.client, control.change_request(mail, "r1", "pause", ADA))
    answer = Answer(mail, "r1/1")
    assert answer.rule == "request-paused"
    assert answer.sentence.startswith(
        "request r1 is paused by ada@desk 0s ago because 'smtp is down' (op pause-"
    )
    assert (
        answer.facts["operation"]["user"] == "ada"
        and answer.facts["operation"]["reason"] == "smtp is down"
    )
    assert answer.command == "redisq request resume mail/r1"
    run(mail.client, control.pause(mail, ADA))
    answer = Answer(mail, "r1/1")
    assert (answer.rule, answer.command) == ("paused", "redisq queue resume mail")
    assert answer.sentence.startswith("queue mail is paused by ada@desk 0s ago because")
    assert "request-paused" in answer.also
    assert answer.facts["paused"] == "smtp is down"


def test_pause_that_is_not_in_the_audit_log(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"], id="r1")
    mail.configure("by-hand", 1, {"paused": "deploy"})
    answer = Answer(mail, "r1/1")
    assert answer.sentence == (
        "queue mail is paused: 'deploy', by an unknown user (not in the audit log)"
    )
    assert answer.facts["operation"] is None


def test_no_worker_is_taking(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 2, id="r1")
    answer = Answer(mail, "r1/1")
    assert answer.rule == "no-worker" and answer.facts["consumers_seen"] == 0
    assert answer.sentence == "no worker is taking: no consumer of mail was seen in the last day"
    assert answer.command == "redisq work MODULE:FUNCTION --queue mail"
    mail.submit([b"{}"], id="send~2")
    assert Answer(mail, "send~2/1").command == "redisq work MODULE:TASKS"  # it names its queues
    (delivery,) = mail.take(1, consumer="w1").deliveries
    settled(mail, delivery, "ack")
    assert Answer(mail, "r1/2").rule == "next"
    clock.now_ms += 14 * MINUTE
    answer = Answer(mail, "r1/2")
    assert answer.sentence == "no worker is taking: no consumer has asked mail for work for 14m 00s"
    assert answer.facts["silent_ms"] == 14 * MINUTE


def test_busy_workers_are_not_reported_as_missing(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 2, id="r1")
    (delivery,) = mail.take(1, consumer="w1").deliveries
    for _ in range(6):
        clock.advance(20)
        mail.extend([delivery])
    answer = Answer(mail, "r1/2")
    assert answer.rule == "busy"
    assert answer.sentence.startswith("all workers seem to be busy: 1 pending")
    assert "next" in answer.also


def test_workers_that_left_long_leases_behind_are_not_busy(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 12, id="r1", limit=100)
    mail.take(10, consumer="geo-1:9", lease=3600)
    clock.now_ms += 50 * MINUTE
    for answer in (Answer(mail), Answer(mail, "r1/11"), Answer(mail, "r1")):
        said = [answer.row, *answer.row["also"]]
        (found,) = [one for one in said if one["rule"] in ("no-worker", "busy")]
        assert found["sentence"] == (
            "no worker is taking: no consumer has asked mail for work for 50m 00s; 10 pending, "
            "perhaps of dead workers"
        )
        assert found["command"] == "redisq work MODULE:FUNCTION --queue mail"
    assert Answer(mail).rule == "no-worker" and "holder" in Answer(mail).also


def test_retry_names_time_and_error(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"], id="r1")
    (delivery,) = mail.take(1, consumer="w1").deliveries
    settled(mail, delivery, "fail", 90)
    answer = Answer(mail, "r1/1")
    assert answer.rule == "retry"
    assert answer.sentence == (
        "it will be retried at 2023-11-14 22:14:50+00:00, in 1m 30s; failure 1 of 20: "
        "Timeout: smtp-3 did not answer in 30 s"
    )
    assert answer.row["eta_ms"] == clock.now_ms + 90_000 and answer.row["estimate"] is False
    assert answer.command == "redisq requeue mail/r1/1"
    clock.advance(91)
    answer = Answer(mail, "r1/1")
    assert (
        answer.row["state"] == "delayed" and answer.rule == "no-worker" and answer.also == ["due"]
    )


def test_pending_with_its_lease(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"], id="r1")
    mail.take(1, consumer="w1")
    clock.advance(5)
    answer = Answer(mail, "r1/1")
    assert answer.rule == "pending"
    assert answer.sentence == (
        "consumer w1 has had it for 5s; its lease ends in 25s, unless it is extended"
    )
    assert answer.row["eta_ms"] == answer.facts["deadline_ms"] == clock.now_ms + 25_000


def test_silent_consumer_and_what_reclaims_its_entry(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"], id="r1")
    mail.take(1, consumer="w1")
    clock.now_ms += 14 * MINUTE + 30_000
    answer = Answer(mail, "r1/1")
    assert answer.rule == "overdue"
    assert answer.sentence == (
        "consumer w1 was silent for at least 14m 00s: it has had the entry for 14m 30s, and its "
        "lease ended 14m 00s ago; the next take, or a worker's maintenance every 30 s, makes it "
        "waiting again, but no worker is taking: no consumer has asked mail for work for 14m 30s"
    )
    assert answer.facts["silent_ms"] == 14 * MINUTE and "no-worker" in answer.also
    assert answer.command == "redisq requeue mail/r1/1"
    run(mail.client, control.set_flags(mail, "settings", ADA, {"max_lost": "1"}))
    assert "makes it dead" in Answer(mail, "r1/1").sentence


def test_claimed_by_an_operator(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"], id="r1")
    mail.take(1, consumer="w1")
    op = moved(mail, "pending", "claim", consumer="operator")
    answer = Answer(mail, "r1/1")
    assert answer.rule == "pending" and answer.facts["operation"]["id"] == op
    assert "consumer operator has had it for 0s, claimed for it by ada@desk" in answer.sentence


def test_dead_entry_and_how_many_have_the_same_error(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 4, id="r1")
    *alike, other = mail.take(4, consumer="w1").deliveries
    for n, delivery in enumerate(alike):
        error = Failure("Timeout", f"smtp-{n} did not answer in {n}0 s").encoded()
        mail.settle([Settlement(delivery, "reject", error)])
    mail.settle([Settlement(other, "reject", Failure("Full", "mailbox").encoded())])
    clock.now_ms += MINUTE
    answer = Answer(mail, "r1/2")
    assert answer.rule == "dead" and answer.facts["reason"] == "rejected"
    assert answer.sentence.startswith(
        "dead since 2023-11-14 22:13:20+00:00 (1m 00s ago) because its handler rejected it: "
        "Timeout: smtp-1 did not answer in 10 s; 3 with this error (group "
    )
    assert answer.sentence.endswith("among 4 of 4 dead entries")
    assert (answer.facts["alike"], answer.facts["scanned"], answer.facts["dead"]) == (3, 4, 4)
    assert answer.command == "redisq replay mail/r1/2"
    clock.now_ms -= 3 * 60 * MINUTE  # a failover to a server whose clock is hours behind
    answer = Answer(mail, "r1/2")
    assert "(by a clock that was 2h 59m ahead) because its handler" in answer.sentence


def test_dead_after_too_many_failures_or_lost_leases(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 2, id="r1")
    run(mail.client, control.set_flags(mail, "settings", ADA, {"max_failures": "1"}))
    first, _ = mail.take(2, consumer="w1").deliveries
    settled(mail, first, "fail")
    assert "because it failed once: Timeout" in Answer(mail, "r1/1").sentence
    for _ in range(3):
        clock.advance(31)
        mail.take(1, consumer="w2")
    answer = Answer(mail, "r1/2")
    assert answer.rule == "dead" and "because its lease expired 3 times" in answer.sentence
    assert answer.facts["alike"] is None  # it has no error that others could be like


def test_purge_names_user_and_end_of_undo(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 2, id="r1")
    op = moved(mail, "waiting", "purge")
    clock.now_ms += 60 * MINUTE
    answer = Answer(mail, "r1/1")
    assert answer.rule == "purged"
    assert answer.sentence == (
        "purged at 2023-11-14 22:13:20+00:00 by ada@desk 1h 00m ago because 'smtp is down' (op "
        f"{op}); undo works until 2023-11-15 22:13:20+00:00 (in 23h 00m)"
    )
    assert answer.command == f"redisq undo {op}"
    assert answer.facts["undo_until_ms"] - clock.now_ms == 23 * 60 * MINUTE
    assert answer.row["eta_ms"] is None  # it isn't when it runs


def test_done_entry_and_how_long_its_result_is_kept(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.configure("level", 1, {"history": "all"})
    mail.submit([b"x"] * 2, id="r1")
    first, second = mail.take(2, consumer="w1").deliveries
    mail.settle([Settlement(first, "result", b"fine")])
    clock.now_ms += MINUTE
    answer = Answer(mail, "r1/1")
    assert answer.rule == "done" and answer.command == "redisq results mail/r1"
    assert answer.sentence == (
        "done at 2023-11-14 22:13:20+00:00 (1m 00s ago); its result is kept until request r1 is "
        "done, and for 1d 0h then"
    )
    settled(mail, second, "ack")
    answer = Answer(mail, "r1/1")
    assert answer.sentence.endswith("kept until 2023-11-15 22:14:20+00:00 (in 1d 0h)")
    assert answer.facts["kept_until_ms"] == clock.now_ms + 24 * 60 * MINUTE
    assert answer.row["eta_ms"] is None


def test_time_of_done_needs_full_history(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 2, id="r1")
    (first,) = mail.take(1, consumer="w1").deliveries
    settled(mail, first, "ack")
    answer = Answer(mail, "r1/1")
    assert answer.sentence.startswith("done; the time is not recorded; it has no result")
    assert answer.facts["done_ms"] is None


def test_an_entry_of_a_cancelled_request(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 2, id="r1")
    run(mail.client, control.change_request(mail, "r1", "cancel", ADA))
    for id in ("r1", "r1/2"):
        answer = Answer(mail, id)
        assert answer.rule == "cancelled" and answer.command is not None
        assert "was cancelled by ada@desk 0s ago because 'smtp is down'" in answer.sentence
        assert "undo works until 2023-11-15 22:13:20+00:00 (in 1d 0h)" in answer.sentence
        assert answer.row["eta_ms"] is None
        assert answer.command.startswith("redisq undo cancel-")


def test_unknown_id_reports_searched_history(
    mail: RequestQueue[redis.Redis],
) -> None:
    mail.submit([b"x"] * 2, id="r1")
    answer = Answer(mail, "r1/3")
    assert (answer.rule, answer.row["state"]) == ("unknown", None)
    assert answer.sentence == "there is no r1/3: request r1 has 2 entries, numbered from 1"
    first, second = mail.take(2, consumer="w1").deliveries
    settled(mail, first, "fail")
    settled(mail, second, "fail")
    answer = Answer(mail, "nobody")
    assert answer.row["what"] == "request" and not answer.found.known
    assert "the latest 2 of 2 history events do not mention it" in answer.sentence
    assert "history is 'ops'" in answer.sentence
    assert (answer.facts["scanned"], answer.facts["events"]) == (2, 2)
    moved(mail, "waiting", "hard")
    answer = Answer(mail, "r9/1")
    assert (
        "1 of the latest changes removed entries for good, the last one by ada" in answer.sentence
    )


def dying(client: redis.Redis, clock: FakeClock, *ids: str) -> DelaySet[redis.Redis]:
    """A delay set where these died, one after another."""
    later = DelaySet(client, "later", clock=clock)
    later.schedule([(id, b"x") for id in ids], after=0)
    for delivery in later.take(100, consumer="w1").deliveries:
        settled(later, delivery, "reject")
    clock.now_ms += MINUTE
    return later


def named(queue: Queue[redis.Redis], state: Any, verb: Any, *ids: str) -> str:
    """A change of named entries; its name."""
    change = entry_change(run(queue.client, select(queue, state, Filter(ids=ids))), verb, ADA)
    while run(queue.client, change.step()):
        pass
    return str(change.outcome.op)


def test_certain_removal_is_named(client: redis.Redis, clock: FakeClock) -> None:
    later = dying(client, clock, "s1", "s2", "s3", "s4", "1", "gone")
    hard = named(later, "dead", "hard", "s1")
    answer = Answer(later, "s1")
    assert (answer.rule, answer.row["state"]) == ("removed", None)
    assert answer.sentence == (
        f"it was purged for good from dead by ada@desk 0s ago because 'smtp is down' (op {hard}); "
        "the last history event before: dead at 2023-11-14 22:13:20+00:00 (1m 00s ago)"
    )
    assert [one["id"] for one in answer.facts["removals"]] == [hard]
    purge = named(later, "dead", "purge", "s2")
    empty = named(later, "trash", "hard", "s2")
    answer = Answer(later, "s2")
    assert answer.sentence.startswith("it was purged from dead by ada@desk 0s ago because")
    assert f"(op {purge}); removed from the trash by ada@desk" in answer.sentence
    assert [one["id"] for one in answer.facts["removals"]] == [purge, empty]
    later.schedule([("s9", b"x")], after=MINUTE / 1000)  # of which the history has nothing
    hard = named(later, "delayed", "hard", "s9")
    answer = Answer(later, "s9")
    assert answer.rule == "removed"
    assert answer.sentence == (
        f"it was purged for good from delayed by ada@desk 0s ago because 'smtp is down' (op {hard})"
    )
    # One of all that was left, and no other change leads out of there: it needs no name.
    every = moved(later, "dead", "hard")
    for id in ("s3", "1", "gone"):  # numbers and states are no names of entries
        answer = Answer(later, id)
        assert answer.rule == "removed" and f"(op {every})" in answer.sentence


def test_possible_removals_are_listed(client: redis.Redis, clock: FakeClock) -> None:
    later = dying(client, clock, *(f"s{n}" for n in range(9)))
    for _ in range(7):
        chosen = run(client, select(later, "dead", Filter(max=1)))
        change = entry_change(chosen, "hard", ADA)
        while run(client, change.step()):
            pass
        clock.advance(1)
    answer = Answer(later, "s0")
    assert answer.rule == "gone"
    assert "it is gone; its last history event: dead at" in answer.sentence
    assert (
        "changes may have removed it: 1 purged for good from dead by ada@desk 1s ago"
        in answer.sentence
    )
    assert answer.sentence.count("(op hard-") == 5 and "and 2 more changes" in answer.sentence
    assert len(answer.facts["removals"]) == 5
    # A change of other entries by name isn't one of them, nor one from before it died.
    other = named(later, "dead", "hard", "s7")
    assert other not in Answer(later, "s0").sentence
    assert Answer(later, "s7").rule == "removed"


def test_a_removal_is_not_certain_where_the_log_was_not_read_so_far(
    client: redis.Redis, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "OPERATIONS", 1)
    later = dying(client, clock, "s0", "s1")
    for _ in range(2):
        change = entry_change(run(client, select(later, "dead", Filter(max=1))), "hard", ADA)
        while run(client, change.step()):
            pass
        clock.advance(1)
    older = run(client, audit_log.last(later, 5))[-1]
    older = replace(older, id="move-old", source="waiting", started_ms=0)

    async def unfinished(queue: Any) -> list[Unfinished]:
        return [Unfinished(older, 0)]

    monkeypatch.setattr(observation, "unfinished", unfinished)
    answer = Answer(later, "s0")
    assert answer.rule == "gone" and "changes may have removed it" in answer.sentence


def test_replay_is_a_possible_cause_of_absence(client: redis.Redis, clock: FakeClock) -> None:
    later = dying(client, clock, "s1", "s2")
    op = moved(later, "dead", "replay")
    later.settle([Settlement(d, "ack") for d in later.take(9, consumer="w1").deliveries])
    answer = Answer(later, "s1")
    assert answer.rule == "gone" and "2 replayed from dead by ada@desk 0s ago" in answer.sentence
    assert f"(op {op})" in answer.sentence and "trash" not in answer.sentence


def test_searched_history_window_is_reported(
    mail: RequestQueue[redis.Redis], client: redis.Redis
) -> None:
    mail.submit([b"x"], id="r1")
    pipe = client.pipeline(transaction=False)
    for n in range(5 * PAGE + 1000):
        pipe.xadd(mail.keys["hist"], {"t": n, "by": "-", "lost": f"r0/{n}|w1"})
    pipe.execute()
    answer = Answer(mail, "r0/999")  # behind the window
    assert (
        answer.rule == "unknown" and "the latest 5,000 of 6,000 history events" in answer.sentence
    )
    answer = Answer(mail, "r0/1001")
    assert answer.rule == "gone"
    assert answer.sentence.startswith("it is gone; its last history event: lost at")


def test_request_removed_after_retention(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.configure("level", 1, {"history": "all"})
    mail.submit([b"x"], id="r1")
    (delivery,) = mail.take(1, consumer="w1").deliveries
    settled(mail, delivery, "ack")
    clock.now_ms += 25 * 60 * MINUTE
    while mail.sweep():
        pass
    answer = Answer(mail, "r1")
    assert answer.rule == "gone" and answer.facts["at_ms"] == clock.now_ms - 25 * 60 * MINUTE
    assert answer.sentence == (
        "it was done at 2023-11-14 22:13:20+00:00 (1d 1h ago); finished requests are kept for 1d 0h"
    )


# --- requests and queues ------------------------------------------------------


def test_why_a_request_does_not_finish(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 4, id="r1")
    late, dead, *_ = mail.take(4, consumer="w1").deliveries
    settled(mail, late, "fail", 600)
    settled(mail, dead, "reject")
    clock.advance(20)
    answer = Answer(mail, "r1")
    assert answer.rule == "pending" and answer.also == ["delayed", "dead"]
    assert answer.sentence == (
        "2 of its entries are pending; the oldest is r1/3, held by w1 for 20s (lease ends in 10s)"
    )
    assert answer.facts["oldest"]["consumer"] == "w1"
    delayed = answer.row["also"][0]
    assert delayed["facts"]["next_ms"] == clock.now_ms + 580_000
    assert "the first is ready in 9m 40s" in delayed["sentence"]
    assert answer.row["also"][1]["command"] == "redisq replay mail/r1"


def test_unsealed_request(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    digest = Digest(50, 4)
    before = str(digest)
    digest.add(b"x")
    mail.append("r1", 1, [b"x"], before=before, after=str(digest))
    (delivery,) = mail.take(1, consumer="w1").deliveries
    settled(mail, delivery, "ack")
    clock.now_ms += 180 * MINUTE
    answer = Answer(mail, "r1")
    assert answer.rule == "open"
    assert answer.sentence == (
        "it is not sealed: its producer may still add to its 1 entry; the last addition was 3h 00m "
        "ago"
    )
    assert clock.now_ms - answer.facts["added_ms"] == 180 * MINUTE


def test_done_requests(mail: RequestQueue[redis.Redis]) -> None:
    for id, outcome in (("good", "ack"), ("bad", "reject")):
        mail.submit([b"x"], id=id)
        (delivery,) = mail.take(1, consumer="w1").deliveries
        settled(mail, delivery, outcome)
    answer = Answer(mail, "good")
    assert answer.rule == "done" and "all 1 settled; results are kept until" in answer.sentence
    answer = Answer(mail, "bad")
    assert answer.rule == "done-dead" and "with 1 of 1 entries dead" in answer.sentence
    assert answer.command == "redisq replay mail/bad"


@pytest.mark.parametrize("level", ["ops", "all"])
def test_undo_does_not_change_when_a_request_was_done(
    mail: RequestQueue[redis.Redis], clock: FakeClock, level: str
) -> None:
    mail.configure("level", 1, {"history": level})
    mail.submit([b"x"] * 2, id="r1")
    one, other = mail.take(2, consumer="w1").deliveries
    settled(mail, one, "ack")
    settled(mail, other, "reject")
    done = clock.now_ms
    clock.now_ms += 10 * MINUTE
    op = moved(mail, "dead", "replay")
    clock.now_ms += 10 * MINUTE
    change = ChangeRun(UndoSteps(mail, run(mail.client, read(mail, op))), ADA)  # type: ignore[arg-type]
    while run(mail.client, change.step()):
        pass
    answer = Answer(mail, "r1")
    assert answer.rule == "done-dead" and answer.facts["closed_ms"] == clock.now_ms
    assert f"2023-11-14 22:33:20+00:00 (0s ago), when {op} was undone" in answer.sentence
    if level == "all":
        assert answer.sentence.startswith("done at 2023-11-14 22:13:20+00:00 (20m 00s ago), and")
        assert answer.facts["done_ms"] == done
    else:
        assert "undone (when it was first done is not recorded), with 1 of" in answer.sentence
        assert answer.facts["done_ms"] is None


def test_waiting_requests(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 3, id="first", priority=3)
    mail.submit([b"x"] * 3, id="r1", limit=1)
    assert Answer(mail, "r1").rule == "no-worker"
    mail.take(1, consumer="w1")
    answer = Answer(mail, "r1")
    assert answer.rule == "behind"
    assert answer.sentence.startswith("3 of 3 entries wait behind 2 tokens of higher priorities")
    mail.take(3, consumer="w1")
    answer = Answer(mail, "r1")
    assert answer.rule == "limit" and answer.also == ["pending"]


def test_who_is_gone_and_uses_up_the_limit_is_named_and_gives_back_what_it_holds(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 3, id="r1", limit=1)
    mail.take(1, consumer="w1", lease=86_400)
    clock.advance(3 * 3600)
    another = RequestQueue(mail.client, "mail", clock=clock)
    another.take(1, consumer="w2")  # it asks, and gets nothing
    for id in ("r1/3", "r1"):
        answer = Answer(mail, id)
        assert answer.rule == "limit"
        assert answer.sentence.startswith(
            "request r1 is at its limit of 1: consumer w1 has been silent for 3h 00m; w1 has r1/1 "
        )
        where = """--where 'consumer="w1"'"""
        assert answer.command == f"redisq requeue --queue mail --state pending {where}"


def test_why_a_queue_does_not_move(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 3, id="r1", limit=1)
    assert Answer(mail).rule == "no-worker"
    (delivery,) = mail.take(1, consumer="w1").deliveries
    answer = Answer(mail)
    assert answer.rule == "held" and answer.facts["waiting"] == 2
    assert answer.sentence == (
        "2 entries waiting, and none can be delivered: 1 of 1 requests with waiting entries have "
        "reached their limit"
    )
    settled(mail, delivery, "ack")
    answer = Answer(mail)
    assert answer.rule == "moving" and answer.row["estimate"] is (answer.row["eta_ms"] is not None)
    clock.now_ms += 30 * MINUTE
    run(mail.client, control.pause(mail, ADA))
    run(mail.client, control.drain(mail, ADA))
    answer = Answer(mail)
    assert answer.rule == "paused" and answer.row["state"] == "paused"
    assert {"no-worker", "closed"} <= set(answer.also)
    closed = next(one for one in answer.row["also"] if one["rule"] == "closed")
    assert (answer.command, closed["command"]) == ("redisq queue resume mail", None)  # it ends both
    assert "draining and accepts no new entries; drained by ada@desk" in closed["sentence"]


def test_who_keeps_a_queue_from_moving(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 3, id="r1", limit=2)
    mail.take(2, consumer="w1", lease=3600)
    clock.now_ms += 6 * MINUTE
    mail.take(1, consumer="w2")  # somebody asks: only tokens are missing
    answer = Answer(mail)
    assert (answer.rule, answer.command) == ("held", None) and "holder" in answer.also
    assert answer.facts["requests"] == ["r1"]
    holder = next(one for one in answer.row["also"] if one["rule"] == "holder")
    assert holder["sentence"] == "consumer w1 holds 2 entries, the oldest for 6m 00s"
    requeue = """redisq requeue --queue mail --state pending --where 'consumer="w1"'"""
    assert (holder["verb"], holder["command"]) == ("requeue", requeue)
    clock.now_ms += 60 * MINUTE  # its leases expired, and nobody came
    answer = Answer(mail)
    overdue = next(one for one in answer.row["also"] if one["rule"] == "overdue")
    assert "consumer w1 was silent for at least 6m 00s and holds 2 entries" in overdue["sentence"]
    assert overdue["command"] == requeue and "silent" not in answer.also


def test_nobody_is_blamed_while_a_queue_moves(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 3, id="r1", limit=1)
    mail.submit([b"x"] * 3, id="r2", limit=1)
    mail.take(1, consumer="w1", lease=3600)
    clock.now_ms += 6 * MINUTE
    settled(mail, mail.take(1, consumer="w2").deliveries[0], "ack")
    assert "holder" not in Answer(mail).also


def test_a_paused_request_holds_its_queue(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"], id="r1")
    run(mail.client, control.change_request(mail, "r1", "pause", ADA))
    mail.take(1, consumer="w1")
    answer = Answer(mail)
    assert answer.rule == "held" and answer.command == "redisq request resume mail/r1"


def test_ready_retry_waits_for_a_take(client: redis.Redis, clock: FakeClock) -> None:
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"a"], id="r1")
    (delivery,) = queue.take(1, consumer="w1").deliveries
    settled(queue, delivery, "fail", 1)
    clock.advance(31)
    answer = Answer(queue)
    assert answer.rule == "due" and answer.row["eta_ms"] is None
    assert answer.sentence == (
        "1 entry delayed; the first became ready 30s ago: the next take delivers it"
    )
    clock.now_ms += 30 * MINUTE
    late = Answer(queue)
    assert late.rule == "no-worker" and "due" in late.also


def test_what_dies_or_fails_in_a_queue_is_its_first_reason(client: redis.Redis) -> None:
    queue = DelaySet(client, "webhooks")
    queue.schedule([(f"e{n}", b"x") for n in range(12)])
    for delivery in queue.take(12, consumer="w1").deliveries:
        settled(queue, delivery, "reject")
    answer = Answer(queue)
    assert answer.sentence == "12 dead in 5 m, mostly Timeout"
    assert answer.command == "redisq dlq groups webhooks"
    assert answer.also == ["empty"]


def test_queues_without_work(client: redis.Redis, clock: FakeClock) -> None:
    later = DelaySet(client, "later", clock=clock)
    later.schedule([("e1", b"x")], after=90)
    answer = Answer(later)
    assert answer.rule == "delayed"
    assert answer.sentence == "1 entry delayed, none ready; the first is ready in 1m 30s"
    assert answer.row["eta_ms"] == clock.now_ms + 90_000
    clock.advance(90)
    (delivery,) = later.take(1, consumer="w1").deliveries
    settled(later, delivery, "ack")
    clock.now_ms += 60 * MINUTE
    assert Answer(later).rule == "empty"


# --- other kinds --------------------------------------------------------------


def test_fair_turns_blocks_and_caps(client: redis.Redis, clock: FakeClock) -> None:
    jobs = FairQueue(client, "jobs", clock=clock)
    for name in ("acme", "bolt", "core"):
        jobs.submit(name, [(f"{name}-{n}", b"x") for n in range(3)])
    jobs.take(1, consumer="w1")
    answer = Answer(jobs, "acme-2")
    assert answer.rule == "turn" and answer.facts["client"] == "acme"
    assert answer.sentence == (
        "it waits for the turn of client acme, behind 2 clients whose turn comes first, 1 entry of "
        "its client (≈ 5 entries in all)"
    )
    jobs.weigh("acme", 10)  # so many of its own in a turn still come first
    assert Answer(jobs, "acme-2").facts["before"] == 3
    jobs.weigh("acme", 1)
    jobs.limit("acme", 1)
    answer = Answer(jobs, "acme-2")
    assert answer.rule == "cap"
    assert answer.sentence == "client acme has reached its cap: 1 pending of at most 1"
    assert answer.command == "redisq client cap jobs acme 2" and "next" not in answer.also
    jobs.block("acme")
    answer = Answer(jobs, "acme-2")
    assert (answer.rule, answer.also[0]) == ("blocked", "cap")
    assert answer.sentence == "client acme is blocked: its entries are not delivered"
    assert answer.row["verb"] == "unblock"
    assert answer.command == "redisq client unblock jobs acme"
    assert "next" not in answer.also  # whoever takes next doesn't get it
    named = Answer(jobs, "acme")
    assert named.sentence.startswith("acme is a client of queue jobs, not an entry; its blocked ")
    assert named.command == "redisq client ls jobs"
    for name in ("bolt", "core"):
        jobs.block(name)
    answer = Answer(jobs)
    assert answer.rule == "held" and "3 of 3 clients with waiting entries are blocked" in (
        answer.sentence
    )
    assert answer.command == "redisq client unblock jobs acme"
    assert "waiting" not in answer.also  # it was answer how many wait


def test_circular_queue_position(client: redis.Redis, clock: FakeClock) -> None:
    ring = CircularQueue(client, "ring", clock=clock)
    ring.push(["a", "b", "c", "d"])
    ring.take(1, consumer="w1")
    answer = Answer(ring, "d")
    assert answer.rule == "behind" and answer.sentence == "it waits behind 2 elements of the list"
    assert answer.facts["ahead"][0] == {"what": "elements of the list", "number": 2, "exact": True}
    assert Answer(ring, "b").rule == "next"
    (delivery,) = ring.take(1, consumer="w1").deliveries
    settled(ring, delivery, "fail", 5)
    answer = Answer(ring, "b")
    assert answer.rule == "retry" and answer.row["eta_ms"] == clock.now_ms + 5_000


def test_delayed_entries_and_their_rank(client: redis.Redis, clock: FakeClock) -> None:
    later = DelaySet(client, "later", clock=clock)
    later.schedule([(f"e{n}", b"x") for n in range(3)], after=1)
    answer = Answer(later, "e2")
    assert answer.rule == "delayed"
    assert answer.sentence == "it is delayed until 2023-11-14 22:13:21+00:00, in 1s"
    assert answer.command == "redisq requeue later/e2"
    clock.advance(1)
    later.take(1, consumer="w1")
    answer = Answer(later, "e2")
    assert answer.rule == "behind"
    assert answer.sentence == "it waits behind 1 entry with an earlier ready time"
    assert answer.facts["before"] == 1 and answer.facts["before_exact"]
    assert Answer(later, "gone").rule == "unknown"


def test_sharded_queue_is_explained_as_one(client: redis.Redis, clock: FakeClock) -> None:
    wide = ShardedRequestQueue(client, "wide", shards=3, clock=clock)
    for n in range(6):
        wide.submit([b"x"] * 3, id=f"r{n}", limit=1)
    assert Answer(wide, "r4/2").rule == "no-worker"
    while wide.take(6, consumer="w1").deliveries:
        pass
    for n in range(6):
        answer = Answer(wide, f"r{n}/2")
        assert answer.rule == "limit" and answer.facts["holders"][0]["id"] == f"r{n}/1"
    assert Answer(wide).rule == "held"


def test_stream_entries(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [client.xadd("orders", {"n": n}).decode() for n in range(4)]  # type: ignore[union-attr]
    client.xgroup_create("orders", "mail", id="0")
    queue = StreamQueue(client, "stream:orders")
    answer = Answer(queue, f"mail:{ids[2]}")
    assert answer.rule == "no-worker" and answer.command is None
    assert answer.sentence.startswith("no worker is taking: no consumer of group mail was seen")
    client.xreadgroup("mail", "w1", {"orders": ">"}, count=1)
    answer = Answer(queue, f"mail:{ids[3]}")
    assert answer.rule == "behind" and answer.sentence == "it waits behind 2 entries of the stream"
    answer = Answer(queue, f"mail:{ids[0]}")
    assert answer.rule == "pending" and answer.facts["consumer"] == "w1"
    assert answer.command is None, "a claim leaves out what is held for less than five minutes"
    assert answer.sentence == (
        "consumer w1 of group mail has had it for 0s and was last active 0s ago; deliveries here "
        "have no deadline: it stays pending until it is acknowledged or claimed"
    )
    monkeypatch.setattr("redisq_ops.ops.explain.entry_reasons.SILENT_MS", 0)
    answer = Answer(queue, f"mail:{ids[0]}")
    assert answer.rule == "silent"
    assert answer.command == "redisq workers claim stream:orders w1 --group mail --to NAME"
    client.xack("orders", "mail", ids[0])
    answer = Answer(queue, f"mail:{ids[0]}")
    assert answer.rule == "done" and "as far as its keys show" in answer.sentence
    answer = Answer(queue, "mail:1-1")
    assert answer.rule == "unknown" and "keeps no history" in answer.sentence


@pytest.mark.parametrize(
    ("queue", "long"),
    [(CeleryQueue, "until it has a result"), (SidekiqQueue, "for 15s"), (ResqueQueue, "")],
)
def test_what_is_in_no_key_may_have_a_worker_yet(
    client: redis.Redis, queue: type[Any], long: str
) -> None:
    answer = Answer(queue(client, f"{queue.kind}:mail"), "some")
    assert answer.rule == "unknown" and answer.sentence.endswith(
        f"Perhaps a worker has it: no key need show that {long}" if long else "what became of it"
    )


def test_stream_entry_of_two_groups(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redisq_ops.ops.explain.entry_reasons.SILENT_MS", 0)
    id = client.xadd("orders", {"n": 1}).decode()  # type: ignore[union-attr]
    client.xgroup_create("orders", "billing", id="0")
    client.xgroup_create("orders", "we ird/grp", id="0")
    client.xreadgroup("billing", "web-1", {"orders": ">"})
    queue = StreamQueue(client, "stream:orders")
    answer = Answer(queue, id)
    assert answer.sentence.startswith("consumer web-1 of group billing has had it for")
    (other,) = answer.row["also"]
    assert "group we%20ird%2Fgrp has not received it yet" in other["sentence"]
    client.xreadgroup("we ird/grp", "wörker 1", {"orders": ">"})
    answer = Answer(queue, id)
    assert answer.command == "redisq workers claim stream:orders web-1 --group billing --to NAME"
    assert answer.facts["group"] == "billing" and answer.facts["heard_ms"] is not None
    (other,) = answer.row["also"]
    assert other["rule"] == "group"
    assert other["command"] == f"redisq explain stream:orders/we%20ird%2Fgrp:{id}"
    assert "in group we%20ird%2Fgrp, consumer wörker 1 has had it for 0s" in other["sentence"]
    answer = Answer(queue, f"we%20ird%2Fgrp:{id}")
    assert answer.command == (
        "redisq workers claim stream:orders 'wörker 1' --group we%20ird%2Fgrp --to NAME"
    )
    assert not answer.also
    client.xack("orders", "billing", id)
    assert Answer(queue, id).facts["group"] == "we%20ird%2Fgrp"


def test_trimmed_pending_entry(client: redis.Redis, redisq: Redisq) -> None:
    gone, there = (client.xadd("orders", {"n": n}).decode() for n in range(2))  # type: ignore[union-attr]
    client.xgroup_create("orders", "billing", id="0")
    client.xreadgroup("billing", "web-1", {"orders": ">"})
    client.xdel("orders", gone)
    queue = StreamQueue(client, "stream:orders")
    answer = Answer(queue, gone)
    assert (answer.rule, answer.row["state"], answer.command) == ("trimmed", "pending", None)
    assert "its payload was deleted or trimmed" in answer.sentence and "XACK" in answer.sentence
    assert "consumer web-1 of group billing has held its id" in answer.sentence
    assert Answer(queue, there).rule == "pending"
    rows = redisq("pending", "ls", "stream:orders").splitlines()
    assert [" gone " in row for row in rows[1:3]] == [True, False]
    listed = redisq.rows("pending", "ls", "stream:orders")
    assert [row["owner_state"] for row in listed] == ["gone", None]
    # What the sentence offers does clear it.
    redisq("workers", "rm", "stream:orders", "web-1", "--yes", code=3)
    assert Answer(queue, gone).row["state"] is None
    assert Answer(queue, there).facts["consumer"] == "operator"


def test_a_job_of_another_program_is_told_by_the_rules_of_that_program(
    client: redis.Redis,
) -> None:
    client.sadd("rq:queues", "rq:queue:mail")
    started: dict[Any, Any] = {"origin": "mail", "status": "started", "description": "app.f()"}
    client.hset(
        "rq:job:one", mapping=started | {"created_at": "2026-01-01T00:00:00Z", "data": b"x"}
    )
    client.zadd("rq:wip:mail", {"one": time.time() - 600})
    answer = Answer(RqQueue(client, "rq:mail"), "one")
    assert answer.rule == "overdue" and "max_lost" not in answer.facts
    assert "RQ's workers, which look when they start and every 10 minutes" in answer.sentence
    assert "the next take" not in answer.sentence
    answer = Answer(RqQueue(client, "rq:mail"))
    assert "overdue" in answer.also and "consumer None" not in str(answer.row)


def test_a_running_task_of_celery_was_not_given_back(client: redis.Redis) -> None:
    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    message = {"body": "W10=", "headers": {"id": "t", "task": "a.b"}, "properties": {}}
    client.hset("unacked", "tag", json.dumps([message, "", "celery"]))
    client.zadd("unacked_index", {"tag": time.time()})
    answer = Answer(CeleryQueue(client, "celery:celery"), "t")
    assert answer.rule == "pending"
    assert answer.sentence.startswith("an unknown consumer has had it")


def test_a_state_whose_number_is_unknown_does_not_count_as_empty(client: redis.Redis) -> None:
    queue = SidekiqQueue(client, "sidekiq:default")
    client.sadd("queues", "default")
    soon = time.time() + 600
    for n in range(600):
        job = {"class": "Send", "args": [n], "jid": f"{n:024x}", "queue": "other", "retry": True}
        client.zadd("schedule", {json.dumps(job): soon + n})
    assert queue.counts().of("delayed") is None
    answer = Answer(queue)
    assert answer.rule == "unknown" and "how many entries are delayed" in answer.sentence
    ours = {"class": "Send", "args": [], "jid": "f" * 24, "queue": "default", "retry": True}
    client.zadd("schedule", {json.dumps(ours): soon - 60})
    answer = Answer(queue)
    assert answer.rule == "delayed" and answer.facts["delayed"] is None
    assert "an unknown number of entries delayed, none ready; the first is" in answer.sentence
    # Due, and nobody takes it: still no number.
    client.zadd("schedule", {json.dumps(ours): time.time() - 60})
    answer = Answer(queue)
    assert "due" in (answer.rule, *answer.also)
    assert "0 entries delayed" not in str(answer.row)


def test_tasks_of_celery_that_may_be_pending_are_not_none(client: redis.Redis) -> None:
    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    for n in range(600):
        message = {"body": "W10=", "headers": {"id": f"t{n}", "task": "a.b"}, "properties": {}}
        held = json.dumps([message, "", "other"])
        client.hset("unacked", f"tag{n}", held)
        client.zadd("unacked_index", {f"tag{n}": time.time()})
    queue = CeleryQueue(client, "celery:celery")
    assert queue.counts().of("pending") is None
    answer = Answer(queue)
    assert "it has no work to do" not in str(answer.row)
    assert "0 pending" not in str(answer.row)


def test_sidekiq_jobs(client: redis.Redis) -> None:
    queue = SidekiqQueue(client, "sidekiq:default")
    jids = queue.push([Job("Mail", [n]) for n in range(3)])
    answer = Answer(queue, jids[2])
    assert answer.rule == "no-worker" and answer.facts["consumers_seen"] == 0
    assert answer.command is None  # its own workers are started elsewhere
    (delivery,) = queue.take(1, consumer="w1").deliveries
    answer = Answer(queue, jids[2])
    assert answer.rule == "behind" and answer.sentence == "it waits behind 1 job of the list"
    assert Answer(queue, jids[0]).rule == "pending"
    settled(queue, delivery, "fail")
    answer = Answer(queue, jids[0])
    assert answer.rule == "retry" and "failure 1: Timeout" in answer.sentence
    client.sadd("paused", "default")
    answer = Answer(queue, jids[2])
    assert answer.rule == "paused" and answer.command == "redisq queue resume sidekiq:default"
    assert answer.sentence == (
        "queue sidekiq:default is paused by its own program: paused in Sidekiq"
    )


def test_kind_without_worker_data(client: redis.Redis) -> None:
    client.zadd("timers", {"job-1": 1.0, "job-2": 2.0})
    found = run(client, explain_text(Deployment(client), "raw-delay:timers/job-2"))
    assert found.state == "waiting" and found.reason.rule == "waiting"
    assert found.reason.sentence == ("it waits; a raw-delay queue does not show what is before it")


# --- as a command -------------------------------------------------------------


def counted(client: redis.Redis, description: Any) -> int:
    """The rounds an operation takes."""
    rounds = 0

    def spied() -> Generator[Round, Any, Any]:
        nonlocal rounds
        replies = None
        while True:
            try:
                asked = description.send(replies)
            except StopIteration as stop:
                return stop.value
            rounds += 1
            replies = yield asked

    class Spy:
        def __await__(self) -> Generator[Round, Any, Any]:
            return spied()

    async def whole() -> Any:
        return await Spy()

    run(client, whole())
    return rounds


def test_round_trips_do_not_depend_on_queue_size(
    mail: RequestQueue[redis.Redis], client: redis.Redis
) -> None:
    def fill(n: int) -> None:
        for k in range(n):
            mail.submit([b"x"] * 20, id=f"q{n}-{k}", limit=10, priority=k % 90)
        for k in range(n):
            for delivery in mail.take(3, consumer=f"w{k}").deliveries[1:]:
                settled(mail, delivery, "fail" if k % 2 else "reject", 600)

    mail.submit([b"x"] * 20, id="r1", limit=5, priority=95)
    fill(1)
    asked = ("r1/3", "r1", None, "q1-0/1", "q1-0/2")
    few = [counted(client, explain(mail, id)) for id in asked]
    fill(60)
    many = [counted(client, explain(mail, id)) for id in asked]
    assert many == few
    assert max(few) <= 10


@pytest.mark.slow
def test_explain_needs_read_permission_only(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = everywhere(client)
    moved(queue, "dead", "purge")
    FairQueue(client, "jobs").submit("acme", [("a", b"x")])
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    CircularQueue(client, "ring").push(["a"])
    client.acl_setuser(
        "viewer",
        enabled=True,
        nopass=True,
        reset=True,
        keys="*",
        categories=["+@read", "+@connection"],
        commands=["+time", "-@write"],
    )
    viewer = Redisq(url.replace("//", "//viewer:any@"), capsys)
    before = picture(client)
    try:
        asked = [f"mail/r1/{n}" for n in range(1, 9)]
        for address in (*asked, "mail/r1", "mail", "jobs/a", "jobs", "later/e1", "ring/a"):
            assert viewer("explain", address)
        assert picture(client) == before
    finally:
        client.acl_deluser("viewer")


def test_command_prints_sentence_time_and_verb(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    lines = redisq("explain", "r1/3").splitlines()
    assert lines[0] == "entry mail/r1/3: delayed"
    assert lines[1].startswith("  it will be retried at ")
    assert r"failure 1 of 20: SMTP: no such [red]mailbox\x1b]52;c;aGk=\x07" in lines[1]
    assert lines[2].startswith("  when: in 59s (") or lines[2].startswith("  when: in 1m 00s (")
    assert lines[3:5] == ["  Requeue mail/r1/3:", "    redisq requeue mail/r1/3"]
    (row,) = redisq.rows("explain", "mail/r1/3")
    assert (row["rule"], row["state"], row["what"]) == ("retry", "delayed", "entry")
    assert row["facts"]["failures"] == 1 and row["verb"] == "requeue"
    redisq("requeue", "mail/r1/3", "--yes")
    (row,) = redisq.rows("explain", "mail/r1/3")
    assert row["state"] == "waiting" and "touched" in [one["rule"] for one in row["also"]]


def test_purged_entry_has_no_eta(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    moved(queue, "dead", "purge")
    answer = redisq("explain", "r1/2")
    assert "purged at" in answer and "undo works until" in answer and "when:" not in answer


def test_terminal_wraps_sentences_between_words(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(client)
    whole = redisq("explain", "r1/2").splitlines()
    assert max(map(len, whole)) > 80 and whole[1].startswith("  dead since ")
    consumers = redisq("workers", "ls", "mail").splitlines()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    lines = redisq("explain", "r1/2").splitlines()
    assert max(map(len, lines)) <= 60 and lines[1].startswith("  dead since ")
    assert lines[2].startswith("    ") and lines[-1] == whole[-1]  # a command stays one line
    answer = " ".join(line.strip() for line in lines[1:-2])
    assert re.sub(r"\d+s ago", "", answer) == re.sub(r"\d+s ago", "", whole[1].strip())
    broken = redisq("workers", "ls", "mail").splitlines()
    assert len(broken) > len(consumers) and broken[2].startswith("    ")
    assert " ".join(line.strip() for line in broken[1:3]) == consumers[1].strip()


def test_command_for_missing_ids(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    (row,) = redisq.rows("explain", "mail/r1/99", code=1)
    assert (row["rule"], row["state"]) == ("unknown", None)
    assert redisq("explain", "mail/r1/99", code=1).startswith("entry mail/r1/99: not there")
    line = redisq.refusal("explain", "nowhere", code=1)
    assert "no queue, request or entry is named 'nowhere'" in line and "of 1 history events" in line
    queue.configure("level", 1, {"history": "all"})
    later = DelaySet(client, "later")
    later.configure("level", 1, {"history": "all"})
    later.schedule([("e1", b"x")], after=0)
    later.settle([Settlement(d, "ack") for d in later.take(1, consumer="w1").deliveries])
    (row,) = redisq.rows("explain", "e1", code=1)
    assert (row["queue"], row["rule"]) == ("later", "gone")
    assert "by w1; a done entry leaves no other record" in row["sentence"]


def test_addresses_in_commands_are_quoted(client: redis.Redis) -> None:
    queue = RequestQueue(client, "it's")
    queue.submit([b"x"], id="$r")
    (delivery,) = queue.take(1, consumer="w1").deliveries
    settled(queue, delivery, "reject")
    assert Answer(queue, "$r/1").command == "redisq replay 'it'\"'\"'s/$r/1'"


def test_unknown_bare_id_is_not_found(client: redis.Redis) -> None:
    bad = RequestQueue(client, "bad")
    bad.submit([b"x"], id="r1")
    client.set(bad.keys["hist"], "not a stream")
    with pytest.raises(NotFound, match=r"latest 0 of 0 .* the history of 1 queue can't be read"):
        run(client, explain_text(Deployment(client), "nothing"))


def test_async_explanation_is_equal(client: redis.Redis, aclient: Any) -> None:
    queue = everywhere(client)

    async def asked() -> dict[str, Any]:
        async with aclient() as there:
            found = await arun(there, explain(RequestQueue(there, "mail"), "r1/2"))
            return found.row()

    answer = asyncio.run(asked())
    now = Answer(queue, "r1/2").row
    same = ("rule", "state", "facts", "command", "also")
    assert {name: answer[name] for name in same} == {name: now[name] for name in same}


def test_removed_entry_is_not_called_done(mail: RequestQueue[redis.Redis], redisq: Redisq) -> None:
    mail.submit([b"x"] * 3, id="r1")
    redisq("purge", "mail/r1/2", "--hard", "--yes", "--reason", "a bad one")
    (answer,) = redisq.rows("explain", "mail/r1/2", code=1)
    assert answer["rule"] == "removed" and "a bad one" in answer["sentence"]
    (answer,) = redisq.rows("explain", "mail/r1/9", code=1)
    assert "has 3 entries, numbered from 1" in answer["sentence"]


def test_time_beyond_the_calendar_is_shown_as_year(redisq: Redisq, client: redis.Redis) -> None:
    """Milliseconds where Sidekiq means seconds: legal there, and a well-known slip."""
    far_apart(client)
    shown = redisq("inspect", "sidekiq:low/far")
    assert re.search(r"^ +ready +year 58865$", shown, re.M)
    assert "it is delayed until year 58865, in " in redisq("explain", "sidekiq:low/far")


def test_last_possible_time_in_any_zone(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    DelaySet(client, "later").schedule([("e1", b"x")], after=MINUTE / 1000)
    words = ("delay", "reschedule", "later/e1", "--at", "5138-11-16T09:46:39Z", "--dry-run")
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    try:
        assert "they become ready at 5138-11-16 10:46:39+01:00" in redisq(*words)
        assert "they become ready at 5138-11-16 09:46:39+00:00" in redisq(*words, "--utc")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_impossible_entry_number_is_unknown(redisq: Redisq, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    for number in ("99999999999999999999999", "18446744073709551616"):
        answer = redisq("explain", f"mail/r1/{number}", code=1)
        assert f"there is no r1/{number}: request r1 has 1 entries, numbered from 1" in answer
