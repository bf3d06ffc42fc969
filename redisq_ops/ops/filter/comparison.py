"""The tests of an expression's comparisons: each takes an entry's fields and returns a bool.

A missing field never matches, whatever the operator.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .fields import MISSING, EntryFields, Field, FilterValue, json_number, moment

Test = Callable[[EntryFields], bool]
Number = Callable[[EntryFields], int]
"""returns a value as a number: an integer, bytes or ms"""
ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def word_search(matches: Callable[[str], bool]) -> Test:
    """Whether id, error type or error message matches."""
    return lambda entry: any(map(matches, entry.words))


def text_search(field: Field, matches: Callable[[str], bool], wanted: bool) -> Test:
    """The test of ``~`` (``wanted`` is True: a text of the field matches) or of ``!~`` (False)."""
    read = field.read
    if field.kind == "json":
        return lambda entry: (
            (found := read(entry)) is not MISSING and matches(_as_text(found)) is wanted
        )
    return lambda entry: (texts := read(entry)) is not None and any(map(matches, texts)) is wanted


def number_comparison(field: Field, op: str, numbers: Sequence[Number]) -> Test:
    """Compare with numbers: ``=`` and ``!=`` with any of several, ``>`` and its like with one."""
    read = field.read
    if op in ORDER:
        compare, (number,) = ORDER[op], numbers
        return lambda entry: (n := read(entry)) is not None and compare(n, number(entry))
    wanted = op == "="
    return lambda entry: (
        (n := read(entry)) is not None and any(n == number(entry) for number in numbers) is wanted
    )


def constant(number: int) -> Number:
    return lambda entry: number


def moment_of(text: str, utc: bool) -> Number:
    """The time (ms) that ``text`` names; of a time of day the latest one before the scan."""
    return lambda entry: moment(text, entry.now_ms, utc)


def text_comparison(field: Field, op: str, operands: Sequence[FilterValue]) -> Test:
    """A comparison with texts, or with a value of a JSON payload."""
    read, wanted = field.read, op == "="
    if field.kind != "json":
        return lambda entry: (
            (texts := read(entry)) is not None
            and any(value.matches(text) for value in operands for text in texts) is wanted
        )
    if op not in ORDER:
        return lambda entry: (
            (found := read(entry)) is not MISSING
            and any(value.equals(found) for value in operands) is wanted
        )
    compare, number, text = ORDER[op], operands[0].number, operands[0].text

    def ordered(entry: EntryFields) -> bool:
        found = read(entry)
        if number is None:
            return isinstance(found, str) and compare(found, text)
        if isinstance(found, str):  # fields of a stream are texts, also numbers
            found = json_number(found)
        numeric = isinstance(found, (int, float)) and not isinstance(found, bool)
        return numeric and compare(found, number)

    return ordered


def _as_text(found: Any) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
