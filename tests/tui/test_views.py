"""The views as classes: what each has to say before it can be shown."""

from dataclasses import replace
from typing import Any

import pytest

from redisq_ops.core.model.entry import Counts
from redisq_ops.tui.navigation import home_view
from redisq_ops.tui.views import ALL, QueueView


@pytest.mark.parametrize("view", ALL)
def test_a_view_says_what_it_lists_and_how_a_row_looks(view: type[QueueView]) -> None:
    for name in ("items", "row"):
        assert getattr(QueueView, name).__isabstractmethod__
        assert not hasattr(getattr(view, name), "__isabstractmethod__")


@pytest.mark.parametrize("view", ALL)
def test_every_column_sorts(view: type[QueueView]) -> None:
    assert sorted(o.key for o in view.orders) == sorted(column.key for column in view.columns)


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
