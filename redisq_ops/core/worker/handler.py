"""What a worker runs: a function, sync or ``async``, or a program; and what its end means.

    def handle(delivery):             # or: async def handle(delivery)
        return len(delivery.payload)  # bytes as they are, str as UTF-8, else JSON; None: nothing

Raising `Retry` or `Reject` decides what happens next; anything else raised is a failure, tried
again after a back-off of 1 s · 2ⁿ ± 10 %, 15 min at most.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from tempfile import TemporaryFile
from typing import IO, Any

from ..model.clock import MOST_MS
from ..model.entry import Delivery, Failure, Settlement
from ..model.errors import BadInput, TooLarge
from ..model.settings import MAX_RESULT

LONGEST_BACKOFF_MS = 15 * 60 * 1000
REJECTED = 100
STDERR_KEPT = 4096

Random = Callable[[], float]
"""A number from [0, 1)."""


class Retry(Exception):
    """Fail this attempt and try again ``after`` seconds (or a timedelta); the usual back-off when
    not given."""

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason)
        if isinstance(after, timedelta):
            after = after.total_seconds()
        if after is not None:
            if isinstance(after, bool) or not isinstance(after, (int, float)):
                raise BadInput(f"after is seconds or a timedelta, not {type(after).__name__}")
            if not 0 <= after < MOST_MS / 1000:
                raise BadInput(f"after of {after} s: seconds from 0 to the year 5138")
        self.after = after


class Reject(Exception):
    """No attempt will ever succeed: the entry is dead at once, and ``reason`` is kept."""


class Failed(Exception):
    """An attempt failed for a reason that isn't an exception of this process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Work:
    """A delivery in the hands of a handler."""

    __slots__ = ("_renew", "delivery", "lost", "settlement", "started")

    def __init__(
        self, delivery: Delivery, renew: Callable[[Sequence[Work]], Sequence[bool]]
    ) -> None:
        self.delivery = delivery
        self._renew = renew
        self.lost = False
        """True once the lease is known to be gone: nothing this handler returns will count"""
        self.started: float | None = None
        self.settlement: Settlement | None = None

    @property
    def payload(self) -> bytes:
        return self.delivery.payload

    @property
    def id(self) -> str:
        """The entry's id; the same in every attempt, so a good key for doing things once."""
        return self.delivery.id

    @property
    def queue(self) -> str:
        return self.delivery.queue

    @property
    def request(self) -> str | None:
        """The request this is a sub-request of, where the queue has requests."""
        return self.delivery.request

    @property
    def number(self) -> int | None:
        """The sub-request's number in its request, from 1."""
        return self.delivery.number

    @property
    def client(self) -> str | None:
        """Whose work it is, in a fair queue."""
        return self.delivery.client

    @property
    def attempt(self) -> int:
        """1 for the first delivery."""
        return self.delivery.attempt

    def extend(self) -> bool:
        """Renew the lease now; False when another delivery is the valid one.

        The worker does so anyway, every third of the lease. One blocking round trip: in an async
        handler ``await asyncio.to_thread(delivery.extend)``.
        """
        return self._renew((self,))[0]


@dataclass(frozen=True, slots=True)
class Handler:
    """Something to run per entry. ``abort`` ends a run from outside, where that is possible."""

    call: Callable[[Work], Any]
    is_async: bool = False
    abort: Callable[[Work], None] | None = None


def as_handler(function: Callable[[Work], Any] | Handler) -> Handler:
    """A plain function, coroutine function or callable object as a `Handler`."""
    if isinstance(function, Handler):
        return function
    if not callable(function):
        raise BadInput(f"a handler is called; a {type(function).__name__} can't be")
    method = getattr(function, "__call__", None)  # noqa: B004 (the method itself is asked)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)
    return Handler(function, is_async)


