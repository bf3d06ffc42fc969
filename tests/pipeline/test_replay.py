"""Replay by many tasks: each entry once, one operation, one rate, and all of it comes back."""

import os
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, QueueFull, Refused, SchemaTooNew
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.sharded import ShardedRequestQueue
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.undo import Undo
from redisq_ops.ops.deployment import Deployment
from redisq_ops.pipeline import replay
from redisq_ops.pipeline.rate_limiter import RateLimiter, place
from redisq_ops.pipeline.replay import STEP, OperationPart, Orders, QueueReplay, ReplayRequest
from redisq_ops.pipeline.writing import Server
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


def asked(**given: Any) -> ReplayRequest:
    return ReplayRequest("replay", "dead", "all", AUTHOR, **given)


def planned(
    server: Server, path: Path, ids: list[str], queue: str = "mail", **given: Any
) -> Orders:
    """A plan of dead entries, as Spark would have written it."""
    wanted = asked(queues=(queue,), **given)
    (header,) = replay.headers(server, wanted, [queue])
    orders = Orders(path, (QueueReplay(header, wanted.parts, len(ids)),), wanted.choice)
    for unit in range(wanted.parts):
        mine = ids[unit :: wanted.parts]
        if mine:
            folder = orders.rows / f"part={unit}"
            folder.mkdir(parents=True)
            rows = {"id": mine, "at_ms": pa.array([None] * len(mine), pa.int64())}
            pq.write_table(pa.table(rows), folder / "a.parquet")
    orders.write()
    return orders


def parts(server: Server, orders: Orders, told: Any = None) -> list[OperationPart]:
    order = orders.orders[0]
    return [
        OperationPart(server, orders.rows, order.header, order.parts, unit, told)
        for unit in orders.units()
    ]


def ids(queue: Queue[redis.Redis], state: Any) -> list[str]:
    return [entry.id for entry in queue.page(state, max=500).entries]


def operation(queue: Queue[redis.Redis], orders: Orders) -> audit_log.Operation:
    found = run(queue.client, audit_log.read(queue, orders.orders[0].header.op))
    assert found is not None
    return found


def undone(queue: Queue[redis.Redis], op: audit_log.Operation) -> audit_log.ChangeOutcome:
    undo = Undo(queue, op, AUTHOR)
    while run(queue.client, undo.step()):
        pass
    return undo.outcome


# --- the line all tasks stand in ------------------------------------------------------------------


