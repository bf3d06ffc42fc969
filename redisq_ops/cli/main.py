"""The entry point of `redisq`: runs a command; an error becomes one line and an exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from io import TextIOWrapper
from typing import Any

from redisq_ops.core.model.exit_codes import BAD_INPUT, FAILED, INTERRUPTED

_LONGEST = 1000
"""maximum number of characters of an error's message"""
_SHELLS = frozenset({"bash", "zsh", "fish"})
_EXTRAS = {
    **dict.fromkeys(("pandas", "pyspark"), "spark"),
    **dict.fromkeys(("duckdb", "pyarrow", "sqlglot"), "sql"),
    **dict.fromkeys(("deltalake", "jinja2", "vl_convert"), "report"),
    "apprise": "notify",
}
"""package that only some commands need -> the extra that has it"""


@cache
def global_options() -> dict[str, bool]:
    """The global options, allowed anywhere on the line -> whether a value follows."""
    return {
        name: not (param.is_flag or param.count)
        for param in root_command().params
        for name in param.opts
        if not name.endswith("-completion")
    }


def hoisted(argv: Sequence[str]) -> list[str]:
    """The same words with global options in front, where the parser expects them."""
    front, rest = _parted(argv)
    return front + rest


def _parted(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The global options with their values, and the other words: the command first."""
    takes_value = global_options()
    front: list[str] = []
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, _ = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif name in takes_value or _verbosity(word):
            front.append(word)
            if takes_value.get(name) and not equals:
                front += [following for following in [next(words, None)] if following is not None]
        else:
            rest.append(word)
    return front, rest


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its documented exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_standard_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # a locale may lack characters such as `≈`
        sys.stdout.reconfigure(errors="backslashreplace")
    # Operations are described by coroutines; Ctrl+C may come before one starts.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    terminated = _sigterm_as_ctrl_c()
    try:
        code = run(words)
    except KeyboardInterrupt:  # while modules were loading
        code = INTERRUPTED
    if code == INTERRUPTED and terminated:
        with suppress(OSError):
            sys.stdout.flush()
        os.kill(os.getpid(), terminated[0])  # so that the exit status shows the signal
    if code == INTERRUPTED:
        # After an interrupt inside `exec` (dataclasses call it while modules load), Python ends
        # itself by the signal, even if that was handled: the exit code would not be 130.
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    try:
        sys.stdout.flush()
    except OSError:  # already reported; Python would report it again, and exit with 120
        _discard_output()
    sys.exit(code)


def _discard_output() -> None:
    """Redirect the rest of the output for stdout to /dev/null."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sigterm_as_ctrl_c() -> list[int]:
    """Let SIGTERM end a command like Ctrl+C, with a report of what was done; a second SIGTERM ends
    it at once. Returns a list to which the signal's number will be added."""
    came: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        came.append(number)
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # else the parent process has it ignored
        signal.signal(signal.SIGTERM, interrupt)
    return came


def _open_standard_streams() -> None:
    """Open stdin, stdout and stderr on /dev/null if they were closed: otherwise a connection gets
    the file descriptor, and printed text goes to the server."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (open until the end)
            setattr(sys, name, stream)


def run(words: Sequence[str]) -> int:
    """Run one command; its errors become one line on stderr. Returns the exit code.

    Context variables of the command are not visible to the next one.
    """
    return copy_context().run(_run, words)


def _run(words: Sequence[str]) -> int:
    import typer

    if any(word.startswith(("--install-completion", "--show-completion")) for word in words):
        from .completion import replace_scripts

        replace_scripts()
        if not _SHELLS.isdisjoint(words):  # else Typer ignores the name
            os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    # Typer bundles click or uses the installed one: take the class from Typer.
    usage_error: Any = typer.BadParameter.__base__
    try:
        line = tuple(words)  # for hints that repeat the command
        commands = root_command() if all(map(_is_utf8, words)) else _strict_commands()
        code = commands(hoisted(words), prog_name="redisq", standalone_mode=False, obj=line)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return BAD_INPUT
        from .usage import usage_message

        return _report(
            words, usage_message(error, root_command(), _parted(words)[1]), BAD_INPUT, error
        )
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as end:
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        # `redisq … | head` ends quietly (Typer would exit with 1); without this Python prints an
        # error while it shuts down.
        _discard_output()
        return 0
    except Exception as error:
        from redisq_ops.core.model.errors import RedisqError, file_error
        from redisq_ops.core.redis.server_errors import translate

        known = translate(error)
        if isinstance(known, RedisqError):
            more = _address_hint(known) or _tls_hint(known)
            return _report(words, f"{known}{more}", known.exit_code, known)
        if isinstance(error, OSError):
            where = f": {error.filename}" if error.filename else ""
            refusal = file_error(error, f"{error.strerror or error}{where}")
            return _report(words, str(refusal), refusal.exit_code, refusal)
        if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
            extra = "spark" if "spark" in words else _EXTRAS[error.name]
            missing = f"{error.name} isn't installed: pip install 'redisq-ops[{extra}]'"
            return _report(words, missing, BAD_INPUT, error)
        return _unexpected(error, words)


def _unexpected(error: Exception, words: Sequence[str]) -> int:
    """Report a bug of this program in one line, with ``-vv`` also its traceback."""
    import traceback

    if sum(_verbosity(word) for word in words) >= 2:
        traceback.print_exception(error)
    # Without the error's message, which may quote a payload.
    frames = traceback.extract_tb(error.__traceback__)
    at = [frame for frame in frames if "redisq_ops" in frame.filename][-1]
    where = f"{at.filename.rpartition('redisq_ops/')[2]}:{at.lineno}"
    what = f"unexpected error: {type(error).__name__} at {where}"
    return _report(words, f"{what}; please report it with what -vv shows", FAILED, error)


def _report(words: Sequence[str], message: str, code: int, error: Any) -> int:
    """Print a command's error; returns its exit code."""
    as_json = "--json" in words
    if len(message) > _LONGEST:  # it may quote a long line of a file
        message = f"{message[: _LONGEST - 250]} … {message[-250:]}"
    if _parted(words)[1][:1] == ["check"]:
        from .commands.check import unknown

        return unknown(as_json, error, " ".join(message.split()))
    return _print_error(message, code, as_json, error)


def _verbosity(word: str) -> int:
    if word == "--verbose":
        return FAILED
    return word.count("v") if word.startswith("-") and set(word[1:]) == {"v"} else 0


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _strict_commands() -> Any:
    """The parser, changed to refuse text that isn't UTF-8; that takes longer to build."""
    root = root_command()
    _require_utf8(root, root.context_class(root))
    return root


def _require_utf8(command: Any, context: Any) -> None:
    """Make text that isn't UTF-8 a usage error, except in file names and in values to compare
    entries with: these may be any bytes."""
    for param in command.params:
        free = (param.metavar or "") in ("EXPR", "REGEX") or "FILE" in (param.metavar or "")
        if not free:
            param.process_value = partial(_utf8_value, param, param.process_value)
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            _require_utf8(command.get_command(context, name), context)


def _utf8_value(param: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    values = value if isinstance(value, (list, tuple)) else [value]
    if not all(_is_utf8(each) for each in values if isinstance(each, str)):
        from typer import BadParameter

        raise BadParameter("not UTF-8", context, param)
    return process(context, value)


@cache
def root_command() -> Any:
    """The parser with all commands."""
    from typer.main import get_command

    from .app import app

    return get_command(app)


def _address_hint(error: Exception) -> str:
    """A hint if no server is configured and none answers at the default address; else ''."""
    from redisq_ops.core.model.errors import Unreachable

    from .session import current

    session = current()
    if not isinstance(error, Unreachable) or session is None:
        return ""
    usual = session.config.values["url"].origin == "default"
    return " (that is the default: name a server by --url or REDIS_URL)" if usual else ""


def _tls_hint(error: Exception) -> str:
    """A hint if the URL says TLS but the port speaks none, or the reverse; else ''."""
    from redis.exceptions import ConnectionError, RedisClusterException, TimeoutError

    from redisq_ops.core.model.errors import LoginRefused, RedisqError
    from redisq_ops.ops.port_probe import tls_mismatch

    from .session import current

    cause = error.__cause__
    answered = not isinstance(cause, (ConnectionError, RedisClusterException, TimeoutError))
    answered = answered or isinstance(error, LoginRefused)  # a connection error of redis-py
    if answered or "refused" in str(cause) or (session := current()) is None:
        return ""
    with suppress(RedisqError):
        if port := tls_mismatch(session.config.server_address().url):
            return f"; that port speaks {'TLS' if port.tls else 'no TLS'}: write {port.url}"
    return ""


def _print_error(message: str, code: int, as_json: bool, error: Any) -> int:
    """Print an error in one line; on a terminal a second line has a caret below its place."""
    from redisq_ops.ops.terminal import printable

    column = getattr(error, "column", None)
    line = " ".join(message.split()) if column is None else error.line
    if as_json:
        from .output import error_fields

        print(
            json.dumps({"error": error_fields(error, line, column), "exit": code}), file=sys.stderr
        )
    elif column is not None and sys.stderr.isatty():
        text, caret = error.shown
        print(f"redisq: {text}\n{' ' * len('redisq: ')}{caret}", file=sys.stderr)
    else:
        print(f"redisq: {printable(line)}", file=sys.stderr)
    return code
