"""The language of selections: what it means, what it says when it can't be read, that it ends."""

import json
import os
import random
import re
import string
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from redisq_ops.core.model.entry import STATES, Entry, Failure
from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.filter.ast import Query
from redisq_ops.ops.filter.completion import completed
from redisq_ops.ops.filter.fields import FIELDS, OPERATORS, VALUE_FORMS, EntryContext, FilterValue
from redisq_ops.ops.filter.parser import DEEPEST, LONGEST, FilterError, parse
from redisq_ops.ops.filter.regex import SEARCHED, BadRegex, regex
from redisq_ops.ops.groups.fingerprint import fingerprint
from redisq_ops.ops.redaction import MASK, Redaction

NOW = int(datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp() * 1000)
MINUTE, HOUR = 60_000, 3_600_000
DEAD = Entry(
    "r1/3",
    "dead",
    at_ms=NOW - 3 * HOUR,
    since_ms=NOW - 3 * HOUR,
    failures=4,
    lost=1,
    first_ms=NOW - 5 * HOUR,
    consumer="w1",
    reason="failed",
    op="replay-1",
    error=Failure("smtp.Timeout", "no answer from 10.0.0.7 after 30 s"),
    deliveries=6,
    payload=json.dumps(
        {
            "region": "eu",
            "n": 5,
            "code": "5",
            "ok": True,
            "none": None,
            "at": "2026-11-20",
            "items": [{"sku": "a-1"}, {"sku": "b"}],
            "odd key": 1.5,
            "user-id": 17,
        }
    ).encode(),
)
WAITS = Entry("e1", "waiting", payload=b"plain text\xff")
HELD = Entry("r2/1", "pending", at_ms=NOW + 20_000, since_ms=NOW - 10_000, consumer="w2")
OVER = Entry("r2/2", "pending", at_ms=NOW - 5 * MINUTE, since_ms=NOW - HOUR, consumer="w3")
LATER = Entry("ann1", "delayed", at_ms=NOW + 2 * HOUR, client="acme", payload=b'{"n": 70}')
ALL = {"dead": DEAD, "waits": WAITS, "held": HELD, "over": OVER, "later": LATER}
PLACE = EntryContext("mail", "request", {"r1": 10, "r2": 50})


def meant(text: str, *, utc: bool = True) -> str:
    """The names of the entries that an expression means."""
    query = parse(text, utc=utc)
    return " ".join(name for name, entry in ALL.items() if query.accepts(entry, NOW, PLACE))