def test_one_line_holds_all_tasks_to_one_rate(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    waits = [run(client, place(queue, "job", 50, 500, 50)) for _ in range(5)]
    assert waits == [0, 100, 200, 300, 400]  # whoever asks: 50 entries are 100 ms at 500/s
    clock.advance(450)
    assert run(client, place(queue, "job", 50, 500, 50)) == 50
    assert run(client, place(queue, "another", 50, 500, 50)) == 0


def test_a_rest_saves_up_one_burst_and_no_more(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    run(client, place(queue, "job", 10, 10, 10))
    clock.advance(3_600_000)
    assert [run(client, place(queue, "job", 10, 10, 10)) for _ in range(3)] == [0, 1000, 2000]


def test_the_line_is_under_the_queues_tag_and_goes_by_itself(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    run(client, place(queue, "job", 50, 500, 50))
    key = b"rq:{mail}:bucket:job"
    assert client.keys("*bucket*") == [key]
    assert 0 < client.pttl(key) <= 60_200


def test_a_job_of_several_queues_stands_in_one_line(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    """Else three queues would go three times as fast as was asked for."""
    several = [dead_letters(client, 40, name) for name in ("mail", "news", "scans")]
    plans = [planned(server_at, tmp_path / q.name, ids(q, "dead"), queue=q.name, parts=1,
                     rate=1000.0) for q in several]  # fmt: skip
    whole = Orders(tmp_path / "all", tuple(plan.orders[0] for plan in plans))
    for k, plan in enumerate(plans):
        (plan.rows / "part=0").rename(_made(whole.rows) / f"part={k}")
    replay.begin(server_at, whole)
    said = list(replay.ReplayTasks(server_at, whole)(iter([pa.record_batch({"unit": [0, 1, 2]})])))
    assert [row["n"] for batch in said for row in batch.to_pylist()] == [40, 40, 40]
    line = whole.orders[0].header
    assert client.keys("*bucket*") == [f"rq:{{mail}}:bucket:{line.op}".encode()]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# --- parts, without Spark -------------------------------------------------------------------------


def test_parts_move_everything_once_as_one_operation(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 330)
    orders = planned(server_at, tmp_path, ids(queue, "dead"), parts=4)
    replay.begin(server_at, orders)
    said = [part.run() for part in parts(server_at, orders)]
    assert sum(said, Counter()) == {"moved": 330}
    counts = queue.counts()
    assert (counts.waiting, counts.dead) == (330, 0)
    (listed,) = run(client, audit_log.log(Deployment(client))).operations
    assert (listed.verb, listed.done, listed.matched, listed.why) == (
        "replay", 330, 330, "the relay is back",
    )  # fmt: skip
    assert queue.invariants() == []


def test_a_part_that_is_run_again_moves_nothing(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 120)
    orders = planned(server_at, tmp_path, ids(queue, "dead"), parts=2)
    replay.begin(server_at, orders)
    for part in parts(server_at, orders):
        part.run()
    # They fail again: what is dead now came into it since, and isn't meant.
    while taken := queue.take(500, consumer="w").deliveries:
        queue.settle([Settlement(each, "reject", ERROR.encoded()) for each in taken])
    again = sum((part.run() for part in parts(server_at, orders)), Counter())
    assert again["moved"] == 120 and queue.counts().dead == 120
    assert operation(queue, orders).done == 120


class Killed(Exception):
    pass


def test_an_attempt_that_dies_anywhere_is_gone_on_with(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 300)
    orders = planned(server_at, tmp_path, ids(queue, "dead"), parts=1)
    replay.begin(server_at, orders)
    for last in (1, 2, 4):

        def die(step: int, last: int = last) -> None:
            if step == last:
                raise Killed

        with pytest.raises(Killed):
            parts(server_at, orders, die)[0].run()
        assert queue.counts().waiting == last * STEP
    assert parts(server_at, orders)[0].run() == {"moved": 300}
    assert operation(queue, orders).done == 300


def _race(server: Server, path: Path, go: Any) -> None:
    orders = Orders.read(path)
    assert orders is not None
    go.wait()
    for part in parts(server, orders):
        part.run()


@pytest.mark.slow
def test_copies_that_run_beside_each_other_double_nothing(
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
    orders = planned(server_at, tmp_path, everything, parts=2)
    replay.begin(server_at, orders)
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
    assert operation(queue, orders).done == 3000
    assert queue.invariants() == []


@pytest.mark.slow
def test_replies_that_are_lost_for_longer_than_the_client_tries_change_nothing(
    client: redis.Redis, server: EmbeddedServer, tmp_path: Path
) -> None:
    queue = dead_letters(client, 300)
    with FlakyProxy(server.port) as proxy:
        through = Server(ServerAddress(proxy.url))
        orders = planned(through, tmp_path, ids(queue, "dead"), parts=1)
        replay.begin(through, orders)
        lost: list[int] = []

        def lose(step: int) -> None:
            proxy.drop_replies(4)
            lost.append(step)

        (part,) = parts(through, orders, lose)
        assert part.run() == {"moved": 300}
        assert len(lost) == 300 // STEP + 1
    assert operation(queue, orders).done == 300 and queue.invariants() == []


def test_undo_takes_all_parts_back(client: redis.Redis, server_at: Server, tmp_path: Path) -> None:
    queue = dead_letters(client, 230)
    before = {entry.id: entry.error for entry in queue.page("dead", max=500).entries}
    orders = planned(server_at, tmp_path, list(before), parts=3)
    replay.begin(server_at, orders)
    for part in parts(server_at, orders):
        part.run()
    outcome = undone(queue, operation(queue, orders))
    assert (outcome.matched, outcome.done, outcome.skipped) == (230, 230, {})
    assert {entry.id: entry.error for entry in queue.page("dead", max=500).entries} == before
    assert queue.counts().waiting == 0 and queue.invariants() == []


def test_after_an_undo_no_task_that_comes_late_moves_anything(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 200)
    orders = planned(server_at, tmp_path, ids(queue, "dead"), parts=1)
    replay.begin(server_at, orders)

    def undo(step: int) -> None:
        if step == 2:
            assert undone(queue, operation(queue, orders)).done == 2 * STEP

    with pytest.raises(Refused, match="undone"):
        parts(server_at, orders, undo)[0].run()
    with pytest.raises(Refused, match="undone"):
        parts(server_at, orders)[0].run()
    assert (queue.counts().waiting, queue.counts().dead) == (0, 200)


def test_entries_that_went_elsewhere_are_left_out(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 60)
    chosen = ids(queue, "dead")
    orders = planned(server_at, tmp_path, chosen, parts=2)
    queue.move("by-hand", 1, chosen[:7], source="dead", target="trash", high_water_ms=2**52)
    replay.begin(server_at, orders)
    said = sum((part.run() for part in parts(server_at, orders)), Counter())
    assert said == {"moved": 53, "changed": 7}


def test_shards_get_what_is_theirs(client: redis.Redis, server_at: Server, tmp_path: Path) -> None:
    queue = ShardedRequestQueue(client, "mail", shards=3)
    for n in range(30):
        queue.submit([b"x"] * 5, id=f"r{n}", limit=100)
    while taken := queue.take(100, consumer="w1").deliveries:
        queue.settle([Settlement(each, "reject", ERROR.encoded()) for each in taken])
    orders = planned(server_at, tmp_path, ids(queue, "dead"), parts=2)
    replay.begin(server_at, orders)
    assert sum((part.run() for part in parts(server_at, orders)), Counter()) == {"moved": 150}
    assert operation(queue, orders).done == 150
    assert undone(queue, operation(queue, orders)).done == 150
    assert queue.counts().dead == 150 and queue.invariants() == []


@pytest.mark.parametrize("kind", ["delay", "delay, 3 shards", "fair", "fair, 3 shards"])
def test_other_kinds_of_queues_are_replayed_and_undone_as_well(
    kind: str, client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    """With an attempt of each part that dies in the middle, and one that goes on."""
    make, fill = KINDS[kind]
    queue = make(client, "mail", clock=FakeClock())
    fill(queue)
    bury(queue, keep=3)
    dead = ids(queue, "dead")
    assert len(dead) in (22, 47)
    orders = planned(server_at, tmp_path, dead, parts=2)
    replay.begin(server_at, orders)

    def dies(moved: int) -> None:
        raise RuntimeError("killed")

    for part in parts(server_at, orders, dies):
        with pytest.raises(RuntimeError):
            part.run()
    for part in parts(server_at, orders):
        part.run()
    counts = queue.counts()  # by its own clock some of a delay set are not due yet
    assert counts.dead == 0 and counts.waiting + (counts.delayed or 0) == len(dead)
    assert operation(queue, orders).done == len(dead) and queue.invariants() == []
    assert undone(queue, operation(queue, orders)).done == len(dead)
    assert sorted(ids(queue, "dead")) == sorted(dead) and queue.counts().waiting == 0


def test_a_full_queue_is_waited_for_and_at_last_given_up(client: redis.Redis) -> None:
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
    pace.wait(client, 2, room=True)
    assert slept == []
    pace.wait(client, 5, room=True)
    assert len(slept) == 3
    with pytest.raises(QueueFull, match=r"4 entries wait and max_waiting is 10: .* 10m"):
        pace.wait(client, 7, room=True)


def test_the_rate_of_a_plan_is_kept_by_its_steps(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 40)
    orders = planned(server_at, tmp_path, ids(queue, "dead"), parts=2, rate=10.0)
    assert orders.orders[0].header.step == 10


# --- plans on disk --------------------------------------------------------------------------------


def test_a_folder_without_its_last_file_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / "entries" / "part=0").mkdir(parents=True)
    assert Orders.read(tmp_path) is None


def test_a_plan_that_cant_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(BadInput, match=r"plan\.json"):
        Orders.read(tmp_path)
    (tmp_path / "plan.json").write_text('{"redisq_spark_plan": 99}')
    with pytest.raises(SchemaTooNew):
        Orders.read(tmp_path)


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
def test_a_folder_is_for_what_it_was_planned_for(
    client: redis.Redis, server_at: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    words: list[str], other: str,
) -> None:  # fmt: skip
    """It would be carried out in the plan's queue, whatever was said now."""
    queue = dead_letters(client, 3)
    planned(server_at, tmp_path, ids(queue, "dead"))
    redisq = Redisq(server_at.target.url, capsys)
    said = redisq.refusal("spark", "replay", "--plan", str(tmp_path), *words, "--yes", code=2)
    assert f"holds another plan (other {other})" in said
    assert queue.counts().dead == 3


def test_a_plan_goes_on_at_the_rate_that_is_asked_for_now(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 60)
    planned(server_at, tmp_path, ids(queue, "dead"), parts=1, rate=500.0)
    kept = Orders.read(tmp_path)
    assert kept is not None
    slower = kept.of(asked(queues=("mail",), parts=1, rate=20.0)).rate_limited(20.0)
    assert "at 20/s" in str(slower.plans()) and "at 500/s" in str(kept.plans())
    # Its steps stay what they were: some may have been carried out.
    assert slower.orders[0].header.step == kept.orders[0].header.step


def test_a_plan_holds_no_password_and_no_payload(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 3)
    planned(
        Server(ServerAddress(server_at.target.url, password=None)), tmp_path, ids(queue, "dead")
    )
    assert "redis://" not in (tmp_path / "plan.json").read_text()


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
def test_a_python_worker_killed_mid_task_loses_and_doubles_nothing(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    server_at, client = Server(ServerAddress(valkey_url)), valkey
    queue = dead_letters(client, 900)
    frame = dead_frame(spark, "mail", [f"r1/{n}" for n in range(1, 901)] * 2)
    wanted = asked(parts=2)
    orders = replay.choose(frame, replay.headers(server_at, wanted, ["mail"]), wanted, tmp_path)
    assert orders.orders[0].count == 900  # each once

    def kill(step: int) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and step == 4:
            (tmp_path / f"killed-{context.partitionId()}").touch()
            os._exit(1)

    (outcome,) = replay.apply(spark, server_at, orders, told=kill)
    assert {path.name for path in tmp_path.glob("killed-*")} == {"killed-0", "killed-1"}
    assert (outcome.matched, outcome.done, outcome.skipped) == (900, 900, {})
    assert (queue.counts().waiting, queue.counts().dead) == (900, 0)
    assert operation(queue, orders).ended
    (again,) = replay.apply(spark, server_at, orders)
    assert again.done == 900 and queue.counts().waiting == 900
    assert undone(queue, operation(queue, orders)).done == 900
    assert queue.counts().dead == 900 and queue.invariants() == []
