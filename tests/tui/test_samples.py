"""What the dashboard keeps of what it has seen."""

from __future__ import annotations

from dataclasses import replace

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.rates import Rates
from redisq_ops.ops.inspect.overview import QueueRow
from redisq_ops.ops.inspect.snapshot import ChartData, ChartScope, Snapshot, Viewport
from redisq_ops.tui.charts.queue_charts import PERIODS, sample_lines
from redisq_ops.tui.samples import DAY, Samples, Waiting

MINUTE = 60_000
NOW = 28_000_000 * MINUTE


def counts(waiting: int, oldest_ms: int | None = None) -> Counts:
    return Counts(waiting, 0, 0, 0, 0, 0, oldest_ms)


def rates(*arrived: int) -> Rates:
    """Counters of minutes, in which half of what arrived was settled, and one failed."""
    series = (0,) * (60 - len(arrived)) + arrived
    return Rates(series, tuple(n // 2 for n in series), tuple(min(1, n) for n in series))


def overview(now_ms: int, *rows: QueueRow) -> Snapshot:
    return Snapshot(Viewport(), now_ms, overview=rows)


def mail(now_ms: int, waiting: int, of: Rates) -> Snapshot:
    data = ChartData(ChartScope(), of)
    viewport = Viewport("charts", "mail")
    return Snapshot(viewport, now_ms, counts=counts(waiting), charts=data)


def test_an_unknown_number_of_waiting_entries_is_no_zero() -> None:
    samples, unknown = Samples(), replace(counts(0), unknown=frozenset({"waiting"}))
    for at, seen in ((NOW, unknown), (NOW + 500, counts(7)), (NOW + MINUTE, unknown)):
        rows = [QueueRow("a", "stream", seen, None), QueueRow("b", "stream", counts(2), None)]
        samples.record(overview(at, *rows))
    assert [one.waiting for one in samples.live("a")] == [None, 7, None]
    assert [one.waiting for one in samples.live(None)] == [2, 9, 2]
    assert [number for _, number, _ in samples.by_minute("a")] == [7, None]
    assert samples.waiting("a", NOW // MINUTE + 1, 60) == []
    (waiting, oldest) = sample_lines(PERIODS[0], samples, "a", NOW + MINUTE)
    assert [one for one in waiting.points if one] == [(NOW + 500, 7)]
    assert (NOW + MINUTE, 0) not in [*waiting.points, *oldest.points]
    assert Waiting.of([unknown]).words == Waiting.of([None]).words == "? waiting"
    assert Waiting.of([unknown, counts(2)]).words == "≥2 waiting"
    assert Waiting.of([]).words == "0 waiting"


def test_what_passed_between_two_samples_is_counted_over_minutes() -> None:
    samples = Samples()
    samples.record(mail(NOW + 59_000, 5, rates(8)))
    samples.record(mail(NOW + 59_500, 7, rates(10)))
    samples.record(mail(NOW + 60_500, 9, rates(12, 4)))  # the next minute
    samples.record(mail(NOW + 3 * MINUTE, 9, rates(12, 6, 1, 1)))
    live = list(samples.live("mail"))
    assert [one.passed for one in live] == [(12, 5, 3)]  # older ones are over a minute old
    samples.record(mail(NOW + 3 * MINUTE + 500, 9, rates(12, 6, 1, 5)))
    assert [one.passed for one in samples.live("mail")] == [(12, 5, 3), (16, 7, 3)]


def test_each_minute_keeps_its_highest_for_a_day() -> None:
    samples = Samples()
    for minute in range(DAY + 10):
        for waiting in (1, minute, 2):
            samples.record(mail(NOW + minute * MINUTE, waiting, rates(0)))
    found = samples.by_minute("mail")
    assert len(found) == DAY
    assert found[-1] == (NOW // MINUTE + DAY + 9, DAY + 9, None)


def test_the_last_waiting_numbers_are_those_without_a_gap() -> None:
    samples, minute = Samples(), NOW // MINUTE
    for passed, waiting in ((0, 9), (2, 1), (3, 0), (4, 5)):
        samples.record(mail(NOW + passed * MINUTE, waiting, rates(0)))
    assert samples.waiting("mail", minute + 4, 60) == [1, 0, 5]
    assert samples.waiting("mail", minute + 4, 2) == [0, 5]
    assert samples.waiting("mail", minute + 5, 60) == samples.waiting("other", minute, 60) == []


def test_all_queues_are_added_up_and_the_oldest_counts() -> None:
    samples = Samples()
    rows = (
        QueueRow("a", "request", counts(3, NOW - 5000), rates(10)),
        QueueRow("b", "request", counts(4, NOW - 9000), rates(20)),
        QueueRow("c", "stream", counts(5), None),
        QueueRow("d", "request", None, None, "unreadable"),
    )
    samples.record(overview(NOW, *rows))
    later = QueueRow("a", "request", counts(3, NOW - 5000), rates(16))
    samples.record(overview(NOW + 500, later, *rows[1:]))
    first, second = samples.live(None)
    assert (first.waiting, first.oldest_ms, second.oldest_ms) == (12, 9000, 9500)
    assert first.passed is not None and second.passed is not None
    assert second.passed[0] - first.passed[0] == 6
    # A row that was not read again is no new sample of its queue.
    assert [len([*samples.live(name)]) for name in "abcd"] == [2, 1, 1, 0]


def test_a_clock_that_was_set_back_begins_anew() -> None:
    samples = Samples()
    samples.record(mail(NOW, 5, rates(8)))
    samples.record(mail(NOW - 30 * MINUTE, 6, rates(3)))
    samples.record(mail(NOW - 30 * MINUTE + 1000, 6, rates(4)))
    first, second = samples.live("mail")
    assert first.passed is not None and second.passed is not None
    assert second.passed[0] - first.passed[0] == 1
