"""An application for `test_cluster`: it ships its Python environment, checks the executors, reads a
table, begins the documented job, and is killed in the middle."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from benchmarks.spark_cluster import conf
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.pipeline.session.doctor import check_executors
from redisq_ops.pipeline.session.spark_session import session
from redisq_ops.pipeline.source.connection import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "spark_job.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_job", EXAMPLE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def main(url: str, master: str, folder: Path) -> None:
    settings = [*conf(), "spark.archives=env.tar.gz#env"]
    spark = session("tests", master=master, conf=settings, target=ServerAddress(url))
    print(json.dumps(summary(spark)), flush=True)
    begin_job(spark, ServerAddress(url), folder)


def summary(spark: SparkSession) -> dict[str, Any]:
    """What the executors are, and what they read."""
    from pyspark.sql.functions import udf

    executors = check_executors(spark, 4)

    def prefix(_: int) -> str:
        import shipped  # type: ignore[import-not-found]  # only the archive has it

        assert shipped.VALUE == 1
        return sys.prefix

    places = spark.range(0, 4, 1, 4).select(udf(prefix, "string")("id")).collect()
    dead = spark.read.format("redisq").options(table="dead", rowsPerPartition="50").load()
    rows = dead.select("id", "error").collect()
    return {
        "executors": [asdict(finding) for finding in executors],
        "rows": sorted(row["id"] for row in rows),
        "prefixes": sorted({row[0] for row in places}),
    }


def begin_job(spark: SparkSession, target: ServerAddress, folder: Path) -> None:
    """The first half of the job: a task kills its executor, and, repeated, this process."""
    driver, job = os.getpid(), example()

    def kill(entries: int) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None or context.partitionId() != 0 or entries < 20:
            return
        # Not by the attempt: one may have failed for another reason.
        if not (folder / "executor-killed").exists():
            (folder / "executor-killed").touch()
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        else:
            (folder / "driver-killed").touch()
            os.kill(driver, signal.SIGKILL)

    job.split(spark, Server(target), job.generated(folder), kill)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