MEANS = [
    # words
    ("r1", "dead"), ("^r", "dead held over"), ("Timeout", "dead"), ('"no answer"', "dead"),
    ("answer no", "dead"), ("timeout", ""), ("(?i)timeout", "dead"), ("r1|e1", "dead waits"),
    (r"r(1|2)/\d", "dead held over"), (r'"10\.0\.0\.\d"', "dead"), ("-r", "waits later"),
    # all, one of, none
    ("state:dead w", "dead"), ("e1 or ann1", "waits later"), ("e1 OR ann1", "waits later"),
    ("not state:pending", "dead waits later"), ("-state:pending", "dead waits later"),
    ("state:pending and consumer=w2 or e1", "waits held"),
    ("state:pending (consumer=w2 or e1)", "held"), ("-(r1 or r2)", "waits later"),
    ("not not r1", "dead"), ("-(state:dead)(r)", "held over"),
    # texts
    ("state=dead", "dead"), ("state:dead,delayed", "dead later"), ("state!=dead,delayed",
     "waits held over"), ("id=e1", "waits"), ("id=r2/*", "held over"), ('id="r2/*"', ""),
    ("id=r*/*", "dead held over"), ("id=*1", "waits held later"), ("id!=r*", "waits later"),
    ("queue=mail kind:request r1", "dead"), ("queue=news", ""), ("request=r2", "held over"),
    ("client=acme,globex", "later"), ("client=globex", ""), ("consumer~w[12]", "dead held"),
    ("consumer!~w[12]", "over"), ("reason=failed", "dead"), ("op=replay-*", "dead"),
    # what is unknown is in no comparison, and `not` turns that round
    ("client!=acme", ""), ("client!=x", "later"), ("not client=acme", "dead waits held over"),
    ("client!~acme", ""), ("has:client", "later"), ("-has:error", "waits held over later"),
    # errors
    ("error=smtp.Timeout", "dead"), ('error~"10.0.0.7"', "dead"), ("error~^smtp", "dead"),
    ('error="smtp.Timeout: no answer from 10.0.0.7 after 30 s"', "dead"), ("error!~disk", "dead"),
    ("error.type=*Timeout", "dead"), ("error.message~^smtp", ""), ("error.type~^smtp", "dead"),
    ("error!=smtp.Timeout", ""), (f"group={fingerprint(DEAD)}", "dead"), ("group=nope", ""),
    # numbers
    ("failures>=4", "dead"), ("lost=1", "dead"), ("attempts>5", ""), ("attempts=5,6", "dead"),
    ("deliveries=6", "dead"), ("deliveries!=6", ""), ("priority<20", "dead"), ("number=1", "held"),
    ("number>1", "dead over"), ("failures!=4 e1", "waits"), ("size<20", "waits later"),
    ("size>=1k", ""), ("size<1KiB -size<=20", "dead"),
    # times
    ("age>2h", "dead"), ("age<2h", "held over"), ("age>=1h", "dead over"), ("age>2h30m", "dead"),
    ("ready>1h", "later"), ("ready<1h", ""), ("lease<30s", "held over"), ("lease<0s", "over"),
    ("lease<-4m", "over"), ("lease<-6m", ""), ("since>=11:00", "held over"),
    ("since<2026-11-20T10:00:00+01:00", ""), ("since<2026-11-20T10:00:01+01:00", "dead"),
    ("first<08:00", "dead"), ("age > 2h", "dead"),
    # payloads
    ("payload=plain*", "waits"), ("payload~plain", "waits"), ("payload~xff", "waits"),
    ("payload.region=eu", "dead"), ("payload.region:eu,us", "dead"), ("payload.region!=us", "dead"),
    ("not payload.region=us", "dead waits held over later"), ("payload.n=5", "dead"),
    ("payload.n=5.0", "dead"), ('payload.n="5"', ""), ("payload.code=5", "dead"),
    ('payload.code="5"', "dead"), ("payload.code=5.0", ""), ("payload.n>4", "dead later"),
    ("payload.n>60.5", "later"), ("payload.code>4", "dead"), ("payload.code>=10", ""),
    ("payload.code<5.5", "dead"), ("payload.region>4", ""), ('payload.n>"4"', ""),
    ("payload.at>2026-11-1", "dead"), ("payload.ok=true", "dead"), ("payload.ok=1", ""),
    ("payload.ok>0", ""), ("payload.none=null", "dead"), ("payload.none!=5", "dead"),
    ('payload.none="null"', ""), ("has:payload.none", "dead"), ("has:payload.nope", ""),
    ("has:payload", "dead waits later"), ("payload.items[0].sku=a-1", "dead"),
    ("payload.items[1].sku~b", "dead"), ("payload.items[2].sku~.", ""),
    ("payload.items.sku~.", ""), ("payload.region.x=eu", ""), ('payload."odd key">1', "dead"),
    ("payload.user-id=17", "dead"), ("payload.items~sku", "dead"), ("payload.n~^5$", "dead"),
    ("payload.region!~^e", ""), ("payload.region=e*", "dead"), ('payload.region="e*"', ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "names"), MEANS)
def test_an_expression_and_its_canonical_form_select_the_same_entries(
    text: str, names: str
) -> None:
    assert meant(text) == names
    query = parse(text)
    again = parse(str(query))
    assert again == query
    assert str(again) == str(query)
    assert meant(str(query)) == names


