"""Makes clients from URLs, with time-outs and retries that suit queues.

redis-py 8 waits 5 s on a socket, opens at most 100, and sends a command again up to ten times. If
it is a blocking one, the server may give an element to a dead socket. Here a command is sent again
twice, quickly: every change of ours is safe to send twice. Workers send blocking commands on a
connection that never sends one again (`core.worker.wake_up`).

URLs: ``redis://`` ``rediss://`` ``unix://``, the same with ``valkey``; ``…+cluster://`` for a
Cluster, ``…+sentinel://host:26379,host2/mymaster`` for Sentinel (see `sentinels`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, parse_qsl, urlsplit

import redis
import redis.asyncio as aredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import ConstantBackoff
from redis.cluster import LoadBalancingStrategy
from redis.driver_info import DriverInfo
from redis.exceptions import RedisClusterException, RedisError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry
from redis.sentinel import Sentinel

from ... import __version__
from ..model.bounded_read import bounded_read
from ..model.errors import BadInput
from .cluster import AsyncCluster, ClusterClient, ReplicaCluster, checked
from .connection import NodePool, mended
from .operation import AsyncClient, BlockingClient
from .sentinel import OWN, Sentinels, asked_with_tls
from .server_errors import translate
from .url import check_database, check_options, masked_url

DEFAULT_URL = "redis://127.0.0.1:6379/0"
_RESENDS = 2
_TIMEOUT = 10.0
_CONNECTIONS = 1_000  # each waiter holds one, and needs another for a moment
_Single = TypeVar("_Single", redis.Redis, aredis.Redis)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's URL, user name, password and TLS files; its text never shows a password."""

    url: str = DEFAULT_URL
    password: str | None = None
    username: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None

    @classmethod
    def from_environment(
        cls, url: str | None, environment: Mapping[str, str] = os.environ
    ) -> ServerAddress:
        """From ``url`` or ``REDIS_URL``, with secrets from ``REDISQ_PASSWORD`` and the like.

        Raises `BadInput` where ``REDISQ_PASSWORD_FILE`` can't be read.
        """
        password = environment.get("REDISQ_PASSWORD")
        if path := environment.get("REDISQ_PASSWORD_FILE"):
            try:
                with open(path, "rb") as file:
                    password = bounded_read(file, f"REDISQ_PASSWORD_FILE {path}").decode().strip()
            except OSError as error:
                raise BadInput(f"REDISQ_PASSWORD_FILE: {error.strerror}: {path}") from error
            except UnicodeDecodeError:  # its text quotes the content
                raise BadInput(f"REDISQ_PASSWORD_FILE: not UTF-8 text: {path}") from None
        return cls(
            url=url or environment.get("REDIS_URL") or DEFAULT_URL,
            password=password,
            username=environment.get("REDISQ_USERNAME"),
            tls_ca=environment.get("REDISQ_TLS_CA"),
            tls_cert=environment.get("REDISQ_TLS_CERT"),
            tls_key=environment.get("REDISQ_TLS_KEY"),
            sentinel_username=environment.get("REDISQ_SENTINEL_USERNAME"),
            sentinel_password=environment.get("REDISQ_SENTINEL_PASSWORD"),
        )

    def __str__(self) -> str:
        return masked_url(self.url)

    def __repr__(self) -> str:
        return f"ServerAddress({str(self)!r})"


def connect(
    target: ServerAddress | str = DEFAULT_URL, role: str = "library", *, replica: bool = False
) -> BlockingClient:
    """Make a blocking client for queues. It connects at the first operation.

    ``target``: a URL: ``redis://``, ``rediss://`` (TLS), ``unix://``, ``redis+cluster://`` or
    ``redis+sentinel://host:26379,host2/mymaster``; or a `ServerAddress`. ``role`` is shown by
    ``CLIENT LIST`` as ``redisq/<version>/<role>``. ``replica``: read from replicas (Cluster,
    Sentinel), which may be behind. Raises `BadInput` for a bad URL; on a Cluster, which it asks for
    its slots, `Unreachable`.
    """
    target = ServerAddress(target) if isinstance(target, str) else target
    client = _connected(target, role, replica)
    vars(client)["redisq_address"] = target
    return client


