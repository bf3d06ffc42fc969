"""Replay by many tasks: each entry once, one operation, one rate, and a complete undo."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import (
    BadInput,
    QueueFull,
    Refused,
    SchemaTooNew,
    Unreachable,
)
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.sharded import ShardedRequestQueue
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment
from redisq_ops.pipeline.jobs import replay, replay_plan
from redisq_ops.pipeline.jobs.replay import OperationPart
from redisq_ops.pipeline.jobs.replay_plan import STEP, ReplayPlan, ReplayRequest
from redisq_ops.pipeline.sink.rate_limiter import RateLimiter, reserve
from redisq_ops.pipeline.source.connection import Server
from tests.command_line import ERROR, Redisq, dead_letters
from tests.dead_entries import KINDS, bury
from tests.proxy import FlakyProxy

pytestmark = pytest.mark.alike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTHOR = Author("me", "here", "the relay is back")


@pytest.fixture
def server_at(url: str) -> Server:
    return Server(ServerAddress(url))


def replay_request(**given: Any) -> ReplayRequest:
    return ReplayRequest("replay", "dead", "all", AUTHOR, **given)


def planned(
    server: Server, path: Path, ids: list[str], queue: str = "mail", **given: Any
) -> ReplayPlan:
    """A plan of dead entries, as Spark would have written it."""
    wanted = replay_request(queues=(queue,), **given)
    (header,) = replay_plan.plan_headers(server, wanted, [queue])
    plan = ReplayPlan(path, ())
    for unit in range(wanted.parts):
        mine = ids[unit :: wanted.parts]
        if mine:
            folder = plan.rows / f"part={unit}"
            folder.mkdir(parents=True)
            unknown = [None] * len(mine)
            rows = {
                "id": mine,
                "at_ms": pa.array(unknown, pa.int64()),
                "fingerprint": pa.array(unknown, pa.string()),
            }
            pq.write_table(pa.table(rows), folder / "a.parquet")
    plan = ReplayPlan(path, replay_plan._figures(plan, [header], wanted.parts), wanted.choice)
    plan.write()
    return plan


def parts(server: Server, plan: ReplayPlan, on_step: Any = None) -> list[OperationPart]:
    return [OperationPart(server, plan, unit, on_step) for unit in plan.units()]


def ids(queue: Queue[redis.Redis], state: Any) -> list[str]:
    return [entry.id for entry in queue.page(state, max=500).entries]


def operation(queue: Queue[redis.Redis], plan: ReplayPlan) -> audit_log.Operation:
    found = run(queue.client, audit_log.read(queue, plan.queues[0].header.op))
    assert found is not None
    return found


def undone(queue: Queue[redis.Redis], op: audit_log.Operation) -> ChangeOutcome:
    undo = ChangeRun(UndoSteps(queue, op), AUTHOR)
    while run(queue.client, undo.step()):
        pass
    return undo.outcome


# --- the line all tasks stand in ------------------------------------------------------------------


def test_all_tasks_share_one_rate(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    waits = [run(client, reserve(queue, "job", 50, 500, 50)) for _ in range(5)]
    assert waits == [0, 100, 200, 300, 400]  # whoever asks: 50 entries are 100 ms at 500/s
    clock.advance(450)
    assert run(client, reserve(queue, "job", 50, 500, 50)) == 50
    assert run(client, reserve(queue, "another", 50, 500, 50)) == 0


def test_an_idle_rate_limiter_saves_one_burst_only(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    run(client, reserve(queue, "job", 10, 10, 10))
    clock.advance(3_600_000)
    assert [run(client, reserve(queue, "job", 10, 10, 10)) for _ in range(3)] == [0, 1000, 2000]


def test_the_shared_rate_is_under_the_queues_hash_tag_and_expires(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    run(client, reserve(queue, "job", 50, 500, 50))
    key = b"redisq:{mail}:bucket:job"
    assert client.keys("*bucket*") == [key]
    assert 0 < client.pttl(key) <= 60_200


def test_a_job_of_several_queues_has_one_rate(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    """Otherwise three queues would run at three times the requested rate."""
    several = [dead_letters(client, 40, name) for name in ("mail", "news", "scans")]
    plans = [
        planned(server_at, tmp_path / q.name, ids(q, "dead"), queue=q.name, parts=1, rate=1000.0)
        for q in several
    ]
    whole = ReplayPlan(tmp_path / "all", tuple(plan.queues[0] for plan in plans))
    for k, plan in enumerate(plans):
        (plan.rows / "part=0").rename(_made(whole.rows) / f"part={k}")
    replay.record_operations(server_at, whole)
    outcomes = list(
        replay.ReplayTasks(server_at, whole)(iter([pa.record_batch({"unit": [0, 1, 2]})]))
    )
    assert [row["n"] for batch in outcomes for row in batch.to_pylist()] == [40, 40, 40]
    rate_header = whole.queues[0].header
    assert client.keys("*bucket*") == [f"redisq:{{mail}}:bucket:{rate_header.op}".encode()]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# --- parts, without Spark -------------------------------------------------------------------------


def test_parts_move_each_entry_once_as_one_operation(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 330)
    plan = planned(server_at, tmp_path, ids(queue, "dead"), parts=4)
    replay.record_operations(server_at, plan)
    outcomes = [part.run() for part in parts(server_at, plan)]
    assert sum(outcomes, Counter()) == {"moved": 330}
    counts = queue.counts()
    assert (counts.waiting, counts.dead) == (330, 0)
    (listed,) = run(client, audit_log.log(Deployment(client))).operations
    assert (listed.verb, listed.done, listed.matched, listed.why) == (
        "replay",
        330,
        330,
        "the relay is back",
    )
    assert queue.invariants() == []


def test_a_repeated_part_moves_nothing(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 120)
    plan = planned(server_at, tmp_path, ids(queue, "dead"), parts=2)
    replay.record_operations(server_at, plan)
    for part in parts(server_at, plan):
        part.run()
    # They fail again: entries that died since the plan are not part of it.
    while taken := queue.take(500, consumer="w").deliveries:
        queue.settle([Settlement(each, "reject", ERROR.encoded()) for each in taken])
    again = sum((part.run() for part in parts(server_at, plan)), Counter())
    assert again["moved"] == 120 and queue.counts().dead == 120
    assert operation(queue, plan).done == 120


def test_a_replay_outlasts_a_server_that_does_not_answer_for_its_progress(
    client: redis.Redis, server_at: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 5)
    plan = planned(server_at, tmp_path, [f"r1/{n}" for n in range(1, 6)])

    def tasks(spark: Any, frame: Any, on_poll: Callable[[], object]) -> list[Any]:
        with monkeypatch.context() as away:
            away.setattr(replay, "outcomes", Mock(side_effect=Unreachable("gone")))
            on_poll()
        for part in parts(server_at, plan):
            part.run()
        return []

    monkeypatch.setattr(replay, "collect_reports", tasks)
    (outcome,) = replay.apply(Mock(), server_at, plan)
    assert (outcome.done, outcome.matched) == (5, 5)


class TaskKilled(Exception):
    pass


def test_a_repeated_task_continues_after_any_step(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 300)
    plan = planned(server_at, tmp_path, ids(queue, "dead"), parts=1)
    replay.record_operations(server_at, plan)
    for last in (1, 2, 4):

        def die(step: int, last: int = last) -> None:
            if step == last:
                raise TaskKilled

        with pytest.raises(TaskKilled):
            parts(server_at, plan, die)[0].run()
        assert queue.counts().waiting == last * STEP
    assert parts(server_at, plan)[0].run() == {"moved": 300}
    assert operation(queue, plan).done == 300


def _race(server: Server, path: Path, go: Any) -> None:
    plan = ReplayPlan.read(path)
    assert plan is not None
    go.wait()
    for part in parts(server, plan):
        part.run()


@pytest.mark.slow
def test_concurrent_copies_of_a_part_move_each_entry_once(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 3000)
    everything: list[str] = []
    cursor = None
    while True:
        page = queue.page("dead", cursor, 500)
        everything += [entry.id for entry in page.entries]
        if (cursor := page.cursor) is None:
            break
    plan = planned(server_at, tmp_path, everything, parts=2)
    replay.record_operations(server_at, plan)
    fork = get_context("fork")
    go = fork.Event()
    copies = [fork.Process(target=_race, args=(server_at, tmp_path, go)) for _ in range(3)]
    for copy in copies:
        copy.start()
    go.set()
    for copy in copies:
        copy.join(60)
    assert [copy.exitcode for copy in copies] == [0, 0, 0]
    assert (queue.counts().waiting, queue.counts().dead) == (3000, 0)
    assert operation(queue, plan).done == 3000
    assert queue.invariants() == []


@pytest.mark.slow
def test_lost_replies_beyond_the_clients_retries_change_nothing(
    client: redis.Redis, server: EmbeddedServer, tmp_path: Path
) -> None:
    queue = dead_letters(client, 300)
    with FlakyProxy(server.port) as proxy:
        through = Server(ServerAddress(proxy.url))
        proxy.drop_replies(4)
        plan = planned(through, tmp_path, ids(queue, "dead"), parts=1)
        proxy.drop_replies(4)
        replay.record_operations(through, plan)
        lost: list[int] = []

        def lose(step: int) -> None:
            proxy.drop_replies(4)
            lost.append(step)

        (part,) = parts(through, plan, lose)
        assert part.run() == {"moved": 300}
        assert len(lost) == 300 // STEP + 1
    assert operation(queue, plan).done == 300 and queue.invariants() == []


def test_undo_reverts_all_parts(client: redis.Redis, server_at: Server, tmp_path: Path) -> None:
    queue = dead_letters(client, 230)
    before = {entry.id: entry.error for entry in queue.page("dead", max=500).entries}
    plan = planned(server_at, tmp_path, list(before), parts=3)
    replay.record_operations(server_at, plan)
    for part in parts(server_at, plan):
        part.run()
    outcome = undone(queue, operation(queue, plan))
    assert (outcome.matched, outcome.done, outcome.skipped) == (230, 230, {})
    assert {entry.id: entry.error for entry in queue.page("dead", max=500).entries} == before
    assert queue.counts().waiting == 0 and queue.invariants() == []


def test_a_late_task_moves_nothing_after_an_undo(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 200)
    plan = planned(server_at, tmp_path, ids(queue, "dead"), parts=1)
    replay.record_operations(server_at, plan)

    def undo(step: int) -> None:
        if step == 2:
            assert undone(queue, operation(queue, plan)).done == 2 * STEP

    with pytest.raises(Refused, match="undone"):
        parts(server_at, plan, undo)[0].run()
    with pytest.raises(Refused, match="undone"):
        parts(server_at, plan)[0].run()
    assert (queue.counts().waiting, queue.counts().dead) == (0, 200)


def test_entries_in_another_state_are_left_out(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 60)
    chosen = ids(queue, "dead")
    plan = planned(server_at, tmp_path, chosen, parts=2)
    queue.move("by-hand", 1, chosen[:7], source="dead", target="trash", high_water_ms=2**52)
    replay.record_operations(server_at, plan)
    outcomes = sum((part.run() for part in parts(server_at, plan)), Counter())
    assert outcomes == {"moved": 53, "changed": 7}


def test_each_shard_moves_its_own_entries(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = ShardedRequestQueue(client, "mail", shards=3)
    for n in range(30):
        queue.submit([b"x"] * 5, id=f"r{n}", limit=100)
    while taken := queue.take(100, consumer="w1").deliveries:
        queue.settle([Settlement(each, "reject", ERROR.encoded()) for each in taken])
    plan = planned(server_at, tmp_path, ids(queue, "dead"), parts=2)
    replay.record_operations(server_at, plan)
    assert sum((part.run() for part in parts(server_at, plan)), Counter()) == {"moved": 150}
    assert operation(queue, plan).done == 150
    assert undone(queue, operation(queue, plan)).done == 150
    assert queue.counts().dead == 150 and queue.invariants() == []


@pytest.mark.parametrize("kind", ["delay", "delay, 3 shards", "fair", "fair, 3 shards"])
def test_other_kinds_of_queues_are_replayed_and_undone(
    kind: str, client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    """With an attempt of each part that dies in the middle, and one that goes on."""
    make, fill = KINDS[kind]
    queue = make(client, "mail", clock=FakeClock())
    fill(queue)
    bury(queue, keep=3)
    dead = ids(queue, "dead")
    assert len(dead) in (22, 47)
    plan = planned(server_at, tmp_path, dead, parts=2)
    replay.record_operations(server_at, plan)

    def dies(moved: int) -> None:
        raise RuntimeError("killed")

    for part in parts(server_at, plan, dies):
        with pytest.raises(RuntimeError):
            part.run()
    for part in parts(server_at, plan):
        part.run()
    counts = queue.counts()  # by its own clock some of a delay set are not due yet
    assert counts.dead == 0 and counts.waiting + (counts.delayed or 0) == len(dead)
    assert operation(queue, plan).done == len(dead) and queue.invariants() == []
    assert undone(queue, operation(queue, plan)).done == len(dead)
    assert sorted(ids(queue, "dead")) == sorted(dead) and queue.counts().waiting == 0


def test_the_wait_for_a_full_queue_is_limited(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 8, id="r1")
    queue.configure("op", 1, {"max_waiting": "10"})
    slept: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds
        if len(slept) == 3:  # a worker comes along
            queue.take(4, consumer="w1")

    pace = RateLimiter(queue, "job", sleep=sleep, clock=lambda: now[0])
    pace.wait(client, 2, check_capacity=True)
    assert slept == []
    pace.wait(client, 5, check_capacity=True)
    assert len(slept) == 3
    with pytest.raises(QueueFull, match=r"4 entries are waiting and max_waiting is 10: .* 10m"):
        pace.wait(client, 7, check_capacity=True)


def test_the_size_of_steps_follows_the_rate(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 40)
    plan = planned(server_at, tmp_path, ids(queue, "dead"), parts=2, rate=10.0)
    assert plan.queues[0].header.step == 10


# --- plans on disk --------------------------------------------------------------------------------


def test_a_folder_without_its_file_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / "entries" / "part=0").mkdir(parents=True)
    assert ReplayPlan.read(tmp_path) is None


def test_an_invalid_plan_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "plan.ndjson").write_text("{")
    with pytest.raises(BadInput, match=r"plan\.ndjson"):
        ReplayPlan.read(tmp_path)
    (tmp_path / "plan.ndjson").write_text('{"redisq": "Spark plan", "version": 99}')
    with pytest.raises(SchemaTooNew):
        ReplayPlan.read(tmp_path)


@pytest.mark.parametrize(
    ("words", "other"),
    [
        (["--queue", "news", "--all"], "--queue"),
        (["--all"], "--queue"),
        (["--queue", "mail", "--where", "lost > 3"], "choice"),
        (["--queue", "mail", "--all", "--payloads"], "--payloads"),
        (["--queue", "mail", "--all", "--since", "2h"], "choice, --since"),
        (["--queue", "mail", "--all", "--parts", "3"], "--parts"),
    ],
)
def test_a_plan_is_refused_for_another_selection(
    client: redis.Redis,
    server_at: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    other: str,
) -> None:
    """It would run in the plan's queue, whatever the command names."""
    queue = dead_letters(client, 3)
    planned(server_at, tmp_path, ids(queue, "dead"))
    redisq = Redisq(server_at.target.url, capsys)
    message = redisq.refusal("spark", "replay", "--plan", str(tmp_path), *words, "--yes", code=2)
    assert f"holds another plan (different {other})" in message
    assert queue.counts().dead == 3


