"""A payload as an outline: JSON by its members, other text by its lines, bytes in hexadecimal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from rich.text import Text

from redisq_ops.ops.json_numbers import JsonNumber, dumps
from redisq_ops.ops.payload_content import BEGINNING, PayloadContent, text_content
from redisq_ops.ops.redaction import NO_REDACTION, Redaction
from redisq_ops.ops.terminal import count, printable, quantity
from redisq_ops.tui.outline.outline import LINE, NO_PARTS, Line, OutlineItem, Parts, text_parts
from redisq_ops.tui.theme import DELAYED, DIM, HELD, OK, WARN

_DEEPEST: Final = 64
"""levels of JSON that can be unfolded"""
_SUMMARY: Final = 60
"""characters shown of the beginning of a folded object or list"""
_LONGEST_CONDITION: Final = 500
_EIGHT: Final = 8
"""bytes that a row of hexadecimal grows by"""
_INDENT: Final = 4
"""cells before a row right below the payload's title"""

Place = tuple[str | int, ...]


@lru_cache(16)  # every refresh draws the same again
def payload_parts(content: PayloadContent, width: int, wraps: bool, filters: bool = True) -> Parts:
    """A payload's lines on a screen of ``width`` cells; with ``wraps``, none is longer.
    ``filters``: whether filters can name its members."""
    row = max(1, width - _INDENT) if wraps else None
    if content.format == "binary":
        return _hex_parts(content.content, width - _INDENT)
    if content.format == "JSON":
        filters = filters and not content.was_encoded
        top = JsonItem("", content.document, (), row, filters, content.redaction)
        return top.parts if top.parts.number else Parts.of([top])
    if content.format == "text":
        return text_parts(content.content.decode("utf-8", "backslashreplace"), row)
    return NO_PARTS


def _hex_parts(data: bytes, room: int) -> Parts:
    """Offset, bytes and signs: as many times eight bytes a row as fit."""
    digits = max(4, len(f"{len(data):x}"))
    fit = max(1, (room - digits - len("   ")) // (_EIGHT * len("00 .")))
    per_row = _EIGHT * min(fit, -(-len(data) // _EIGHT))

    def line(at: int) -> Line:
        row = data[at * per_row : (at + 1) * per_row]
        signs = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        offset = (f"{at * per_row:0{digits}x}  ", DIM)
        text = Text.assemble(offset, f"{row.hex(' '):<{3 * per_row}} ", (signs, OK))
        return Line(text, value=row.hex())

    return Parts(-(-len(data) // per_row), line)


@dataclass(frozen=True, slots=True)
class JsonItem:
    """A value in JSON, with its key or index in what contains it."""

    key: str
    content: Any
    at: Place
    row: int | None = None
    """cells of the screen in which a text is wrapped; None: it isn't"""
    filters: bool = True
    """whether filters can name it: they don't look into what is encoded"""
    redaction: Redaction = NO_REDACTION
    """of what is encoded in it"""

    @property
    def label(self) -> Text:
        text = Text()
        if self.key:
            text.append(printable(self.key, LINE), HELD)
            text.append("  ")
        content = self.content
        if isinstance(content, dict):
            return text.append(f"{{{count(len(content))}}}", DIM)
        if isinstance(content, list):
            return text.append(f"[{count(len(content))}]", DIM)
        if (inner := self._inner) is not None:
            return text.append(inner.what, DIM)
        if self._is_long:
            lines = content.count("\n") + 1
            long = quantity(lines, "line") if lines > 1 else quantity(len(content), "character")
            return text.append(long, DIM)
        return text.append(*_scalar(content))

    @property
    def summary(self) -> str | Text:
        """The beginning of a folded object, list, long or encoded text."""
        content = self.content
        if self._is_long or self._inner is not None:
            return Text(*_scalar(content))
        if not isinstance(content, (dict, list)) or not content:
            return ""
        members = content.items() if isinstance(content, dict) else (("", one) for one in content)
        shown = ""
        for name, one in islice(members, _SUMMARY):
            if not isinstance(one, (dict, list)):
                shown += f"{', ' if shown else ''}{f'{name}: ' if name else ''}{_scalar(one)[0]}"
            if len(shown) > _SUMMARY:
                break
        return printable(shown, _SUMMARY)

    @property
    def words(self) -> str:
        if isinstance(self.content, (dict, list)):
            return self.key
        return f"{self.key}  {self.value}"

    @property
    def value(self) -> str:
        if isinstance(self.content, str):
            return self.content
        try:
            return dumps(self.content)
        except RecursionError:
            return "nested too deep"

    @property
    def place(self) -> str:
        from redisq_ops.ops.filter.fields import path_text

        if not self.filters:
            return ""
        return "payload" + path_text(self.at)

    @property
    def condition(self) -> str:
        """The filter expression for entries with the same value in this place."""
        from redisq_ops.ops.filter.fields import quoted
        from redisq_ops.ops.redaction import MASK

        content = self.content
        if not self.at or not self.filters:
            return ""
        if isinstance(content, (dict, list)):
            return f"has:{self.place}"
        if isinstance(content, str) and not isinstance(content, JsonNumber):
            typed = len(content) <= _LONGEST_CONDITION and printable(content) == content
            if MASK in content or not typed:
                return ""
            return f"{self.place}={quoted(content)}"
        return f"{self.place}={dumps(content)}"

    @property
    def parts(self) -> Parts:
        content = self.content
        if isinstance(content, (dict, list)) and len(self.at) >= _DEEPEST:
            return text_parts(self.value[:BEGINNING], self.row)
        if isinstance(content, dict):
            members = list(content.items())
            return Parts(len(members), lambda at: self._child(*members[at]))
        if isinstance(content, list):
            return Parts(len(content), lambda at: self._child(at, content[at]))
        below = 2 * len(self.at) + 2
        if (inner := self._inner) is not None:
            width = (LINE if self.row is None else self.row) - below + _INDENT
            return payload_parts(inner, max(1, width), self.row is not None)
        if self._is_long:
            return text_parts(content, self.row and max(1, self.row - below))
        return NO_PARTS

    @property
    def _inner(self) -> PayloadContent | None:
        """What an encoded text holds; None: it is no such text."""
        content = self.content
        if not isinstance(content, str) or isinstance(content, JsonNumber):
            return None
        return text_content(content, self.redaction)

    @property
    def _is_long(self) -> bool:
        """Whether it is a text that doesn't fit into one line."""
        content = self.content
        if not isinstance(content, str):
            return False
        before = 2 * (len(self.at) - 1) + len(self.key) + len('  ""')
        room = LINE if self.row is None else min(LINE, self.row - before)
        return len(content) > room or "\n" in content

    def _child(self, step: str | int, content: Any) -> OutlineItem:
        key = step if isinstance(step, str) else f"[{step}]"
        at = (*self.at, step)
        return JsonItem(key or '""', content, at, self.row, self.filters, self.redaction)


def _scalar(content: Any) -> tuple[str, str]:
    """A text, number or constant as JSON writes it, and its style."""
    if isinstance(content, JsonNumber):
        return printable(content, LINE), DELAYED
    if isinstance(content, str):
        return f'"{printable(content, LINE)}"', OK
    return dumps(content), WARN
