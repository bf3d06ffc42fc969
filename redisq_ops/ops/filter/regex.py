r"""Users' regular expressions, run by RE2: the time is linear in the text for any expression.

The syntax is RE2's: Python's without look-around and back-references. ``\w``, ``\d`` and ``\s``
match Unicode; ``\b`` knows only ASCII letters, and ``$`` is the very end of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SEARCHED = 64 * 1024
"""characters of a text searched by a filter"""
LONGEST = 1000
"""characters of an expression"""
REPLACED = 10_000
"""matches replaced one by one; from there on the rest of the text is replaced as a whole"""

# `\W`, `\D` and `\S` in brackets match by ASCII: RE2 has no intersection of classes.
_UNICODE = {"w": r"\p{L}\p{M}\p{N}_", "d": r"\p{Nd}", "s": r"\s\v\x1c-\x1f\x{85}\p{Z}"}
_ESCAPE = r"\\(?:Q.*?(?:\\E|$)|[pPxN]\{[^}]*\}|.)"
_TOKEN = re.compile(
    rf"(?P<escape>{_ESCAPE})"
    rf"|(?P<brackets>\[\^?\]?(?:{_ESCAPE}|\[:\^?\w+:\]|[^]\\])*)"
    r"|(?P<group>\(\?(?:P=|<[=!]|[=!>#(]|[a-zA-Z-]*[^a-zA-Z:)P<-]?))"
    r"|(?P<possessive>(?:[*+?]|\{\d+(?:,\d*)?\})\+)"
    r"|(?P<upto>\{,\d+\})"
    r"|(?P<huge>\{(?:\d{5,}(?:,\d*)?|\d+,\d{5,})\})"
    r"|.",
    re.DOTALL,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_IN_BRACKETS = re.compile(_ESCAPE, re.DOTALL)
_LOOK_AROUND = (
    "look-around is not supported: match the text around it too, or add a second condition"
)
_BACK_REFERENCE = (
    "a back-reference to a group is not supported: write the text out, or leave it out"
)
_ATOMIC = "is not supported and not needed, as no search backtracks: leave it out"
_REFUSED_GROUPS = {
    "(?=": _LOOK_AROUND,
    "(?!": _LOOK_AROUND,
    "(?<=": _LOOK_AROUND,
    "(?<!": _LOOK_AROUND,
    "(?P=": _BACK_REFERENCE,
    "(?(": "a conditional is not supported: write alternatives, a|b",
    "(?>": f"an atomic group {_ATOMIC}",
    "(?#": "a comment is not supported: leave it out",
}
_REFUSED_ESCAPES = {
    "Z": r"write \z for the end of the text",
    "u": r"write \x{00E9} for a character by its number",
    "U": r"write \x{1F600} for a character by its number",
    "N": r"write \x{1F600} for a character by its number",
}
_MESSAGES = {
    "bad repetition operator": "a repetition of a repetition",
    "no argument for repetition operator": "nothing to repeat",
    "invalid repetition size": "a repetition is {N} or {N,M}, N at most M, and M at most 1000",
    "missing argument to repetition operator": "nothing to repeat",
    "invalid perl operator": "no such group",
    "pattern too large": "too large: write fewer or smaller repetitions",
}


class BadRegex(BadInput):
    """An invalid or unsupported expression; ``at`` is the place in it, counted from 0, or None."""

    def __init__(self, problem: str, at: int | None = None) -> None:
        super().__init__(problem)
        self.at = at

    @property
    def located(self) -> str:
        """The problem behind its column, counted from 1."""
        return str(self) if self.at is None else f"column {self.at + 1}: {self}"


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled expression; two with the same pattern are equal."""

    pattern: str
    _compiled: Any = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Callable[[str], Regex], tuple[str]]:
        return regex, (self.pattern,)  # each Spark task compiles it again

    def search(self, text: str) -> bool:
        """Whether the first `SEARCHED` characters contain a match."""
        return self._compiled.search(_bytes(text[:SEARCHED])) is not None

    def search_all(self, text: str) -> bool:
        """Whether a text of any length contains a match."""
        return self._compiled.search(_bytes(text)) is not None

    def first_group(self, text: str) -> str:
        """What the first group of the first match matches; '' if nothing."""
        match = self._compiled.search(_bytes(text[:SEARCHED]))
        return _text((match and match[1]) or b"")

    @property
    def groups(self) -> int:
        """The number of groups in the expression."""
        return int(self._compiled.groups)

    def replace(self, text: str, by: str) -> str:
        """The text with each match replaced by ``by``, and everything from match `REPLACED` on
        replaced by one ``by``. Lone surrogates (invalid UTF-8) count as characters."""
        data, end, pieces = _bytes(text), 0, list[bytes]()
        for start, stop in self._matches(data):
            pieces += (data[end:start], by.encode())
            end = stop
            if len(pieces) == 2 * REPLACED:
                end = len(data)
                break
        if not pieces:
            return text
        return _text(b"".join([*pieces, data[end:]]))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """The begin and end of each match, in characters."""
        data, done, at = _bytes(text), 0, 0
        for start, stop in self._matches(data):
            begin = at + len(_text(data[done:start]))
            at, done = begin + len(_text(data[start:stop])), stop
            yield begin, at

    def _matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The begin and end of each match that is not empty, in bytes."""
        for match in self._compiled.finditer(data):
            start, stop = match.span()
            if start < stop:
                yield start, stop


def regex(pattern: str, longest: int = LONGEST) -> Regex:
    """Compile an expression; `BadRegex` if it is invalid or needs what RE2 does not have."""
    if len(pattern) > longest:
        raise BadRegex(f"{len(pattern):,} characters are too long: at most {longest:,}")
    return Regex(pattern, _compile(_translated(pattern), pattern))


def any_of(expressions: Sequence[Regex]) -> Regex | None:
    """One expression that matches whatever any of these matches; None: they can't be combined."""
    text = "|".join(f"(?:{each.pattern})" for each in expressions)
    try:
        return regex(text, longest=len(text))  # each of them was short enough
    except BadRegex:  # too large, or two groups of one name
        return None


