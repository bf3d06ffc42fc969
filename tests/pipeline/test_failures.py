"""Errors of dead letters as columns, cut out of their bytes, and the groups of many at once."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from redisq_ops.core.engine.state_scan import ColumnPage
from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.ops.groups import fingerprint
from redisq_ops.pipeline import decode, failures
from redisq_ops.pipeline.batch import RowOrigin
from redisq_ops.pipeline.schemas import arrow
from redisq_ops.pipeline.tables import TABLES

# --- errors by their bytes ---------------------------------------------------------------------

TEXT = "abc é ü \U0001f600 \x9b \ud7ff"
ESCAPED = '"\\/\b\f\n\r\t'
OTHERS = [
    b"", b"{", b"null", b"plain", b'{"type": "T"}', b'{"type": "T", "message": "m"}',
    b'{"type": "T", "message": "m", "traceback": "t"} ',
    b' {"type": "T", "message": "m", "traceback": "t"}',
    b'{"type":"T", "message": "m", "traceback": "t"}',
    b'{"type": "T", "traceback": "t", "message": "m"}',
    b'{"type": "T", "message": "m", "message": "n", "traceback": "t"}',
    b'{"type": "T", "message": "m", "traceback": "t", "more": "x"}',
    b'{"tipe": "T", "message": "m", "traceback": "t"}',
    b'{"type": "T", "massage": "m", "traceback": "t"}',
    b'{"type": "T", "message": "m", "tracebock": "t"}',
    b'{"type": "T", "message": "m", "traceback": "t"]',
    b'["type": "T", "message": "m", "traceback": "t"}',
    b'{"type": "T", "message": "m\tm", "traceback": "t"}',
    b'{"type": "T", "message": "m", "traceback": "\\x"}',
    b'{"type": "T", "message": "m", "traceback": "t\\"}',
    b'{"type": "T", "message": "m", "traceback": "t"}\\',
    b'{"type": "T", "message": 5, "traceback": "t"}',
    b'{"type": "T", "message": "m"}, "traceback": "t"}',
    b'", "message": "', b'{"type": "T", "message": "m", "traceback": "t"}' * 2,
]  # fmt: skip


def encoded(chance: random.Random) -> bytes:
    """An error as the core writes it, or as a program that doesn't escape what it needn't."""
    alphabet = TEXT + ESCAPED * 3
    texts = ["".join(chance.choices(alphabet, k=chance.randrange(12))) for _ in range(3)]
    if chance.random() < 0.3:
        return Failure(*texts).encoded()
    keys = ("type", "message", "traceback")
    return json.dumps(dict(zip(keys, texts, strict=True)), ensure_ascii=False).encode()


@pytest.mark.parametrize("seed", range(3))
def test_texts_are_cut_out_exactly_or_not_at_all(seed: int) -> None:
    chance = random.Random(seed)
    cut = 0
    for _ in range(1000):
        errors = [
            None if chance.random() < 0.1 else encoded(chance)
            for _ in range(chance.randrange(1, 6))
        ]
        found = failures.cut(errors)
        if found is None:
            assert any(error and b"\\u" in error for error in errors)
            continue
        cut += 1
        for nth, error in enumerate(errors):
            told = {name: found[name][nth].as_py() for name in failures.FIELDS}
            expected = dict.fromkeys(failures.FIELDS) if error is None else json.loads(error)
            assert told == expected, error
    assert cut > 300


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_written_otherwise_is_not_guessed_at(other: bytes) -> None:
    plain = Failure("T", "m", "t").encoded()
    for errors in ([other], [plain, other], [other, plain], [plain, other, plain]):
        assert failures.cut(errors) is None


def test_two_wrong_errors_that_look_right_together_are_not_cut() -> None:
    """One has too many quotes and the other too few."""
    for quotes in range(12):
        one = b'{"type": "T", "message": "m", "traceback": "t%s"}' % (b'"' * quotes)
        two = b"{%s}" % (b'"' * (12 - quotes)) + b" " * 40
        assert failures.cut([one, two]) is None
        assert failures.cut([two, one]) is None


def test_errors_with_letters_of_any_alphabet_are_still_read_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode, "_one_by_one", lambda *_: pytest.fail("read one by one"))
    texts = ["nö", "\U0001f600 дом", 'a "b"\\\n']
    errors = [Failure("É", text, text).encoded() for text in texts]
    columns = decode._failed([*errors, None], with_traceback=True)
    assert columns["error"].to_pylist() == [*texts, None]
    assert columns["traceback"].to_pylist() == [*texts, None]
    assert columns["error_type"].to_pylist() == ["É"] * 3 + [None]


# --- the same errors ---------------------------------------------------------------------------


def test_errors_that_are_the_same_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = fingerprint.told

    def counted(*said: Any) -> str:
        asked.append(said)
        return real(*said)

    monkeypatch.setattr(fingerprint, "told", counted)
    some = [Failure("T", "no such customer: 7"), Failure("T", "time-out"), None]
    told = [some[n % 3] for n in range(3000)]
    lines: list[bytes | None] = [b"- 1 0 100 200 w1 - lost 0"] * 3000
    page = ColumnPage(
        [b"e%d" % n for n in range(3000)], [1000.0] * 3000, None, 0, lines,
        [None if error is None else error.encoded() for error in told],
    )  # fmt: skip
    schema = arrow(TABLES["dead"], ("id", "fingerprint"))
    found = decode.sheet(page, RowOrigin("q", "delay", 0, False), "dead", schema)
    assert len(asked) == 3 and len(set(found["fingerprint"].to_pylist())) == 3
    assert found["fingerprint"].to_pylist()[:3] == [
        fingerprint.fingerprint(Entry("e", "dead", error=error, reason="lost")) for error in some
    ]
