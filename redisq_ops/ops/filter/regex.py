r"""Regular expressions of users, run by RE2: time grows linearly with the text, whatever both are.

The syntax is RE2's: Python's without look-around and back-references. ``\w``, ``\d`` and ``\s``
know Unicode here; ``\b`` knows ASCII letters only, and ``$`` is the very end of the text.
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
"""characters of a text that a filter searches"""
LONGEST = 1000
"""characters of an expression"""
REPLACED = 10_000
"""matches that are replaced one by one; from there on all of the text is"""

# `\W`, `\D` and `\S` in brackets stay ASCII: RE2 has no intersection of classes.
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
_LOOK = "look-around isn't supported: match the text around it too, or add a second condition"
_BACK = "a reference back to a group isn't supported: write the text out, or leave it out"
_ATOMIC = "isn't supported and not needed, no search goes back: leave it out"
_REFUSED_GROUPS = {
    "(?=": _LOOK, "(?!": _LOOK, "(?<=": _LOOK, "(?<!": _LOOK, "(?P=": _BACK,
    "(?(": "a condition isn't supported: write alternatives, a|b",
    "(?>": f"an atomic group {_ATOMIC}",
    "(?#": "a comment isn't supported: leave it out",
}  # fmt: skip
_REFUSED_ESCAPES = {
    "Z": r"write \z for the end of the text",
    "u": r"write \x{00E9} for a character by its number",
    "U": r"write \x{1F600} for a character by its number",
    "N": r"write \x{1F600} for a character by its number",
}
_SAID = {
    "bad repetition operator": "a repetition of a repetition",
    "no argument for repetition operator": "nothing to repeat",
    "invalid repetition size": "a repetition is {N} or {N,M}, N at most M, and M at most 1000",
    "missing argument to repetition operator": "nothing to repeat",
    "invalid perl operator": "no such group",
    "pattern too large": "too large: write fewer or smaller repetitions",
}


class BadRegex(BadInput):
    """An expression that can't be used; ``at`` is where in it, counted from 0, if known."""

    def __init__(self, said: str, at: int | None = None) -> None:
        super().__init__(said)
        self.at = at


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled expression; equal where its text is equal."""

    pattern: str
    _compiled: Any = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Callable[[str], Regex], tuple[str]]:
        return regex, (self.pattern,)  # tasks of Spark compile their own

    def search(self, text: str) -> bool:
        """Whether it is found anywhere in the first `SEARCHED` characters."""
        return self._compiled.search(_bytes(text[:SEARCHED])) is not None

    def found(self, text: str) -> bool:
        """Whether it is found anywhere in a text, however long."""
        return self._compiled.search(_bytes(text)) is not None

    def group(self, text: str) -> str:
        """What the first group matches where the expression is found first; empty: nothing."""
        found = self._compiled.search(_bytes(text[:SEARCHED]))
        return _text((found and found[1]) or b"")

    @property
    def groups(self) -> int:
        """How many groups it has."""
        return int(self._compiled.groups)

    def replace(self, text: str, by: str) -> str:
        """The whole text with each match replaced, and from match `REPLACED` on with one ``by``
        for all that is left. Lone surrogates (bytes that are no UTF-8) are characters."""
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
        """Where each match begins and ends."""
        data, done, at = _bytes(text), 0, 0
        for start, stop in self._matches(data):
            begin = at + len(_text(data[done:start]))
            at, done = begin + len(_text(data[start:stop])), stop
            yield begin, at

    def _matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """In bytes; none that is empty."""
        for match in self._compiled.finditer(data):
            start, stop = match.span()
            if start < stop:
                yield start, stop


def regex(pattern: str, longest: int = LONGEST) -> Regex:
    """An expression; `BadRegex` where it is wrong, or needs what RE2 doesn't have."""
    if len(pattern) > longest:
        raise BadRegex(f"an expression of {len(pattern):,} characters; at most {longest:,}")
    return Regex(pattern, _compile(_translated(pattern), pattern))


def either(expressions: Sequence[Regex]) -> Regex | None:
    """One that is found where any of these is; None where they make no expression together."""
    text = "|".join(f"(?:{one.pattern})" for one in expressions)
    try:
        return regex(text, longest=LONGEST * (len(expressions) + 1))
    except BadRegex:  # too large, or two groups of one name
        return None


def _translated(pattern: str) -> str:
    """The expression with Unicode's classes; refuses by name what RE2 doesn't have."""
    pieces = []
    for token in _TOKEN.finditer(pattern):
        text, at = token[0], token.start()
        match token.lastgroup:
            case "escape":
                text = _escape(text, at, inside=False)
            case "brackets":
                text = _IN_BRACKETS.sub(partial(_escaped_in_brackets, at), text)
            case "group":
                if said := _REFUSED_GROUPS.get(text):
                    raise BadRegex(said, at)
                if unknown := re.search(r"[^imsU:)P<?(-]", text):
                    raise BadRegex(f"there is no flag {unknown[0]!r}: i, m, s and U are", at)
            case "possessive":
                raise BadRegex(f"a possessive repetition {_ATOMIC} (the second +)", at)
            case "upto":
                raise BadRegex(f"write {{0{text[1:]} for a repetition without a least number", at)
            case "huge":  # RE2 would take it as it is spelled
                raise BadRegex(_SAID["invalid repetition size"], at)
        pieces.append(text)
    # A byte of a command line that is no UTF-8 is a lone surrogate, and RE2 wants to have it named.
    return _SURROGATE.sub(lambda found: f"\\x{{{ord(found[0]):x}}}", "".join(pieces))


def _escaped_in_brackets(at: int, escape: re.Match[str]) -> str:
    return _escape(escape[0], at + escape.start(), inside=True)


def _escape(text: str, at: int, inside: bool) -> str:
    name = text[1]
    if (classes := _UNICODE.get(name.lower())) and len(text) == 2:
        if name.islower():
            return classes if inside else f"[{classes}]"
        return text if inside else f"[^{classes}]"
    if said := _REFUSED_ESCAPES.get(name):
        raise BadRegex(said, at)
    if name in "123456789" and not inside:
        raise BadRegex(_BACK, at)
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
        said = error.args[0].decode("utf-8", "replace")
        what, _, about = said.partition(": ")
        what = what.removesuffix(" - compile failed")
        at = pattern.find(about) if about else -1
        if what in ("missing )", "unexpected )", "missing ]"):
            at = pattern.rfind(")" if what[0] == "u" else "(" if what[-1] == ")" else "[")
            about = ""
        what = _SAID.get(what, what)
        raise BadRegex(
            f"{what}: {about}" if about else what, at if at >= 0 else None
        ) from error  # fmt: skip


def _bytes(text: str) -> bytes:
    """As UTF-8; a surrogate takes three bytes, and is one character to RE2 as well."""
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