def _connected(target: ServerAddress, role: str, replica: bool) -> BlockingClient:
    mode, url, options = _dissect(target, role)
    options["retry"] = Retry(ConstantBackoff(0.03), _RESENDS)
    with _translated(target):
        if mode == "cluster":
            options.pop("retry")  # the cluster client counts its own attempts per node
            options["connection_pool_class"] = NodePool
            if replica:
                options["load_balancing_strategy"] = LoadBalancingStrategy.ROUND_ROBIN_REPLICAS
                return ReplicaCluster.from_url(checked(url, blocking=True), **options)
            return ClusterClient.from_url(checked(url, blocking=True), **options)
        if mode == "sentinel":
            primary: redis.Redis = _from_sentinel(Sentinel, target, url, options, replica)
            return primary
        return mended(_known(redis.Redis.from_url(url, **options)))


def set_prefix(client: BlockingClient | AsyncClient, prefix: str) -> None:
    """Note what the keys of this client's queues begin with, where they aren't told."""
    vars(client)["redisq_prefix"] = prefix


def aconnect(target: ServerAddress | str = DEFAULT_URL, role: str = "library") -> AsyncClient:
    """Make an asyncio client: the operations of its queues are awaited. Otherwise as `connect`."""
    target = ServerAddress(target) if isinstance(target, str) else target
    mode, url, options = _dissect(target, role)
    options["retry"] = AsyncRetry(ConstantBackoff(0.03), _RESENDS)
    with _translated(target):
        if mode == "cluster":
            options.pop("retry")
            return AsyncCluster.from_url(checked(url), **options)
        if mode == "sentinel":
            primary: aredis.Redis = _from_sentinel(AsyncSentinel, target, url, options)
            return primary
        return mended(_known(aredis.Redis.from_url(url, **options)))


def aconnect_beside(client: BlockingClient, role: str = "library") -> AsyncClient:
    """Make an asyncio client of the server of a blocking one, which `connect` made, with its
    prefix. Raises `BadInput` for another client: its server isn't known here."""
    if (address := vars(client).get("redisq_address")) is None:
        raise BadInput("awaited calls want a client made by connect(): they go to its server")
    beside = aconnect(address, role)
    if (prefix := vars(client).get("redisq_prefix")) is not None:
        set_prefix(beside, prefix)
    return beside


_FEW_ROUND_TRIPS: Final = frozenset({"top"})
"""roles that connect in as few round trips as possible: somebody waits, perhaps far away"""
_FEW_GREETINGS: Final[Mapping[str, Any]] = {
    # Each saves a round trip: redis-py would send its name, but the connection has a name already,
    # and ask for news of maintenance, but a lost connection is opened again anyway.
    "driver_info": DriverInfo(name="", lib_version=""),
    "maint_notifications_config": MaintNotificationsConfig(enabled=False),
}


