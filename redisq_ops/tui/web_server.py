"""The dashboard in a browser: every tab runs a dashboard of its own, as textual-serve does it.

Anyone with the URL has the rights of the user who started the server, so the URL has a token in its
path. Without the token, only the scripts and fonts of textual-serve are served.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import shlex
import socket
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from aiohttp import WSCloseCode, WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from redisq_ops.core.worker.health import answers_to
from redisq_ops.ops.terminal import printable

SESSIONS = 10
"""maximum number of open dashboards: each is a process"""
_MOST_CELLS = 999
"""maximum width and height of a browser's terminal"""
_SIZE = re.compile("[1-9][0-9]{0,2}")
_LOGGERS = ("aiohttp.server", "aiohttp.web", "aiohttp.websocket", "textual-serve")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",  # the token is in the address
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class DashboardServer(Server):
    """Serves ``command`` on a port that the constructor binds (port 0: a free one).

    Raises OSError if the port can't be bound.
    """

    def __init__(self, command: Sequence[str], host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        super().__init__(shlex.join(command), host, self._socket.getsockname()[1])
        self._token = secrets.token_urlsafe(24)
        self._sessions = 0
        self._page = Template((files(__package__) / "web_page.html").read_text(encoding="utf-8"))
        self._focus = (files(__package__) / "web_page.js").read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/{self._token}/"

    def serve(self, debug: bool = False) -> None:
        """Serve until SIGINT or SIGTERM; dashboards that are open are closed."""
        # No access log: its lines would hold the token.
        web.run_app(
            self._make_app(),
            sock=self._socket,
            access_log=None,
            shutdown_timeout=2.0,
            print=lambda *_: None,
        )

    async def _make_app(self) -> web.Application:
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_in_one_line)
        app = web.Application(middlewares=[self._guarded])
        app.add_routes(
            [
                web.get("/{token}/", self.page),
                web.get("/{token}/focus.js", self.focus),
                web.get("/{token}/ws", self.session),
                web.static("/static", self.statics_path),
            ]
        )
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: object) -> web.StreamResponse:
        """Refuse a request with another host name, page origin or token before a process starts."""
        origin = request.headers.get("Origin")
        if not answers_to(request.headers.get("Host", ""), self.host):
            raise web.HTTPForbidden(text="This server has another name.")
        if origin is not None and origin.partition("://")[2] != request.host:
            raise web.HTTPForbidden(text="This is for the server's own page only.")
        token = request.match_info.get("token")
        if token is not None and not secrets.compare_digest(token.encode(), self._token.encode()):
            raise web.HTTPForbidden(text="This address has no valid token.")
        assert callable(handler)
        response: web.StreamResponse = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    async def page(self, request: web.Request) -> web.Response:
        """The page with the terminal; its websocket URL has the same host and token."""
        secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
        websocket = f"{'wss' if secure else 'ws'}://{request.host}/{self._token}/ws"
        text = self._page.substitute(websocket=escape(websocket))
        return web.Response(text=text, content_type="text/html")

    async def focus(self, request: web.Request) -> web.Response:
        """The page's own script: letters reach the terminal without a click on it."""
        return web.Response(text=self._focus, content_type="text/javascript")

    async def session(self, request: web.Request) -> web.StreamResponse:
        """A dashboard for a browser's websocket, unless there are too many."""
        if self._sessions >= SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"{SESSIONS} dashboards are open: close one.")
        if not all(_SIZE.fullmatch(request.query.get(side, "80")) for side in ("width", "height")):
            raise web.HTTPBadRequest(text=f"width and height: 1 to {_MOST_CELLS}")
        self._sessions += 1
        try:
            return await self.handle_websocket(request)
        finally:
            self._sessions -= 1

    async def _process_messages(
        self, websocket: web.WebSocketResponse, app_service: AppService
    ) -> None:
        """Pass on messages that textual-serve's page sends; any other message ends the session."""
        async for message in websocket:
            if message.type is WSMsgType.TEXT and not await _passed_on(
                message.data, websocket, app_service
            ):
                logging.getLogger(__name__).warning("a browser sent no terminal message")
                await websocket.close(code=WSCloseCode.UNSUPPORTED_DATA)


async def _passed_on(text: str, browser: web.WebSocketResponse, app: AppService) -> bool:
    """Pass a message on to the dashboard; False if it is no message of the page."""
    try:
        message = json.loads(text)
    except ValueError:
        return False
    match message:
        case ["stdin", str(keys)]:
            await app.send_bytes(keys.encode(errors="replace"))
        case ["resize", {"width": width, "height": height}] if _is_cells(width, height):
            await app.set_terminal_size(width, height)
        case ["ping", *sent]:
            await browser.send_json(["pong", *sent])
        case ["blur", *_]:
            await app.blur()
        case ["focus", *_]:
            await app.focus()
        case _:
            return False
    return True


def _is_cells(*sizes: object) -> bool:
    return all(isinstance(size, int) and 0 < size <= _MOST_CELLS for size in sizes)


def _in_one_line(record: logging.LogRecord) -> bool:
    """Log in one line without control characters and traceback: a stranger may cause the error."""
    said = [record.getMessage()]
    if record.exc_info and record.exc_info[1]:
        said += str(record.exc_info[1]).splitlines()[:1]
    text = printable(": ".join(" ".join(part.split()) for part in said))
    record.msg, record.args, record.exc_info = text, None, None
    return True
