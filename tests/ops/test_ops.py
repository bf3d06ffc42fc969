"""What operators' faces share: times, filters, selections, bulk moves, undo, audits."""

import random
import time
from collections import Counter
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
import redis
import redis.asyncio as aredis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Checkup, Delivery, Entry, Failure, Settlement, State
from redisq_ops.core.model.errors import BadInput, NotFound, QueueClosed, Refused
from redisq_ops.core.model.settings import Settings
from redisq_ops.core.model.states import Verb
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import Round, arun, run
from redisq_ops.ops.change import audit_log, control
from redisq_ops.ops.change.allowed import allowed
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.entry_steps import EntrySteps
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.change.preview import preview
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.scope import select_entries
from redisq_ops.ops.change.step_size import Stride
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.change.wording import PAST
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter, match_pattern
from redisq_ops.ops.filter.scan import PAGE, Scan
from redisq_ops.ops.filter.selection import select
from redisq_ops.ops.filter.target import targets
from redisq_ops.ops.filter.time import duration_ms, moment_ms, per_second
from redisq_ops.ops.fsck import QueueCheck
from redisq_ops.ops.inspect.history import history_of

from ..changes import entry_change
from ..command_line import Redisq, dead_letters, everywhere
from ..model.wire import picture

ME = Author("ada", "desk", "because")


def finish(
    client: redis.Redis, change: ChangeRun[EntrySteps] | ChangeRun[UndoSteps]
) -> ChangeOutcome:
    while run(client, change.step()):
        pass
    return change.outcome


# --- times --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("3d", 259_200_000),
        ("1h30m", 5_400_000),
        ("250ms", 250),
        ("0s", 0),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 minutes", "1.5h", "5mx", "36501d"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(BadInput):
        duration_ms(text)


def utc_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "ahead", "found"),
    [
        ("03:12", False, "2026-11-20T03:12"),
        ("3:12", False, "2026-11-20T03:12"),
        ("12:00", False, "2026-11-20T12:00"),  # now is the latest
        ("12:01", False, "2026-11-19T12:01"),
        ("12:01", True, "2026-11-20T12:01"),
        ("12:00", True, "2026-11-21T12:00"),  # and not ahead
        ("23:59:59", False, "2026-11-19T23:59:59"),
        ("2026-01-02T03:04:05+01:00", True, "2026-01-02T02:04:05"),
        ("2026-01-02T03:04:05Z", False, "2026-01-02T03:04:05"),
    ],
)
def test_moments(text: str, ahead: bool, found: str) -> None:
    now = utc_ms("2026-11-20T12:00")
    assert moment_ms(text, now, ahead=ahead, utc=True) == utc_ms(found)


def test_time_of_day_is_local_also_on_days_of_23_or_25_hours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        # The clocks went forward on 29 March 2026, 01:00 UTC.
        assert moment_ms("12:00", utc_ms("2026-03-29T09:00")) == utc_ms("2026-03-28T11:00")
        assert moment_ms("12:00", utc_ms("2026-03-28T12:00"), ahead=True) == utc_ms(
            "2026-03-29T10:00"
        )
        assert moment_ms("02:30", utc_ms("2026-03-29T01:15")) == utc_ms("2026-03-28T01:30")
        # Back on 25 October 2026, 01:00 UTC: 02:30 is 00:30 UTC, and 01:30 UTC again.
        first, again = utc_ms("2026-10-25T00:30"), utc_ms("2026-10-25T01:30")
        assert moment_ms("02:30", utc_ms("2026-10-25T00:45")) == first
        assert moment_ms("02:30", utc_ms("2026-10-25T00:45"), ahead=True) == again
        assert moment_ms("02:30", utc_ms("2026-10-25T01:45")) == again
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["24:00", "3", "soon", "2026-01-02T03:04", "2026-13-01T00:00Z"])
def test_invalid_moments(text: str) -> None:
    with pytest.raises(BadInput):
        moment_ms(text, 0)


def test_rates() -> None:
    assert [per_second(text) for text in ("100/s", "30/m", "36/h", "7", "0.5/s")] == [
        100,
        0.5,
        0.01,
        7,
        0.5,
    ]
    for text in ("", "0", "-1/s", "1/d", "fast"):
        with pytest.raises(BadInput):
            per_second(text)


