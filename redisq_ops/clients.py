"""Clients for queues, configured as the command line is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.model.errors import BadInput
from .core.redis import client as made

if TYPE_CHECKING:
    from .core.redis.operation import AsyncClient, BlockingClient
    from .ops.config.config import Config


def connect(
    url: str | None = None,
    *,
    context: str | None = None,
    prefix: str | None = None,
    role: str = "library",
    replica: bool = False,
) -> BlockingClient:
    """Make a blocking client for queues. It connects at the first operation.

    ``url``: ``redis://``, ``rediss://`` (TLS), ``unix://``, ``redis+cluster://`` or
    ``redis+sentinel://host:26379,host2/mymaster``. ``prefix``: what all keys begin with; queues on
    the client have it. ``context``: one of the configuration file. ``role`` is shown by ``CLIENT
    LIST`` as ``redisq/<version>/<role>``. ``replica``: read from replicas (Cluster, Sentinel),
    which may be behind.

    As on the command line, the first that has a value wins, for each setting by itself: an
    argument here; the context (``context``, or ``REDISQ_CONTEXT``); the environment
    (``REDIS_URL``, ``REDISQ_PREFIX``, ``REDISQ_PASSWORD`` …); the configuration file; the default
    (``redis://127.0.0.1:6379/0``, ``redisq``). ``redisq config`` shows where each comes from. What
    guards operators' changes (``read_only``, ``max_entries`` …) doesn't hold for the library.

    Raises `BadInput` for a bad argument or configuration; on a Cluster, which it asks for its
    slots, `Unreachable`.

        queue = RequestQueue(connect(), "mail")
    """
    config = _configured(url, context, prefix, role)
    client = made.connect(config.server_address(), role, replica=replica)
    made.set_prefix(client, config.prefix)
    return client


def aconnect(
    url: str | None = None,
    *,
    context: str | None = None,
    prefix: str | None = None,
    role: str = "library",
) -> AsyncClient:
    """Make an asyncio client: the operations of its queues are awaited. Otherwise as `connect`.

    queue = RequestQueue(aconnect(), "mail")
    await queue.submit([b"one"], id="monday")
    """
    config = _configured(url, context, prefix, role)
    client = made.aconnect(config.server_address(), role)
    made.set_prefix(client, config.prefix)
    return client


def _configured(url: str | None, context: str | None, prefix: str | None, role: str) -> Config:
    from .ops.config.config import load

    given = {"url": url, "context": context, "prefix": prefix, "role": role}
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise BadInput(f"{name} must be a str, not {type(value).__name__}")
    return load({"url": url, "prefix": prefix}, context)
