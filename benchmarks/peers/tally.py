"""What the scripts share; the standard library alone, for it runs in every peer's environment.

A script is started as ``SCRIPT work|submit MODE URL JOBS`` and prints one JSON line:
``{"jobs": …, "seconds": …}``.

*work*: the queue is filled first, by the same process, then the worker runs in it. The time goes
from the first call of the handler to the last one, so starting, connecting, filling and stopping
count for nobody; the first delivery's way and the last job's acknowledgement don't either.

*submit*: from the call with all jobs' payloads to its return.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time

WHAT, MODE, URL = sys.argv[1:4]
JOBS = int(sys.argv[4])
PAYLOAD = "x" * 100

_counter = itertools.count(1)  # its next() is one step, so handlers in threads may share it
_first = 0.0


def handled(*_: object) -> None:
    """A handler's whole work: count, and end the process after the last job."""
    global _first
    nth = next(_counter)
    if nth == 1:
        _first = time.perf_counter()
    elif nth == JOBS:
        report(JOBS - 1, time.perf_counter() - _first)


def report(jobs: int, seconds: float) -> None:
    """Print the figure, and leave at once: what a worker does to stop is not measured."""
    line = json.dumps({"jobs": jobs, "seconds": seconds}) + "\n"
    os.write(1, line.encode())  # celery replaces sys.stdout
    os._exit(0)
