"""Real workers of other programs obey commands that redisq sends as their own tools do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import rq
from rq.job import Job

from redisq_ops.core.engine.optional_features import HasWorkerCommands
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.foreign import LAYOUTS
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.errors import Forbidden, NotFound, RedisqError
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.worker_command import prepare_command, send_command
from redisq_ops.ops.deployment import Deployment

from ...changes import AUTHOR
from ...command_line import Redisq
from ...foreign_keys import Sidekiq, arq_program, asynq_program, celery_program, sidekiq
from ...foreign_keys.celery_program import wait
from ...mutants import Mutant, mutants, planted

__all__ = ["sidekiq"]  # the fixture

Client = redis.Redis
YES = ("--reason", "deploy", "--yes")
CELERY = "celery:celery"
WORDS = ("quiet", "stop", "stop-job")


@contextmanager
def rq_worker(client: Client) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A worker of RQ that listens for commands, and its name."""
    port = client.connection_pool.connection_kwargs["port"]
    command = [
        sys.executable,
        "-m",
        "rq.cli",
        "worker",
        "low",
        "--url",
        f"redis://127.0.0.1:{port}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait(lambda: rq.Worker.all(connection=client) and listening(client))
        yield rq.Worker.all(connection=client)[0].name, process
    finally:
        process.kill()
        process.wait()


def listening(client: Any) -> bool:
    return bool(client.pubsub_channels("rq:pubsub:*"))


def listener(client: Any) -> Any:
    return client.pubsub()


def audited(redisq: Redisq) -> list[tuple[str, str, int, bool]]:
    """The changes of the audit log, newest first: verb, reason, done, undoable."""
    rows = redisq.rows("log")
    return [(row["verb"], row["reason"], row["done"], row["undoable"]) for row in rows]


# --- they obey -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_rq_stops_a_job_and_a_worker(redisq: Redisq, client: Client) -> None:
    queue = rq.Queue("low", connection=client)
    job = queue.enqueue("tests.foreign_keys.rq_tasks.lasts")
    waits = queue.enqueue("tests.foreign_keys.rq_tasks.lasts")
    with rq_worker(client) as (name, process):
        wait(lambda: job.get_status(refresh=True) == "started")
        said = redisq.refusal("pending", "stop", f"rq:low/{waits.id}", *YES, code=1)
        assert said == f"queue rq:low: job {waits.id} isn't running"
        (outcome,) = redisq.rows("pending", "stop", f"rq:low/{job.id}", *YES)
        assert (outcome["done"], outcome["heard"]) == (1, 1)
        wait(lambda: job.get_status(refresh=True) == "stopped")
        wait(lambda: waits.get_status(refresh=True) == "started")

        said = redisq.refusal("workers", "quiet", "rq:low", name, *YES, code=1)
        assert "RQ can't quiet one worker: `redisq queue pause`" in said
        assert "1 worker heard it" in (redisq("workers", "stop", "rq", name, *YES) and redisq.err)
        redisq("pending", "stop", f"rq:low/{waits.id}", *YES)  # else it waits for its job
        assert process.wait(60) == 0
        again = redisq.refusal("workers", "stop", "rq:low", name, *YES, code=1)
        assert again == f"RQ knows no worker {name!r}; it knows none"
    assert audited(redisq)[0] == ("stop-job", "deploy", 1, False)
    assert Job.fetch(job.id, connection=client).is_stopped


@pytest.mark.slow
def test_celery_ends_a_task_and_a_worker(redisq: Redisq, client: Client) -> None:
    app = celery_program.app_on(client)
    app.send_task("shop.lasts", task_id="loops")
    app.send_task("shop.fine", ("late",), task_id="late", countdown=9000)
    with celery_program.worker(client, pool="prefork") as process:
        wait(lambda: client.get("started") and client.hlen("unacked") == 2)
        redisq("discover", "--register", "--yes")
        for id in ("loops", "late"):
            (outcome,) = redisq.rows("pending", "stop", f"{CELERY}/{id}", *YES)
            assert (outcome["done"], outcome["heard"]) == (1, 1)
        wait(lambda: app.AsyncResult("loops").state == "REVOKED")
        (name,) = (row["name"] for row in redisq.processes())
        said = redisq.refusal("workers", "stop", CELERY, name.partition("@")[2], *YES, code=1)
        assert "knows no worker" in said, "a part of a name is no name"
        redisq("workers", "stop", CELERY, name, *YES)
        assert process.wait(60) == 0
    assert "knows no worker" in redisq.refusal("workers", "stop", CELERY, name, *YES, code=1)
    assert client.get("started") == b"1", "it didn't run again"


@pytest.mark.slow
def test_celery_ends_a_task_that_is_in_no_key(redisq: Redisq, client: Client) -> None:
    """Without `acks_late` it is acknowledged when it begins."""
    app = celery_program.app_on(client)
    app.send_task("shop.early", task_id="loops")
    with celery_program.worker(client, pool="prefork"):
        wait(lambda: client.get("started") and not client.hlen("unacked"))
        redisq("discover", "--register", "--yes")
        said = redisq.refusal("pending", "stop", f"{CELERY}/other", *YES, code=1)
        assert "no key shows that job other runs; no worker has it (1 of 1 that heard" in said
        with listener(client) as deaf:
            deaf.psubscribe("/0.celery.pidbox")
            deaf.get_message(timeout=5)
            said = redisq.refusal("pending", "stop", f"{CELERY}/other", *YES, code=1)
        assert "whether it runs is unknown (1 of 2 that heard the question answered)" in said
        assert not redisq.rows("log"), "nothing was sent"
        redisq("pending", "stop", f"{CELERY}/loops", *YES)
        wait(lambda: app.AsyncResult("loops").state == "REVOKED")
    said = redisq.refusal("pending", "stop", f"{CELERY}/loops", *YES, code=1)
    assert "no key shows that job loops runs; no worker of Celery listens" in said


@pytest.mark.slow
def test_arq_cancels_a_job(redisq: Redisq, client: Client) -> None:
    arq_program.enqueue(client, ("lasts", [], {"_job_id": "loops"}))
    with arq_program.started(client, "serve") as process:
        wait(lambda: client.get("started"))
        (outcome,) = redisq.rows("pending", "stop", "arq:arq:queue/loops", *YES)
        assert (outcome["done"], outcome["heard"]) == (1, None), "nobody can tell who reads it"
        wait(lambda: client.exists("arq:result:loops"))
        process.kill()
    (dead,) = redisq.rows("dlq", "ls", "arq:arq:queue")
    assert dead["id"] == "loops"
    assert not client.exists("arq:in-progress:loops") and not client.zcard("arq:abort")


@pytest.mark.slow
def test_sidekiq_quiets_and_stops_a_process(
    redisq: Redisq, client: Client, sidekiq: Sidekiq
) -> None:
    with sidekiq.working("default") as process:
        sidekiq.until("it is registered", lambda: bool(client.scard("processes")))
        (row,) = redisq.processes("sidekiq")
        said = redisq.refusal("workers", "stop", "sidekiq", "nope", *YES, code=1)
        assert said == f"Sidekiq knows no worker 'nope'; it knows {row['name']}"
        redisq("workers", "quiet", "sidekiq", row["name"], *YES)
        assert "has still to read it" in redisq.err
        sidekiq.until("it is quiet", lambda: client.hget(row["name"], "quiet") == b"true")
        sidekiq.ruby("Sidekiq::Client.push('class' => 'Note', 'args' => ['late'])")
        redisq("workers", "stop", "sidekiq", row["name"], *YES)
        assert process.wait(60) == 0
    assert sidekiq.log == [], "a quiet process takes no job"
    said = redisq.refusal("workers", "stop", "sidekiq", row["name"], *YES, code=1)
    assert "Sidekiq knows no worker" in said
    assert [verb for verb, *_ in audited(redisq)] == ["stop", "quiet"]


def test_asynq_is_told_the_task_that_is_to_end(redisq: Redisq, client: Client) -> None:
    """By what its sources say: these tests don't run asynq."""
    asynq_program.specimen(client)
    redisq("discover", "--register", "--yes")
    (first, *_) = redisq.rows("pending", "ls", f"asynq:{asynq_program.QUEUE}")
    address = f"asynq:{asynq_program.QUEUE}/{first['id']}"
    assert "nobody heard it" in (redisq("pending", "stop", address, *YES, code=1) + redisq.err)
    with listener(client) as heard:
        heard.subscribe("asynq:cancel")
        heard.get_message(timeout=5)
        redisq("pending", "stop", address, *YES)
        told = heard.get_message(timeout=5)
    assert told is not None and told["data"] == first["id"].encode()


# --- nobody hears, or somebody else is meant -----------------------------------------------------


def registered(client: Client, name: str = "w1") -> None:
    """A worker of RQ by its keys alone; its process is gone."""
    client.sadd("rq:workers", f"rq:worker:{name}")
    client.sadd("rq:queues", "rq:queue:low")
    client.hset(f"rq:worker:{name}", mapping={"birth": "2026-11-29T20:00:00Z", "queues": "low"})


def test_a_command_that_nobody_hears_is_a_failure(redisq: Redisq, client: Client) -> None:
    registered(client)
    redisq("workers", "stop", "rq:low", "w1", "--dry-run")
    assert not redisq.rows("log")
    out = redisq("workers", "stop", "rq:low", "w1", *YES, code=1)
    assert out == "" and "nobody heard it: no worker of RQ listens" in redisq.err
    assert audited(redisq) == [("stop", "deploy", 0, False)]


def test_a_worker_that_was_replaced_after_the_look_is_left_alone(
    redisq: Redisq, client: Client
) -> None:
    registered(client)
    queue: Any = run(client, Deployment(client).queue("rq:low"))
    change = run(client, prepare_command(queue, "stop", "w1"))
    client.hset("rq:worker:w1", "birth", "2026-11-29T21:00:00Z")
    with listener(client) as heard:
        heard.subscribe("rq:pubsub:w1")
        heard.get_message(timeout=5)
        with pytest.raises(NotFound, match="another one by now"):
            run(client, send_command(change, AUTHOR))
        assert heard.get_message(timeout=0.2) is None


def test_a_job_that_went_to_another_worker_is_left_alone(redisq: Redisq, client: Client) -> None:
    registered(client)
    client.hset("rq:job:a", mapping={"worker_name": "w1", "status": "started", "origin": "low"})
    queue: Any = run(client, Deployment(client).queue("rq:low"))
    change = run(client, prepare_command(queue, "stop-job", "a"))
    client.hset("rq:job:a", "worker_name", "w2")
    with pytest.raises(NotFound, match="job a is gone, or another one by now"):
        run(client, send_command(change, AUTHOR))


def sent_once(client: Client) -> None:
    registered(client)
    queue: Any = run(client, Deployment(client).queue("rq:low"))
    command = run(client, queue.worker_command.op("stop", "w1"))
    with listener(client) as heard:
        heard.subscribe("rq:pubsub:w1")
        heard.get_message(timeout=5)
        assert [queue.send_command("op", 1, command) for _ in range(2)] == [("ok", 1)] * 2
        told = heard.get_message(timeout=5)
        assert told is not None and json.loads(told["data"]) == {"command": "shutdown"}
        assert heard.get_message(timeout=0.2) is None


def replaced(client: Client) -> None:
    registered(client)
    queue: Any = run(client, Deployment(client).queue("rq:low"))
    command = run(client, queue.worker_command.op("stop", "w1"))
    client.hset("rq:worker:w1", "birth", "2026-11-29T21:00:00Z")
    assert queue.send_command("op", 1, command) == ("changed", 0)
    assert not client.exists(queue.keys["op_"] + "op")


def written_down(client: Client) -> None:
    """Of a program whose workers read a key: the signal, the step, the history, for a while."""
    client.sadd("processes", "host:1:a")
    client.hset("host:1:a", "info", json.dumps({"queues": ["low"]}))
    client.sadd("queues", "low")
    queue: Any = SidekiqQueue(client, "sidekiq:low")
    command = run(client, queue.worker_command.op("quiet", "host:1:a"))
    assert queue.send_command("op", 1, command) == ("ok", 0)
    assert client.lrange("host:1:a-signals", 0, -1) == [b"TSTP"]
    key = queue.keys["op_"] + "op"
    assert client.hget(key, "steps") == b"1" and client.ttl(key) > 0
    assert "worker-quiet" in str(client.xrange(queue.keys["hist"]))


def not_allowed(client: Client) -> None:
    registered(client)
    queue: Any = run(client, Deployment(client).queue("rq:low"))
    command = run(client, queue.worker_command.op("stop", "w1"))
    rights = ["+@all", "-publish"]
    client.acl_setuser("bob", True, True, keys="*", channels="*", commands=rights)
    kept = client.connection_pool.connection_kwargs
    bob: Any = RqQueue(redis.Redis(port=kept["port"], username="bob", password="x"), "rq:low")
    try:
        with pytest.raises(Forbidden):
            bob.send_command("op", 1, command)
        assert not client.exists(queue.keys["op_"] + "op")
    finally:
        client.acl_deluser("bob")


CHECKS = (sent_once, replaced, written_down, not_allowed)


@pytest.mark.parametrize("check", CHECKS)
def test_a_command_is_sent_whole_once_and_only_to_who_was_meant(
    client: Client, check: Callable[[Client], None]
) -> None:
    check(client)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [each for each in mutants() if each.paths[0].stem == "send_command"], ids=str
)
def test_a_fault_is_found(client: Client, mutant: Mutant) -> None:
    with planted(mutant):
        for check in CHECKS:
            client.flushall()
            try:
                check(client)
            except (AssertionError, RedisqError, pytest.fail.Exception):
                return
    pytest.fail(f"nobody notices: {mutant}")


