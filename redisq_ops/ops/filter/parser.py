"""The parser of filter expressions, such as ``state:dead error~"timeout" client=acme age>2h``.

expression = and_terms {"or" and_terms}
and_terms  = term {["and"] term}
term       = ("not" | "-") term | "(" expression ")" | "has:" field | field operator values | word
values     = value {"," value}                         after = and != ; otherwise one value
word       = a regular expression on id, error type and message, "in quotes" if necessary
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import NoReturn

from rich.cells import cell_len

from redisq_ops.core.model.entry import STATES
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.quoting import legal, raw_of

from ..terminal import printable
from .ast import And, Compare, Has, Node, Not, Or, Query, Word
from .comparison import (
    Number,
    Test,
    constant,
    moment_of,
    number_comparison,
    text_comparison,
    text_search,
    word_search,
)
from .fields import FIELDS, OPERATORS, PLACES, VALUE_FORMS, Field, FilterValue, Path
from .regex import BadRegex, regex
from .time import duration_ms, moment_ms

LONGEST = 4000
"""characters of an expression"""
DEEPEST = 50
"""nested parentheses and nots"""
_SHOWN = 60
"""characters shown on each side of an error"""

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_NEGATED = re.compile(r"!([A-Za-z_][\w.]*(?:!=|!~|[<>=:~])|\()[^\s()]*")
"""``!`` for ``not``, as in other languages"""
_KEY = re.compile(r"\.([\w-]+)|\[(\d{1,9})\]|\.(?=\")")
_OPERATOR = re.compile(r"!=|!~|>=|<=|==|[=:~<>]")
_SYMBOLS = {"|": "or", "||": "or", "&": "and", "&&": "and"}
"""operators of other languages -> our words"""
_WORD = re.compile(r"(?:and|or|not)(?=[\s()\"]|$)", re.IGNORECASE)
_ANY_DAY_MS = 1_800_000_000_000
"""any time; it is used only to check the form of a value"""
_BYTES = re.compile(r"(\d{1,15})([kKmMgG]?)(?:i?[bB])?")
_UNIT = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class FilterError(BadInput):
    """A syntax error in an expression; shows the expression, a caret under the place, and why.

    ``column`` counts characters from 1.
    """

    def __init__(self, text: str, at: int, problem: str) -> None:
        self.text = text
        self.column = at + 1
        self.problem = problem
        start, end = max(0, at - _SHOWN), at + _SHOWN
        before = ("…" if start else "") + printable(text[start:at])
        after = printable(text[at:end]) + ("…" if len(text) > end else "")
        caret = " " * cell_len(before) + "^"
        self.shown = (before + after, f"{caret} {self.why}")
        super().__init__("\n".join(self.shown))

    @property
    def why(self) -> str:
        return f"column {self.column}: {self.problem}"

    @property
    def line(self) -> str:
        """The whole error in one line."""
        return f"{self.shown[0]} ({self.why})" if self.text.strip() else self.problem


def parse(text: str, *, utc: bool = False) -> Query:
    """Parse an expression; `FilterError` (a `BadInput`) names the column of an error.

    ``utc``: times of day (``03:12``) are in UTC, otherwise local.
    """
    return Query.of(Parser(text, utc).expression(), text)


def parse_field(name: str) -> Field:
    """The field with a name such as ``task`` or ``payload.region``; or `FilterError`."""
    return Parser(name, utc=False).only_field()


class Parser:
    def __init__(self, text: str, utc: bool) -> None:
        self._text = text
        self._utc = utc
        self._at = 0
        self._depth = 0

    def expression(self) -> Node:
        if len(self._text) > LONGEST:
            self._fail(LONGEST, f"an expression can have at most {LONGEST:,} characters")
        self._space()
        if self._at == len(self._text):
            self._fail(self._at, "an expression is missing: write one such as age>2h")
        found = self._or()
        if self._at < len(self._text):
            self._fail(self._at, "this ) has no ( before it")
        return found

    def _or(self) -> Node:
        parts = [self._and()]
        while self._take("or"):
            parts.append(self._and())
        return _joined(Or, parts)

    def _and(self) -> Node:
        parts = [self._term()]
        while self._at < len(self._text) and self._text[self._at] != ")" and not self._next("or"):
            self._take("and")
            parts.append(self._term())
        return _joined(And, parts)

    def _term(self) -> Node:
        began = self._at
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(began, f"more than {DEEPEST} nested parentheses and nots")
        try:
            if self._take("not"):
                return Not(self._term())
            char = self._text[self._at : self._at + 1]
            if char == "-":
                self._at += 1
                if self._text[self._at : self._at + 1].strip() == "":
                    self._fail(self._at, "write - before what it excludes, without a space")
                return Not(self._term())
            if char == "!" and (negated := _NEGATED.match(self._text, self._at)):
                self._fail(self._at, f"write - for not: -{negated[0][1:]}")
            if char == "(" and not self._text.startswith("(?", self._at):
                return self._group(began)
            if char in ("", ")") or self._next("or") or self._next("and"):
                self._fail(self._at, "a word or a comparison is missing here")
            return self._comparison() or self._word()
        finally:
            self._depth -= 1

    def _group(self, began: int) -> Node:
        self._at += 1
        self._space()
        inner = self._or()
        if self._text[self._at : self._at + 1] != ")":
            self._fail(began, "this ( is not closed")
        self._at += 1
        self._space()
        return inner

    def _comparison(self) -> Node | None:
        """A comparison, or None if a word begins here."""
        began = self._at
        named = self._field_name()
        if named is None:
            return None
        spaced = self._text[self._at : self._at + 1].isspace()
        if spaced:
            self._space()
        sign = _OPERATOR.match(self._text, self._at)
        if sign is None:
            self._at = began
            return None
        self._at = sign.end()
        op = {":": "=", "==": "="}.get(sign[0], sign[0])
        if spaced:
            self._space()
        if named == ("has", ()):
            return self._has(op, sign.start())
        field = self._field(named, began)
        if op not in OPERATORS[field.kind]:
            allowed = " ".join(OPERATORS[field.kind])
            self._fail(
                sign.start(), f"{field.name} can't be compared by {sign[0]}: use one of {allowed}"
            )
        values = self._values(field, op)
        return Compare(field, op, tuple(v for v, _ in values), self._test(field, op, values))

    def _has(self, op: str, at: int) -> Node:
        if op != "=":
            self._fail(at, "write has:FIELD")
        began = self._at
        named = self._field_name()
        if named is None:
            self._fail(began, "a field is missing: write has:client or has:payload.region")
        field = self._field(named, began)
        self._ended()
        return Has(field)

    def only_field(self) -> Field:
        """The field whose name is the whole text."""
        named = self._field_name()
        if named is None or self._at < len(self._text):
            self._fail(self._at, "name one field, such as task, client or payload.region")
        if named[0] not in (*FIELDS, *PLACES):
            self._fail(0, unknown(named[0]))
        return self._field(named, 0)

    def _field_name(self) -> tuple[str, Path] | None:
        """A name, and the path that follows a name of `PLACES`; None if no name begins here."""
        began = self._at
        name = _NAME.match(self._text, began)
        if name is None:
            return None
        first = name[0].partition(".")[0]
        if first in PLACES:
            self._at = began + len(first)
            return first, self._path(first)
        self._at = name.end()
        return name[0], ()

    def _field(self, named: tuple[str, Path], at: int) -> Field:
        name, path = named
        if path:
            return PLACES[name](path)
        if name == "arg":
            self._fail(at, "name an argument: arg.region, or arg.0 for the first one")
        if name not in FIELDS:
            self._fail(at, unknown(name))
        return FIELDS[name]

    def _path(self, root: str) -> Path:
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
            self._fail(self._at, f'write a path as {root}.a.b[0]."a key"')
        return tuple(steps)

    def _word(self) -> Node:
        began = self._at
        if self._text[began] == '"':
            value = FilterValue(self._quoted(), True)
        else:
            value = FilterValue(self._bare())
            if value.text in _SYMBOLS:
                self._fail(began, f"write {_SYMBOLS[value.text]} for {value.text}")
            # Refused, because after `not` a mistyped field would match everything.
            sign = None if value.text.startswith("(?") else re.search("[:=~<>]", value.text)
            if sign or not value.text:
                at = began + sign.start() if sign else began
                self._fail(at, f"put quotes around a text that contains {self._text[at]}")
        found = self._regex(value, began)
        self._ended()
        return Word(value, word_search(found))

    def _values(self, field: Field, op: str) -> list[tuple[FilterValue, int]]:
        several = op in ("=", "!=")
        found = []
        while True:
            began = self._at
            if self._text[began : began + 1] == '"':
                value = FilterValue(self._quoted(), True)
            else:
                value = FilterValue(self._bare("," if several else ""))
            if not value.quoted and not value.text:
                self._fail(began, f"a value is missing: {VALUE_FORMS[field.kind]}")
            if not value.quoted and value.text[0] in "=~<>!":
                self._fail(began, f"put quotes around a value that begins with {value.text[0]}")
            if several and field.name == "id":
                found += [(FilterValue(id, value.quoted), began) for id in _ids(value.text)]
            else:
                found.append((value, began))
            if not (several and self._text[self._at : self._at + 1] == ","):
                break
            self._at += 1
        self._ended()
        return found

    def _quoted(self) -> str:
        r"""A text in quotes. ``\"`` is a quote, ``\\`` a backslash, any other backslash is kept."""
        began = self._at
        self._at += 1
        chars: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == '"':
                return "".join(chars)
            if char == "\\" and self._text[self._at : self._at + 1] in ("\\", '"'):
                char = self._text[self._at]
                self._at += 1
            chars.append(char)
        self._fail(began, "this quote is not closed")

    def _bare(self, ends: str = "") -> str:
        """A text up to a space, a quote, a character of ``ends``, or a ) without ( in the text."""
        began, depth = self._at, 0
        if self._text.startswith("'", began):  # a search for the ' itself would find nothing
            self._fail(began, "quote a text by \", not by '")
        while self._at < len(self._text):
            char = self._text[self._at]
            if char.isspace() or char == '"' or char in ends or (char == ")" and not depth):
                break
            depth += (char == "(") - (char == ")")
            self._at += 1 + (char == "\\" and self._at + 1 < len(self._text))
        if depth:
            self._fail(began, "( and ) don't match here: put quotes around the text")
        return self._text[began : self._at]

    def _ended(self) -> None:
        """Check that a space, a ) or the end follows."""
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

    def _fail(self, at: int, problem: str) -> NoReturn:
        raise FilterError(self._text, at, problem)

    # --- the tests of comparisons --------------------------------------------------------------

    def _regex(self, value: FilterValue, at: int) -> Callable[[str], bool]:
        if not value.text:  # probably an unset variable of a script
            self._fail(at, "an empty text matches everything: leave it out to select all")
        try:
            return regex(value.text).search
        except BadRegex as error:
            # In quotes, escapes shift the column: point at the beginning of the text.
            inside = 0 if value.quoted or error.at is None else error.at
            self._fail(at + inside, f"invalid regular expression: {error}")

    def _test(self, field: Field, op: str, values: list[tuple[FilterValue, int]]) -> Test:
        if op in ("~", "!~"):
            return text_search(field, self._regex(*values[0]), op == "~")
        if field.kind not in ("text", "state", "json"):
            return number_comparison(field, op, [self._number(field, *value) for value in values])
        for value, at in values if field.kind == "state" else ():
            if value.text not in STATES:
                self._fail(at, unknown(value.text, "state", STATES))
        return text_comparison(field, op, [value for value, _ in values])

    def _number(self, field: Field, value: FilterValue, at: int) -> Number:
        """A value as a number: an integer, bytes, or ms."""
        text, kind, utc = value.text, field.kind, self._utc
        wrong = f"{field.name} can't be compared with {text!r}: write {VALUE_FORMS[kind]}"
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
                moment_ms(text, _ANY_DAY_MS, utc=utc)
            except (BadInput, ValueError, OverflowError):
                self._fail(at, wrong)
            return moment_of(text, utc)
        else:
            over = kind == "left" and text.startswith("-")
            try:
                number = duration_ms(text[over:]) * (-1 if over else 1)
            except (BadInput, ValueError):
                self._fail(at, wrong)
        return constant(number)


def _joined(kind: type[And] | type[Or], parts: list[Node]) -> Node:
    """The only part, or one node with the parts of nested ones: ``(a b) c`` is ``a b c``."""
    if len(parts) == 1:
        return parts[0]
    flat: list[Node] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else (part,)
    return kind(tuple(flat))


def _ids(words: str) -> list[str]:
    """The ids that a word may mean: itself, the id of which it is the quoted form, or both."""
    typed = legal(raw_of(words))
    if words.isascii() and (typed == words or "%" not in words):
        return [words]
    return [words, typed] if words.isascii() else [typed]


def unknown(name: str, what: str = "field", known: Sequence[str] = ()) -> str:
    """Says that a name does not exist, and suggests one."""
    names = known or (*FIELDS, "has")
    near = get_close_matches(name, names, 1) or get_close_matches(name.split(".")[0], names, 1)
    if near:
        hint = f": did you mean {near[0]}?"
    elif known:
        hint = f": use one of {', '.join(known)}"
    else:
        fields = ", ".join((f"arg.{name}", f"payload.{name}", *FIELDS))
        hint = f": use one of {fields}; to search for this text, put it in quotes"
    return f"there is no {what} {name!r}{hint}"