# --- filters and selections ---------------------------------------------------


def test_filter_conditions() -> None:
    failed = Entry("r1/3", "dead", since_ms=1000, error=Failure("IOError", "disk full"))
    young = Entry("r2/1", "dead", since_ms=9000)
    unknown = Entry("e1", "waiting")
    for filter, accepted in (
        (Filter(), [failed, young, unknown]),
        (Filter(ids=("e1", "r1/3")), [failed, unknown]),
        (Filter(requests=("r1",)), [failed]),
        (Filter(ids=("e1",), requests=("r2",)), [young, unknown]),
        (Filter(match=match_pattern("^r")), [failed, young]),
        (Filter(match=match_pattern("full$")), [failed]),
        (Filter(match=match_pattern("IOError")), [failed]),
        (Filter(older_than_ms=2000), [failed]),
        (Filter(older_than_ms=1000), [failed, young]),
    ):
        assert [e for e in (failed, young, unknown) if filter.accepts(e, 10_000)] == accepted


@pytest.mark.parametrize("text", ["(", "a{2,1}", "*", "[z-a]", "a{99999999999}", r"\8"])
def test_bad_match_pattern_names_the_column(text: str) -> None:
    with pytest.raises(BadInput, match="--match"):
        match_pattern(text)


def test_selection_is_what_the_filter_accepts(client: redis.Redis) -> None:
    queue = dead_letters(client, 1203)
    everything = run(client, select(queue, "dead", Filter()))
    assert (everything.count, everything.scanned, everything.complete) == (1203, 1203, True)
    assert len(set(everything.ids())) == 1203
    assert everything.reasons == {"rejected": 1203} and len(everything.sample) == 10
    for most, complete in ((1203, True), (1202, False), (1, False), (PAGE, False)):
        chosen = run(client, select(queue, "dead", Filter(max=most)))
        assert (chosen.count, chosen.complete) == (most, complete)
        assert chosen.ids() == everything.ids()[:most]
    few = run(client, select(queue, "dead", Filter(match=match_pattern("r1/12.$"), max=5)))
    assert few.ids() == [id for id in everything.ids() if len(id) == 6 and id[3:5] == "12"][:5]


def test_named_entries_are_read_by_id(client: redis.Redis) -> None:
    queue = everywhere(client)
    ids = ("r1/2", "r1/5", "r1/2", "r1/77")
    chosen = run(client, select(queue, "dead", Filter(ids=ids)))
    assert (chosen.ids(), chosen.scanned) == (["r1/2"], 3)
    assert [(entry.id, entry.state) for entry in chosen.elsewhere] == [("r1/5", "pending")]


def test_scan_reports_progress(client: redis.Redis) -> None:
    queue = dead_letters(client, 1203)
    told: list[tuple[int, int | None]] = []
    run(client, select(queue, "dead", Filter(), lambda done, total: told.append((done, total))))
    assert told == [(min(n, 1203), 1203) for n in range(PAGE, 1203 + PAGE, PAGE)]


def test_one_target_per_queue(client: redis.Redis) -> None:
    everywhere(client)
    everywhere(client, "news")
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    deployment = Deployment(client)

    def meant(*addresses: str, **more: Any) -> list[tuple[str, str, Filter]]:
        states = more.pop("states", ("dead",))
        found = run(client, targets(deployment, addresses, Filter(max=9), states, **more))
        return [(target.queue.name, target.state, target.filter) for target in found]

    whole = Filter(max=9)
    assert meant("mail") == meant(queue="mail") == [("mail", "dead", whole)]
    assert meant("mail/r1/2", "news", "mail/r1") == [
        ("mail", "dead", Filter(("r1/2",), ("r1",), max=9)),
        ("news", "dead", whole),
    ]
    with pytest.raises(BadInput, match="mail stands for the whole queue"):
        meant("mail/r1/2", "mail")
    assert meant("r1/2", "r1/3", queue="mail") == [
        ("mail", "dead", Filter(("r1/2", "r1/3"), max=9))
    ]
    assert meant("later/e1", states=("waiting", "delayed"))[0][1] == "delayed"
    both = ("pending", "delayed")
    assert meant("mail/r1/3", states=both)[0][1] == "delayed"
    assert meant("mail/r1/2", states=both)[0][1] == "pending"  # in neither: nothing will match
    for addresses in (("mail",), ("mail/r1",), ("mail/r1/3", "mail/r1/5")):
        with pytest.raises(BadInput, match="--state"):
            meant(*addresses, states=both)
    with pytest.raises(NotFound):
        meant("mail/r1/3", "mail/r2")


