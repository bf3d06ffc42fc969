"""`redisq top --serve`: the dashboard in a browser, for whoever has the token."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import redis
from aiohttp import ClientWebSocketResponse, WSCloseCode, WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer
from playwright.sync_api import Page, WebSocket, sync_playwright

from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.tui import web_server

from .test_app import bury

pytestmark = [pytest.mark.alike, pytest.mark.slow]
WAIT_S = 60
PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "browser.png"


@contextmanager
def served(url: str, *words: str) -> Iterator[str]:
    """The address that the command prints, while it runs."""
    command = [
        sys.executable,
        "-m",
        "redisq_ops",
        "--url",
        url,
        "top",
        "--serve",
        "--listen",
        "127.0.0.1:0",
        *words,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            yield line.split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(90)


class Screen:
    """What the program has drawn in the browser, cell by cell, read from its websocket."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._cells: dict[tuple[int, int], str] = {}
        self._size, self._frames = (1, 1), 0
        page.on("websocket", self._opened)

    def _opened(self, socket: WebSocket) -> None:
        query = parse_qs(urlsplit(socket.url).query)
        self._size = int(query["width"][0]), int(query["height"][0])
        socket.on("framereceived", self._take)

    def _take(self, frame: str | bytes) -> None:
        self._frames += 1
        if isinstance(frame, str):
            return
        x = y = 0
        for row, column, rest, char in re.findall(
            r"\x1b\[(\d+);(\d+)H|\x1b(\[[0-9;?<>=]*[A-Za-z]|\][^\x07]*\x07|[^\[\]])|([^\x1b])",
            frame.decode(errors="replace"),
            re.S,
        ):
            if row:
                y, x = int(row) - 1, int(column) - 1
            elif char == "\n":
                y += 1
            elif char == "\r":
                x = 0
            elif char and not rest:
                self._cells[y, x] = char
                x += 1

    @property
    def lines(self) -> list[str]:
        height = max((y for y, _ in self._cells), default=0) + 1
        width = max((x for _, x in self._cells), default=0) + 1
        return ["".join(self._cells.get((y, x), " ") for x in range(width)) for y in range(height)]

    def see(self, words: str) -> tuple[int, int]:
        """The cell (x, y) at which these words begin, once they are on the screen."""
        end = time.monotonic() + WAIT_S
        while True:
            for y, line in enumerate(self.lines):
                if (x := line.find(words)) >= 0:
                    return x, y
            assert time.monotonic() < end, f"no {words!r} in\n" + "\n".join(self.lines)
            self._page.wait_for_timeout(50)

    def see_no_more(self, words: str) -> None:
        until(lambda: not any(words in line for line in self.lines), self._page)

    def click(self, words: str, times: int = 1) -> None:
        """Click on the first of these words, once nothing is being drawn: a key of the footer that
        is about to be drawn again takes no click."""
        self.see(words)
        frames = -1
        while frames != self._frames:
            frames = self._frames
            self._page.wait_for_timeout(250)
        x, y = self.see(words)
        box = self._page.locator(".xterm-screen").bounding_box()
        assert box is not None
        width, height = box["width"] / self._size[0], box["height"] / self._size[1]
        self._page.mouse.click(
            box["x"] + (x + 0.5) * width, box["y"] + (y + 0.5) * height, click_count=times
        )


def until(holds: Callable[[], bool], page: Page) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        page.wait_for_timeout(50)


def payload(queue: RequestQueue[redis.Redis], number: int) -> str:
    entry = queue.get(f"r/{number}")
    return str(entry and entry.payload)


def test_a_replay_its_undo_an_edit_and_a_command_are_gone_through_in_a_browser(
    url: str, client: redis.Redis
) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("REDISQ_REQUIRE_CHROMIUM"):
            pytest.fail("no chromium on this machine, and the test needs one")
        return
    bury(client, "r", 3)
    mail = RequestQueue(client, "mail")
    with served(url) as address, sync_playwright() as playwright:
        # Drawn by the processor: without a graphics card the page would stay black.
        arguments = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1300, "height": 800})
        asked, complaints = list[str](), list[str]()
        page.on("request", lambda request: asked.append(urlsplit(request.url).netloc))
        page.on("console", lambda message: complaints.append(message.text))
        screen = Screen(page)
        page.goto(address)
        screen.see("mail")
        page.keyboard.press("?")  # the terminal has the focus: no click before
        screen.see("/ finds a key")
        page.keyboard.press("Escape")
        screen.see("3 dead  ValueError")  # above the list, which it moves down
        screen.click("request", times=2)
        screen.see("1 of 3")  # what is dead comes first
        screen.click("2 prio")
        screen.see("held/limit")
        screen.click("5 dead")
        screen.see("1 of 3")
        screen.click("A All")
        screen.see("ALL that match")
        screen.click("P Replay")
        screen.see("Replay 3 dead entries")
        screen.see("Yes (y)")
        picture = page.screenshot()
        if os.environ.get("REDISQ_PICTURES") == "redraw":
            PICTURE.write_bytes(picture)
        screen.click("Yes (y)")
        until(lambda: mail.counts().waiting == 3, page)
        screen.see_no_more("1 of 3")
        screen.click("U Undo")
        screen.see("Enter chooses")
        page.keyboard.press("Enter")
        screen.click("Yes (y)")
        until(lambda: mail.counts().dead == 3, page)
        screen.see("1 of 3")
        page.keyboard.press("Shift+E")
        screen.see("nothing is changed yet")
        page.keyboard.type("/: fixed ")
        page.keyboard.press("Control+s")
        screen.see("+/: fixed payload")
        screen.click("Yes (y)")
        until(lambda: any("fixed" in payload(mail, n) for n in (1, 2, 3)), page)
        page.keyboard.type(":dlq purge %q")
        page.keyboard.press("Enter")
        screen.see("ended with 5; Esc goes back")
        browser.close()
    assert len(picture) > 20_000, "a blank page is smaller"
    assert set(asked) == {urlsplit(address).netloc}, "nothing is loaded from elsewhere"
    assert not [text for text in complaints if "Content Security Policy" in text]


