"""`redisq spark serve`."""

from __future__ import annotations

import signal
from typing import Any

from redisq_ops.core.model.errors import Unreachable

from ..output import say
from ..session import Session
from .spark_session import announced


def served(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.pipeline.connect_server import remote_file, running_server
    from redisq_ops.pipeline.session import LOCAL

    announced(s, given | {"master": given["master"] or LOCAL})
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running_server(
            s.config.server_address(), master=given["master"], conf=given["conf"] or ()
        ) as process:
            say(f'Spark is ready: export SPARK_REMOTE="$(cat {remote_file()})". Ctrl+C stops it.')
            code = process.wait()
    except KeyboardInterrupt:
        return 0
    raise Unreachable(f"Spark Connect ended with exit code {code}")