def test_in_a_named_queue_an_address_is_an_id_even_one_like_the_queue_s_name(
    client: redis.Redis, redisq: Redisq
) -> None:
    queue = dead_letters(client, 3)
    dead_letters(client, 2, id="mail")
    dead_letters(client, 2, id="1")
    for address, taken in (("mail", 2), ("mail/1", 1)):
        (plan,) = redisq.rows("dlq", "purge", "--queue", "mail", address, "--dry-run")
        assert plan["matched"] == taken, address
        assert {id.partition("/")[0] for id in plan["sample"]} == {"mail"}
    (plan,) = redisq.rows("dlq", "purge", "--queue", "mail", "r1/1", "mail", "--dry-run")
    assert plan["matched"] == 3
    redisq("dlq", "purge", "--queue", "mail", "mail/r1", "--yes", code=1)
    redisq("dlq", "purge", "--queue", "mail", "", "--yes", code=1)
    assert queue.counts().dead == 3 + 2 + 2


# --- bulk moves ---------------------------------------------------------------


def test_batch_size_follows_the_measured_call_time() -> None:
    stride = Stride(50)
    for _ in range(20):
        stride.learn(stride.size, stride.size * 0.000_01)  # 10 µs each: 50 in half a millisecond
    assert 45 <= stride.size <= 55
    for _ in range(20):
        stride.learn(stride.size, stride.size * 0.000_000_1)
    assert 48 <= stride.size <= 50  # no server is that fast: the way was taken for too long
    for _ in range(20):
        stride.learn(stride.size, stride.size * 0.01)
    assert stride.size == 10
    stride.learn(1, 10.0)  # the short rest at the end of a run tells nothing
    stride.learn(0, 10.0, 1)  # nor does an entry that somebody else changed
    assert stride.size == 10


def test_network_latency_does_not_shrink_batches() -> None:
    stride = Stride(50)
    stride.round_trip_s = 0.08
    for _ in range(20):
        stride.learn(stride.size, stride.round_trip_s + stride.size * 0.000_01)
    assert 45 <= stride.size <= 55
    stride.learn(stride.size, 0.07)  # faster than a call that does nothing: no measure of anything
    assert 45 <= stride.size <= 55
    for _ in range(20):
        stride.learn(stride.size, stride.round_trip_s + 0.000_001)  # and that was a slow one
    assert stride.size * 0.000_015 < 0.001  # at 15 µs an entry no call is above a millisecond


def test_rate_limit_of_a_bulk_change(client: redis.Redis) -> None:
    queue = dead_letters(client, 95)
    now = [100.0]
    chosen = run(client, select(queue, "dead", Filter()))
    bulk = entry_change(chosen, "replay", ME, rate=20.0, clock=lambda: now[0])
    handled = 0
    while run(client, bulk.step()):
        assert bulk.outcome.done - handled <= 20
        handled = bulk.outcome.done
        now[0] += bulk.pause + random.random() * 0.1
        assert now[0] - 100.0 >= handled / 20.0 - 1e-6
    assert handled == 95


@pytest.mark.parametrize("state", ["pending", "delayed", "dead"])
def test_entries_written_by_a_clock_that_was_ahead_can_be_changed(
    client: redis.Redis, state: State
) -> None:
    """As after a failover to a server whose clock is hours behind."""
    ahead, clock = FakeClock(), FakeClock()
    ahead.now_ms += 3 * 3_600_000
    everywhere(client, clock=ahead)
    queue = RequestQueue(client, "mail", clock=clock)
    chosen = run(client, select(queue, state, Filter()))
    verb: Verb = "replay" if state == "dead" else "requeue"
    outcome = finish(client, entry_change(chosen, verb, ME))
    assert (outcome.done, outcome.skipped) == (1, {})
    assert getattr(queue.counts(), state) == 0 and queue.invariants() == []


