"""RQ's layout beside a real RQ: its queues, registries, workers and scheduler."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import rq
from rq.job import JobStatus
from rq.rate_limit import RateLimit
from rq.serializers import JSONSerializer

from redisq_ops.core.foreign.call_descriptions import call_of
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import run

from ...changes import changed, undone
from ...command_line import Redisq
from ...foreign_keys import rq_tasks
from ...foreign_keys.rq_workers import Worker
from ...queue_steps import eventually

pytestmark = pytest.mark.slow

Client = redis.Redis
ROOT = Path(__file__).parents[3]
TASKS = "tests.foreign_keys.rq_tasks"
Keys = dict[bytes, tuple[object, int]]


@pytest.fixture
def queue(client: Client) -> rq.Queue:
    return rq.Queue("mail", connection=client)


def work(client: Client, schedule: bool = False) -> None:
    """A real worker, until there is nothing left."""
    worker = Worker(["mail"], connection=client)
    worker.work(burst=True, with_scheduler=schedule, logging_level="CRITICAL")


def ours(client: Client) -> RqQueue[Client]:
    return RqQueue(client, "rq:mail")


def keys(client: Client, but: str = "worker") -> Keys:
    """RQ's keys, byte for byte, and when they expire."""
    found: Keys = {}
    for key in client.scan_iter("rq:*"):
        if not key.startswith((b"rq:redisq:", b"rq:" + but.encode())):
            found[key] = (content(client, key), client.pexpiretime(key))
    return found


def content(client: Client, key: bytes) -> object:
    """Byte for byte; hashes and sets have no order."""
    type_ = client.type(key)
    if type_ == b"hash":
        return client.hgetall(key)
    return client.smembers(key) if type_ == b"set" else client.dump(key)


def entries(queue: RqQueue[Client], state: State) -> list[Entry]:
    return list(queue.page(state).entries)


# --- what is seen -------------------------------------------------------------------


def test_every_state_is_seen(client: Client, queue: rq.Queue, redisq: Redisq) -> None:
    queue.enqueue(rq_tasks.fine, 1, job_id="one")
    queue.enqueue(rq_tasks.fails, "luck", job_id="bad", retry=rq.Retry(max=1))
    work(client)
    queue.enqueue(rq_tasks.fine, 2, job_id="two")
    queue.enqueue_in(timedelta(hours=1), rq_tasks.fine, 3, job_id="later")
    queue.enqueue(rq_tasks.fine, 4, job_id="after", depends_on="two")
    mail = ours(client)
    counts = mail.counts()
    assert (counts.waiting, counts.delayed, counts.dead, counts.done) == (1, 2, 1, 1)
    (waiting,) = entries(mail, "waiting")
    assert waiting.id == "two" and counts.oldest_ms == waiting.since_ms is not None
    delayed = {e.id: e for e in entries(mail, "delayed")}
    assert {id: e.called for id, e in delayed.items()} == {
        "later": "scheduled",
        "after": "deferred",
    }
    score: Any = client.zscore("rq:scheduled:mail", "later")
    assert delayed["later"].at_ms == score * 1000 and delayed["after"].at_ms is None
    (dead,) = entries(mail, "dead")
    assert dead.id == "bad" and dead.error and dead.reason == "failed" and dead.failures == 1
    assert (dead.error.type, dead.error.message) == ("ValueError", "no luck")
    assert "in fails" in dead.error.traceback
    shown = json.loads(dead.payload or b"")
    assert (dead.task, shown["args"], shown["kwargs"]) == (f"{TASKS}.fails", ["luck"], {})
    assert shown["description"] == f"{TASKS}.fails('luck')"
    assert shown["data_bytes"] == client.hstrlen("rq:job:bad", "data")
    assert [e.id for e in entries(mail, "done")] == ["one"]
    for id in ("one", "bad", "two", "later", "after"):
        found = mail.get(id)
        assert found and found.id == id
    assert mail.get("nothing") is None
    rows = redisq.rows("select", "rq:mail", "--by", "task")
    assert [(row["value"], row["by_state"]) for row in rows] == [
        (f"{TASKS}.fine", {"waiting": 1, "delayed": 2}),
        (f"{TASKS}.fails", {"dead": 1}),
    ]


