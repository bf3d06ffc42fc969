"""Rates per minute of several queues."""

from __future__ import annotations

from redisq_ops.core.model.rates import Rates


def test_a_total_ends_with_the_same_minute_and_leaves_out_what_is_unknown() -> None:
    long, short, uncounted = Rates((1, 2, 3), (4, 5, 6), (0, 0, 1)), Rates((), (10, 20)), Rates()
    assert Rates.total([long, short, uncounted]) == Rates((1, 2, 3), (4, 15, 26), (0, 0, 1))
    assert Rates.total([]) == Rates()