def test_later_entries_are_not_changed(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = everywhere(client, clock=clock)
    chosen = run(client, select(queue, "dead", Filter()))
    clock.advance(0.001)
    queue.move("a", 1, ["r1/2"], source="dead", target="waiting", high_water_ms=clock.now_ms)
    (again,) = [d for d in queue.take(9, consumer="w").deliveries if d.id == "r1/2"]
    queue.settle([Settlement(again, "reject", b"{}")])  # dead once more, by another failure
    outcome = finish(client, entry_change(chosen, "replay", ME))
    assert (outcome.done, outcome.skipped, outcome.exit_code) == (0, {"late": 1}, 1)
    assert queue.counts().dead == 1


def test_exit_codes_of_outcomes() -> None:
    assert ChangeOutcome(None, 0).exit_code == 0
    assert ChangeOutcome("x", 3, 3).exit_code == 0
    assert ChangeOutcome("x", 3, 2, {"changed": 1}).exit_code == 3
    assert ChangeOutcome("x", 3, 0, {"changed": 3}).exit_code == 1
    assert ChangeOutcome("x", 1, 0, {"same": 1}).exit_code == 0


def test_verb_is_refused_for_a_wrong_state(client: redis.Redis) -> None:
    queue = everywhere(client)
    with pytest.raises(BadInput, match="replay is for dead or done entries"):
        allowed(queue, "replay", "pending")
    with pytest.raises(Refused, match="can't reschedule"):
        allowed(queue, "reschedule", "delayed")
    allowed(DelaySet(client, "later"), "reschedule", "delayed")
    chosen = run(client, select(queue, "pending", Filter()))
    before = picture(client)
    with pytest.raises(BadInput, match="reserved"):
        entry_change(chosen, "claim", ME, consumer="~waiting")
    assert picture(client) == before


def test_larger_changes_need_a_typed_confirmation(client: redis.Redis) -> None:
    queue = dead_letters(client, 1001)
    some = run(client, select(queue, "dead", Filter(max=1000)))
    every = run(client, select(queue, "dead", Filter()))
    assert preview(some, "replay").typed is None
    assert preview(every, "replay").typed == "1001"
    assert preview(some, "hard").typed == "mail"
    nothing = run(client, select(queue, "dead", Filter(match=match_pattern("nope"))))
    assert preview(nothing, "hard").typed is None
    assert set(PAST) >= {"replay", "hard"}


def test_bulk_moves_run_on_an_asyncio_client(
    client: redis.Redis, aclient: Callable[[], aredis.Redis]
) -> None:
    import asyncio

    dead_letters(client, 300)

    async def replay() -> ChangeOutcome:
        async with aclient() as connection:
            queue = await arun(connection, Deployment(connection).queue("mail"))
            chosen = await arun(connection, select(queue, "dead", Filter()))
            bulk = entry_change(chosen, "replay", ME)
            while await arun(connection, bulk.step()):
                pass
            return bulk.outcome

    assert asyncio.run(replay()).done == 300


def test_scan_continues_where_it_stopped(client: redis.Redis) -> None:
    queue = dead_letters(client, PAGE + 200)
    scan = Scan(queue, "dead", Filter(), 0)
    first = run(client, scan.step())
    queue.move("a", 1, [first[0].id], source="dead", target="waiting", high_water_ms=2**52)
    rest = run(client, scan.step())
    assert scan.over and len({e.id for e in (*first, *rest)}) == PAGE + 200


# --- journal and undo ---------------------------------------------------------


def test_audit_log_is_written_before_the_first_step(client: redis.Redis) -> None:
    queue = dead_letters(client, 120)
    bulk = entry_change(run(client, select(queue, "dead", Filter(older_than_ms=0))), "purge", ME)
    assert run(client, bulk.step())
    (operation,) = run(client, audit_log.log(Deployment(client))).operations
    assert (operation.verb, operation.who, operation.why) == ("purge", "ada", "because")
    assert (operation.source, operation.target, operation.matched) == ("dead", "trash", 120)
    assert operation.done == bulk.outcome.done < 120
    assert not operation.ended and operation.undoable
    key = queue.keys["op_"] + operation.id
    assert 29 * 86400 < client.ttl(key) <= 30 * 86400
    assert finish(client, ChangeRun(UndoSteps(queue, operation), ME)).done == operation.done
    assert queue.counts().dead == 120


@pytest.mark.parametrize("shards", [1, 3])
def test_audit_log_of_a_killed_undo_is_exact(client: redis.Redis, shards: int) -> None:
    queue: Any = DelaySet(client, "later")
    if shards > 1:
        queue = ShardedDelaySet(client, "later", shards=shards)
    queue.schedule([(f"e{n}", b"") for n in range(200)])
    dead = [Settlement(one, "reject") for one in queue.take(200, consumer="w").deliveries]
    queue.settle(dead)
    change = entry_change(run(client, select(queue, "dead", Filter())), "replay", ME)
    finish(client, change)
    (before,) = run(client, audit_log.last(queue, 1))
    undo = ChangeRun(UndoSteps(queue, before), ME)
    for _ in range(2):
        assert run(client, undo.step())
    # Nobody says more of it: it was killed.
    (own, it) = run(client, audit_log.last(queue, 2))
    assert (own.verb, own.ended) == ("undo", False)
    assert 0 < own.done == it.undone == queue.counts().dead < 200
    finish(client, ChangeRun(UndoSteps(queue, it), ME))
    newest, own, it = run(client, audit_log.last(queue, 3))
    assert own.done + newest.done == it.undone == 200


def test_undo_after_retention_is_refused(client: redis.Redis) -> None:
    queue = dead_letters(client, 3)
    bulk = entry_change(run(client, select(queue, "dead", Filter())), "purge", ME)
    finish(client, bulk)
    client.delete(f"{queue.keys['undo_']}{bulk.outcome.op}:1")  # as its TTL would
    (operation,) = run(client, audit_log.log(Deployment(client))).operations
    outcome = finish(client, ChangeRun(UndoSteps(queue, operation), ME))
    assert (outcome.done, outcome.skipped, outcome.exit_code) == (0, {"expired": 3}, 1)


def test_change_without_undo_gives_a_reason(client: redis.Redis) -> None:
    queue = dead_letters(client, 2)
    deployment = Deployment(client)
    finish(client, entry_change(run(client, select(queue, "dead", Filter(max=1))), "hard", ME))
    finish(client, entry_change(run(client, select(queue, "dead", Filter())), "purge", ME))
    purge, hard = run(client, audit_log.log(deployment)).operations
    with pytest.raises(Refused, match="removed for good"):
        ChangeRun(UndoSteps(queue, hard), ME)
    finish(client, ChangeRun(UndoSteps(queue, purge), ME))
    _, done = run(client, audit_log.find(deployment, purge.id))
    with pytest.raises(Refused, match="undone already"):
        ChangeRun(UndoSteps(queue, done), ME)
    with pytest.raises(NotFound):
        run(client, audit_log.find(deployment, "purge-nope"))


def test_refused_change_writes_nothing(client: redis.Redis) -> None:
    queue = everywhere(client)
    queue.submit([], id="over")
    queue.submit([b"sum"], id="then", follows="r1")
    before = picture(client)
    for verb, id in (("cancel", "r1"), ("resume", "then")):
        with pytest.raises(QueueClosed, match="follows"):  # the server says it, too
            queue.control("op", 1, cast(Any, verb), id)
    for verb, id, value, error in (
        ("cancel", "r1", "", QueueClosed),
        ("resume", "then", "", QueueClosed),
        ("limit", "r1", "0", BadInput),
        ("priority", "r1", "100", BadInput),
        ("cancel", "over", "", QueueClosed),
        ("pause", "nope", "", NotFound),
    ):
        with pytest.raises(error):
            run(client, control.change_request(queue, id, cast(Any, verb), ME, value))
    assert picture(client) == before


class Between:
    """A description, and what happens elsewhere before its nth command of a name goes out."""

    def __init__(self, description: Any, happenings: dict[tuple[str, int], Callable[[], object]]):
        self._description, self._happenings = description, happenings
        self._seen: Counter[str] = Counter()

    def __await__(self) -> Generator[Round, Any, Any]:
        calls = self._description.send(None)
        while True:
            for call in calls:
                name = str(call.command[0 if call.source is None else 1])
                self._seen[name] += 1
                assert self._seen[name] < 20, f"{name} again and again: there is no end"
                self._happenings.pop((name, self._seen[name]), lambda: None)()
            replies = yield calls
            try:
                calls = self._description.send(replies)
            except StopIteration as stop:
                assert not self._happenings
                return stop.value


def cancelled(
    client: redis.Redis, queue: Any, happenings: dict[tuple[str, int], Callable[[], object]]
) -> ChangeOutcome:
    async def story() -> Any:
        return await Between(control.change_request(queue, "r1", "cancel", ME), happenings)

    outcome: ChangeOutcome = run(client, story())
    assert (outcome.done, outcome.exit_code) == (1, 0)
    return outcome


class Stopped(Exception):
    """Instead of a Ctrl+C, which would end the tests."""


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("verb", ["cancel", "pause", "limit", "set", "client"])
def test_interrupted_change_can_be_undone(client: redis.Redis, verb: str, done: bool) -> None:
    """Right behind its step, or right before it: there it finds all as it was."""
    mail, jobs = RequestQueue(client, "mail"), FairQueue(client, "jobs")
    mail.submit([b"x"] * 5, id="r1", limit=4)
    jobs.submit("acme", [b"x"])
    queue: Any = jobs if verb == "client" else mail
    name = {"set": "configure", "client": "set_client_rule"}.get(verb, "control_request")
    sha = queue._script(name).sha

    def stop() -> None:
        raise Stopped

    def look() -> tuple[Any, ...]:
        request, acme = mail.request("r1"), jobs.get_client("acme")
        assert request is not None and acme is not None
        return request.state, request.paused, request.limit, acme.weight, mail.settings()

    async def story(change: Any) -> Any:
        sent = False

        class Step:
            def __init__(self, description: Any) -> None:
                self._description = description.__await__()

            def __await__(self) -> Any:
                nonlocal sent
                replies = None
                while True:
                    calls = self._description.send(replies)
                    if not done and any(sha in call.command for call in calls):
                        stop()
                    if sent:
                        stop()
                    sent = any(sha in call.command for call in calls)
                    replies = yield calls

        return await Step(change)

    before = look()
    change: Any = {
        "set": lambda: control.set_flags(mail, "settings", ME, {"max_lost": "7", "aging": "2"}),
        "client": lambda: control.change_client(jobs, "acme", "weight", ME, 5),
        "limit": lambda: control.change_request(mail, "r1", "limit", ME, "9"),
    }.get(verb, lambda: control.change_request(mail, "r1", cast(Any, verb), ME))
    with pytest.raises(Stopped):
        run(client, story(change()))
    assert (look() != before) == done
    (operation,) = run(client, audit_log.last(queue, 5))
    undo = ChangeRun(UndoSteps(queue, operation), ME)
    while run(client, undo.step()):
        pass
    assert look() == before
    assert (undo.outcome.done, undo.outcome.exit_code) == (int(done), 0)
    assert undo.outcome.skipped.get("same", 0) == undo.outcome.matched - int(done)


def test_cancel_fences_operations_begun_before_it(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"x"] * 300, id="r1", limit=1000)
    held = list(queue.take(120, consumer="w1").deliveries)
    failed = list(queue.take(120, consumer="w1").deliveries)
    queue.settle([Settlement(d, "fail", b"boom", 60) for d in failed])

    def one_more() -> None:  # when the operation has begun and the request is still open
        clock.advance(0.005)
        held.extend(queue.take(1, consumer="w2").deliveries)

    sha = queue._script("control_request").sha
    cancelled(client, queue, {(sha, 1): one_more})
    assert len(held) == 121
    assert set(queue.settle([Settlement(d, "ack") for d in held])) == {"stale"}
    request = queue.request("r1")
    assert request and (request.state, request.trash) == ("cancelled", 300)
    assert queue.invariants() == []


