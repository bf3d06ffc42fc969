"""What a server's port speaks, asked once a client could not make itself understood there."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.connection import GREETING_S, greets
from redisq_ops.core.redis.sentinel import PORT, asked_with_tls


@dataclass(frozen=True, slots=True)
class Port:
    """One that doesn't speak what the URL says."""

    tls: bool
    """what it speaks"""
    url: str
    """what to write, but for the names in it"""


def other(url: str) -> Port | None:
    """What to write where the port speaks TLS and the URL doesn't say so, or the reverse.

    None: as the URL says, or nobody can tell. Of several hosts the first is asked. Nothing of a
    secret is sent: a greeting, or a handshake without a look at the certificate.
    """
    try:
        parts = urlsplit(url)
        first = urlsplit(f"//{parts.netloc.rpartition('@')[2].partition(',')[0]}")
        host, port = first.hostname or "127.0.0.1", first.port
        wanted = asked_with_tls(url)  # of one server: as its scheme says
    except (ValueError, BadInput):
        return None
    scheme, plus, mode = parts.scheme.partition("+")
    if scheme not in ("redis", "rediss", "valkey", "valkeys"):
        return None
    at = (host, port or (PORT if mode == "sentinel" else 6379))
    if not (greets(at) if wanted else _shakes_hands(at)):
        return None
    secured = scheme in ("rediss", "valkeys")
    with_tls, plain = (scheme, scheme[:-1]) if secured else (f"{scheme}s", scheme)
    if mode == "sentinel" and wanted and secured:
        return Port(False, f"{scheme}+sentinel://…?sentinel_tls=no")  # the servers may have it
    return Port(not wanted, f"{plain if wanted else with_tls}{plus}{mode}://…")


def _shakes_hands(at: tuple[str, int]) -> bool:
    """Whether it is a server of TLS; one that wants a certificate of ours says so later."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        suppress(OSError),
        socket.create_connection(at, GREETING_S) as connection,
        context.wrap_socket(connection, server_hostname=at[0]),
    ):
        return True
    return False
