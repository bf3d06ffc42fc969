"""The dashboard in a browser: every tab runs a dashboard of its own, as textual-serve does it.

Who has the URL can do what the user can who started it, so the URL has a token in its path. Nothing
but the scripts and fonts of textual-serve is served without it.
"""

from __future__ import annotations

import secrets
import shlex
import socket
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from aiohttp import web
from textual_serve.server import Server

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
    """Serves ``command`` on a port that is bound already (port 0: a free one).

    Raises OSError where the port can't be bound.
    """

    def __init__(self, command: Sequence[str], host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        super().__init__(shlex.join(command), host, self._socket.getsockname()[1])
        self._token = secrets.token_urlsafe(24)
        self._page = Template((files(__package__) / "web_page.html").read_text(encoding="utf-8"))

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/{self._token}/"

    def serve(self, debug: bool = False) -> None:
        """Serve until SIGINT or SIGTERM; dashboards that are open are closed."""
        # No access log: its lines would hold the token.
        web.run_app(
            self._make_app(), sock=self._socket, access_log=None, shutdown_timeout=2.0,
            print=lambda *_: None,
        )  # fmt: skip

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded])
        app.add_routes([
            web.get("/{token}/", self.page),
            web.get("/{token}/ws", self.handle_websocket),
            web.static("/static", self.statics_path),
        ])  # fmt: skip
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: object) -> web.StreamResponse:
        """Refuse a path with another token before anything is started for it."""
        token = request.match_info.get("token")
        if token is not None and not secrets.compare_digest(token.encode(), self._token.encode()):
            raise web.HTTPForbidden(text="This address has no valid token.")
        assert callable(handler)
        response: web.StreamResponse = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    async def page(self, request: web.Request) -> web.Response:
        """The page with the terminal; its websocket has the same host and token."""
        secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
        websocket = f"{'wss' if secure else 'ws'}://{request.host}/{self._token}/ws"
        text = self._page.substitute(websocket=escape(websocket))
        return web.Response(text=text, content_type="text/html")