def test_without_the_right_to_publish_nothing_is_written(redisq: Redisq, client: Client) -> None:
    registered(client)
    client.acl_setuser("ann", enabled=True, nopass=True, keys="*", commands=["+@all"])
    ann = Redisq(redisq.url.replace("redis://", "redis://ann:x@"), redisq._capsys)
    said = ann("workers", "stop", "rq:low", "w1", *YES, code=1) + ann.err
    assert "may not publish to rq:pubsub:w1; to allow it: ACL SETUSER ann +publish" in said
    assert not redisq.rows("log")


# --- kinds ---------------------------------------------------------------------------------------


def test_every_kind_has_a_command_or_says_why_not() -> None:
    for name in LAYOUTS:
        kind = foreign_class(name)
        assert kind is not None
        can = kind.worker_commands if issubclass(kind, HasWorkerCommands) else {}
        assert {*can} | {*kind.no_commands} == {*WORDS}, name
        assert not {*can} & {*kind.no_commands}, name


def test_a_kind_without_commands_says_what_does(redisq: Redisq, client: Client) -> None:
    client.sadd("resque:queues", "low")
    client.rpush("resque:queue:low", "{}")
    said = redisq.refusal("workers", "quiet", "resque:low", "w", *YES, code=1)
    assert (
        said == "queue resque:low: Resque's workers heed only signals: USR2 quiets one, CONT"
        " lets it go on"
    )
    assert "lacks an id" in redisq.refusal("pending", "stop", "resque:low", *YES, code=2)


