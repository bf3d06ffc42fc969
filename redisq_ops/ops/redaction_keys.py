"""Values that follow a redacted key in text that isn't JSON.

``{"password": "ab`` (cut), ``to=ann&password=abc``, ``Password: abc``, ``--password abc``,
``<password>abc</password>``, ``["password", "abc"``, ``{\\"password\\": …``, multipart forms, the
``repr`` of a Python dictionary. Where a value's end isn't certain more of the text counts as value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import quote

from .filter.regex import Regex, regex

_QUOTE = r"""(?:\\*["']|%22|%27|&quot;)"""
# Behind a key: its closing quote or bracket, then what leads to its value.
_SEPARATOR = re.compile(
    rf"""(?P<closed>(?:{_QUOTE}|\]|%5D)*)
    (?: \s*(?P<sign>=>|[:=]|%3A|%3D)\s*
      | (?P<tag>(?:\s[^<>]{{0,200}})?>)
      | (?P<part>[^\r\n]{{0,200}}\r?\n(?:[^\r\n]{{1,200}}\r?\n){{0,4}}\r?\n)
      | (?P<next>\s*,\s*)(?:{_QUOTE}[\w-]*{_QUOTE}\s*[:=]\s*)?
      | (?P<argument>\s+) )""",
    re.VERBOSE,
)
_WAYS = ("tag", "part", "next", "argument")
_OPENED = re.compile(rf"[bBrRuUfF]{{0,2}}(?P<quote>{_QUOTE})")
_STEP = re.compile(r"""\\.|["'{}\[\]()]""", re.DOTALL)
_SCHEME = r"(?:(?:bearer|basic|digest|token|negotiate)(?:\s+|\+|%20))?"
_ENDS = {
    "quoted": re.compile(r"[^\s,}\])]*"),  # "pin": 1234,
    "=": re.compile(rf"{_SCHEME}[^\s&]*", re.IGNORECASE),  # a form, an option
    "=>": re.compile(rf"{_SCHEME}[^\s&,}}]*", re.IGNORECASE),
    ":": re.compile(r"[^\r\n]*(?:\r?\n[ \t]+[^\r\n]*)*"),  # a header, YAML, with what is indented
    "tag": re.compile(r"[^<]*"),
    "part": re.compile(r".*?(?=\r?\n--|\Z)", re.DOTALL),
}


class KeyValues:
    """Finds what stands behind keys; ``paths`` as `Redaction.keys`. Time is linear in the text."""

    def __init__(self, paths: Sequence[tuple[str, ...]]) -> None:
        self._keys: list[tuple[Regex, list[Regex]]] = []
        for path in paths:
            *parents, last = path
            self._keys.append((_named(last), [_named(name) for name in parents]))

    @property
    def keys(self) -> list[Regex]:
        """What is found where a key stands."""
        return [key for key, _ in self._keys]

    def replace(self, text: str, by: str, within: Sequence[str] = ()) -> str:
        """The text with those values replaced. ``within``: keys around it, their letters folded."""
        for key, parents in self._keys:
            text = _replaced(text, by, key, [one for one in parents if not _among(one, within)])
        return text


def _among(parent: Regex, within: Sequence[str]) -> bool:
    return any(parent.search(name) for name in within)


def _named(name: str) -> Regex:
    """A key as text may have it: as it is, escaped as in JSON, percent-encoded."""
    forms = dict.fromkeys((name, json.dumps(name)[1:-1], quote(name, safe=""), quote(name)))
    before = r"(?:^|[^\p{L}\p{N}_]|%[0-9a-f]{2}|\\[nrt])"
    return regex(f"(?i){before}(?:{'|'.join(map(re.escape, forms))})", longest=100_000)


def _replaced(text: str, by: str, key: Regex, parents: Sequence[Regex]) -> str:
    """``parents`` have to stand in the text before the key."""
    begin = 0
    for parent in parents:
        begin = next((end for _, end in parent.spans(text)), -1)
        if begin < 0:
            return text
    pieces, done = list[str](), 0
    for start, behind in key.spans(text):
        if behind < max(begin, done):
            continue
        value = _value(text, behind, start)
        if value is None or value[0] == value[1]:
            continue
        pieces += (text[done : value[0]], by)
        done = value[1]
    return "".join([*pieces, text[done:]]) if pieces else text


def _value(text: str, behind: int, start: int) -> tuple[int, int] | None:
    """Where the value of the key that ends at ``behind`` begins and ends; None: it has none."""
    found = _SEPARATOR.match(text, behind)
    if found is None:
        return None
    sign, closed, at = found["sign"], found["closed"], found.end()
    before = text[max(0, start - 50) : start + 1]
    how = next((name for name in _WAYS if found[name] is not None), "")
    fits = {
        "tag": "<" in before, "part": "name=" in before, "next": closed,
        "argument": before.endswith("-"), "": True,
    }  # fmt: skip
    if not fits[how]:
        return None
    if how in ("tag", "part"):
        pass
    elif opened := _OPENED.match(text, at):
        return opened.end(), _closing(text, opened.end(), opened["quote"])
    elif text[at : at + 1] in ("{", "[", "("):
        return at, _balanced(text, at)
    elif closed.strip("]") and sign != "=":
        how = "quoted"
    else:
        how = {"%3D": "=", "%3A": ":", None: "="}.get(sign, sign)
    end = _ENDS[how].match(text, at)
    return at, end.end() if end else len(text)


def _closing(text: str, at: int, quote: str) -> int:
    """Where a quoted value ends: at the next such quote, however deep both are escaped."""
    mark, depth = quote.lstrip("\\"), len(quote) - len(quote.lstrip("\\"))
    while (end := text.find(mark, at)) >= 0:
        first = end
        while first > at and text[first - 1] == "\\":
            first -= 1
        if end - first <= depth:
            return first
        at = end + 1
    return len(text)


def _balanced(text: str, at: int) -> int:
    """Behind the bracket that closes the one at ``at``, or the text's end."""
    depth, inside = 0, ""
    for step in _STEP.finditer(text, at):
        char = step[0]
        if inside:
            inside = "" if char == inside else inside
        elif char in "\"'":
            inside = char
        elif char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
            if not depth:
                return step.end()
    return len(text)
