"""Spans of a real producer and a real worker process, and nothing of it where nobody asks."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from redisq_ops import (
    DelaySet,
    FairQueue,
    Reject,
    RequestQueue,
    ShardedRequestQueue,
    Work,
    Worker,
    aconnect,
    connect,
)
from redisq_ops.core.model.errors import BadInput, Exists
from redisq_ops.telemetry import Telemetry

from .command_line import Redisq

PRODUCER = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from redisq_ops import RequestQueue, connect
from redisq_ops.telemetry import Telemetry

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
queue = Telemetry(provider).queue(RequestQueue(connect(sys.argv[1]), "mail"))
queue.submit([b"one", b"secret"], id="r1")
"""
JOBS = """
def handle(work):
    if work.payload == b"secret":
        raise ValueError("bad " + work.payload.decode())
    return b"fine"
"""
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Spans = Callable[[], list[ReadableSpan]]


def exported(text: str) -> Iterator[dict[str, Any]]:
    """The spans that a console exporter printed."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        span, at = decoder.raw_decode(text, at)
        yield span


@pytest.mark.slow
@pytest.mark.alike
def test_spans_of_a_producer_and_a_worker_process_are_linked(url: str, tmp_path: Path) -> None:
    (tmp_path / "producer.py").write_text(PRODUCER)
    (tmp_path / "jobs.py").write_text(JOBS)
    environment = os.environ | {"OTEL_TRACES_EXPORTER": "console", "REDIS_URL": url}

    def spans(*words: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 3), done.stderr  # 3: a handler failed
        assert "secret" not in done.stdout
        return list(exported(done.stdout))

    (submit,) = spans("producer.py", url)
    assert (submit["name"], submit["kind"]) == ("submit mail", "SpanKind.PRODUCER")
    assert submit["attributes"]["messaging.operation.type"] == "send"
    assert submit["attributes"]["messaging.batch.message_count"] == 2

    words = ("work", "jobs:handle", "--queue", "mail", "--telemetry", "--burst")
    found = spans("-m", "redisq_ops", *words)
    ids = {span["context"]["span_id"]: span for span in [submit, *found]}
    linked = {
        span["context"]["span_id"]: {
            ids[link["context"]["span_id"]]["name"] for link in span["links"]
        }
        for span in found
    }
    handled = [span for span in found if span["name"] == "handle mail"]
    assert len(handled) == 2
    for span in handled:
        assert linked[span["context"]["span_id"]] == {"submit mail", "take mail"}
        assert span["context"]["trace_id"] != submit["context"]["trace_id"]
        assert span["parent_id"] is None and span["kind"] == "SpanKind.CONSUMER"
    fine, bad = sorted(handled, key=lambda span: span["attributes"]["messaging.message.id"])
    assert fine["attributes"] == {
        "messaging.system": "redisq",
        "messaging.destination.name": "mail",
        "messaging.operation.name": "handle",
        "messaging.operation.type": "process",
        "messaging.message.id": "r1/1",
        "messaging.message.conversation_id": "r1",
        "redisq.attempt": 1,
    }
    assert bad["attributes"]["error.type"] == "ValueError" and not bad["events"]
    assert bad["status"] == {"status_code": "ERROR"}
    settled = [span for span in found if span["name"] == "settle mail"]
    assert {name for span in settled for name in linked[span["context"]["span_id"]]} == {
        "handle mail"
    }
    assert {span["name"] for span in found} == {"take mail", "handle mail", "settle mail"}


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider()


@pytest.fixture
def spans(provider: TracerProvider) -> Spans:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return lambda: list(exporter.get_finished_spans())


def named(spans: Spans, name: str) -> list[ReadableSpan]:
    return [span for span in spans() if span.name == name]


@pytest.mark.alike
@pytest.mark.parametrize("batch", [1, 3])
def test_an_async_handler_has_its_span_as_the_current_one(
    url: str, provider: TracerProvider, spans: Spans, batch: int
) -> None:
    telemetry = Telemetry(provider)
    queue = telemetry.queue(ShardedRequestQueue(connect(url), "mail", shards=2))
    tracer = provider.get_tracer("handler")

    async def handle(work: Work) -> None:
        with tracer.start_as_current_span("inside"):
            await asyncio.sleep(0)

    for id in ("r1", "r2", "r3"):
        queue.submit([b"x"], id=id)
    Worker(queue, telemetry.handler(handle), concurrency=2, batch=batch, burst=True).run()
    handled = {span.context.span_id: span for span in named(spans, "handle mail")}
    inside = named(spans, "inside")
    assert len(handled) == len(inside) == 3
    assert {span.parent.span_id for span in inside if span.parent} == handled.keys()
    submitted = {span.context.span_id for span in named(spans, "submit mail")}
    links = {link.context.span_id for span in handled.values() for link in span.links}
    assert submitted <= links


@pytest.mark.alike
def test_every_kind_of_queue_reports_spans(
    client: redis.Redis, provider: TracerProvider, spans: Spans
) -> None:
    telemetry = Telemetry(provider)
    later = telemetry.queue(DelaySet(client, "later"))
    later.schedule([("e1", b"x")], after=0)
    fair = telemetry.queue(FairQueue(client, "fair"))
    fair.submit("acme", [b"x", b"y"])

    def handle(work: Work) -> None:
        raise Reject("no")

    Worker([later, fair], telemetry.handler(handle), burst=True).run()
    counts = [
        (span.name, (span.attributes or {}).get("messaging.batch.message_count"))
        for span in spans()
        if span.kind.name == "PRODUCER"
    ]
    assert counts == [("schedule later", 1), ("submit fair", 2)]
    for name, number in (("later", 1), ("fair", 2)):
        handled = named(spans, f"handle {name}")
        assert [(span.attributes or {}).get("error.type") for span in handled] == [
            "Reject"
        ] * number
        taken = {span.context.span_id for span in named(spans, f"take {name}")}
        assert {link.context.span_id for span in handled for link in span.links} == taken


@pytest.mark.alike
def test_a_refused_submission_is_an_error_without_its_message(
    client: redis.Redis, provider: TracerProvider, spans: Spans
) -> None:
    queue = Telemetry(provider).queue(RequestQueue(client, "mail"))
    queue.submit([b"x"], id="r1")
    with pytest.raises(Exists):
        queue.submit([b"other"], id="r1")
    *_, refused = spans()
    assert (refused.attributes or {})["error.type"] == "Exists" and not refused.events
    assert refused.status.status_code.name == "ERROR" and refused.status.description is None


async def _submitted(url: str, provider: TracerProvider) -> str | None:
    client = aconnect(url)
    queue = Telemetry(provider).queue(RequestQueue(client, "mail"))
    await queue.submit([b"x"], id="r1")
    found = await queue.traceparent("r1")
    await client.aclose()
    return found


@pytest.mark.alike
def test_an_async_producer_reports_spans(url: str, provider: TracerProvider, spans: Spans) -> None:
    found = asyncio.run(_submitted(url, provider))
    (span,) = named(spans, "submit mail")
    assert found is not None
    assert found.startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-")


@pytest.mark.alike
def test_a_producer_may_pass_a_trace_context_itself(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1", traceparent=TRACEPARENT)
    assert queue.submit([b"x"], id="r1").word == "same"
    assert queue.traceparent("r1") == TRACEPARENT
    queue.submit([b"x"], id="r2")
    assert queue.traceparent("r2") is None and queue.traceparent("nothing") is None
    with pytest.raises(BadInput, match="no W3C trace context"):
        queue.submit([b"x"], id="r3", traceparent="00-1-2-3")


@pytest.mark.alike
def test_without_telemetry_the_server_gets_no_more_commands(
    client: redis.Redis, provider: TracerProvider
) -> None:
    def commands(telemetry: Telemetry | None) -> dict[str, int]:
        client.flushall()
        queue, handler = RequestQueue(client, "mail"), None
        if telemetry:
            queue, handler = telemetry.queue(queue), telemetry.handler(lambda work: None)
        queue.submit([b"x"] * 20, id="r1")
        client.config_resetstat()
        Worker(queue, handler or (lambda work: None), burst=True, random=lambda: 1.0).run()
        stats: Any = client.info("commandstats")
        names = ("evalsha", "hget")
        return {name: stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names}

    plain, traced = commands(None), commands(Telemetry(provider))
    assert plain["evalsha"] == traced["evalsha"]
    assert traced["hget"] == plain["hget"] + 1, "one read of the request's trace context"


@pytest.mark.slow
def test_the_sdk_of_opentelemetry_is_loaded_only_where_it_is_used() -> None:
    """Not by a command that doesn't report; a handler may still switch on redis-py's metrics."""
    ours = (
        "; from redisq_ops.cli.redis_import import import_redis; import_redis()"
        "; import redisq_ops, redisq_ops.core.worker, redisq_ops.ops.files.submit"
        "; redisq_ops.Worker, redisq_ops.RequestQueue, redisq_ops.connect"
        "; print(*(name for name in sys.modules if 'telemetry.sdk' in name))"
    )
    metrics = (
        "; from opentelemetry import metrics; from opentelemetry.sdk.metrics import MeterProvider"
        "; metrics.set_meter_provider(MeterProvider()); import redis.observability as its"
        "; its.get_observability_instance().init(its.OTelConfig())"
    )
    for words in (ours + metrics, "; sys.modules['opentelemetry'] = None" + ours):
        done = subprocess.run(
            [sys.executable, "-c", "import sys" + words], capture_output=True, check=True, text=True
        )
        assert done.stdout.split() == []


def test_a_missing_package_is_named(redisq: Redisq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "redisq_ops.telemetry", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delattr("redisq_ops.telemetry", raising=False)
    words = ("work", "--exec", "true", "--telemetry", "--burst")
    assert "pip install redisq-ops[otel]" in redisq.refusal(*words, code=2)


def test_a_missing_exporter_is_named(redisq: Redisq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nonsense")
    words = ("work", "--exec", "true", "--telemetry", "--burst")
    assert "no exporter 'nonsense'" in redisq.refusal(*words, code=2)
