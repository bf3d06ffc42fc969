"""Shared by the scripts of all peers; standard library only, because it runs in every environment.

A script is started as ``SCRIPT work|submit MODE URL JOBS`` and prints one JSON line:
``{"jobs": …, "seconds": …}``, of *work* also ``cpu``, seconds of this process's CPU time.

*work*: the script fills the queue, then runs the worker in the same process. The time is from the
first call of the handler to the last one, so starting, connecting, filling and stopping do not
count; nor do the first delivery and the last acknowledgement.

*submit*: from the call with all payloads to its return.
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
_first = _first_cpu = 0.0


def handled(*_: object) -> None:
    """The handler: count, and end the process after the last job."""
    global _first, _first_cpu
    nth = next(_counter)
    if nth == 1:
        _first, _first_cpu = time.perf_counter(), time.process_time()
    elif nth == JOBS:
        cpu = time.process_time() - _first_cpu
        report(JOBS - 1, time.perf_counter() - _first, cpu=cpu)


def report(jobs: int, seconds: float, **more: float) -> None:
    """Print the figures and exit at once: stopping a worker is not measured."""
    line = json.dumps({"jobs": jobs, "seconds": seconds} | more) + "\n"
    os.write(1, line.encode())  # celery replaces sys.stdout
    os._exit(0)
