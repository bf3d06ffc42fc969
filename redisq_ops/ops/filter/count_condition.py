"""A comparison of counts, ``dead>0 or waiting>=1000``, parsed by hand: never evaluated as code.

expression  = term {"or" term}
term        = comparison {"and" comparison}
comparison  = "(" expression ")" | value operator value
value       = a number, or one of waiting pending delayed dead trash done
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import cast

from redisq_ops.core.model.entry import STATES, Counts, State
from redisq_ops.core.model.errors import BadInput, Refused

Condition = Callable[[Counts], bool]
Value = Callable[[Counts], int]

_TOKEN = re.compile(r"\s*(?:([0-9]+(?:_[0-9]+)*)|([a-z_]+)|(==|!=|<=|>=|<|>|\(|\)))")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_DEEPEST = 50
_DIGITS = 100


def condition(text: str) -> Condition:
    """Whether counts are as ``text`` says; `BadInput` names the column where it can't be read."""
    return _ConditionParser(text).whole()


class _ConditionParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> Condition:
        found = self._expression()
        if self._peek():
            raise self._error("and, or, or the end")
        return found

    def _expression(self) -> Condition:
        terms = [self._term()]
        while self._take("or"):
            terms.append(self._term())
        return lambda counts: any(term(counts) for term in terms)

    def _term(self) -> Condition:
        parts = [self._comparison()]
        while self._take("and"):
            parts.append(self._comparison())
        return lambda counts: all(part(counts) for part in parts)

    def _comparison(self) -> Condition:
        if self._take("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise self._error("fewer parentheses")
            inner = self._expression()
            if not self._take(")"):
                raise self._error(")")
            self._depth -= 1
            return inner
        left, compare, right = self._value(), self._operator(), self._value()
        return lambda counts: compare(left(counts), right(counts))

    def _value(self) -> Value:
        token = self._peek()
        if "0" <= token[:1] <= "9":
            if len(token) > _DIGITS:
                raise self._error(f"a number of at most {_DIGITS} digits")
            self._take(token)
            number = int(token)
            return lambda counts: number
        if token not in STATES:
            raise self._error("a number or " + ", ".join(STATES))
        self._take(token)
        return lambda counts: _known(counts, token)

    def _operator(self) -> Callable[[int, int], bool]:
        token = self._peek()
        if token not in _COMPARE:
            raise self._error(" ".join(_COMPARE))
        self._take(token)
        return _COMPARE[token]

    def _peek(self) -> str:
        """The token that comes next; a character no token begins with; '' at the end."""
        match = _TOKEN.match(self._text, self._at)
        return match[0].strip() if match else self._text[self._at :].strip()[:1]

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at = self._text.index(token, self._at) + len(token)
        return True

    def _error(self, wanted: str) -> BadInput:
        rest = self._text[self._at :]
        column = len(self._text) - len(rest.lstrip()) + 1
        return BadInput(f"{self._text!r}, column {column}: expected {wanted}")


def _known(counts: Counts, state: str) -> int:
    number = counts.of(cast(State, state))
    if number is None:  # 0 there would end the wait at once
        raise Refused(f"how many are {state} can't be known of this queue")
    return number
