"""One small Spark session for all tests of a process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.pipeline import class_archive, doctor, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = (
    "spark.driver.memory=1g",
    "spark.sql.shuffle.partitions=2",
    "spark.default.parallelism=2",
    "spark.sql.adaptive.enabled=false",
    # With few rows, most time would go into compiling the queries.
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)
"""settings that make a session fast on few rows"""

HERE = Path(__file__).parent
CACHES = HERE.parents[1] / ".pytest_cache" / "caches"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of the suite's three workers begins with them, and the others steal from the end:
    one session for all, since its start and first query are what is dear. The cluster's tests don't
    use it: the second worker begins with those."""
    items.sort(key=lambda item: HERE not in item.path.parents)
    apart = [item for item in items if item.path == HERE / "test_cluster.py"]
    third = len(items) // 3
    others = [item for item in items if item not in apart]
    items[:] = others[:third] + apart + others[third:]


@contextmanager
def own_caches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(CACHES))
        yield


@pytest.fixture(scope="package", autouse=True)
def caches() -> Iterator[None]:
    """What Spark keeps is not among the user's caches, where other tests have other programs."""
    with own_caches():
        yield


@pytest.fixture(scope="session")
@own_caches()
def archived_classes(valkey_url: str) -> doctor.DoctorCheck:
    """What `redisq spark doctor --archive` says of the archive of Spark's classes, with which every
    JVM of the tests starts in half the time. Later runs use it until what writes it is changed."""
    file = class_archive.archive_file(java.find_java(os.environ))
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker writes it, and the others wait
        written = file.stat().st_mtime if file.exists() else 0
        if all(Path(str(m.__file__)).stat().st_mtime < written for m in (class_archive, doctor)):
            return doctor.DoctorCheck("archive", True, str(file))
        found = doctor.write_class_archive(ServerAddress(valkey_url))
    assert found.ok and file.exists(), found
    return found


@pytest.fixture(scope="session")
def spark(archived_classes: doctor.DoctorCheck) -> "Iterator[SparkSession]":
    """A session on two cores of this machine, with the data source registered; four attempts per
    task."""
    from redisq_ops.pipeline.session import session

    with own_caches():
        made = session("tests", master="local[2,4]", conf=QUICK)
    yield made
    made.stop()
