"""Cluster clients: redis-py's, with corrections."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio as aredis
import redis.cluster
from redis.asyncio.cluster import ClusterNode, PipelineCommand
from redis.connection import parse_url
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

# redis-py's blocking client ignores unknown options; its asyncio client accepts some that can't be
# written in a URL.
_OPTIONS = {
    "host",
    "port",
    "db",
    "username",
    "password",
    "client_name",
    "protocol",
    "max_connections",
    "socket_timeout",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_read_size",
    "ssl_ca_certs",
    "ssl_ca_data",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_check_hostname",
}
_BLOCKING = {"ssl_ca_path", "ssl_password"}


def checked(url: str, *, blocking: bool = False) -> str:
    """Return the URL; raises ValueError for options that a cluster client doesn't support."""
    parse: Any = parse_url  # untyped in redis-py
    parts, named = urlsplit(url), parse(url)
    if parts.scheme == "unix":
        raise ValueError("a socket is one server's: write unix://…")
    if named.get("db"):
        secret, _, host = parts.netloc.rpartition("@")
        plain = f"{parts.scheme}+cluster://{'…@' if secret else ''}{host}"
        raise ValueError(f"a Cluster has no database but 0: write {plain}")
    taken = _OPTIONS | _BLOCKING if blocking else _OPTIONS
    for option in named.keys() - {"connection_class"}:
        if option not in taken or (option.startswith("ssl_") and parts.scheme != "rediss"):
            raise ValueError(f"'{option}' is no option")
    return url


class ClusterClient(redis.RedisCluster):
    """Follows an ASK redirection also to a node that has no slots yet."""

    def get_node(self, host: Any = None, port: Any = None, node_name: Any = None) -> Any:
        """Find the node that an ASK names. redis-py knows nodes by their slots only, and a new one
        has none until its first slot has arrived."""
        found: Any = super().get_node
        node = found(host, port, node_name)
        if node is None and node_name:
            make: Any = redis.cluster.ClusterNode
            node = make(*_at(node_name), redis.cluster.PRIMARY)
            node = self.nodes_manager.nodes_cache.setdefault(node.name, node)
        return node

    def pipeline(self, *args: Any, **options: Any) -> Any:
        make: Any = super().pipeline
        pipe = make(*args, **options)
        pipe.get_node = self.get_node  # a pipeline is another client in redis-py
        return pipe


class ReplicaCluster(ClusterClient):
    """Reads from replicas also in pipelines, where we choose the node."""

    def get_node_from_key(self, key: Any, replica: bool = True) -> Any:
        found: Any = super().get_node_from_key
        return found(key, replica) or found(key, False)


class AsyncCluster(aredis.RedisCluster):
    """As `ClusterClient` for asyncio. It also starts while the primary of the first slots is down;
    redis-py needs that node's reply to COMMAND."""

    async def initialize(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().initialize(*args, **options)
        except (RedisConnectionError, RedisTimeoutError):
            for node in self.get_primaries():  # the slots are known: only COMMAND got no reply
                try:
                    await self.commands_parser.initialize(node)
                except (RedisConnectionError, RedisTimeoutError):
                    continue
                self.nodes_manager.default_node = node
                self._initialize = False
                return self
            raise

    def get_node(
        self, host: str | None = None, port: int | None = None, node_name: str | None = None
    ) -> ClusterNode | None:
        node = super().get_node(host, port, node_name)
        if node is None and node_name:
            there = self.nodes_manager
            node = ClusterNode(*_at(node_name), redis.cluster.PRIMARY, **there.connection_kwargs)
            there.set_nodes(there.nodes_cache, {node.name: node})
        return _Asking(node) if node is not None and node_name else node


class _Asking(ClusterNode):
    """A node to which an ASK redirected us.

    ASKING applies to the next command on the same connection. redis-py sends the two one by one,
    each on the connection that was free the longest: with two connections, or four, they never use
    the same one. Here ASKING waits for the command, and both are sent together.
    """

    __slots__ = ("_node", "_now")

    def __init__(self, node: ClusterNode) -> None:
        self._node, self._now = node, False

    def __getattr__(self, name: str) -> Any:
        if name in _Asking.__slots__:  # in a copy that isn't initialized yet
            raise AttributeError(name)
        return getattr(self._node, name)  # attributes that only the node has

    def __del__(self, *_: Any) -> None:
        """Nothing to close: the connections are the node's."""

    async def execute_command(self, *args: Any, asking: bool = False, **options: Any) -> Any:
        if args == ("ASKING",):
            self._now = True
            return True
        if asking:  # redis-py joins both itself
            options["asking"] = True
        now, self._now = self._now, False
        if not now or asking:
            return await self._node.execute_command(*args, **options)
        both = [PipelineCommand(0, "ASKING"), PipelineCommand(1, *args, **options)]
        await self._node.execute_pipeline(both)
        for command in both:
            if isinstance(command.result, Exception):
                raise command.result
        return both[1].result


def _at(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)
