"""Handlers: a function, sync or ``async``, or a program; and what their results mean.

    def handle(work):             # or: async def handle(work)
        return len(work.payload)  # bytes as they are, str as UTF-8, else JSON; None: no result

`Retry` and `Reject` decide what happens next. Any other exception is a failure: the entry is
retried after 1 s · 2ⁿ up to 15 minutes, ± 10 %.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, runtime_checkable

from ..model.entry import Delivery, Failure, Settlement, task_of
from ..model.errors import BadInput, TooLarge
from ..model.retry_policy import RetryPolicy
from ..model.settings import MAX_RESULT
from ..signals import signal_name
from .daemon_threads import DaemonThreads
from .retry import Failed, failed

if TYPE_CHECKING:
    from ..engine.queue import Queue
    from ..redis.operation import BlockingClient

T = TypeVar("T")
REJECTED = 100
STDERR_KEPT = 4096


class Work:
    """What a handler gets: an entry to work on.

    ``delivery``: the `Delivery`. ``taken_ms``: when it was taken, by the server's clock. ``lost``:
    True once the lease is lost; then the handler's result is dropped, and it should stop.
    """

    __slots__ = (
        "_renew",
        "delivery",
        "ended",
        "error",
        "in_thread",
        "loop",
        "lost",
        "settlement",
        "started",
        "taken_ms",
        "timeout_s",
    )

    def __init__(
        self,
        delivery: Delivery,
        renew: Callable[[Sequence[Work]], Sequence[bool]],
        taken_ms: int = 0,
    ) -> None:
        self.delivery = delivery
        self._renew = renew
        self.taken_ms = taken_ms
        self.lost = False
        self.started: float | None = None
        self.ended: float | None = None
        self.error: BaseException | None = None
        self.settlement: Settlement | None = None
        self.timeout_s: float | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """in which an async handler runs"""
        self.in_thread: Future[Any] | None = None

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

    @property
    def over(self) -> bool:
        """Whether this attempt has ended, so that its result is dropped: it took too long, it was
        given back, or its lease is lost."""
        return self.lost or self.settlement is not None

    @property
    def goes_on(self) -> bool:
        """Whether a part of an async handler still runs in a thread, see `run_in`."""
        return self.in_thread is not None and not self.in_thread.done()

    async def run_in(self, threads: DaemonThreads, call: Callable[[], T]) -> T:
        """A part of an async handler that blocks. After a time-out it goes on, in its slot."""
        self.in_thread = threads.submit(copy_context().run, call)
        return await asyncio.wrap_future(self.in_thread)

    def extend(self) -> bool:
        """Renew the lease now; False: it is lost. The worker does so every third of the lease.

        One blocking round trip: in an async handler ``await asyncio.to_thread(work.extend)``.
        """
        return self._renew((self,))[0]


RUNNING: ContextVar[Work | None] = ContextVar("redisq_work", default=None)
"""the entry whose handler runs here: log lines name it"""


def name_entry(record: logging.LogRecord) -> bool:
    """A filter of log handlers: a line that a handler logs says which entry it runs for."""
    work = RUNNING.get()
    if work is not None and not hasattr(record, "entry"):
        vars(record).update(log_fields(work), running=f" [{work.queue}/{work.id}]")
    return True


def log_fields(work: Work) -> dict[str, Any]:
    """What a log record says of an entry. ``duration_ms``: how long the attempt took, so far."""
    fields = {"queue": work.queue, "entry": work.id, "task": work.task, "attempt": work.attempt}
    if work.started is None:
        return fields
    return fields | {"duration_ms": round(((work.ended or monotonic()) - work.started) * 1000)}


class TaskRules(Protocol):
    """What a task says of its entries."""

    @property
    def timeout_s(self) -> float | None:
        """How long one may take; None: as long as the worker's other ones."""

    @property
    def retry(self) -> RetryPolicy | None:
        """Its own retry policy; None: its queue's."""


@dataclass(frozen=True, slots=True)
class Handler:
    """What a worker runs for each entry."""

    call: Callable[[Work], Any]
    is_async: bool = False
    abort: Callable[[Work], None] | None = None
    """ends a run from outside, if that is possible"""
    returns: bool | None = None
    """whether it returns results; None: unknown until it does"""
    tasks: Mapping[str, TaskRules] = field(default_factory=dict)
    """its tasks by name, see `Work.task`: the worker counts their runs"""
    release: str = ""
    """of the code, for these counts"""


@runtime_checkable
class HasTasks(Protocol):
    """Tasks, which know their queues: `redisq_ops.tasks.Tasks`."""

    url: str | None
    prefix: str | None
    concurrency: int
    """how many run at a time, unless a worker is told otherwise"""

    def connect(self, client: BlockingClient, prefix: str) -> Sequence[Queue[BlockingClient]]:
        """Use this client from now on; returns the queues, the first priority first."""

    def handler(self, concurrency: int) -> Handler:
        """What a worker runs."""

    def declare_schedules(self) -> None:
        """Write the schedules of the code."""


class UnfitHandler(BadInput):
    """A handler that can't be imported, or can't be called with an entry."""


