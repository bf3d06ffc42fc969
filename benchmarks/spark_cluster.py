"""A standalone Spark cluster on this machine, started by the commands that the docs print."""

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
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "process-with-spark.md"


def conf() -> tuple[str, ...]:
    """Settings of a small and quick application on the cluster."""
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


def printed(machine: str, program: str) -> list[str]:
    """The words of this program's first command that the page has for a machine."""
    command = re.search(rf"^{machine}\$ +({program} .+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert command is not None, f"{PAGE} has no {program} for {machine}"
    return command[1].split()


class SparkCluster:
    """A master, and workers of one core each on loopback; all processes end with the block.

    Only addresses and sizes differ from what the docs print; ports are free ones.
    """

    def __init__(self, folder: Path, memory: str = "600m", java_options: str = QUICK_JAVA) -> None:
        self.folder = folder
        self.memory = memory
        self.url = ""
        self._java_options = java_options
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._home = str(java.find_java().home)

    def __enter__(self) -> SparkCluster:
        words = self.here(printed("head", "spark-class"), {"head": LOOPBACK, "7077": "0"})
        self._start("master", words)
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
            words = self.here(printed("node-1", "spark-class"), {"4": "1", "8g": self.memory})
            words += ["--host", LOOPBACK, "--port", "0", "--work-dir", str(self.folder / name)]
            self._start(name, words, environment=environment)
        for nth in range(first, len(self._running)):
            self._wait_for_log(nth, r"(Successfully registered with master)")

    def here(self, words: list[str], instead: Mapping[str, str] | None = None) -> list[str]:
        """A printed command with this machine's addresses and sizes."""
        known = {"spark://head:7077": self.url, **(instead or {})}
        return [known.get(word, word) for word in words]

    def _start(
        self, name: str, words: list[str], environment: Mapping[str, str] | None = None
    ) -> None:
        log = self.folder / f"{name}.log"
        variables = {
            # As the page says:
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "JAVA_HOME": self._home,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_SCALA_VERSION": "2.13",
            # So that it is small, and stays on this machine:
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": self._java_options,
        }
        inherited = {name: each for name, each in os.environ.items() if name != "SPARK_HOME"}
        with log.open("wb") as out:
            started = subprocess.Popen(
                [*words, "--webui-port", "0"],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**inherited, **variables, **(environment or {})},
            )
        self._running.append((started, log))

    def _wait_for_log(self, nth: int, pattern: str) -> str:
        process, log = self._running[nth]
        deadline = time.monotonic() + 180
        while (found := re.search(pattern, log.read_text())) is None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        return found[1]
