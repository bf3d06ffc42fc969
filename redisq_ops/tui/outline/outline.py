"""Foldable lines of text, made only when they come into sight.

An outline of a payload may have 500,000 lines. A line's children are made when it is unfolded, and
more than `GROUP` of them are folded into ranges, so that no step makes more than `GROUP` lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from rich.cells import cell_len
from rich.text import Text

from redisq_ops.ops.terminal import count, printable
from redisq_ops.tui.theme import DIM

GROUP: Final = 100
"""children made at once"""
SEARCHED: Final = 100_000
"""lines looked at by one search"""
LINE: Final = 200
"""characters of one line on the screen"""
TEXT_ROW: Final = 1_000
"""characters of a row of text that isn't wrapped"""
_SIGNS: Final = re.compile(r".(?:\u200d.|[\ufe0f\U0001f3fb-\U0001f3ff])*", re.S)
"""a character, or an emoji of several"""


class OutlineItem(Protocol):
    """A line of an outline, and the lines folded in it."""

    @property
    def label(self) -> Text:
        """Escaped text of one line."""
        ...

    @property
    def summary(self) -> str | Text:
        """The text shown after the label while the item is folded; escaped."""
        ...

    @property
    def words(self) -> str:
        """The text that is searched."""
        ...

    @property
    def value(self) -> str | bytes:
        """The text that `y` copies."""
        ...

    @property
    def place(self) -> str:
        """Its place in the payload, as the filter language writes it; empty elsewhere."""
        ...

    @property
    def condition(self) -> str:
        """The filter expression for entries with the same value here; empty if there is none."""
        ...

    @property
    def parts(self) -> Parts:
        """The lines below it."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """``number`` items, each made by its index when it is needed."""

    number: int = 0
    make: Callable[[int], OutlineItem] = lambda _: Line(Text())

    @classmethod
    def of(cls, items: Sequence[OutlineItem]) -> Parts:
        return cls(len(items), items.__getitem__)

    def folded(self) -> list[OutlineItem]:
        """The items, or ranges of them if they are more than `GROUP`."""
        return _folded(self.make, 0, self.number)


NO_PARTS: Final = Parts()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, or a title with items below."""

    label: Text
    value: str | bytes = ""
    condition: str = ""
    parts: Parts = NO_PARTS
    place: str = ""
    summary: str | Text = ""

    @property
    def words(self) -> str:
        return self.label.plain


@dataclass(frozen=True, slots=True)
class LineRange:
    """The items ``start`` to before ``stop`` of many."""

    make: Callable[[int], OutlineItem]
    start: int
    stop: int

    summary = words = value = place = condition = ""

    @property
    def label(self) -> Text:
        return Text(f"{count(self.start)} … {count(self.stop - 1)}", DIM)

    @property
    def parts(self) -> Parts:
        items = _folded(self.make, self.start, self.stop)
        return Parts.of(items)


def _folded(make: Callable[[int], OutlineItem], start: int, stop: int) -> list[OutlineItem]:
    step = 1
    while step * GROUP < stop - start:
        step *= GROUP
    if step == 1:
        return [make(at) for at in range(start, stop)]
    return [LineRange(make, low, min(low + step, stop)) for low in range(start, stop, step)]


def text_parts(text: str, row: int | None = None) -> Parts:
    """A text in rows, escaped. A line of more than ``row`` cells takes several rows; None: of more
    than `TEXT_ROW` characters."""
    if row is None:
        rows = [part for line in text.split("\n") for part in _slices(line, TEXT_ROW)]
    else:
        rows = [part for line in text.split("\n") for part in _wrapped(line, row)]
    return Parts(len(rows), lambda at: Line(Text(printable(rows[at]) or " "), rows[at]))


def _slices(line: str, length: int) -> list[str]:
    return [line[at : at + length] for at in range(0, max(1, len(line)), length)]


def _wrapped(line: str, cells: int) -> list[str]:
    """A line in parts, each of which is drawn in so many cells, or is one sign."""
    if line.isascii() and line.isprintable():
        return _slices(line, cells)
    rows, start, used = [], 0, 0
    for found in _SIGNS.finditer(line):
        wide = _cells(found[0])
        if used and used + wide > cells:
            rows.append(line[start : found.start()])
            start, used = found.start(), 0
        used += wide
    return [*rows, line[start:]]


@lru_cache(4096)
def _cells(sign: str) -> int:
    """The cells in which it is drawn, escaped."""
    return cell_len(printable(sign))


@dataclass(frozen=True, slots=True)
class OutlineSection:
    """A title with items below. As long as ``content`` is equal, the section needs no redraw."""

    name: str
    title: Line
    content: object
    rank: int
    """if not all sections fit, the one of the lowest rank is unfolded first"""
    of_choices: bool = False
    """whether the cursor begins on its first line"""


LABEL: Final = 14
"""cells of a fact's label"""


def fact(label: str, words: str, style: str = "", condition: str = "") -> Line:
    """A label and its words, escaped, in one line."""
    text = Text.assemble((f"{label:<{LABEL}}", DIM), (printable(words), style))
    return Line(text, words, condition)


def fact_section(name: str, title: str, facts: Sequence[Line]) -> OutlineSection:
    """A section of facts under a title, unfolded before others."""
    words = [title, *(fact.words for fact in facts)]
    line = Line(Text(printable(title), "bold"), title, parts=Parts.of(facts))
    return OutlineSection(name, line, words, 0)


def aligned(names: Sequence[str]) -> list[str]:
    """Names of one width, escaped, the longest cut to 36 cells."""
    shown = [printable(name, 36) for name in names]
    width = max(map(cell_len, shown), default=0)
    return [name + " " * (width - cell_len(name)) for name in shown]


def matches(
    items: Sequence[OutlineItem], needle: str, most: int
) -> tuple[list[tuple[int, ...]], bool]:
    """The lines that contain a text, in order; upper and lower case are the same.

    Each line is given by its indexes among its siblings, level by level from the top. At most
    ``most`` lines, and False if some lines were not searched.
    """
    needle, looked = needle.casefold(), 0
    found: list[tuple[int, ...]] = []
    trail: list[int] = []
    levels: list[Iterator[tuple[int, OutlineItem]]] = [iter(enumerate(items))]
    while levels:
        following = next(levels[-1], None)
        if following is None:
            levels.pop()
            if trail:
                trail.pop()
            continue
        at, item = following
        looked += 1
        if looked > SEARCHED or len(found) == most:
            return found, False
        if needle in item.words.casefold():
            found.append((*trail, at))
        if item.parts.number:
            trail.append(at)
            levels.append(iter(enumerate(item.parts.folded())))
    return found, True
