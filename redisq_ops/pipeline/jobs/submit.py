"""Submits a dataset as requests and sub-requests, by many tasks, each request in one task.

Each task submits its rows with a `RequestWriter`, and returns rows of outcomes. A refusal (a full
queue) is an outcome too: if it was raised, Spark would repeat the task in vain. `Unreachable` is
raised, so that Spark repeats the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from redisq_ops.core.engine.registry import refuse_reserved_name
from redisq_ops.core.model import errors
from redisq_ops.core.model.errors import BadInput, RedisqError, Unreachable
from redisq_ops.core.model.exit_codes import DONE, FAILED, PARTLY_DONE
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.ops.files.submit import opened
from redisq_ops.ops.required_features import requests_of

from ..session.spark_jobs import run_job
from ..sink.input_split import DatasetOptions, number_rows, partition_by_request
from ..sink.request_writer import SAMPLES, RequestRows, RequestWriter
from ..source.connection import Server, run_retrying
from .input_validation import ValidationResult, validate_dataset

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


OUTCOMES = "word string, n long, detail string"
"""the outcome of ``n`` requests, or the error that ended the task, and examples in words"""


def submit_rows(
    writer: RequestWriter, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What Spark's tasks run: rows to outcomes, `OUTCOMES`."""
    import pyarrow as pa

    try:
        counts = writer.write(split_by_request(batches))
        rows = [{"word": "entries", "n": counts.entries, "detail": ""}]
        for word, n in counts.requests.items():
            rows.append({"word": word, "n": n, "detail": "\n".join(counts.samples.get(word, ()))})
    except Unreachable:
        raise
    except RedisqError as error:
        rows = [{"word": type(error).__name__, "n": 1, "detail": str(error)}]
    yield pa.RecordBatch.from_pylist(rows)


def split_by_request(batches: Iterable[pa.RecordBatch]) -> Iterator[RequestRows]:
    """The rows of batches, split where the request changes and after a thousand payloads."""
    import pyarrow.compute as pc

    for each in batches:
        names, priorities, payloads = each.columns
        start = 0
        for end in pc.run_end_encode(names).run_ends.to_pylist():
            id = names[start].as_py()
            for low in range(start, end, 1000):
                rows = payloads.slice(low, min(1000, end - low))
                yield id, priorities[low].as_py(), rows.to_pylist()
            start = end


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The result of a job, over all its tasks."""

    requests: dict[str, int]
    entries: int
    samples: dict[str, list[str]]
    rejects: int = 0
    """rows that can't be submitted and were left out"""
    corrupt: int = 0
    """rejected rows that can't be read at all"""

    @property
    def refused(self) -> int:
        return sum(n for word, n in self.requests.items() if word not in ("ok", "same"))

    @property
    def exit_code(self) -> int:
        """0: all is submitted; 3: a part; 1: nothing."""
        if not self.refused:
            return PARTLY_DONE if self.rejects else DONE
        return PARTLY_DONE if sum(self.requests.values()) > self.refused else FAILED


def submit(
    spark: SparkSession,
    server: Server,
    frame: DataFrame,
    options: DatasetOptions,
    rate_name: str,
    on_progress: Callable[[int], object] | None = None,
    on_poll: Callable[[], object] = lambda: None,
    on_rejects: Callable[[ValidationResult], object] | None = None,
) -> SubmitResult:
    """Submit a dataset. Running it again submits what is missing, and nothing twice.

    If rows can't be submitted, raises `TooLarge` or `BadInput` before anything is sent; with
    ``on_rejects``, calls it with them and submits the other rows. Raises `BadInput` for an empty
    dataset. Raises the refusal of a task after all other tasks have ended.
    """
    frame = run_job(spark, lambda: number_rows(frame, options), on_poll)
    validation = validate_dataset(spark, frame, options, on_poll)
    if not validation.rows and not validation.rejects:
        raise BadInput("the input has no rows: nothing to submit")
    if on_rejects is None:
        validation.raise_first()
    else:
        on_rejects(validation)
    queue = run_retrying(server.client, partial(opened, server.deployment(), options.queue))
    refuse_reserved_name(requests_of(queue).name, RequestQueue.kind)
    writer = RequestWriter(
        server, options, rate_name, on_progress=on_progress, skip=bool(validation.rejects)
    )
    tasks = partial(submit_rows, writer)
    outcomes = partition_by_request(frame, options).mapInArrow(tasks, OUTCOMES)
    entries, requests, samples = 0, Counter[str](), dict[str, list[str]]()
    for word, n, detail in run_job(spark, outcomes.collect, on_poll):
        if isinstance(refusal := getattr(errors, word, None), type):
            raise refusal(detail)
        if word == "entries":
            entries += n
            continue
        requests[word] += n
        if detail:
            samples[word] = [*samples.get(word, ()), *detail.split("\n")][:SAMPLES]
    return SubmitResult(
        dict(requests), entries, samples, len(validation.rejects), validation.corrupt
    )
