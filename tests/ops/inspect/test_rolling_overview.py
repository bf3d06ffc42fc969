"""The dashboard's overview reads what is on the screen, and the rest in turn."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.registry import find, forget
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.core.redis.transport import exchange
from redisq_ops.demo.other_programs import register_found
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect import rolling_overview
from redisq_ops.ops.inspect.overview import Overview
from redisq_ops.ops.inspect.rolling_overview import OTHERS_MS, RollingOverview
from redisq_ops.ops.trouble.judgement import reasons, troubles

from ...fleet import KEY_ERROR, cards_die

pytestmark = pytest.mark.alike

NAMES = [f"q{n:02}" for n in range(20)]
HALF_A_SECOND, MINUTE = 500, 60_000


class Refreshes:
    """Refreshes of one overview, at times of a server clock of ours."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.now = RequestQueue(client, "clock").now()
        self._rolling = RollingOverview(Deployment(client))

    def read(self, *in_sight: str, later: int = HALF_A_SECOND) -> tuple[Overview, int, int]:
        """What is shown ``later`` (ms), the round trips it took, and the commands."""
        self.now += later
        description, trips, commands = self._rolling.read(in_sight), 0, 0
        try:
            calls = description.send(None)
            while True:
                trips, commands = trips + 1, commands + len(calls)
                replies = exchange(self.client, calls)
                for at, call in enumerate(calls):
                    if call.command == ("TIME",):
                        replies[at] = (self.now // 1000, self.now % 1000 * 1000)
                calls = description.send(replies)
        except StopIteration as end:
            return end.value, trips, commands


def waiting(seen: Overview) -> dict[str, int]:
    return {row.name: row.counts.waiting for row in seen.rows if row.counts is not None}


def submit(client: redis.Redis, names: Collection[str], id: str) -> None:
    for name in names:
        RequestQueue(client, name).submit([b"x"], id=id)


def test_rows_in_sight_are_as_they_are_now_and_others_soon(client: redis.Redis) -> None:
    submit(client, NAMES, "r1")
    refreshes = Refreshes(client)
    seen, _, all_commands = refreshes.read()
    assert waiting(seen) == dict.fromkeys(NAMES, 1)

    submit(client, NAMES, "r2")
    seen, trips, commands = refreshes.read("q03", "q04")
    assert trips == 2
    assert commands < all_commands / 4
    now = [name for name, number in waiting(seen).items() if number == 2]
    assert {"q03", "q04"} < set(now)
    assert len(now) == 4  # and a tenth of the others
    for _ in range(OTHERS_MS // HALF_A_SECOND - 1):
        seen, trips, _ = refreshes.read("q03", "q04")
        assert trips == 2
    assert waiting(seen) == dict.fromkeys(NAMES, 2)

    submit(client, NAMES, "r3")
    seen, _, _ = refreshes.read(later=OTHERS_MS)  # another view was open meanwhile
    assert waiting(seen) == dict.fromkeys(NAMES, 3)


def test_a_slow_link_shows_names_then_rows_in_sight_then_few_others_at_a_time(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(client, NAMES, "r1")
    refreshes, time = Refreshes(client), iter(range(0, 1000, 2))  # each exchange takes two seconds
    monkeypatch.setattr(rolling_overview, "monotonic", lambda: next(time))
    monkeypatch.setattr(rolling_overview, "REGISTRY_S", -1)  # the test's clock is in its reply
    seen, trips, _ = refreshes.read()
    assert [row.name for row in seen.rows] == NAMES and not waiting(seen)
    assert (seen.unread, trips) == (20, 1)
    seen, _, _ = refreshes.read("q03", "q04")
    assert waiting(seen) == {"q03": 1, "q04": 1}
    for _ in range(4):
        seen, _, _ = refreshes.read("q03", "q04")
    assert waiting(seen) == dict.fromkeys(NAMES, 1) and not seen.unread

    submit(client, NAMES, "r2")
    seen, _, _ = refreshes.read("q03", later=OTHERS_MS)
    now = [name for name, number in waiting(seen).items() if number == 2]
    assert "q03" in now and len(now) == 3


def test_queues_come_and_go_at_once(client: redis.Redis) -> None:
    submit(client, NAMES, "r1")
    refreshes = Refreshes(client)
    refreshes.read()
    submit(client, ["late"], "r1")
    gone = run(client, find("q07"))
    assert gone is not None
    run(client, forget(gone))
    seen, _, _ = refreshes.read()
    assert set(waiting(seen)) == {*NAMES, "late"} - {"q07"}


def test_rates_are_those_of_the_hour_at_any_time(client: redis.Redis) -> None:
    refreshes = Refreshes(client)
    for step, later in enumerate((0, 1, MINUTE, 1, 3 * MINUTE, 70 * MINUTE, -2 * MINUTE, MINUTE)):
        clock = FakeClock(refreshes.now + later)
        RequestQueue(client, "mail", clock=clock).submit([b"x"] * (step + 1), id=f"r{step}")
        seen, _, _ = refreshes.read("mail", later=later)
        assert seen.rows[0].rates == RequestQueue(client, "mail").rates(refreshes.now)


def reason(seen: Overview) -> str:
    return reasons(troubles(seen.rows[0], seen.now_ms))


def test_names_in_reasons_cost_no_further_round_trip(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 50, id="r", limit=100)
    error = Failure("ConnectionError", "reset").encoded()
    for delivery in queue.take(50, consumer="w").deliveries:
        queue.settle([Settlement(delivery, "reject", error)])
    refreshes = Refreshes(client)
    seen, _, _ = refreshes.read()
    assert "50 dead in 5 m, latest 20 mostly ConnectionError" in reason(seen)

    run(client, control.pause(queue, Author("root", "db-1", "db migration")))
    found = []
    for _ in range(12):
        seen, trips, _ = refreshes.read("mail")
        assert trips == 2
        found.append(reason(seen))
    assert "paused by root: db migration" in found[1]
    assert all("mostly ConnectionError" in words for words in (found[0], found[-1]))


def test_the_task_of_most_of_the_latest_dead_is_named_with_their_error(
    client: redis.Redis,
) -> None:
    cards_die(client, 30)
    register_found(client)
    assert reason(Refreshes(client).read()[0]) == (
        "30 dead, latest 20 mostly KeyError in ChargeCard"
    )
    queue = RequestQueue(client, "a-queue-of-ours")  # its entries die in as many tasks
    queue.submit([b"x"] * 2, id="one~1")
    queue.submit([b"x"] * 2, id="two~1")
    for delivery in queue.take(4, consumer="w").deliveries:
        queue.settle([Settlement(delivery, "reject", KEY_ERROR.encoded())])
    assert reason(Refreshes(client).read()[0]) == "4 dead, mostly KeyError"


@pytest.mark.parametrize("other_trouble", [False, True])
def test_trouble_that_only_its_entries_show_is_found_beside_others_and_stays(
    client: redis.Redis, other_trouble: bool
) -> None:
    """Also in a queue that has another, lesser trouble than the twenty worst."""
    for name in NAMES:
        queue = RequestQueue(client, name)
        queue.submit([b"x"], id="r")
        run(client, control.pause(queue, Author("root", "db-1", "db migration")))
    clock = FakeClock(RequestQueue(client, "clock").now() - 10_000)
    mail = RequestQueue(client, "mail", clock=clock)
    mail.submit([b"x"], id="r")
    for worker in ("w1", "w2", "w3"):
        mail.take(1, consumer=worker, lease=1)
        clock.advance(2)
    if other_trouble:
        run(client, control.drain(mail, Author("root", "db-1", "db migration")))
    refreshes = Refreshes(client)
    found = [reason(refreshes.read("mail")[0]) for _ in range(14)]
    assert all("r/1 lost a worker 2 times" in words for words in found[2:]), found


def test_an_error_is_of_its_row_alone(client: redis.Redis) -> None:
    submit(client, NAMES, "r1")
    refreshes = Refreshes(client)
    refreshes.read()
    key: Any = RequestQueue(client, "q01").keys["lease"]
    client.set(key, "x")
    seen, _, _ = refreshes.read("q01", "q02")
    rows = {row.name: row for row in seen.rows}
    assert "another type" in (rows["q01"].problem or "")
    client.delete(key)
    seen, _, _ = refreshes.read("q01", "q02")
    assert waiting(seen)["q01"] == 1
    assert {row.problem for row in seen.rows} == {None}
