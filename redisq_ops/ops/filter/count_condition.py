"""A comparison of a queue's counts, such as ``dead>0 or waiting>=1000``.

The syntax is the part of Python's expressions made of ``and``, ``or``, parentheses and comparisons
of whole numbers and states. Python parses it; nothing is ever evaluated as code.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable
from typing import NoReturn

from redisq_ops.core.model.entry import STATES, Counts, State
from redisq_ops.core.model.errors import BadInput, Refused

Condition = Callable[[Counts], bool]

_OPERATORS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def parse_condition(text: str) -> Condition:
    """The condition that ``text`` describes; `BadInput` names the column of an error.

    The condition raises `Refused` for a count that the queue cannot know.
    """
    if single := re.search("(?<![=!<>])=(?!=)", text.strip()):
        _fail(text, single.start() + 1, "== for equal")
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        _fail(text, error.offset or len(text.strip()) + 1, "a comparison such as dead>0")
    except (ValueError, MemoryError, RecursionError):
        _fail(text, 1, "a shorter expression")
    return _condition(text, tree.body)


def _condition(text: str, node: ast.expr) -> Condition:
    if isinstance(node, ast.BoolOp):
        combine = all if isinstance(node.op, ast.And) else any
        parts = [_condition(text, part) for part in node.values]
        return lambda counts: combine(part(counts) for part in parts)
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        _fail(text, node.col_offset + 1, "a comparison such as dead>0")
    compare = _OPERATORS.get(type(node.ops[0]))
    if compare is None:
        _fail(text, node.col_offset + 1, "one of the operators == != < <= > >=")
    left, right = _value(text, node.left), _value(text, node.comparators[0])
    return lambda counts: compare(left(counts), right(counts))


def _value(text: str, node: ast.expr) -> Callable[[Counts], int]:
    if isinstance(node, ast.Name) and node.id in STATES:
        state = node.id
        return lambda counts: _count(counts, state)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        number = node.value
        return lambda counts: number
    _fail(text, node.col_offset + 1, "a number or " + ", ".join(STATES))


def _count(counts: Counts, state: State) -> int:
    number = counts.of(state)
    if number is None:  # taken as 0 it would end the wait at once
        raise Refused(f"this kind of queue does not show how many entries are {state}")
    return number


def _fail(text: str, column: int, expected: str) -> NoReturn:
    column += len(text) - len(text.lstrip())
    raise BadInput(f"{text!r}, column {column}: expected {expected}")
