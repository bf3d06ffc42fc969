"""What all writers share: where they write to, and what a task says when it can't."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from redisq_ops.core.model import errors
from redisq_ops.core.model.errors import BadInput, RedisqError, Unreachable
from redisq_ops.core.model.keys import PREFIX
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import BlockingClient, Description, run
from redisq_ops.ops.deployment import Deployment

from .connection import client_of, patiently
from .session import connected

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_OURS = re.compile(r"redisq_ops\.core\.model\.errors\.(\w+): (.*)")
_TRACE = "Traceback (most recent call last):"
_HEADER = re.compile(r"CSV header does not conform to the schema.*?CSV file: (\S+)", re.DOTALL)
_FILE = re.compile(r"\[FAILED_READ_FILE\S*\] .*? file (\S+?)\. ")
_POLL_S = 0.5
SAYS = "unit long, word string, n long, detail string"
"""the schema of what tasks say: how many of their unit got which word; or why they stopped"""


@dataclass(frozen=True, slots=True)
class Server:
    """Where the queues are. Goes to tasks by itself, in no plan and no log; its text form never
    shows a password."""

    target: ServerAddress
    prefix: str = PREFIX

    @property
    def client(self) -> BlockingClient:
        """This process' client."""
        return client_of(self.target)

    def deployment(self) -> Deployment:
        return Deployment(self.client, prefix=self.prefix)


def sent(client: BlockingClient, make: Callable[[], Description[T]]) -> T:
    """Run what ``make`` describes, again while the server is away for a moment: for what has no
    effect when it is sent twice."""
    return patiently(lambda: run(client, make()))


@dataclass(frozen=True, slots=True)
class Said:
    """What a task tells of one unit of work: a word and how many got it; ``error``: it stopped."""

    unit: int
    word: str
    n: int = 0
    detail: str = ""

    @property
    def error(self) -> RedisqError | None:
        kind = getattr(errors, self.word, None)
        return kind(self.detail) if isinstance(kind, type) else None


def stopped(unit: int, error: RedisqError) -> Said:
    """A refusal as something to tell: no other attempt would fare better, and other tasks go on.

    A server that can't be reached is no refusal: raised, so that Spark tries the task again.
    """
    if isinstance(error, Unreachable):
        raise error
    return Said(unit, type(error).__name__, 1, str(error))


def batch(rows: list[Said]) -> pa.RecordBatch:
    """What a task says, as Arrow."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array([row.unit for row in rows], pa.int64()),
            pa.array([row.word for row in rows], pa.string()),
            pa.array([row.n for row in rows], pa.int64()),
            pa.array([row.detail for row in rows], pa.string()),
        ],
        names=["unit", "word", "n", "detail"],
    )


def units(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of a range's partition."""
    for each in batches:
        yield from each.column(0).to_pylist()


def collected(
    spark: SparkSession, frame: DataFrame, told: Callable[[], object] = lambda: None
) -> list[Said]:
    """Run a job whose rows are what its tasks say; otherwise `attended`."""
    return [Said(*row) for row in brought(spark, frame, told)]


def brought(
    spark: SparkSession, frame: DataFrame, told: Callable[[], object] = lambda: None
) -> list[Any]:
    """A frame's rows; otherwise `attended`."""
    return attended(spark, frame.collect, told)


def attended(
    spark: SparkSession, job: Callable[[], T], told: Callable[[], object] = lambda: None
) -> T:
    """What a job comes to; ``told`` is called twice a second meanwhile.

    Ctrl+C, or an error of ``told``, cancels what Spark does for it and is raised again: tasks stop
    between two steps.
    """
    tag = f"redisq-{os.getpid()}-{id(job)}"
    add, remove, cancel = _tags(spark)

    def tagged() -> T:
        add(tag)
        try:
            return job()
        finally:
            remove(tag)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tagged)
        try:
            while not wait([running], _POLL_S).done:
                told()
        except BaseException:
            cancel(tag)
            while not wait([running], _POLL_S).done:  # it may have gone on with its next step
                cancel(tag)
            raise
        return ran(running.result)


def _tags(spark: SparkSession) -> tuple[Callable[[str], object], ...]:
    """How a job is given a tag, loses it, and is cancelled by it. A session's own tags cancel
    nothing but on Spark Connect, which has no others."""
    if connected(spark):
        return spark.addTag, spark.removeTag, spark.interruptTag
    context = spark.sparkContext
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag


def tasks(spark: SparkSession) -> tuple[int, int | None]:
    """How many tasks have ended of the stages that are under way, and how many there are: nothing
    that Spark Connect tells."""
    if connected(spark):
        return 0, None
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known) or None


def ran(job: Callable[[], T]) -> T:
    """A job's value, its failure in our words."""
    try:
        return job()
    except RedisqError:
        raise
    except Exception as error:
        raise failed(error) from error


def failed(error: Exception) -> Exception:
    """Why a job failed, in one line: our own words where a task raised them, else what the worker,
    or the JVM, said last. What isn't Spark's is returned as it is."""
    if isinstance(error, RedisqError):
        return error
    text = str(error)
    said = _OURS.findall(text)
    if said:
        name, message = said[-1]
        kind = getattr(errors, name, RedisqError)
        found: Exception = kind(message.strip())
        return found
    if "No space left on device" in text:
        return RedisqError("the disk is full: what was written so far is no part of the result")
    if "Python worker exited unexpectedly" in text:
        return RedisqError("the job failed: a Python worker died (the same command goes on)")
    if header := _HEADER.search(text):
        return BadInput(f"{header[1]}: its header differs from that of other files, or its order")
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return BadInput(in_short(error))
    if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        return error
    if file := _FILE.search(text):
        return BadInput(f"{file[1]}: {_last(text)}")
    return RedisqError(f"the job failed: {_last(text)}")


def _last(text: str) -> str:
    """The line that says most of a failure's text: what a Python worker's trace ends with, else
    what the JVM's innermost exception says, without their stacks."""
    if _TRACE in text:
        rest = text.rpartition(_TRACE)[2].splitlines()
        raised = next((line for line in rest if line and not line[0].isspace()), "")
        if raised:
            return raised.strip()
    thrown = re.findall(r"^(?:Caused by)?: (.+)", text, re.MULTILINE)
    line = thrown[-1] if thrown else text.strip().partition("\n")[0]
    plain = re.sub(r"^([\w$]+\.)+", "", line.strip())
    return re.sub(r"\[[A-Z_.]+\] | ?SQLSTATE: \w+", "", plain) or "Spark doesn't say why"


def in_short(error: Exception) -> str:
    """What Spark has against a query or an input, without its plan and codes."""
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line.partition(" SQLSTATE")[0].removeprefix("[").replace("] ", ": ", 1)