def test_cancel_stops_when_the_request_is_reopened(
    client: redis.Redis,
) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"x"] * 5, id="r1", limit=10)
    before = list(queue.take(2, consumer="w1").deliveries)
    since: list[Delivery] = []

    def reopened() -> None:  # by somebody else, and its workers go on at once
        clock.advance(0.001)
        queue.control("reopen-1", 1, "reopen", "r1", "sealed")
        since.extend(queue.take(3, consumer="w2").deliveries)

    cancelled(client, queue, {("XPENDING", 1): reopened})
    assert [d.id for d in since] == ["r1/3", "r1/4", "r1/5"]
    assert queue.settle([Settlement(d, "ack") for d in since]) == ["done"] * 3
    assert queue.settle([Settlement(d, "ack") for d in before]) == ["stale"] * 2
    assert [d.id for d in queue.take(9, consumer="w2").deliveries] == ["r1/1", "r1/2"]
    assert queue.invariants() == []


def test_cancel_ends_even_if_an_entry_can_not_be_moved(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 3, id="r1")
    held = queue.take(3, consumer="w1").deliveries
    client.zrem(queue.keys["lease"], "r1/2")  # by hand; the stream has it as pending all the same
    cancelled(client, queue, {})
    assert queue.settle([Settlement(d, "ack") for d in held if d.number != 2]) == ["stale"] * 2


