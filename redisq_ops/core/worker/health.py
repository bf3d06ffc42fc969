"""The health endpoint of a worker: answers ``GET /healthz`` for probes and for a
`LeaseReclaimer`, and further pages."""

from __future__ import annotations

import json
import logging
import math
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Lock, Thread
from typing import Any

from ..model.errors import BadInput

Page = Callable[[], tuple[str, bytes]]
"""makes a page: its content type and its body"""
LOOPBACK = "127.0.0.1"
CONNECTIONS = 32
"""connections open at once; a further one closes the one that has been idle the longest"""
PATIENCE_S = 5.0
"""seconds that a caller has to send its request, and as many again to read the answer"""
_LINES = 100
"""lines of a request that are read"""
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
log = logging.getLogger(__name__)


def health_address(text: str) -> tuple[str, int]:
    """Host and port of PORT, on the loopback address, or HOST:PORT; raises `BadInput`."""
    found = parse_address(text if ":" in text else f"{LOOPBACK}:{text}")
    if found is None:
        raise BadInput(f"health address {text!r}: write a port, or host:port")
    return found


def parse_address(name: str) -> tuple[str, int] | None:
    """(host, port) of a consumer that is named by its address; None for other names."""
    found = _ADDRESS.fullmatch(name)
    if found is None or int(found[2]) > 65535:
        return None
    return found[1].strip("[]"), int(found[2])


def answers_to(host_header: str, listens_on: str) -> bool:
    """Whether a request's ``Host`` may name a server that listens there.

    On a loopback address only local names are accepted. Another name is that of a web page in a
    local browser, made to resolve to this machine so that the page can read the answer (DNS
    rebinding). A server that listens for other hosts may have any name.
    """
    host = host_header.rpartition("]")[0] or host_header.partition(":")[0]
    host = host.strip("[").rstrip(".").lower()
    if not is_loopback(listens_on) or host in ("", "localhost", listens_on.lower()):
        return True
    return host.endswith(".localhost") or _is_ip(host)


def is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_ip(host) and ip_address(host).is_loopback)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Endpoint:
    """Listens from construction until `close` and answers ``GET /healthz`` with a line of JSON.

    ``where``: a port, on the loopback address, or ``host:port``; port 0 picks a free one. ``name``:
    the address under which others reach it; None unless a host was given. ``pages``: path
    (``/metrics``) -> a further page.
    """

    def __init__(
        self,
        where: int | str,
        health: Callable[[], dict[str, Any]],
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        text = str(where)
        host, port = health_address(text)
        try:
            self._server = PageServer(host, port, {"/healthz": _as_json(health), **(pages or {})})
        except OSError as error:
            raise BadInput(f"health address {text}: {error.strerror or error}") from error
        named = text.rpartition(":")[0]
        if _is_ip(host) and ip_address(host).is_unspecified:
            named = socket.gethostname()
        self.name = f"{named}:{self._server.port}" if named else None

    @property
    def address(self) -> tuple[str, int]:
        return self._server.host, self._server.port

    def close(self) -> None:
        self._server.close()


def _as_json(health: Callable[[], dict[str, Any]]) -> Page:
    return lambda: ("application/json", json.dumps(health()).encode() + b"\n")


class PageServer(ThreadingTCPServer):
    """Serves pages over HTTP from construction until `close`, a request per connection.

    Raises OSError where the port can't be bound.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.host, self.pages = host, pages
        self._closing: dict[socket.socket, float] = {}
        """open connection -> when it is closed"""
        self._lock = Lock()
        super().__init__((host, port), _Handler)
        self._thread = Thread(
            target=self.serve_forever, args=(0.1,), name="redisq-pages", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self.server_address[1]
        return port

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join(1.0)

    @property
    def open(self) -> int:
        """Connections that are open."""
        return len(self._closing)

    def wait_at_most(self, connection: socket.socket, seconds: float) -> None:
        """Close the connection after that time, unless a later call sets another time."""
        with self._lock:
            self._closing[connection] = time.monotonic() + seconds

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            first = min(self._closing, key=self._closing.__getitem__, default=None)
            full = first is not None and len(self._closing) >= CONNECTIONS
        if full and first is not None:
            self._hang_up(first)
        self.wait_at_most(request, PATIENCE_S)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        now = time.monotonic()
        with self._lock:
            late = [one for one, until in self._closing.items() if until < now]
        for connection in late:
            self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        """Close the connection; its thread then ends."""
        with self._lock:
            self._closing.pop(connection, None)
        with suppress(OSError):  # the caller hung up first
            connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._closing.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Callers may hang up at any time, as a `LeaseReclaimer` does."""
        error = sys.exception()
        if not isinstance(error, OSError):
            log.warning("no answer to %s: %r", client_address[0], error)


class _Handler(StreamRequestHandler):
    server: PageServer

    def handle(self) -> None:
        verb, path, version, *_ = [*self._line().split(), "", "", ""]
        host = ""
        for _ in range(_LINES if version.startswith("HTTP/") else 0):
            name, _, value = self._line().partition(":")
            if not name:
                break
            host = value.strip() if name.lower() == "host" else host
        page = self.server.pages.get(path.partition("?")[0]) if verb == "GET" else None
        status, kind, body = "404 Not Found", "text/plain", b"not found\n"
        if not answers_to(host, self.server.host):
            status, body = "403 Forbidden", b"this server has another name\n"
        elif page is not None:
            self.server.wait_at_most(self.request, math.inf)
            status, (kind, body) = "200 OK", page()
            self.server.wait_at_most(self.request, PATIENCE_S)
        head = (
            f"HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "X-Content-Type-Options: nosniff\r\n\r\n"
        )
        self.wfile.write(head.encode() + body)

    def _line(self) -> str:
        return self.rfile.readline(8192).decode("latin-1").strip()
