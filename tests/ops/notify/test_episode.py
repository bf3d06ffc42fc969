"""When a recipient is told of a trouble, by a clock of the test."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from redisq_ops.ops.check.standing import Standing
from redisq_ops.ops.notify.episode import Checked, Episode, news, seen, told
from redisq_ops.ops.notify.settings import QuietHours, Recipient, read_recipients
from redisq_ops.ops.trouble.finding import Severity

MINUTE = 60_000
RECIPIENT = Recipient("team", webhook="http://h")


def standing(
    queue: str | None = "mail",
    reason: str | None = "no worker for 8 m",
    rule: str = "no-worker",
    severity: Severity = Severity.CRITICAL,
    *,
    known: bool = True,
) -> Standing:
    return Standing(queue, rule, severity, reason, known=known)


FINE = standing(reason=None)


def births(found: list[Standing]) -> dict[str, int]:
    """All queues of the check have their data."""
    return {one.queue: 7 for one in found if one.queue is not None}


class Told:
    """A recipient, check by check; ``says``: the words for each."""

    def __init__(self, recipient: Recipient = RECIPIENT) -> None:
        self.recipient = recipient
        self.episodes: list[Episode] = []

    def check(self, at_ms: int, checked: Checked | list[Standing], *, fails: bool = False) -> str:
        if isinstance(checked, list):
            checked = Checked(checked, births=births(checked))
        self.episodes = seen(self.episodes, checked, self.recipient, at_ms)
        found = news(self.episodes, self.recipient, at_ms)
        if found and not fails:
            self.episodes = told(self.episodes, self.recipient, at_ms)
        return " ".join(f"{one.word} {one.episode.queue}" for one in found)


def test_a_trouble_is_told_at_once_after_5_m_and_after_1_h_and_never_again() -> None:
    team = Told()
    said = {
        minute: word for minute in range(300) if (word := team.check(minute * MINUTE, [standing()]))
    }
    assert said == {0: "new mail", 5: "still mail", 60: "still mail"}


def test_a_check_after_several_steps_tells_once() -> None:
    team = Told()
    assert team.check(0, [standing()]) == "new mail"
    assert team.check(90 * MINUTE, [standing()]) == "still mail"
    assert team.check(91 * MINUTE, [standing()]) == ""


def test_what_was_not_delivered_is_told_by_the_next_check() -> None:
    team = Told()
    assert [team.check(at, [standing()], fails=True) for at in (0, 1, 2)] == ["new mail"] * 3
    assert team.check(3, [standing()]) == "new mail"
    assert team.check(4, [standing()]) == ""
    assert [team.check(at, [FINE], fails=True) for at in (5, 60_005, 60_006)] == [
        "",
        "resolved mail",
        "resolved mail",
    ]
    assert team.check(60_007, [FINE]) == "resolved mail"
    assert (team.check(60_008, [FINE]), team.episodes) == ("", [])


def test_a_trouble_that_is_back_within_a_minute_is_the_same_one() -> None:
    team = Told()
    team.check(0, [standing()])
    flaps = [team.check(at * 20_000, [standing() if at % 2 else FINE]) for at in range(1, 15)]
    assert set(flaps) == {""}
    assert team.check(14 * 20_000 + MINUTE, [FINE]) == "resolved mail"


def test_the_end_of_what_nobody_was_told_is_not_told() -> None:
    team = Told(replace(RECIPIENT, steps=(5 * MINUTE,)))
    said = [team.check(0, [standing()]), *(team.check(n * MINUTE, [FINE]) for n in range(1, 9))]
    assert (set(said), team.episodes) == ({""}, [])


def test_an_end_can_be_left_out() -> None:
    team = Told(replace(RECIPIENT, resolved=False))
    said = [team.check(0, [standing()]), *(team.check(n * MINUTE, [FINE]) for n in range(1, 9))]
    assert (said, team.episodes) == (["new mail"] + [""] * 8, [])


def test_worse_is_told_at_once_and_better_is_not() -> None:
    warning = standing(severity=Severity.WARNING)
    team = Told()
    found = [warning, standing(), warning, standing()]
    said = [team.check(n, [each]) for n, each in enumerate(found)]
    assert said == ["new mail", "worse mail", "", ""]
    assert team.check(6 * MINUTE, [warning]) == "still mail"
    assert team.check(7 * MINUTE, [standing()]) == ""  # it was as bad before


def test_critical_again_after_a_calm_time_of_a_warning_is_told_again() -> None:
    warning, day = standing(severity=Severity.WARNING), 24 * 60 * MINUTE
    team = Told()
    found = {0: standing(), 6 * MINUTE: standing(), 70 * MINUTE: standing()}
    assert [team.check(at, [each]) for at, each in found.items()] == ["new mail"] + [
        "still mail"
    ] * 2
    assert {team.check(day + n * MINUTE, [warning]) for n in range(3)} == {""}
    assert team.check(2 * day, [standing()]) == "worse mail"
    assert team.check(2 * day + 1, [standing()]) == ""
    flaps = [team.check(2 * day + n * 20_000, [warning if n % 3 else standing()]) for n in range(9)]
    assert set(flaps) == {""}


def test_a_target_of_critical_trouble_hears_of_nothing_else() -> None:
    warning = standing(severity=Severity.WARNING)
    pager = Told(replace(RECIPIENT, severity=Severity.CRITICAL))
    assert pager.check(0, [warning]) == ""
    assert pager.check(1, [standing()]) == "new mail"
    assert [pager.check(2 + n * MINUTE, [warning]) for n in range(2)] == ["", "eased mail"]


def test_figures_may_change_but_each_condition_is_a_trouble_of_its_own() -> None:
    team = Told()
    assert team.check(0, [standing(reason="no worker for 8 m")]) == "new mail"
    assert team.check(1, [standing(reason="no worker for 9 m")]) == ""
    assert team.episodes[0].reason == "no worker for 9 m"
    texts = ("dead>1", "waiting>5")
    conditions = [replace(standing(reason=t, rule="condition"), condition=t) for t in texts]
    assert team.check(2, [standing(), *conditions]) == "new mail new mail"


def test_what_cannot_be_judged_neither_ends_nor_begins() -> None:
    team = Told()
    down = Checked.failed("can't reach the server")
    assert team.check(0, [standing()]) == "new mail"
    assert team.check(1, down) == "new None"
    assert [team.check(n * MINUTE + 1, down) for n in (1, 2)] == ["", ""]
    assert team.check(3 * MINUTE, [standing(reason=None, known=False)]) == ""  # the server is back
    assert team.check(4 * MINUTE, [standing(reason=None, known=False)]) == "resolved None"
    other = Checked([standing("other", None)], names=("oth*",))
    assert [team.check(n * MINUTE, other) for n in (6, 8)] == ["still mail", ""]
    assert [team.check(n * MINUTE, [FINE]) for n in (9, 10)] == ["", "resolved mail"]


def test_rules_of_the_server_end_only_by_a_check_of_the_server() -> None:
    team = Told()
    assert team.check(0, [standing(None, "evicts", "eviction")]) == "new None"
    assert [team.check(n * MINUTE, [FINE]) for n in (1, 3)] == ["", ""]
    missing = standing(None, "queue x has no entry", "registry")
    assert team.check(3 * MINUTE, [FINE, missing]) == "new None"
    assert [team.check(n * MINUTE, [FINE]) for n in (4, 5)] == [
        "",
        "resolved None still None",
    ]
    fine = [standing(None, None, "eviction")]
    assert [team.check(n * MINUTE, fine) for n in (6, 7)] == ["", "resolved None"]


HOLDS = replace(standing(reason=None, rule="condition"), condition="dead>5")


@pytest.mark.parametrize(
    "then, word",
    [
        (Checked([HOLDS], births={"mail": 7}), "resolved mail"),
        (Checked([], births={}), "lost mail"),
        (Checked([HOLDS], births={}), "lost mail"),
        (Checked([HOLDS], births={"mail": 8}), "lost mail"),
        (Checked([HOLDS], births={"mail": 0}), "resolved mail"),
        (Checked([FINE], births={"mail": 7}), "unchecked mail"),
        (Checked([replace(HOLDS, ignored=True)], births={"mail": 7}), "unchecked mail"),
        (Checked([replace(HOLDS, known=False)], births={"mail": 7}), ""),
        (Checked([], names=("other",), births={}), ""),
        (Checked.failed("can't reach the server"), "new None"),
    ],
    ids=[
        "kept",
        "gone",
        "keys gone",
        "made anew",
        "undated",
        "no rule",
        "ignored",
        "unread",
        "other",
        "down",
    ],
)
def test_only_a_check_that_found_the_rule_kept_resolves(then: Checked, word: str) -> None:
    team = Told()
    team.check(0, [replace(HOLDS, reason="dead>5")])
    assert "".join(team.check(n * MINUTE, then) for n in (1, 2)) == word


def test_what_is_there_again_within_a_minute_was_not_lost() -> None:
    team = Told()
    team.check(0, [standing()])
    assert team.check(1, Checked([])) == ""
    assert [team.check(n * MINUTE, [FINE]) for n in (1, 2)] == ["", "resolved mail"]


def test_a_clock_that_is_set_back_holds_up_no_step_and_no_end() -> None:
    team = Told()
    assert team.check(900 * MINUTE, [standing()]) == "new mail"
    assert [team.check(n * MINUTE, [standing()]) for n in (10, 15)] == ["", "still mail"]
    assert team.check(900 * MINUTE, [FINE]) == ""
    assert [team.check(n * MINUTE, [FINE]) for n in (20, 21)] == ["", "resolved mail"]


def test_dead_letters_that_somebody_acknowledged_are_not_called_resolved() -> None:
    team = Told()
    team.check(0, [standing(rule="dead")])
    fine = [standing(reason=None, rule="dead")]
    checked = Checked(fine, acknowledged={"mail"}, births=births(fine))
    assert [team.check(n * MINUTE, checked) for n in (1, 2, 3)] == ["", "acknowledged mail", ""]


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_in_quiet_hours_nothing_is_told_and_afterwards_what_still_holds() -> None:
    quiet = read_recipients(
        {"quiet": "22:00-07:00", "zone": "Europe/Berlin", "to": {"a": {"webhook": "http://h"}}},
        "notify",
        {},
    )[0]
    team, late = Told(quiet), standing("late")
    assert team.check(at("2026-01-10T20:59"), [standing()]) == "new mail"  # 21:59 in Berlin
    assert team.check(at("2026-01-10T21:00"), [standing(), late]) == ""
    assert team.check(at("2026-01-11T02:00"), [standing("brief"), late, FINE]) == ""
    assert team.check(at("2026-01-11T05:59"), [late, FINE]) == ""
    assert team.check(at("2026-01-11T06:00"), [late, FINE]) == "new late resolved mail"
    assert team.check(at("2026-07-10T20:00"), [standing("summer")]) == ""  # 22:00 in Berlin


@pytest.mark.parametrize(
    "when, held",
    [
        ("2026-03-29T00:59", False),  # 01:59
        ("2026-03-29T01:00", True),  # 03:00: there is no 02:30 in this night
        ("2026-10-25T00:29", False),  # 02:29, in summer time
        ("2026-10-25T00:59", True),
        ("2026-10-25T01:00", False),  # 02:00 again
        ("2026-10-25T01:30", True),
    ],
)
def test_quiet_hours_are_those_of_the_clock_on_the_wall_when_it_is_changed(
    when: str, held: bool
) -> None:
    quiet = QuietHours(time(2, 30), time(7), ZoneInfo("Europe/Berlin"))
    assert quiet.has(at(when)) is held


@pytest.mark.parametrize("hour, held", [(11, False), (12, True), (12.99, True), (13, False)])
def test_quiet_hours_may_be_within_a_day(hour: float, held: bool) -> None:
    quiet = read_recipients(
        {"to": {"a": {"webhook": "http://h", "quiet": "12:00-13:00", "zone": "UTC"}}}, "notify", {}
    )[0].quiet
    assert isinstance(quiet, QuietHours)
    assert quiet.has(at("2026-01-10T00:00") + int(hour * 3_600_000)) is held
