"""Mutants are found where they stand, and each has a test that has to notice it."""

from __future__ import annotations

import pytest
import redis

from .core.foreign.test_mutants import KINDS
from .core.foreign.test_stream_changes import PACKAGE
from .model import test_model_moves
from .model.test_mutants import OFTEN, STORIES
from .mutants import BadMarker, looked_up, mutants, spoil

LUA = """local function more(n)
  -- mutant one less: n + 1 => n
  -- Why it is so.
  -- mutant nothing
  n = n + 1
  -- mutant in words that are long:
  --   return n
  --   => return 0
  return n
end
"""


@pytest.mark.parametrize(
    ("name", "line", "other"),
    [
        ("one less", "  n = n + 1\n", "  n = n\n"),
        ("nothing", "  n = n + 1\n", ""),
        ("in words that are long", "  return n\nend", "  return 0\nend"),
    ],
)
def test_a_marker_spoils_the_next_line_of_code(name: str, line: str, other: str) -> None:
    assert spoil(LUA, name) == LUA.replace(line, other)


@pytest.mark.parametrize(
    "text",
    [
        "-- mutant a: b => c\nn = 1",
        "-- mutant a: n => c\nn = n",
        "-- mutant a: n\nn = 1",
        "-- mutant a",
    ],
)
def test_a_marker_that_fits_no_line_is_said(text: str) -> None:
    with pytest.raises(BadMarker):
        spoil(text, "a")


def test_each_has_a_test_that_has_to_notice_it() -> None:
    without = [
        f"{mutant.package}: {mutant.name}"
        for mutant in mutants()
        if not looked_up(STORIES, mutant)
        and not looked_up(KINDS, mutant)
        and mutant.name not in test_model_moves.LUA
        and mutant.package != PACKAGE  # each of these is planted there
        and mutant.paths[0].stem != "send_command"  # these in test_worker_commands
    ]
    assert without == []


@pytest.mark.alike
def test_each_is_lua(client: redis.Redis) -> None:
    """And fits its line. What doesn't compile would be noticed by anybody."""
    for mutant in mutants():
        for text in mutant.spoilt.values():
            client.script_load(text)


def test_tables_name_nothing_that_is_gone() -> None:
    there = {key for mutant in mutants() for key in mutant.keys}
    assert {*STORIES, *OFTEN} - there == set()
    assert {key for key in KINDS if "/" in key} - there == set()
    assert test_model_moves.LUA - {mutant.name for mutant in mutants()} == set()
