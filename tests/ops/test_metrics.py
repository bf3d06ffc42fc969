"""Prometheus metrics of queues: which samples a look at the queues becomes."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from prometheus_client import CollectorRegistry, generate_latest

from redisq_ops.core.engine.registry import Registered, adopt
from redisq_ops.core.model.entry import Counts, Settlement
from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import Overview, QueueRow, overview
from redisq_ops.ops.metrics import QueueCollector

from ..core.foreign.specimens import SPECIMENS

NOW = 1_000_000_060_000


def scraped(seen: Overview | Exception, **options: Any) -> dict[str, float]:
    """Samples of one scrape, by name and labels."""

    def read() -> Overview:
        if isinstance(seen, Exception):
            raise seen
        return seen

    registry = CollectorRegistry()
    registry.register(QueueCollector(read, **options))
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name.replace("redisq_", ""): float(value) for name, _, value in samples}


def row(name: str, counts: Counts | None, **more: Any) -> QueueRow:
    return QueueRow(name, "request", counts, more.pop("rates", None), **more)


def test_a_queue_becomes_entries_by_state_age_rates_and_flags() -> None:
    counts = Counts(7, 2, 3, 4, 1, 99, NOW - 1500, paused="db migration")
    rates = Rates((0, 60), (0, 30), (0, 5))
    mail = row("mail", counts, rates=rates, unfinished=("move-1",), periodic=(3, 2))
    found = scraped(Overview(NOW, (mail,)))
    labels = 'kind="request",queue="mail"'
    states = {"waiting": 7, "pending": 2, "delayed": 3, "dead": 4, "trash": 1}
    for state, number in states.items():
        assert found[f'queue_entries{{{labels},state="{state}"}}'] == number
    assert found[f"queue_done_entries_total{{{labels}}}"] == 99
    assert found[f"queue_oldest_waiting_age_seconds{{{labels}}}"] == 1.5
    for event, number in {"arrived": 60, "settled": 30, "failed": 5}.items():
        assert found[f'queue_last_minute_entries{{event="{event}",{labels}}}'] == number
    for flag, value in {"readable": 1, "paused": 1, "draining": 0}.items():
        assert found[f"queue_{flag}{{{labels}}}"] == value
    assert found[f"queue_unfinished_operations{{{labels}}}"] == 1
    assert found[f"queue_periodic_entries{{{labels}}}"] == 3
    assert found[f"queue_periodic_overdue_entries{{{labels}}}"] == 2
    assert found["up"] == 1 and found["queues_omitted"] == 0


def test_what_is_unknown_is_left_out_and_never_zero() -> None:
    counts = Counts(1, 0, 0, 0, 0, 0, unknown=frozenset({"pending", "done"}))
    found = scraped(
        Overview(NOW, (row("jobs", counts), row("bad", None, problem="key x is a string")))
    )
    assert not [name for name in found if 'state="pending"' in name or "done" in name]
    assert not [name for name in found if "oldest" in name or "last_minute" in name]
    assert {name: found[name] for name in found if 'queue="bad"' in name} == {
        'queue_trouble{kind="request",queue="bad",rule="unreadable",severity="critical"}': 1,
        'queue_readable{kind="request",queue="bad"}': 0,
    }


@pytest.mark.slow
def test_done_entries_that_are_kept_for_a_while_are_no_counter(client: redis.Redis) -> None:
    """A counter that falls is taken for one that began again."""
    SPECIMENS["rq"].fill(client)
    RequestQueue(client, "mail").submit([b"x"], id="r")
    deployment = Deployment(client)
    run(client, adopt(Registered("rq:low", "rq", 1, at="rq:")))

    def kept() -> dict[str, float]:
        found = scraped(run(client, overview(deployment)))
        return {name: number for name, number in found.items() if "done" in name}

    low = 'queue_entries{kind="rq",queue="rq:low",state="done"}'
    mail = 'queue_done_entries_total{kind="request",queue="mail"}'
    assert kept() == {low: 4, mail: 0}
    client.zremrangebyrank("rq:finished:low", 0, 0)
    assert kept() == {low: 3, mail: 0}


def test_an_empty_queue_has_age_zero_so_that_an_alert_ends() -> None:
    found = scraped(Overview(NOW, (row("mail", Counts(0, 0, 0, 0, 0, 0)),)))
    assert found['queue_oldest_waiting_age_seconds{kind="request",queue="mail"}'] == 0


def test_the_number_of_queues_is_bounded_and_the_others_are_counted() -> None:
    rows = tuple(row(f"q{n}", Counts(0, 0, 0, 0, 0, 0)) for n in range(5))
    found = scraped(Overview(NOW, (*rows, row("other", None))), names=["q*"], most=3)
    named = {name.split('queue="')[1].split('"')[0] for name in found if 'queue="' in name}
    assert named == {"q0", "q1", "q2"} and found["queues_omitted"] == 2


def test_a_name_that_is_not_utf_8_is_escaped_and_spoils_no_scrape(client: redis.Redis) -> None:
    DelaySet(client, "later").schedule([("e", b"x")])
    client.hset("redisq:registry", b"\xff", b"{}")
    found = scraped(run(client, overview(Deployment(client))))
    assert found['queue_entries{kind="delay",queue="later",state="waiting"}'] == 1
    assert found[r'queue_readable{kind="unknown",queue="\\xff"}'] == 0


def test_a_server_that_does_not_answer_is_a_metric() -> None:
    found = scraped(Unreachable("refused"))
    assert found["up"] == 0 and not [name for name in found if name.startswith("queue")]


def test_what_is_wrong_with_a_queue_is_a_metric_for_each_rule_and_nothing_where_all_is_well() -> (
    None
):
    def trouble(*rows: QueueRow) -> dict[str, float]:
        found = scraped(Overview(NOW, rows))
        return {name: found[name] for name in found if "trouble" in name}

    one, many = Counts(0, 0, 0, 3, 0, 0), Counts(0, 0, 0, 1000, 0, 0, paused="why")
    assert trouble(row("well", Counts(0, 0, 0, 0, 0, 0))) == {}
    assert trouble(row("mail", one), row("jobs", many)) == {
        'queue_trouble{kind="request",queue="mail",rule="dead",severity="warning"}': 1,
        'queue_trouble{kind="request",queue="jobs",rule="dead",severity="critical"}': 1,
        'queue_trouble{kind="request",queue="jobs",rule="paused",severity="warning"}': 1,
    }


def test_a_scrape_of_up_to_a_hundred_queues_takes_five_round_trips_at_most(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        later = DelaySet(client, f"q{n}")
        later.schedule([("e", b"x"), ("f", b"y")])
        later.settle([Settlement(later.take(1, consumer="w").deliveries[0], "reject", b"{}")])
    trips = 0
    send: Any = redis.Connection.send_packed_command

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal trips
        trips += 1
        return send(self, *args, **options)

    deployment = Deployment(client)
    registry = CollectorRegistry()
    registry.register(QueueCollector(lambda: run(client, overview(deployment))))
    monkeypatch.setattr(redis.Connection, "send_packed_command", counted)
    text = generate_latest(registry).decode()
    assert text.count('state="waiting"} 1.0') == 40
    assert text.count('rule="dead"') == 40
    assert trips <= 5