def _dissect(target: ServerAddress, role: str) -> tuple[str, str, dict[str, Any]]:
    if not isinstance(target, ServerAddress):
        raise BadInput(f"connect takes a URL or a ServerAddress, not {type(target).__name__}")
    try:
        parts = urlsplit(target.url)
    except ValueError as error:
        raise _unreadable(target, error) from None
    scheme, _, mode = parts.scheme.partition("+")
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(scheme, scheme)
    if scheme not in {"redis", "rediss", "unix"} or mode not in {"", "cluster", "sentinel"}:
        raise BadInput(
            f"{target}: not a URL of a server: write redis://HOST:6379, or one that begins with "
            "rediss:// unix:// redis+sentinel:// redis+cluster://"
        )
    for option in OWN if mode != "sentinel" else ():
        if option in parse_qs(parts.query, keep_blank_values=True):
            raise BadInput(f"{option} is for …+sentinel:// URLs")
    try:
        check_options(parts, OWN)
        if mode != "sentinel" and scheme != "unix":
            check_database(parts.path)
    except ValueError as error:
        raise _unreadable(target, error) from None
    options: dict[str, Any] = {
        "protocol": 3,
        "socket_timeout": _TIMEOUT,
        "socket_connect_timeout": 3.0,
        "client_name": f"redisq/{__version__}/{role}",
        "max_connections": _CONNECTIONS,
    }
    if "lib_" not in parts.query:
        # redis-py would read its version from the files of its installation, 6 ms a connection.
        options["driver_info"] = DriverInfo(lib_version=redis.__version__)
    if role in _FEW_ROUND_TRIPS:
        options.update(_FEW_GREETINGS)
    if mode == "" and "socket_timeout" in parse_qs(parts.query):
        options.pop("socket_timeout")
    if target.password is not None:
        options["password"] = target.password
    if target.username is not None:
        options["username"] = target.username
    if scheme == "rediss" or (mode == "sentinel" and asked_with_tls(target.url)):
        for option, setting in _FILES.items():
            if path := getattr(target, setting):
                options[option] = path
        _check_certificates(options | dict(parse_qsl(parts.query)))
    # (`urlunsplit` makes unix:/run/… of unix:///run/…, which redis-py refuses.)
    return mode, f"{scheme}{target.url[len(parts.scheme) :]}", options


_FILES = {"ssl_ca_certs": "tls_ca", "ssl_certfile": "tls_cert", "ssl_keyfile": "tls_key"}


def _check_certificates(options: Mapping[str, Any]) -> None:
    """Raise `BadInput` for files that can't be read; redis-py would report a lost connection."""
    for option, setting in _FILES.items():
        if path := options.get(option):
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise BadInput(f"{setting}: {error.strerror}: {path}") from error
    if options.get("ssl_keyfile") and not options.get("ssl_certfile"):
        raise BadInput("tls_key is the key of a certificate: name that too (tls_cert)")


@contextmanager
def _translated(target: ServerAddress) -> Iterator[None]:
    try:
        yield
    except (RedisError, RedisClusterException) as error:
        raise translate(error) from error
    except ValueError as error:
        raise _unreadable(target, error) from None


def _unreadable(target: ServerAddress, error: ValueError) -> BadInput:
    """The error for a bad URL; without the original message where that may quote the password."""
    try:
        cut = "@" in target.url and "@" not in urlsplit(target.url).netloc
    except ValueError:
        cut = True
    if not cut:
        # urllib quotes the text in the port's place, which may be a password.
        port = str(error).startswith("Port could not be cast")
        return BadInput(f"{target}: {'its port is not a number' if port else error}")
    return BadInput(
        "the server's URL can't be read: [ ] / ? # @ and what isn't ASCII are percent-encoded "
        "in a password, or it is given by REDISQ_PASSWORD"
    )


def _known(client: _Single) -> _Single:
    """Make a connection without opening it: redis-py reports unknown options only there."""
    pool: Any = client.connection_pool
    try:
        # Kept: a Ctrl+C is lost if it comes while the garbage collector finalizes a connection.
        pool.never_opened = pool.connection_class(**pool.connection_kwargs)
    except TypeError as error:
        raise ValueError(str(error).rpartition("argument ")[2] + " is no option") from error
    return client


def _from_sentinel(
    make: Any, target: ServerAddress, url: str, options: dict[str, Any], replica: bool = False
) -> Any:
    there = Sentinels.of(url)
    if there.username is None:
        there = replace(there, username=target.sentinel_username)
    if there.password is None:
        there = replace(there, password=target.sentinel_password)
    client, asked = there.client(make, options, replica)
    for one in asked.sentinels:
        mended(one)
    return mended(_known(client))
