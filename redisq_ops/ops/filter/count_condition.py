"""A condition on a queue's counts, such as ``dead>0 or waiting>=1000``: the filter language, with
the states as its only fields and no words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn, cast

from redisq_ops.core.model.entry import STATES, Counts, State
from redisq_ops.core.model.errors import Refused

from .ast import Node
from .fields import EntryFields, Field, Path
from .parser import Parser, unknown

Condition = Callable[[Counts], bool]


def parse_condition(text: str) -> Condition:
    """The condition that ``text`` describes; `FilterError` names the column of an error.

    The condition raises `Refused` for a count that the queue cannot know.
    """
    holds = _CountParser(text, utc=False).expression().holds
    return lambda counts: holds(cast(EntryFields, counts))  # only `_count` reads them


class _CountParser(Parser):
    def _field(self, named: tuple[str, Path], at: int) -> Field:
        name, path = named
        if name not in STATES or path:
            self._fail(at, unknown(name, "count", STATES))
        return Field(name, "number", "number of entries", partial(_count, state=name))

    def _has(self, op: str, at: int) -> Node:
        return self._word()

    def _word(self) -> NoReturn:
        self._fail(self._at, "write a comparison, such as dead>0")


def _count(fields: EntryFields, state: State) -> int:
    number = cast(Counts, fields).of(state)
    if number is None:  # taken as 0 it would end the wait at once
        raise Refused(f"this kind of queue does not show how many entries are {state}")
    return number
