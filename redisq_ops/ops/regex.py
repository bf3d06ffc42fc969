"""Regular expressions that end, whatever is searched: a mistyped one must not hang an operator.

Python's own engine tries one way after another. With one choice in an expression (one repetition,
one alternation) that is quadratic at worst, and there it is used. With several it can take longer
than anybody lives (``(a+)+$``), so those run on an automaton that goes through the text once,
whatever the expression: for a yes or no the order of the ways doesn't matter.

Only the first `SEEN` characters of a text are searched.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from redisq_ops.core.errors import BadInput

SEEN = 4096
"""characters of a text that are searched"""
LONGEST = 1000
"""characters of an expression"""
STATES = 1000
"""of an automaton; ``(a{1000}){1000}`` would be a million"""
_CACHED = 500_000
"""states in the steps of an automaton that are kept, some tens of megabytes"""

Test = Callable[[str], bool]
# The standard library's parser is its own business since 3.11; nothing else reads the syntax that
# `re` reads. Names of its operations are compared, so a new one is refused, not misunderstood.
_parser: Any = import_module("re._parser")
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_PLACES = {
    "AT_BEGINNING",
    "AT_BEGINNING_STRING",
    "AT_END",
    "AT_END_STRING",
    "AT_BOUNDARY",
    "AT_NON_BOUNDARY",
}


class BadRegex(BadInput):
    """An expression that can't be used; ``at`` is where in it, counted from 0, if known."""

    def __init__(self, said: str, at: int | None = None) -> None:
        super().__init__(said)
        self.at = at


@dataclass(frozen=True, slots=True)
class Regex:
    """An expression; equal where its text is equal."""

    pattern: str
    _found: Test = field(repr=False, compare=False)

    def search(self, text: str) -> bool:
        """Whether it is found anywhere in (the beginning of) a text."""
        return self._found(text[:SEEN])


def regex(pattern: str) -> Regex:
    """An expression in Python's syntax; `BadRegex` where it is wrong or could take for ever."""
    if len(pattern) > LONGEST:
        raise BadRegex(f"an expression of {len(pattern):,} characters; at most {LONGEST:,}")
    try:
        with warnings.catch_warnings(action="ignore"):  # of what Python may read otherwise one day
            compiled = re.compile(pattern)
            tree = _parser.parse(pattern)
    except re.error as error:
        raise BadRegex(error.msg, error.pos) from error
    except (OverflowError, RecursionError) as error:
        raise BadRegex(str(error) or "too deep") from error
    if _choices(tree) <= 1:
        return Regex(pattern, lambda text: compiled.search(text) is not None)
    try:
        automaton = _Automaton(tree, compiled.flags)
        # In nothing at all `re` can't lose its way, and what \\B means there is its own to say.
        nothing = compiled.search("") is not None
        return Regex(pattern, lambda text: automaton.found(text) if text else nothing)
    except RecursionError as error:
        raise BadRegex("too deep") from error


def _choices(tree: Any) -> int:
    """Places where a match can go on in more than one way, each time one is passed."""
    found = 0
    for name, argument in _named(tree):
        if name == "BRANCH":
            found += 1 + sum(map(_choices, argument[1]))
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, body = argument
            found += int(low) != int(high)
            found += _choices(body) * (1 if int(high) <= 1 else 2)
        elif name == "SUBPATTERN":
            found += _choices(argument[3])
        elif name in ("ATOMIC_GROUP",):
            found += _choices(argument)
        elif name in ("ASSERT", "ASSERT_NOT"):
            found += _choices(argument[1])
        elif name in ("GROUPREF", "GROUPREF_EXISTS", "GROUPREF_IGNORE"):
            found += 1
    return found


def _named(tree: Any) -> Iterator[tuple[str, Any]]:
    for op, argument in tree:
        yield str(op), argument


@dataclass(slots=True)
class _State:
    """Where a match stands: it takes a character, or goes on without one."""

    takes: Test | None = None
    place: str = ""
    """what the position has to be, to go on without one"""
    on: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Around:
    """All that a place in the text depends on."""

    first: bool
    last: bool
    ending: bool
    """last, or before a newline that is"""
    line_starts: bool
    line_ends: bool
    edge: bool
    """of a word"""

    def __contains__(self, place: str) -> bool:
        return {
            "AT_BEGINNING": self.first,
            "AT_BEGINNING_STRING": self.first,
            "AT_BEGINNING_LINE": self.line_starts,
            "AT_END": self.ending,
            "AT_END_STRING": self.last,
            "AT_END_LINE": self.line_ends,
            "AT_BOUNDARY": self.edge,
            "AT_NON_BOUNDARY": not self.edge,
        }[place]


