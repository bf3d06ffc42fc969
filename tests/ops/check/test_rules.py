"""The rules of `redisq check`: what a file may have, and which queue gets which values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.rates import Rates
from redisq_ops.ops.check.evaluation import broken_rules, server_standings, standings
from redisq_ops.ops.check.rules import Rules, read_rules
from redisq_ops.ops.doctor.diagnosis import Diagnosis
from redisq_ops.ops.inspect.overview import Overview, QueueRow
from redisq_ops.ops.trouble.finding import Severity

NOW = 1_000_000_000_000
HOUR = 3_600_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "check.toml"


def row(name: str, waiting: int = 0, dead: int = 0, age_ms: int = 0, **more: object) -> QueueRow:
    counts = Counts(waiting, 0, 0, dead, 0, 9, NOW - age_ms if age_ms else None, **more)  # type: ignore[arg-type]
    return QueueRow(name, "request", counts, None)


def broken(rules: Rules, *rows: QueueRow) -> list[tuple[str | None, str, str]]:
    found = broken_rules(standings(Overview(NOW, rows), rules))
    return [(one.queue, one.rule, one.reason or "") for one in found]


def test_a_later_table_overrides_values_and_adds_conditions(file: Path) -> None:
    file.write_text(
        '[[check]]\noldest = "1h"\ndepth = 100\ncritical = ["dead>5"]\n'
        '[[check]]\nqueues = "batch-*"\noldest = "1d"\nwarning = ["waiting>10"]\n'
    )
    rules = read_rules(file)
    assert rules.of("mail").limits.oldest_ms == HOUR
    batch = rules.of("batch-1")
    assert (batch.limits.oldest_ms, batch.limits.depth) == (24 * HOUR, 100)
    assert [(one.severity, one.text) for one in batch.conditions] == [
        (Severity.CRITICAL, "dead>5"),
        (Severity.WARNING, "waiting>10"),
    ]
    assert [one.text for one in rules.of("mail").conditions] == ["dead>5"]


def test_the_command_line_has_the_last_word(file: Path) -> None:
    file.write_text('[[check]]\nqueues = "mail"\noldest = "1h"\ndead = 3\n')
    limits = read_rules(file).with_options(["oldest=2h"], [], []).of("mail").limits
    assert (limits.oldest_ms, limits.dead) == (2 * HOUR, 3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[check]]\noldest = "1h\n', "check.toml, line 2, column 13: illegal character '\\n'"),
        ("[[check]]\n\noldest = 90\n", 'line 3: oldest: expected a time span in quotes, as "90s"'),
        ('[[check]]\ndead = 1\n[[check]]\noldest = "1x"\n', "line 4: oldest: '1x' is not a time"),
        ("[[check]]\ndead = 0\n", "line 2: dead: expected a whole number, 1 or more"),
        ("[[check]]\ndead = true\n", "line 2: dead: expected a whole number, 1 or more"),
        ('[[check]]\ncritical = "dead>1"\n', 'critical: expected a list of conditions, as ["dead'),
        ('[[check]]\ncritical = ["dead"]\n', "critical: dead (column 1: write a comparison"),
        ('[[check]]\nignore = ["age"]\n', "line 2: ignore: expected a list of rules: unreadable, "),
        ("[[check]]\nqueues = 3\n", 'line 2: queues: expected a pattern, as "mail*"'),
        ("[[check]]\nage = 3\n", "line 2: age: expected one of queues, no_worker, "),
        ("[check]\ndead = 3\n", "line 1: 'check' is no rule table; expected TOML with"),
        ("\n[[checks]]\n", "line 2: 'checks' is no rule table"),
    ],
)
def test_a_mistake_is_named_with_its_line(file: Path, text: str, problem: str) -> None:
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_rules(file)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", ["oldest", "age=3", "dead=x", "oldest=soon", "dead=-1"])
def test_a_mistake_in_an_option_names_the_option(setting: str) -> None:
    with pytest.raises(BadInput, match="--set"):
        Rules().with_options([setting], [], [])


def test_what_breaks_a_rule_is_found_the_worst_first() -> None:
    rules = Rules().with_options(["depth=100", "oldest=1h"], ["dead>0"], ["dead>10"])
    found = broken(rules, row("a", dead=1), row("b", 150, age_ms=2 * HOUR), row("c", dead=11))
    assert found == [
        ("c", "condition", "dead>10"),
        ("b", "old", "oldest waits 2 h"),
        ("b", "deep", "150 waiting"),
        ("c", "dead", "11 dead"),
        ("c", "condition", "dead>0"),
        ("a", "dead", "1 dead"),
        ("a", "condition", "dead>0"),
    ]


def test_more_that_comes_than_goes_is_growth() -> None:
    rates = Rates((0, 60, 60, 60), (0, 10, 10, 10), (0, 0, 0, 0))
    seen = QueueRow("a", "request", Counts(9, 0, 0, 0, 0, 9), rates)
    assert broken(Rules().with_options(["growth=151"], [], []), seen) == []
    grown = broken(Rules().with_options(["growth=150"], [], []), seen)
    assert grown == [("a", "growing", "150 more came than went in 5 m")]


def test_an_ignored_rule_stays_in_the_explanation(file: Path) -> None:
    file.write_text('[[check]]\nignore = ["paused"]\n')
    rules, paused = read_rules(file), row("a", 1, paused="by root")
    assert broken(rules, paused) == [] and broken(Rules(), paused) != []
    explained = {one.rule: one for one in standings(Overview(NOW, (paused,)), rules)}
    assert explained["paused"].ignored and explained["paused"].reason == "paused by root"


def test_a_count_that_a_layout_does_not_have_breaks_the_condition() -> None:
    unknown = row("resque:mail", unknown=frozenset({"pending"}))
    ((_, _, reason),) = broken(Rules().with_options([], ["pending>5"], []), unknown)
    assert reason.startswith("pending>5: this kind of queue does not show")


def test_of_the_server_only_what_is_wrong_counts() -> None:
    server = [
        Diagnosis("eviction", "wrong", "maxmemory-policy is allkeys-lru"),
        Diagnosis("persistence", "warning", "no append-only file"),
        Diagnosis("rights", "wrong", "may not submit"),
    ]
    found = broken_rules(server_standings(server))
    assert [(one.queue, one.rule) for one in found] == [(None, "eviction")]


@pytest.mark.parametrize(
    "unread, rules",
    [
        (QueueRow("mail", "request", None, None, "no permission"), {"condition", "dead", "missed"}),
        (replace(row("mail"), problem="no permission"), {"missed", "unfinished", "resizing"}),
        (row("mail", problem="x", unknown=frozenset({"dead"})), {"condition", "dead"}),
    ],
    ids=["queue", "parts", "states"],
)
def test_a_rule_whose_numbers_cannot_be_read_neither_holds_nor_is_broken(
    unread: QueueRow, rules: set[str]
) -> None:
    given = Rules().with_options([], [], ["dead>5"])
    found = {one.rule: one for one in standings(Overview(NOW, (unread,)), given)}
    assert all(not found[rule].known and found[rule].reason is None for rule in rules)
    assert found["unreadable"].reason is not None
