"""Handlers: a function, sync or ``async``, or a program; and what their results mean.

    def handle(work):             # or: async def handle(work)
        return len(work.payload)  # bytes as they are, str as UTF-8, else JSON; None: no result

`Retry` and `Reject` decide what happens next. Any other exception is a failure: the entry is
retried after 1 s · 2ⁿ ± 10 %, at most 15 minutes.
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
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from ..model.entry import Delivery, Failure, Settlement, task_of
from ..model.errors import BadInput, TooLarge
from ..model.settings import MAX_RESULT
from .retry import Failed, Random, Reject, failed

if TYPE_CHECKING:
    from ..engine.queue import Queue
    from ..redis.operation import BlockingClient

REJECTED = 100
STDERR_KEPT = 4096


class Work:
    """What a handler gets: an entry to work on.

    ``delivery``: the `Delivery`. ``lost``: True once the lease is lost; then the handler's result
    is dropped, and it should stop.
    """

    __slots__ = ("_renew", "delivery", "lost", "settlement", "started", "timeout_s")

    def __init__(
        self, delivery: Delivery, renew: Callable[[Sequence[Work]], Sequence[bool]]
    ) -> None:
        self.delivery = delivery
        self._renew = renew
        self.lost = False
        self.started: float | None = None
        self.settlement: Settlement | None = None
        self.timeout_s: float | None = None

    @property
    def payload(self) -> bytes:
        """The bytes that were submitted."""
        return self.delivery.payload

    @property
    def id(self) -> str:
        """The entry's id, the same in every attempt: use it as a key to do things only once."""
        return self.delivery.id

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.delivery.queue

    @property
    def request(self) -> str | None:
        """The id of its request; None where the queue has no requests."""
        return self.delivery.request

    @property
    def number(self) -> int | None:
        """Its number in its request, from 1; None where the queue has no requests."""
        return self.delivery.number

    @property
    def task(self) -> str | None:
        """The name of its task, if its id has one."""
        return task_of(self.delivery.id)

    @property
    def client(self) -> str | None:
        """The client it belongs to, in a fair queue; else None."""
        return self.delivery.client

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.delivery.attempt

    def extend(self) -> bool:
        """Renew the lease now; False: it is lost. The worker does so every third of the lease.

        One blocking round trip: in an async handler ``await asyncio.to_thread(work.extend)``.
        """
        return self._renew((self,))[0]


@dataclass(frozen=True, slots=True)
class Handler:
    """What a worker runs for each entry."""

    call: Callable[[Work], Any]
    is_async: bool = False
    abort: Callable[[Work], None] | None = None
    """ends a run from outside, if that is possible"""
    timeout_s: Callable[[Work], float | None] | None = None
    """how long an entry may take; None: as long as the worker's other ones"""
    failed: Callable[[Delivery, BaseException, Random], Settlement] = failed
    """how a run that raised an error ends: the retry policy"""
    returns: bool | None = None
    """whether it returns results; None: unknown until it does"""
    tasks: frozenset[str] = frozenset()
    """the names of its tasks, for metrics"""


@runtime_checkable
class HasTasks(Protocol):
    """Tasks, which know their queues: `redisq_ops.tasks.Tasks`."""

    url: str | None
    prefix: str | None

    def connect(self, client: BlockingClient, prefix: str) -> Sequence[Queue[BlockingClient]]:
        """Use this client from now on; returns the queues, the first priority first."""

    def handler(self, concurrency: int = 1) -> Handler:
        """What a worker runs."""

    def declare_schedules(self) -> None:
        """Write the schedules of the code."""


def as_handler(function: Callable[[Work], Any] | Handler) -> Handler:
    """Make a `Handler` of a function, coroutine function or callable object."""
    if isinstance(function, Handler):
        return function
    if not callable(function):
        raise BadInput(f"a handler must be callable; a {type(function).__name__} is not")
    callables: tuple[Any, ...] = (function, type(function).__call__)
    is_async = any(map(inspect.iscoroutinefunction, callables))
    return Handler(function, is_async, returns=_returns(function))


def _returns(function: Any) -> bool | None:
    """Whether a function says that it returns a value; None: it doesn't say."""
    said = getattr(function, "__annotations__", {}).get("return", Any)
    return None if said in (Any, "Any") else said not in (None, "None", NoReturn, "NoReturn")


def load_handler(spec: str) -> Handler | HasTasks:
    """Import the handler ``module:function``, or the tasks ``module:object``, also from the current
    directory.

    That directory comes last, so that a file there does not replace an installed module.
    """
    module, colon, name = spec.partition(":")
    if not (module and colon and name) or module.endswith(".py"):
        raise BadInput(f"handler {spec!r}: write it as module:function, such as jobs:handle")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # importing runs code, and that may raise anything
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise BadInput(f"handler {spec!r} can't be imported: {text}") from error
    if isinstance(owner := getattr(found, "owner", None), HasTasks):
        names = vars(sys.modules[module])
        tasks = next((each for each in names if names[each] is owner), "TASKS")
        raise BadInput(f"{name} is a task: name its Tasks, as in {module}:{tasks}")
    return found if isinstance(found, HasTasks) else as_handler(found)


def exec_handler(argv: Sequence[str]) -> Handler:
    """A handler that runs a program for each entry, without a shell.

    stdin is the payload, stdout the result. Exit code 0: done; 100: dead at once; any other: a
    failure with the last 4 KiB of stderr.
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
        self._starting = threading.Lock()
        """so that `kill` finds every program that was started"""

    def run(self, work: Work) -> bytes:
        # Files, not pipes: a program that leaves a child behind would keep a pipe open for ever.
        with TemporaryFile() as given, TemporaryFile() as said, TemporaryFile() as complained:
            given.write(work.payload)
            given.seek(0)
            with self._starting:
                if work.settlement is not None:  # timed out or given back before it started
                    return b""
                # A session of its own: only the worker gets Ctrl+C, and `kill` ends children, too.
                process = subprocess.Popen(
                    self._argv, stdin=given, stdout=said, stderr=complained, start_new_session=True
                )
                self._running[work] = process
            code = process.wait()
            del self._running[work]
            if code == 0:
                return _tail(said, MAX_RESULT + 1)  # one byte more shows a result that is too long
            message = _tail(complained, STDERR_KEPT).decode("utf-8", "replace").strip()
        if code == REJECTED:
            raise Reject(message or f"exit {REJECTED}")
        how = f"exit {code}" if code > 0 else signal.Signals(-code).name
        raise Failed(Failure(how, message))

    def kill(self, work: Work) -> None:
        with self._starting:
            process = self._running.get(work)
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _tail(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most))
    return file.read()


# --- settlements ----------------------------------------------------------------------------------


def encoded(value: Any) -> bytes:
    """The bytes that are stored for a result. Raises `TooLarge`, or TypeError (not for JSON)."""
    if isinstance(value, str):
        data = value.encode()
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
    else:
        data = json.dumps(value, ensure_ascii=False).encode()
    if len(data) > MAX_RESULT:
        raise TooLarge(f"the result has over {MAX_RESULT:,} bytes")
    return data


def succeeded(delivery: Delivery, value: Any) -> Settlement:
    """The settlement of a run that returned ``value``."""
    if value is None:
        return Settlement(delivery, "ack")
    return Settlement(delivery, "result", encoded(value))


def perform(handler: Handler, work: Work, random: Random) -> Settlement:
    """Run a sync handler; returns the settlement of its result or exception."""
    try:
        return succeeded(work.delivery, handler.call(work))
    except BaseException as error:  # sys.exit() in a handler doesn't end the worker
        return handler.failed(work.delivery, error, random)
