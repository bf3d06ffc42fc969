"""`redisq top`, also as `redisq-top`: the dashboard, or one frame of it as text."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import ExitStack, contextmanager
from datetime import UTC
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE

from ..completion import queues
from ..main import run
from ..options import command, flag, option, options
from ..session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from redisq_ops.ops.inspect.snapshot import Snapshot
    from redisq_ops.tui.guide import GuideStep
    from redisq_ops.tui.host import Completion, Host, KnownNames
    from redisq_ops.tui.poller import Connected, SnapshotSource

commands = typer.Typer()


@options
class TopOptions:
    queue: str | None = option("--queue", "NAME", "Queue to open.", autocompletion=queues)
    interval: float | None = option(
        "--interval", "SECONDS", "Seconds between refreshes. [1]", min=0.1
    )
    once: bool = flag("--once", "Print one frame as text.")
    read_only: bool = flag("--read-only", "Allow no changes.")
    serve: bool = flag("--serve", "Serve the dashboard to browsers; prints its address.")
    listen: str = option(
        "--listen",
        "HOST:PORT",
        "Where to serve it; 127.0.0.1: this machine only.",
        default="127.0.0.1:8765",
    )
    demo: bool = flag("--demo", "Use a demo server, as redisq demo.")
    recording: str | None = option("--recording", "FILE", "Show a recording instead of a server.")
    at: str | None = option("--at", "TIME", "Moment of the recording; default: its end.")


@command(commands, "top", prints="Queue QueueDetails")
def top(s: Session, given: TopOptions) -> int:
    """Open the dashboard: all queues, and keys to change them.

    Without a terminal, or with --once, prints one frame of COLUMNS × LINES (else 120 × 40). With
    --json prints once what redisq ls prints, and with --queue what redisq inspect prints.

    With --serve, prints an address and serves the dashboard to browsers until SIGTERM or Ctrl+C.
    Anyone who has the address has the rights of the user who runs the command.

    Examples:
      redisq top
      redisq top --queue mail --interval 0.5
      redisq top --once --json
      redisq top --serve --read-only
    """
    return open_dashboard(s, given)


def open_dashboard(
    s: Session, given: TopOptions, incident: str | None = None, frameworks: str | None = None
) -> int:
    """Run the dashboard. ``incident``, ``frameworks``: options of a demo."""
    interval, once = given.interval, given.once
    if interval is not None and not isfinite(interval):
        raise BadInput(f"--interval {interval}: say how many seconds")
    s.role = "top"
    if given.recording is not None:
        return _replay(s, given, given.recording, once=once or not sys.stdout.isatty())
    if given.at is not None:
        raise BadInput("--at is a moment of a recording: name it with --recording FILE")
    guide: list[Sequence[GuideStep]] = []
    ready: Callable[[], object] | None = None
    with ExitStack() as stack:
        in_browser = "TEXTUAL_DRIVER" in os.environ  # there, stdout is a pipe to the web server
        once = once or s.json or not (in_browser or sys.stdout.isatty())
        if given.demo:
            from redisq_ops.demo.demonstration import demonstration
            from redisq_ops.demo.frameworks.installation import installed

            from .demo import INCIDENTS

            programs = installed(frameworks) if frameworks else []
            incidents = INCIDENTS if incident is None else (incident,)
            shown = stack.enter_context(demonstration(incidents, programs))
            s.flags["url"], ready = shown.url, shown.wait
            # Loaded while the other process fills the server: it takes half a second.
            from redisq_ops.demo.incidents import chosen

            guide = [each.steps for each in chosen(incident)]
        if s.no_redact:
            _ = s.redaction  # raises before the dashboard starts
        if given.serve:
            return _serve(s, given)
        if s.json:
            return _rows(s, given.queue)
        return _show(s, given.queue, interval, once, given.read_only, guide, ready)


def _rows(s: Session, queue: str | None) -> int:
    """With --json: print the data of a frame, as `redisq ls` or `redisq inspect` does."""
    from . import inspect, overview

    if queue is None:
        return overview.ls(s, names=None)
    inspect.show_queue(s, s.run(s.deployment.queue(queue)))
    return 0


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect no garbage: at the start this takes a seventh of the time and finds nothing. Once the
    dashboard has asked the server, it collects again, with its own threshold."""
    usual = gc.get_threshold()
    gc.disable()
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.enable()


@_no_garbage_collection()
def _show(
    s: Session,
    queue: str | None,
    interval: float | None,
    once: bool,
    read_only: bool,
    guide: Sequence[Sequence[GuideStep]],
    ready: Callable[[], object] | None = None,
) -> int:
    from redisq_ops.ops.config.file import config_path
    from redisq_ops.tui.app import Top
    from redisq_ops.tui.poller import Live
    from redisq_ops.tui.settings_file import read_settings

    settings = read_settings(s.config.dashboard, f"{config_path()} [dashboard]")
    dashboard = Top(
        Live(lambda: _connect(s), ready),
        interval=interval or settings.refresh_s or 1.0,
        queue=queue,
        read_only=read_only,
        zone=UTC if s.utc else None,
        host=_host(s),
        settings=settings,
        guide=guide,
    )
    if once:
        if queue is not None:  # raises if it doesn't exist: the frame would show another view
            s.run(s.deployment.queue(queue))
        from redisq_ops.tui.frame import frame

        sys.stdout.write(frame(dashboard, _size()))
        return PARTLY_DONE if dashboard.snapshot and _unread(dashboard.snapshot) else DONE
    if error := dashboard.run():
        raise error
    return dashboard.return_code or 0


