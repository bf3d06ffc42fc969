"""The health endpoint of a worker: answers ``GET /healthz`` for probes and for a
`LeaseReclaimer`, and further pages."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

from ..model.errors import BadInput

Page = Callable[[], tuple[str, bytes]]
"""makes a page: its content type and its body"""
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")


def parse_address(name: str) -> tuple[str, int] | None:
    """(host, port) of a consumer that is named by its address; None for other names."""
    found = _ADDRESS.fullmatch(name)
    if found is None or int(found[2]) > 65535:
        return None
    return found[1].strip("[]"), int(found[2])


class Endpoint:
    """Listens from construction until `close` and answers ``GET /healthz`` with a line of JSON.

    ``where``: a port, on all interfaces, or ``host:port``; port 0 picks a free one. ``name``: the
    address under which others reach it. ``pages``: path (``/metrics``) -> a further page.
    """

    def __init__(
        self,
        where: int | str,
        health: Callable[[], dict[str, Any]],
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        text = str(where)
        host, port = parse_address(text if ":" in text else f"0.0.0.0:{text}") or (None, 0)
        if host is None:
            raise BadInput(f"health address {text!r}: write a port, or host:port")
        try:
            self._server = _Server(host, port, {"/healthz": _as_json(health), **(pages or {})})
        except OSError as error:
            raise BadInput(f"health address {text}: {error.strerror or error}") from error
        shown = text.rpartition(":")[0] or socket.gethostname()
        self.name = f"{shown}:{self._server.server_address[1]}"
        self._thread = Thread(
            target=self._server.serve_forever, args=(0.1,), name="redisq-ping", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1.0)


def _as_json(health: Callable[[], dict[str, Any]]) -> Page:
    return lambda: ("application/json", json.dumps(health()).encode() + b"\n")


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.pages = pages
        super().__init__((host, port), _HealthHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore callers that hang up, as a `LeaseReclaimer` does."""


class _HealthHandler(StreamRequestHandler):
    timeout = 5
    server: _Server

    def handle(self) -> None:
        verb, path, *_ = [*self.rfile.readline(1024).decode("latin-1").split(), "", ""]
        page = self.server.pages.get(path) if verb == "GET" else None
        kind, body = page() if page is not None else ("text/plain", b"not found\n")
        head = (
            f"HTTP/1.0 {'404 Not Found' if page is None else '200 OK'}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.wfile.write(head.encode() + body)
