"""`redisq spark serve`."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import Unreachable

from ..output import say
from ..session import Session
from .spark_session import announced

if TYPE_CHECKING:
    from ..commands.spark import Running


def served(s: Session, running: Running) -> int:
    from redisq_ops.pipeline.connect_server import remote_file, running_server
    from redisq_ops.pipeline.session import LOCAL

    announced(s, replace(running, master=running.master or LOCAL))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running_server(
            s.config.server_address(), master=running.master, conf=running.conf or ()
        ) as process:
            say(f'Spark is ready: export SPARK_REMOTE="$(cat {remote_file()})". Ctrl+C stops it.')
            code = process.wait()
    except KeyboardInterrupt:
        return 0
    raise Unreachable(f"Spark Connect ended with exit code {code}")
