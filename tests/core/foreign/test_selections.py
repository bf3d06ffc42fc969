"""A step takes an entry as its selection saw it, however long ago, and no other one of its id."""

from __future__ import annotations

from itertools import starmap
from pathlib import Path
from typing import Any

import pytest
import redis

from benchmarks.foreign_jobs import NAMES, NOW, fill
from redisq_ops.core.model.entry import State
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.entry_steps import EntryAction, Pick
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import Selection, select

from ...command_line import Redisq

RECORDS: dict[str, tuple[Any, ...]] = {
    "rq": ("HSET", "rq:job:d0", "ended_at", "2026-01-02T00:00:00.000000Z"),
    "bullmq": ("HSET", "bull:mail:d0", "data", "[]"),
    "bull": ("HSET", "bull:mail:d0", "opts", "[]"),
    "dramatiq": ("HSET", "dramatiq:mail.XQ.msgs", "d0", "{}"),
    "asynq": ("HSET", "asynq:{mail}:t:d0", "pending_since", 7),
    "laravel": ("HSET", "laravel_horizon:d0", "connection", "other"),
    "arq": ("SET", "arq:job:w0", '{"t":1,"f":"g","a":[],"k":{},"et":1}'),
}
"""kind -> what changes the record of one of its two jobs"""


def words(client: redis.Redis, selection: Selection) -> dict[str, str]:
    """What becomes of a selection's entries that are purged, by their ids."""
    action = EntryAction(
        selection.queue, "purge", selection.state, high_water_ms=selection.high_water_ms
    )
    picks = [*starmap(Pick, selection.identities())]
    moved = run(client, action.move("op", 1, picks))
    return dict(zip(selection.ids(), moved, strict=True))


@pytest.mark.alike
@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_that_changed_since_it_was_selected_stays(client: Any, kind: str) -> None:
    fill(client, kind, 2)
    state: State = "waiting" if kind == "arq" else "dead"
    queue = run(client, Deployment(client).queue(NAMES[kind]))
    chosen = run(client, select(queue, state, Filter(), target="trash"))
    client.execute_command(*RECORDS[kind])
    first = "w" if kind == "arq" else "d"
    assert words(client, chosen) == {f"{first}0": "changed", f"{first}1": "moved"}


@pytest.mark.alike
@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_that_changed_since_it_was_planned_stays(
    client: Any, redisq: Redisq, kind: str, tmp_path: Path
) -> None:
    fill(client, kind, 2)
    state, plan = "waiting" if kind == "arq" else "dead", str(tmp_path / "plan")
    redisq("purge", NAMES[kind], "--state", state, "--plan", plan)
    client.execute_command(*RECORDS[kind])
    (look,) = redisq.rows("apply", plan, "--dry-run")
    (outcome,) = redisq.rows("apply", plan, "--yes", code=None)
    assert (outcome["done"], outcome["skipped"]) == (1, {"changed": 1})
    assert look["now"] == {state: 1, "late": 1}


@pytest.mark.alike
def test_what_came_after_the_look_is_late(client: redis.Redis) -> None:
    fill(client, "bullmq", 1)
    queue = run(client, Deployment(client).queue(NAMES["bullmq"]))
    chosen = run(client, select(queue, "dead", Filter(), now_ms=NOW - 1, target="trash"))
    assert words(client, chosen) == {"d0": "late"}


@pytest.mark.alike
@pytest.mark.parametrize("kind", sorted(RECORDS.keys() - {"rq"}))  # in its trash: the description
def test_the_trash_shows_an_entry_as_it_was_shown(client: Any, kind: str) -> None:
    fill(client, kind, 1)
    state: State = "waiting" if kind == "arq" else "dead"
    queue = run(client, Deployment(client).queue(NAMES[kind]))
    (entry,) = queue.page(state).entries
    assert words(client, run(client, select(queue, state, Filter(), target="trash")))
    for _ in range(2):
        (gone,) = queue.page("trash").entries
        assert gone.payload == entry.payload
        client.hset(queue.keys["purged"], entry.id, entry.payload)  # as it was kept before