def test_a_time_of_day_is_local_or_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert meant("since>=20:00", utc=False) == "held over"
        assert meant("since>=11:00", utc=True) == "held over"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("age>2h", None),
        ("state:dead", {"dead"}),
        ("state:dead r1", {"dead"}),
        ("state:dead or r1", None),
        ("state:dead or state=delayed", {"dead", "delayed"}),
        ("state:dead state:delayed", set()),
        ("-state:dead", set(STATES) - {"dead"}),
        ("state!=dead", set(STATES) - {"dead"}),
        ("-(state!=dead)", {"dead"}),
        ("-(state:dead r1)", None),
        ("-(state:dead or r1)", set(STATES) - {"dead"}),
    ],
)
def test_states_that_can_match(text: str, states: set[str] | None) -> None:
    assert parse(text).states == states


def test_data_that_an_expression_needs() -> None:
    for text, needs in (
        ("r1", set()),
        ("size>1k", {"payload"}),
        ("r1 or -(payload.a=1)", {"payload"}),
        ("has:payload", {"payload"}),
        ("priority<5 payload~x", {"payload", "priority"}),
        ("error~x age>2h state:dead group=abc", set()),
    ):
        assert parse(text).needs == needs


def test_ids_and_requests_that_can_match() -> None:
    for text, ids, requests in (
        ("id=a,b,a", ("a", "b"), None),
        ("id=a* x", None, None),
        ("(id=a age>2h) request=r1,r2", ("a",), ("r1", "r2")),
        ("id=a or id=b", None, None),
        ("-id=a", None, None),
        ("id!=a", None, None),
    ):
        query = parse(text)
        assert (query.ids, query.requests) == (ids, requests)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "an expression is missing"),
        ("   ", 4, "an expression is missing"),
        ("state:dead eror~x", 12, "no field 'eror': did you mean error?"),
        ("payloda.region=eu", 1, "did you mean payload"),
        ("http://x", 1, "put it in quotes"),
        ("state:daed", 7, "no state 'daed': did you mean dead?"),
        ("state:xyzzy", 7, "use one of waiting, pending"),
        ("state>dead", 6, "can't be compared by >: use one of = !="),
        ("age>2x", 5, "90s, 5m"),
        ("age>2", 5, "can't be compared with '2'"),
        ("age=2h", 4, "can't be compared by ="),
        ("lost>many", 6, "whole number"),
        ("lost>-1", 6, "whole number"),
        ("size>1q", 6, "512, 10k"),
        ("since>yesterday", 7, "(the latest)"),
        ("since>25:00", 7, "(the latest)"),
        ("since>2026-11-20T03:12:00", 7, "(the latest)"),
        ("client>a", 7, "can't be compared by >"),
        ("error~(", 7, "don't match"),
        ('error~""', 7, "leave it out"),
        ('mail ""', 6, "leave it out"),
        ("error~a{2,1}", 8, "invalid regular expression"),
        ('error~"["', 7, "invalid regular expression"),
        ("x **", 3, "invalid regular expression"),
        ("(r1 or r2", 1, "is not closed"),
        ("r1 (r2", 4, "is not closed"),
        ("r1)", 3, "has no ( before"),
        ('client="ac', 8, "is not closed"),
        ("client=", 8, "a value is missing"),
        ("client= acme", 8, "a value is missing"),
        ("client=a,", 10, "a value is missing"),
        ("client=>a", 8, "put quotes around"),
        ('client=a"b"', 9, "a space is missing"),
        ("error-type=foo", 11, "put quotes around a text that contains ="),
        ("12:30", 3, "put quotes around a text that contains :"),
        ("r1 or", 6, "a word or a comparison is missing"),
        ("or r1", 1, "a word or a comparison is missing"),
        ("r1 and or r2", 8, "a word or a comparison is missing"),
        ("r1 and", 7, "a word or a comparison is missing"),
        ("()", 2, "a word or a comparison is missing"),
        ("- r1", 2, "write - before what it excludes"),
        ("not", 4, "a word or a comparison is missing"),
        ("has:nope", 5, "no field 'nope'"),
        ("has:", 5, "a field is missing"),
        ("has!=client", 4, "has:FIELD"),
        ("payload.a[x]=1", 10, "write a path as"),
        ("payload.=1", 8, "write a path as"),
        ("r1 arg=1", 4, "arg.region, or arg.0"),
        ("~x", 1, "put quotes around"),
        ("a | b", 3, "write or for |"),
        ("a && -b", 3, "write and for &&"),
        ("client='acme'", 8, "quote a text by \", not by '"),
        ("a 'b c'", 3, "quote a text by \", not by '"),
        ("(" * (DEEPEST + 1) + "x" + ")" * (DEEPEST + 1), DEEPEST + 1, "nested parentheses"),
        ("-" * 5000 + "x", LONGEST + 1, "at most"),
        ("-" * 3000 + "x", DEEPEST + 1, "nested parentheses"),
        (r"(a)\1+b+", None, "invalid regular expression"),
        ("x" * 1001, 1, "at most 1,000"),
    ],
)
def test_syntax_error_names_column_and_problem(text: str, column: int | None, problem: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    error = caught.value
    assert isinstance(error, BadInput) and error.exit_code == 2
    assert problem in str(error) and problem in error.line
    assert "\n" not in error.line
    if column is not None:
        assert error.column == column
        assert f"column {column}:" in str(error)
    shown, pointer = str(error).split("\n")
    caret = pointer.index("^")
    if len(text) < 60:
        assert shown == text and caret == error.column - 1
    else:
        assert len(shown) <= 122 and shown[caret : caret + 1] in (text[error.column - 1 :] or "…")


def test_caret_is_under_its_column_after_wide_and_escaped_text() -> None:
    with pytest.raises(FilterError) as caught:
        parse("日本 \x1b eror~x")
    shown, pointer = str(caught.value).split("\n")
    assert "\x1b" not in str(caught.value)
    assert shown.index("eror") + 2 == pointer.index("^")  # two of them take two cells
    assert caught.value.column == 6


def test_quotes_and_backslashes() -> None:
    entry = Entry("e", "dead", error=Failure("E", 'say "hi" at C:\\tmp'))
    for text in (r'"say \"hi\""', r'error~"C:\\\\tmp"', 'error~"C:.tmp"', r'error~"\bhi\b"'):
        assert parse(text).accepts(entry, NOW), text
        assert parse(str(parse(text))) == parse(text)


def test_glob_does_not_backtrack() -> None:
    for pattern, text, fits in (
        ("*", "", True),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "acb", False),
        ("*ab*", "xaabx", True),
        ("**", "x", True),
        ("a*bc*bc", "abc", False),
        ("a*bc*bc", "abcbc", True),
    ):
        assert FilterValue(pattern).matches(text) is fits, (pattern, text)
        assert bool(re.fullmatch(pattern.replace("*", ".*"), text)) is fits
    assert not FilterValue("*a" * 500 + "b").matches("a" * 100_000)


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({"args": [7, {"a": 1}], "kwargs": {"region": "eu"}}, "arg.0=7 arg[1].a=1 arg.region=eu"),
        ({"args": [{"region": "eu", "0": 1}]}, "arg.region=eu arg.0.region=eu -has:arg.1 arg.0~eu"),
        ({"args": [{"a": 1}, {"a": 1}], "kwargs": None}, "-has:arg.a"),
        ({"data": {"region": "eu", "0": "first"}}, "arg.region=eu arg.0=first -has:arg.x"),
        ({"data": ["a", "b"], "region": "eu"}, "arg.1=b -has:arg.region -has:arg.2"),
        ({"args": "('eu',)"}, "-has:arg.0"),
        ([], "-has:arg.0"),
    ],
)
def test_arguments_of_tasks(payload: object, where: str) -> None:
    entry = Entry("e", "dead", payload=json.dumps(payload).encode(), task="mail.send")
    query = parse(f"task=mail.* {where}")
    assert query.accepts(entry, NOW) and parse(str(query)) == query
    for one in where.split():  # of an entry that is for no task, nothing is an argument
        assert parse(one).accepts(replace(entry, task=None), NOW) is one.startswith("-")


