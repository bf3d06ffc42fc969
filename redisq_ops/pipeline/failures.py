"""Encoded failures as columns, thousands of them at once.

Errors are most of the bytes of dead letters, and nearly all of them are exactly what
`Failure.encoded` writes. So no object is made for a row: the quotes at which its texts begin and
end are looked for in the bytes of all rows, and the texts are cut out there. Every byte around the
texts is compared; what is written in any other way isn't guessed at but left to a reader of JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from redisq_ops.core.model.entry import Failure

from .byte_slices import Bytes, Places, Rows, stands

FIELDS = ("type", "message", "traceback")
_QUOTE, _BACKSLASH, _SPACE = b'"\\ '
_GONE = 1
# What stands before, between and behind the three texts.
_FRAME = Failure("T", "T", "T").encoded().split(b"T")
# Of a row's quotes the one behind which each text ends, and how many there are.
*_CLOSING, _QUOTES = accumulate(part.count(_QUOTE) for part in _FRAME)
_MEANT = np.zeros(256, np.uint8)
"""the byte that one behind a backslash stands for; 0: not one byte (``\\u``), or none"""
_MEANT[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')


def cut(
    errors: Sequence[bytes | None], names: Sequence[str] = FIELDS
) -> dict[str, pa.Array] | None:
    """These texts of each, null where there is no error. None: one of them isn't as
    `Failure.encoded` writes it, or has an escape that stands for more than a byte.

    Raises `pyarrow.ArrowInvalid` where one isn't UTF-8.
    """
    rows = Rows(errors)
    if not rows.size:
        return {name: pa.nulls(len(errors), pa.string()) for name in names}
    edges = _edges(rows)
    if edges is None:
        return None
    columns = {}
    for name in names:
        texts = _meant(rows.between(*edges[name]))
        if texts is None:
            return None
        columns[name] = rows.back(texts.cast(pa.string()))
    return columns


def _edges(rows: Rows) -> dict[str, tuple[Places, Places]] | None:
    """Where each row's three texts begin and end."""
    n, raw = rows.size, rows.raw
    if (rows.last - rows.first).min() < sum(map(len, _FRAME)) or raw.min() < _SPACE:
        return None
    quotes = np.flatnonzero(raw == _QUOTE)
    escapes = _escapes(raw)
    if len(escapes):
        if escapes[-1] + 1 == len(raw):
            return None
        escaped = np.zeros(len(raw), np.bool_)
        escaped[escapes + 1] = True
        quotes = quotes[~escaped[quotes]]
    if len(quotes) != _QUOTES * n:
        return None
    # The nth quotes of all rows. Where one row has more of them than another the places of the
    # rows between are shifted, and then what stands there isn't the frame.
    nth = quotes.reshape(n, _QUOTES).T
    firsts = [rows.first, *(nth[c] for c in _CLOSING)]
    lasts = [*(nth[c - 1] for c in _CLOSING), rows.last - 1]
    for part, first, last in zip(_FRAME, firsts, lasts, strict=True):
        if not np.array_equal(first + (len(part) - 1), last) or not stands(part, raw, first):
            return None
    return {name: (nth[c - 1] + 1, nth[c]) for name, c in zip(FIELDS, _CLOSING, strict=True)}


def _escapes(raw: Bytes) -> Places:
    """Where escapes begin: every other backslash of a row of them, from its first."""
    slashes = np.flatnonzero(raw == _BACKSLASH)
    behind = np.diff(slashes) == 1
    if not behind.any():
        return slashes
    nth = np.arange(len(slashes))
    first = np.maximum.accumulate(np.where(np.append(False, behind), 0, nth))
    begins: Places = slashes[(nth - first) % 2 == 0]
    return begins


def _meant(texts: pa.Array) -> pa.Array | None:
    """Texts without their escapes."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[: len(texts) + 1]
    raw = np.frombuffer(data, np.uint8)[: bounds[-1]]
    escapes = _escapes(raw)
    if not len(escapes):
        return texts
    meant = _MEANT[raw[escapes + 1]]
    if not meant.all():
        return None
    plain = raw.copy()
    plain[escapes], plain[escapes + 1] = _GONE, meant
    kept = pa.py_buffer(plain.tobytes().translate(None, bytes([_GONE])))
    shorter = (bounds - np.searchsorted(escapes, bounds)).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(shorter), kept])
