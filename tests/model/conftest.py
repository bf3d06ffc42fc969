"""Each history is played on one kind of server; the kinds take turns."""

from pathlib import Path

import pytest

from ..conftest import WANTED

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    elsewhere = {item for item in items if HERE in item.path.parents and not _its_turn(item)}
    config.hook.pytest_deselected(items=list(elsewhere))
    items[:] = [item for item in items if item not in elsewhere]


def _its_turn(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    seed, server = params.get("seed"), params.get("server")
    return seed is None or server is None or WANTED[seed % len(WANTED)] == server