def load_handler(spec: str) -> Handler:
    """Import ``module:function``, also from the current directory."""
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise BadInput(f"handler {spec!r}: write it as module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # importing runs code, and that may raise anything
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise BadInput(f"handler {spec!r} can't be imported: {text}") from error
    return as_handler(found)


def exec_handler(argv: Sequence[str]) -> Handler:
    """A handler that runs a program per entry, without a shell.

    The payload is its stdin and stdout is the result (nothing written: empty bytes). Exit 0 is
    done, 100 dead at once, anything else a failure with the last 4 KiB of stderr.
    """
    if not argv:
        raise BadInput("a program to run is needed")
    if shutil.which(argv[0]) is None:
        raise BadInput(f"program {argv[0]!r} can't be found or may not be run")
    program = _Program(tuple(argv))
    return Handler(program.run, abort=program.kill)


class _Program:
    def __init__(self, argv: tuple[str, ...]) -> None:
        self._argv = argv
        self._running: dict[Work, subprocess.Popen[bytes]] = {}

    def run(self, work: Work) -> bytes:
        # Files, not pipes: a program that leaves a child behind would keep a pipe open for ever.
        with TemporaryFile() as given, TemporaryFile() as said, TemporaryFile() as complained:
            given.write(work.payload)
            given.seek(0)
            # A session of its own: Ctrl+C is the worker's to handle, and killing takes all of it.
            process = subprocess.Popen(
                self._argv, stdin=given, stdout=said, stderr=complained, start_new_session=True
            )
            self._running[work] = process
            code = process.wait()
            del self._running[work]
            if code == 0:
                return _tail(said, MAX_RESULT + 1)  # one more, so that too much shows
            message = _tail(complained, STDERR_KEPT).decode("utf-8", "replace").strip()
        if code == REJECTED:
            raise Reject(message or f"exit {REJECTED}")
        how = f"exit {code}" if code > 0 else signal.Signals(-code).name
        raise Failed(Failure(how, message))

    def kill(self, work: Work) -> None:
        process = self._running.get(work)
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _tail(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most))
    return file.read()


# --- what the end of a run means ------------------------------------------------------------------


def encoded(value: Any) -> bytes:
    """A result as it is kept. Raises `TooLarge`, or TypeError for what JSON can't say."""
    if isinstance(value, str):
        data = value.encode()
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
    else:
        data = json.dumps(value, ensure_ascii=False).encode()
    if len(data) > MAX_RESULT:
        raise TooLarge(f"the result has over {MAX_RESULT:,} bytes")
    return data


def backoff_ms(failures: int, random: Random) -> int:
    """How long to wait after one more failure, when there were ``failures`` before it."""
    plain = min(1000 << min(failures, 20), LONGEST_BACKOFF_MS)
    return min(int(plain * (0.9 + 0.2 * random())), LONGEST_BACKOFF_MS)


def succeeded(delivery: Delivery, value: Any) -> Settlement:
    """The settlement of a run that returned ``value``."""
    if value is None:
        return Settlement(delivery, "ack")
    return Settlement(delivery, "result", encoded(value))


def failed(delivery: Delivery, error: BaseException, random: Random) -> Settlement:
    """The settlement of a run that raised ``error``."""
    failure = error.failure if isinstance(error, Failed) else _failure(error)
    if isinstance(error, Reject):
        return Settlement(delivery, "reject", failure.encoded())
    if isinstance(error, Retry) and error.after is not None:
        return Settlement(delivery, "fail", failure.encoded(), max(0, int(error.after * 1000)))
    return Settlement(delivery, "fail", failure.encoded(), backoff_ms(delivery.failures, random))


def timed_out(delivery: Delivery, timeout_s: float, random: Random) -> Settlement:
    """The settlement of a run that took longer than it may."""
    failure = Failure("Timeout", f"not done after {timeout_s:g} s")
    return failed(delivery, Failed(failure), random)


def perform(handler: Handler, work: Work, random: Random) -> Settlement:
    """Run a sync handler to its end, whatever that is."""
    try:
        return succeeded(work.delivery, handler.call(work))
    except BaseException as error:  # a handler's sys.exit() fails its entry, not the worker
        return failed(work.delivery, error, random)


def _failure(error: BaseException) -> Failure:
    try:
        message = str(error)
    except Exception:
        message = "(its message can't be shown)"
    if isinstance(error, (Retry, Reject)):
        return Failure(type(error).__name__, message)
    # The first frame is ours, the handler's begin behind it.
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        text = "".join(traceback.format_tb(frames))
    return Failure(type(error).__name__, message, text)
