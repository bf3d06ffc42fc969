"""`redisq metrics`: numbers of all queues for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from stat import S_ISREG
from threading import Event
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import BadInput, Unreachable
from redisq_ops.core.signals import handled
from redisq_ops.ops.private_files import atomic_write

from ..options import QUEUES, command, flag, option
from ..output import say, tell
from ..session import Session

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from redisq_ops.core.worker.health import PageServer
    from redisq_ops.ops.check.rules import Rules
    from redisq_ops.ops.inspect.overview import Overview

commands = typer.Typer()


LISTEN = option(
    "--listen",
    "HOST:PORT",
    "Where to serve the metrics; 127.0.0.1: this machine only.",
    default="127.0.0.1:9808",
)


@command(commands, "metrics", prints="")
def metrics(
    s: Session,
    *,
    names: list[str] | None = QUEUES,
    once: bool = flag("--once", "Print the metrics and end."),
    file: Path | None = option(
        "--file", "FILE", "Write the metrics to a file for a textfile collector, and end."
    ),
    listen: str = LISTEN,
) -> int:
    """Serve the numbers of all queues to Prometheus until SIGTERM or Ctrl+C.

    Anyone who reaches the address sees the queues' names: there is no password. A scrape takes at
    most five round trips to the server, whatever the number of queues. Read permission is enough.
    Exit 4: the server can't be reached at the start; later, and in FILE, redisq_up is 0.

    Examples:
      redisq metrics
      redisq metrics --listen 0.0.0.0:9808
      redisq metrics 'mail*' --once
      redisq metrics --file /var/lib/node_exporter/redisq.prom
    """
    from prometheus_client import generate_latest

    from redisq_ops.ops.check.rules import Rules

    rules = Rules()
    if file is not None and once:
        raise BadInput("--file or --once: give one of them")
    _host_and_port(listen)
    if once or file is not None:
        text = generate_latest(_registry(s, names or (), rules)).decode()
        if file is not None:
            _replace(file, text)  # before an error: old figures would be taken for new ones
        down = "\nredisq_up 0.0\n" in text
        if names or down:
            _read(s, rules).of(names or ())  # raises the error
        if down:
            raise Unreachable("the server could not be read")
        for line in text.splitlines() if file is None else ():
            tell(line)
        return 0
    _read(s, rules).of(names or ())  # a wrong address, password or name is reported now
    with closing(serve(s, names or (), listen, rules)) as server:
        say(served(server, listen))
        stopped = Event()
        with handled(lambda *_: stopped.set()):
            stopped.wait()
    return 0


def serve(s: Session, names: Sequence[str], listen: str, rules: Rules) -> PageServer:
    """Serve the metrics of the queues whose name matches until the server is closed; ``rules``
    say what is trouble."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    from redisq_ops.core.worker.health import PageServer

    address, registry = _host_and_port(listen), _registry(s, names, rules)
    try:
        server = PageServer(
            *address, {"/metrics": lambda: (CONTENT_TYPE_LATEST, generate_latest(registry))}
        )
    except OSError as error:
        raise BadInput(f"--listen {listen}: {error.strerror or error}") from error
    return server


def served(server: PageServer, listen: str) -> str:
    """A sentence with the address of the metrics."""
    return f"serving http://{listen.rpartition(':')[0]}:{server.port}/metrics"


def _host_and_port(listen: str) -> tuple[str, int]:
    from redisq_ops.core.worker.health import parse_address

    address = parse_address(listen)
    if address is None:
        raise BadInput(f"--listen {listen!r}: HOST:PORT, for example 127.0.0.1:9808")
    return address


def _registry(s: Session, names: Sequence[str], rules: Rules) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    from redisq_ops.ops.metrics import QueueCollector

    registry = CollectorRegistry()
    registry.register(QueueCollector(lambda: _read(s, rules), names, rules))
    return registry


def _read(s: Session, rules: Rules) -> Overview:
    from redisq_ops.ops.inspect.overview import overview

    return s.run(overview(s.deployment, lambda name: rules.of(name).limits))


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
