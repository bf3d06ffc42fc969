"""The application of `test_cluster`: it reads a table, begins the documented job, and is killed in
the middle of it."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.pipeline.connection import Server
from redisq_ops.pipeline.session import session

from .spark_cluster import CONF

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "spark_job.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_job", EXAMPLE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def begin_job(url: str, master: str, folder: Path) -> None:
    """Dead letters, and the first half of the job: a task kills its executor, and, repeated, this
    process."""
    target, driver, job = ServerAddress(url), os.getpid(), example()

    def kill(entries: int) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None or context.partitionId() != 0 or entries < 20:
            return
        # Not by the attempt: one may have failed on a worker that can't reach the server.
        if not (folder / "executor-killed").exists():
            (folder / "executor-killed").touch()
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        else:
            (folder / "driver-killed").touch()
            os.kill(driver, signal.SIGKILL)

    spark = session("tests", master=master, conf=CONF, target=target)
    dead = spark.read.format("redisq").options(table="dead", rowsPerPartition="50").load()
    ids = [row["id"] for row in dead.select("id", "error").collect()]
    (folder / "dead").write_text("\n".join(ids))
    job.split(spark, Server(target), job.generated(folder), kill)


if __name__ == "__main__":
    begin_job(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