@pytest.mark.parametrize(
    ("hidden", "where", "shown"),
    [
        ("region", "arg.region=eu task=x", "arg.region=*** task=x"),
        ("kwargs.region", "arg.region=eu arg.0=eu", "arg.region=*** arg.0=eu"),
        ("args", "arg.region=eu arg.0=eu", "arg.region=*** arg.0=***"),
    ],
)
def test_a_hidden_argument_is_masked_as_its_place_in_the_payload_is(
    hidden: str, where: str, shown: str
) -> None:
    redaction = Redaction.read([({"keys": [hidden]}, "here")])
    assert parse(where).masked(redaction.hides, MASK) == shown


def test_names_of_fields_are_completed() -> None:
    assert completed("state:dead -ta") == ["state:dead -task="]
    assert completed("(ar") == ["(arg."] and completed("has:ta") == ["has:task"]
    assert completed("ag") == ["age>"] and completed("task=a") == completed("x ") == []


def test_payloads_that_are_not_json() -> None:
    deep, digits = b"[" * 100_000, b'{"n": ' + b"9" * 10_000 + b"}"
    for payload in (b"", b"\xff", b"{", b"NaN", deep, digits, b'"text"', b"[1]", None):
        entry = Entry("e", "dead", payload=payload)
        for text in ("payload.n=1", "payload.n!=1", "payload.n>1", "payload.n!~x", "has:payload.n"):
            assert not parse(text).accepts(entry, NOW)
        assert parse("-payload.n=1").accepts(entry, NOW)


