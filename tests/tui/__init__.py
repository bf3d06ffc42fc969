"""The queues beside a simple model of them."""

import pytest

pytest.register_assert_rewrite(
    "tests.model.model",
    "tests.model.requests",
    "tests.model.delays",
    "tests.model.fairs",
    "tests.model.circles",
    "tests.model.wire",
)
