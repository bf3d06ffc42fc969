"""Calls that Python programs describe in text, such as RQ's job descriptions; none is evaluated."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from typing import Any

from .python_values import plain

_CALL = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)", re.DOTALL)
_ARGUMENT = re.compile(
    r"""(?:([A-Za-z_]\w*)=)?('[^'\\\n]*'|"[^"\\\n]*"|-?[1-9]\d{0,17}|0|None|True|False)(?:,\ |$)"""
)
_CLOSED = re.compile(r"""(?:[^'"]|'[^']*'|"[^"]*")*+""")
"""a text without backslashes in which each literal text ends"""
_NAMED: Mapping[str, Any] = {"None": None, "True": True, "False": False}
MOST = 8192
"""characters of a text whose values are read"""


def call_of(text: str) -> dict[str, Any]:
    """``function``, ``args`` and ``kwargs`` of a call such as ``mail.send('ann', region='eu')``;
    empty if it is none. An argument that is no literal is its source text; if the arguments as a
    whole can't be read, they are None."""
    named = _CALL.fullmatch(text)
    if named is None:
        return {}
    function, arguments = named.groups()
    if len(arguments) <= MOST and (plainly := _plain_arguments(arguments)):
        return {"function": function, "args": plainly[0], "kwargs": plainly[1]}
    call = _parsed(text)
    if not isinstance(call, ast.Call) or any(one.arg is None for one in call.keywords):
        return {"function": function, "args": None, "kwargs": None}
    args = [_value(text, one) for one in call.args]
    kwargs = {str(one.arg): _value(text, one.value) for one in call.keywords}
    return {"function": function, "args": args, "kwargs": kwargs}


def function_of(text: str) -> str | None:
    """The function of such a call; None: the text is none."""
    named = _CALL.fullmatch(text)
    return named and named[1]


def _plain_arguments(arguments: str) -> tuple[list[Any], dict[str, Any]] | None:
    """Arguments by position and by name, if all are plain texts, integers, True, False or None;
    else None. Python's own parser takes six times as long."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    at = 0
    while at < len(arguments):
        found = _ARGUMENT.match(arguments, at)
        if found is None:
            return None
        name, written = found.groups()
        if written[0] in "'\"":
            value = written[1:-1]
        else:
            value = _NAMED[written] if written in _NAMED else int(written)
        if name:
            kwargs[name] = value
        elif not kwargs:
            args.append(value)
        else:
            return None
        at = found.end()
    return args, kwargs


def literal(text: Any) -> Any:
    """The value of a text such as ``('ann', 3)``; the text if it has none, or was cut short."""
    parsed = _parsed(text) if isinstance(text, str) and "..." not in text else None
    return text if parsed is None else _value(text, parsed)


def _parsed(text: str) -> ast.expr | None:
    if len(text) > MOST or "\n" in text:
        return None
    # RQ cuts long arguments, which leaves an open quote; Python's parser takes long to say so.
    simple = not any(each in text for each in ("\\", "'''", '"""'))
    if simple and _CLOSED.fullmatch(text) is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an escape that Python doesn't know
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(text: str, parsed: ast.expr) -> Any:
    try:
        return plain(ast.literal_eval(parsed))
    except (ValueError, TypeError, RecursionError, MemoryError):
        return text.encode()[parsed.col_offset : parsed.end_col_offset].decode()
