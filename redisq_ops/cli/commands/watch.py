"""`redisq watch`: check, notify, serve metrics and record, in one process."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from contextvars import copy_context
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import BadInput, LoginRefused, NotFound, RedisqError
from redisq_ops.core.signals import handled
from redisq_ops.ops.filter.time import duration_ms

from ..options import command, option, options
from ..output import say
from ..session import Session
from .check import Judging, examined, notifier, say_each, unknown
from .metrics import LISTEN, serve, served
from .recording import MAX_SIZE, next_sample

if TYPE_CHECKING:
    from redisq_ops.ops.check.rules import Rules
    from redisq_ops.ops.notify.episode import Checked
    from redisq_ops.ops.notify.notifier import Notifier
    from redisq_ops.ops.recording.file import RecordingFile
    from redisq_ops.ops.recording.sampler import Sampler

    from .check import Teller

commands = typer.Typer()
LEAST_MS = 1_000
SAMPLE_S = 1.0
"""time between two samples of a recording"""
STOP_S = 15.0
"""how long a message that is being sent is waited for at the end: longer than it may take"""


@options
class WatchOptions:
    judging: Judging
    interval: str = option("--interval", "SPAN", "Time between two checks.", default="15s")
    listen: str = LISTEN
    recording: str | None = option("--recording", "FILE", "Record all queues in FILE, too.")
    most: int = MAX_SIZE
    duration: str | None = option("--for", "SPAN", "Stop after this time.")


@command(commands, "watch", prints="MonitorCheck")
def watch(s: Session, given: WatchOptions) -> int:
    """Check, notify, serve metrics and record, in one process.

    Does the same as redisq check --notify, redisq metrics and redisq recording write, until SIGTERM
    or Ctrl+C. Prints the line of redisq check whenever other rules are broken than before, and
    tells the recipients of the table [notify] in the configuration. While the server can't be
    reached, it tells them so, and tries again. Read permission is enough.

    To repeat a list on the screen, use --watch of that command, as redisq ls --watch 2s.

    Examples:
      redisq watch
      redisq watch --rules /etc/redisq/check.toml --recording /var/lib/redisq/queues.rec
      redisq watch 'mail*' --listen 0.0.0.0:9808 --interval 30s
    """
    from redisq_ops.ops.recording.file import RecordingFile

    interval_ms = duration_ms(given.interval)
    if interval_ms < LEAST_MS:
        raise BadInput(f"--interval {given.interval}: at least {LEAST_MS // 1000}s")
    lasts_s = inf if given.duration is None else duration_ms(given.duration) / 1000
    rules = given.judging.rule_tables()
    told = None if s.config.notify is None else Background(notifier(s, lasting=True))
    stopped = Event()
    with ExitStack() as stack:
        check = Check(s, given.judging, rules, None if told is None else told.tell)
        tasks: list[tuple[float, Check | Recording]] = [(interval_ms / 1000, check)]
        if given.recording is not None:
            written = RecordingFile(given.recording, given.most * 1_000_000)
            file = stack.enter_context(closing(written))
            tasks.append((SAMPLE_S, Recording(s, file)))
        names = given.judging.names or ()
        server = stack.enter_context(closing(serve(s, names, given.listen, rules)))
        if told is None:
            say("nobody is told of trouble: the configuration has no table [notify]")
        else:
            stack.callback(told.wait)
        stack.enter_context(handled(lambda *_: stopped.set()))
        check.run()
        sys.stdout.flush()
        say(served(server, given.listen))
        began = monotonic()
        due = [began + interval_ms / 1000, began][: len(tasks)]
        while not stopped.is_set():
            for n, (every_s, task) in enumerate(tasks):
                if due[n] <= monotonic():
                    task.run()
                    sys.stdout.flush()  # a log reads it by lines
                    due[n] = max(due[n] + every_s, monotonic())
            if monotonic() >= began + lasts_s:
                break
            stopped.wait(max(0.0, min(*due, began + lasts_s) - monotonic()))
    return 0


class Check:
    """Checks, and prints the line when other rules are broken than before."""

    def __init__(self, s: Session, judging: Judging, rules: Rules, tell: Teller | None) -> None:
        self._s, self._judging, self._rules, self._tell = s, judging, rules, tell
        self._shown: object = None

    def run(self) -> None:
        """Raises `LoginRefused`, `BadInput` and `NotFound` at first only: passwords rotate."""
        from redisq_ops.core.redis.server_errors import translate

        try:
            checked = examined(self._s, self._judging, self._rules, self._tell)
        except Exception as error:
            known = translate(error)
            mistake = isinstance(known, (BadInput, LoginRefused, NotFound)) and self._shown is None
            if mistake or not isinstance(known, RedisqError):
                raise
            failure = type(known).__name__
            if self._shown != failure:
                unknown(self._s.json, known, " ".join(str(known).split()))
            self._shown = failure
            return
        broken = {(one.identity, one.severity) for one in checked.broken}
        shown = (checked.code, str(checked.absent), broken)
        if self._shown != shown:
            checked.print(self._s.json)
        self._shown = shown


class Recording:
    """Samples into a file. When the file can't be written, it says so once and stops: the checks
    go on."""

    def __init__(self, s: Session, file: RecordingFile) -> None:
        self._s, self._file = s, file
        self._sampler: Sampler | None = None
        self._stopped = False

    def run(self) -> None:
        from redisq_ops.ops.recording.sampler import Sampler

        if self._stopped:
            return
        try:
            self._sampler = self._sampler or Sampler(self._s.deployment)
            line = next_sample(self._s, self._sampler)
        except RedisqError:  # the check says it
            return
        try:
            self._file.add(line)
        except RedisqError as error:
            say(f"redisq: {error}")
            self._stopped = True


class Background:
    """Tells in a thread, so that a recipient that hangs delays neither checks nor samples. What a
    check finds while the one before is still told, the next check tells."""

    def __init__(self, notifier: Notifier) -> None:
        notifier.prepare()
        self._notifier = notifier
        self._thread: Thread | None = None

    def tell(self, checked: Checked) -> list[str]:
        """Begin to tell; what goes wrong is said later."""
        if self._thread is None or not self._thread.is_alive():
            context = copy_context()  # has the options of hints

            def tell() -> None:
                say_each(context.run(self._notifier.tell, checked))

            self._thread = Thread(target=tell, daemon=True)
            self._thread.start()
        return []

    def wait(self) -> None:
        """Until what is being told is told, or can't be."""
        if self._thread is not None:
            self._thread.join(STOP_S)
