"""Moves between two queues among all that may happen; and mutants that the model must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
from _pytest.mark import ParameterSet

from redisq_ops.core.engine import queue_transfer
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.transfer import MoveAction

from ..mutants import Mutant, mutants, planted
from .moves import KINDS, MoveModel
from .spoiling import noticed

SEEDS = 10
STEPS = 500


def histories() -> Iterator[ParameterSet]:
    for kind in KINDS:
        for seed in range(SEEDS):
            yield pytest.param(kind, seed, id=f"{kind}-{seed}")


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., MoveModel]:
    """The same for the same seed: some lists are in the order of the operations' names."""

    def told(client: redis.Redis, seed: int, kind: str = "") -> MoveModel:
        chance = Random(seed)
        monkeypatch.setattr(
            audit_log, "new_id", lambda verb: f"{verb}-{chance.getrandbits(40):010x}"
        )
        return MoveModel(client, seed, kind or sorted(KINDS)[seed % len(KINDS)], tmp_path)

    return told


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), histories())
def test_each_is_in_one_queue_once(
    client: redis.Redis, kind: str, seed: int, story: Callable[..., MoveModel]
) -> None:
    model = story(client, seed, kind)
    model.play(STEPS if seed else STEPS // 4)
    if seed and not model.told["out"]:  # nothing went out by chance: the story goes on
        model.play(STEPS)
    if seed:  # it was worth playing
        assert model.told["out"] and model.told["killed"]


async def all_of_it(source: Any, op: str, step: int, cargo: Any, said: Any) -> None:
    """Put back whatever was said of it over there."""
    await refused(source, op, step, cargo, {})


@pytest.fixture
def bare(story: Callable[..., MoveModel], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A story in which no worker finishes what a mutant leaves."""
    monkeypatch.setattr(MoveModel, "recovers", False)
    return story


async def nothing(*given: Any) -> None:
    """Steps that others began are left as they are."""


refused = queue_transfer._refused
PYTHON: dict[str, tuple[Any, Any]] = {
    "_refused": (queue_transfer, all_of_it),
    "_end_steps": (MoveAction, nothing),
}
"""what stands there instead"""
LUA = {
    "landed twice",
    "landed after the undo",
    "landed on what is under way",
    "withdrawn though touched",
    "put back and not noted",
    "restored here and there",
}
"""mutants of the engine"""
OFTEN = {
    "_end_steps": ("apply",),
    "landed after the undo": ("recall",),
    "put back and not noted": ("recall", "undo"),
}
RECOVERED = {"put back and not noted"}
"""spoils what a move tells the worker that finishes it"""


@pytest.mark.slow
@pytest.mark.parametrize("name", PYTHON)
def test_a_mutant_is_found(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, name: str, bare: Callable[..., MoveModel]
) -> None:
    place, mutant = PYTHON[name]
    monkeypatch.setattr(place, name, mutant)
    assert noticed(valkey_url, bare, OFTEN.get(name, ()))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [mutant for mutant in mutants() if mutant.name in LUA], ids=str)
def test_a_spoilt_line_is_noticed(
    valkey_url: str,
    mutant: Mutant,
    story: Callable[..., MoveModel],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MoveModel, "recovers", mutant.name in RECOVERED)
    with planted(mutant):
        assert noticed(valkey_url, story, OFTEN.get(mutant.name, ()))