def test_several_settings_are_one_operation(client: redis.Redis) -> None:
    queue = everywhere(client)
    run(client, control.set_flags(queue, "settings", ME, {"max_lost": "5"}))
    changes = {"max_lost": "7", "max_failures": "9", "aging": "0 odd%20"}
    outcome = run(client, control.set_flags(queue, "settings", ME, changes))
    assert queue.settings() == changes and outcome.done == 3
    again = run(client, control.set_flags(queue, "settings", ME, changes))
    assert (again.op, again.matched) == (None, 0)
    _, operation = run(client, audit_log.find(Deployment(client), outcome.op or ""))
    assert finish(client, ChangeRun(UndoSteps(queue, operation), ME)).done == 3
    assert queue.settings() == {"max_lost": "5"}


def test_settings_are_checked() -> None:
    assert control.checked_setting("keep_ms", "2h") == "7200000"
    assert control.checked_setting("keep_ms", "5000") == "5000"
    assert control.checked_setting("max_lost", "007") == "7"
    for name in Settings.__dataclass_fields__:
        assert control.checked_setting(name, "") == ""
    for name, text in (
        ("max_failures", "0"),
        ("max_lost", "-1"),
        ("aging", "x"),
        ("trash_ms", "1.5h"),
        ("history", "ALL"),
        ("nope", "1"),
        ("max_waiting", "9" * 20),
        ("aging", "²"),
    ):
        with pytest.raises(BadInput):
            control.checked_setting(name, text)


