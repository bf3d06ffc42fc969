"""Connections: redis-py's, with corrections for TLS handshakes and for Ctrl+C."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import redis
import redis.asyncio as aredis
from hiredis import pack_command
from redis.connection import HiredisRespSerializer
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ..model.errors import Unreachable
from .cut_replies import AsyncCuttingParser, CuttingParser

C = TypeVar("C", redis.Redis, aredis.Redis)
PATIENCE_S = 2.0
"""s without a reply to a TLS handshake before we check whether the server uses TLS at all"""
HANDSHAKE_S = 10.0
"""s; time-out of a handshake, where commands have none"""
GREETING_S = 0.5
_NO_TLS = "WRONG_VERSION_NUMBER"
"""OpenSSL's reason for a reply that isn't TLS"""
_GREETS = frozenset({"HELLO", "SELECT"})


class Packer(HiredisRespSerializer):
    """Sends numbers in redis-py's own first commands as text, as `Call.outgoing` does in ours.

    hiredis would convert them itself, and Ctrl+C during that kills the interpreter.
    """

    def pack(self, *args: Any) -> Any:
        if args[0] == "EVALSHA":  # most of our calls; redis-py looks for a bytearray in them first
            try:
                return [_script_call(args)]
            except (TypeError, ValueError, IndexError):  # no call of ours
                return super().pack(*args)
        if args[0] in _GREETS:
            args = tuple(str(arg) if isinstance(arg, int) else arg for arg in args)
        return super().pack(*args)


def _script_call(words: tuple[Any, ...]) -> bytes:
    """An EVALSHA as it is sent. Its keys are the same in all calls for one queue."""
    end = 3 + int(words[2])
    return b"".join((b"*%d\r\n" % len(words), _beginning(words[:end]), _uncounted(words[end:])))


@lru_cache(512)
def _beginning(words: tuple[str | bytes, ...]) -> bytes:
    return bytes(_uncounted(words))


def _uncounted(words: tuple[Any, ...]) -> memoryview:
    """Words as hiredis packs them, without the line in front that says how many there are."""
    packed = pack_command(words)
    return memoryview(packed)[packed.index(b"\n") + 1 :]


def greets(at: tuple[str, int]) -> bool:
    """Whether the server replies to a plain PING, be it with an error: it has no TLS."""
    with suppress(OSError), socket.create_connection(at, GREETING_S) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(1) in (b"+", b"-")
    return False


def _speaks_no_tls(at: tuple[str, int]) -> Unreachable:
    return Unreachable(f"can't reach the server: {at[0]}:{at[1]} doesn't answer a TLS handshake")


class _Doubting:
    """Checks, when a TLS handshake takes long, whether the server has no TLS.

    Such a server waits for the rest of the handshake, and we would wait for its reply: for a
    command's time-out, and again each time that redis-py retries.
    """

    host: str
    port: int
    socket_timeout: float | None

    def _wrap_socket_with_ssl(self, line: socket.socket) -> Any:
        wrap: Any = super()._wrap_socket_with_ssl  # type: ignore[misc]  # of the class mixed in
        anew: Any = super(redis.SSLConnection, self)._connect  # type: ignore[misc]  # likewise
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
            line = anew()  # a slow server gets the whole time-out
            line.settimeout(whole)
            secure = wrap(line)
        secure.settimeout(self.socket_timeout)
        return secure


class Secure(_Doubting, redis.SSLConnection):
    pass


class SecureMaster(_Doubting, redis.SentinelManagedSSLConnection):
    pass


class _ADoubting:
    """As `_Doubting` for asyncio; here the handshake has the connection's time-out."""

    host: str
    port: int

    async def connect_check_health(self, *given: Any, **named: Any) -> None:
        whole: Any = super().connect_check_health  # type: ignore[misc]  # likewise
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
    """Make a new client (of one server, or from a Sentinel) use these connections."""
    pool: Any = client.connection_pool
    pool.connection_class = _OURS.get(pool.connection_class, pool.connection_class)
    if isinstance(client, redis.Redis):
        pool.connection_kwargs |= {"command_packer": Packer(), "parser_class": CuttingParser}
    else:
        pool.connection_kwargs["parser_class"] = AsyncCuttingParser
    return client


class NodePool(redis.ConnectionPool):
    """The pool of one cluster node with these connections; the cluster client creates it."""

    def __init__(self, connection_class: Any = redis.Connection, **options: Any) -> None:
        ours = _OURS.get(connection_class, connection_class)
        super().__init__(ours, command_packer=Packer(), parser_class=CuttingParser, **options)
