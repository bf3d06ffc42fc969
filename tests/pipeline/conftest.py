"""One small Spark session for all tests of a process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from redisq_ops.pipeline.report.engine import Engine

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
def spark() -> "Iterator[SparkSession]":
    """A session on two cores of this machine, with the data source registered; four attempts per
    task."""
    from redisq_ops.pipeline.session.spark_session import session

    with own_caches():
        made = session("tests", master="local[2,4]", conf=QUICK)
    yield made
    made.stop()


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.slow)])
def engine_for(request: pytest.FixtureRequest) -> "Iterator[Callable[[str | None], Engine[Any]]]":
    """Makes what runs a report's queries, with a pattern for clients in ids."""
    from redisq_ops.ops.redaction import Redaction

    emails = {"keys": ["card"], "patterns": {"email": r"[\w.]+@[\w.]+\.org"}}
    redaction = Redaction.read([(emails, "")])
    made: list[Engine[Any]] = []

    def engine(client: str | None) -> "Engine[Any]":
        if request.param == "spark":
            from redisq_ops.pipeline.report.spark_engine import SparkEngine

            made.append(SparkEngine(request.getfixturevalue("spark"), redaction, client))
        else:
            from redisq_ops.pipeline.report.duckdb_engine import DuckDBEngine

            made.append(DuckDBEngine(redaction, client))
        return made[-1]

    yield engine
    for each in made:
        each.close()


@pytest.fixture
def engine(engine_for: "Callable[[str | None], Engine[Any]]") -> "Engine[Any]":
    return engine_for(None)