def test_without_the_token_there_is_neither_page_nor_websocket(url: str) -> None:
    with served(url) as address:
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1" and parts.port
        token = parts.path.strip("/")
        assert len(token) >= 32

        def status(path: str, **headers: str) -> int:
            connection = HTTPConnection("127.0.0.1", parts.port or 0, timeout=30)
            connection.request("GET", path, headers=headers)
            code = connection.getresponse().status
            connection.close()
            return code

        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }
        assert status(f"/{token}/") == 200
        assert status(f"/{token}/ws", **upgrade) == 101
        for wrong in (token[:-1], token + "x", "x" * len(token), "%C3%A9", "%FF"):
            assert status(f"/{wrong}/") == 403
            assert status(f"/{wrong}/ws", **upgrade) == 403
        assert status("/") == status("/ws", **upgrade) == 404


def test_only_its_own_page_gets_a_session_and_only_a_few_of_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(web_server, "SESSIONS", 1)
    # Ends at the first byte, as the dashboard does when it is told to quit.
    server = web_server.DashboardServer(["head", "-c1"], "127.0.0.1", 0)
    address = urlsplit(server.url)
    server._socket.close()
    spawn, dashboards = asyncio.create_subprocess_shell, list[Process]()

    async def kept(*words: Any, **options: Any) -> Process:
        dashboards.append(await spawn(*words, **options))
        return dashboards[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_shell", kept)

    async def body() -> None:
        async with TestClient(TestServer(await server._make_app())) as browser:
            page = address.path + "ws?width=80&height=24"

            async def refused(path: str = page, **headers: str) -> int:
                with pytest.raises(WSServerHandshakeError) as why:
                    await browser.ws_connect(path, headers=headers)
                return why.value.status

            assert await refused(Origin="http://evil.example") == 403
            assert await refused(Host="evil.example", Origin="http://evil.example") == 403
            assert await refused(address.path + "ws?width=99999999&height=24") == 400
            own = f"http://{browser.host}:{browser.port}"
            first = await browser.ws_connect(page, headers={"Origin": own})
            await first.send_str('["ping", "1"]')
            assert await first.receive_json() == ["pong", "1"]
            assert await refused() == 503

            async def opened() -> ClientWebSocketResponse:
                """A session; one that was closed just now may still count."""
                for _ in range(500):
                    with suppress(WSServerHandshakeError):
                        return await browser.ws_connect(page)
                    await asyncio.sleep(0.01)
                raise AssertionError("a session that is closed still counts")

            session = first
            for malformed in (
                '["resize", {"width": "x", "height": 1}]',
                '["resize", {"width": 1000, "height": 1}]',
                "{",
                "[]",
                '["quit"]',
            ):
                await session.send_str(malformed)
                assert (await session.receive()).data == WSCloseCode.UNSUPPORTED_DATA
                session = await opened()
            await session.close()
            with socket.create_connection((browser.host, browser.port or 0)) as rude:
                rude.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(rude, b"\xff\x1b[31m / HTTP/9\r\n\r\n")
                assert b" 400 " in await loop.sock_recv(rude, 100)
            for process in dashboards:
                await process.wait()

    with caplog.at_level("INFO"):
        asyncio.run(body())
    said = [record.getMessage() for record in caplog.records]
    assert "a browser sent no terminal message" in said
    assert not [record for record in caplog.records if record.exc_info]
    assert not [line for line in said if "\n" in line or "\x1b" in line]


def test_a_port_in_use_is_an_error_in_one_line(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [
            sys.executable,
            "-m",
            "redisq_ops",
            "--url",
            url,
            "top",
            "--serve",
            "--listen",
            where,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr == f"redisq: --listen {where}: Address already in use\n"
