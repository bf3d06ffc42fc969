"""Encoded failures split into columns, thousands at once.

Errors are most of the bytes of dead letters, and nearly all are exactly what `Failure.encoded`
writes. So the quotes around their texts are searched in one buffer, without a Python object for
each row. Every byte around the texts is compared; any other encoding is left to a JSON parser.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from redisq_ops.core.model.entry import Failure

from .byte_slices import ByteRows, Bytes, Positions, text_at_all

FIELDS = ("type", "message", "traceback")
_QUOTE, _BACKSLASH, _SPACE = b'"\\ '
_DROPPED = 1
# The bytes before, between and after the three texts.
_FRAME = Failure("T", "T", "T").encoded().split(b"T")
# For each text, the number of the quote that ends it; and the number of quotes in a row.
*_CLOSING, _QUOTES = accumulate(part.count(_QUOTE) for part in _FRAME)
_ESCAPED_BYTE = np.zeros(256, np.uint8)
"""the byte that an escaped byte means; 0: none, or several (``\\u``)"""
_ESCAPED_BYTE[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')


def split_failures(
    errors: Sequence[bytes | None], names: Sequence[str] = FIELDS
) -> dict[str, pa.Array] | None:
    """The texts of each failure by name, null where the error is None.

    None if any failure is not exactly as `Failure.encoded` writes it, or has an escape that means
    several bytes. Raises `pyarrow.ArrowInvalid` if one is not UTF-8.
    """
    rows = ByteRows(errors)
    if not rows.size:
        return {name: pa.nulls(len(errors), pa.string()) for name in names}
    edges = _text_bounds(rows)
    if edges is None:
        return None
    columns = {}
    for name in names:
        texts = _unescape(rows.between(*edges[name]))
        if texts is None:
            return None
        columns[name] = rows.with_nulls(texts.cast(pa.string()))
    return columns


def _text_bounds(rows: ByteRows) -> dict[str, tuple[Positions, Positions]] | None:
    """Begin and end of each row's three texts; None if a row does not have the expected form."""
    n, raw = rows.size, rows.raw
    if (rows.last - rows.first).min() < sum(map(len, _FRAME)) or raw.min() < _SPACE:
        return None
    quotes = np.flatnonzero(raw == _QUOTE)
    escapes = _escape_positions(raw)
    if len(escapes):
        if escapes[-1] + 1 == len(raw):
            return None
        escaped = np.zeros(len(raw), np.bool_)
        escaped[escapes + 1] = True
        quotes = quotes[~escaped[quotes]]
    if len(quotes) != _QUOTES * n:
        return None
    # Column n holds the nth quote of every row. If one row has more quotes than another, positions
    # shift and the comparison with the frame below fails.
    nth = quotes.reshape(n, _QUOTES).T
    firsts = [rows.first, *(nth[c] for c in _CLOSING)]
    lasts = [*(nth[c - 1] for c in _CLOSING), rows.last - 1]
    for part, first, last in zip(_FRAME, firsts, lasts, strict=True):
        if not np.array_equal(first + (len(part) - 1), last) or not text_at_all(part, raw, first):
            return None
    return {name: (nth[c - 1] + 1, nth[c]) for name, c in zip(FIELDS, _CLOSING, strict=True)}


def _escape_positions(raw: Bytes) -> Positions:
    """Where escapes begin: in a run of backslashes, every other one from the first."""
    slashes = np.flatnonzero(raw == _BACKSLASH)
    behind = np.diff(slashes) == 1
    if not behind.any():
        return slashes
    nth = np.arange(len(slashes))
    first = np.maximum.accumulate(np.where(np.append(False, behind), 0, nth))
    begins: Positions = slashes[(nth - first) % 2 == 0]
    return begins


def _unescape(texts: pa.Array) -> pa.Array | None:
    """Texts without their escapes; None if an escape means several bytes."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[: len(texts) + 1]
    raw = np.frombuffer(data, np.uint8)[: bounds[-1]]
    escapes = _escape_positions(raw)
    if not len(escapes):
        return texts
    unescaped = _ESCAPED_BYTE[raw[escapes + 1]]
    if not unescaped.all():
        return None
    plain = raw.copy()
    plain[escapes], plain[escapes + 1] = _DROPPED, unescaped
    kept = pa.py_buffer(plain.tobytes().translate(None, bytes([_DROPPED])))
    shorter = (bounds - np.searchsorted(escapes, bounds)).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(shorter), kept])
