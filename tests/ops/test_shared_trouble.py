"""Queues with the same trouble are told in one sentence, whose figures are ranges."""

import pytest

from redisq_ops.ops.trouble.finding import Severity, Trouble
from redisq_ops.ops.trouble.shared import has_more, likeness, shared_trouble


def trouble(rule: str, reason: str, severity: Severity = Severity.CRITICAL) -> Trouble:
    return Trouble(severity, rule, reason, 5, 60_000)


@pytest.mark.parametrize(
    ("rule", "reasons", "sentence"),
    [
        ("no-worker", ["no worker for 8 m", "no worker for 8 m"], "no worker for 8 m"),
        ("no-worker", ["no worker for 8 m", "no worker for 3 m"], "no worker for 3 to 8 m"),
        ("no-worker", ["no worker for 2 h", "no worker for 50 m"], "no worker for 50 m to 2 h"),
        ("dead", ["1,240 dead", "9 dead"], "9 to 1,240 dead"),
        (
            "dying",
            ["30 dead in 5 m, latest 20 mostly E5", "211 dead in 5 m, latest 20 mostly E5"],
            "30 to 211 dead in 5 m, latest 20 mostly E5",
        ),
        ("paused", ["paused: ticket 7", "paused: ticket 7"], "paused: ticket 7"),
    ],
)
def test_equal_reasons_are_one_with_ranges(rule: str, reasons: list[str], sentence: str) -> None:
    alike = [[trouble(rule, reason)] for reason in reasons]
    assert len({likeness(tuple(found)) for found in alike}) == 1
    (one,) = shared_trouble(alike)
    assert (one.reason, one.work, one.for_ms) == (sentence, 10, 60_000)


@pytest.mark.parametrize(
    ("rule", "one", "other"),
    [
        ("no-worker", "no worker for 8 m", "no worker seen yet"),
        ("dead", "5 dead, mostly KeyError", "5 dead, mostly ValueError"),
        ("held", "2 held by 7, silent for 3 m", "2 held by 8, silent for 3 m"),
        ("blocked", "client 7 blocked", "client 8 blocked"),
        ("paused", "paused: ticket 7", "paused: ticket 8"),
        ("poison", "7 failed 12 times", "8 failed 12 times"),
        ("stalled", "request limit used up by geo-3:7", "request limit used up by geo-4:7"),
    ],
)
def test_other_words_or_names_are_another_trouble(rule: str, one: str, other: str) -> None:
    assert likeness((trouble(rule, one),)) != likeness((trouble(rule, other),))


def test_critical_trouble_is_shared_whatever_warnings_there_are_besides() -> None:
    alone = [trouble("no-worker", "no worker for 8 m")]
    more = [*alone, trouble("dead", "4 dead", Severity.WARNING)]
    assert likeness(tuple(alone)) == likeness(tuple(more))
    assert [one.rule for one in shared_trouble([more, alone])] == ["no-worker"]
    assert has_more(more) and not has_more(alone)
    warned = [*more[1:], trouble("old", "oldest waits 2 h", Severity.WARNING)]
    assert likeness(tuple(more[1:])) != likeness(tuple(warned))
