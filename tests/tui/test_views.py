"""The views as classes: what each has to say before it can be shown."""

import pytest

from redisq_ops.tui.views import ALL, QueueView


@pytest.mark.parametrize("view", ALL)
def test_a_view_says_what_it_lists_and_how_a_row_looks(view: type[QueueView]) -> None:
    for name in ("items", "row"):
        assert getattr(QueueView, name).__isabstractmethod__
        assert not hasattr(getattr(view, name), "__isabstractmethod__")


@pytest.mark.parametrize("view", ALL)
def test_every_column_sorts(view: type[QueueView]) -> None:
    assert sorted(o.key for o in view.orders) == sorted(column.key for column in view.columns)