# --- regular expressions -------------------------------------------------------------------------

TRAPS = (
    "(a+)+$",
    "(a|a)+$",
    "(a|aa)+$",
    "(a*)*b",
    "(?:a?){50}a{50}b",
    "a.*b.*c.*d.*e",
    "(.*)*x",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(x+x+)+y",
    r"(\w+\s?)*$!",
    "a*a*a*a*a*a*b",
    "(a|b|ab)*c",
    "(a|b){0,200}c(a|x){0,200}!",
)


@pytest.mark.parametrize("pattern", TRAPS)
def test_regex_time_is_linear(pattern: str) -> None:
    """Python's own engine would take years for most of these: this test would not end."""
    found = regex(pattern)
    for text in ("a" * SEARCHED, "ab" * SEARCHED, "x" * 100 + "\n", "aaaa!" * 900):
        assert found.search(text) in (True, False)
    assert parse(f'error~"{pattern}"').accepts(DEAD, NOW) in (True, False)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a", True), ("^a$", "b\na\nb", False), ("(?m)^a$", "b\na\nb", True),
        ("a$", "a\n", False), (r"a\z", "ba", True), (r"\Aa", "\na", False),
        ("a.b", "a\nb", False), ("(?s)a.b", "a\nb", True),
        ("a", "A", False), ("(?i)GRÖSSE", "größe grösse", True), ("(?i:a)B", "AB", True),
        (r"^\w+$", "Jürgen_9٣", True), (r"^[\w-]+$", "ü-ñ", True), (r"^\W+$", "é", False),
        (r"^\d$", "٣", True), (r"^\D$", "٣", False), (r"^\s$", "\u3000", True),
        (r"^\S+$", "\u00a0", False), (r"\bcat\b", "a cat.", True), (r"\bcat\b", "cats", False),
        (r"\p{Greek}", "λ", True), (r"\x{1F600}", "😀", True), (r"\Qa+b\E", "a+b", True),
        ("r\udce4t", "Ger\udce4t", True), ("[\udce4]", "\udce4", True), ("^.$", "\udcff", True),
        (r"^\S\S$", "\udc80\udcff", True), ("a", "\udcffa", True),
        (r"(?P<n>a)b", "ab", True), ("[[:alpha:]]", "x", True), ("[]x]", "]", True),
        ("[(?=]", "=", True), ("x{2,}", "xx", True), ("(?U)x+?", "x", True),
    ],
)  # fmt: skip
def test_regex_matches(pattern: str, text: str, found: bool) -> None:
    assert regex(pattern).search(text) is found


