"""What a pickle holds, read without running any of it: its opcodes are followed, and an `Unmade`
stands for what loading would make by a call."""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

STEPS = 100_000
"""opcodes of a pickle that are followed, which takes some tenths of a second"""


class TooManySteps(ValueError):
    """A pickle of too many opcodes to be followed to its end."""


@dataclass(frozen=True, slots=True, eq=False)
class Unmade:
    """What loading would make by calling something of that name."""

    name: str
    args: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _set_items(into: Any, *items: Any) -> Any:
    # A pickle of a few bytes can hold a tuple of which no hash can be made in a lifetime.
    keys = (Unmade("tuple") if isinstance(key, tuple) else key for key in items[::2])
    if isinstance(into, dict):
        into.update(zip(keys, items[1::2], strict=True))
    return into


def _append(into: Any, *items: Any) -> Any:
    if isinstance(into, list):
        into.extend(items)
    return into


def _named(module: Any, name: Any) -> Any:
    return Unmade(f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else "?")


def _call(what: Any, args: Any = (), *more: Any) -> Any:
    return Unmade(getattr(what, "name", "?"), args if isinstance(args, tuple) else ())


_MADE: dict[str, Callable[..., Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "TUPLE": lambda *items: items,
    "TUPLE1": lambda *items: items,
    "TUPLE2": lambda *items: items,
    "TUPLE3": lambda *items: items,
    "LIST": lambda *items: list(items),
    "DICT": lambda *items: _set_items({}, *items),
    "SETITEM": _set_items,
    "SETITEMS": _set_items,
    "APPEND": _append,
    "APPENDS": _append,
    "STACK_GLOBAL": _named,
    "REDUCE": _call,
    "NEWOBJ": _call,
    "NEWOBJ_EX": _call,
    "BUILD": lambda made, state: made,
}


def unpickled(data: bytes) -> Any:
    """The object as plain data; raises ValueError, LookupError or TypeError if it is no pickle."""
    for name, _, _, stack in _followed(data):
        if name == "STOP":
            return stack[-1]
    raise ValueError("a pickle without an end")


def first_items(data: bytes, n: int) -> bytes:
    """A pickle of the first ``n`` items of a pickled dict, the first with None as its value. Empty
    if the dict was pickled item by item (protocol 0)."""
    parts, last, cut_first = [], 0, False
    for name, at, depth, stack in _followed(data):
        if name == "FRAME":  # says a length, and may be left out
            parts.append(data[last:at])
            last = at + 9
        elif cut_first:
            last, cut_first = at, False
        elif depth == 1 and len(stack) == 1 and name not in _MEMOIZE:
            parts += [data[last:at], b"N"]
            cut_first = True
        if depth == 1 and len(stack) == 2 * n:
            return b"".join([*parts, data[last:at], b"u."])
    return b""


_MEMOIZE = ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT")


def _followed(data: bytes) -> Iterator[tuple[str, int, int, list[Any]]]:
    """Each opcode, its position, how many marks are open, and the stack since the last of them."""
    stack: list[Any] = []
    marked: list[list[Any]] = []
    memo: dict[Any, Any] = {}
    for steps, (code, arg, at) in enumerate(pickletools.genops(data)):
        if steps == STEPS:
            raise TooManySteps
        yield code.name, at or 0, len(marked), stack
        before, items = code.stack_before, list[Any]()
        if pickletools.markobject in before:
            items, stack = stack, marked.pop()
            before = before[: before.index(pickletools.markobject)]
        if code.name == "MARK":
            marked.append(stack)
            stack = []
        elif code.name in _MEMOIZE:
            memo[len(memo) if arg is None else arg] = stack[-1]
        elif code.name in ("GET", "BINGET", "LONG_BINGET", "DUP"):
            stack.append(stack[-1] if arg is None else memo[arg])
        elif code.name not in ("PROTO", "FRAME", "STOP"):
            below = stack[len(stack) - len(before) :]
            del stack[len(stack) - len(before) :]
            if code.name in _MADE:
                stack.append(_MADE[code.name](*below, *items))
            elif code.name == "GLOBAL":
                stack.append(Unmade(str(arg).replace(" ", ".", 1)))
            elif code.stack_after:
                stack.append(Unmade(code.name.lower()) if arg is None else arg)
