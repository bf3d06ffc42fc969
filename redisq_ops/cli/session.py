"""One invocation: its connection, its configuration and its form of output."""

from __future__ import annotations

import logging
import shlex
import sys
from collections import ChainMap
from collections.abc import Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from redisq_ops.core.redis.url import masked, masked_url, unverified
from redisq_ops.ops.hint import set_connection_options

if TYPE_CHECKING:
    from redisq_ops.core.redis.operation import BlockingClient, Description
    from redisq_ops.ops.config.config import Config
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.ops.redaction import Redaction

T = TypeVar("T")


@dataclass
class Session:
    """Lazily connected: a command that only prints help or a plan never opens a socket."""

    flags: dict[str, str | None]
    context: str | None = None
    json: bool = False
    utc: bool = False
    log: tuple[int, str] = (0, "text")
    """the arguments of `start_logging`"""
    role: str = "cli"
    confirm: str | None = None
    """the context's name, to confirm a change"""
    no_redact: bool = False
    again: str = ""
    """the typed command, quoted for a shell, without passwords"""

    @cached_property
    def config(self) -> Config:
        from redisq_ops.ops.config.config import load

        return load(self.flags, self.context)

    @cached_property
    def deployment(self) -> Deployment:
        from redisq_ops.core.redis.client import connect
        from redisq_ops.core.redis.operation import run
        from redisq_ops.ops.deployment import Deployment
        from redisq_ops.ops.inspect.overview import eviction_policy

        from .output import say

        def warn(text: str) -> None:
            if self.role == "worker":  # which writes nothing but log lines
                logging.getLogger("redisq_ops").warning("%s", text)
            else:
                say(f"redisq: warning: {text}")

        config = self.config
        address, prefix = config.server_address(), config.prefix
        client = connect(address, self.role)
        if unverified(address.url):
            warn(
                f"{address} switches off the check of the server's certificate: "
                "anybody between here and there can read and change everything"
            )
        if policy := run(client, eviction_policy()):
            warn(
                f"this server's maxmemory-policy is {policy}: once memory is "
                "full it deletes what queues keep; set it to noeviction"
            )
        return Deployment(client, prefix=prefix)

    @property
    def client(self) -> BlockingClient:
        """The connection of `deployment`."""
        client: BlockingClient = self.deployment.client
        return client

    def run(self, description: Description[T] | Coroutine[Any, Any, T]) -> T:
        """Run an operation on this session's client."""
        from redisq_ops.core.redis.operation import run

        return run(self.deployment.client, description)

    @cached_property
    def redaction(self) -> Redaction:
        """The redaction; raises `Refused` if the configuration forbids ``--no-redact``."""
        from redisq_ops.core.model.errors import Refused
        from redisq_ops.ops.redaction import NO_REDACTION

        redaction = self.config.redaction
        if not self.no_redact:
            return redaction
        if redaction.forced or self.config.read_only:
            read_only = f"read_only, {self.config.values['read_only'].origin}"
            why = "redact.forced in the configuration" if redaction.forced else read_only
            raise Refused(f"--no-redact is not allowed here ({why})")
        return NO_REDACTION

    def writable(self) -> None:
        """Raise `Refused` if the configuration says read-only."""
        self.config.guard.writable()


_CURRENT: ContextVar[Session | None] = ContextVar("session", default=None)


def begin(started: Session) -> Session:
    """Make this session the current one: `redaction` and hints of commands use it from now on."""
    _CURRENT.set(started)
    start_logging(*started.log)
    set_connection_options(ChainMap(started.flags, {"context": started.context}))
    return started


def current() -> Session | None:
    """The invocation's session; None before `begin`."""
    return _CURRENT.get()


def redaction() -> Redaction:
    """The redaction of the current session, for `rows`, which many commands share."""
    from redisq_ops.ops.redaction import NO_REDACTION

    current = _CURRENT.get()
    return NO_REDACTION if current is None else current.redaction


def command_line(typed: Sequence[str]) -> str:
    """The command line of these words after `redisq`, quoted for a shell, without passwords."""
    words = [masked(word) for word in typed]
    for n, word in enumerate(typed):
        if word.startswith("--url="):
            words[n] = f"--url={masked_url(word.removeprefix('--url='))}"
        elif n and typed[n - 1] == "--url":
            words[n] = masked_url(word)
    return shlex.join(["redisq", *words])


def start_logging(verbose: int, format: str, *, worker: bool = False) -> None:
    """Log lines of `redisq_ops` to stderr; ``format`` is ``text`` or ``json``.

    ``worker``: log more, and the lines of all loggers: those of handlers, too. They name the entry.
    """
    if format not in ("text", "json"):
        from redisq_ops.core.model.errors import BadInput

        raise BadInput(f"--log-format {format}: text or json")
    ours, root = logging.getLogger("redisq_ops"), logging.getLogger()
    ours.setLevel(max(logging.DEBUG, logging.WARNING - 10 * (verbose + worker)))
    handler = _Stderr(sys.stderr)
    handler.setFormatter(_JsonLines() if format == "json" else _TextLines())
    root.handlers[:] = [each for each in root.handlers if not isinstance(each, _Stderr)]
    ours.handlers[:] = [] if worker else [handler]
    if worker:
        from redisq_ops.core.worker.handler import name_entry

        handler.addFilter(name_entry)
        root.addHandler(handler)
        root.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)


class _Stderr(logging.StreamHandler[Any]):
    """The handler that `start_logging` installs."""


class _TextLines(logging.Formatter):
    """Lines without control characters. The further lines of a message are indented, so that an
    error's text can't forge a log line. A line of a handler names its entry."""

    def __init__(self) -> None:
        text = "%(asctime)s %(levelname)s %(name)s%(running)s: %(message)s"
        super().__init__(text, defaults={"running": ""})

    def format(self, record: logging.LogRecord) -> str:
        return _indented(super().format(record))


def _indented(text: str) -> str:
    from redisq_ops.ops.terminal import printable

    return "\n    ".join(map(printable, text.split("\n")))


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        import json

        line: dict[str, Any] = {
            "at_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: vars(record)[name] for name in _OF_ENTRY if name in vars(record)}
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["traceback"] = record.exc_text
        return json.dumps(line)


_OF_ENTRY = ("queue", "entry", "task", "attempt", "duration_ms", "wait_ms", "error")
"""what a line about an entry says of it, and of how its attempt ended"""
