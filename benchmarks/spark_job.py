"""A big file becomes requests, workers transform it, and one file is written, on a Spark cluster,
while a worker, executors and the driver are killed.

GENERATED lines of 50 bytes, `LINES` of them (default 1,000,000). The cluster is a standalone one on
this machine: a master and two workers of a core each, started as the docs print it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from redisq_ops import Work
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.server import EmbeddedServer, binaries

from .spark_cluster import QUICK_JAVA, SparkCluster

LINES = int(os.environ.get("LINES", "1000000"))
SPLIT, ROWS, BLOCK = 100, 100_000, 10_000
MEMORY = "1g"
"""of the driver and of each executor"""
ROLES = {
    "driver, JVM": b"deploy.SparkSubmit",
    "executor, JVM": b"CoarseGrainedExecutorBackend",
    "executor, Python": b"pyspark.daemon",
    "driver, Python": b"\0spark\0",
    "worker": b"\0work\0",
}
"""who is who: a piece of the command line, the first that fits"""


def transform(delivery: Work) -> bytes:
    """The work: the number of each line, and a fifth of its amount."""
    return b"\n".join(map(fifth, delivery.payload.splitlines()))


def fifth(line: bytes) -> bytes:
    number, amount, _ = line.split(b",")
    return b"%b,%d" % (number, int(amount) // 5)


def generate(path: Path) -> str:
    """Write the file; the digest of the result that is right."""
    expected = hashlib.sha256()
    with path.open("wb") as file:
        for low in range(0, LINES, BLOCK):
            some = range(low, min(low + BLOCK, LINES))
            lines = [b"%08d,%07d,%b" % (n, n * 7919 % 9_999_991, b"x" * 32) for n in some]
            file.write(b"\n".join(lines) + b"\n")
            expected.update(b"\n".join(map(fifth, lines)) + b"\n")
    return expected.hexdigest()


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            yield child
            yield from descendants(child)


def processes() -> Iterator[tuple[str, int]]:
    """Role and id of each process of the job."""
    for pid in descendants(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        role = next((role for role, part in ROLES.items() if part in command), None)
        if role is not None:
            yield role, pid


class Memory:
    """The highest resident memory that any process of a role had, in MiB."""

    def __init__(self, server_pid: int) -> None:
        self.peaks: dict[str, int] = {}
        self._server = "server", server_pid

    def look(self) -> None:
        for role, pid in (*processes(), self._server):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
                peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
            except (OSError, IndexError):
                continue
            self.peaks[role] = max(self.peaks.get(role, 0), peak)

    @contextmanager
    def watched(self) -> Iterator[None]:
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.25):
                self.look()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class Job:
    """The three commands of the job, and who is killed in the middle."""

    def __init__(self, folder: Path, client: redis.Redis, url: str, master: str) -> None:
        self.folder = folder
        self.client = client
        self.entries = -(-LINES // SPLIT)
        self.started: list[subprocess.Popen[bytes]] = []
        self._url = url
        settings = (
            f"spark.driver.memory={MEMORY}",
            f"spark.executor.memory={MEMORY}",
            "spark.driver.host=127.0.0.1",
            "spark.driver.bindAddress=127.0.0.1",
            f"spark.driver.extraJavaOptions={QUICK_JAVA}",
        )
        self._spark = ["--master", master, *(w for each in settings for w in ("--conf", each))]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "redisq_ops", "--url", self._url, *words]
        self.started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        return self.started[-1]

    def submit(self) -> None:
        asked = ("--format", "text", "--queue", "big", "--name", "job", "--rows", str(ROWS))
        source = str(self.folder / "lines.txt")
        words = ("spark", "submit", source, *asked, "--split", str(SPLIT), *self._spark)
        running = self.start(*words)
        self.wait(running, lambda: self.count("waiting") > self.entries // 3)
        kill_executor()
        self.wait(running, lambda: self.count("waiting") > self.entries * 2 // 3)
        running.kill()
        print(f"  driver killed: {self.count('waiting'):,} sub-requests are there", flush=True)
        running.wait()
        self.finish(self.start(*words))

    def work(self) -> None:
        words = ("work", "benchmarks.spark_job:transform", "--queue", "big", "--concurrency", "8")
        workers = [self.start(*words), self.start(*words)]
        self.wait(workers[1], lambda: self.count("done") > self.entries // 3)
        workers[0].kill()
        print(f"  worker killed: {self.count('pending'):,} deliveries are pending", flush=True)
        workers[0].wait()
        workers[0] = self.start(*words)
        self.wait(workers[1], lambda: self.count("done") == self.entries)
        for worker in workers:
            worker.terminate()
            worker.wait()

    def collect(self) -> None:
        out = self.folder / "result.txt"
        asked = ("--queue", "big", "--format", "text", "--single-file")
        running = self.start("spark", "results", str(out), *asked, *self._spark)
        self.wait(running, lambda: any(self.folder.glob(".result.txt.*/rows/_temporary/0/_t*/*")))
        kill_executor()
        self.finish(running)

    def count(self, state: str) -> int:
        return int(getattr(RequestQueue(self.client, "big").counts(), state) or 0)

    def wait(self, process: subprocess.Popen[bytes], until: Callable[[], bool]) -> None:
        while not until():
            if process.poll() is not None:
                sys.exit(f"{process.args!r} ended with {process.returncode}, before it was killed")
            time.sleep(0.1)

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        if process.wait() != 0:
            sys.exit(f"{process.args!r} ended with {process.returncode}")


def kill_executor() -> None:
    """Kill one of the executors; Spark starts another."""
    executor = next(pid for role, pid in processes() if role == "executor, JVM")
    os.kill(executor, 9)
    print("  executor killed", flush=True)


def main() -> None:
    binary = next(iter(binaries().values()))
    with tempfile.TemporaryDirectory() as place, EmbeddedServer(binary) as server:
        folder = Path(place)
        expected = generate(folder / "lines.txt")
        (folder / "cluster").mkdir()
        client, memory = redis.Redis.from_url(server.url, protocol=3), Memory(server.pid or 0)
        with SparkCluster(folder / "cluster", "2g", "") as cluster, memory.watched():
            cluster.workers("first", "second")
            job = Job(folder, client, server.url, cluster.url)
            try:
                for step in (job.submit, job.work, job.collect):
                    start, load = time.monotonic(), os.getloadavg()[0]
                    step()
                    took = time.monotonic() - start
                    rate = f"{LINES / took:,.0f} lines/s"
                    print(f"  {step.__name__}: {took:.0f} s, {rate}, load {load:.1f}", flush=True)
                    print(
                        f"    memory at most, MiB: {dict(sorted(memory.peaks.items()))}", flush=True
                    )
            finally:
                for each in job.started:
                    each.kill()
        with (folder / "result.txt").open("rb") as result:
            found = hashlib.file_digest(result, "sha256").hexdigest()
            result.seek(0)
            lines = sum(1 for _ in result)
        if (lines, found) != (LINES, expected):
            sys.exit(f"the result is wrong: {lines:,} lines, {found} instead of {expected}")
        print(f"  {lines:,} lines, each as a loop over the file makes it (SHA-256 {found[:12]}…)")
        client.close()
