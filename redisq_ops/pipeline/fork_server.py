"""A fork server: a process that has loaded Spark's client and runs commands in forks of itself.

To load the client takes longer than a small query. So `redisq spark serve` keeps a process that has
loaded it; a command sends its words, folder, environment and standard streams to that process's
socket, and a fork runs the command on them. The socket is in a directory that only this user can
enter, and the fork has this user's rights.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from socketserver import BaseRequestHandler, ForkingMixIn, UnixStreamServer

from redisq_ops.core.model.errors import Unreachable

Run = Callable[[Sequence[str]], int]
"""runs a command's words and returns its exit code"""
_MODULES = (
    "numpy", "pandas", "pyarrow", "pyarrow.pandas_compat", "grpc", "grpc._channel", "typer.main",
    "pyspark.sql.connect.session", "pyspark.sql.connect.functions",
    "redisq_ops.pipeline.job_errors", "redisq_ops.pipeline.query_tables",
    "redisq_ops.pipeline.query_values", "redisq_ops.pipeline.redaction",
    "redisq_ops.pipeline.small_tables", "redisq_ops.pipeline.spark_jobs",
)  # fmt: skip
_in_fork = False


def run_in_fork(path: Path, words: Sequence[str], streams: Sequence[int] = (0, 1, 2)) -> int | None:
    """The exit code of a command that the fork server at ``path`` ran, or None if there is none.
    Ctrl+C interrupts the command; so does the end of this process."""
    if _in_fork:
        return None
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return None
        request = {
            "words": list(words), "folder": os.getcwd(), "environment": dict(os.environ),
            "encoding": sys.stdout.encoding,
        }  # fmt: skip
        socket.send_fds(connection, [b"\n"], streams)
        connection.sendall(json.dumps(request).encode() + b"\n")
        while True:
            try:
                answer = connection.recv(16)
                break
            except KeyboardInterrupt:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
    if not answer:
        raise Unreachable("the process of redisq spark serve that ran the command has ended")
    return int(answer)


@contextmanager
def fork_server(path: Path, run: Run) -> Iterator[None]:
    """Keep a fork server, which listens at ``path``, until the end of the block."""
    path.unlink(missing_ok=True)
    try:
        server = _ForkServer(path, run)
    except OSError:  # the path is too long for a socket: commands load the client themselves
        yield
        return
    path.chmod(0o600)
    process = get_context("fork").Process(target=_serve, args=(server,), daemon=True)
    process.start()
    server.socket.close()
    try:
        yield
    finally:
        process.terminate()
        process.join()
        path.unlink(missing_ok=True)


class _Command(BaseRequestHandler):
    """One command, in a fork."""

    server: _ForkServer

    def handle(self) -> None:
        global _in_fork
        _in_fork = True
        os.setsid()  # Ctrl+C in the terminal of `serve` is not for this command
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _, streams, _, _ = socket.recv_fds(self.request, 1, 3)
        with self.request.makefile("rb") as lines:
            request = json.loads(lines.readline())
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin = open(0, encoding=request["encoding"], closefd=False)  # noqa: SIM115
        sys.stdout = open(  # noqa: SIM115
            1, "w", encoding=request["encoding"], errors="backslashreplace", closefd=False
        )
        sys.stderr = open(  # noqa: SIM115
            2, "w", 1, request["encoding"], errors="backslashreplace", closefd=False
        )
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        threading.Thread(target=self._await_end, daemon=True).start()
        code = self.server.run(request["words"])
        sys.stdout.flush()
        with suppress(OSError):  # the caller may be gone
            self.request.sendall(b"%d" % code)

    def _await_end(self) -> None:
        """Interrupt the command once its caller was interrupted, or is gone."""
        with suppress(OSError):
            self.request.recv(1)
        os.kill(os.getpid(), signal.SIGINT)


class _ForkServer(ForkingMixIn, UnixStreamServer):
    def __init__(self, path: Path, run: Run) -> None:
        self.run = run
        super().__init__(str(path), _Command)


def _serve(server: _ForkServer) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name in _MODULES:
        importlib.import_module(name)
    server.serve_forever(60)