def test_a_job_in_work_is_seen_with_its_worker(client: Client, queue: rq.Queue, url: str) -> None:
    job = queue.enqueue(rq_tasks.lasts, job_id="long")
    command = [sys.executable, "-m", "rq.cli", "worker", "--url", url, "--name", "w1", "mail"]
    worker = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        mail = ours(client)
        eventually(lambda: client.zcard("rq:wip:mail") and job.get_status() == "started")
        (running,) = entries(mail, "pending")
        assert (running.id, running.called, running.consumer) == ("long", "started", "w1")
        assert running.at_ms and running.since_ms and running.at_ms > running.since_ms
        assert mail.get("long") == running
        (process,) = mail.worker_processes()
        assert (process.name, process.alive, process.queues) == ("w1", True, ("mail",))
        assert [work.id for work in process.work] == ["long"] and process.pid == worker.pid
    finally:
        # The machine is gone, and with it the horse, which RQ gives a process group of its own.
        horses = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
        for pid in (worker.pid, *map(int, horses)):
            os.kill(pid, signal.SIGKILL)
        worker.wait()
    client.delete("rq:worker:w1")  # as it expires
    (gone,) = mail.worker_processes()
    assert not gone.alive
    ((_, score),) = list[Any](client.zrange("rq:wip:mail", 0, -1, withscores=True))
    rq.registry.StartedJobRegistry("mail", connection=client).cleanup(score + 1)
    (lost,) = entries(mail, "dead")
    assert (lost.reason, lost.lost, lost.failures) == ("lost", 1, 0)


def test_started_jobs_of_rq_1_have_bare_ids(client: Client, queue: rq.Queue) -> None:
    """RQ 2 and 3 put the execution behind the id. Ids can have colons before RQ 3."""
    execution = "d99c9458621a463f87498200785263cd"
    bare = ["order:42", f"order:{execution}"]
    queue.enqueue(rq_tasks.fine, 1, job_id="order")
    for id in ("late:9", *bare):
        client.copy("rq:job:order", f"rq:job:{id}")
    client.delete("rq:queue:mail")
    client.zadd("rq:wip:mail", {f"late:9:{execution}": 9e9} | dict.fromkeys(bare, 9e9))
    client.zadd("rq:executions:late:9", {execution: 9e9})
    mail = ours(client)
    assert {each.id for each in entries(mail, "pending")} == {"late:9", *bare}
    for id in ("late:9", *bare):
        found = mail.get(id)
        assert found and (found.id, found.state, found.problem) == (id, "pending", None)
    with pytest.raises(WrongKind, match="job order of queue rq:mail is there, and in no list"):
        mail.get("order")
    client.sadd("rq:workers", "rq:worker:w1")
    client.hset("rq:worker:w1", mapping={"version": "1.10.1", "current_job": "order:42"})
    assert [job.id for job in mail.worker_processes()[0].work] == ["order:42"]


@pytest.mark.parametrize(
    ("release", "shown"),
    [
        ("1.10.1", False),
        ("3.4.0", False),
        ("1.9.0", True),
        ("4.0.0", True),
        ("fork", False),
    ],
)
def test_queues_of_workers_of_another_release_are_only_shown(
    client: Client, queue: rq.Queue, redisq: Redisq, release: str, shown: bool
) -> None:
    queue.enqueue(rq_tasks.fails, "luck", job_id="bad")
    work(client)
    client.sadd("rq:workers", "rq:worker:w1", "rq:worker:expired")
    client.hset("rq:worker:w1", "version", release)
    redisq("dlq", "replay", "rq:mail", "--yes", code=int(shown))
    assert (f"of RQ {release}, and redisq changes queues of RQ 1.10 to 3" in redisq.err) is shown
    assert len(entries(ours(client), "dead")) == int(shown)


