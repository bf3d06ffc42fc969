"""`redisq-top` on a link of 200 ms and 256 kbit/s, and with a server that restarts all the time."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import Self

import redis

from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.server import HOST, EmbeddedServer

from .measure import spread
from .refresh import fill
from .terminal import DashboardProcess

ROUND_TRIP_S = 0.2
BYTES_PER_S = 256_000 // 8
CHUNK = 1024
KEYS = 10
INTERVAL_S = 1.0
REFRESHES_S = 20
QUIET_S = 6.0
"""longer than a stage takes: after that, all rows have been read"""
RESTART_S = float(os.environ.get("RESTART_S", "5"))
RESTARTS = int(os.environ.get("RESTARTS", "60"))
"""five minutes of them"""


class SlowLink:
    """A TCP proxy in front of a port: each chunk comes half a round trip later, and not faster than
    the rate. Counts round trips (replies after requests) and bytes of requests and replies."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.round_trips = self.sent = self.received = 0
        self.passing = threading.Event()
        """while it is cleared, nothing passes"""
        self.passing.set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connected, HOST, 0), self._loop
        ).result()
        self.url = f"redis://{HOST}:{server.sockets[0].getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _close(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _connected(
        self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        server, to_server = await asyncio.open_connection(HOST, self._target)
        asked = [False]
        try:
            await asyncio.gather(
                self._pass(client, to_server, asked, requests=True),
                self._pass(server, to_client, asked, requests=False),
            )
        except OSError:
            pass
        finally:
            to_server.close()
            to_client.close()

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        asked: list[bool],
        *,
        requests: bool,
    ) -> None:
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivery = asyncio.create_task(self._deliver(on_the_way, target))
        free_at = 0.0
        while data := await source.read(CHUNK):
            if requests:
                asked[0] = True
                self.sent += len(data)
            else:
                self.received += len(data)
                self.round_trips += asked[0]
                asked[0] = False
            now = self._loop.time()
            free_at = max(free_at, now) + len(data) / BYTES_PER_S
            on_the_way.put_nowait((free_at + ROUND_TRIP_S / 2, data))
        delivery.cancel()
        target.close()

    async def _deliver(
        self, on_the_way: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter
    ) -> None:
        while True:
            at, data = await on_the_way.get()
            await asyncio.sleep(max(0.0, at - self._loop.time()))
            while not self.passing.is_set():
                await asyncio.sleep(0.01)
            target.write(data)
            await target.drain()


def report(what: str, began: float, link: SlowLink) -> None:
    print(
        f"  {what} after {time.perf_counter() - began:.1f} s, {link.round_trips} round trips, "
        f"{link.sent / 1000:.0f} kB sent and {link.received / 1000:.0f} kB received"
    )


def slow() -> None:
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        fill(client)
        with SlowLink(server.port) as link:
            began = time.perf_counter()
            with DashboardProcess("--url", link.url, "--interval", str(INTERVAL_S)) as top:
                top.until("q000")
                report("first frame naming a queue", began, link)
                top.press_keys("")
                top.until_match("[1-9][0-9]* of 210 queues read")  # those in sight come first
                report("rows in sight complete", began, link)
                rest = top.drawn_until(" of 210 queues read", QUIET_S)
                print(f"  all rows complete after {rest - began:.1f} s")
                trips, sent, received = link.round_trips, link.sent, link.received
                seconds = REFRESHES_S * INTERVAL_S
                top.run_for(seconds)
                trips, received = link.round_trips - trips, link.received - received
                sent = link.sent - sent
                print(
                    f"  210 queues, every {INTERVAL_S:g} s: {trips / seconds:.1f} round trips, "
                    f"{sent / 1000 / seconds:.1f} kB sent and {received / 1000 / seconds:.1f} kB "
                    "received a second"
                )
                times = []
                for n in range(KEYS):
                    pressed = time.perf_counter()
                    top.press_keys("j")
                    top.until(f"{n + 2} of 210")
                    times.append((time.perf_counter() - pressed) * 1000)
                print(f"  from a key to what it draws: {spread(times, 'ms')}")
                link.passing.clear()
                stopped = time.perf_counter()
                top.press_keys("k")
                top.until("stale")
                print(f"  stale sign {time.perf_counter() - stopped:.1f} s after the link stopped")
                top.press_keys("j")
                top.until(f"{KEYS + 1} of 210")
                link.passing.set()


def restarts() -> None:
    """Memory, open files and threads of one dashboard while its server restarts again and again."""
    with EmbeddedServer(appendonly=True) as server, redis.Redis.from_url(server.url) as client:
        RequestQueue(client, "mail").submit([b"x"] * 1000, id="r")
        with DashboardProcess("--url", server.url, "--queue", "mail") as top:
            top.until("1 of ")
            stale_s = []
            for n in range(RESTARTS):
                server.kill()
                killed = time.perf_counter()
                top.press_keys("")
                top.until("stale")
                stale_s.append(time.perf_counter() - killed)
                server.restart()
                top.run_for(max(0.0, RESTART_S - stale_s[-1]))
                if n % max(1, RESTARTS // 6) == 0 or n == RESTARTS - 1:
                    files = len(os.listdir(f"/proc/{top.pid}/fd"))
                    threads = len(os.listdir(f"/proc/{top.pid}/task"))
                    print(
                        f"  after {n + 1} restarts: {top.memory_mb('VmRSS'):.1f} MB, "
                        f"{files} open files, {threads} threads"
                    )
                    sys.stdout.flush()
            print(f"  stale sign after a kill: {spread(stale_s, 's')}")


def main() -> None:
    print("a link of 200 ms and 256 kbit/s")
    slow()
    print(f"a server that restarts every {RESTART_S:g} s")
    restarts()
