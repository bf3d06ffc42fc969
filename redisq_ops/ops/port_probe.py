"""Finds out whether a port speaks TLS, after a client failed to connect to it."""

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
class TlsMismatch:
    """A port that speaks TLS where the URL says it does not, or the reverse."""

    tls: bool
    """whether the port speaks TLS"""
    url: str
    """the right form of the URL, without host and user"""


def tls_mismatch(url: str) -> TlsMismatch | None:
    """Probe the first host of a URL; None if the port speaks what the URL says, or is unknown.

    The probe sends a greeting or a TLS handshake without checking the certificate, and no secret.
    """
    try:
        parts = urlsplit(url)
        first = urlsplit(f"//{parts.netloc.rpartition('@')[2].partition(',')[0]}")
        host, port = first.hostname or "127.0.0.1", first.port
        wants_tls = asked_with_tls(url)
    except (ValueError, BadInput):
        return None
    scheme, plus, mode = parts.scheme.partition("+")
    if scheme not in ("redis", "rediss", "valkey", "valkeys"):
        return None
    address = (host, port or (PORT if mode == "sentinel" else 6379))
    if not (greets(address) if wants_tls else _speaks_tls(address)):
        return None
    is_secure = scheme in ("rediss", "valkeys")
    with_tls, plain = (scheme, scheme[:-1]) if is_secure else (f"{scheme}s", scheme)
    if mode == "sentinel" and wants_tls and is_secure:
        # The Sentinel has no TLS, but the servers behind it may have.
        return TlsMismatch(False, f"{scheme}+sentinel://…?sentinel_tls=no")
    return TlsMismatch(not wants_tls, f"{plain if wants_tls else with_tls}{plus}{mode}://…")


def _speaks_tls(address: tuple[str, int]) -> bool:
    """Whether a handshake succeeds; a server that wants a client certificate complains later."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        suppress(OSError),
        socket.create_connection(address, GREETING_S) as connection,
        context.wrap_socket(connection, server_hostname=address[0]),
    ):
        return True
    return False
