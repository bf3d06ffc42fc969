"""`redisq explain`: the rule that holds something, in words and as JSON, of every kind of queue."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.resque import SidekiqQueue
from redisq_ops.core.foreign.resque.job import Job
from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Failure, Settlement
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.queues.request.submission import Digest
from redisq_ops.core.redis.operation import Round, arun, run
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author, read
from redisq_ops.ops.change.bulk import Bulk
from redisq_ops.ops.change.undo import Undo
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.explain.explanation import explain, explain_text
from redisq_ops.ops.explain.facts import PAGE
from redisq_ops.ops.filter.scan import Filter, select

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


def settled(queue: Queue[redis.Redis], given: Delivery, outcome: Any, delay_ms: int = 0) -> None:
    queue.settle([Settlement(given, outcome, TIMEOUT.encoded(), delay_ms)])


def moved(queue: Queue[redis.Redis], state: Any, verb: Any, **how: Any) -> str:
    """A bulk change of a whole state; its name."""
    chosen = run(queue.client, select(queue, state, Filter()))
    change = Bulk(chosen, verb, ADA, **how)
    while run(queue.client, change.step()):
        pass
    assert change.outcome.op is not None
    return change.outcome.op


# --- entries of requests ------------------------------------------------------


def test_behind_higher_priorities(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 30, id="urgent", priority=1, limit=4)
    mail.submit([b"x"] * 10, id="same", limit=2)
    mail.submit([b"x"] * 10, id="r1", limit=2)
    mail.take(1, consumer="w1")
    said = Answer(mail, "r1/3")
    assert said.rule == "behind"
    assert said.sentence == (
        "it waits behind 3 tokens of higher priorities, 2 tokens of other requests of its "
        "priority, 2 entries of its request (≈ 33 entries in all)"
    )
    assert [a["number"] for a in said.facts["ahead"]] == [3, 2, 2]
    assert all(a["exact"] for a in said.facts["ahead"])
    assert said.command == "redisq request priority mail/r1 0"
    assert said.row["eta_ms"] is None and not said.row["estimate"]  # nobody settled anything yet


def test_behind_a_token_is_behind_an_entry(mail: RequestQueue[redis.Redis]) -> None:
    """The second of two requests: its first entry comes when the other's token was taken once."""
    mail.submit([b"x"] * 4, id="first", limit=2)
    mail.submit([b"x"] * 3, id="second", limit=1)
    mail.take(1, consumer="w1")
    behind = "wait behind 1 token of other requests of its priority"
    assert Answer(mail, "second").sentence == f"3 of 3 wait: they {behind}"
    assert Answer(mail, "second/1").sentence == behind.replace("wait", "it waits", 1)
    said = Answer(mail, "second/3")
    assert said.sentence.endswith("2 entries of its request (≈ 4 entries in all)")
    assert said.facts["before"] == 4


