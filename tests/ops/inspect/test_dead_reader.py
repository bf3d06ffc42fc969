"""The view of all dead letters reads a bounded part of them, and says of what its figures are."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.registry import Registered, server_ms
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.redis.operation import run
from redisq_ops.core.redis.transport import exchange
from redisq_ops.demo.other_programs import register_found
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register
from redisq_ops.ops.inspect import dead_reader, rolling_overview
from redisq_ops.ops.inspect.dead_reader import (
    AGAIN_MS,
    CHANGED_MS,
    LATELY_MS,
    LOOKS,
    QUEUES,
    WORST,
    DeadReader,
    death_bars,
)
from redisq_ops.ops.inspect.rolling_overview import RollingOverview
from redisq_ops.ops.inspect.snapshot import DeadLetters, Snapshot, Viewport
from redisq_ops.ops.inspect.snapshot_reader import KeptReads, fetch
from redisq_ops.ops.redaction import NO_REDACTION, Redaction

from ...command_line import dead_letters
from ...fleet import cards_die, mail_dies, orders_die

pytestmark = pytest.mark.alike


class Refreshes:
    """Refreshes of one dashboard; `trips` and `commands` are those of the latest."""

    def __init__(self, client: redis.Redis, redaction: Redaction = NO_REDACTION) -> None:
        self.client, self.redaction = client, redaction
        deployment = Deployment(client)
        self.deployment, self._kept = deployment, KeptReads(deployment)
        self._reader = DeadReader(deployment, RollingOverview(deployment))
        self.trips = self.commands = 0
        self._now: tuple[int, int] | None = None

    def read(self, column: str = "release", later: int = 0) -> DeadLetters:
        seen: DeadLetters = self._run(self._reader.read(column, 60, self.redaction), later)[1]
        return seen

    def overview(self, later: int = 0) -> Snapshot:
        """Refresh the first screen."""
        viewport = Viewport("overview", column="release")
        seen: Snapshot = self._run(
            fetch(self.deployment, viewport, self.redaction, self._kept), later
        )
        return seen

    def _run(self, description: Coroutine[Any, Any, Any], later: int) -> Any:
        self.trips = self.commands = 0
        try:
            calls = description.send(None)
            while True:
                self.trips, self.commands = self.trips + 1, self.commands + len(calls)
                replies: Any = exchange(self.client, calls)
                for at, call in enumerate(calls):
                    if call.command == ("TIME",):
                        # The server's clock stands still, or is moved.
                        self._now = self._now or replies[at]
                        replies[at] = (self._now[0] + later // 1000, self._now[1])
                calls = description.send(replies)
        except StopIteration as end:
            return end.value

    def all(self, column: str = "release") -> DeadLetters:
        """Refresh until every queue was read."""
        while (seen := self.read(column)).left:
            pass
        return seen


def cells(seen: DeadLetters) -> dict[tuple[str | None, ...], int]:
    return {(g.queue, g.type, *g.values): g.count for g in seen.groups}


def test_the_first_refresh_shows_error_task_release_and_queue(client: redis.Redis) -> None:
    cards_die(client, 15)
    orders_die(client, 4)
    mail_dies(client, "r1", 3)
    register_found(client)
    seen = Refreshes(client).read()
    assert cells(seen) == {
        ("sidekiq:cards", "KeyError", "ChargeCard", "v2.4.1"): 15,
        ("bullmq:orders", "Error", "ship", "v9"): 4,
        ("mail", "KeyError", None, "v7"): 3,
    }
    assert (seen.looked, seen.total, seen.queues, seen.left) == (22, 22, 3, 0)
    assert sum(seen.deaths) + seen.earlier == 22
    assert all(group.exact for group in seen.groups)


def test_a_refresh_reads_few_queues_and_the_number_of_trips_does_not_grow(
    client: redis.Redis,
) -> None:
    trips = []
    for number in (3, 3 * QUEUES):
        for n in range(number):
            mail_dies(client, f"r{number}", 1, queue=f"q{n:02}")
        refreshes = Refreshes(client)
        seen = refreshes.read()
        trips.append(refreshes.trips)
        assert seen.left == max(0, number - QUEUES)
        assert len(refreshes.all().groups) == number
    assert trips[0] == trips[1]


def test_a_queue_is_read_again_when_its_number_changed_or_after_a_time(
    client: redis.Redis,
) -> None:
    mail = mail_dies(client, "r1", 3)
    refreshes = Refreshes(client)
    refreshes.read()
    refreshes.read()
    idle = refreshes.commands
    mail.move("x", 1, ["r1/1"], source="dead", target="waiting", high_water_ms=2**50)
    assert cells(refreshes.read()) == {("mail", "KeyError", None, "v7"): 2}
    assert refreshes.commands > idle
    refreshes.read()
    assert refreshes.commands == idle
    refreshes.read(later=AGAIN_MS)
    assert refreshes.commands > idle
    refreshes.client.delete("redisq:{mail}:dead")
    assert not refreshes.read().groups


@pytest.mark.parametrize("size", [10, 50_000])
def test_of_a_long_list_the_latest_are_read_fewer_of_large_payloads(
    client: redis.Redis, size: int
) -> None:
    mail_dies(client, "r1", 100, "old")
    mail_dies(client, "r2", 290, "v" * size)
    seen = Refreshes(client).all()
    assert seen.total == 390 and seen.looked == min(250, dead_reader.BYTES // (size + 32))
    (group,) = seen.groups
    assert group.count == seen.looked and not group.exact  # there may be more of it


def test_of_queues_that_are_not_read_whole_the_one_with_more_dead_comes_first(
    client: redis.Redis,
) -> None:
    """Of both as many are read."""
    dead_letters(client, 2_000, "large")
    dead_letters(client, 400, "small")  # died later
    seen = Refreshes(client).all()
    assert [(group.queue, group.count) for group in seen.groups] == [("large", 250), ("small", 250)]


def test_entries_that_vanish_or_are_corrupt_are_not_counted(client: redis.Redis) -> None:
    mail_dies(client, "r1", 3)
    orders_die(client, 3)
    register_found(client)
    client.delete("bull:orders:o1")
    client.hset(
        "bull:orders:o2", mapping={"name": b"\xff\x1b[2J", "data": b"\xfe", "failedReason": b"\xfd"}
    )
    client.hset("redisq:{mail}:meta", "r1/2", b"\xff\xff")
    seen = Refreshes(client).read()
    assert cells(seen) == {
        ("mail", "KeyError", None, "v7"): 2,
        ("bullmq:orders", "Error", "\\xff\x1b[2J", None): 1,
        ("bullmq:orders", "Error", "ship", "v9"): 1,
    }
    assert seen.looked == 4


def test_a_queue_that_can_not_be_read_is_named_beside_the_others(client: redis.Redis) -> None:
    mail_dies(client, "r1", 2)
    mail_dies(client, "r1", 2, queue="other")
    client.delete("redisq:{other}:dead")
    client.set("redisq:{other}:dead", "no sorted set")
    seen = Refreshes(client).read()
    assert cells(seen) == {("mail", "KeyError", None, "v7"): 2}
    assert list(seen.unread) == ["other"] and "another type" in seen.unread["other"]


def test_no_dead_letter_is_counted_twice(client: redis.Redis) -> None:
    """A queue of a Sidekiq, and the Sidekiq as a whole."""
    cards_die(client, 6)
    register_found(client)
    run(client, register(Deployment(client), [Registered("sidekiq", "sidekiq", 1, 0)]))
    seen = Refreshes(client).read()
    assert cells(seen) == {("sidekiq:cards", "KeyError", "ChargeCard", "v2.4.1"): 6}
    assert (seen.total, seen.queues) == (6, 1)


def test_another_field_divides_anew_and_what_is_hidden_stays_hidden(client: redis.Redis) -> None:
    mail_dies(client, "r1", 2)
    refreshes = Refreshes(client, Redaction.read([({"keys": ["tenant"]}, "")]))
    assert cells(refreshes.read()) == {("mail", "KeyError", None, "v7"): 2}
    (group,) = refreshes.read("payload.tenant").groups
    assert "acme" not in json.dumps([group.values, group.where]) and group.where is None
    (group,) = refreshes.read("payload.size_of_card").groups  # nobody has it
    assert (group.values, group.where) == ((None,), "group=6762c343 -has:task")


def test_bars_show_nearly_all_deaths_and_the_last_one_is_now() -> None:
    now = 1_773_457_965_000
    deaths = [now, now - 1, now - 90_000, *[now - 60_000] * 40, now - 10**10]
    step, numbers = death_bars(deaths, now, 10)
    assert step == 10_000 and sum(numbers) == 43 and numbers[-1] == 2
    assert death_bars([], now, 10) == (1000, (0,) * 10)


def test_the_first_screen_has_the_largest_groups_of_the_worst_queues(client: redis.Redis) -> None:
    for n in range(WORST + 2):
        mail_dies(client, "r1", n + 2, queue=f"q{n}")
    refreshes = Refreshes(client)
    assert refreshes.overview().worst == ()  # the first frame waits for none of them
    reads = 0
    while (seen := refreshes.overview()).worst_left:
        reads += 1
        assert refreshes.trips == 2
    assert reads == 2  # two queues each
    assert [(g.queue, g.count) for g in seen.worst] == [(f"q{n}", n + 2) for n in (6, 5, 4)]


def test_errors_of_which_nothing_died_lately_come_last(client: redis.Redis) -> None:
    now = run(client, server_ms())
    for queue, number, ago in (("old", 9, LATELY_MS), ("new", 2, 0), ("lately", 3, LATELY_MS // 2)):
        mail_dies(client, "r1", number, queue=queue, clock=FakeClock(now - ago))
    refreshes = Refreshes(client)
    while refreshes.overview().worst_left:
        pass
    assert [g.queue for g in refreshes.overview().worst] == ["lately", "new", "old"]


def test_the_first_screen_reads_dead_letters_seldom(client: redis.Redis) -> None:
    mail = mail_dies(client, "r1", 3)
    refreshes = Refreshes(client)
    while refreshes.overview().worst_left:
        pass
    refreshes.overview()
    idle = refreshes.commands
    mail.move("x", 1, ["r1/1"], source="dead", target="waiting", high_water_ms=2**50)
    assert refreshes.overview().worst[0].count == 3  # it is looked at again in some seconds
    assert refreshes.commands == idle
    refreshes.overview(CHANGED_MS)
    assert refreshes.overview(CHANGED_MS).worst[0].count == 2
    assert refreshes.overview(CHANGED_MS + 1).worst and refreshes.commands == idle


def test_on_a_slow_link_the_first_screen_reads_no_dead_letters(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail_dies(client, "r1", 3)
    refreshes = Refreshes(client)
    refreshes.overview()
    monkeypatch.setattr(rolling_overview, "SLOW_S", -1)  # every read took longer
    for _ in range(3):
        seen = refreshes.overview()
        assert seen.worst == () and not seen.incomplete


def test_after_a_slow_read_of_dead_letters_the_first_screen_waits(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = mail_dies(client, "r1", 3)
    refreshes = Refreshes(client)
    monkeypatch.setattr(dead_reader, "SLOW_S", -1)  # of dead letters only
    refreshes.overview()
    assert not refreshes.overview().incomplete
    mail.move("x", 1, ["r1/1"], source="dead", target="waiting", high_water_ms=2**50)
    for later in (CHANGED_MS, CHANGED_MS + 1, AGAIN_MS - 1):
        assert refreshes.overview(later).worst[0].count == 3
    assert refreshes.overview(AGAIN_MS + 1000).worst and refreshes.overview(AGAIN_MS + 2000)
    assert refreshes.overview(AGAIN_MS + 2000).worst[0].count == 2


def test_many_equally_bad_queues_are_not_read_by_turns(client: redis.Redis) -> None:
    for n in range(4 * WORST):
        mail_dies(client, "r1", 1, queue=f"q{n:02}")
    refreshes = Refreshes(client)
    incomplete = sum(refreshes.overview().incomplete for _ in range(10))
    assert incomplete <= LOOKS
    commands = []
    for _ in range(3):
        assert [g.queue for g in refreshes.overview().worst] == ["q00", "q01", "q02"]
        commands.append(refreshes.commands)
    assert len(set(commands)) == 1