def test_a_horse_that_is_killed_is_lost(client: Client, queue: rq.Queue) -> None:
    queue.enqueue(rq_tasks.vanishes, job_id="horse")
    work(client)
    (dead,) = entries(ours(client), "dead")
    assert (dead.reason, dead.lost, dead.failures) == ("lost", 1, 0)
    assert dead.error and dead.error.type == "AbandonedJobError"


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_nothing_is_unpickled(
    client: Client, queue: rq.Queue, redisq: Redisq, tmp_path: Path
) -> None:
    queue.enqueue(rq_tasks.fails, "luck", job_id="bad")
    work(client)
    folder = tmp_path / "unpickled"
    trap = pickle.dumps(Trap(folder))
    client.hset("rq:job:bad", mapping={"data": zlib.compress(trap), "meta": trap, "result": trap})
    client.xadd("rq:results:bad", {"type": 2, "return_value": trap, "exc_string": trap})
    for words in (
        ["ls"],
        ["inspect", "rq:mail/bad"],
        ["dlq", "groups", "rq:mail"],
        ["explain", "rq:mail/bad"],
        ["replay", "rq:mail", "--yes"],
    ):
        redisq(*words)
    assert not folder.exists()
    pickle.loads(trap)
    assert folder.exists(), "the trap works"


@pytest.mark.parametrize(
    ("description", "call"),
    [
        (
            "shop.pay(4, 'ü', at=datetime.date(2026, 1, 2), to={'id': (1, None)})",
            ("shop.pay", [4, "ü"], {"at": "datetime.date(2026, 1, 2)", "to": {"id": [1, None]}}),
        ),
        (f"shop.pay('{'x' * 75}..., 1)", ("shop.pay", None, None)),  # as RQ cuts it
        ("pay(*[1])", ("pay", ["*[1]"], {})),
        ("pay(**{'a': 1})", ("pay", None, None)),
        ("pay(b'x', {1}, 1e999, '\\d')", ("pay", ["b'x'", "{1}", "inf", "\\d"], {})),
        ("pay(" + "1+" * 3000 + "1)", ("pay",)),
        ("pay(" + "-" * 7000 + "1)", ("pay",)),
        ("pay(" * 1500 + ")" * 1500, ("pay",)),
        ("pay(" + "9" * 7000 + ")", ("pay",)),
        ("Send the report (weekly)", ()),
        ("", ()),
    ],
)
def test_a_call_is_read_out_of_a_description(description: str, call: tuple[Any, ...]) -> None:
    found = tuple(call_of(description).values())
    assert found[: len(call)] == call and bool(found) is bool(call)


@pytest.mark.parametrize("description", ["cleanup(daily)", "Nightly"])
def test_a_change_finds_the_same_tasks_as_select(
    client: Client, redisq: Redisq, description: str
) -> None:
    """The function is in the job's JSON, whatever its description says."""
    theirs = rq.Queue("mail", connection=client, serializer=JSONSerializer)
    theirs.enqueue("shop.charge", 1, job_id="one", description=description)
    for where, found in (
        ("task=cleanup", 0),
        ("task=shop.charge", 1),
        ("-task=shop.charge", 0),
        ("task=shop.charge has:payload", 1),
    ):
        assert len(redisq.rows("select", "rq:mail", "--where", where)) == found, where
        (plan,) = redisq.rows("waiting", "purge", "rq:mail", "--where", where, "--dry-run")
        assert plan["matched"] == found, where
    (glanced,) = ours(client).page("waiting", glance=True).entries
    assert glanced.task == "shop.charge"


@pytest.mark.parametrize(
    "filling", [random.Random(1).randbytes(100_000).hex(), "x" * 300_000], ids=["long", "packed"]
)
def test_a_change_does_not_take_what_it_excludes_and_cannot_read(
    client: Client, redisq: Redisq, filling: str
) -> None:
    theirs = rq.Queue("mail", connection=client, serializer=JSONSerializer)
    for id, more in (("eu", filling), ("us", "")):
        theirs.enqueue("shop.charge", more, region=id, job_id=id, description="Nightly")
    where = ("rq:mail", "--where", "-arg.region=eu")
    (plan,) = redisq.rows("waiting", "purge", *where, "--dry-run")
    assert plan["matched"] == 1 and plan["sample"] == ["us"]
    assert "eu" in redisq("waiting", "purge", *where, "--yes", code=3) + redisq.err
    assert client.lrange("rq:queue:mail", 0, -1) == [b"eu"]
    (entry,) = entries(ours(client), "waiting")
    assert entry.partly is not None and entry.partly.startswith("data: ")
    redisq("waiting", "purge", "rq:mail/eu", "--yes")