def test_more_than_can_be_counted_is_about(
    mail: RequestQueue[redis.Redis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.core.queues.request.position.DEPTH", 10)
    for n in range(8):
        mail.submit([b"x"] * 4, id=f"other-{n}", limit=4)
    mail.submit([b"x"] * 4, id="r1", limit=4)
    mail.take(1, consumer="w1")
    (ahead,) = Answer(mail, "r1/1").facts["ahead"]
    assert ahead == {
        "what": "tokens of other requests of its priority", "number": 10, "exact": False
    }  # fmt: skip
    assert "≈ 10 tokens" in Answer(mail, "r1/1").sentence


def test_the_estimate_is_the_rate_of_the_last_minutes(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    clock.now_ms = 1_700_000_040_000  # a whole minute
    mail.submit([b"x"] * 100, id="r1", limit=100)
    for delivery in mail.take(10, consumer="w1").deliveries:
        settled(mail, delivery, "ack")
    clock.advance(MINUTE)
    mail.take(0 + 1, consumer="w1")
    said = Answer(mail, "r1/21")
    assert said.facts["before"] == 9  # 12 to 20
    assert said.row["eta_ms"] == clock.now_ms + MINUTE  # ten a minute
    assert said.row["estimate"] is True
    assert said.row["basis"] == (
        "10 to go, if ≈ 10.0 a minute go on leaving the queue, as in the last 5 minutes"
    )


def test_tokens_held_by_whom(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 5, id="r1", limit=2)
    mail.take(1, consumer="w1")
    clock.advance(12_000)
    mail.take(1, consumer="w2")
    clock.advance(3_000)
    said = Answer(mail, "r1/4")
    assert said.rule == "limit"
    assert said.sentence == (
        "all 2 tokens of request r1 are held: w1 has r1/1 since 15s (lease ends in 15s); "
        "w2 has r1/2 since 3s (lease ends in 27s)"
    )
    first = said.facts["holders"][0]
    assert (first["consumer"], first["id"]) == ("w1", "r1/1")
    assert first["until_ms"] - clock.now_ms == 15_000 and clock.now_ms - first["since_ms"] == 15_000
    assert said.command == "redisq request limit mail/r1 4"


def test_request_and_queue_paused_by_whom_and_why(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 2, id="r1")
    run(mail.client, control.change_request(mail, "r1", "pause", ADA))
    said = Answer(mail, "r1/1")
    assert said.rule == "request-paused"
    assert said.sentence.startswith(
        "request r1 is paused by ada@desk 0s ago because 'smtp is down' (op pause-"
    )
    assert said.facts["op"]["who"] == "ada" and said.facts["op"]["why"] == "smtp is down"
    assert said.command == "redisq request resume mail/r1"
    run(mail.client, control.pause(mail, ADA))
    said = Answer(mail, "r1/1")
    assert (said.rule, said.command) == ("paused", "redisq queue resume mail")
    assert said.sentence.startswith("queue mail is paused by ada@desk 0s ago because")
    assert "request-paused" in said.also
    assert said.facts["paused"] == "smtp is down"


def test_paused_by_nobody_the_journal_knows(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"], id="r1")
    mail.configure("by-hand", 1, {"paused": "deploy"})
    said = Answer(mail, "r1/1")
    assert said.sentence == "queue mail is paused: 'deploy', the journal doesn't say by whom"
    assert said.facts["op"] is None


def test_no_worker_is_taking(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 2, id="r1")
    said = Answer(mail, "r1/1")
    assert said.rule == "no-worker" and said.facts["consumers_seen"] == 0
    assert said.sentence == "no worker is taking: no consumer of mail was seen in the last day"
    assert said.command == "redisq work MODULE:FUNCTION --queue mail"
    (given,) = mail.take(1, consumer="w1").deliveries
    settled(mail, given, "ack")
    assert Answer(mail, "r1/2").rule == "next"
    clock.advance(14 * MINUTE)
    said = Answer(mail, "r1/2")
    assert said.sentence == "no worker is taking: nobody has asked mail for work for 14m 00s"
    assert said.facts["silent_ms"] == 14 * MINUTE


def test_workers_that_are_busy_are_not_gone(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 2, id="r1")
    (given,) = mail.take(1, consumer="w1").deliveries
    for _ in range(6):
        clock.advance(20_000)
        mail.extend([given])
    said = Answer(mail, "r1/2")
    assert said.rule == "busy"
    assert said.sentence.startswith("all workers seem busy: they hold 1 pending")
    assert "next" in said.also


def test_retry_back_off_and_why(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"], id="r1")
    (given,) = mail.take(1, consumer="w1").deliveries
    settled(mail, given, "fail", 90_000)
    said = Answer(mail, "r1/1")
    assert said.rule == "retry"
    assert said.sentence == (
        "it is tried again at 2023-11-14 22:14:50+00:00, in 1m 30s, because failure 1 of 20 said "
        "Timeout: smtp-3 did not answer in 30 s"
    )
    assert said.row["eta_ms"] == clock.now_ms + 90_000 and said.row["estimate"] is False
    assert said.command == "redisq requeue mail/r1/1"
    clock.advance(91_000)
    said = Answer(mail, "r1/1")
    assert said.row["state"] == "delayed" and said.rule == "no-worker" and said.also == ["due"]


def test_pending_with_its_lease(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"], id="r1")
    mail.take(1, consumer="w1")
    clock.advance(5_000)
    said = Answer(mail, "r1/1")
    assert said.rule == "pending"
    assert said.sentence == "w1 has it since 5s; its lease ends in 25s, unless it is renewed"
    assert said.row["eta_ms"] == said.facts["deadline_ms"] == clock.now_ms + 25_000


def test_a_silent_consumer_and_who_would_bring_it_back(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"], id="r1")
    mail.take(1, consumer="w1")
    clock.advance(14 * MINUTE + 30_000)
    said = Answer(mail, "r1/1")
    assert said.rule == "overdue"
    assert said.sentence == (
        "consumer w1 is silent for 14m 00s: it has the entry since 14m 30s, its lease ended "
        "14m 00s ago; the next take, or a worker's upkeep every 30 s, makes it waiting again, but "
        "no worker is taking: nobody has asked mail for work for 14m 30s"
    )
    assert said.facts["silent_ms"] == 14 * MINUTE and "no-worker" in said.also
    assert said.command == "redisq requeue mail/r1/1"
    run(mail.client, control.set_flags(mail, "retention", ADA, {"max_lost": "1"}))
    assert "makes it dead" in Answer(mail, "r1/1").sentence


def test_claimed_by_an_operator(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"], id="r1")
    mail.take(1, consumer="w1")
    op = moved(mail, "pending", "claim", consumer="operator")
    said = Answer(mail, "r1/1")
    assert said.rule == "pending" and said.facts["op"]["id"] == op
    assert "operator has it since 0s, given to it by ada@desk" in said.sentence


def test_dead_and_how_many_alike(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 4, id="r1")
    *alike, other = mail.take(4, consumer="w1").deliveries
    for n, delivery in enumerate(alike):
        error = Failure("Timeout", f"smtp-{n} did not answer in {n}0 s").encoded()
        mail.settle([Settlement(delivery, "reject", error)])
    mail.settle([Settlement(other, "reject", Failure("Full", "mailbox").encoded())])
    clock.advance(MINUTE)
    said = Answer(mail, "r1/2")
    assert said.rule == "dead" and said.facts["reason"] == "rejected"
    assert said.sentence.startswith(
        "dead since 2023-11-14 22:13:20+00:00 (1m 00s ago) because its handler rejected it: "
        "Timeout: smtp-1 did not answer in 10 s; 3 of this error (group "
    )
    assert said.sentence.endswith("among all 4 dead")
    assert (said.facts["alike"], said.facts["looked"], said.facts["dead"]) == (3, 4, 4)
    assert said.command == "redisq replay mail/r1/2"
    clock.advance(-3 * 60 * MINUTE)  # a failover to a server whose clock is hours behind
    said = Answer(mail, "r1/2")
    assert "(by a clock that was 2h 59m ahead) because its handler" in said.sentence


def test_dead_because_it_failed_or_was_lost_too_often(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 2, id="r1")
    run(mail.client, control.set_flags(mail, "retention", ADA, {"max_failures": "1"}))
    first, _ = mail.take(2, consumer="w1").deliveries
    settled(mail, first, "fail")
    assert "because it failed once: Timeout" in Answer(mail, "r1/1").sentence
    for _ in range(3):
        clock.advance(31_000)
        mail.take(1, consumer="w2")
    said = Answer(mail, "r1/2")
    assert said.rule == "dead" and "because its lease was lost 3 times" in said.sentence
    assert said.facts["alike"] is None  # it has no error that others could be like


def test_purged_by_whom_and_until_when_undo_works(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.submit([b"x"] * 2, id="r1")
    op = moved(mail, "waiting", "purge")
    clock.advance(60 * MINUTE)
    said = Answer(mail, "r1/1")
    assert said.rule == "purged"
    assert said.sentence == (
        "purged at 2023-11-14 22:13:20+00:00 by ada@desk 1h 00m ago because 'smtp is down' (op "
        f"{op}); undo until 2023-11-15 22:13:20+00:00 (in 23h 00m)"
    )
    assert said.command == f"redisq undo {op}"
    assert said.facts["undo_until_ms"] - clock.now_ms == 23 * 60 * MINUTE
    assert said.row["eta_ms"] is None  # it isn't when it runs


def test_done_and_how_long_its_result_is_kept(
    mail: RequestQueue[redis.Redis], clock: FakeClock
) -> None:
    mail.configure("level", 1, {"history": "all"})
    mail.submit([b"x"] * 2, id="r1")
    first, second = mail.take(2, consumer="w1").deliveries
    mail.settle([Settlement(first, "result", b"fine")])
    clock.advance(MINUTE)
    said = Answer(mail, "r1/1")
    assert said.rule == "done" and said.command == "redisq results mail/r1"
    assert said.sentence == (
        "done at 2023-11-14 22:13:20+00:00 (1m 00s ago); its result is kept while request r1 goes "
        "on, and 1d 0h longer"
    )
    settled(mail, second, "ack")
    said = Answer(mail, "r1/1")
    assert said.sentence.endswith("kept until 2023-11-15 22:14:20+00:00 (in 1d 0h)")
    assert said.facts["kept_until_ms"] == clock.now_ms + 24 * 60 * MINUTE
    assert said.row["eta_ms"] is None


def test_without_a_full_history_nobody_knows_when(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 2, id="r1")
    (first,) = mail.take(1, consumer="w1").deliveries
    settled(mail, first, "ack")
    said = Answer(mail, "r1/1")
    assert said.sentence.startswith("done; when isn't kept; it is without a result")
    assert said.facts["done_ms"] is None


def test_an_entry_of_a_cancelled_request(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 2, id="r1")
    run(mail.client, control.change_request(mail, "r1", "cancel", ADA))
    for id in ("r1", "r1/2"):
        said = Answer(mail, id)
        assert said.rule == "cancelled" and said.command is not None
        assert "was cancelled by ada@desk 0s ago because 'smtp is down'" in said.sentence
        assert "undo until 2023-11-15 22:13:20+00:00 (in 1d 0h)" in said.sentence
        assert said.row["eta_ms"] is None
        assert said.command.startswith("redisq undo cancel-")


def test_unknown_ids_say_what_the_history_was_looked_through_for(
    mail: RequestQueue[redis.Redis],
) -> None:
    mail.submit([b"x"] * 2, id="r1")
    said = Answer(mail, "r1/3")
    assert (said.rule, said.row["state"]) == ("unknown", None)
    assert said.sentence == "request r1 has 2 entries, numbered from 1: there is no r1/3"
    first, second = mail.take(2, consumer="w1").deliveries
    settled(mail, first, "fail")
    settled(mail, second, "fail")
    said = Answer(mail, "nobody")
    assert said.row["what"] == "request" and not said.found.known
    assert "in the latest 2 of 2 events there is nothing about it" in said.sentence
    assert "history is 'ops'" in said.sentence
    assert (said.facts["looked"], said.facts["events"]) == (2, 2)
    moved(mail, "waiting", "hard")
    said = Answer(mail, "r9/1")
    assert "1 of the latest changes removed entries for good, the last one by ada" in said.sentence


def dying(client: redis.Redis, clock: FakeClock, *ids: str) -> DelaySet[redis.Redis]:
    """A delay set where these died, one after another."""
    later = DelaySet(client, "later", clock=clock)
    later.schedule([(id, b"x") for id in ids], after_ms=0)
    for given in later.take(100, consumer="w1").deliveries:
        settled(later, given, "reject")
    clock.advance(MINUTE)
    return later


def named(queue: Queue[redis.Redis], state: Any, verb: Any, *ids: str) -> str:
    """A change of named entries; its name."""
    change = Bulk(run(queue.client, select(queue, state, Filter(ids=ids))), verb, ADA)
    while run(queue.client, change.step()):
        pass
    return str(change.outcome.op)


def test_who_removed_what_is_gone_for_good(client: redis.Redis, clock: FakeClock) -> None:
    later = dying(client, clock, "s1", "s2", "s3", "s4", "1", "gone")
    hard = named(later, "dead", "hard", "s1")
    said = Answer(later, "s1")
    assert (said.rule, said.row["state"]) == ("removed", None)
    assert said.sentence == (
        f"it was purged for good from dead by ada@desk 0s ago because 'smtp is down' (op {hard}); "
        "before that the history says of it: dead at 2023-11-14 22:13:20+00:00 (1m 00s ago)"
    )
    assert [one["id"] for one in said.facts["removals"]] == [hard]
    purge = named(later, "dead", "purge", "s2")
    empty = named(later, "trash", "hard", "s2")
    said = Answer(later, "s2")
    assert said.sentence.startswith("it was purged from dead by ada@desk 0s ago because")
    assert f"(op {purge}); removed from the trash by ada@desk" in said.sentence
    assert [one["id"] for one in said.facts["removals"]] == [purge, empty]
    later.schedule([("s9", b"x")], after_ms=MINUTE)  # of which the history has nothing
    hard = named(later, "delayed", "hard", "s9")
    said = Answer(later, "s9")
    assert said.rule == "removed"
    assert said.sentence == (
        f"it was purged for good from delayed by ada@desk 0s ago because 'smtp is down' (op {hard})"
    )
    # One of all that was left, and no other change leads out of there: it needs no name.
    every = moved(later, "dead", "hard")
    for id in ("s3", "1", "gone"):  # numbers and states are no names of entries
        said = Answer(later, id)
        assert said.rule == "removed" and f"(op {every})" in said.sentence


def test_what_may_have_removed_it_is_listed(client: redis.Redis, clock: FakeClock) -> None:
    later = dying(client, clock, *(f"s{n}" for n in range(9)))
    for _ in range(7):
        chosen = run(client, select(later, "dead", Filter(max=1)))
        change = Bulk(chosen, "hard", ADA)
        while run(client, change.step()):
            pass
        clock.advance(1000)
    said = Answer(later, "s0")
    assert said.rule == "gone"
    assert "it is gone; the last thing the history says of it is: dead at" in said.sentence
    assert "changed since then: 1 purged for good from dead by ada@desk 1s ago" in said.sentence
    assert said.sentence.count("(op hard-") == 5 and "and 2 more changes" in said.sentence
    assert len(said.facts["removals"]) == 5
    # A change of other entries by name isn't one of them, nor one from before it died.
    other = named(later, "dead", "hard", "s7")
    assert other not in Answer(later, "s0").sentence
    assert Answer(later, "s7").rule == "removed"


def test_what_may_have_been_replayed_is_not_said_to_be_purged(
    client: redis.Redis, clock: FakeClock
) -> None:
    later = dying(client, clock, "s1", "s2")
    op = moved(later, "dead", "replay")
    later.settle([Settlement(d, "ack") for d in later.take(9, consumer="w1").deliveries])
    said = Answer(later, "s1")
    assert said.rule == "gone" and "2 replayed from dead by ada@desk 0s ago" in said.sentence
    assert f"(op {op})" in said.sentence and "trash" not in said.sentence


def test_the_history_window_is_stated(mail: RequestQueue[redis.Redis], client: redis.Redis) -> None:
    mail.submit([b"x"], id="r1")
    pipe = client.pipeline(transaction=False)
    for n in range(5 * PAGE + 1000):
        pipe.xadd(mail.keys["hist"], {"t": n, "by": "-", "lost": f"r0/{n}|w1"})
    pipe.execute()
    said = Answer(mail, "r0/999")  # behind the window
    assert said.rule == "unknown" and "the latest 5,000 of 6,000 events" in said.sentence
    said = Answer(mail, "r0/1001")
    assert said.rule == "gone"
    assert said.sentence.startswith("it is gone; the last thing the history says of it is: lost at")


def test_retention_that_passed(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.configure("level", 1, {"history": "all"})
    mail.submit([b"x"], id="r1")
    (given,) = mail.take(1, consumer="w1").deliveries
    settled(mail, given, "ack")
    clock.advance(25 * 60 * MINUTE)
    while mail.sweep():
        pass
    said = Answer(mail, "r1")
    assert said.rule == "gone" and said.facts["at_ms"] == clock.now_ms - 25 * 60 * MINUTE
    assert said.sentence == (
        "it was done at 2023-11-14 22:13:20+00:00 (1d 1h ago), and finished requests are kept for "
        "1d 0h"
    )


# --- requests and queues ------------------------------------------------------


def test_why_a_request_does_not_finish(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 4, id="r1")
    late, dead, *_ = mail.take(4, consumer="w1").deliveries
    settled(mail, late, "fail", 600_000)
    settled(mail, dead, "reject")
    clock.advance(20_000)
    said = Answer(mail, "r1")
    assert said.rule == "pending" and said.also == ["delayed", "dead"]
    assert said.sentence == (
        "2 of its entries are being worked on, the oldest: r1/3 by w1 since 20s (lease ends in 10s)"
    )
    assert said.facts["oldest"]["consumer"] == "w1"
    delayed = said.row["also"][0]
    assert delayed["facts"]["next_ms"] == clock.now_ms + 580_000
    assert "the first one due in 9m 40s" in delayed["sentence"]
    assert said.row["also"][1]["command"] == "redisq replay mail/r1"


def test_a_request_nobody_sealed(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    digest = Digest(50, 4)
    before = str(digest)
    digest.add(b"x")
    mail.append("r1", 1, [b"x"], before=before, after=str(digest))
    (given,) = mail.take(1, consumer="w1").deliveries
    settled(mail, given, "ack")
    clock.advance(180 * MINUTE)
    said = Answer(mail, "r1")
    assert said.rule == "open"
    assert said.sentence == (
        "it is open, nobody has sealed it: its producer may still add to its 1; the last addition "
        "was 3h 00m ago (who added isn't kept)"
    )
    assert clock.now_ms - said.facts["added_ms"] == 180 * MINUTE


def test_requests_that_are_done(mail: RequestQueue[redis.Redis]) -> None:
    for id, outcome in (("good", "ack"), ("bad", "reject")):
        mail.submit([b"x"], id=id)
        (given,) = mail.take(1, consumer="w1").deliveries
        settled(mail, given, outcome)
    said = Answer(mail, "good")
    assert said.rule == "done" and "all 1 settled; results are kept until" in said.sentence
    said = Answer(mail, "bad")
    assert said.rule == "done-dead" and "with 1 of 1 dead" in said.sentence
    assert said.command == "redisq replay mail/bad"


@pytest.mark.parametrize("level", ["ops", "all"])
def test_an_undo_is_not_when_a_request_was_done(
    mail: RequestQueue[redis.Redis], clock: FakeClock, level: str
) -> None:
    mail.configure("level", 1, {"history": level})
    mail.submit([b"x"] * 2, id="r1")
    one, other = mail.take(2, consumer="w1").deliveries
    settled(mail, one, "ack")
    settled(mail, other, "reject")
    done = clock.now_ms
    clock.advance(10 * MINUTE)
    op = moved(mail, "dead", "replay")
    clock.advance(10 * MINUTE)
    change = Undo(mail, run(mail.client, read(mail, op)), ADA)  # type: ignore[arg-type]
    while run(mail.client, change.step()):
        pass
    said = Answer(mail, "r1")
    assert said.rule == "done-dead" and said.facts["closed_ms"] == clock.now_ms
    assert f"2023-11-14 22:33:20+00:00 (0s ago), when {op} was taken back" in said.sentence
    if level == "all":
        assert said.sentence.startswith("done at 2023-11-14 22:13:20+00:00 (20m 00s ago), and")
        assert said.facts["done_ms"] == done
    else:
        assert "taken back (when the rest of it was done isn't kept), with 1 of" in said.sentence
        assert said.facts["done_ms"] is None


def test_waiting_requests(mail: RequestQueue[redis.Redis]) -> None:
    mail.submit([b"x"] * 3, id="first", priority=3)
    mail.submit([b"x"] * 3, id="r1", limit=1)
    assert Answer(mail, "r1").rule == "no-worker"
    mail.take(1, consumer="w1")
    said = Answer(mail, "r1")
    assert said.rule == "behind"
    assert said.sentence.startswith("3 of 3 wait: they wait behind 2 tokens of higher priorities")
    mail.take(3, consumer="w1")
    said = Answer(mail, "r1")
    assert said.rule == "limit" and said.also == ["pending"]


def test_why_a_queue_does_not_move(mail: RequestQueue[redis.Redis], clock: FakeClock) -> None:
    mail.submit([b"x"] * 3, id="r1", limit=1)
    assert Answer(mail).rule == "no-worker"
    (given,) = mail.take(1, consumer="w1").deliveries
    said = Answer(mail)
    assert said.rule == "held" and said.facts["waiting"] == 2
    assert said.sentence == (
        "2 wait, and nothing may be handed out: 1 of 1 requests with something waiting have "
        "as many pending as their limit"
    )
    settled(mail, given, "ack")
    said = Answer(mail)
    assert said.rule == "moving" and said.row["estimate"] is (said.row["eta_ms"] is not None)
    clock.advance(30 * MINUTE)
    run(mail.client, control.pause(mail, ADA))
    run(mail.client, control.drain(mail, ADA))
    said = Answer(mail)
    assert said.rule == "paused" and said.row["state"] == "paused"
    assert {"no-worker", "closed"} <= set(said.also)
    closed = next(one for one in said.row["also"] if one["rule"] == "closed")
    assert (said.command, closed["command"]) == ("redisq queue resume mail", None)  # it ends both
    assert "draining, it takes nothing new: by ada@desk" in closed["sentence"]


def test_a_retry_whose_time_came_waits_for_somebody(client: redis.Redis, clock: FakeClock) -> None:
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"a"], id="r1")
    (given,) = queue.take(1, consumer="w1").deliveries
    settled(queue, given, "fail", 1000)
    clock.advance(31_000)
    said = Answer(queue)
    assert said.rule == "due" and said.row["eta_ms"] is None
    assert said.sentence == (
        "1 waits for a time, and the first one's came 30s ago: whoever takes next gets it"
    )
    clock.advance(30 * MINUTE)
    late = Answer(queue)
    assert late.rule == "no-worker" and "due" in late.also


def test_queues_with_nothing_to_do(client: redis.Redis, clock: FakeClock) -> None:
    later = DelaySet(client, "later", clock=clock)
    later.schedule([("e1", b"x")], after_ms=90_000)
    said = Answer(later)
    assert said.rule == "delayed"
    assert (
        said.sentence == "nothing is due: 1 waits for a later time; the first one is due in 1m 30s"
    )
    assert said.row["eta_ms"] == clock.now_ms + 90_000
    clock.advance(90_000)
    (given,) = later.take(1, consumer="w1").deliveries
    settled(later, given, "ack")
    clock.advance(60 * MINUTE)
    assert Answer(later).rule == "empty"


# --- other kinds --------------------------------------------------------------


def test_fair_turns_blocks_and_caps(client: redis.Redis, clock: FakeClock) -> None:
    jobs = FairQueue(client, "jobs", clock=clock)
    for name in ("acme", "bolt", "core"):
        jobs.submit(name, [(f"{name}-{n}", b"x") for n in range(3)])
    jobs.take(1, consumer="w1")
    said = Answer(jobs, "acme-2")
    assert said.rule == "turn" and said.facts["client"] == "acme"
    assert said.sentence == (
        "client acme waits for its turn: it is behind 2 clients whose turn comes first, 1 entry of "
        "its client (≈ 5 entries in all)"
    )
    jobs.weigh("acme", 10)  # so many of its own in a turn still come first
    assert Answer(jobs, "acme-2").facts["before"] == 3
    jobs.weigh("acme", 1)
    jobs.limit("acme", 1)
    said = Answer(jobs, "acme-2")
    assert said.rule == "cap"
    assert said.sentence == "client acme has 1 pending, and its cap is 1"
    assert said.command == "redisq client cap jobs acme 2" and "next" not in said.also
    jobs.block("acme")
    said = Answer(jobs, "acme-2")
    assert (said.rule, said.also[0]) == ("blocked", "cap")
    assert said.sentence == "client acme is blocked: nothing more of it is handed out"
    assert said.row["verb"] == "unblock"
    assert said.command == "redisq client unblock jobs acme"
    assert "next" not in said.also  # whoever takes next doesn't get it
    for name in ("bolt", "core"):
        jobs.block(name)
    said = Answer(jobs)
    assert said.rule == "held" and "3 of 3 clients with something waiting are blocked" in (
        said.sentence
    )
    assert said.command == "redisq client ls jobs"
    assert "waiting" not in said.also  # it was said how many wait


def test_circular_place_in_the_list(client: redis.Redis, clock: FakeClock) -> None:
    ring = CircularQueue(client, "ring", clock=clock)
    ring.push(["a", "b", "c", "d"])
    ring.take(1, consumer="w1")
    said = Answer(ring, "d")
    assert said.rule == "behind" and said.sentence == "it waits behind 2 elements of the list"
    assert said.facts["ahead"][0] == {"what": "elements of the list", "number": 2, "exact": True}
    assert Answer(ring, "b").rule == "next"
    (given,) = ring.take(1, consumer="w1").deliveries
    settled(ring, given, "fail", 5_000)
    said = Answer(ring, "b")
    assert said.rule == "retry" and said.row["eta_ms"] == clock.now_ms + 5_000


def test_delayed_entries_and_their_rank(client: redis.Redis, clock: FakeClock) -> None:
    later = DelaySet(client, "later", clock=clock)
    later.schedule([(f"e{n}", b"x") for n in range(3)], after_ms=1_000)
    said = Answer(later, "e2")
    assert said.rule == "delayed"
    assert said.sentence == "it is delayed until 2023-11-14 22:13:21+00:00, in 1s"
    assert said.command == "redisq requeue later/e2"
    clock.advance(1_000)
    later.take(1, consumer="w1")
    said = Answer(later, "e2")
    assert said.rule == "behind"
    assert said.sentence == "it waits behind 1 entry with an earlier ready time"
    assert said.facts["before"] == 1 and said.facts["before_exact"]
    assert Answer(later, "gone").rule == "unknown"


def test_shards_answer_for_the_whole(client: redis.Redis, clock: FakeClock) -> None:
    wide = ShardedRequestQueue(client, "wide", shards=3, clock=clock)
    for n in range(6):
        wide.submit([b"x"] * 3, id=f"r{n}", limit=1)
    assert Answer(wide, "r4/2").rule == "no-worker"
    while wide.take(6, consumer="w1").deliveries:
        pass
    for n in range(6):
        said = Answer(wide, f"r{n}/2")
        assert said.rule == "limit" and said.facts["holders"][0]["id"] == f"r{n}/1"
    assert Answer(wide).rule == "held"


def test_streams_say_what_can_be_known(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [client.xadd("orders", {"n": n}).decode() for n in range(4)]  # type: ignore[union-attr]
    client.xgroup_create("orders", "mail", id="0")
    queue = StreamQueue(client, "stream:orders")
    said = Answer(queue, f"mail:{ids[2]}")
    assert said.rule == "no-worker" and said.command is None
    assert said.sentence.startswith("no worker is taking: no consumer of group mail was seen")
    client.xreadgroup("mail", "w1", {"orders": ">"}, count=1)
    said = Answer(queue, f"mail:{ids[3]}")
    assert said.rule == "behind" and said.sentence == "it waits behind 2 entries of the stream"
    said = Answer(queue, f"mail:{ids[0]}")
    assert said.rule == "pending" and said.facts["consumer"] == "w1"
    assert said.command == "redisq consumers claim stream:orders w1 --group mail --to NAME"
    assert said.sentence == (
        "w1 of group mail has it since 0s and was heard of 0s ago; in this layout a delivery has "
        "no deadline, it stays until it is acknowledged or claimed"
    )
    monkeypatch.setattr("redisq_ops.ops.explain.explanation.SILENT_MS", 0)
    assert Answer(queue, f"mail:{ids[0]}").rule == "silent"
    client.xack("orders", "mail", ids[0])
    said = Answer(queue, f"mail:{ids[0]}")
    assert said.rule == "done" and "as far as its layout tells" in said.sentence
    said = Answer(queue, "mail:1-1")
    assert said.rule == "unknown" and "keeps no history" in said.sentence


def test_an_entry_of_two_groups_is_told_of_one_and_the_other_is_named(client: redis.Redis) -> None:
    id = client.xadd("orders", {"n": 1}).decode()  # type: ignore[union-attr]
    client.xgroup_create("orders", "billing", id="0")
    client.xgroup_create("orders", "we ird/grp", id="0")
    client.xreadgroup("billing", "web-1", {"orders": ">"})
    queue = StreamQueue(client, "stream:orders")
    said = Answer(queue, id)
    assert said.sentence.startswith("web-1 of group billing has it since")
    (other,) = said.row["also"]
    assert "group we%20ird%2Fgrp wasn't given it yet" in other["sentence"]
    client.xreadgroup("we ird/grp", "wörker 1", {"orders": ">"})
    said = Answer(queue, id)
    assert said.command == "redisq consumers claim stream:orders web-1 --group billing --to NAME"
    assert said.facts["group"] == "billing" and said.facts["heard_ms"] is not None
    (other,) = said.row["also"]
    assert other["rule"] == "group"
    assert other["command"] == f"redisq explain stream:orders/we%20ird%2Fgrp:{id}"
    assert "wörker 1 of group we%20ird%2Fgrp has it too, since 0s" in other["sentence"]
    said = Answer(queue, f"we%20ird%2Fgrp:{id}")
    assert said.command == (
        "redisq consumers claim stream:orders 'wörker 1' --group we%20ird%2Fgrp --to NAME"
    )
    assert not said.also
    client.xack("orders", "billing", id)
    assert Answer(queue, id).facts["group"] == "we%20ird%2Fgrp"


def test_a_pending_entry_that_was_trimmed_is_said_to_be_gone(
    client: redis.Redis, redisq: Redisq
) -> None:
    gone, there = (client.xadd("orders", {"n": n}).decode() for n in range(2))  # type: ignore[union-attr]
    client.xgroup_create("orders", "billing", id="0")
    client.xreadgroup("billing", "web-1", {"orders": ">"})
    client.xdel("orders", gone)
    queue = StreamQueue(client, "stream:orders")
    said = Answer(queue, gone)
    assert (said.rule, said.row["state"], said.command) == ("trimmed", "pending", None)
    assert "its payload is gone" in said.sentence and "XACK" in said.sentence
    assert "web-1 of group billing holds its id" in said.sentence
    assert Answer(queue, there).rule == "pending"
    rows = redisq("pending", "ls", "stream:orders").splitlines()
    assert [" gone " in row for row in rows[1:3]] == [True, False]
    listed = redisq.rows("pending", "ls", "stream:orders")
    assert [row["called"] for row in listed] == ["gone", None]
    # What the sentence offers does clear it.
    redisq("consumers", "remove", "stream:orders", "web-1", "--yes", code=3)
    assert Answer(queue, gone).row["state"] is None
    assert Answer(queue, there).facts["consumer"] == "operator"


def test_sidekiq_says_what_can_be_known(client: redis.Redis) -> None:
    queue = SidekiqQueue(client, "sidekiq:default")
    jids = queue.push([Job("Mail", [n]) for n in range(3)])
    said = Answer(queue, jids[2])
    assert said.rule == "no-worker" and said.facts["consumers_seen"] == 0
    assert said.command is None  # its own workers are started elsewhere
    (given,) = queue.take(1, consumer="w1").deliveries
    said = Answer(queue, jids[2])
    assert said.rule == "behind" and said.sentence == "it waits behind 1 job of the list"
    assert Answer(queue, jids[0]).rule == "pending"
    settled(queue, given, "fail")
    said = Answer(queue, jids[0])
    assert said.rule == "retry" and "because failure 1 said Timeout" in said.sentence
    client.sadd("paused", "default")
    said = Answer(queue, jids[2])
    assert said.rule == "paused" and said.command is None
    assert said.sentence == (
        "queue sidekiq:default is paused by its own program: paused in Sidekiq"
    )


def test_a_layout_that_says_nothing_of_its_workers(client: redis.Redis) -> None:
    client.zadd("timers", {"job-1": 1.0, "job-2": 2.0})
    found = run(client, explain_text(Deployment(client), "raw-delay:timers/job-2"))
    assert found.state == "waiting" and found.reason.rule == "waiting"
    assert found.reason.sentence == (
        "it waits; what comes before it, a raw-delay layout doesn't say"
    )


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


def test_the_round_trips_do_not_depend_on_how_much_there_is(
    mail: RequestQueue[redis.Redis], client: redis.Redis
) -> None:
    def fill(n: int) -> None:
        for k in range(n):
            mail.submit([b"x"] * 20, id=f"q{n}-{k}", limit=10, priority=k % 90)
        for k in range(n):
            for delivery in mail.take(3, consumer=f"w{k}").deliveries[1:]:
                settled(mail, delivery, "fail" if k % 2 else "reject", 600_000)

    mail.submit([b"x"] * 20, id="r1", limit=5, priority=95)
    fill(1)
    asked = ("r1/3", "r1", None, "q1-0/1", "q1-0/2")
    few = [counted(client, explain(mail, id)) for id in asked]
    fill(60)
    many = [counted(client, explain(mail, id)) for id in asked]
    assert many == few
    assert max(few) <= 10


@pytest.mark.slow
def test_looking_needs_only_read_rights_and_writes_nothing(
    client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = everywhere(client)
    moved(queue, "dead", "purge")
    FairQueue(client, "jobs").submit("acme", [("a", b"x")])
    DelaySet(client, "later").schedule([("e1", b"x")], after_ms=60_000)
    CircularQueue(client, "ring").push(["a"])
    client.acl_setuser(
        "viewer", enabled=True, nopass=True, reset=True, keys="*",
        categories=["+@read", "+@connection"], commands=["+time", "-@write"],
    )  # fmt: skip
    viewer = Redisq(url.replace("//", "//viewer:any@"), capsys)
    before = picture(client)
    try:
        asked = [f"mail/r1/{n}" for n in range(1, 9)]
        for address in (*asked, "mail/r1", "mail", "jobs/a", "jobs", "later/e1", "ring/a"):
            assert viewer("explain", address)
        assert picture(client) == before
    finally:
        client.acl_deluser("viewer")


def test_the_command_says_rule_time_and_verb(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    lines = redisq("explain", "r1/3").splitlines()
    assert lines[0] == "entry mail/r1/3: delayed"
    assert lines[1].startswith("  it is tried again at ")
    assert r"said SMTP: no such [red]mailbox\x1b]52;c;aGk=\x07" in lines[1]
    assert lines[2].startswith("  when: in 59s (") or lines[2].startswith("  when: in 1m 00s (")
    assert lines[3] == "  requeue: redisq requeue mail/r1/3"
    (row,) = redisq.rows("explain", "mail/r1/3")
    assert (row["rule"], row["state"], row["what"]) == ("retry", "delayed", "entry")
    assert row["facts"]["failures"] == 1 and row["verb"] == "requeue"
    redisq("requeue", "mail/r1/3", "--yes")
    (row,) = redisq.rows("explain", "mail/r1/3")
    assert row["state"] == "waiting" and "touched" in [one["rule"] for one in row["also"]]


def test_what_was_purged_has_no_time_at_which_it_runs(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    moved(queue, "dead", "purge")
    said = redisq("explain", "r1/2")
    assert "purged at" in said and "undo until" in said and "when:" not in said


def test_sentences_are_broken_between_words_on_a_terminal(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(client)
    whole = redisq("explain", "r1/2").splitlines()
    assert max(map(len, whole)) > 80 and whole[1].startswith("  dead since ")
    consumers = redisq("consumers", "ls", "mail").splitlines()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    lines = redisq("explain", "r1/2").splitlines()
    assert max(map(len, lines)) <= 60 and lines[1].startswith("  dead since ")
    assert lines[2].startswith("    ") and lines[-1] == whole[-1]  # a command stays one line
    said = " ".join(line.strip() for line in lines[1:-1])
    assert re.sub(r"\d+s ago", "", said) == re.sub(r"\d+s ago", "", whole[1].strip())
    broken = redisq("consumers", "ls", "mail").splitlines()
    assert len(broken) > len(consumers) and broken[2].startswith("    ")
    assert " ".join(line.strip() for line in broken[1:3]) == consumers[1].strip()


def test_the_command_and_what_is_not_there(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    (row,) = redisq.rows("explain", "mail/r1/99", code=1)
    assert (row["rule"], row["state"]) == ("unknown", None)
    assert redisq("explain", "mail/r1/99", code=1).startswith("entry mail/r1/99: not there")
    line = redisq.refusal("explain", "nowhere", code=1)
    assert "nothing here is called 'nowhere'" in line and "of 1 events" in line
    queue.configure("level", 1, {"history": "all"})
    later = DelaySet(client, "later")
    later.configure("level", 1, {"history": "all"})
    later.schedule([("e1", b"x")], after_ms=0)
    later.settle([Settlement(d, "ack") for d in later.take(1, consumer="w1").deliveries])
    (row,) = redisq.rows("explain", "e1", code=1)
    assert (row["queue"], row["rule"]) == ("later", "gone")
    assert "by w1; such an entry leaves no other trace" in row["sentence"]


def test_an_address_is_quoted_in_what_is_to_be_typed(client: redis.Redis) -> None:
    queue = RequestQueue(client, "it's")
    queue.submit([b"x"], id="$r")
    (given,) = queue.take(1, consumer="w1").deliveries
    settled(queue, given, "reject")
    assert Answer(queue, "$r/1").command == "redisq replay 'it'\"'\"'s/$r/1'"


def test_nowhere_is_an_error_of_its_own(client: redis.Redis) -> None:
    with pytest.raises(NotFound, match="in the latest 0 of 0 events"):
        run(client, explain_text(Deployment(client), "nothing"))


def test_awaited_it_says_the_same(client: redis.Redis, aclient: Any) -> None:
    queue = everywhere(client)

    async def asked() -> dict[str, Any]:
        async with aclient() as there:
            found = await arun(there, explain(RequestQueue(there, "mail"), "r1/2"))
            return found.row()

    said = asyncio.run(asked())
    now = Answer(queue, "r1/2").row
    same = ("rule", "state", "facts", "command", "also")
    assert {name: said[name] for name in same} == {name: now[name] for name in same}


def test_what_was_removed_for_good_is_not_called_done(
    mail: RequestQueue[redis.Redis], redisq: Redisq
) -> None:
    mail.submit([b"x"] * 3, id="r1")
    redisq("purge", "mail/r1/2", "--hard", "--yes", "--reason", "a bad one")
    (said,) = redisq.rows("explain", "mail/r1/2", code=1)
    assert said["rule"] == "removed" and "a bad one" in said["sentence"]
    (said,) = redisq.rows("explain", "mail/r1/9", code=1)
    assert "has 3 entries, numbered from 1" in said["sentence"]


def test_a_time_no_calendar_reaches_is_said_by_its_year(
    redisq: Redisq, client: redis.Redis
) -> None:
    """Milliseconds where Sidekiq means seconds: legal there, and a well-known slip."""
    far_apart(client)
    shown = redisq("inspect", "entry", "sidekiq:low/far")
    assert re.search(r"^ +ready +year 58865$", shown, re.M)
    assert "it is delayed until year 58865, in " in redisq("explain", "sidekiq:low/far")


def test_the_last_moment_of_all_is_said_in_any_zone(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    DelaySet(client, "later").schedule([("e1", b"x")], after_ms=MINUTE)
    words = ("delay", "reschedule", "later/e1", "--at", "9999-12-31T23:59:59Z", "--dry-run")
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    try:
        assert "they become ready at year 9999" in redisq(*words)
        assert "they become ready at 9999-12-31 23:59:59+00:00" in redisq(*words, "--utc")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_number_no_stream_has_is_nothing(redisq: Redisq, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    for number in ("99999999999999999999999", "18446744073709551616"):
        said = redisq("explain", f"mail/r1/{number}", code=1)
        assert "request r1 has 1 entries, numbered from 1: there is no r1/" + number in said