def test_a_plan_continues_at_the_new_rate(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 60)
    planned(server_at, tmp_path, ids(queue, "dead"), parts=1, rate=500.0)
    kept = ReplayPlan.read(tmp_path)
    assert kept is not None
    kept.check_request(replay_request(queues=("mail",), parts=1, rate=20.0))
    slower = kept.with_rate(20.0)
    at = server_at.deployment()
    shown = [str(run(client, plan.previews(at))) for plan in (slower, kept)]
    assert "at 20/s" in shown[0] and "at 500/s" in shown[1]
    # The size of steps stays: some may have been carried out.
    assert slower.queues[0].header.step == kept.queues[0].header.step


def test_a_plan_holds_no_password_and_no_payload(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 3)
    planned(
        Server(ServerAddress(server_at.target.url, password=None)), tmp_path, ids(queue, "dead")
    )
    assert "redis://" not in (tmp_path / "plan.ndjson").read_text()


# --- with Spark, where one kind of server is enough -----------------------------------------------


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url, protocol=3) as client:
        client.flushall()
        yield client


def dead_frame(spark: "SparkSession", queue: str, ids: list[str]) -> Any:
    rows = [(queue, id, "dead", "abcd1234") for id in ids]
    return spark.createDataFrame(rows, "queue string, id string, state string, fingerprint string")


