"""The language of selections: ``state:dead error~"timeout" client=acme age>2h``.

expression = all {"or" all}
all        = one {["and"] one}
one        = ("not" | "-") one | "(" expression ")" | "has:" field | field operator values | word
values     = value {"," value}                         after = and != ; otherwise one value
word       = a regular expression on id, error type and message, "in quotes" where need be
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from rich.cells import cell_len

from redisq_ops.core.model.entry import STATES
from redisq_ops.core.model.errors import BadInput

from ..terminal import printable
from .ast import And, Compare, Has, Node, Not, Or, Query, Test, Word
from .fields import (
    FIELDS,
    LOOKS,
    MISSING,
    TAKES,
    EntryFields,
    Field,
    FilterValue,
    Path,
    moment,
    within,
    written_number,
)
from .regex import BadRegex, regex
from .time import duration_ms, moment_ms

LONGEST = 4000
"""characters of an expression"""
DEEPEST = 50
"""parentheses and nots around one another"""
_SHOWN = 60
"""characters shown to each side of where an expression is wrong"""

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_NEGATED = re.compile(r"!([A-Za-z_][\w.]*(?:!=|!~|[<>=:~])|\()[^\s()]*")
"""as other languages write it; no field begins so, and no word would be found"""
_KEY = re.compile(r"\.([\w-]+)|\[(\d{1,9})\]|\.(?=\")")
_OPERATOR = re.compile(r"!=|!~|>=|<=|==|[=:~<>]")
_WORD = re.compile(r"(?:and|or|not)(?=[\s()\"]|$)", re.IGNORECASE)
_BYTES = re.compile(r"(\d{1,15})([kKmMgG]?)(?:i?[bB])?")
_UNIT = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class FilterError(BadInput):
    """An expression that can't be read: the text, a caret under where, and why."""

    def __init__(self, text: str, at: int, said: str) -> None:
        self.text = text
        self.column = at + 1
        self.said = said
        start, end = max(0, at - _SHOWN), at + _SHOWN
        before = ("…" if start else "") + printable(text[start:at])
        after = printable(text[at:end]) + ("…" if len(text) > end else "")
        caret = " " * cell_len(before) + "^"
        self.shown = (before + after, f"{caret} {self.why}")
        super().__init__("\n".join(self.shown))

    @property
    def why(self) -> str:
        return f"column {self.column}: {self.said}"

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.shown[0]} ({self.why})"


def parse(text: str, *, utc: bool = False) -> Query:
    """An expression read; `FilterError` (a `BadInput`) says at which column it can't be.

    ``utc``: times of day (``03:12``) are UTC and not local.
    """
    return Query.of(_Parser(text, utc).whole(), text)


