"""An application for `test_cluster`: checks every executor, reads a table, submits with a killed
task."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.pipeline import input_split, submit
from redisq_ops.pipeline.connection import Server
from redisq_ops.pipeline.doctor import check_executors
from redisq_ops.pipeline.input_split import DatasetOptions
from redisq_ops.pipeline.session import session

from .spark_cluster import CONF

REQUESTS, ROWS = 40, 4000


def main(url: str, master: str, folder: Path) -> None:
    target = ServerAddress(url)
    spark = session("tests", master=master, conf=CONF, target=target)
    executors = check_executors(spark, 4)
    dead = spark.read.format("redisq").options(table="dead", rowsPerPartition="50").load()
    rows = dead.select("id", "error").collect()

    def kill(entries: int) -> None:
        """Kill the Python worker of a first attempt, in the middle of its task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() == 0 and entries > 700:
            if context.attemptNumber() == 0:
                (folder / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                (folder / "again").touch()

    source = folder / "in.csv"
    lines = [f"r{n % REQUESTS},row {n}" for n in range(ROWS)]
    source.write_text("\n".join(["request,text", *lines]))
    wanted = DatasetOptions("mail", id="request", payload="text", parts=2)
    frame = input_split.read(spark, source.as_uri())
    done = submit.submit(spark, Server(target), frame, wanted, "job", on_progress=kill)
    spark.stop()
    summary = {
        "executors": [asdict(finding) for finding in executors],
        "rows": sorted(row["id"] for row in rows),
        "requests": done.requests,
        "entries": done.entries,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
