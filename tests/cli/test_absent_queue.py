"""`work` on a queue that doesn't exist yet: it waits, and creates nothing."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

import redisq_ops
from redisq_ops.cli import main as cli
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.sharding.shard_map import home
from redisq_ops.core.worker import Worker, upkeep

from ..queue_steps import eventually

pytestmark = pytest.mark.alike

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def started(url: str, tmp_path: Path, on_path: None) -> Iterator[Start]:
    """Starts workers that keep what they got in a file; what still runs in the end is killed."""
    running: list[subprocess.Popen[bytes]] = []
    environment = {
        **os.environ,
        "REDIS_URL": url,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PYTHONPATH": str(Path(redisq_ops.__file__).parents[1]),
    }
    words = [
        "redisq",
        "work",
        "--exec",
        "sh -c 'cat >> got; echo >> got'",
    ]

    def start(*more: str) -> subprocess.Popen[bytes]:
        running.append(
            subprocess.Popen([*words, *more], stderr=subprocess.PIPE, cwd=tmp_path, env=environment)
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


def said(process: subprocess.Popen[bytes]) -> str:
    """The next line of its log, without the time."""
    assert process.stderr is not None
    return process.stderr.readline().decode().partition("redisq_ops.worker: ")[2]


def stopped(process: subprocess.Popen[bytes]) -> str:
    """What else it said, but for what it did."""
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 0, err
    return "".join(line for line in err.decode().splitlines(True) if " INFO " not in line)


def submitted(client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"hello"], id="r1")


def scheduled(client: redis.Redis) -> None:
    DelaySet(client, "mail").schedule([("e1", b"hello")], after=0)


def spread(client: redis.Redis) -> None:
    # In the shard whose wake list is also that of a queue without shards: heard at once.
    id = next(id for n in range(99) if home(id := f"r{n}", 3) == 0)
    ShardedRequestQueue(client, "mail", shards=3).submit([b"hello"], id=id)


@pytest.mark.parametrize("processes", ["1", pytest.param("2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("begin", [submitted, scheduled, spread])
def test_a_worker_may_be_started_before_the_first_submit(
    client: redis.Redis,
    started: Start,
    tmp_path: Path,
    processes: str,
    begin: Callable[[redis.Redis], None],
) -> None:
    worker = started("--queue", "mail", "--processes", processes)
    assert said(worker) == "queue mail does not exist yet: waiting for its first submit\n"
    eventually(lambda: client.info("clients")["blocked_clients"] == int(processes))  # idle
    assert client.dbsize() == 0
    begin(client)
    eventually(lambda: (tmp_path / "got").exists())
    eventually(lambda: (tmp_path / "got").read_bytes() == b"hello\n")
    assert stopped(worker) == ""
    assert cli.run(["--url", client_url(client), "fsck", "mail"]) == 0


def client_url(client: redis.Redis) -> str:
    where = client.connection_pool.connection_kwargs
    return f"redis://{where['host']}:{where['port']}"


@pytest.mark.slow
def test_others_are_worked_on_meanwhile_and_names_alike_are_named(
    client: redis.Redis, started: Start, tmp_path: Path
) -> None:
    RequestQueue(client, "mail").submit([b"there"], id="r1")
    worker = started("--queue", "mial", "--queue", "mail")
    line = "queue mial does not exist yet: waiting for its first submit (there is mail)\n"
    assert said(worker) == line
    eventually(lambda: (tmp_path / "got").exists())
    DelaySet(client, "mial").schedule([("e1", b"late")], after=0)
    eventually(lambda: (tmp_path / "got").read_bytes() == b"there\nlate\n")
    assert stopped(worker) == ""


@pytest.mark.slow
def test_once_ends_where_there_is_nothing(client: redis.Redis, started: Start) -> None:
    worker = started("--queue", "mail", "--burst")
    assert said(worker) == "queue mail does not exist yet: nothing to do\n"
    _, err = worker.communicate()
    assert (worker.returncode, client.dbsize()) == (0, 0)
    assert err.endswith(b"stopped, no entry is left to take: nothing was done\n")


def test_a_worker_fails_where_its_queue_must_exist(
    client: redis.Redis, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    words = ["--url", url, "work", "--exec", "true", "--must-exist", "--burst", "--queue", "mail"]
    assert cli.run(words) == 0
    capfd.readouterr()
    assert cli.run([*words, "--queue", "mial"]) == 1
    assert capfd.readouterr().err == "redisq: queue mial does not exist (there is mail)\n"


@pytest.mark.slow
def test_a_key_that_is_in_the_way_ends_the_worker(client: redis.Redis, started: Start) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    client.delete("redisq:{mail}:stat")
    client.set("redisq:{mail}:stat", "somebody else's")
    worker = started("--queue", "mail", "--queue", "not-yet")
    _, err = worker.communicate()
    assert worker.returncode == 1
    assert b"key redisq:{mail}:stat is a string" in err


def test_neither_do_its_looks_nor_its_upkeep_create_a_queue(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "UPKEEP_S", 0.02)
    worker = Worker(RequestQueue(client, "mail"), lambda delivery: None)
    thread = threading.Thread(target=worker.run)
    client.config_resetstat()
    thread.start()
    try:
        eventually(lambda: calls(client, "time") > 5)  # an upkeep begins with the time
        assert calls(client, "hget") > 1
        assert client.dbsize() == 0
    finally:
        worker.stop()
        thread.join()


def calls(client: redis.Redis, command: str) -> int:
    return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])
