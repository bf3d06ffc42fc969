"""A standalone Spark cluster on this machine, from PySpark's jars, on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from redisq_ops.pipeline.session import java

LOOPBACK = "127.0.0.1"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def conf() -> tuple[str, ...]:
    """Settings of an application on the cluster."""
    return (
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.driver.memory=512m",
        "spark.executor.memory=512m",
        "spark.sql.shuffle.partitions=2",
        "spark.sql.adaptive.enabled=false",
        "spark.sql.codegen.wholeStage=false",
        "spark.sql.codegen.factoryMode=NO_CODEGEN",
        f"spark.driver.extraJavaOptions={QUICK_JAVA}",
        f"spark.executor.extraJavaOptions={QUICK_JAVA}",
    )


class SparkCluster:
    """A master, and workers of one core each; all processes end with the block."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder = folder
        self._spark = Path(pyspark.__file__).parent
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._home = str(java.find_java().home)

    def __enter__(self) -> SparkCluster:
        ports = ("--port", "0", "--webui-port", "0")
        self._start("master", "master.Master", "--host", LOOPBACK, *ports)
        self.url = self._wait_for_log(0, r"Starting Spark master at (spark://\S+)")
        return self

    def __exit__(self, *_: object) -> None:
        for process, _log in reversed(self._running):
            process.terminate()
        for process, _log in self._running:
            process.wait(20)

    def workers(self, *names: str, environment: Mapping[str, str] | None = None) -> None:
        """Start workers, and wait until they are registered with the master."""
        first = len(self._running)
        for name in names:
            self._start(
                name,
                "worker.Worker",
                "--host",
                LOOPBACK,
                "--port",
                "0",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "600m",
                "--work-dir",
                str(self.folder / name),
                self.url,
                environment=environment,
            )
        for nth in range(first, len(self._running)):
            self._wait_for_log(nth, r"(Successfully registered with master)")

    def _start(
        self, name: str, kind: str, *words: str, environment: Mapping[str, str] | None = None
    ) -> None:
        log = self.folder / f"{name}.log"
        variables = os.environ | {
            "SPARK_HOME": str(self._spark),
            "JAVA_HOME": self._home,
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_SCALA_VERSION": "2.13",  # otherwise Spark looks for a build directory
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
        }
        spark_class = str(self._spark / "bin" / "spark-class")
        with log.open("wb") as out:
            started = subprocess.Popen(
                [spark_class, f"org.apache.spark.deploy.{kind}", *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**variables, **(environment or {})},
            )
        self._running.append((started, log))

    def _wait_for_log(self, nth: int, pattern: str) -> str:
        process, log = self._running[nth]
        deadline = time.monotonic() + 60
        while (found := re.search(pattern, log.read_text())) is None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        return found[1]
