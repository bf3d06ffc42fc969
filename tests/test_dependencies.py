"""What installs with this package can't be replaced by a release that nobody has tried."""

import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OFFERED = [
    *PROJECT["dependencies"],
    *(line for name in EXTRAS if name != "dev" for line in EXTRAS[name]),
]


@pytest.mark.parametrize("requirement", OFFERED)
def test_every_dependency_has_an_upper_bound(requirement: str) -> None:
    assert "<" in requirement.partition(";")[0] or requirement == "tzdata"