def _replay(s: Session, given: TopOptions, file: str, *, once: bool) -> int:
    """The dashboard on a recording; it connects to no server."""
    from redisq_ops.ops.filter.time import moment_ms
    from redisq_ops.tui.recording_player import Replay, ReplayTop

    from .recording import nothing_of

    if s.json:
        raise BadInput("--recording is for a terminal: redisq recording show FILE --json prints it")
    replay = Replay(Path(file), None)
    if given.at is not None:
        replay.at_ms = min(replay.end_ms, moment_ms(given.at, replay.end_ms, utc=s.utc))
        if replay.at_ms < replay.begin_ms:
            raise nothing_of(s, replay.path, replay.at_ms, (replay.begin_ms, replay.end_ms))
        replay.scrub(0)
    dashboard = ReplayTop(
        replay,
        interval=given.interval or 1.0,
        queue=given.queue,
        read_only=True,
        zone=UTC if s.utc else None,
    )
    if once:
        from redisq_ops.tui.frame import frame

        sys.stdout.write(frame(dashboard, _size()))
        return 0
    if error := dashboard.run():
        raise error
    return dashboard.return_code or 0


def _serve(s: Session, given: TopOptions) -> int:
    """Serve the dashboard: each browser tab runs this command again, without --serve."""
    try:
        from redisq_ops.tui.web_server import DashboardServer
    except ImportError as error:
        raise BadInput("--serve needs textual-serve: pip install 'redisq-ops[web]'") from error
    from redisq_ops.core.worker.health import parse_address

    from ..output import say

    listen = given.listen
    host, port = parse_address(listen) or (None, 0)
    if host is None:
        raise BadInput(f"--listen {listen!r}: HOST:PORT, for example 127.0.0.1:8765")
    _ = s.deployment  # a wrong address or password is reported now, not in a browser
    command = [sys.executable, "-P", "-m", "redisq_ops", *_options(s), "top"]
    command += ["--interval", str(given.interval)] if given.interval else []
    command += ["--queue", given.queue] if given.queue else []
    command += ["--read-only"] if given.read_only else []
    try:
        server = DashboardServer(command, host, port)
    except OSError as error:
        raise BadInput(f"--listen {listen}: {os.strerror(error.errno or 0)}") from error
    say(f"serving {server.url}")
    server.serve()
    return 0


def _unread(seen: Snapshot) -> bool:
    """Whether a part could not be read; then the exit code is 3, as for `ls`."""
    shown = [row.counts for row in seen.overview] + [seen.counts]
    refused = [row.problem for row in seen.overview] + [seen.problem]
    return any(refused) or any(counts.problem for counts in shown if counts)


def main() -> None:
    """The command `redisq-top`."""
    sys.exit(run(["top", *sys.argv[1:]]))


def _host(s: Session) -> Host:
    """The command-line functions that the dashboard needs; their modules load when first called."""
    from redisq_ops.tui.host import FIRST, Completion, Host

    def complete(words: Sequence[str], incomplete: str, known: KnownNames) -> Sequence[Completion]:
        from ..dashboard_completion import completions

        return completions(words, incomplete, known)

    def commands() -> Iterable[Completion]:
        from ..dashboard_completion import commands

        return commands()

    def contexts() -> Sequence[Completion]:
        from redisq_ops.core.model.errors import RedisqError
        from redisq_ops.ops.config.contexts import contexts

        try:
            return [Completion(one.name, one.url or "the usual server") for one in contexts()]
        except RedisqError:  # somebody has broken the file meanwhile
            return []

    first = dict(s.flags), s.context

    def open_context(name: str) -> SnapshotSource:
        # The flags are for the first server, not for the server of another context.
        flags, context = first if name == FIRST else ({}, name)
        return _another(s, flags, context)

    return Host(complete, commands, contexts, open_context)


def _another(s: Session, flags: dict[str, str | None], context: str | None) -> SnapshotSource:
    """Switch this invocation to another server."""
    from redisq_ops.tui.poller import Live

    other = Session(dict(flags), context, utc=s.utc, role=s.role, no_redact=s.no_redact)
    _ = other.config.server_address(), other.redaction  # raises while the old server is still shown
    # Hints read the flags of the first session; commands copied from now on need the new server.
    s.flags.clear()
    s.flags.update(flags, context=context)
    return Live(lambda: _connect(other))


def _connect(s: Session) -> Connected:
    from redisq_ops.core.redis.client import aconnect
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.tui.host import FIRST
    from redisq_ops.tui.poller import Connected

    config = s.config
    target = config.server_address()
    client = aconnect(target, s.role)
    deployment = Deployment(client, prefix=config.prefix)
    word = config["label"] or config.context or ""
    return Connected(
        str(target),
        deployment,
        config.read_only,
        config.guard,
        s.redaction,
        word,
        config["color"] or "",
        _options(s),
        config.context or FIRST,
    )


def _options(s: Session) -> tuple[str, ...]:
    """The global options of this invocation, for commands that are run from the dashboard."""
    given = {**s.flags, "context": s.context, "confirm": s.confirm}
    options = [word for name, value in given.items() if value for word in (f"--{name}", value)]
    flags = {"--utc": s.utc, "--no-redact": s.no_redact}
    return (*options, *(flag for flag, on in flags.items() if on))


def _size() -> tuple[int, int]:
    def cells(name: str, usual: int) -> int:
        word = os.environ.get(name, "")
        return int(word) if word.isdigit() and 0 < len(word) < 5 and int(word) else usual

    return cells("COLUMNS", 120), cells("LINES", 40)