class _Automaton:
    """All ways at once: the set of states a match may be in, character by character."""

    def __init__(self, tree: Any, flags: int) -> None:
        self._states: list[_State] = []
        self._places = False
        self._word = re.compile(r"\w", flags & re.ASCII)
        end = self._add(_State())
        self._end, self._start = end, self._sequence(tree, flags, end)
        self._steps: dict[tuple[frozenset[int], _Around | None, str], Any] = {}
        self._kept = 0

    def found(self, text: str) -> bool:
        core = frozenset((self._start,))
        around = None
        for at in range(len(text) + 1):
            char = text[at : at + 1]
            if self._places:
                around = self._around(text, at)
            step = self._steps.get((core, around, char))
            if step is None:
                if self._kept >= _CACHED:
                    self._steps.clear()
                    self._kept = 0
                step = self._steps[core, around, char] = self._step(core, around, char)
                self._kept += len(step[0]) + 8
            core, ended = step
            if ended:
                return True
        return False

    def _step(
        self, core: frozenset[int], around: _Around | None, char: str
    ) -> tuple[frozenset[int], bool]:
        reached, left = set(core), list(core)
        while left:
            state = self._states[left.pop()]
            if state.takes is None and (not state.place or state.place in (around or ())):
                new = set(state.on) - reached
                reached |= new
                left += new
        after = {self._start}
        for number in reached:
            takes = self._states[number].takes
            if char and takes is not None and takes(char):
                after.update(self._states[number].on)
        return frozenset(after), self._end in reached

    def _around(self, text: str, at: int) -> _Around:
        before, after = text[at - 1 : at] if at else "", text[at : at + 1]
        edge = bool(self._word.match(before)) != bool(self._word.match(after))
        ending = not after or (after == "\n" and at + 1 == len(text))
        return _Around(
            not at, not after, ending, before in ("", "\n"), after in ("", "\n"), edge
        )  # fmt: skip

    # --- from the syntax tree, from its end to its beginning ---------------------------------

    def _add(self, state: _State) -> int:
        if len(self._states) >= STATES:
            raise BadRegex("too large: fewer or smaller repetitions")
        self._states.append(state)
        return len(self._states) - 1

    def _sequence(self, tree: Any, flags: int, on: int) -> int:
        for name, argument in reversed(list(_named(tree))):
            on = self._one(name, argument, flags, on)
        return on

    def _one(self, name: str, argument: Any, flags: int, on: int) -> int:
        if name == "BRANCH":
            ways = tuple(self._sequence(way, flags, on) for way in argument[1])
            return self._add(_State(on=ways))
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(argument, flags, on)
        if name == "SUBPATTERN":
            _, more, less, body = argument
            return self._sequence(body, (flags | more) & ~less, on)
        if name == "AT":
            place = str(argument)
            if place in ("AT_BEGINNING", "AT_END") and flags & re.MULTILINE:
                place += "_LINE"
            elif place not in _PLACES:
                raise BadRegex(f"{place} can't be used beside several repetitions")
            self._places = True
            return self._add(_State(place=place, on=(on,)))
        return self._add(_State(_taking(name, argument, flags), on=(on,)))

    def _repeat(self, argument: Any, flags: int, on: int) -> int:
        low, high, body = int(argument[0]), argument[1], argument[2]
        if str(high) == "MAXREPEAT":
            loop = self._add(_State())
            self._states[loop].on = (self._sequence(body, flags, loop), on)
            on = loop
        else:
            end = on
            for _ in range(int(high) - low):
                on = self._add(_State(on=(self._sequence(body, flags, on), end)))
        for _ in range(low):
            on = self._sequence(body, flags, on)
        return on


def _taking(name: str, argument: Any, flags: int) -> Test:
    """Whether a character is one that this item of an expression takes."""
    if name == "ANY":
        return (lambda char: True) if flags & re.DOTALL else (lambda char: char != "\n")
    if name in ("LITERAL", "NOT_LITERAL", "IN"):
        # Put together again as an expression for one character: `re` knows all about cases,
        # categories and ranges.
        items = [(name, argument)] if name != "IN" else list(_named(argument))
        one = re.compile(_class(items), flags & (re.ASCII | re.IGNORECASE))
        return lambda char: one.match(char) is not None
    raise BadRegex(
        "look-around, references to groups and possessive repetition can't be used beside "
        "several repetitions or alternatives"
    )


def _class(items: list[tuple[str, Any]]) -> str:
    said = []
    for name, argument in items:
        if name in ("LITERAL", "NOT_LITERAL"):
            said.append(_char(argument))
        elif name == "RANGE":
            said.append(f"{_char(argument[0])}-{_char(argument[1])}")
        elif name == "CATEGORY" and str(argument) in _CATEGORIES:
            said.append(_CATEGORIES[str(argument)])
        elif name != "NEGATE":
            raise BadRegex(f"{name} can't be used beside several repetitions")
    negated = any(name in ("NEGATE", "NOT_LITERAL") for name, _ in items)
    return f"[{'^' if negated else ''}{''.join(said)}]"


def _char(code: int) -> str:
    return f"\\U{code:08x}"