@pytest.mark.parametrize(
    ("pattern", "at", "problem"),
    [
        ("a(?=b)", 1, "look-around"),
        ("(?!b)", 0, "look-around"),
        ("a(?<=b)", 1, "look-around"),
        ("(?<!b)", 0, "add a second condition"),
        (r"(a)\1", 3, "write the text out"),
        ("(?P<n>a)(?P=n)", 8, "back-reference"),
        ("(?>a)", 0, "leave it out"),
        ("xa++", 2, "leave it out"),
        ("a{2}+", 1, "leave it out"),
        (r"a\Z", 1, r"write \z"),
        (r"\u00e9", 0, r"write \x{00E9}"),
        (r"[\u00e9]", 1, r"write \x{00E9}"),
        ("(?x)a b", 0, "no flag 'x'"),
        ("a(?#b)", 1, "comment"),
        ("(?(1)a|b)", 0, "a|b"),
        ("a{,5}", 1, "write {0,5}"),
        ("a{1001}", 1, "at most 1000"),
        ("a{2,1}", 1, "at most"),
        ("(a{1000}){1000}", None, "at most 1000"),
        ("x(", 1, "missing )"),
        ("a)", 1, "unexpected"),
        ("[a", 0, "missing ]"),
        ("a**", 1, "repetition"),
        ("*a", 0, "nothing to repeat"),
        ("\\", None, "trailing"),
        (r"(\pL{0,500}x)\pL{0,400}z", None, "fewer or smaller"),
        ("x+" * 501, None, "at most 1,000"),
    ],
)
def test_bad_regex_names_place_and_alternative(pattern: str, at: int | None, problem: str) -> None:
    with pytest.raises(BadRegex, match=re.escape(problem)) as caught:
        regex(pattern)
    if at is not None:
        assert caught.value.at == at
    assert "\n" not in str(caught.value)


def test_only_the_beginning_of_a_text_is_searched() -> None:
    assert regex("end").search("x" * (SEARCHED - 3) + "end")
    assert not regex("end").search("x" * (SEARCHED - 2) + "end")


# --- anything at all -----------------------------------------------------------------------------


def written(chance: random.Random, depth: int = 0) -> str:
    """A valid expression."""
    kind = chance.random()
    if depth < 3 and kind < 0.15:
        return f"({written(chance, depth + 1)} or {written(chance, depth + 1)})"
    if depth < 3 and kind < 0.3:
        return f"{written(chance, depth + 1)} {written(chance, depth + 1)}"
    if depth < 3 and kind < 0.4:
        return f"{chance.choice(['-', 'not '])}({written(chance, depth + 1)})"
    if kind < 0.5:
        return chance.choice(["r1", '"a b"', "^e", "-x", r'"\"q"', "(?i)T"])
    asked = chance.choice([*FIELDS.values()])
    sign = chance.choice(OPERATORS[asked.kind])
    written_as: dict[str, list[str]] = {
        "text": ["acme", "r1/*", '"a b"', '"*"', '"\\"\\\\"'],
        "state": [*STATES],
        "number": ["0", "17"],
        "bytes": ["512", "10k"],
        "span": ["90s", "1h30m"],
        "left": ["5m", "-5m"],
        "moment": ["03:12", "2026-11-20T03:12:00+01:00"],
        "json": ["v2", '"2"', "null"],
    }
    values = written_as[asked.kind]
    if "~" in sign:
        values = ["acme", '"a b|c"', "(a|b)"]
    chosen = chance.choice(values)
    if sign in ("=", "!="):
        chosen = ",".join(chance.choice(values) for _ in range(chance.randint(1, 3)))
        sign = ":" if sign == "=" and chance.random() < 0.3 else sign
    return f"{asked.name}{sign}{chosen}"


