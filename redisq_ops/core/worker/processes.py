"""Several worker processes under one supervisor."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from threading import Thread
from time import monotonic
from types import FrameType
from typing import Any

from ..model.errors import BadInput
from ..model.validation import validated
from ..signals import handled, signal_name

log = logging.getLogger("redisq_ops.worker")

_LONGEST_PAUSE_S = 10.0
_QUICK_S = 10.0
"""s; a process that fails sooner is restarted after a growing pause"""
_SAFE_PATH = "PYTHONSAFEPATH"
"""variable with which Python imports no modules from the current folder"""


@dataclass(slots=True)
class _Child:
    process: BaseProcess | None = None
    born: float = 0.0
    due: float = 0.0
    pause: float = 0.0
    code: int | None = None
    """its exit code, once it isn't restarted any more"""


@validated
def run_processes(n: int, target: Callable[..., object], args: tuple[Any, ...] = ()) -> int:
    """Run ``target(index, *args)`` in ``n`` new processes until all have ended.

    Call it from the main thread. A process that fails or is killed is started again; one that
    returns is done. SIGTERM and SIGINT are passed on. Returns the highest exit code. ``target`` and
    ``args`` are pickled: use a module-level function, and open queues in it.

        def work(index: int, url: str) -> None:
            Worker(RequestQueue(connect(url), "mail"), handle).run()

        run_processes(4, work, ("redis://127.0.0.1:6379/0",))
    """
    if n < 1:
        raise BadInput(f"n must be at least 1, not {n}")
    context = multiprocessing.get_context("spawn")
    children = [_Child() for _ in range(n)]
    stopping = False

    def forward(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for child in children:
            if child.process is not None and child.process.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(child.process.pid, signal.SIGTERM)

    def start(index: int, child: _Child, now: float) -> None:
        given = os.environ.get(_SAFE_PATH)
        process = context.Process(target=_work_in_child, args=(target, index, args, given))
        os.environ[_SAFE_PATH] = "1"  # else it first imports from the current folder
        try:
            process.start()
        finally:
            _restore_safe_path(given)
        child.process, child.born = process, now
        if stopping:  # the signal came before the process existed
            process.terminate()

    with handled(forward):
        while any(child.code is None for child in children):
            now = monotonic()
            for index, child in enumerate(children):
                if child.process is not None or child.code is not None:
                    continue
                if stopping:
                    child.code = 0
                elif child.due <= now:
                    start(index, child, now)
            sentinels = [child.process.sentinel for child in children if child.process]
            wait(sentinels, timeout=0.5)
            for index, child in enumerate(children):
                if child.process is not None and child.process.exitcode is not None:
                    _process_ended(index, child, stopping)
        return max((child.code or 0 for child in children), default=0)


def _process_ended(index: int, child: _Child, stopping: bool) -> None:
    # Taken out first: the handler of signals must not find a closed process.
    process, child.process = child.process, None
    assert process is not None
    code, now = process.exitcode or 0, monotonic()
    process.close()
    if code == 0 or stopping:
        child.code = max(code, 0)  # a process killed while it is to stop didn't fail
        return
    quick = now - child.born < _QUICK_S
    child.pause = min(_LONGEST_PAUSE_S, max(0.1, 2 * child.pause)) if quick else 0.0
    child.due = now + child.pause
    how = f"exit {code}" if code > 0 else signal_name(-code)
    log.warning("worker process %d ended (%s); starting another", index, how)


def _restore_safe_path(given: str | None) -> None:
    if given is None:
        os.environ.pop(_SAFE_PATH, None)
    else:
        os.environ[_SAFE_PATH] = given


def _work_in_child(
    target: Callable[..., object], index: int, args: tuple[Any, ...], safe_path: str | None
) -> None:
    _restore_safe_path(safe_path)  # programs that it starts inherit the user's value
    # A session of its own: Ctrl+C then reaches only the supervisor, which passes it on once.
    os.setsid()
    Thread(target=_follow, name="redisq-follow", daemon=True).start()
    target(index, *args)
    sys.exit(0)


def _follow() -> None:
    """Stop gracefully when the supervisor is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
