"""Progress and interruption of Spark jobs, and job errors in one line."""

import threading
import time
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException, PythonException

from redisq_ops.cli.server_watch import server_watched
from redisq_ops.core.model.errors import BadInput, NotFound, RedisqError, Unreachable
from redisq_ops.pipeline.session.spark_jobs import run_job, task_progress
from redisq_ops.pipeline.source.job_errors import translate_job_error

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 2000, in main
    process()
  File "source.py", line 12, in read
    raise {raised}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""
JVM = """An error occurred while calling o67.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///in/a.{end}.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(Errors.scala:920)
Caused by: {cause}
\tat org.apache.spark.sql.catalyst.csv.CSVHeaderChecker.check(CSVHeaderChecker.scala:115)
\t... 18 more
"""
HEADER = """org.apache.spark.SparkIllegalArgumentException: \
CSV header does not conform to the schema.
 Header: order, level
 Schema: level, order
Expected: level but found: order
CSV file: file:///in/a.csv"""


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            WORKER.format(raised="ValueError\nValueError: no number: x"),
            RedisqError,
            "the job failed: ValueError: no number: x",
        ),
        (
            WORKER.format(raised="x\nredisq_ops.core.model.errors.NotFound: no queue 'x'"),
            NotFound,
            "no queue 'x'",
        ),
        (
            JVM.format(
                end="parquet", cause="java.lang.RuntimeException: file:///in/a.parquet is not one"
            ),
            BadInput,
            "/in/a.parquet is not one",
        ),
        (
            JVM.format(end="csv", cause=HEADER),
            BadInput,
            "/in/a.csv: its header differs from the other files' in names or order",
        ),
        (
            "Failed.\nCaused by: java.nio.file.AccessDeniedException: /lake: Permission denied",
            BadInput,
            "Permission denied: /lake",
        ),
        (
            "Failed.\nCaused by: java.io.IOException: No space left on device",
            RedisqError,
            "the disk is full: what was written so far is not part of the result",
        ),
        (
            "Failed.\nCaused by: java.lang.ClassNotFoundException: Class "
            "org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            BadInput,
            "to read an object store, Spark needs Hadoop's client: "
            "--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0",
        ),
        (
            "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\nselect 1/0",
            RedisqError,
            "the job failed: Division by zero.",
        ),
        ("", RedisqError, "the job failed: Spark gives no reason"),
    ],
    ids=lambda word: word.__name__ if isinstance(word, type) else word.strip()[-25:],
)
def test_a_job_error_is_one_line_with_the_cause(
    text: str, kind: type[RedisqError], message: str
) -> None:
    for thrown in (PySparkException(text), PythonException(text)):
        known = translate_job_error(thrown)
        assert (type(known), str(known)) == (kind, message)


def test_errors_that_are_not_sparks_stay_unchanged() -> None:
    for error in (OSError("no such file"), BadInput("--rate"), KeyError("x")):
        assert translate_job_error(error) is error


class FakeSession:
    """A Spark session, as far as a running job uses it."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.sparkContext = self

    def addJobTag(self, tag: str) -> None:
        self.tag = tag

    def removeJobTag(self, tag: str) -> None:
        assert tag == self.tag

    def cancelJobsWithTag(self, tag: str) -> None:
        assert tag == self.tag
        self.stopped.set()

    def statusTracker(self) -> "FakeSession":
        return self

    def getActiveStageIds(self) -> list[int]:
        return [3, 4, 5]

    def getStageInfo(self, stage: int) -> Any:
        class FakeStage:
            numTasks, numCompletedTasks = 10, stage

        return None if stage == 5 else FakeStage


def test_progress_of_a_job_is_reported() -> None:
    session: Any = FakeSession()
    progress: list[tuple[int, int | None]] = []
    shown = threading.Event()

    def tell() -> None:
        progress.append(task_progress(session))
        shown.set()

    def job() -> str:
        assert shown.wait(90)
        return "done"

    assert run_job(session, job, tell) == "done"
    assert progress[0] == (7, 20)


def test_an_interrupt_cancels_the_job_and_waits_for_its_end() -> None:
    session: Any = FakeSession()
    ended: list[str] = []

    def job() -> None:
        assert session.stopped.wait(90)
        time.sleep(0.01)
        ended.append("here")

    def tell() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(cast(Any, session), job, tell)
    assert ended == ["here"]


def test_a_server_that_does_not_answer_is_named_once_while_tasks_wait() -> None:
    answers: list[Exception | None] = [None, Unreachable("gone"), Unreachable("gone"), None]
    said: list[str] = []
    asked_all = threading.Event()

    def ask() -> None:
        if not answers:
            asked_all.set()
        elif (error := answers.pop(0)) is not None:
            raise error

    with server_watched(ask, said.append, period_s=0.001):
        assert asked_all.wait(90)
    assert said == ["gone; tasks try again for up to a minute", "the server answers again"]


def test_a_spark_that_was_killed_is_one_line_and_no_broken_pipe() -> None:
    from py4j.protocol import Py4JNetworkError

    for error in (
        ConnectionRefusedError(111, "Connection refused"),
        Py4JNetworkError("Answer from Java side is empty"),
    ):
        known = translate_job_error(error)
        assert isinstance(known, Unreachable) and known.exit_code == 4
        assert "run the same command again" in str(known)
    pipe = BrokenPipeError(32, "Broken pipe")  # `redisq … | head`
    assert translate_job_error(pipe) is pipe
