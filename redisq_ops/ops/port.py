"""What a server's port speaks, asked once a client could not make itself understood there."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from urllib.parse import urlsplit

from redisq_ops.core.lines import GREETING_S, greets


def other_scheme(url: str) -> str | None:
    """The scheme to write, where the port speaks TLS and the URL's doesn't, or the reverse.

    None: as the URL says, or nobody can tell. Of several hosts the first is asked. Nothing of a
    secret is sent: a greeting, or a handshake without a look at the certificate.
    """
    try:
        parts = urlsplit(url)
        first = urlsplit(f"//{parts.netloc.rpartition('@')[2].partition(',')[0]}")
        host, port = first.hostname or "127.0.0.1", first.port
    except ValueError:
        return None
    scheme, plus, mode = parts.scheme.partition("+")
    if scheme not in ("redis", "rediss", "valkey", "valkeys"):
        return None
    at = (host, port or (26379 if mode == "sentinel" else 6379))
    if scheme in ("rediss", "valkeys"):
        other = scheme[:-1] if greets(at) else None
    else:
        other = f"{scheme}s" if _shakes_hands(at) else None
    return None if other is None else f"{other}{plus}{mode}"


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
