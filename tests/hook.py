"""A webhook that takes, refuses, hangs, drips or hangs up, and a mail server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from aiosmtpd.controller import Controller

from .ports import free_port


class Hook:
    """On loopback. ``answer``: a status, or ``hang``, ``drip``, ``close``, ``big`` (10 MB)."""

    def __init__(self, answer: int | str = 200) -> None:
        self.answer = answer
        self.got: list[Any] = []
        """the JSON of each request"""
        self.heads: list[dict[str, str]] = []
        self.over = Event()
        self.written = 0
        """bytes of an answer that is ``big``"""
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append(json.loads(body))
                hook.heads.append(dict(self.headers))
                hook.reply(self)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/s3cret"
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def reply(self, to: BaseHTTPRequestHandler) -> None:
        if self.answer == "hang":
            self.over.wait(60)
        elif self.answer == "drip":
            with suppress(OSError):
                while not self.over.wait(0.1):
                    to.wfile.write(b"H")
        elif self.answer == "big":
            to.send_response(200)
            to.end_headers()
            with suppress(OSError):
                for _ in range(160):
                    to.wfile.write(b"x" * 65_536)
                    self.written += 65_536
        elif isinstance(self.answer, int):
            to.send_response(self.answer)
            to.send_header("Location", f"{self.url}/elsewhere")
            to.end_headers()
            to.wfile.write(b"ok" if self.answer == 200 else b"s3cret")

    @property
    def lines(self) -> list[str]:
        """The lines of all messages."""
        return [line for each in self.got for line in each["lines"]]

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


class Mails:
    """Keeps the mails that an SMTP server takes."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.got.append(envelope.content)
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[tuple[int, Mails]]:
    """Its port, and what it takes."""
    mails, port = Mails(), free_port()
    controller = Controller(mails, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield port, mails
    finally:
        controller.stop()


def until(what: Any, seconds: float = 60) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
