"""Run Spark jobs with progress and cancellation."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from ..source.job_errors import translating
from .spark_session import is_connect_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_POLL_S = 0.5


def run_job(
    spark: SparkSession, job: Callable[[], T], on_poll: Callable[[], object] = lambda: None
) -> T:
    """The result of a job, which runs in a thread; ``on_poll`` is called twice a second.

    Ctrl+C, or an error raised by ``on_poll``, cancels the job's Spark stages and is raised again
    when the job has ended. Errors of Spark are translated (see `job_errors`).
    """
    tag = f"redisq-{os.getpid()}-{id(job)}"
    add, remove, cancel = _tag_functions(spark)

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
                on_poll()
        except BaseException:
            cancel(tag)
            while not wait([running], _POLL_S).done:  # the job may have begun another stage
                cancel(tag)
            raise
        return translating(running.result)


def _tag_functions(spark: SparkSession) -> tuple[Callable[[str], object], ...]:
    """Functions that add a job tag, remove it, and cancel by it.

    A session's own tags cancel jobs on Spark Connect only, which has no other tags.
    """
    if is_connect_session(spark):
        return spark.addTag, spark.removeTag, spark.interruptTag
    context = spark.sparkContext
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag


def task_progress(spark: SparkSession) -> tuple[int, int | None]:
    """Completed tasks and all tasks of the active stages; (0, None) on Spark Connect."""
    if is_connect_session(spark):
        return 0, None
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    stages = [info for info in infos if info is not None]
    return sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages) or None