# --- looking ------------------------------------------------------------------


def test_queue_of_a_newer_version_does_not_hide_others(client: redis.Redis) -> None:
    everywhere(client)
    client.hset("redisq:registry", "tomorrow", '{"kind":"request","schema":99,"created_ms":0}')
    client.hset("redisq:registry", "unheard", '{"kind":"origami","schema":1,"created_ms":0}')
    deployment = Deployment(client)
    assert [queue.name for queue in run(client, deployment.queues())] == ["mail"]
    assert str(run(client, deployment.resolve("r1"))) == "mail/r1"
    for name in ("tomorrow", "unheard"):
        with pytest.raises(Refused):
            run(client, deployment.queue(name))


def test_a_sharded_queue_is_one_queue(client: redis.Redis) -> None:
    made = ShardedDelaySet(client, "later", shards=4)
    made.schedule([(f"e{n}", b"x") for n in range(300)], after=60)
    deployment = Deployment(client)
    queue = run(client, deployment.queue("later"))
    bulk = entry_change(run(client, select(queue, "delayed", Filter())), "purge", ME)
    assert finish(client, bulk).done == 300
    assert made.counts().trash == 300
    (operation,) = run(client, audit_log.log(deployment)).operations
    assert (operation.matched, operation.done) == (300, 300)
    assert finish(client, ChangeRun(UndoSteps(queue, operation), ME)).done == 300
    assert (made.counts().trash, made.counts().delayed) == (0, 300)
    undo, operation = run(client, audit_log.log(deployment)).operations
    assert (operation.undone, operation.undoable, undo.done) == (300, False, 300)
    assert run(client, queue.invariants.op()) == []


