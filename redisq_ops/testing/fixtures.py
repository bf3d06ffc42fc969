"""Fixtures for pytest: a real server for each test run, emptied for each test.

In ``conftest.py``: ``pytest_plugins = ["redisq_ops.testing.fixtures"]``. Needs
``redisq-ops[embedded]``.

    def test_thumbnails(redisq_client) -> None:
        jobs.connect(redisq_client)
        job = thumbnail.submit("a.png")
        jobs.worker(burst=True).run()
        assert job.result(timeout=0) == Size(200, 100)
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.demo.server import EmbeddedServer


@pytest.fixture(scope="session")
def redisq_server() -> Iterator[str]:
    """The URL of a server that lives as long as the test run."""
    with EmbeddedServer() as server:
        yield server.url


@pytest.fixture
def redisq_client(redisq_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingClient]:
    """A client of the empty server; ``REDIS_URL`` names it as well."""
    monkeypatch.setenv("REDIS_URL", redisq_server)
    with connect(redisq_server) as client:
        client.flushall()
        yield client