# --- Celery's pause ------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_of_celery_take_no_task_of_a_paused_queue(redisq: Redisq, client: Client) -> None:
    app = celery_program.app_on(client)
    app.send_task("shop.fine", ("first",))

    def ran(what: str) -> Any:
        return client.hget(celery_program.KEPT, what)

    with celery_program.worker(client, "celery,other"):
        wait(lambda: ran("first"))
        redisq("discover", "--register", "--yes")
        redisq("queue", "pause", CELERY, *YES)
        (row,) = (row for row in redisq.rows("ls") if row["name"] == CELERY)
        assert row["paused"].startswith("asked at 20")
        assert "(workers started later take tasks): celery@" in row["paused"]
        shown = redisq("explain", CELERY)
        assert "because 'deploy' (op pause-" in shown and f": {row['paused']}" in shown
        redisq("queue", "pause", CELERY, *YES)
        assert redisq.code == 0 and redisq.err == ""
        app.send_task("shop.fine", ("second",))
        app.send_task("shop.fine", ("beside",), queue="other")
        wait(lambda: ran("beside"))
        assert not ran("second")
        (op,) = (row["id"] for row in redisq.rows("log") if row["verb"] == "pause")
        redisq("undo", op, "--yes")
        wait(lambda: ran("second"))
        redisq("queue", "pause", CELERY, *YES)
        redisq("queue", "resume", CELERY, *YES)
        app.send_task("shop.fine", ("third",))
        wait(lambda: ran("third"))
        redisq("queue", "pause", CELERY, *YES)
    with celery_program.worker(client, "celery,other"):
        app.send_task("shop.fine", ("later",))
        wait(lambda: ran("later"))
        assert "(workers started later take tasks)" in redisq("explain", CELERY)
        redisq("queue", "resume", CELERY, *YES)
        redisq("queue", "pause", CELERY, *YES)
        app.send_task("shop.fine", ("last",))
        app.send_task("shop.fine", ("beside it",), queue="other")
        wait(lambda: ran("beside it"))
        assert not ran("last"), "it was asked, too"
    assert not client.keys("*reply.celery.pidbox*"), "no list of answers is left"


