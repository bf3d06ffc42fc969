"""Imports that were undone or killed: the undo knows all of them, and they can be made again."""

import os
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.registry import ensure_registered
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.submission import CHUNK
from redisq_ops.core.redis import operation as core_io
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.files.import_check import FileContents
from redisq_ops.ops.files.import_steps import ImportSteps
from redisq_ops.ops.inspect.cancelled_trash import cancelled_trash

from ...command_line import Redisq
from ...queue_steps import Killed, run_until
from ..change.killed_moves import Deadly, by_itself
from .test_import import entry, head, write

ME = Author("ada", "laptop")
KINDS = ("delay", "fair", "circular", "carmine", "request")
N = 6


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "in.ndjson")


class Receiver:
    """A queue of a kind, and a file of entries for it."""

    def __init__(self, client: redis.Redis, file: str, kind: str, shards: int) -> None:
        self.client, self.file = client, file
        self.name = "carmine:q" if kind == "carmine" else "q"
        rows = [entry(f"e{n}", client="acme") for n in range(N)]
        if kind == "request":
            rows = [entry(f"r{n % 2}/{n // 2 + 1}", total=N // 2) for n in range(N)]
        write(file, head(self.name, kind), *rows)
        self.shards, self.kind = shards, kind
        self.fresh()

    def fresh(self) -> None:
        self.client.flushall()
        run(self.client, ensure_registered(self.name, self.kind, 1, shards=self.shards))
        self.queue: Any = run(self.client, Deployment(self.client).queue(self.name))

    def change(self) -> ChangeRun[ImportSteps]:
        lines = open(self.file, "rb")  # noqa: SIM115 (of a process that may be killed)
        content = FileContents.of(lines, self.file).contents[self.name]
        return ChangeRun(ImportSteps(lines, content, self.queue), ME)

    def waiting(self) -> int:
        counts = self.queue.counts()
        assert self.queue.invariants() == []
        return int(counts.waiting)


@pytest.fixture(params=[(kind, shards) for kind in KINDS for shards in (1, 2)], ids=str)
def receiver(client: redis.Redis, file: str, request: pytest.FixtureRequest) -> Receiver:
    return Receiver(client, file, *request.param)


def test_what_was_undone_is_imported_again(redisq: Redisq, receiver: Receiver) -> None:
    for _ in range(2):
        (outcome,) = redisq.rows("import", receiver.file, "--yes")
        assert (outcome["done"], outcome["skipped"]) == (N, {})
        assert receiver.waiting() == N
        redisq("undo", outcome["op"], "--yes")
        assert receiver.waiting() == 0
    (outcome,) = redisq.rows("import", receiver.file, "--as-waiting", "--yes")
    assert (outcome["done"], receiver.waiting()) == (N, N)
    (outcome,) = redisq.rows("import", receiver.file, "--yes")
    assert (outcome["done"], outcome["skipped"]) == (0, {"same": N})


def test_the_trash_is_restored_or_emptied_after_an_undo(redisq: Redisq, receiver: Receiver) -> None:
    (outcome,) = redisq.rows("import", receiver.file, "--yes")
    redisq("undo", outcome["op"], "--yes")
    if receiver.kind != "request":  # cancelled ones are restored by an undo
        redisq("trash", "restore", receiver.name, "--yes")
        assert receiver.waiting() == N
        (outcome,) = redisq.rows("import", receiver.file, "--yes")
        assert outcome["skipped"] == {"same": N}
        redisq("purge", receiver.name, "--state", "waiting", "--yes")
    redisq("trash", "rm", receiver.name, "--yes")
    (outcome,) = redisq.rows("import", receiver.file, "--yes")
    assert (outcome["done"], receiver.waiting()) == (N, N)


def test_with_another_payload_what_is_in_the_trash_stays(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    write(file, head("q", "delay"), entry("e1", "first"))
    redisq("import", file, "--yes")
    redisq("purge", "q", "--state", "waiting", "--yes")
    write(file, head("q", "delay"), entry("e1", "second"))
    told, outcome = redisq.rows("import", file, "--yes", code=1)
    assert told["problem"] == "its id is here (trash), with another payload"
    assert (outcome["done"], outcome["skipped"]) == (0, {"exists": 1})


def test_purged_sub_requests_are_not_the_same(redisq: Redisq, file: str) -> None:
    write(file, head("q", "request"), entry("r/1", "a", 2), entry("r/2", "b", 2))
    redisq("import", file, "--yes")
    redisq("purge", "q/r/2", "--yes")
    told, outcome = redisq.rows("import", file, "--yes", code=3)
    assert (told["id"], told["problem"]) == (
        "r/2",
        "its request is here, and it was purged or moved",
    )
    assert (outcome["done"], outcome["skipped"]) == (0, {"same": 1, "exists": 1})


def test_an_undo_knows_all_that_a_killed_import_put_in(redisq: Redisq, receiver: Receiver) -> None:
    for nth in count():
        receiver.fresh()
        change = receiver.change()
        try:
            while run_until(receiver.client, change.step(), nth, heard=True):
                pass
        except Killed:
            came = receiver.waiting()
        else:
            break
        if came:
            redisq("undo", change.op, "--yes")
        assert receiver.waiting() == 0, f"killed at {nth}: {came} came"
        (outcome,) = redisq.rows("import", receiver.file, "--yes")
        assert (outcome["done"], receiver.waiting()) == (N, N), f"killed at {nth}"
    assert nth > 3


@pytest.mark.slow
def test_an_import_in_a_process_that_is_killed(redisq: Redisq, receiver: Receiver) -> None:
    for nth in range(1, 20, 3):
        receiver.fresh()
        change = receiver.change()
        child = os.fork()
        if not child:
            vars(core_io)["exchange"] = Deadly(nth, True, by_itself)
            with suppress(BaseException), redis.Redis.from_url(redisq.url, protocol=3) as client:
                while run(client, change.step()):
                    pass
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            break
        if receiver.waiting():
            redisq("undo", change.op, "--yes")
        assert receiver.waiting() == 0
    assert nth > 3


@pytest.mark.parametrize("end", ["full", "closed"])
@pytest.mark.parametrize("shards", [1, 2])
def test_an_undo_knows_a_batch_that_was_put_in_in_part(
    client: redis.Redis, redisq: Redisq, file: str, shards: int, end: str
) -> None:
    """A batch of large payloads, or for several shards, is several calls."""
    receiver = Receiver(client, file, "delay", shards)
    rows = [entry(f"e{n}", f"{n}" * 100_000) for n in (0, 1, 2, 3, 1, 2)]
    write(file, head("q", "delay"), *rows)
    cut = set[int]()
    for nth in range(4 if end == "full" else 30):
        receiver.fresh()
        change = receiver.change()
        if end == "full":
            receiver.queue.configure("op", 1, {"max_waiting": str(nth % 4 + 1)})
        else:
            with suppress(Killed):
                run_until(client, change.step(), nth, heard=True)
                break
            run(client, control.drain(receiver.queue, ME))
        while run(client, change.step()):
            pass
        came, outcome = receiver.waiting(), change.outcome
        cut.add(came)
        assert (outcome.done, outcome.handled) == (came, len(rows)), outcome
        assert outcome.skipped.keys() <= {end, "same"}, outcome
        if came:
            redisq("undo", change.op, "--yes")
        assert receiver.waiting() == 0, f"{came} came"
    assert cut & {1, 2, 3}


def test_of_a_request_too_large_for_its_queue_what_came_is_counted(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    """Its chunks are sent by twos, of which one may be in."""
    queue = RequestQueue(client, "q")
    run(client, ensure_registered("q", "request", 1))
    queue.configure("op", 1, {"max_waiting": str(2 * CHUNK)})
    rows = 3 * CHUNK
    write(file, head("q", "request"), *(entry(f"r/{n}", total=rows) for n in range(1, rows + 1)))
    *_, outcome = redisq.rows("import", file, "--yes", code=3)
    assert queue.counts().waiting == outcome["done"] == 2 * CHUNK
    assert outcome["skipped"] == {"full": CHUNK}
    redisq("undo", outcome["op"], "--yes")
    assert queue.counts().waiting == 0


def test_what_was_there_before_a_killed_import_stays(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    """The audit log has what may have come, and the entries say whose they are."""
    receiver = Receiver(client, file, "delay", 1)
    change = receiver.change()
    for nth in count():  # before the batch is sent
        receiver.fresh()
        change = receiver.change()
        with suppress(Killed):
            run_until(client, change.step(), nth, heard=True)
        if client.hget(f"redisq:{{q}}:op:{change.op}", "inverse"):
            break
    receiver.queue.schedule([(f"e{n}", b"x") for n in range(N)])
    redisq("undo", change.op, "--yes")
    assert receiver.waiting() == N


def test_undone_and_moved_again(redisq: Redisq, receiver: Receiver) -> None:
    redisq("import", receiver.file, "--yes")
    other = f"{receiver.name}2"
    run(receiver.client, ensure_registered(other, receiver.kind, 1, shards=receiver.shards))
    for _ in range(2):
        move = ("move", receiver.name, "--to", other, "--state", "waiting", "--yes")
        (outcome,) = redisq.rows(*move)
        assert outcome["done"] == N
        (undone,) = redisq.rows("undo", outcome["op"], "--yes")
        assert undone["done"] == N and receiver.waiting() == N
    assert run(receiver.client, cancelled_trash(receiver.queue)) == ""
