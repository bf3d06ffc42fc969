"""The entry point of `redisq`: one command, its errors as one line, its exit code."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cache
from io import TextIOWrapper
from typing import Any

# Options every command takes, anywhere on the line -> how many words follow.
_GLOBAL = {
    "--json": 0,
    "--utc": 0,
    "--verbose": 0,
    "-v": 0,
    "--url": 1,
    "--prefix": 1,
    "--context": 1,
    "--confirm": 1,
    "--no-redact": 0,
    "--log-format": 1,
    "--version": 0,
}


def hoisted(argv: Sequence[str]) -> list[str]:
    """The same words with global options in front, where the parser expects them."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, _ = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif name in _GLOBAL or _verbosity(word):
            front.append(word)
            if _GLOBAL.get(name) and not equals:
                front += [following for following in [next(words, None)] if following is not None]
        else:
            rest.append(word)
    return front + rest


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and end with the contract's exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _occupy()
    if isinstance(sys.stdout, TextIOWrapper):  # a locale may lack what is to be shown, as `≈`
        sys.stdout.reconfigure(errors="backslashreplace")
    # What describes an operation is a coroutine: Ctrl+C may come before it is begun.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    try:
        code = run(words)
    except KeyboardInterrupt:  # while modules were loading
        code = 130
    if code == 130:
        # An interrupt that passed through `exec`, as dataclasses use it while modules load, makes
        # Python end by the signal however it was handled: who waits for 130 would not see it.
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _occupy() -> None:
    """Open what was closed of stdin, stdout and stderr: a connection would get its number else, and
    what is written there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def run(words: Sequence[str]) -> int:
    """One command, its errors as one clear line on stderr; returns the exit code. Of what it knows
    of its own invocation nothing is left to the next."""
    return copy_context().run(_run, words)


def _run(words: Sequence[str]) -> int:
    import typer

    if any(word.startswith(("--install-completion", "--show-completion")) for word in words):
        from .completion import mend

        mend()
    # Typer brings its own click or uses the installed one; this class is the right one's.
    usage_error: Any = typer.BadParameter.__base__
    as_json = "--json" in words
    try:
        line = tuple(words)  # for what is to be typed again
        commands = root_command() if all(map(_is_utf8, words)) else _strict_commands()
        code = commands(hoisted(words), prog_name="redisq", standalone_mode=False, obj=line)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return 2
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        return _say(f"{error.format_message()}{where}", 2, as_json)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, SystemExit) as end:
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        # `redisq … | head` ends quietly (Typer makes an exit 1 of it); without this Python
        # complains while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from redisq_ops.core.model.errors import RedisqError, file_error, translate

        known = translate(error)
        if isinstance(known, RedisqError):
            return _say(f"{known}{_at_another_port(known)}", known.exit_code, as_json, known)
        if isinstance(error, OSError):
            where = f": {error.filename}" if error.filename else ""
            said = file_error(error, f"{error.strerror or error}{where}")
            return _say(str(said), said.exit_code, as_json)
        return _unexpected(error, words, as_json)


def _unexpected(error: Exception, words: Sequence[str], as_json: bool) -> int:
    """A mistake of ours: one line, and at ``-vv`` the traceback for a report of it."""
    import traceback

    if sum(_verbosity(word) for word in words) >= 2:
        traceback.print_exception(error)
    # Its own words may quote a payload.
    frames = traceback.extract_tb(error.__traceback__)
    at = [frame for frame in frames if "redisq_ops" in frame.filename][-1]
    where = f"{at.filename.rpartition('redisq_ops/')[2]}:{at.lineno}"
    what = f"unexpected error: {type(error).__name__} at {where}"
    return _say(f"{what}; please report it with what -vv shows", 1, as_json)


def _verbosity(word: str) -> int:
    if word == "--verbose":
        return 1
    return word.count("v") if word.startswith("-") and set(word[1:]) == {"v"} else 0


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _strict_commands() -> Any:
    """The parser, changed to refuse texts that aren't UTF-8; only a line with one pays for it."""
    root = root_command()
    _require_utf8(root, root.context_class(root))
    return root


def _require_utf8(command: Any, context: Any) -> None:
    """Make a usage error of every text that isn't UTF-8, except names of files and what entries
    are compared with, which may have any bytes."""

    def convert(self: Any, value: Any, param: Any, context: Any) -> Any:
        if isinstance(value, str) and not _is_utf8(value):
            self.fail("not UTF-8", param, context)
        return value

    for param in command.params:
        free = (param.metavar or "") in ("EXPR", "REGEX") or "FILE" in (param.metavar or "")
        if param.type.name in ("str", "text") and not free:
            param.type = type("Utf8", (type(param.type),), {"convert": convert})()
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            _require_utf8(command.get_command(context, name), context)


@cache
def root_command() -> Any:
    """All commands, as the parser has them."""
    from typer.main import get_command

    from .app import app

    return get_command(app)


def _at_another_port(error: Exception) -> str:
    """Words for who speaks TLS to a server that doesn't, or not to one that does."""
    from redis.exceptions import ConnectionError, RedisClusterException, TimeoutError

    from redisq_ops.core.model.errors import LoginRefused, RedisqError
    from redisq_ops.ops.port_probe import tls_mismatch

    from .session import current

    cause = error.__cause__
    heard = not isinstance(cause, (ConnectionError, RedisClusterException, TimeoutError))
    heard = heard or isinstance(error, LoginRefused)  # to redis-py a connection error, too
    if heard or "refused" in str(cause) or (session := current()) is None:
        return ""
    with suppress(RedisqError):
        if port := tls_mismatch(session.config.server_address().url):
            return f"; that port speaks {'TLS' if port.tls else 'no TLS'}: write {port.url}"
    return ""


def _say(message: str, code: int, as_json: bool, error: Any = None) -> int:
    """One line that says what is wrong; on a terminal a caret in a second one says where."""
    from redisq_ops.ops.terminal import printable

    column = getattr(error, "column", None)
    line = " ".join(message.split()) if column is None else error.line
    if as_json:
        at = {} if column is None else {"column": column}
        print(json.dumps({"error": line, "exit": code, **at}), file=sys.stderr)
    elif column is not None and sys.stderr.isatty():
        text, caret = error.shown
        print(f"redisq: {text}\n{' ' * len('redisq: ')}{caret}", file=sys.stderr)
    else:
        print(f"redisq: {printable(line)}", file=sys.stderr)
    return code
