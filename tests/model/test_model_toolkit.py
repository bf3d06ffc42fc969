"""Preview, apply and undo against the book, among workers that crash and tools that are killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from _pytest.mark import ParameterSet

from redisq_ops.core.model.errors import RedisqError
from redisq_ops.ops.change.apply import PlanSteps
from redisq_ops.ops.change.audit_log import Operation
from redisq_ops.ops.change.entry_steps import EntryAction
from redisq_ops.ops.change.undo import UndoSteps

from .plans import PlannedDelays, PlannedRequests, Plans

SEEDS = 10
STEPS = 500


def histories() -> Iterator[ParameterSet]:
    for kind in (PlannedRequests, PlannedDelays):
        for seed in range(SEEDS):
            marks = () if seed == 0 else pytest.mark.slow
            yield pytest.param(kind, seed, marks=marks, id=f"{kind.__name__}-{seed}")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), histories())
def test_plans_touch_what_was_planned_and_once(
    client: redis.Redis, kind: type[Plans], seed: int, tmp_path: Path
) -> None:
    model = kind(client, seed, tmp_path)
    model.play(STEPS if seed else STEPS // 4)
    if seed:  # it was worth playing
        assert model.told["steps"] > 5 and model.told["moved"] > 5


async def left_open(undo: UndoSteps) -> None:
    """An undo that lets others go on applying."""
    undo._left = [(undo.operation.id, undo.operation.steps)]


def one_too_far(steps: PlanSteps, number: int, at: int) -> None:
    """Somebody who comes later leaves out an entry."""
    go_to(steps, number, at + 1)


def without_times(order: EntryAction, op: str, seq: int, picks: list[Any], span: Any) -> Any:
    """Ids alone."""
    return move(order, op, seq, [pick._replace(at_ms=None) for pick in picks], span)


go_to, move = PlanSteps._go_to, EntryAction.move
MUTANTS: list[tuple[type, str, Any]] = [
    (UndoSteps, "_close", left_open),
    (PlanSteps, "_go_to", one_too_far),
    (EntryAction, "move", without_times),
    (Operation, "taken_back", False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("where", "name", "mutant"), MUTANTS)
def test_a_mutant_is_found(
    client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: type,
    name: str,
    mutant: Any,
) -> None:
    monkeypatch.setattr(where, name, mutant)
    with pytest.raises((AssertionError, RedisqError, ValueError, IndexError)):
        for seed in range(12):
            client.flushall()
            PlannedDelays(client, seed, tmp_path).play(STEPS // 2)
