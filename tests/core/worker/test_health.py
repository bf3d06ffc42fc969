"""The pages that a worker and `redisq metrics` serve: to whom, and how many at once."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from redisq_ops.core.worker import health
from redisq_ops.core.worker.health import CONNECTIONS, Endpoint, PageServer, answers_to


@contextmanager
def serving(page: Callable[[], bytes], host: str = "127.0.0.1") -> Iterator[PageServer]:
    server = PageServer(host, 0, {"/": lambda: ("text/plain", page())})
    try:
        yield server
    finally:
        server.close()


def connected(server: PageServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def answer(server: PageServer, host: str = "localhost") -> bytes:
    with connected(server) as caller:
        caller.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return caller.makefile("rb").read()


@pytest.mark.parametrize(
    ("where", "listens", "name"),
    [
        (0, "127.0.0.1", None),
        ("0", "127.0.0.1", None),
        ("127.0.0.1:0", "127.0.0.1", "127.0.0.1"),
        ("0.0.0.0:0", "0.0.0.0", socket.gethostname()),
    ],
)
def test_others_reach_it_only_where_a_host_is_given(
    where: int | str, listens: str, name: str | None
) -> None:
    endpoint = Endpoint(where, dict)
    try:
        assert endpoint.address[0] == listens
        assert endpoint.name == (name and f"{name}:{endpoint.address[1]}")
    finally:
        endpoint.close()


def test_idle_callers_take_no_more_than_a_few_threads_and_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "PATIENCE_S", 600)  # none of them is closed for its silence
    before = threading.active_count()
    with serving(lambda: b"here") as server, ExitStack() as idle:
        for _ in range(4 * CONNECTIONS):
            idle.enter_context(connected(server))
        assert answer(server).endswith(b"\r\n\r\nhere")
        assert threading.active_count() <= before + 2 * CONNECTIONS


def test_who_says_nothing_or_reads_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PATIENCE_S", 0.2)
    with (
        serving(lambda: b"x" * 50_000_000) as server,
        connected(server) as silent,
        connected(server) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert silent.recv(1) == b""
        while server.open:
            threading.Event().wait(0.05)
        got = 0
        while part := slow.recv(1_000_000):
            got += len(part)
        assert got < 50_000_000


def test_a_page_that_fails_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> bytes:
        raise ValueError("no such number")

    with serving(fails) as server:
        assert answer(server) == b""
    (record,) = caplog.records
    assert "no such number" in record.message and record.exc_info is None


def test_a_name_that_was_made_to_lead_here_gets_nothing() -> None:
    with serving(lambda: b"here") as server:
        assert answer(server, "127.0.0.1:9808").endswith(b"here")
        assert answer(server, "evil.example:9808").startswith(b"HTTP/1.0 403")


@pytest.mark.parametrize(
    ("host", "listens_on", "served"),
    [
        ("localhost:1", "127.0.0.1", True),
        ("app.localhost", "127.0.0.1", True),
        ("[::1]:9808", "::1", True),
        ("", "127.0.0.1", True),
        ("evil.example", "127.0.0.1", False),
        ("evil.example", "::1", False),
        ("localhost.evil.example", "localhost", False),
        ("metrics.svc:9808", "0.0.0.0", True),
    ],
)
def test_a_loopback_server_answers_to_local_names(host: str, listens_on: str, served: bool) -> None:
    assert answers_to(host, listens_on) is served
