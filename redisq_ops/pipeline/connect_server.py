"""A Spark Connect server of this user, kept running by `redisq spark serve`.

Starting Spark takes seconds; a running server answers a command at once. Commands find it by a file
in the user's runtime directory. It listens on the loopback address and asks for a token that only
this file holds, because whoever can use the server can run code as this user.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from redisq_ops import __version__
from redisq_ops.core.model.errors import BadInput, Refused, Unreachable
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.ops.private_files import atomic_write
from redisq_ops.ops.typed_json import json_file, typed

from . import java
from .fork_server import Run, fork_server
from .session import (
    DEFAULTS,
    LOCAL,
    PROTECTED,
    SESSION_ID,
    check_installed,
    environment,
    is_local,
    parse_conf,
    prepare_environment,
)

HOST = "127.0.0.1"
START_S = 90
"""how long a server may take to start"""
SESSIONS = 8
"""most sessions of one purpose that are kept; more commands at a time have new ones"""
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


@dataclass(frozen=True, slots=True)
class _Address:
    """Where a server listens, and for which release and Redis server it was started."""

    port: int
    token: str
    pid: int
    release: str
    target: str


def address_file() -> Path:
    """The file with the address of this user's server; its directory is private."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) / "redisq" if runtime else java.cache_directory(os.environ) / "run"
    return base / "spark-connect.json"


def commands_socket() -> Path:
    """The socket of the process that runs commands for this user's server."""
    return address_file().with_name("spark-commands")


def find_server(target: ServerAddress) -> str | None:
    """The ``sc://`` address of this user's running server, or None.

    None also if it belongs to another release or was started for another Redis server, whose
    password its workers have.
    """
    try:
        found: _Address = typed(_Address, json_file(address_file()), "address")
        if found.release != __version__ or found.target != _digest(target):
            return None
        os.kill(found.pid, 0)
        socket.create_connection((HOST, found.port), 1).close()
    except (OSError, OverflowError, BadInput):
        return None
    return f"sc://localhost:{found.port}/;token={found.token}"


@contextmanager
def reused_session(server: str, purpose: str) -> Iterator[str]:
    """The ``sc://`` address of a session that earlier commands of this purpose used and no other
    command uses now; what one of them set in it, the next one finds.

    A new session starts three Python processes, which takes longer than a small query, and which
    Spark keeps until the server ends.
    """
    for n in range(SESSIONS):
        path = address_file().with_name(f"spark-{purpose}-{n}.lock")
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            digest = hashlib.sha256(f"{server} {purpose} {n}".encode()).digest()
            yield f"{server};{SESSION_ID}={uuid.UUID(bytes=digest[:16], version=4)}"
            return
    yield server


def _digest(target: ServerAddress) -> str:
    text = json.dumps(environment(target), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def running_server(
    target: ServerAddress, run: Run, *, master: str | None = None, conf: Iterable[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and a process for commands, write the address, and stop both with the block.

    Raises `Refused` if one is running already, `Unreachable` if it doesn't start.
    """
    check_installed()
    if find_spec("grpc") is None:
        raise BadInput("serve needs Spark Connect: pip install 'pyspark[connect]'")
    if find_server(target) is not None:
        raise Refused(f"a server is running already: {address_file()}")
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    token = secrets.token_urlsafe(32)
    settings = {
        **DEFAULTS,
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.connect.session.manager.defaultSessionTimeout": "-1",  # they are few, and reused
        **parse_conf(conf),
        **(PROTECTED if is_local(master) else {}),
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
    }
    file = address_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.parent.chmod(0o700)
    with fork_server(commands_socket(), run):
        log = file.with_name("spark-connect.log")
        with log.open("wb") as out:
            process = subprocess.Popen(
                _command(settings, master), env=_variables(target, master, token), stdout=out,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        try:
            _await_port(process, port, log)
            address = _Address(port, token, process.pid, __version__, _digest(target))
            with atomic_write(file) as out:
                out.write(json.dumps(asdict(address)).encode())
            yield process
        finally:
            with suppress(OSError, BadInput):
                if json_file(file).get("pid") == process.pid:
                    file.unlink()
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _command(settings: Mapping[str, str], master: str | None) -> list[str]:
    import pyspark

    words = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    words += ["--master", master or LOCAL, "--class", _CLASS]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    return words


def _variables(target: ServerAddress, master: str | None, token: str) -> dict[str, str]:
    """The server's environment: its Java and Python, the Redis server, the token."""
    import pyspark

    variables = dict(os.environ)
    prepare_environment(variables, master)
    variables |= environment(target)
    return variables | {"SPARK_HOME": str(Path(pyspark.__file__).parent), _TOKEN: token}


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):
            socket.create_connection((HOST, port), 1).close()
            return
        time.sleep(0.1)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    raise Unreachable(f"Spark Connect did not start: {lines[-1] if lines else f'see {log}'}")
