"""How long handlers take and how they end, as Prometheus metrics of one worker process.

Names follow OpenTelemetry's conventions for messaging, spelt as Prometheus does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest

from redisq_ops.core.worker.handler import Handler, Work
from redisq_ops.core.worker.retry import Reject, Retry

BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""s; upper bounds of the histogram's buckets"""


class HandlerMetrics:
    """Measures a handler. Each worker process has its own, and serves it at a port of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._durations = Histogram(
            "messaging_process_duration_seconds",
            "Time that handlers took, by queue, outcome and task.",
            ["messaging_system", "messaging_destination_name", "outcome", "task"],
            buckets=BUCKETS,
            registry=self._registry,
        )

    def measured(self, handler: Handler) -> Handler:
        """The same handler, measured."""

        def call(work: Work) -> Any:
            with self._timed(work, handler.tasks):
                return handler.call(work)

        async def acall(work: Work) -> Any:
            with self._timed(work, handler.tasks):
                return await handler.call(work)

        return replace(handler, call=acall if handler.is_async else call)

    def page(self) -> tuple[str, bytes]:
        """The metrics now, as a page: its content type and body."""
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)

    @contextmanager
    def _timed(self, work: Work, tasks: Collection[str]) -> Iterator[None]:
        began, outcome = perf_counter(), "done"
        try:
            yield
        except BaseException as error:
            outcome = _outcome(error)
            raise
        finally:
            seconds = perf_counter() - began
            task = work.task if work.task in tasks else ""
            self._durations.labels("redisq", work.queue, outcome, task).observe(seconds)


def _outcome(error: BaseException) -> str:
    """How a handler ended, as one of three words: the number of series is bounded."""
    if isinstance(error, Reject):
        return "rejected"
    return "retry" if isinstance(error, Retry) else "failed"