@pytest.mark.slow
def test_a_python_worker_killed_mid_task_causes_no_loss_and_no_duplicate(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    server_at, client = Server(ServerAddress(valkey_url)), valkey
    queue = dead_letters(client, 900)
    frame = dead_frame(spark, "mail", [f"r1/{n}" for n in range(1, 901)] * 2)
    wanted = replay_request(parts=2)
    plan = replay_plan.create_plan(
        frame, replay_plan.plan_headers(server_at, wanted, ["mail"]), wanted, tmp_path
    )
    assert plan.queues[0].count == 900  # each once

    def kill(step: int) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and step == 4:
            (tmp_path / f"killed-{context.partitionId()}").touch()
            os._exit(1)

    (outcome,) = replay.apply(spark, server_at, plan, on_step=kill)
    assert {path.name for path in tmp_path.glob("killed-*")} == {"killed-0", "killed-1"}
    assert (outcome.matched, outcome.done, outcome.skipped) == (900, 900, {})
    assert (queue.counts().waiting, queue.counts().dead) == (900, 0)
    assert operation(queue, plan).ended
    (again,) = replay.apply(spark, server_at, plan)
    assert again.done == 900 and queue.counts().waiting == 900
    assert undone(queue, operation(queue, plan)).done == 900
    assert queue.counts().dead == 900 and queue.invariants() == []
