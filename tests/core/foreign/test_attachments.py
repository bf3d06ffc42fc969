"""What programs keep beside an entry's record: read when the entry is opened, and within bounds."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign import attachments
from redisq_ops.core.model.attachment import Attachment
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq
from .specimens import SPECIMENS

pytestmark = pytest.mark.slow

Client = Any
KEY = "bull:mail:good0"
NONE = Attachment("earlier runs", b"[]")


def kept(client: Client, kind: str, id: str) -> dict[str, Attachment]:
    queue = run(client, Deployment(client).queue(SPECIMENS[kind].queue))
    return {one.name: one for one in queue.attachments(queue.get(id))}


@pytest.mark.alike
@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("rq", b"0"),
        ("arq", b"0"),
        ("asynq", b'{"boxes":2}'),
        ("bullmq", b'{"what":"good0","region":"eu"}'),
        ("bull", b'{"what":"good0","region":"eu"}'),
        ("celery", b'"good0"'),
    ],
)
def test_what_a_job_returned_is_shown_with_it_and_not_as_its_payload(
    redisq: Redisq, client: Client, kind: str, result: bytes
) -> None:
    SPECIMENS[kind].fill(client)
    assert kept(client, kind, "good0") == {"result": Attachment("result", result)}
    (row,) = redisq.rows("inspect", f"{SPECIMENS[kind].queue}/good0")
    assert row["result"] == result.decode() and row["payload"] not in (None, row["result"])
    assert row["since_ms"] and (row["run_ms"] is not None or kind in ("celery", "asynq"))


@pytest.fixture
def job(client: Client) -> Client:
    """A completed job of BullMQ's, and what its worker may have written beside it."""
    SPECIMENS["bullmq"].fill(client)
    client.hset(KEY, mapping={"progress": '{"step":2}', "stacktrace": '["Error: a","Error: b"]'})
    client.rpush(f"{KEY}:logs", "begins", "password=hunter2", "ends")
    client.hset(f"{KEY}:processed", "bull:mail:c1", '{"sum":7}')
    client.hset(f"{KEY}:failed", "bull:mail:c2", "no luck")
    return client


@pytest.mark.alike
def test_logs_progress_and_children_are_shown_and_redacted(
    redisq: Redisq, job: Client, configuration: Path
) -> None:
    found = kept(job, "bullmq", "good0")
    assert found["progress"].content == b'{"step":2}'
    assert found["logs"].content.splitlines() == [b"begins", b"password=hunter2", b"ends"]
    assert json.loads(found["children"].content) == {"bull:mail:c1": {"sum": 7}}
    assert json.loads(found["failed children"].content) == {"bull:mail:c2": "no luck"}
    assert found["earlier stack traces"].content == b"Error: a\n\nError: b"
    configuration.write_text('[redact]\nkeys = ["password", "sum"]\n')
    shown = redisq("inspect", "bullmq:mail/good0")
    assert "begins" in shown and "hunter2" not in shown and '"sum": "***"' in shown
    (row,) = redisq.rows("inspect", "bullmq:mail/good0")
    assert "hunter2" not in json.dumps(row) and len(row["attachments"]) == 5


@pytest.mark.alike
def test_long_logs_and_many_children_are_read_in_part(job: Client) -> None:
    job.rpush(f"{KEY}:logs", *(f"line {n}" for n in range(5_000)))
    job.hset(f"{KEY}:processed", mapping={f"bull:mail:k{n}": "x" * 99 for n in range(2_000)})
    found = kept(job, "bullmq", "good0")
    lines = found["logs"].content.splitlines()
    assert lines[-1] == b"line 4999" and len(lines) == attachments.LINES
    assert found["logs"].left_out == "4,003 earlier lines"
    assert len(json.loads(found["children"].content)) == attachments.MEMBERS
    assert found["children"].left_out == "1,901 more"


@pytest.mark.alike
@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("result", lambda client, long: client.hset(KEY, "returnvalue", long)),
        ("progress", lambda client, long: client.hset(KEY, "progress", long)),
        ("logs", lambda client, long: client.rpush(f"{KEY}:logs", long)),
        ("children", lambda client, long: client.hset(f"{KEY}:processed", "bull:mail:c1", long)),
        (
            "earlier stack traces",
            lambda client, long: client.hset(KEY, "stacktrace", f'["{long}"]'),
        ),
    ],
)
def test_what_is_too_long_is_left_out_and_said(
    job: Client, name: str, write: Callable[[Client, str], object]
) -> None:
    write(job, "x" * (attachments.MOST + 1))
    found = kept(job, "bullmq", "good0")[name]
    assert found.left_out and len(found.content) < 1000


@pytest.mark.alike
def test_what_cannot_be_read_hides_nothing_else(redisq: Redisq, job: Client) -> None:
    job.delete(f"{KEY}:logs")
    job.set(f"{KEY}:logs", 1)
    (row,) = redisq.rows("inspect", "bullmq:mail/good0")
    assert row["payload"] and row["result"] is None
    assert "logs" in row["attachments"][0]["left_out"]


@pytest.mark.alike
def test_meta_and_earlier_runs_of_rq(client: Client) -> None:
    SPECIMENS["rq"].fill(client)
    client.hset("rq:job:good0", "meta", pickle.dumps({"step": 2, "at": redis.Redis}))
    packed = base64.b64encode(pickle.dumps([1, 2]))
    client.xadd("rq:results:good0", {"type": 1, "return_value": packed})
    found = kept(client, "rq", "good0")
    assert found["result"].content == b"[1, 2]"
    assert json.loads(found["meta"].content)["step"] == 2
    (run,) = json.loads(found["earlier runs"].content)
    assert (run["outcome"], run["error"]) == ("successful", None) and run["ended_ms"] > 0
    failed = {"type": 4, "exc_string": base64.b64encode(zlib.compress(b"ValueError: no luck"))}
    for id, runs in (("w0", 1), ("bad0", 0)):  # the error of a failed job is its latest run
        client.delete(f"rq:results:{id}")
        client.xadd(f"rq:results:{id}", failed)
        assert len(json.loads(kept(client, "rq", id).get("earlier runs", NONE).content)) == runs
    client.hset("rq:job:bad0", "meta", b"\x80\x04not a pickle")
    assert kept(client, "rq", "bad0")["meta"].left_out


@pytest.mark.alike
def test_retries_of_a_failed_job_of_horizon(client: Client) -> None:
    (id, *_) = SPECIMENS["laravel"].fill(client)["dead"]
    client.hset(f"laravel_horizon:{id}", mapping={"context": '{"user":7}', "retried_by": "[]"})
    found = kept(client, "laravel", id)
    assert (found["context"].content, found["retries"].content) == (b'{"user":7}', b"[]")
