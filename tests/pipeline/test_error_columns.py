"""Errors of dead letters as columns, and fingerprints of many errors at once."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from redisq_ops.core.engine.state_scan import ColumnPage
from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.ops.groups import fingerprint
from redisq_ops.pipeline.source import entry_decoder
from redisq_ops.pipeline.source.arrow_batch import RowOrigin
from redisq_ops.pipeline.source.schemas import arrow
from redisq_ops.pipeline.source.tables import TABLES

# --- errors by their JSON ----------------------------------------------------------------------

TEXT = "abc é ü \U0001f600 \x9b \ud7ff"
ESCAPED = '"\\/\b\f\n\r\t'
OTHERS = [
    b"",
    b"{",
    b"null",
    b"plain",
    b'{"type": "T"}',
    b'{"type": "T", "message": "m"}',
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
    b'", "message": "',
    b'{"type": "T", "message": "m", "traceback": "t"}' * 2,
]


def encoded(chance: random.Random) -> bytes:
    """An error as the core writes it, or as a program that doesn't escape what it needn't."""
    alphabet = TEXT + ESCAPED * 3
    texts = ["".join(chance.choices(alphabet, k=chance.randrange(12))) for _ in range(3)]
    if chance.random() < 0.3:
        return Failure(*texts).encoded()
    keys = ("type", "message", "traceback")
    return json.dumps(dict(zip(keys, texts, strict=True)), ensure_ascii=False).encode()


NAMES = {"type": "error_type", "message": "error", "traceback": "traceback"}


def texts(error: bytes | None) -> tuple[str | None, ...] | None:
    """Type, message and traceback of one error by itself; None: it isn't as the core writes it."""
    if error is None:
        return (None,) * 3
    try:
        found = json.loads(error)
        row = tuple(found[name] for name in NAMES)
    except (ValueError, KeyError, TypeError):
        return None
    return row if all(isinstance(each, str) for each in row) else None


def check_columns(errors: list[bytes | None]) -> None:
    """The columns of many errors are those of each one, or all are left to a slower parser."""
    expected = [texts(error) for error in errors]
    if None in expected:
        with pytest.raises((ValueError, pa.ArrowException)):
            entry_decoder._error_columns(errors, with_traceback=True)
        return
    columns = entry_decoder._error_columns(errors, with_traceback=True)
    found = zip(*(columns[name].to_pylist() for name in NAMES.values()), strict=True)
    assert [*found] == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_errors_are_columns_of_their_texts(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(1000):
        n = chance.randrange(1, 6)
        check_columns([None if chance.random() < 0.1 else encoded(chance) for _ in range(n)])


@pytest.mark.parametrize("other", OTHERS)
def test_another_encoding_is_parsed_as_if_it_were_alone(other: bytes) -> None:
    plain = Failure("T", "m", "t").encoded()
    for errors in ([other], [plain, other], [other, plain], [plain, other, plain]):
        check_columns([*errors])


def test_two_invalid_errors_that_look_valid_together_are_no_columns() -> None:
    """One has too many quotes and the other too few."""
    for quotes in range(12):
        one = b'{"type": "T", "message": "m", "traceback": "t%s"}' % (b'"' * quotes)
        two = b"{%s}" % (b'"' * (12 - quotes)) + b" " * 40
        check_columns([one, two])
        check_columns([two, one])


def test_non_ascii_errors_are_decoded_as_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry_decoder, "_decode_rows", lambda *_: pytest.fail("read one by one"))
    texts = ["nö", "\U0001f600 дом", 'a "b"\\\n']
    errors = [Failure("É", text, text).encoded() for text in texts]
    columns = entry_decoder._error_columns([*errors, None], with_traceback=True)
    assert columns["error"].to_pylist() == [*texts, None]
    assert columns["traceback"].to_pylist() == [*texts, None]
    assert columns["error_type"].to_pylist() == ["É"] * 3 + [None]


# --- the same errors ---------------------------------------------------------------------------


def test_equal_errors_are_fingerprinted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    real = fingerprint.error_fingerprint

    def counted(*arguments: Any) -> str:
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(fingerprint, "error_fingerprint", counted)
    samples = [Failure("T", "no such customer: 7"), Failure("T", "time-out"), None]
    errors = [samples[n % 3] for n in range(3000)]
    lines: list[bytes | None] = [b"- 1 0 100 200 w1 - lost 0"] * 3000
    page = ColumnPage(
        [b"e%d" % n for n in range(3000)],
        [1000.0] * 3000,
        None,
        0,
        lines,
        [None if error is None else error.encoded() for error in errors],
    )
    schema = arrow(TABLES["dead"], ("id", "fingerprint"))
    found = entry_decoder.decode_page(page, RowOrigin("q", "delay", 0, False), "dead", schema)
    assert len(calls) == 3 and len(set(found["fingerprint"].to_pylist())) == 3
    assert found["fingerprint"].to_pylist()[:3] == [
        fingerprint.fingerprint(Entry("e", "dead", error=error, reason="lost")) for error in samples
    ]