class _Parser:
    def __init__(self, text: str, utc: bool) -> None:
        self._text = text
        self._utc = utc
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        if len(self._text) > LONGEST:
            self._fail(LONGEST, f"an expression has at most {LONGEST:,} characters")
        self._space()
        if self._at == len(self._text):
            self._fail(self._at, "an expression is missing, such as age>2h")
        found = self._or()
        if self._at < len(self._text):
            self._fail(self._at, "there is no ( before this )")
        return found

    def _or(self) -> Node:
        parts = [self._and()]
        while self._take("or"):
            parts.append(self._and())
        return _joined(Or, parts)

    def _and(self) -> Node:
        parts = [self._one()]
        while self._at < len(self._text) and self._text[self._at] != ")" and not self._next("or"):
            self._take("and")
            parts.append(self._one())
        return _joined(And, parts)

    def _one(self) -> Node:
        began = self._at
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(began, f"more than {DEEPEST} parentheses and nots around one another")
        try:
            if self._take("not"):
                return Not(self._one())
            char = self._text[self._at : self._at + 1]
            if char == "-":
                self._at += 1
                if self._text[self._at : self._at + 1].strip() == "":
                    self._fail(self._at, "- stands right before what it excludes")
                return Not(self._one())
            if char == "!" and (what := _NEGATED.match(self._text, self._at)):
                self._fail(self._at, f"not is written - here: -{what[0][1:]}")
            if char == "(" and not self._text.startswith("(?", self._at):
                return self._group(began)
            if char in ("", ")") or self._next("or") or self._next("and"):
                self._fail(self._at, "something is missing here: a word or a comparison")
            return self._comparison() or self._word()
        finally:
            self._depth -= 1

    def _group(self, began: int) -> Node:
        self._at += 1
        self._space()
        inner = self._or()
        if self._text[self._at : self._at + 1] != ")":
            self._fail(began, "this ( is never closed")
        self._at += 1
        self._space()
        return inner

    def _comparison(self) -> Node | None:
        """A field and what follows it; None: a word begins here."""
        began = self._at
        name = _NAME.match(self._text, began)
        if name is None:
            return None
        self._at = name.end()
        path: Path | None = None
        if name[0] == "payload" or name[0].startswith("payload."):
            self._at = began + len("payload")
            path = self._path()
        named = self._text[began : self._at]
        spaced = self._text[self._at : self._at + 1].isspace()
        if spaced:
            self._space()
        sign = _OPERATOR.match(self._text, self._at)
        if sign is None:
            self._at = began
            return None
        self._at = sign.end()
        said = {":": "=", "==": "="}.get(sign[0], sign[0])
        if spaced:
            self._space()
        if named == "has":
            return self._has(said, sign.start())
        if path:
            asked = within(path)
        elif named in FIELDS:
            asked = FIELDS[named]
        else:
            self._fail(began, _unknown(named))
        if said not in TAKES[asked.kind]:
            takes = " ".join(TAKES[asked.kind])
            self._fail(sign.start(), f"{asked.name} is compared by {takes}, not by {sign[0]}")
        values = self._values(asked, said)
        return Compare(asked, said, tuple(v for v, _ in values), self._test(asked, said, values))

    def _has(self, said: str, at: int) -> Node:
        if said != "=":
            self._fail(at, "has is written has:FIELD")
        began = self._at
        name = _NAME.match(self._text, began)
        if name is None:
            self._fail(began, "a field is missing: has:client, has:payload.region")
        self._at = name.end()
        path: Path = ()
        if name[0] == "payload" or name[0].startswith("payload."):
            self._at = began + len("payload")
            path = self._path()
        named = self._text[began : self._at]
        if not path and named not in FIELDS:
            self._fail(began, _unknown(named))
        self._ended()
        return Has(within(path) if path else FIELDS[named])

    def _path(self) -> Path:
        steps: list[str | int] = []
        while key := _KEY.match(self._text, self._at):
            self._at = key.end()
            if key[1] is not None:
                steps.append(key[1])
            elif key[2] is not None:
                steps.append(int(key[2]))
            else:
                steps.append(self._quoted())
        if self._text[self._at : self._at + 1] in (".", "["):
            self._fail(self._at, 'a path is written payload.a.b[0]."a key"')
        return tuple(steps)

    def _word(self) -> Node:
        began = self._at
        if self._text[began] == '"':
            value = FilterValue(self._quoted(), True)
        else:
            value = FilterValue(self._bare())
            # Not taken for a text to search: with `not` before it a mistyped field would mean all.
            sign = None if value.text.startswith("(?") else re.search("[:=~<>]", value.text)
            if sign or not value.text:
                at = began + sign.start() if sign else began
                self._fail(at, f"put quotes around a text with {self._text[at]} in it")
        found = self._regex(value, began)
        self._ended()
        return Word(value, lambda seen: any(map(found, seen.words)))

    def _values(self, asked: Field, said: str) -> list[tuple[FilterValue, int]]:
        several = said in ("=", "!=")
        found = []
        while True:
            began = self._at
            if self._text[began : began + 1] == '"':
                value = FilterValue(self._quoted(), True)
            else:
                value = FilterValue(self._bare("," if several else ""))
            if not value.quoted and not value.text:
                self._fail(began, f"a value is missing: {LOOKS[asked.kind]}")
            if not value.quoted and value.text[0] in "=~<>!":
                self._fail(began, f"put quotes around a value that begins with {value.text[0]}")
            found.append((value, began))
            if not (several and self._text[self._at : self._at + 1] == ","):
                break
            self._at += 1
        self._ended()
        return found

    def _quoted(self) -> str:
        r"""In quotes; ``\"`` is a quote, ``\\`` a backslash, any other backslash stays."""
        began = self._at
        self._at += 1
        said: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == '"':
                return "".join(said)
            if char == "\\" and self._text[self._at : self._at + 1] in ("\\", '"'):
                char = self._text[self._at]
                self._at += 1
            said.append(char)
        self._fail(began, "this quote is never closed")

    def _bare(self, ends: str = "") -> str:
        """Up to a space, a quote, or a ) that isn't opened within it."""
        began, depth = self._at, 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if char.isspace() or char == '"' or char in ends or (char == ")" and not depth):
                break
            depth += (char == "(") - (char == ")")
            self._at += 1 + (char == "\\" and self._at + 1 < len(self._text))
        if depth:
            self._fail(began, "( and ) don't match here: put quotes around it")
        return self._text[began : self._at]

    def _ended(self) -> None:
        """A space or a ) has to follow."""
        rest = self._text[self._at : self._at + 1]
        if rest and not rest.isspace() and rest != ")":
            self._fail(self._at, "a space is missing here")
        self._space()

    def _space(self) -> None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1

    def _next(self, word: str) -> bool:
        found = _WORD.match(self._text, self._at)
        return found is not None and found[0].lower() == word

    def _take(self, word: str) -> bool:
        if not self._next(word):
            return False
        self._at += len(word)
        self._space()
        return True

    def _fail(self, at: int, said: str) -> NoReturn:
        raise FilterError(self._text, at, said)

    # --- what a comparison asks ----------------------------------------------------------------

    def _regex(self, value: FilterValue, at: int) -> Callable[[str], bool]:
        if not value.text:  # a variable of a script that isn't set
            self._fail(at, "every text has an empty one in it: leave it out to mean all")
        try:
            return regex(value.text).search
        except BadRegex as error:
            # Behind a quote and its escapes the place is only about right: say where it begins.
            inside = 0 if value.quoted or error.at is None else error.at
            self._fail(at + inside, f"not a regular expression: {error}")

    def _test(self, asked: Field, said: str, values: list[tuple[FilterValue, int]]) -> Test:
        read = asked.read
        if said in ("~", "!~"):
            found, wanted = self._regex(*values[0]), said == "~"
            if asked.kind == "json":
                return lambda seen: (
                    (here := read(seen)) is not MISSING and found(_as_text(here)) is wanted
                )
            return lambda seen: (
                (texts := read(seen)) is not None and any(map(found, texts)) is wanted
            )
        if asked.kind in ("text", "state", "json"):
            return self._literal(asked, said, values)
        numbers = [self._number(asked, value, at) for value, at in values]
        if said in _ORDER:
            compare, (number,) = _ORDER[said], numbers
            return lambda seen: (n := read(seen)) is not None and compare(n, number(seen))
        wanted = said == "="
        return lambda seen: (
            (n := read(seen)) is not None and any(n == one(seen) for one in numbers) is wanted
        )

    def _literal(self, asked: Field, said: str, values: list[tuple[FilterValue, int]]) -> Test:
        """A comparison with texts, or with whatever a JSON payload may hold."""
        read, wanted, given = asked.read, said == "=", [value for value, _ in values]
        if asked.kind == "state":
            for value, at in values:
                if value.text not in STATES:
                    self._fail(at, _unknown(value.text, "state", STATES))
        if asked.kind != "json":
            return lambda seen: (
                (texts := read(seen)) is not None
                and any(value.fits(text) for value in given for text in texts) is wanted
            )
        if said not in _ORDER:
            return lambda seen: (
                (here := read(seen)) is not MISSING
                and any(value.equals(here) for value in given) is wanted
            )
        compare, number, text = _ORDER[said], given[0].number, given[0].text

        def ordered(seen: EntryFields) -> bool:
            here = read(seen)
            if number is None:
                return isinstance(here, str) and compare(here, text)
            if isinstance(here, str):  # fields of a stream are texts, whatever they mean
                here = written_number(here)
            numeric = isinstance(here, (int, float)) and not isinstance(here, bool)
            return numeric and compare(here, number)

        return ordered

    def _number(self, asked: Field, value: FilterValue, at: int) -> Callable[[EntryFields], int]:
        """A number, a size, a time span or a moment, as ms where it is a time."""
        text, kind, utc = value.text, asked.kind, self._utc
        wrong = f"{asked.name} is compared with {LOOKS[kind]}, not with {text!r}"
        if kind == "number":
            if not (text.isascii() and text.isdigit() and len(text) < 16):
                self._fail(at, wrong)
            number = int(text)
        elif kind == "bytes":
            size = _BYTES.fullmatch(text)
            if size is None:
                self._fail(at, wrong)
            number = int(size[1]) * _UNIT[size[2].lower()]
        elif kind == "moment":
            try:
                moment_ms(text, _SOME_DAY_MS, utc=utc)
            except (BadInput, ValueError, OverflowError):
                self._fail(at, wrong)
            return lambda seen: moment(text, seen.now_ms, utc)
        else:
            over = kind == "left" and text.startswith("-")
            try:
                number = duration_ms(text[over:]) * (-1 if over else 1)
            except (BadInput, ValueError):
                self._fail(at, wrong)
        return lambda seen: number


_SOME_DAY_MS = 1_800_000_000_000


def _joined(kind: type[And] | type[Or], parts: list[Node]) -> Node:
    """One of them, or all in one list: ``(a b) c`` says no more than ``a b c``."""
    if len(parts) == 1:
        return parts[0]
    flat: list[Node] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else (part,)
    return kind(tuple(flat))


def _as_text(found: Any) -> str:
    import json

    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _unknown(name: str, what: str = "field", known: Sequence[str] = ()) -> str:
    among = known or (*FIELDS, "has")
    near = get_close_matches(name, among, 1) or get_close_matches(name.split(".")[0], among, 1)
    if near:
        hint = f": did you mean {near[0]}?"
    elif known:
        hint = f": there are {', '.join(known)}"
    else:
        hint = "; to search for that text, put it in quotes"
    return f"there is no {what} {name!r}{hint}"
