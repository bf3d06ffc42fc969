"""Periodic entries: when runs are, and that each is scheduled once."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from math import inf
from zoneinfo import ZoneInfo

import pytest
import redis
import redis.asyncio

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Delivery, Settlement
from redisq_ops.core.model.errors import BadInput, TooLarge, Unreadable
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.queues.delay.periodic import AHEAD_MS, RUNS, due, following, slots
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.core.redis.transport import exchange

MINUTE, HOUR = 60_000, 3_600_000
NY, BERLIN = "America/New_York", "Europe/Berlin"


def ms(text: str, zone: str = "UTC", fold: int = 0) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(moment.timestamp()) * 1000


def runs(cron: str, zone: str, after: int, n: int) -> list[str]:
    """The next n runs, as local times with the hours of their offset."""
    found = islice(slots(Periodic("p", cron, zone=zone), after), n)
    texts = [datetime.fromtimestamp(at / 1000, ZoneInfo(zone)).isoformat() for at in found]
    return [text[:16] + text[19:22] for text in texts]


# --- when runs are --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        # Clocks go forward: 02:30 isn't there, and runs once right after the gap.
        ("30 2 * * *", NY, "2026-03-07T12:00", ["2026-03-08T03:00-04", "2026-03-09T02:30-04"]),
        ("30 2 * * *", BERLIN, "2026-03-28T12:00", ["2026-03-29T03:00+02", "2026-03-30T02:30+02"]),
        # Several skipped times are one run.
        ("0,15,45 2 * * *", NY, "2026-03-07T12:00", ["2026-03-08T03:00-04", "2026-03-09T02:00-04"]),
        # Clocks go back: 01:30 and 02:30 come twice, and run the first time.
        ("30 1 * * *", NY, "2026-10-31T12:00", ["2026-11-01T01:30-04", "2026-11-02T01:30-05"]),
        ("30 2 * * *", BERLIN, "2026-10-24T12:00", ["2026-10-25T02:30+02", "2026-10-26T02:30+01"]),
        # Intervals follow real time.
        ("0 * * * *", NY, "2026-03-08T00:30", ["2026-03-08T01:00-05", "2026-03-08T03:00-04"]),
        (
            "0 * * * *",
            BERLIN,
            "2026-10-25T01:30",
            ["2026-10-25T02:00+02", "2026-10-25T02:00+01", "2026-10-25T03:00+01"],
        ),
        # Leap days; the last day of a month; day of month or weekday, as cron has it.
        ("0 0 29 2 *", "UTC", "2026-01-01", ["2028-02-29T00:00+00", "2032-02-29T00:00+00"]),
        ("0 0 29 2 *", "UTC", "2096-03-01", ["2104-02-29T00:00+00"]),
        ("0 0 L * *", "UTC", "2026-02-01", ["2026-02-28T00:00+00", "2026-03-31T00:00+00"]),
        ("0 9 13 * FRI", "UTC", "2026-11-01", ["2026-11-06T09:00+00", "2026-11-13T09:00+00"]),
    ],
)
def test_runs_follow_the_clock_on_the_wall(
    cron: str, zone: str, after: str, expected: list[str]
) -> None:
    assert runs(cron, zone, ms(after, zone), len(expected)) == expected


@pytest.mark.parametrize(("zone", "hour"), [(NY, "2026-11-01T01"), (BERLIN, "2026-10-25T02")])
def test_asked_within_a_repeated_hour_nothing_runs_a_second_time(zone: str, hour: str) -> None:
    cron = f"30 {int(hour[-2:])} * * *"
    again = ms(f"{hour}:10", zone, fold=1)  # its first 30th minute was 40 minutes ago
    assert runs(cron, zone, again, 1)[0][:10] > hour[:10]


@pytest.mark.slow
@pytest.mark.parametrize("zone", [NY, BERLIN, "Australia/Lord_Howe", "America/Havana", "UTC"])
@pytest.mark.parametrize("cron", ["30 1,2 * * *", "*/20 * * * *", "0 0 * * *", "15 */3 * * *"])
def test_wherever_one_begins_the_runs_are_the_same(zone: str, cron: str) -> None:
    spec = Periodic("p", cron, zone=zone)
    for begin in ("03-05", "03-26", "04-03", "10-02", "10-23", "10-30"):
        low, high = ms(f"2026-{begin}"), ms(f"2026-{begin}") + 5 * 24 * HOUR
        whole = []
        for at in slots(spec, low):
            if at > high:
                break
            whole.append(at)
        assert whole == sorted(set(whole))
        at, stepped = low, []
        while (at := next(slots(spec, at))) <= high:
            stepped.append(at)
        assert stepped == whole


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (Periodic("p", "61 * * * *"), "bad minute, expected 0-59"),
        (Periodic("p", "* * * 13 *"), "bad month, expected 1-12"),
        (Periodic("p", "0 0 31 2 *"), "never fires"),
        (Periodic("p", "* * * *"), "five fields"),
        (Periodic("p", "* * * * * *"), "five fields"),
        (Periodic("p", ""), "five fields"),
        (Periodic("p", "0 0 * * *", zone="Mars/Olympus"), "Mars/Olympus"),
        (Periodic("p", "0 0 * * *", zone="../../etc/passwd"), "time zone"),
        (Periodic("p", "0 0 * * *", zone=""), "time zone"),
        (Periodic("p/q", "0 0 * * *"), "periodic name"),
        (Periodic("p" * 115, "0 0 * * *"), "id of a run"),
        (Periodic("p", "0 0 * * *", missed="some"), "one, all or none"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_used_is_one_line(spec: Periodic, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refusal:
        spec.checked()
    assert "\n" not in str(refusal.value)


# --- which of them now ----------------------------------------------------------------------------

NOON = ms("2026-06-01T12:00")


def missed(policy: str, *, overlap: bool = True, hours: int = 5) -> tuple[list[int], int]:
    spec = Periodic("p", "0 * * * *", missed=policy, overlap=overlap)  # type: ignore[arg-type]
    return due(spec, NOON, NOON + hours * HOUR + 10 * MINUTE)


def test_missed_runs_one_all_or_none() -> None:
    hours = [NOON + n * HOUR for n in range(7)]
    assert missed("one") == ([hours[5]], hours[6])
    assert missed("all") == (hours[:6], hours[6])
    assert missed("none") == ([], hours[6])
    assert missed("all", overlap=False) == (hours[:1], hours[1])


def test_a_long_absence_is_worked_off_in_bounded_steps() -> None:
    first, following = missed("all", hours=5000)
    assert first == [NOON + n * HOUR for n in range(RUNS)]
    assert following == NOON + RUNS * HOUR
    latest, following = missed("one", hours=20 * 366 * 24)
    assert latest == [NOON + 20 * 366 * 24 * HOUR]
    assert following == latest[0] + HOUR


def test_the_latest_missed_run_may_be_years_ago() -> None:
    spec = Periodic("p", "0 0 29 2 *")
    assert due(spec, ms("2024-02-29"), ms("2027-12-01")) == ([ms("2024-02-29")], ms("2028-02-29"))


def test_runs_are_scheduled_a_minute_ahead_and_no_more() -> None:
    spec = Periodic("p", "* * * * *", overlap=True)
    assert due(spec, NOON, NOON - AHEAD_MS) == ([NOON], NOON + MINUTE)
    assert due(spec, NOON, NOON - AHEAD_MS - 1) == ([], NOON)


# --- on a server ----------------------------------------------------------------------------------


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON - 90_000)


@pytest.fixture
def later(client: redis.Redis, clock: FakeClock) -> DelaySet[BlockingClient]:
    return DelaySet(client, "later", clock=clock)


def take_all(later: DelaySet[BlockingClient]) -> list[str]:
    """Everything due, worked on and acknowledged."""
    taken = later.take(100, consumer="w").deliveries
    later.settle([Settlement(delivery, "ack") for delivery in taken])
    return [delivery.id for delivery in taken]


def hourly(later: DelaySet[BlockingClient], clock: FakeClock, hours: int) -> list[str]:
    """What runs in some hours of a worker that looks every 20 s."""
    ran = []
    for _ in range(hours * 180):
        later.tick()
        ran += take_all(later)
        clock.advance(20)
    return ran


def test_a_run_is_an_ordinary_entry_at_its_exact_time(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    assert later.set_periodic(Periodic("report", "0 * * * *", b"\x00pay\nload")) == "ok"
    assert later.tick() == 0
    clock.advance(31)
    assert later.tick() == 1
    assert [(e.id, e.at_ms) for e in later.page("delayed").entries] == [(f"report@{NOON}", NOON)]
    clock.now_ms = NOON - 1
    assert later.take(consumer="w").deliveries == ()
    clock.now_ms = NOON
    (delivery,) = later.take(consumer="w").deliveries
    assert (delivery.id, delivery.payload) == (f"report@{NOON}", b"\x00pay\nload")
    assert later.invariants() == []


@pytest.mark.slow
def test_a_day_of_hourly_runs(later: DelaySet[BlockingClient], clock: FakeClock) -> None:
    later.set_periodic(Periodic("hourly", "0 * * * *"))
    later.set_periodic(Periodic("other", "30 */6 * * *", overlap=True))
    ran = hourly(later, clock, 24)
    assert ran == sorted(ran, key=lambda id: id.partition("@")[2])
    assert [id for id in ran if "hourly" in id] == [f"hourly@{NOON + n * HOUR}" for n in range(24)]
    assert len(ran) == 28


def test_many_schedulers_make_one_run(url: str, clock: FakeClock) -> None:
    with redis.Redis.from_url(url, max_connections=20) as client:
        later = DelaySet(client, "later", clock=clock)
        later.set_periodic(Periodic("p", "0 * * * *", missed="all", overlap=True))
        clock.now_ms += 10 * HOUR
        with ThreadPoolExecutor(8) as pool:
            fired = list(
                pool.map(lambda _: DelaySet(client, "later", clock=clock).tick(), range(8))
            )
        assert sum(fired) == 1
        assert take_all(later) == [f"p@{NOON + n * HOUR}" for n in range(10)]
        assert later.tick() == 0


def slow_tick(client: redis.Redis, clock: FakeClock) -> Callable[[], None]:
    """A scheduler that has made up its mind, and acts only when it is called."""
    work = DelaySet(client, "later", clock=clock).tick.op()
    assert isinstance(work, Coroutine)
    calls = work.send(None)
    while DelaySet(None)._script("fire_periodic").sha not in calls[0].command:
        calls = work.send(exchange(client, calls))

    def act() -> None:
        assert exchange(client, calls) == [b"passed"]
        work.close()

    return act


def test_a_slow_scheduler_makes_no_second_run(
    later: DelaySet[BlockingClient], client: redis.Redis, clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "0 * * * *", overlap=True))
    clock.now_ms = NOON
    act = slow_tick(client, clock)
    later.tick()
    assert take_all(later) == [f"p@{NOON}"]
    act()
    assert take_all(later) == []


def test_a_slow_scheduler_does_not_run_what_was_changed_meanwhile(
    later: DelaySet[BlockingClient], client: redis.Redis, clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "0 * * * *", b"old"))
    clock.advance(60)
    act = slow_tick(client, clock)
    later.set_periodic(Periodic("p", "0 * * * *", b"new"))
    act()
    assert later.tick() == 1
    (entry,) = later.page("delayed", payloads=True).entries
    assert entry.payload == b"new"


def test_declaring_it_again_forgets_no_missed_run(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "0 * * * *"))
    clock.now_ms += 3 * HOUR
    assert later.set_periodic(Periodic("p", "0 * * * *")) == "same"
    later.tick()
    assert take_all(later) == [f"p@{NOON + 2 * HOUR}"]
    assert later.set_periodic(Periodic("p", "15 * * * *")) == "changed"
    (planned,) = later.periodics()
    assert planned.spec is not None
    assert (planned.spec.cron, planned.next_ms) == ("15 * * * *", NOON + 3 * HOUR + 15 * MINUTE)
    assert planned.run == f"p@{NOON + 2 * HOUR}"


def test_removed_it_runs_no_more(later: DelaySet[BlockingClient], clock: FakeClock) -> None:
    later.set_periodic(Periodic("p", "0 * * * *"))
    assert later.remove_periodic("p")
    assert not later.remove_periodic("p")
    assert later.periodics() == []
    assert hourly(later, clock, 3) == []


def test_without_overlap_a_run_waits_for_the_one_before(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    later.set_periodic(Periodic("slow", "* * * * *", missed="one"))
    clock.now_ms = NOON
    later.tick()
    (slow,) = later.take(100, consumer="w", lease=600).deliveries
    for _ in range(9):  # three minutes of looking while it runs
        clock.advance(20)
        later.tick()
        assert later.take(100, consumer="w").deliveries == ()
    later.settle([Settlement(slow, "fail", b"", 1)])
    later.tick()
    assert later.counts().delayed == 1  # its second attempt, and nothing beside it
    clock.advance(1)
    assert take_all(later) == [slow.id]
    later.tick()
    assert take_all(later) == [f"slow@{NOON + 3 * MINUTE}"]


def test_with_overlap_runs_are_side_by_side(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "* * * * *", overlap=True))
    held: list[Delivery] = []
    for _ in range(12):
        later.tick()
        held += later.take(100, consumer="w", lease=3600).deliveries
        clock.advance(20)
    assert len(held) == 4


def test_a_dead_run_does_not_end_the_series(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "0 * * * *"))
    clock.now_ms = NOON
    later.tick()
    (first,) = later.take(consumer="w").deliveries
    later.settle([Settlement(first, "reject", b"broken")])
    clock.now_ms += HOUR
    later.tick()
    assert take_all(later) == [f"p@{NOON + HOUR}"]
    assert [e.id for e in later.page("dead").entries] == [first.id]


def test_a_draining_queue_gets_no_new_runs(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "0 * * * *", missed="all", overlap=True))
    later.configure("op", 1, {"closed": "end"})
    clock.now_ms += 3 * HOUR
    assert later.tick() == 0
    assert later.counts().waiting == 0
    later.configure("op", 2, {"closed": ""})
    later.tick()
    assert len(take_all(later)) == 3


@pytest.mark.parametrize(
    ("line", "time", "message"),
    [
        (Periodic("odd", "0 * * * *", zone="Not/Here").encoded(), 0.0, "'odd'.*Not/Here"),
        (b"x", 0.0, "periodic: entry 'odd' is corrupt"),
        (b"7", 0.0, "periodic: entry 'odd' is corrupt"),
        (b"\xb4", 0.0, "periodic: entry 'odd' is corrupt"),
        (b'{"name": "odd", "cron": 5}', 0.0, "periodic entry 'odd': cron must be a str"),
        (Periodic("odd", "0 * * * *").encoded(), -inf, "periodic_at: the time of 'odd' is corrupt"),
    ],
)
def test_one_that_cannot_be_used_does_not_stop_the_others(
    later: DelaySet[BlockingClient],
    client: redis.Redis,
    clock: FakeClock,
    line: bytes,
    time: float,
    message: str,
) -> None:
    later.set_periodic(Periodic("good", "0 * * * *"))
    client.hset(later.keys["periodic"], "odd", line)
    client.zadd(later.keys["periodic_at"], {"odd": time})
    clock.now_ms = NOON
    assert later.tick() == 1
    assert take_all(later) == [f"good@{NOON}"]
    with pytest.raises((BadInput, Unreadable), match=message):
        later.tick()
    found = [line for line in later.invariants() if "odd" in line]
    assert len(found) == (time == 0)


def test_a_payload_over_the_limit_is_refused(later: DelaySet[BlockingClient]) -> None:
    with pytest.raises(TooLarge):
        later.set_periodic(Periodic("p", "0 * * * *", b"x" * (1024 * 1024 + 1)))
    assert later.periodics() == []


async def awaited(make: Callable[[], redis.asyncio.Redis], clock: FakeClock) -> int:
    async with make() as client:
        later = DelaySet(client, "later", clock=clock)
        await later.set_periodic(Periodic("p", "0 * * * *"))
        clock.now_ms = NOON
        return await later.tick()


def test_awaited_too(aclient: Callable[[], redis.asyncio.Redis], clock: FakeClock) -> None:
    assert asyncio.run(awaited(aclient, clock)) == 1


# --- what operators change ------------------------------------------------------------------------


def test_a_change_is_made_once_and_only_of_what_was_read(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "0 * * * *"))
    seen = later.get_periodic("p")
    assert seen is not None

    def change(op: str, cron: str, at: int) -> str:
        spec = Periodic("p", cron).encoded()
        return later.change_periodic(op, 1, "p", was=seen.digest, spec=spec, at_ms=at)

    assert change("ann", "30 * * * *", NOON + HOUR) == "ok"
    assert change("bob", "45 * * * *", NOON + 2 * HOUR) == "changed"
    assert change("ann", "30 * * * *", NOON + HOUR) == "ok", "sent again, it gets the same answer"
    (entry,) = later.periodics()
    assert entry.spec == Periodic("p", "30 * * * *") and entry.next_ms == NOON + HOUR
    assert later.undo_change("undone", 1, "periodic", ["p", "ann", "1"]) == 1
    left: list[str] = []
    assert later.undo_change("undone-2", 1, "periodic", ["p", "ann", "1"], left.extend) == 0
    assert left == ["p"] and later.get_periodic("p") == seen


def test_what_was_due_meanwhile_is_not_missed_after_an_undo(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "0 * * * *", missed="all", overlap=True))
    seen = later.get_periodic("p")
    assert seen is not None
    later.change_periodic("op", 1, "p", was=seen.digest, paused=True)
    clock.now_ms += 5 * HOUR
    assert later.tick() == 0 and later.counts().delayed == 0
    later.undo_change("undone", 1, "periodic", ["p", "op", "1"])
    assert later.tick() == 0
    (entry,) = later.periodics()
    assert (entry.paused, entry.next_ms, entry.missed(clock.now_ms)) == (False, NOON + 5 * HOUR, 0)


def test_a_paused_entry_keeps_no_other_from_running(
    later: DelaySet[BlockingClient], client: redis.Redis, clock: FakeClock
) -> None:
    later.set_periodic(Periodic("paused", "0 * * * *"))
    later.set_periodic(Periodic("other", "0 * * * *"))
    seen = later.get_periodic("paused")
    assert seen is not None
    later.change_periodic("op", 1, "paused", was=seen.digest, paused=True)
    # What an older release reads of it: a definition as it always was, and a time that never comes.
    stored = client.hget(later.keys["periodic"], "paused")
    assert stored == Periodic("paused", "0 * * * *").encoded()
    assert client.zscore(later.keys["periodic_at"], "paused") == inf
    clock.now_ms = NOON
    later.tick()
    assert take_all(later) == [f"other@{NOON}"]
    assert later.invariants() == []


@pytest.mark.parametrize("way", ["resume", "edit", "undo", "declare"])
def test_a_run_that_is_scheduled_ahead_is_not_scheduled_again(
    later: DelaySet[BlockingClient], clock: FakeClock, way: str
) -> None:
    """Its schedule changes half a minute before the run, and a scheduler looks after its end."""
    later.set_periodic(Periodic("p", "0 * * * *", overlap=True))
    clock.now_ms = NOON - 30_000
    later.tick()
    seen = later.get_periodic("p")
    assert seen is not None and seen.run == f"p@{NOON}"
    changed = Periodic("p", "*/30 * * * *", overlap=True)
    if way == "declare":
        later.set_periodic(changed)
    elif way == "edit":
        at = following(changed, clock.now_ms, seen.run)
        later.change_periodic(
            "op", 1, "p", was=seen.digest, spec=changed.encoded(), at_ms=at, run=seen.run
        )
    else:
        later.change_periodic("op", 1, "p", was=seen.digest, paused=True)
        clock.advance(10)
        if way == "undo":
            later.undo_change("undone", 1, "periodic", ["p", "op", "1"])
        else:
            at = following(Periodic("p", "0 * * * *"), clock.now_ms, seen.run)
            later.change_periodic(
                "op", 2, "p", was=seen.digest, at_ms=at, run=seen.run, paused=False
            )
    clock.now_ms = NOON
    assert take_all(later) == [f"p@{NOON}"]
    clock.advance(10)
    later.tick()
    assert take_all(later) == []


def test_a_change_computed_before_a_run_was_scheduled_is_refused(
    later: DelaySet[BlockingClient], clock: FakeClock
) -> None:
    later.set_periodic(Periodic("p", "0 * * * *"))
    seen = later.get_periodic("p")
    assert seen is not None
    clock.now_ms = NOON - 30_000
    later.tick()
    spec = Periodic("p", "*/30 * * * *").encoded()
    word = later.change_periodic("op", 1, "p", was=seen.digest, spec=spec, at_ms=NOON, run=seen.run)
    assert word == "changed" and later.periodics()[0].next_ms == NOON + HOUR
