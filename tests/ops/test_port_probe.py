"""Which scheme a port wants, where a client wrote the other one."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.redis import connection as lines
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.redis.operation import Call, arun, run
from redisq_ops.ops.port_probe import TlsMismatch, tls_mismatch

from ..command_line import Redisq


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
def test_mismatch_of_url_and_port_is_detected(url: str, tls: int) -> None:
    plain = url.rpartition(":")[2]
    clear, secret = f"127.0.0.1:{plain}", f"127.0.0.1:{tls}"
    assert tls_mismatch(f"rediss://me:secret@{clear}/0") == TlsMismatch(False, "redis://…")
    assert tls_mismatch(f"valkeys+cluster://{clear}") == TlsMismatch(False, "valkey+cluster://…")
    assert tls_mismatch(f"redis://{secret}") == TlsMismatch(True, "rediss://…")
    sentinels = f"+sentinel://{secret},127.0.0.1:1/mymaster"
    assert tls_mismatch(f"redis{sentinels}") == TlsMismatch(True, "rediss+sentinel://…")
    assert tls_mismatch(f"rediss{sentinels}?sentinel_tls=no") == TlsMismatch(
        True, "rediss+sentinel://…"
    )
    sentinels = f"+sentinel://{clear},127.0.0.1:1/mymaster"
    told = TlsMismatch(False, "rediss+sentinel://…?sentinel_tls=no")
    assert tls_mismatch(f"rediss{sentinels}") == told
    assert tls_mismatch(f"redis{sentinels}?sentinel_tls=yes") == TlsMismatch(
        False, "redis+sentinel://…"
    )
    for right in (
        f"redis://{clear}",
        f"rediss://{secret}",
        "redis://127.0.0.1:1",
        f"rediss{sentinels}?sentinel_tls=no",
        f"redis{sentinels}?sentinel_tls=perhaps",
        "unix:///nowhere",
        "redis://[",
        "nonsense",
    ):
        assert tls_mismatch(right) is None, right


def test_connection_error_names_the_right_scheme(
    tls: int, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq = Redisq(f"redis://127.0.0.1:{tls}", capsys)
    said = redisq.refusal("ls", code=4)
    assert said.endswith("; that port speaks TLS: write rediss://…")
    redisq = Redisq("redis://127.0.0.1:1", capsys)
    assert "TLS" not in redisq.refusal("ls", code=4)


@pytest.mark.alike
@pytest.mark.parametrize("mode", ["", "+cluster"])
def test_port_without_tls_is_detected_before_timeouts(
    url: str, mode: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without TLS waits for the end of a line that a handshake doesn't have."""
    monkeypatch.setattr(lines, "PATIENCE_S", 0.1)
    began = time.monotonic()
    said = Redisq(url.replace("redis:", f"rediss{mode}:"), capsys).refusal("ls", code=4)
    assert said.endswith(
        f"doesn't answer a TLS handshake; that port speaks no TLS: write redis{mode}://…"
    )
    assert time.monotonic() - began < 9  # as one time-out of a command's would be


@pytest.mark.parametrize("answered", [False, True])
def test_every_client_reports_a_port_without_tls(
    monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """One that waits for the end of a line, and one that answers whatever comes."""
    monkeypatch.setattr(lines, "PATIENCE_S", 0.1)
    calls = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):  # until it is closed
                while True:
                    connection, _ = listening.accept()
                    heard = connection.recv(9)
                    calls.append(heard)
                    if answered or heard.startswith(b"PING"):
                        connection.sendall(b"-ERR unknown command\r\n")

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        url = f"rediss://127.0.0.1:{listening.getsockname()[1]}?socket_connect_timeout=0.2"
        ping = Call(("PING",), bytes)
        with pytest.raises(Unreachable, match="doesn't answer a TLS handshake"):
            run(connect(url), ping)
        assert len(calls) == 2  # it begins a handshake once, and asks once

        async def awaited() -> None:
            async with aconnect(url) as client:
                await arun(client, ping)

        with pytest.raises(Unreachable, match="doesn't answer a TLS handshake"):
            asyncio.run(awaited())
        assert len(calls) == 4


@pytest.mark.alike
def test_unreachable_sentinels_are_a_one_line_error(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    gone = Redisq("redis+sentinel://127.0.0.1:1,127.0.0.1:1/mymaster", capsys)
    assert gone.refusal("ls", code=4) == (
        "can't reach the server: No master found for 'mymaster'; one Sentinel, or more, can't be "
        "reached"
    )
    assert time.monotonic() - began < 6  # each of them alone would be tried for longer
    none = Redisq(url.replace("://", "+sentinel://") + "/mymaster", capsys)
    assert none.refusal("ls", code=2) == "that server is no Sentinel: write redis://…"
