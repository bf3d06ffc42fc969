"""Clients of a Cluster as redis-py makes them, and what has to be otherwise."""

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

# The blocking client passes over whatever it doesn't know, the other one takes what no text can be.
_OPTIONS = {
    "host", "port", "db", "username", "password", "client_name", "protocol", "max_connections",
    "socket_timeout", "socket_connect_timeout", "socket_keepalive", "socket_read_size",
    "ssl_ca_certs", "ssl_ca_data", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile",
    "ssl_check_hostname",
}  # fmt: skip
_BLOCKING = {"ssl_ca_path", "ssl_password"}


def checked(url: str, *, blocking: bool = False) -> str:
    """The URL, of ``redis://`` or ``rediss://``, if a Cluster's client can do what it says."""
    parse: Any = parse_url  # untyped in redis-py, as much of it is
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
    """Goes where an ASK leads, also to a node that has no slot yet."""

    def get_node(self, host: Any = None, port: Any = None, node_name: Any = None) -> Any:
        """By name redis-py asks for the node that an ASK named. A new one isn't among those it
        learned of: they are told of by their slots, and this one's first is on its way there."""
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
        pipe.get_node = self.get_node  # to redis-py a pipeline is another client
        return pipe


class ReplicaCluster(ClusterClient):
    """Asks replicas also where the node is chosen by us, as a pipeline's is."""

    def get_node_from_key(self, key: Any, replica: bool = True) -> Any:
        found: Any = super().get_node_from_key
        return found(key, replica) or found(key, False)


class AsyncCluster(aredis.RedisCluster):
    """As `ClusterClient`. Begins also where the master of the first slots is gone, of which
    redis-py asks too much."""

    async def initialize(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().initialize(*args, **options)
        except (RedisConnectionError, RedisTimeoutError):
            for node in self.get_primaries():  # the slots are known: only COMMAND wasn't answered
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
    """A node to which an ASK led.

    ASKING is for the next command of its own connection. redis-py sends it as a command like any
    other, then the command; each takes the connection that was free for longest, so with two of
    them, or four, they never meet. Here ASKING waits for the command, and both go together.
    """

    __slots__ = ("_node", "_now")

    def __init__(self, node: ClusterNode) -> None:
        self._node, self._now = node, False

    def __getattr__(self, name: str) -> Any:
        if name in _Asking.__slots__:  # of a copy that isn't filled yet
            raise AttributeError(name)
        return getattr(self._node, name)  # slots that aren't filled here

    def __del__(self, *_: Any) -> None:
        """The connections are the node's: nothing is left open."""

    async def execute_command(self, *args: Any, asking: bool = False, **options: Any) -> Any:
        if args == ("ASKING",):
            self._now = True
            return True
        if asking:  # redis-py puts both together by itself
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
