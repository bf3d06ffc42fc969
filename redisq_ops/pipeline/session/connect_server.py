"""Spark's own Connect server, which `redisq spark serve` keeps running.

Anyone who can use the server can run code as this user. So it listens on the loopback address and
asks for a token; the token is in a file that only this user can read. Spark's other ports ask for a
secret of their own (see `spark_session.PROTECTED`).
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from redisq_ops.core.model.errors import BadInput, Refused, Unreachable
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.ops.private_files import atomic_write

from . import spark_session
from .java import cache_directory

_START_S = 180  # how long a server may take to start
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_OURS = ("spark.connect.grpc.binding.", "spark.connect.authenticate.")  # who can use the server


def serve(
    target: ServerAddress, master: str | None, conf: Iterable[str], ready: Callable[[Path], None]
) -> int:
    """Run a server to its end, and return its exit code. ``ready`` is called with the file that has
    its address, as SPARK_REMOTE takes it.

    Raises `Refused` if this user's server is running already, `Unreachable` if it doesn't start.
    """
    settings = spark_session.DEFAULTS | spark_session.LOOPBACK | spark_session.parse_conf(conf)
    if forbidden := next((name for name in settings if name.startswith(_OURS)), None):
        raise BadInput(f"--conf {forbidden}: serve chooses address and token itself")
    if find_spec("grpc") is None:
        raise BadInput("serve needs Spark Connect: pip install 'pyspark[connect]'")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings |= {f"{_OURS[0]}address": "127.0.0.1", f"{_OURS[0]}port": str(port)}
    runtime, token = os.environ.get("XDG_RUNTIME_DIR"), secrets.token_urlsafe(32)
    folder = Path(runtime) / "redisq" if runtime else cache_directory(os.environ) / "run"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    file = folder / "spark-remote"
    with (folder / "spark-connect.log").open("ab") as log:
        try:  # Spark has the lock as well, and keeps it if this process is killed
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(f"a server is running already: {file}") from None
        log.truncate(0)
        env = dict(os.environ)
        spark_session.prepare_environment(env, master)
        env |= spark_session.environment(target) | {_TOKEN: token}
        words = spark_session.submit_words(settings, master, env["SPARK_HOME"])
        words += ["--class", _CLASS]
        process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _await_port(process, port, Path(log.name))
            with atomic_write(file) as out:
                out.write(f"sc://localhost:{port}/;token={token}\n".encode())
            ready(file)
            return process.wait()
        finally:
            file.unlink(missing_ok=True)
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.1)
    lines = log.read_text(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), f"see {log}")
    raise Unreachable(f"Spark Connect did not start: {last}")
