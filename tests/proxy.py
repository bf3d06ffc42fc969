"""A way to a server that can lose replies, as a network does."""

import select
import socket
import threading
from collections import Counter
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Self

from redisq_ops.demo.server import HOST

# What a client sends of its own accord on every new connection; losing these would only delay the
# request that a test is about.
HANDSHAKE = {b"HELLO", b"AUTH", b"CLIENT", b"SELECT"}
CHUNK = 1 << 16
PATIENCE_S = 10.0
"""with who takes nothing more: the end of a test waits for it"""


class FlakyProxy:
    """Listens on loopback in front of `port`, from entering the context until leaving it.

    `seen` counts the requests the server was given, by command; handshakes are not counted.
    """

    def __init__(self, port: int) -> None:
        self.seen: Counter[bytes] = Counter()
        self._lost = 0
        self._lock = threading.Lock()
        self.answering = threading.Event()
        """while it is cleared scripts are run, and their replies wait"""
        self.answering.set()
        self.holding = threading.Event()
        """set once a script's reply waits"""
        self._listener = _Listener(self, port)
        # The default poll of half a second would be the length of every test's goodbye.
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._listener.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.closing = True
        self.answering.set()
        self._listener.shutdown()
        self._listener.server_close()  # joins the connections' threads
        self._thread.join()

    def lead_to(self, port: int) -> None:
        """Pass new connections on to another server of this machine."""
        self._listener.target = (HOST, port)

    def drop_replies(self, n: int) -> None:
        """Let the server carry out the next `n` round trips, but cut instead of answering.

        A pipeline is one round trip.
        """
        with self._lock:
            self._lost = n

    def note(self, names: list[bytes]) -> bool:
        """Count requests sent in one go; whether their replies are to be lost."""
        names = [name for name in names if name not in HANDSHAKE]
        with self._lock:
            self.seen.update(names)
            if not names or not self._lost:
                return False
            self._lost -= 1
            return True


class _Listener(ThreadingTCPServer):
    allow_reuse_address = True
    closing = False

    def __init__(self, proxy: FlakyProxy, port: int) -> None:
        super().__init__((HOST, 0), _Connection)
        self.proxy = proxy
        self.target = (HOST, port)


class _Connection(BaseRequestHandler):
    server: _Listener
    request: socket.socket

    def handle(self) -> None:
        client = self.request
        client.settimeout(PATIENCE_S)
        with (
            suppress(ConnectionError, TimeoutError),
            socket.create_connection(self.server.target, PATIENCE_S) as server,
        ):
            buffer, doomed, script = b"", False, False
            while not self.server.closing:
                readable, _, _ = select.select([client, server], [], [], 0.02)
                # Replies first: these answer what came before the requests now waiting.
                if server in readable:
                    data = server.recv(CHUNK)
                    if doomed or not data:
                        return
                    if script and not self.server.proxy.answering.is_set():
                        self.server.proxy.holding.set()
                        self.server.proxy.answering.wait()
                    client.sendall(data)
                if client in readable:
                    data = client.recv(CHUNK)
                    if not data:
                        return
                    buffer += data
                    names, end = requests(buffer)
                    # Doomed before the server sees it, or its reply could be quicker.
                    doomed = self.server.proxy.note(names) or doomed
                    script = b"EVALSHA" in names
                    server.sendall(buffer[:end])
                    buffer = buffer[end:]


def requests(buffer: bytes) -> tuple[list[bytes], int]:
    """The commands' names of the complete requests in `buffer`, and where these end."""
    names: list[bytes] = []
    end = 0
    with suppress(ValueError):  # the rest has not arrived yet
        while True:
            words, at = _request(buffer, end)
            names.append(words[0].upper())
            end = at
    return names, end


def _request(buffer: bytes, at: int) -> tuple[list[bytes], int]:
    count, at = _header(buffer, at)
    words = []
    for _ in range(count):
        size, at = _header(buffer, at)
        if len(buffer) < at + size + 2:
            raise ValueError
        words.append(buffer[at : at + size])
        at += size + 2
    return words, at


def _header(buffer: bytes, at: int) -> tuple[int, int]:
    line_end = buffer.index(b"\r\n", at)
    return int(buffer[at + 1 : line_end]), line_end + 2