def _translated(pattern: str) -> str:
    """The expression for RE2, with Unicode classes; `BadRegex` for what RE2 does not have."""
    pieces = []
    for token in _TOKEN.finditer(pattern):
        text, at = token[0], token.start()
        match token.lastgroup:
            case "escape":
                text = _escape(text, at, inside=False)
            case "brackets":
                text = _IN_BRACKETS.sub(partial(_escaped_in_brackets, at), text)
            case "group":
                if refusal := _REFUSED_GROUPS.get(text):
                    raise BadRegex(refusal, at)
                if unknown := re.search(r"[^imsU:)P<?(-]", text):
                    raise BadRegex(f"there is no flag {unknown[0]!r}: use i, m, s and U", at)
            case "possessive":
                raise BadRegex(f"a possessive repetition {_ATOMIC} (the second +)", at)
            case "upto":
                raise BadRegex(f"write {{0{text[1:]} for a repetition without a minimum", at)
            case "huge":  # RE2 would match these characters literally
                raise BadRegex(_MESSAGES["invalid repetition size"], at)
        pieces.append(text)
    # Invalid UTF-8 on a command line becomes a lone surrogate, which RE2 accepts only as an escape.
    return _SURROGATE.sub(lambda found: f"\\x{{{ord(found[0]):x}}}", "".join(pieces))


def _escaped_in_brackets(at: int, escape: re.Match[str]) -> str:
    return _escape(escape[0], at + escape.start(), inside=True)


def _escape(text: str, at: int, inside: bool) -> str:
    name = text[1]
    if (classes := _UNICODE.get(name.lower())) and len(text) == 2:
        if name.islower():
            return classes if inside else f"[{classes}]"
        return text if inside else f"[^{classes}]"
    if refusal := _REFUSED_ESCAPES.get(name):
        raise BadRegex(refusal, at)
    if name in "123456789" and not inside:
        raise BadRegex(_BACK_REFERENCE, at)
    return text


@cache
def _engine() -> tuple[Any, Any]:
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2, options


def _compile(text: str, pattern: str) -> Any:
    re2, options = _engine()
    try:
        return re2.compile(text, options)
    except re2.error as error:
        message = error.args[0].decode("utf-8", "replace")
        what, _, about = message.partition(": ")
        what = what.removesuffix(" - compile failed")
        at = pattern.find(about) if about else -1
        if what in ("missing )", "unexpected )", "missing ]"):
            at = pattern.rfind(")" if what[0] == "u" else "(" if what[-1] == ")" else "[")
            about = ""
        what = _MESSAGES.get(what, what)
        raise BadRegex(f"{what}: {about}" if about else what, at if at >= 0 else None) from error


def _bytes(text: str) -> bytes:
    """As UTF-8; a surrogate takes three bytes and is one character for RE2 too."""
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