def test_history_search_matches_whole_ids_only(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    for id in ("r1", "r11", "a.r1", "r-1"):
        queue.submit([b"x", b"y"], id=id)
    error = Failure("E").encoded()
    queue.settle([Settlement(d, "reject", error) for d in queue.take(9, consumer="w").deliveries])
    about = run(client, history_of(queue, "r1"))
    assert [event.what["dead"] for event in about.events] == [("r1/1|rejected", "r1/2|rejected")]
    assert (about.searched, about.total) == (1, 1)
    (event,) = run(client, history_of(queue, "r1/2")).events
    assert event.what == {"dead": ("r1/2|rejected",)}
    assert run(client, history_of(queue, "r")).events == ()
    assert run(client, history_of(queue, "arr1")).events == ()


class ScriptedFindings:
    """A queue whose checks find these, one list after another."""

    def __init__(self, *results: list[str]) -> None:
        self._results = list(results)
        self.checkup = self
        self.unfinished_transfers = self.now = self.open_resize = Nothing()
        self.shard_keys: tuple[Any, ...] = ()
        self.names_examples = False

    async def op(self, thorough: bool) -> Checkup:
        return Checkup(tuple(self._results.pop(0)))


class Nothing:
    async def op(self) -> dict[str, int]:
        return {}


def checked(*results: list[str]) -> QueueCheck:
    check = QueueCheck(cast(Any, ScriptedFindings(*results)))
    for _ in results:
        run(cast(Any, None), check.check())
    return check


def test_fsck_reports_only_what_every_check_finds() -> None:
    assert checked([]).findings == []
    once = checked(["r1: pending is 5, counted 4"], [])
    assert (once.findings, once.transient) == ([], 1)
    # The numbers of a queue in use change; a real difference stays.
    real = checked(
        ["r1: pending is 5, counted 4", "r2: pending is 1, counted 0"],
        ["r1: pending is 9, counted 8", "r3: pending is 1, counted 0"],
    )
    assert (real.findings, real.transient) == (["r1: pending is 9, counted 8"], 1)
    assert checked(["x is off", "y is 3, counted 1"], ["y is 3, counted 2"]).findings == []


@pytest.mark.parametrize(("figures", "checks"), [([3], 5), ([3, 3, 3, 3, 7], 20)])
def test_fsck_checks_a_queue_in_use_more_often(figures: list[int], checks: int) -> None:
    found = [[f"c1: waiting is {n + 1}, counted {n}"] for n in figures + [figures[-1]] * 30]
    check = QueueCheck(cast(Any, ScriptedFindings(*found)))
    while run(cast(Any, None), check.check()):
        pass
    assert (check.checks, len(check.findings)) == (checks, 1)


@pytest.mark.parametrize("kind", ["delay", "request"])
def test_later_entry_of_the_same_id_is_not_changed(client: redis.Redis, kind: str) -> None:
    clock = FakeClock()
    queue: Any
    if kind == "delay":
        queue = DelaySet(client, "q", clock=clock)
        queue.schedule([("e1", b"old"), ("e2", b"x")], after=0)
    else:
        queue = RequestQueue(client, "q", clock=clock)
        queue.submit([b"old"], id="r1")
        queue.submit([b"x"], id="r2")
    chosen, _ = run(client, select_entries(queue, "waiting", Filter()))
    (given,) = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(given, "ack")])
    clock.now_ms += 365 * 86_400_000
    if kind == "delay":
        queue.schedule([("e1", b"new")], after=0)
    else:
        while queue.sweep():
            pass
        queue.submit([b"new"], id="r1")
    chosen.high_water_ms = queue.now()  # nothing but what tells them apart is to be seen here
    outcome = finish(client, entry_change(chosen, "purge", ME))
    assert (outcome.done, outcome.skipped) == (1, {"changed": 1})
    (left,) = queue.page("waiting", payloads=True).entries
    assert left.payload == b"new"
