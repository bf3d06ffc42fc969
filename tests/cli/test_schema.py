"""`redisq schema`: what an object that a command prints looks like."""

from __future__ import annotations

import json

import pytest

from redisq_ops.cli.completion import schemas
from redisq_ops.cli.main import run
from redisq_ops.core.model.exit_codes import BAD_INPUT
from redisq_ops.schemas import schema, schema_names


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")


def test_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert capsys.readouterr().out.splitlines() == schema_names()
    assert run(["schema", "--json"]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["name"] for row in rows] == schema_names()


def test_a_schema_is_printed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "entry"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown) == schema("entry")
    assert shown.isascii() and len(shown.splitlines()) > 10
    assert run(["schema", "entry", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == schema("entry")


def test_an_unknown_name_is_refused_with_names_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "queue-detail"]) == BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1
    assert "no schema 'queue-detail'; did you mean queue-details" in said.err
    assert run(["schema", "zzz"]) == BAD_INPUT
    assert capsys.readouterr().err == "redisq: no schema 'zzz'; redisq schema lists them\n"


def test_names_are_completed() -> None:
    assert schemas("queue-d") == ["queue-details", "queue-difference"]