def test_a_worker_of_celery_that_is_gone_is_not_said_to_have_heard(
    redisq: Redisq, client: Client
) -> None:
    celery_program.app_on(client).send_task("shop.fine", ("x",))
    client.sadd("_kombu.binding.celery.pidbox", "\x06\x16\x06\x16celery@box.celery.pidbox")
    redisq("discover", "--register", "--yes")
    with listener(client) as other:
        other.psubscribe("/0.celery.pidbox")
        other.get_message(timeout=5)
        said = redisq.refusal("workers", "stop", CELERY, "celery@box", *YES, code=1)
    assert "worker celery@box doesn't answer" in said and not redisq.rows("log")


def test_celery_is_not_paused_where_no_worker_answers(redisq: Redisq, client: Client) -> None:
    celery_program.app_on(client).send_task("shop.fine", ("x",))
    redisq("discover", "--register", "--yes")
    said = redisq.refusal("queue", "pause", CELERY, *YES, code=1)
    assert "no worker of Celery listens for control messages" in said
    with listener(client) as deaf:
        deaf.psubscribe("/0.celery.pidbox")
        deaf.get_message(timeout=5)
        said = redisq.refusal("queue", "pause", CELERY, *YES, code=1)
    assert "1 heard the control message, and no worker of Celery answered" in said
    assert not redisq.rows("log") and not client.keys("*reply*")
