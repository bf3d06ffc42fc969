"""`--canary` and `--ramp` as an operator meets them."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work

from ..command_line import Redisq
from ..model.wire import picture

pytestmark = [pytest.mark.alike, pytest.mark.slow, pytest.mark.usefixtures("on_path")]

PATIENT = ("--max-latency", "60s")
"""how quickly a busy machine answers is no part of these tests"""


def dead(client: redis.Redis, n: int) -> RequestQueue[redis.Redis]:
    queue = RequestQueue(client, "mail")
    queue.configure("op", 1, {"max_failures": "0"})
    queue.submit([b"x"] * n, id="r1", limit=1000)
    error = Failure("E", "x").encoded()
    while taken := queue.take(500, consumer="w1").deliveries:
        queue.settle([Settlement(delivery, "reject", error) for delivery in taken])
    return queue


@contextmanager
def worker(url: str, handle: Callable[[Work], Any]) -> Iterator[None]:
    running = Worker(RequestQueue(connect(url, "test"), "mail"), handle, concurrency=4)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield
    finally:
        running.stop()
        thread.join()


def fine(work: Work) -> None:
    """Handles anything."""


def fails(work: Work) -> None:
    raise RuntimeError("still broken")


@pytest.mark.slow
def test_canary_then_ramp(redisq: Redisq, client: redis.Redis, url: str) -> None:
    queue = dead(client, 12)
    with worker(url, fine):
        out = redisq("dlq", "replay", "mail", "--canary", "5", "--rate", "100/s", "--yes", *PATIENT)
    assert out.startswith("replayed dead entries of mail: 12 of 12 (op replay-")
    phases = re.findall(r"^(canary|watching|ramp at \d+/s|settling|over) · ", redisq.err, re.M)
    assert phases[0] in ("canary", "watching") and "ramp at 10/s" in phases and phases[-1] == "over"
    assert "undo with: redisq undo replay-" in redisq.err
    assert (queue.counts().dead, queue.counts().done) == (0, 12)


def test_canary_that_dies_again(redisq: Redisq, client: redis.Redis, url: str) -> None:
    queue = dead(client, 40)
    where = "attempts<5 failures<5"  # has to be quoted for a shell
    words = ("replay", "mail", "--state", "dead", "--where", where, "--canary", "4", "--yes")
    with worker(url, fails):
        out = redisq(*words, code=3)
    assert "replayed dead entries of mail: 4 of 40" in out
    assert "stopped by itself: " in redisq.err and "replayed entries died again" in redisq.err
    again = shlex.join(["redisq", *words])
    assert f"36 left; continue with: {again}\n" in redisq.err
    assert "it covers all entries that are dead by then, also those that died again" in redisq.err
    assert queue.counts().dead == 40
    with worker(url, fails):
        (row,) = redisq.rows(*words, code=3)
    assert (row["matched"], row["done"], row["left"], row["phase"]) == (40, 4, 36, "stopped")
    assert row["died"] >= 1 and "again" in row["reason"]


def test_without_workers_all_is_replayed_and_none_is_well(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = dead(client, 7)
    words = ("dlq", "replay", "mail", "--ramp", "--watch", "1s", "--yes", *PATIENT)
    out = redisq(*words, code=3)
    assert out.startswith("replayed dead entries of mail: 7 of 7 (op replay-")
    why = "7 of 7 watched entries weren't settled within 1s"
    assert re.search(rf"^over · 7 of 7 · .*: {why}$", redisq.err, re.M)
    assert f"\n{why}\n" in redisq.err and "go on with" not in redisq.err
    assert queue.counts().waiting == 7
    redisq("undo", out.split("(op ")[1].split(")")[0], "--yes")
    (row,) = redisq.rows(*words, code=3)
    assert (row["done"], row["left"], row["phase"], row["reason"]) == (7, 0, "over", why)
    assert (row["judged"], row["unsettled"]) == (0, 7)


def test_of_several_queues_it_says_which_it_did_not_begin(
    redisq: Redisq, client: redis.Redis
) -> None:
    later = RequestQueue(client, "post")
    later.submit([b"x"], id="r2")
    later.settle([Settlement(later.take(1, consumer="w1").deliveries[0], "reject", b"{}")])
    dead(client, 1)
    words = ("mail/r1/1", "post/r2/1", "--ramp", "--watch", "1s", "--yes", *PATIENT)
    redisq("replay", *words, code=3)
    assert "\nnot begun: post\n" in redisq.err and later.counts().dead == 1


def test_dry_run_and_plan_change_nothing(
    redisq: Redisq, client: redis.Redis, tmp_path: Path
) -> None:
    queue = dead(client, 3)
    redisq("dlq", "replay", "mail", "--ramp", "--dry-run")
    said = redisq.refusal("dlq", "replay", "mail", "--ramp", "--plan", str(tmp_path / "p"), code=2)
    assert "redisq apply" in said and not (tmp_path / "p").exists()
    assert queue.counts().dead == 3


def carmine(client: redis.Redis) -> str:
    queue = CarmineQueue(client, "carmine:mail")
    queue.enqueue([("m1", b"x")])
    (taken,) = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(taken, "reject", Failure("E", "x").encoded())])
    return queue.name


def resque(client: redis.Redis) -> str:
    failure = {"payload": {"class": "Mail", "args": [1]}, "exception": "E", "error": "x"}
    client.sadd("resque:queues", "mail")
    client.rpush("resque:failed", json.dumps(failure | {"queue": "mail"}))
    ResqueQueue(client, "resque:mail").push([Job("Mail", [2])])  # it is registered
    return "resque:mail"


@pytest.mark.parametrize("dead_in", [carmine, resque])
def test_a_queue_that_hides_how_replayed_entries_end_refuses_a_canary_before_it_writes(
    redisq: Redisq, client: redis.Redis, tmp_path: Path, dead_in: Callable[[redis.Redis], str]
) -> None:
    name, plan = dead_in(client), str(tmp_path / "plan")
    redisq("dlq", "replay", name, "--plan", plan)
    before = picture(client)
    for words in (["replay", name], ["replay", name, "--dry-run"], ["apply", plan]):
        for how in (["--canary", "1"], ["--ramp"]):
            said = redisq.refusal(*words, *how, "--yes", code=1)
            assert said.startswith(f"queue {name} has no canary and no ramp: ")
            assert " is unknown; replay a few first (--max 20), then the rest" in said
    assert picture(client) == before
    redisq("apply", plan, "--yes")
    assert redisq.rows("dlq", "ls", name) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--max-reentry", "20%"), "--max-reentry is for a ramp"),
        (("--ramp", "--max-reentry", "120%"), "'120%' is not a share"),
        (("--ramp", "--max-latency", "fast"), "'fast' is not a latency"),
        (("--ramp", "--watch", "soon"), "'soon' is not a time span"),
        (("--canary", "0"), "a whole number from 1 to 1,000,000,000, not 0"),
    ],
)
def test_what_isn_t_understood_is_said(
    redisq: Redisq, client: redis.Redis, words: tuple[str, ...], said: str
) -> None:
    dead(client, 1)
    assert said in redisq.refusal("dlq", "replay", "mail", "--yes", *words, code=2)


def run(url: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["redisq", "--url", url, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def reached(queue: RequestQueue[Any], n: int) -> None:
    deadline = time.monotonic() + 90
    while queue.counts().dead > n:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_plan_s_ramp_is_interrupted_and_goes_on(
    redisq: Redisq, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    queue, path = dead(client, 60), str(tmp_path / "p.ndjson")
    redisq("dlq", "replay", "mail", "--plan", path)
    words = ("apply", path, "--ramp", "--yes", *PATIENT)
    with worker(url, fine):
        process = run(url, *words)
        reached(queue, 55)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
        assert process.returncode == 130, (out, err)
        done = 60 - queue.counts().dead
        assert 5 <= done < 60 and f": {done} of 60 (op replay-" in out
        again = shlex.join(["redisq", "--url", url, *words])  # without --ramp it would be blind
        assert f"{60 - done} left; continue with: {again}\n" in err
        (row,) = redisq.rows(*words)
    assert (row["done"], row["left"], row["phase"]) == (60, 0, "over")
    assert (queue.counts().dead, queue.counts().done) == (0, 60)
    assert json.loads(redisq("log", "--json").splitlines()[0])["done"] == 60