def test_canonical_form_parses_to_an_equal_query() -> None:
    chance = random.Random(5)
    for _ in range(2000):
        text = written(chance)
        query = parse(text)
        again = parse(str(query))
        assert again == query and hash(again) == hash(query), text
        assert again.states == query.states and again.needs == query.needs
        for entry in ALL.values():
            assert again.accepts(entry, NOW, PLACE) == query.accepts(entry, NOW, PLACE), text
            if query.states is not None and query.accepts(entry, NOW, PLACE):
                assert entry.state in query.states, text


@pytest.mark.slow
def test_random_text_is_bad_input() -> None:
    chance = random.Random(7)
    pieces = [
        *string.printable, *FIELDS, "payload.a[0]", "and ", "or ", "not ", "has:", "(?i)", "\\",
        '"', "(", ")", ":", "~", ">=", "!=", ",", "*", "é", "日", "\ud800", "\x00", "9" * 400,
        "03:12",
        "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "3d", "[", "]", "{2,1}", "²",
    ]  # fmt: skip
    read = 0
    for _ in range(20_000):
        text = "".join(chance.choice(pieces) for _ in range(chance.randint(1, 12)))
        try:
            query = parse(text)
        except BadInput as error:
            assert isinstance(error, FilterError) and f"column {error.column}: " in str(error)
            assert 1 <= error.column <= len(text) + 1
            assert str(error).split("\n")[0].isprintable()
        else:
            read += 1
            assert isinstance(query, Query) and parse(str(query)) == query
            for entry in ALL.values():
                query.accepts(entry, NOW)
    assert read > 500


def test_every_field_can_be_compared() -> None:
    """And only what the table says, of entries about which nothing else is known."""
    value = {
        "text": "x",
        "state": "dead",
        "number": "1",
        "bytes": "1k",
        "span": "1s",
        "left": "1s",
        "moment": "03:12",
        "json": "v2",
    }
    for asked in FIELDS.values():
        for sign in ("=", "!=", "~", "!~", ">", ">=", "<", "<="):
            text = f"{asked.name}{sign}{value[asked.kind]}"
            if sign not in OPERATORS[asked.kind]:
                with pytest.raises(FilterError):
                    parse(text)
                continue
            for entry in (Entry("e", "waiting"), DEAD):
                assert parse(text).accepts(entry, NOW) in (True, False)
        parse(f"has:{asked.name}")


# --- the page about it ---------------------------------------------------------------------------

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "filter-language.md"
MADE = re.compile(r"(<!-- made from the code by [^\n]*-->\n).*?(<!-- end -->)", re.S)


def table() -> str:
    """The fields, what they are compared by, and with what."""
    rows = [
        *((each.name, each.kind, each.what) for each in FIELDS.values()),
        ("payload.PATH", "json", "what is there in its payload, where that is JSON"),
        ("arg.NAME", "json", "an argument of its task, by name or by position (`arg.0`)"),
    ]
    lines = [
        f"| `{name}` | {what} | {' '.join(f'`{sign}`' for sign in OPERATORS[kind])} "
        f"| {VALUE_FORMS[kind]} |"
        for name, kind, what in rows
    ]
    return "\n".join(["", "| field | what | compared by | with |", "|---|---|---|---|", *lines, ""])


def test_docs_table_of_fields_is_current() -> None:
    page = PAGE.read_text()
    made = MADE.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", page)
    if os.environ.get("REDISQ_DOCS") == "redraw":
        PAGE.write_text(made)
    assert PAGE.read_text() == made


def test_expressions_in_the_docs_are_valid() -> None:
    page = PAGE.read_text()
    texts = "".join(re.findall(r"```where\n(.*?)```", page, re.S)).splitlines()
    texts += re.findall(r"--where '([^']*)'", page)
    wrong = [text for text in texts if "eror" in text]
    assert len(texts) > 12 and len(wrong) == 1
    for text in texts:
        if text not in wrong:
            assert parse(str(parse(text))) == parse(text)
    with pytest.raises(FilterError) as caught:
        parse(wrong[0])
    assert caught.value.line in page
