"""Which scheme a port wants, where a client wrote the other one."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from redisq_ops.ops.port import other_scheme

from .cli import Redisq


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[int]:
    """A port where nothing but TLS is spoken."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost", "127.0.0.1").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):  # until it is closed
                while True:
                    connection, _ = listening.accept()
                    with suppress(OSError), context.wrap_socket(connection, server_side=True):
                        pass

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1]


@pytest.mark.slow
def test_a_port_says_what_it_speaks(url: str, tls: int) -> None:
    plain = url.rpartition(":")[2]
    assert other_scheme(f"rediss://me:secret@127.0.0.1:{plain}/0") == "redis"
    assert other_scheme(f"valkeys+cluster://127.0.0.1:{plain}") == "valkey+cluster"
    assert other_scheme(f"redis://127.0.0.1:{tls}") == "rediss"
    assert other_scheme(f"redis+sentinel://127.0.0.1:{tls},127.0.0.1:1/mymaster") == (
        "rediss+sentinel"
    )
    for right in (f"redis://127.0.0.1:{plain}", f"rediss://127.0.0.1:{tls}", "redis://127.0.0.1:1",
                  "unix:///nowhere", "redis://[", "nonsense"):  # fmt: skip
        assert other_scheme(right) is None, right


def test_it_is_said_where_the_server_can_not_be_reached(
    tls: int, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq = Redisq(f"redis://127.0.0.1:{tls}", capsys)
    said = redisq.refusal("ls", code=2)
    assert said.endswith("; that port speaks TLS: write rediss://…")
    redisq = Redisq("redis://127.0.0.1:1", capsys)
    assert "TLS" not in redisq.refusal("ls", code=2)