def test_a_suspended_deployment_is_paused(client: Client, queue: rq.Queue) -> None:
    queue.enqueue(rq_tasks.fine, 1)
    rq.suspension.suspend(client)
    assert ours(client).counts().paused == "suspended in RQ"


def test_a_deployment_is_looked_at_as_a_whole(client: Client, queue: rq.Queue) -> None:
    queue.enqueue(rq_tasks.fine, 1, job_id="one")
    rq.Queue("news", connection=client).enqueue(rq_tasks.fine, 2, job_id="two")
    whole = RqQueue(client, "rq")
    assert whole.names() == ["mail", "news"] and whole.counts().waiting == 2
    assert [e.id for e in entries(whole, "waiting")] == ["one", "two"]
    for name in ("mail", "news"):
        later = rq.Queue(name, connection=client)
        later.enqueue_in(timedelta(seconds=700), rq_tasks.fine, 1)
    now = int(time.time() * 1000)
    assert whole.due_counts([now, now + 600_000, now + 1_200_000]) == [0, 2]


# --- what operators change ----------------------------------------------------------


def test_a_job_with_a_time_to_live_gets_it_anew(client: Client, queue: rq.Queue) -> None:
    queue.enqueue(rq_tasks.fails, "luck", job_id="bad", ttl=500)
    work(client)
    changed(ours(client), "replay", "dead", "bad")
    assert 0 < client.ttl("rq:job:bad") <= 500


def test_a_result_that_expired_is_no_fault(client: Client, queue: rq.Queue, redisq: Redisq) -> None:
    for name in ("old", "deleted"):
        queue.enqueue(rq_tasks.fine, 1, job_id=name)
    work(client)
    client.delete("rq:job:old", "rq:job:deleted")
    client.zadd("rq:finished:mail", {"old": time.time() - 1})  # RQ lets both end together
    said = redisq("fsck", "rq:mail", code=1)
    assert "1 done entry is only an id (deleted)" in said
    client.zrem("rq:finished:mail", "deleted")
    redisq("fsck", "rq:mail")


def prepared(client: Client, queue: rq.Queue) -> None:
    """Some of each, with what hangs on jobs."""
    for n in range(3):
        queue.enqueue(rq_tasks.fails, "luck", job_id=f"bad{n}", failure_ttl=1000 + n)
    work(client)
    for n in range(4):
        queue.enqueue(rq_tasks.fine, n, job_id=f"w{n}", ttl=900)
        queue.enqueue_in(timedelta(hours=1 + n), rq_tasks.fine, n, job_id=f"s{n}")
    queue.enqueue(rq_tasks.fine, 9, job_id="after", depends_on=["w1", "bad1"])


def test_what_is_due_is_the_schedulers(client: Client, queue: rq.Queue) -> None:
    queue.enqueue_in(timedelta(seconds=30), rq_tasks.fine, 1, job_id="soon")
    queue.enqueue_in(timedelta(hours=1), rq_tasks.fine, 1, job_id="later")
    for verb in ("requeue", "purge", "hard"):
        assert changed(ours(client), verb, "delayed", "soon").outcome.skipped == {"due": 1}
    assert changed(ours(client), "requeue", "delayed", "later").outcome.done == 1
    assert client.lrange("rq:queue:mail", 0, -1) == [b"later"]
    work(client, schedule=True)
    assert [e.id for e in entries(ours(client), "done")] == ["later"]


def test_a_requeued_job_is_run_once_by_the_scheduler(client: Client, queue: rq.Queue) -> None:
    queue.enqueue_in(timedelta(hours=1), rq_tasks.fine, 1, job_id="later")
    at = int(time.time() * 1000) - 1000
    assert changed(ours(client), "reschedule", "delayed", "later", at_ms=at).outcome.done == 1
    work(client, schedule=True)
    assert [e.id for e in entries(ours(client), "done")] == ["later"]
    assert not client.exists("rq:queue:mail", "rq:scheduled:mail")


