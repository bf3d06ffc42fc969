"""`redisq metrics`: the state of all queues for Prometheus, served or printed once."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISREG
from threading import Event

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from redisq_ops.core.model.errors import BadInput, Unreachable
from redisq_ops.core.signals import handled
from redisq_ops.core.worker.health import PageServer, parse_address
from redisq_ops.ops.inspect.overview import Overview, overview
from redisq_ops.ops.metrics import QueueCollector
from redisq_ops.ops.private_files import atomic_write

from ..output import say, tell
from ..session import Session


def metrics(s: Session, once: bool, file: Path | None, listen: str, queues: str) -> int:
    """Print the metrics (``once``), write them to a file, or serve them until a signal."""
    if file is not None and once:
        raise BadInput("--file or --once: give one of them")

    def read() -> Overview:
        return s.run(overview(s.deployment))

    registry = CollectorRegistry()
    registry.register(QueueCollector(read, queues))
    if once or file is not None:
        text = generate_latest(registry).decode()
        if "\nredisq_up 0.0\n" in text:
            read()  # raises the error
            raise Unreachable("the server could not be read")
        if file is None:
            for line in text.splitlines():
                tell(line)
        else:
            _replace(file, text)
        return 0
    host, port = parse_address(listen) or (None, 0)
    if host is None:
        raise BadInput(f"--listen {listen!r}: HOST:PORT, for example 127.0.0.1:9808")
    read()  # a wrong address or password is reported now, not at the first scrape
    try:
        server = PageServer(
            host, port, {"/metrics": lambda: (CONTENT_TYPE_LATEST, generate_latest(registry))}
        )
    except OSError as error:
        raise BadInput(f"--listen {listen}: {error.strerror or error}") from error
    say(f"serving http://{listen.rpartition(':')[0]}:{server.port}/metrics")
    stopped = Event()
    with handled(lambda *_: stopped.set()):
        stopped.wait()
    server.close()
    return 0


def _replace(path: Path, text: str) -> None:
    """Write the file in one step, so that a collector never reads half of it."""
    try:
        with atomic_write(path) as out:
            if S_ISREG(os.fstat(out.fileno()).st_mode):
                # node_exporter runs as another user; the file has no payloads
                os.fchmod(out.fileno(), 0o644)
            out.write(text.encode())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
