"""Finds the values of hidden keys in text that is not JSON.

``{"password": "ab`` (cut), ``to=ann&password=abc``, ``Password: abc``, ``--password abc``,
``<password>abc</password>``, ``["password", "abc"``, ``{\\"password\\": …``, multipart forms, the
``repr`` of a Python dictionary. If the end of a value is uncertain, rather more text is hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import quote

from .filter.regex import Regex, regex
from .redaction_names import letter

_QUOTE = r"""(?:\\*["']|%22|%27|&quot;)"""
# After a key: its closing quote or bracket, then the separator before its value.
_SEPARATOR = re.compile(
    rf"""(?P<closed>(?:{_QUOTE}|\]|%5D)*+)
    (?: \s*(?P<sign>=>|->|→|[:=]|%3A|%3D)\s*
      | ;\s*(?P<php>[a-zA-Z]):(?:(?P<length>\d{{1,9}}):)?
      | (?P<tab>\t)
      | (?P<word>(?:\s+for\s+\S{{1,200}})?\s*[(=]?\s*(?=["']))
      | (?P<tag>(?:\s[^<>]{{0,200}})?>)
      | (?P<part>[^\r\n]{{0,200}}\r?\n(?:[^\r\n]{{1,200}}\r?\n){{0,4}}\r?\n)
      | (?P<next>\s*,\s*)(?:{_QUOTE}[\w-]*{_QUOTE}\s*[:=]\s*)?
      | (?P<argument>\s+) )""",
    re.VERBOSE | re.IGNORECASE,
)
_SEPARATORS = ("php", "tab", "word", "tag", "part", "next", "argument")
_OPENED = re.compile(rf"[bBrRuUfF]{{0,2}}(?P<quote>\"{{3}}|'{{3}}|{_QUOTE})")
_STEP = re.compile(r"""\\.|["'{}\[\]()]""", re.DOTALL)
_SCHEME = r"(?:(?:bearer|basic|digest|token|negotiate)(?:\s+|\+|%20))?"
_OPTION = re.compile(r"-$|(?:^|[\s\"'])--?[\w.-]*$")
"""what is in front of a key in an option: ``--user_``"""
_ENDS = {
    "quoted": re.compile(r"[^\s,}\])]*"),  # "pin": 1234,
    "=": re.compile(rf"{_SCHEME}[^\s&]*", re.IGNORECASE),  # a form, an option
    "php": re.compile(r"[^;]*"),
    "tab": re.compile(r"[^\t\r\n]*"),
    "=>": re.compile(rf"{_SCHEME}[^\s&,}}]*", re.IGNORECASE),
    ":": re.compile(r"[^\r\n]*(?:\r?\n[ \t]+[^\r\n]*)*"),  # a header, YAML, with what is indented
    "tag": re.compile(r"[^<]*"),
    "part": re.compile(r".*?(?=\r?\n--|\Z)", re.DOTALL),
}


class KeyValues:
    """Replaces the values of keys; ``paths`` as in `Redaction.keys`. Linear in the text."""

    def __init__(self, paths: Sequence[tuple[str, ...]]) -> None:
        self._keys: list[tuple[Regex, list[Regex]]] = []
        for path in paths:
            *parents, last = path
            self._keys.append((_key_regex(last), [_key_regex(name) for name in parents]))

    @property
    def keys(self) -> list[Regex]:
        """The expressions that match the keys."""
        return [key for key, _ in self._keys]

    def replace(self, text: str, by: str, within: Sequence[str] = ()) -> str:
        """The text with the values replaced. ``within``: the case-folded keys around the text."""
        for key, parents in self._keys:
            text = _replaced(
                text, by, key, [parent for parent in parents if not _matches_any(parent, within)]
            )
        return text


def _matches_any(parent: Regex, within: Sequence[str]) -> bool:
    return any(parent.search(name) for name in within)


def _key_regex(name: str) -> Regex:
    """A key in text: as it is, escaped as in JSON, or percent-encoded."""
    coded = dict.fromkeys((json.dumps(name)[1:-1], quote(name, safe=""), quote(name)))
    alike = "".join("[-_ ]?" if char in "-_" else letter(char) for char in name)
    ends = "|".join([alike, *map(re.escape, coded)])
    before = r"(?:^|[^\p{L}\p{N}]|%[0-9a-f]{2}|\\[nrt])"
    capital = f"(?-i:[\\p{{Ll}}\\p{{N}}]{re.escape(name[:1].upper())})"
    camel = f"|{capital}(?:{re.escape(name[1:])})" if name[:1].upper() != name[:1] else ""
    return regex(f"(?i)(?:{before}(?:{ends}){camel})", longest=100_000)


def _replaced(text: str, by: str, key: Regex, parents: Sequence[Regex]) -> str:
    """``parents`` must be in the text before the key."""
    begin = 0
    for parent in parents:
        begin = next((end for _, end in parent.spans(text)), -1)
        if begin < 0:
            return text
    pieces, done = list[str](), 0
    for start, end in key.spans(text):
        if end < max(begin, done):
            continue
        value = _value(text, end, start)
        if value is None or value[0] == value[1]:
            continue
        pieces += (text[done : value[0]], by)
        done = value[1]
    return "".join([*pieces, text[done:]]) if pieces else text


def _value(text: str, key_end: int, key_start: int) -> tuple[int, int] | None:
    """The begin and end of a key's value; None if no value follows the key."""
    found = _SEPARATOR.match(text, key_end)
    if found is None:
        return None
    sign, closed, at = found["sign"], found["closed"], found.end()
    before = text[max(0, key_start - 50) : key_start + 1]
    form = next((name for name in _SEPARATORS if found[name] is not None), "")
    is_key = {
        "tag": "<" in before,
        "part": "name=" in before,
        "next": closed,
        "argument": bool(_OPTION.search(before)),
        "php": closed,
        "tab": True,
        "word": True,
        "": True,
    }
    if not is_key[form]:
        return None
    if form in ("tag", "part", "tab"):
        pass
    elif form == "php" and found["length"] and text[at : at + 1] == '"':
        return at + 1, _long(text, at + 1, int(found["length"]))
    elif opened := _OPENED.match(text, at):
        return opened.end(), _closing(text, opened.end(), opened["quote"])
    elif text[at : at + 1] in ("{", "[", "("):
        return at, _balanced(text, at)
    elif closed.strip("]") and sign != "=":
        form = "quoted"
    else:
        form = (
            {"%3D": "=", "%3A": ":", "->": "=>", "→": "=>"}.get(sign, sign)
            if sign
            else form
            if form in _ENDS
            else "="
        )
    end = _ENDS[form].match(text, at)
    return at, end.end() if end else len(text)


def _long(text: str, at: int, length: int) -> int:
    """The end of a PHP text of ``length`` bytes: PHP doesn't escape quotes in it."""
    data = text[at : at + length].encode("utf-8", "surrogateescape")[:length]
    return at + len(data.decode("utf-8", "ignore")) if data.isascii() else at + length


def _closing(text: str, at: int, quote: str) -> int:
    """The end of a quoted value: the next such quote, at the same or a lower depth of escaping."""
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
    """The end of the bracketed value at ``at``, or of the text."""
    depth, quote = 0, ""
    for step in _STEP.finditer(text, at):
        char = step[0]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
            if not depth:
                return step.end()
    return len(text)