def test_a_deferred_job_names_the_dead_one_that_it_waits_for(
    redisq: Redisq, client: Client, queue: rq.Queue
) -> None:
    other = rq.Queue("other", connection=client)
    queue.enqueue(rq_tasks.fails, "first", job_id="bad")
    queue.enqueue(rq_tasks.fine, 2, job_id="good")
    other.enqueue(rq_tasks.fine, 1, job_id="after", depends_on=["bad", "good"])
    queue.enqueue(rq_tasks.fine, 1, job_id="last", depends_on="after")
    work(client)
    redisq("discover", "--register", "--yes")
    (row,) = redisq.rows("inspect", "rq:other/after")
    assert [(m["depth"], m["role"], m["address"], m["state"], m["holds"]) for m in row["flow"]] == [
        (-1, "dependent", "rq:mail/last", "delayed", False),
        (0, None, "rq:other/after", "delayed", False),
        (1, "dependency", "rq:mail/bad", "dead", True),
        (1, "dependency", "rq:mail/good", "done", False),
    ]
    assert row["flow"][1]["counts"] == {"dead": 1, "done": 1}
    (row,) = redisq.rows("explain", "rq:other/after")
    assert row["sentence"].endswith("waits for its dead dependency rq:mail/bad")
    assert row["command"].startswith("redisq replay rq:mail/bad")


def test_deferred_and_rate_limited_jobs_are_rqs(client: Client, queue: rq.Queue) -> None:
    queue.enqueue(rq_tasks.fine, 1, job_id="first")
    queue.enqueue(rq_tasks.fine, 1, job_id="after", depends_on="first")
    assert changed(ours(client), "requeue", "delayed", "after").outcome.skipped == {"deferred": 1}
    queue.enqueue(rq_tasks.fails, "x", job_id="limited", rate_limit=RateLimit("k", 1))
    client.ltrim("rq:queue:mail", 1, -1)
    work(client)
    before = keys(client)
    assert changed(ours(client), "replay", "dead", "limited").outcome.skipped == {"limited": 1}
    assert keys(client) == before


def test_two_jobs_of_one_name_in_another_deployment(client: Client) -> None:
    """Whose keys begin otherwise (``RQ_KEY_PREFIX``)."""
    environ = os.environ | {"RQ_KEY_PREFIX": "app:rq"}
    host, port = (client.connection_pool.connection_kwargs[key] for key in ("host", "port"))
    code = (
        f"import redis, rq; q = rq.Queue('mail', connection=redis.Redis('{host}', {port}));"
        f"q.enqueue('{TASKS}.fine', 1, job_id='one')"
    )
    subprocess.run([sys.executable, "-c", code], env=environ, check=True, cwd=ROOT)
    other = RqQueue(client, "rq:mail", at="app:rq:")
    assert [e.id for e in entries(other, "waiting")] == ["one"] and other.exists()
    assert not ours(client).exists()


def test_what_is_replayed_beside_a_live_worker_runs_once_more(
    client: Client, queue: rq.Queue, url: str
) -> None:
    """Replayed by two operators at once, while a worker and its scheduler are at it."""
    port = client.connection_pool.connection_kwargs["port"]
    ids = [f"j{n}" for n in range(30)]
    for n, id in enumerate(ids):
        if n % 2:
            queue.enqueue(rq_tasks.counts, port, id, job_id=id)
        else:
            queue.enqueue_in(timedelta(seconds=120), rq_tasks.counts, port, id, job_id=id)
            client.hincrby("ran", id)
    work(client)
    script = (
        "import rq, redis; c = redis.Redis.from_url({!r}); rq.SimpleWorker(['mail'], connection=c)"
    )
    command = [sys.executable, "-c", script.format(url) + ".work(with_scheduler=True)"]
    worker = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: client.scard("rq:workers"))
        with ThreadPoolExecutor() as pool:
            wanted: list[tuple[Verb, State]] = [("replay", "dead"), ("requeue", "delayed")] * 2
            changes = [pool.submit(changed, ours(client), verb, state) for verb, state in wanted]
            moved = sum(change.result().outcome.done for change in changes)
        eventually(lambda: client.zcard("rq:finished:mail") == len(ids))
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert moved == len(ids)
    assert set(client.hvals("ran")) == {b"2"} and not client.exists("rq:queue:mail")


