"""A payload as an outline: JSON by its members, other text by its lines, bytes in hexadecimal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from rich.text import Text

from redisq_ops.ops.json_numbers import JsonNumber, dumps
from redisq_ops.ops.terminal import count, printable, size
from redisq_ops.tui.outline.outline import LINE, NO_PARTS, Line, OutlineItem, Parts, text_parts
from redisq_ops.tui.theme import DELAYED, DIM, HELD, OK, WARN

PARSED: Final = 1024 * 1024
"""bytes of the largest payload shown whole; redisq's own queues accept no larger one"""
BEGINNING: Final = 64 * 1024
"""bytes shown of a larger one"""
_DEEPEST: Final = 64
"""levels of JSON that can be unfolded"""
_SUMMARY: Final = 60
"""characters shown of the beginning of a folded object or list"""
_LONGEST_CONDITION: Final = 500
_ROW: Final = 8
"""bytes in a line of hexadecimal: as many as fit beside a list"""

Place = tuple[str | int, ...]


@lru_cache(2)  # every refresh reads the same again
def payload_outline(payload: bytes) -> tuple[str, Parts]:
    """A payload's size and format in words, and its lines. Reads at most `PARSED` bytes."""
    whole = len(payload) <= PARSED
    shown = payload if whole else payload[:BEGINNING]
    cut = "" if whole else f", the first {size(BEGINNING)}"
    if not payload:
        return "empty", NO_PARTS
    if _binary(shown):
        rows = -(-len(shown) // _ROW)
        return f"{size(len(payload))}, binary{cut}", Parts(rows, lambda at: _hex_line(shown, at))
    if whole:
        try:
            document = json.loads(
                payload.decode(),
                parse_int=JsonNumber,
                parse_float=JsonNumber,
                parse_constant=_no_constant,
            )
        except (ValueError, RecursionError):
            pass
        else:
            top = JsonItem("", document, ())
            parts = top.parts if top.parts.number else Parts.of([top])
            return f"{size(len(payload))}, JSON", parts
    text = shown.decode("utf-8", "backslashreplace")
    return f"{size(len(payload))}, text{cut}", text_parts(text)


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")  # nor is it for a filter


def _binary(payload: bytes) -> bool:
    """As `file` and Perl's ``-B`` decide: it has a zero byte, or almost a third is not text."""
    if b"\0" in payload:
        return True
    text = payload[:1024].decode("utf-8", "replace")
    strange = sum(char == "\ufffd" or (char < " " and char not in "\t\n\r\x1b") for char in text)
    return strange > 0.3 * len(text)


def _hex_line(payload: bytes, at: int) -> Line:
    row = payload[at * _ROW : (at + 1) * _ROW]
    signs = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    digits = f"{row.hex(' '):<{3 * _ROW}} "
    return Line(Text.assemble((f"{at * _ROW:08x}  ", DIM), digits, (signs, OK)), value=row.hex())


@dataclass(frozen=True, slots=True)
class JsonItem:
    """A value in JSON, with its key or index in what contains it."""

    key: str
    content: Any
    at: Place

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
        if _long(content):
            return text.append(f"{count(content.count(chr(10)) + 1)} lines", DIM)
        return text.append(*_scalar(content))

    @property
    def summary(self) -> str | Text:
        """The beginning of a folded object, list or long text."""
        content = self.content
        if _long(content):
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

        return "payload" + path_text(self.at)

    @property
    def condition(self) -> str:
        """The filter expression for entries with the same value in this place."""
        from redisq_ops.ops.filter.fields import quoted
        from redisq_ops.ops.redaction import MASK

        content = self.content
        if not self.at:
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
            return text_parts(self.value[:BEGINNING])
        if isinstance(content, dict):
            members = list(content.items())
            return Parts(len(members), lambda at: self._child(*members[at]))
        if isinstance(content, list):
            return Parts(len(content), lambda at: self._child(at, content[at]))
        if _long(content):
            return text_parts(content)
        return NO_PARTS

    def _child(self, step: str | int, content: Any) -> OutlineItem:
        key = step if isinstance(step, str) else f"[{step}]"
        return JsonItem(key or '""', content, (*self.at, step))


def _long(content: Any) -> bool:
    """Whether it is a text that doesn't fit into one line."""
    return isinstance(content, str) and (len(content) > LINE or "\n" in content)


def _scalar(content: Any) -> tuple[str, str]:
    """A text, number or constant as JSON writes it, and its style."""
    if isinstance(content, JsonNumber):
        return printable(content, LINE), DELAYED
    if isinstance(content, str):
        return f'"{printable(content, LINE)}"', OK
    return dumps(content), WARN