def as_handler(function: Callable[[Work], Any] | Handler) -> Handler:
    """Make a `Handler` of a function, coroutine function or callable object.

    Raises `UnfitHandler` for one that would fail with every entry.
    """
    if isinstance(function, Handler):
        return function
    if why := _unfit(function):
        raise UnfitHandler(why)
    return Handler(function, is_async(function), returns=_returns(function))


def is_async(function: Any) -> bool:
    """Whether a call has to be awaited, of a function or of an object with __call__."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def yields(function: Any) -> bool:
    """Whether a call returns a generator, and runs nothing."""
    callables: tuple[Any, ...] = (function, type(function).__call__)
    return any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in callables)


def _unfit(function: Any) -> str:
    """Why it can't be called with an entry; empty: it can, as far as Python tells."""
    kind = type(function).__name__
    name = getattr(function, "__name__", kind)
    if isinstance(function, HasTasks):
        return f"{kind} is no handler: its tasks run by TASKS.worker(), or redisq work MODULE:TASKS"
    if isinstance(getattr(function, "owner", None), HasTasks):
        return f"{function!r} is no handler: it runs by TASKS.worker(), or redisq work MODULE:TASKS"
    if inspect.isclass(function):
        return f"{name} is a class: a handler is a function, or an object with __call__"
    if not callable(function):
        return f"a handler must be callable; a {kind} is not"
    if yields(function):
        return f"handler {name} yields: a handler returns its result"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C, and doesn't say
        return ""
    try:
        signature.bind(None)
    except TypeError as error:
        names = ", ".join(signature.parameters)
        return f"handler {name}({names}) is called with one argument, the entry: {error}"
    return ""


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
        raise UnfitHandler(f"handler {spec!r}: write it as module:function, such as jobs:handle")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # importing runs code, and that may raise anything
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise UnfitHandler(
            f"handler {spec!r} can't be imported: {text}{_place(module, error)}"
        ) from error
    if isinstance(owner := getattr(found, "owner", None), HasTasks):
        names = vars(sys.modules[module])
        tasks = next((each for each in names if names[each] is owner), "TASKS")
        raise UnfitHandler(f"{name} is a task: name its Tasks, as in {module}:{tasks}")
    return found if isinstance(found, HasTasks) else as_handler(found)


def _place(module: str, error: BaseException) -> str:
    """Where an import failed, if not in the import itself; a SyntaxError says it."""
    ours = (__file__, importlib.__file__)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in ours and os.path.isfile(frame.filename)
    ]
    here = os.path.abspath(f"{module}.py")
    if module in sys.modules and os.path.exists(here):
        file = getattr(sys.modules[module], "__file__", "built in")
        if file != here:
            return f"; it is {file}, not the {module}.py of this folder: rename yours"
    if isinstance(error, SyntaxError) or not frames:
        return ""
    return f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})"


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
        self._shown = shlex.join(argv)
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
                try:
                    process = subprocess.Popen(
                        self._argv,
                        stdin=given,
                        stdout=said,
                        stderr=complained,
                        start_new_session=True,
                    )
                except OSError as error:  # it was removed, or its interpreter is missing
                    why = f"it can't be run: {error.strerror}"
                    raise Failed(Failure(type(error).__name__, why), self._shown) from None
                self._running[work] = process
            code = process.wait()
            del self._running[work]
            if code == 0:
                return _tail(said, MAX_RESULT + 1)  # one byte more shows a result that is too long
            message = _tail(complained, STDERR_KEPT).decode("utf-8", "replace").strip()
        if code == REJECTED:
            failure = Failure("Reject", message or f"exit {REJECTED}")
            raise Failed(failure, f"{self._shown} (exit {REJECTED})", dead=True)
        how = f"exit {code}" if code > 0 else signal_name(-code)
        raise Failed(Failure(how, message), self._shown)

    def kill(self, work: Work) -> None:
        with self._starting:
            process = self._running.get(work)
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):  # it ends just now
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
    elif inspect.isawaitable(value):
        raise TypeError(f"the handler returned a {type(value).__name__}: write async def, or await")
    else:
        try:
            data = json.dumps(value, ensure_ascii=False).encode()
        except (TypeError, ValueError) as error:
            raise TypeError(f"the handler's result: {error}") from None
    if len(data) > MAX_RESULT:
        raise TooLarge(f"the result has over {MAX_RESULT:,} bytes")
    return data


def succeeded(delivery: Delivery, value: Any) -> Settlement:
    """The settlement of a run that returned ``value``."""
    if value is None:
        return Settlement(delivery, "ack")
    return Settlement(delivery, "result", encoded(value))


def perform(handler: Handler, work: Work) -> Settlement:
    """Run a sync handler; returns the settlement of its result or exception."""
    token = RUNNING.set(work)
    try:
        return succeeded(work.delivery, handler.call(work))
    except BaseException as error:  # sys.exit() in a handler doesn't end the worker
        work.error, work.ended = error, monotonic()
        return failed(work.delivery, error)
    finally:
        RUNNING.reset(token)
