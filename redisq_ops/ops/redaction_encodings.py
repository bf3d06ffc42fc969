"""Finds values that are hidden behind an encoding: base64, percent-encoding, tables, URLs.

All searches are linear in the text: repetitions are bounded, or can't be entered at two places.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from io import StringIO
from urllib.parse import unquote

from .encodings import base64_bytes
from .redaction_names import means

DEPTH = 3
"""levels of nested encodings that are searched"""
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/_-]{60,76}\r?\n)+[A-Za-z0-9+/_-]{0,76}={0,2}|[A-Za-z0-9+/_-]{12,}={0,2}"
)
_PERCENT = re.compile(r"[^\s\"'<>&=%]*%[0-9A-Fa-f]{2}[^\s\"'<>&=]*")
_URL_PASSWORD = re.compile(r"(://[^\s:/@?#\"'<>]{0,256}:)(?!\d{1,5}(?:[/?#]|$))[^\s\"'<>]{1,1024}@")
_DELIMITERS = "\t,;|"


def without_url_passwords(text: str, by: str) -> str:
    """The text with the passwords in its URLs replaced: ``redis://user:***@host``."""
    if "://" not in text or "@" not in text:
        return text
    return _URL_PASSWORD.sub(rf"\g<1>{by}@", text)


def without_base64(text: str, by: str, redact: Callable[[str], str]) -> str:
    """The text, with each part in base64 replaced if ``redact`` finds something in it."""

    def replaced(found: re.Match[str]) -> str:
        data = re.sub(r"\s", "", found[0])
        # Characters in front, as in a path, may not belong to the base64.
        for start in range(min(4, len(data))):
            inner = _decoded(data[start:])
            if inner is not None and redact(inner) != inner:
                return by
        return found[0]

    return _BASE64.sub(replaced, text)


def _decoded(data: str) -> str | None:
    try:
        found = (base64_bytes(data) or b"").decode()
    except UnicodeDecodeError:
        return None
    return found if len(found) >= 4 else None


def without_percent(text: str, by: str, redact: Callable[[str], str]) -> str:
    """The text, with each percent-encoded word replaced if ``redact`` finds something in it."""

    def replaced(found: re.Match[str]) -> str:
        inner = unquote(found[0], errors="surrogateescape")
        return by if redact(inner) != inner else found[0]

    return _PERCENT.sub(replaced, text) if "%" in text else text


def without_columns(text: str, by: str, keys: tuple[str, ...]) -> str:
    """The text, with columns of hidden keys replaced in tables that have a header line and one
    separator (tab , ; |)."""
    if "\n" not in text:
        return text
    lines = text.splitlines(keepends=True)
    return "".join(_lines(lines, by, keys))


def _lines(lines: list[str], by: str, keys: tuple[str, ...]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        yield line
        delimiter, hidden, width = _header(line, keys)
        if not hidden:
            continue
        end = at
        while end < len(lines) and delimiter in lines[end]:
            end += 1
        yield from _rows(lines[at:end], delimiter, hidden, width, by)
        at = end


def _header(line: str, keys: tuple[str, ...]) -> tuple[str, list[int], int]:
    """The separator of a header line, the places of hidden columns, and the number of columns."""
    for delimiter in _DELIMITERS:
        names = [
            name.strip().strip("\"'").rpartition(".")[2]
            for name in line.rstrip("\r\n").split(delimiter)
        ]
        if len(names) > 1:
            hidden = [n for n, name in enumerate(names) if any(means(name, key) for key in keys)]
            if hidden:
                return delimiter, hidden, len(names)
    return "", [], 0


def _rows(
    lines: list[str], delimiter: str, hidden: list[int], width: int, by: str
) -> Iterator[str]:
    written = StringIO()
    writer = csv.writer(written, delimiter=delimiter, lineterminator="\n")
    try:
        for row in csv.reader(lines, delimiter=delimiter):
            if len(row) == width:
                writer.writerow([by if n in hidden else cell for n, cell in enumerate(row)])
            else:  # a value has a separator: the columns can't be told apart
                writer.writerow([by])
    except csv.Error:
        written.write(by + "\n")
    shown = written.getvalue()
    ended = not lines or lines[-1].endswith("\n")
    yield shown if ended else shown.removesuffix("\n")