# --- every face -----------------------------------------------------------------------


def test_a_job_that_a_worker_is_just_taking_is_not_settled(client: Client, queue: rq.Queue) -> None:
    """A worker of several queues pops a job, and later makes it a started one."""
    job = queue.enqueue(rq_tasks.fine, "a")
    fates = ours(client).replay_tracker()
    fates.add([job.id, "gone"], 0)
    client.lpop(queue.key)
    assert run(client, fates.look()) == [False] and fates.unsettled == 1
    with pytest.raises(WrongKind, match="a worker is just taking it"):
        ours(client).get(job.id)


def test_what_was_next_is_next_again(client: Client, queue: rq.Queue) -> None:
    for n in range(4):
        queue.enqueue(rq_tasks.fine, n, job_id=f"w{n}")
    purge = changed(ours(client), "purge", "waiting", "w1")
    client.lpop("rq:queue:mail")
    undone(client, purge)
    assert client.lrange("rq:queue:mail", 0, -1) == [b"w1", b"w2", b"w3"]


def test_a_retry_is_delayed_since_its_failure(client: Client, queue: rq.Queue) -> None:
    """RQ keeps the time of the failure, beside that when the job was made."""
    queue.enqueue(rq_tasks.fails, 1, job_id="a", retry=rq.Retry(max=1, interval=9000))
    queue.enqueue_in(timedelta(seconds=9000), rq_tasks.fine, 1, job_id="b")
    time.sleep(0.05)
    before_ms = ours(client).now()
    work(client)
    since = {entry.id: entry.since_ms for entry in ours(client).page("delayed").entries}
    assert since["a"] and since["b"] and since["b"] < before_ms <= since["a"]


@pytest.mark.parametrize("state", ["done", "dead", "delayed"])
def test_what_was_enqueued_again_is_left_alone_where_it_was_before(
    client: Client, queue: rq.Queue, state: State
) -> None:
    """RQ enqueues an id again without a look at its registries: the job waits, and is in both."""
    if state == "delayed":
        queue.enqueue_in(timedelta(seconds=9000), rq_tasks.fine, 1, job_id="a")
    else:
        queue.enqueue(rq_tasks.fine if state == "done" else rq_tasks.fails, 1, job_id="a")
        work(client)
    queue.enqueue(rq_tasks.fine, 1, job_id="a")
    before = keys(client)
    for verb in ("purge", "hard", *(("replay",) if state != "delayed" else ("requeue",))):
        outcome = changed(ours(client), verb, state, "a").outcome
        assert (outcome.done, outcome.skipped) == (0, {"again": 1})
    assert keys(client) == before
    client.hset("rq:job:a", "status", "started")
    assert changed(ours(client), "purge", "waiting", "a").outcome.skipped == {"again": 1}


def test_jobs_in_the_middle_of_a_long_list(client: Client, queue: rq.Queue) -> None:
    """What lies too deep is left alone; what is near an end comes back to its place."""
    queue.enqueue(rq_tasks.fine, 1, job_id="first")
    for id in ("front", "middle", "back"):
        queue.create_job(rq_tasks.fine, (id,), job_id=id, status=JobStatus.QUEUED).save()
    ids = [f"n{n}" for n in range(30_000)]
    ids[100:100], ids[15_000:15_000], ids[-100:-100] = ["front"], ["middle"], ["back"]
    client.rpush("rq:queue:mail", *ids)
    client.hset("rq:job:front", "origin", "mail")
    before = keys(client)
    purge = changed(ours(client), "purge", "waiting", "front", "middle", "back")
    assert purge.outcome.done == 2
    word = ours(client).move(
        "op", 1, ["middle"], source="waiting", target="trash", high_water_ms=2**52
    )
    assert word == ["deep"]
    assert client.llen("rq:queue:mail") == 30_002
    assert undone(client, purge).outcome.done == 2
    left = client.lrange("rq:queue:mail", 0, -1)
    assert left.index(b"front") == 101 and left.index(b"back") == len(left) - 101
    assert client.hgetall("rq:job:front") == before[b"rq:job:front"][0]
