"""Connections as redis-py makes them, and what has to be otherwise."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any, TypeVar

import redis
import redis.asyncio as aredis
from redis.connection import HiredisRespSerializer
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ..model.errors import Unreachable

C = TypeVar("C", redis.Redis, aredis.Redis)
PATIENCE_S = 2.0
"""with who doesn't answer a TLS handshake, until it is asked whether it speaks TLS at all"""
HANDSHAKE_S = 10.0
"""a handshake's time-out, where commands have none"""
GREETING_S = 0.5
_NO_TLS = "WRONG_VERSION_NUMBER"
"""OpenSSL's word for an answer that is none of TLS"""
_GREETS = frozenset({"HELLO", "SELECT"})


class Packer(HiredisRespSerializer):
    """Sends the numbers of redis-py's own greeting as text, as `Call.outgoing` does with ours.

    hiredis would make text of them itself, and a Ctrl+C just then kills the interpreter.
    """

    def pack(self, *args: Any) -> Any:
        if args[0] in _GREETS:
            args = tuple(str(arg) if isinstance(arg, int) else arg for arg in args)
        return super().pack(*args)


def greets(at: tuple[str, int]) -> bool:
    """Whether it answers a line as a server without TLS does, be it with a refusal."""
    with suppress(OSError), socket.create_connection(at, GREETING_S) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(1) in (b"+", b"-")
    return False


def _speaks_no_tls(at: tuple[str, int]) -> Unreachable:
    return Unreachable(f"can't reach the server: {at[0]}:{at[1]} doesn't answer a TLS handshake")


class _Doubting:
    """A server without TLS may wait for the rest of what a handshake begins with. The time-out is
    as long as a command's, and redis-py tries again, so after a while somebody asks."""

    host: str
    port: int
    socket_timeout: float | None

    def _wrap_socket_with_ssl(self, line: socket.socket) -> Any:
        wrap: Any = super()._wrap_socket_with_ssl  # type: ignore[misc]  # of redis-py
        anew: Any = super(redis.SSLConnection, self)._connect  # type: ignore[misc]
        whole = line.gettimeout() or HANDSHAKE_S
        line.settimeout(min(PATIENCE_S, whole))
        try:
            secure = wrap(line)
        except (TimeoutError, ssl.SSLError) as error:
            at, late = (self.host, self.port), isinstance(error, TimeoutError)
            if (late or _NO_TLS in str(error)) and greets(at):
                raise _speaks_no_tls(at) from RedisTimeoutError(str(error))
            if not late or whole <= PATIENCE_S:
                raise
            line = anew()  # a slow one gets all the time it had
            line.settimeout(whole)
            secure = wrap(line)
        secure.settimeout(self.socket_timeout)
        return secure


class Secure(_Doubting, redis.SSLConnection):
    pass


class SecureMaster(_Doubting, redis.SentinelManagedSSLConnection):
    pass


class _ADoubting:
    """As `_Doubting`; here the time-out of a handshake is the connection's."""

    host: str
    port: int

    async def connect_check_health(self, *given: Any, **named: Any) -> None:
        whole: Any = super().connect_check_health  # type: ignore[misc]  # of redis-py
        try:
            await whole(*given, **named)
        except (RedisConnectionError, RedisTimeoutError) as error:
            at, late = (self.host, self.port), isinstance(error, RedisTimeoutError)
            if (late or _NO_TLS in str(error)) and await asyncio.to_thread(greets, at):
                raise _speaks_no_tls(at) from error
            raise


class ASecure(_ADoubting, aredis.SSLConnection):
    pass


class ASecureMaster(_ADoubting, aredis.SentinelManagedSSLConnection):
    pass


_OURS: dict[Any, Any] = {
    redis.SSLConnection: Secure,
    redis.SentinelManagedSSLConnection: SecureMaster,
    aredis.SSLConnection: ASecure,
    aredis.SentinelManagedSSLConnection: ASecureMaster,
}


def mended(client: C) -> C:
    """A client of one server, or by Sentinel, that was just made, with connections of ours."""
    pool: Any = client.connection_pool
    pool.connection_class = _OURS.get(pool.connection_class, pool.connection_class)
    if isinstance(client, redis.Redis):
        pool.connection_kwargs["command_packer"] = Packer()
    return client


class NodePool(redis.ConnectionPool):
    """The same of one node: a cluster's client makes them itself, of options it knows."""

    def __init__(self, connection_class: Any = redis.Connection, **options: Any) -> None:
        ours = _OURS.get(connection_class, connection_class)
        super().__init__(ours, command_packer=Packer(), **options)
