"""`redisq spark serve`."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import Unreachable

from ..main import run
from ..output import progress, say
from ..session import Session
from .spark_session import announced

if TYPE_CHECKING:
    from ..commands.spark import Running


def served(s: Session, running: Running) -> int:
    from redisq_ops.pipeline.connect_server import address_file, running_server

    announced(s, running)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with running_server(
        s.config.server_address(), run, master=running.master, conf=running.conf or ()
    ) as process:
        try:
            with progress("running a first query"):
                _run_first_query(s)
            say(f"Spark is ready; commands find it by {address_file()}. Ctrl+C stops it.")
            code = process.wait()
        except KeyboardInterrupt:
            return 0
    raise Unreachable(f"Spark Connect ended with exit code {code}")


def _run_first_query(s: Session) -> None:
    """The first query takes seconds longer than the next: it loads what all of them use."""
    from redisq_ops.pipeline.connect_server import commands_socket
    from redisq_ops.pipeline.doctor import FIRST_QUERY
    from redisq_ops.pipeline.fork_server import run_in_fork

    options = {f"--{name}": value for name, value in s.flags.items()} | {"--context": s.context}
    words = [word for name, value in options.items() if value for word in (name, value)]
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        run_in_fork(commands_socket(), [*words, *FIRST_QUERY], [nowhere] * 3)
    finally:
        os.close(nowhere)
