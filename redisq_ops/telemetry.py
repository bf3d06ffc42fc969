"""OpenTelemetry spans of producers and workers; needs ``redisq-ops[otel]``.

    from redisq_ops.telemetry import Telemetry

    telemetry = Telemetry()  # of the global tracer provider
    queue = telemetry.queue(RequestQueue(connect(), "mail"))
    queue.submit([b"one", b"two"], id="monday")
    Worker(queue, telemetry.handler(handle)).run()

Spans follow the semantic conventions for messaging: ``submit mail`` (producer), ``take mail``,
``handle mail`` (consumer) and ``settle mail``. A handle span is a root of its own; it links to the
take that delivered the entry and, in a request queue, to the span in which the request was
submitted. A settle span links to the handle spans that it settles. No span has a payload, a result
or the message of an error.

Nothing in `redisq_ops` imports this module unless it is asked to.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial, wraps
from importlib.metadata import entry_points
from typing import Any, Final, TypeVar

try:
    from opentelemetry import trace
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:
    raise ImportError("OpenTelemetry is not installed: pip install redisq-ops[otel]") from missing

from . import __version__
from .core.engine.queue import Queue
from .core.model.entry import Delivery, Settlement, TakeResult
from .core.model.errors import BadInput, RedisqError
from .core.redis.operation import BoundOperation, DescribedOperation, Description
from .core.worker.handler import Handler, Work, as_handler

Q = TypeVar("Q", bound=Queue[Any])

SYSTEM: Final = "redisq"
PRODUCERS: Final = ("submit", "schedule", "push", "enqueue")
"""methods with which producers add entries, by kind of queue"""
REQUESTS: Final = 1000
"""requests whose trace context a worker remembers"""
_propagator = TraceContextTextMapPropagator()


class TracedDelivery(Delivery):
    """A delivery that knows the spans in which it was taken and handled."""

    taken: SpanContext | None = None
    handled: SpanContext | None = None


class Telemetry:
    """Makes queues and handlers report spans; ``provider``: None is the global one."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("redisq_ops", __version__, provider)
        self._queues: dict[str, Queue[Any]] = {}
        self._producer = lru_cache(REQUESTS)(self._read_producer)

    def queue(self, queue: Q) -> Q:
        """The same queue object, whose submissions, takes and settlements report spans."""
        for name in PRODUCERS:
            if hasattr(queue, name):
                traced = partial(self._submitting, name)
                setattr(queue, name, _replaced(queue, getattr(queue, name), traced))
        # Whatever takes or settles ends in one of these.
        steps: dict[str, Callable[..., Any]] = {"_take": self._take, "_settle": self._settle}
        steps["_exchange"] = self._exchange
        for name, step in steps.items():
            vars(queue)[name] = partial(step, queue, getattr(queue, name))
        self._queues[queue.name] = queue
        return queue

    def handler(self, function: Callable[[Work], Any] | Handler) -> Handler:
        """A handler that runs inside a span; spans that it opens are children of this span."""
        handler = as_handler(function)

        def call(work: Work) -> Any:
            with self._handling(work, self._links(work)):
                return handler.call(work)

        async def acall(work: Work) -> Any:
            # It may read from the server, on the worker's blocking client.
            with self._handling(work, await asyncio.to_thread(self._links, work)):
                return await handler.call(work)

        return replace(handler, call=acall if handler.is_async else call)

    # --- spans of operations -----------------------------------------------------------------

    async def _submitting(
        self,
        name: str,
        queue: Queue[Any],
        op: Callable[..., Description[Any]],
        *args: Any,
        **given: Any,
    ) -> Any:
        span = self._tracer.start_span(
            f"{name} {queue.name}",
            kind=SpanKind.PRODUCER,
            attributes=_attributes(queue.name, name, "send", _sized(args)),
        )
        if (id := given.get("id")) is not None:
            span.set_attribute("messaging.message.conversation_id", str(id))
        if hasattr(queue, "traceparent") and "traceparent" not in given:
            carrier = dict[str, str]()
            _propagator.inject(carrier, trace.set_span_in_context(span))
            given |= {"traceparent": carrier.get("traceparent", "")}
        with _ended(span):
            return await op(*args, **given)

    async def _take(
        self, queue: Queue[Any], op: Callable[..., Description[TakeResult]], *args: Any
    ) -> TakeResult:
        began = time.time_ns()
        return self._took(queue, await op(*args), began)

    async def _settle(
        self,
        queue: Queue[Any],
        op: Callable[..., Description[Sequence[str | Exception]]],
        settlements: Sequence[Settlement],
    ) -> Sequence[str | Exception]:
        span = self._settling(queue, settlements)
        with _ended(span):
            words = await op(settlements)
            for word in words:
                if isinstance(word, Exception):  # of a shard
                    _failed(span, word)
                    break
        return words

    async def _exchange(
        self,
        queue: Queue[Any],
        op: Callable[..., Description[Any]],
        settlements: Sequence[Settlement],
        n: int,
        consumer: str,
        lease_ms: int,
    ) -> tuple[list[str], TakeResult | Exception]:
        began = time.time_ns()
        with _ended(self._settling(queue, settlements)):
            words, taken = await op(settlements, n, consumer, lease_ms)
        return words, taken if isinstance(taken, Exception) else self._took(queue, taken, began)

    def _settling(self, queue: Queue[Any], settlements: Sequence[Settlement]) -> trace.Span:
        handled = (getattr(each.delivery, "handled", None) for each in settlements)
        return self._tracer.start_span(
            f"settle {queue.name}",
            kind=SpanKind.CLIENT,
            attributes=_attributes(queue.name, "settle", "settle", len(settlements)),
            links=[Link(context) for context in handled if context is not None],
        )

    def _took(self, queue: Queue[Any], taken: TakeResult, began: int) -> TakeResult:
        """Report a take, unless it is empty: idle workers take several times a second."""
        if not taken.deliveries:
            return taken
        span = self._tracer.start_span(
            f"take {queue.name}",
            kind=SpanKind.CLIENT,
            start_time=began,
            attributes=_attributes(queue.name, "take", "receive", len(taken.deliveries)),
        )
        span.set_attribute("messaging.client.id", taken.deliveries[0].consumer)
        span.end()
        deliveries = [TracedDelivery(*each) for each in taken.deliveries]
        for each in deliveries:
            each.taken = span.get_span_context()
        return replace(taken, deliveries=tuple(deliveries))

    # --- spans of handlers -------------------------------------------------------------------

    @contextmanager
    def _handling(self, work: Work, links: Sequence[Link]) -> Iterator[None]:
        attributes = _attributes(work.queue, "handle", "process")
        attributes |= {"messaging.message.id": work.id, "redisq.attempt": work.attempt}
        if work.request is not None:
            attributes["messaging.message.conversation_id"] = work.request
        with self._tracer.start_as_current_span(
            f"handle {work.queue}",
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            if isinstance(work.delivery, TracedDelivery):
                work.delivery.handled = span.get_span_context()
            try:
                yield
            except BaseException as error:
                _failed(span, error)
                raise

    def _links(self, work: Work) -> list[Link]:
        contexts = [getattr(work.delivery, "taken", None)]
        if work.request is not None:
            with suppress(RedisqError):  # the handler runs without the link
                contexts.append(self._producer(work.queue, work.request))
        return [Link(context) for context in contexts if context is not None]

    def _read_producer(self, name: str, request: str) -> SpanContext | None:
        """The span in which a request was submitted; one round trip per request."""
        queue: Any = self._queues.get(name)
        if not hasattr(queue, "traceparent"):
            return None
        context = _propagator.extract({"traceparent": queue.traceparent(request) or ""})
        found = trace.get_current_span(context).get_span_context()
        return found if found.is_valid else None


def from_environment() -> Telemetry:
    """Telemetry by the environment: exports to ``OTEL_TRACES_EXPORTER`` (default ``otlp``).

    If a global tracer provider is set, for example by ``opentelemetry-instrument``, that is used.
    Raises `BadInput` if the exporter is not installed.
    """
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        name = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
        found = tuple(entry_points(group="opentelemetry_traces_exporter", name=name))
        if not found:
            raise BadInput(
                f"no exporter {name!r} for OTEL_TRACES_EXPORTER is installed "
                "(otlp: pip install opentelemetry-exporter-otlp)"
            )
        provider = SdkTracerProvider()
        provider.add_span_processor(BatchSpanProcessor(found[0].load()()))
        trace.set_tracer_provider(provider)
    return Telemetry()


def flush() -> None:
    """Export the spans that are still in memory."""
    send = getattr(trace.get_tracer_provider(), "force_flush", None)
    if send is not None:
        send()


def _replaced(
    queue: Queue[Any], bound: BoundOperation[..., Any], traced: Callable[..., Any]
) -> BoundOperation[..., Any]:
    """An operation that runs inside a span, called and documented as before."""

    @wraps(bound._method.func)
    def described(_: Any, *args: Any, **given: Any) -> Any:
        return traced(queue, bound.op, *args, **given)

    kind: Any = type(bound)
    op = partial(described, queue)
    made: BoundOperation[..., Any] = kind(op, None if kind is DescribedOperation else queue.client)
    return made


def _attributes(queue: str, name: str, kind: str, count: int | None = None) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
    return found if count is None else found | {"messaging.batch.message_count": count}


def _sized(args: Sequence[Any]) -> int | None:
    """The number of entries of a submission; None where they are an iterator."""
    rows = args[-1] if args else None
    return len(rows) if isinstance(rows, (Sequence, Mapping)) else None


@contextmanager
def _ended(span: trace.Span) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        _failed(span, error)
        raise
    finally:
        span.end()


def _failed(span: trace.Span, error: BaseException) -> None:
    """Mark a span as failed, with the type of the error: its message may quote a payload."""
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR))
