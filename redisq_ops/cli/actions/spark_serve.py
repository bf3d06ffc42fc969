"""`redisq spark serve`."""

from __future__ import annotations

import signal
from typing import Any

from redisq_ops.core.model.errors import Unreachable

from ..output import say
from ..session import Session
from .spark_session import announced


def served(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.pipeline.connect_server import address_file, running_server

    announced(s, given)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with running_server(
        s.config.server_address(), master=given["master"], conf=given["conf"] or ()
    ) as process:
        say(f"Spark is ready; commands find it by {address_file()}. Ctrl+C stops it.")
        try:
            code = process.wait()
        except KeyboardInterrupt:
            return 0
    raise Unreachable(f"Spark Connect ended with exit code {code}")
