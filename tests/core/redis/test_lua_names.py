"""The lint of names in Lua finds each way in which a name can come from nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from redisq_ops.core import model
from tests import lua_names
from tests.lua_names import LuaFile, Names, Tree

REPOSITORY = Path(model.__file__).parents[3]
GOOD = """-- Say how long an entry has been held.
-- KEYS: meta lease
-- ARGV: id
-- USES: record
local r = record_unpack(redis.call('HGET', meta, id))
local function held(since) return now - since end
local rows = {}
for i, name in ipairs({meta, lease}) do rows[i] = {since = held(r.since), [name] = i} end
return rows
"""


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


def problems(tree: Tree, tmp_path: Path, text: str, name: str = "held_for") -> list[str]:
    """What the lint finds in a file of the request queue's folder with that text."""

    class Written(LuaFile):
        @property
        def folder(self) -> str:
            return "queues.request"

    path = tmp_path / f"{name}.lua"
    path.write_text(text)
    return list(tree.of(Written(path)))


def test_a_file_whose_names_are_all_declared_has_no_problem(tree: Tree, tmp_path: Path) -> None:
    assert problems(tree, tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("meta, lease}", "meta, leese}", "leese is no local"),
        ("KEYS: meta lease", "KEYS: meta", "lease is no local"),
        ("-- ARGV: id\n", "", "id is no local"),
        ("-- USES: record\n", "", "record_unpack is no local"),
        # A module that one of its modules uses isn't named, so its names are unknown.
        ("USES: record", "USES: take_reply", "record_unpack is no local"),
        ("USES: record", "USES: records", "there is no such module"),
        ("USES: record", "USES: record history", "uses nothing of it"),
        ("KEYS: meta lease", "KEYS: meta lease dead", "declares dead"),
        ("local rows", "rows", "rows is no local"),
        ("return rows", "return i", "i is no local"),  # after its loop
        (
            "local function held",
            "local function storage_held",
            "storage_held is no hook of an interface",
        ),
        ("local function held", "local function storage_moved", "not in IMPLEMENTS"),
    ],
)
def test_a_name_from_nowhere_is_a_problem(
    tree: Tree, tmp_path: Path, good: str, bad: str, problem: str
) -> None:
    assert good in GOOD
    assert any(problem in found for found in problems(tree, tmp_path, GOOD.replace(good, bad, 1)))


def test_a_file_of_the_engines_name_says_what_it_replaces(tree: Tree, tmp_path: Path) -> None:
    (problem,) = problems(tree, tmp_path, GOOD, name="settle")
    assert "doesn't say REPLACES" in problem
    said = GOOD.replace("-- USES", "-- REPLACES: settle\n-- USES")
    assert problems(tree, tmp_path, said, name="settle") == []


@pytest.mark.slow
def test_the_lint_fails_for_the_one_file_with_a_name_from_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So no other file has one."""
    read, settle = Names.of, (lua_names.CORE / "engine/lua/settle.lua").read_text()

    def spoilt(text: str) -> Names:
        return read("local found = from_nowhere\n" + text if text == settle else text)

    monkeypatch.setattr(Names, "of", spoilt)
    assert lua_names.main() == 1
    (problem,) = capsys.readouterr().out.splitlines()
    assert "engine/lua/settle.lua: from_nowhere is no local" in problem
    assert "-m tests.lua_names" in (REPOSITORY / "Makefile").read_text()
