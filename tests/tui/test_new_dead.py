"""The overview says how many dead letters came since the user looked at those of a queue."""

from __future__ import annotations

from array import array

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.model.entry import Failure
from redisq_ops.ops.groups.error_groups import ErrorGroup
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text
from redisq_ops.tui.new_dead import NewDead, new_in_groups
from redisq_ops.tui.table.table_model import styled

from .test_app import bury, drive, press, see, until

OTHER = Failure("KeyError", "iban")


def test_entries_that_went_are_not_new_when_others_come() -> None:
    new = NewDead()
    assert [new.of("mail", n) for n in (40, 45, 5, 8)] == [0, 5, 0, 3]
    assert new.of("celery", None) == 0


def test_new_dead_letters_are_counted_until_somebody_looks(url: str, client: redis.Redis) -> None:
    bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "mail", "3 dead")
        assert " new" not in text(app)
        bury(client, "s", 4)
        await see(pilot, " new", "+4")
        await press(pilot, "5")
        await see(pilot, "s/4")
        await press(pilot, "1")
        await until(pilot, lambda: "in trouble" in text(app) and "+4" not in text(app))

    drive(url, body)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "named"), [("7", "KeyError: iban"), ("d", "mail")])
def test_the_groups_tell_which_of_them_grew_since_the_last_look(
    url: str, client: redis.Redis, key: str, named: str
) -> None:
    """Also of the group that is the largest from then on, and so has another row."""
    bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "mail", "3 dead")
        bury(client, "s", 4, OTHER)
        await see(pilot, "+4")
        await press(pilot, key)
        await see(pilot, named, " new", "+4", "new: died since 2")
        assert not any("+4" in line for line in lines(app, "ValueError"))
        await press(pilot, "1")
        await until(pilot, lambda: "in trouble" in text(app) and "+4" not in text(app))
        await press(pilot, key)
        await see(pilot, named, "7 dead")
        assert "+4" not in text(app)
        bury(client, "t", 2)
        await see(pilot, "+2")
        assert "+4" not in text(app)

    drive(url, body, size=(140, 30))


def lines(app: Top, words: str) -> list[str]:
    return [line for line in text(app).splitlines() if words in line]


def group(times: list[int], number: int) -> ErrorGroup:
    return ErrorGroup("f", None, "lost", count=number, times=array("q", times))


@pytest.mark.parametrize(
    ("times", "number", "all_read", "said"),
    [
        ([10, 20, 30], 3, True, "+2"),
        ([10, 20, 30], 3, False, "+2"),
        ([20, 30], 2, True, "+2"),
        ([20, 30], 2, False, "≥2"),  # the latest ones: more may have died since then
        ([30], 3, True, "≥1"),  # of two entries the time of death is unknown
        ([], 3, True, "?"),
        ([10], 1, True, ""),
    ],
)
def test_how_many_of_a_group_are_new(
    times: list[int], number: int, all_read: bool, said: str
) -> None:
    (new,) = new_in_groups([group(times, number)], all_read, 15)
    assert new is not None and styled(new.cell)[0] == said
