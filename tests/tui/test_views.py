"""The views as classes: what each has to say before it can be shown."""

import json
from dataclasses import replace
from typing import Any

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.other_programs import register_found
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text
from redisq_ops.tui.navigation import home_view
from redisq_ops.tui.views import ALL, QueueView

from .test_app import drive_in, press, see, until


@pytest.mark.parametrize("view", ALL)
def test_a_view_says_what_it_lists_and_how_a_row_looks(view: type[QueueView]) -> None:
    assert not hasattr(view.items, "__isabstractmethod__")
    assert all(column.cell for column in view.columns) or view.row is not QueueView.row


@pytest.mark.parametrize("view", ALL)
def test_every_column_sorts(view: type[QueueView]) -> None:
    assert sorted(o.key for o in view().orders) == sorted(column.key for column in view.columns)


@pytest.mark.parametrize("view", ALL)
def test_the_examples_in_the_line_of_a_filter_are_filters_there(view: type[QueueView]) -> None:
    for example in view.filter_examples.split("  "):
        assert view.parsed(view.__new__(view), example, utc=True).text == example


@pytest.mark.parametrize(
    ("features", "entries", "view"),
    [
        ("HasTimeline", {"dead": 4, "delayed": 1}, "dead"),
        ("HasRequests", {"dead": 4}, "dead"),
        ("HasRequests", {"waiting": 4}, "requests"),
        ("HasTimeline", {"delayed": 1}, "delayed"),
        ("HasTimeline", {"waiting": 4}, "waiting"),
        ("HasTimeline", {"pending": 1}, "pending"),
        ("HasTimeline", {}, "delayed"),
        ("", {"waiting": 4}, "waiting"),
        ("", {}, "dead"),
    ],
)
def test_a_queue_opens_on_its_dead_entries_if_it_has_some(
    features: str, entries: dict[str, Any], view: str
) -> None:
    counts = replace(Counts(0, 0, 0, 0, 0, 0), **entries)
    assert home_view(frozenset({features}), counts) == view


def test_list_and_tab_count_the_waiting_alike(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"] * 1_500, id="r")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "1 of 1,500", "the first 1,000 are listed", "1.5K")
        await press(pilot, "G")
        await see(pilot, "1,000 of 1,500", "r/1000")
        assert "≥" not in text(app)

    drive_in(url, body, "9", queue="mail")


def test_an_unknown_time_of_death_is_said_to_be_unknown(url: str, client: redis.Redis) -> None:
    job = {"class": "Mail", "args": [1]}
    failed = {"payload": job, "exception": "E", "error": "boom", "queue": "low"}
    client.rpush("resque:failed", json.dumps(failed))
    client.sadd("resque:queues", "low")
    client.rpush("resque:queue:low", json.dumps(job))
    register_found(client)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "boom")
        await press(pilot, "enter")
        await until(pilot, lambda: "dead since" in text(app))
        assert "unknown" in next(li for li in text(app).splitlines() if "dead since" in li)

    drive_in(url, body, "5", queue="resque:low")
