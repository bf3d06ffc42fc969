"""Results that Celery 5.7 and later compresses (``result_compression``): never unpacked beyond a
bound. The codec is named in front of the data."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any

MARK = b"\0celery-compressed\0"
MOST = 1 << 24
"""bytes of a result that are unpacked"""
_CODECS: dict[bytes, Callable[[], Any]] = {
    b"application/x-gzip": lambda: zlib.decompressobj(47),  # zlib's header, or gzip's
    b"application/x-bz2": bz2.BZ2Decompressor,
    b"application/x-lzma": lambda: lzma.LZMADecompressor(memlimit=1 << 27),
}


def unpacked(data: bytes) -> tuple[bytes, str | None]:
    """The result itself; and why it can't be read, if it can't."""
    if not data.startswith(MARK):
        return data, None
    codec, _, packed = data.removeprefix(MARK).partition(b"\0")
    if codec not in _CODECS:
        called = codec[:40].decode("ascii", "backslashreplace")
        return b"", f"it is compressed as {called}, which redisq can't read"
    stream = _CODECS[codec]()
    try:
        found = stream.decompress(packed, MOST)
    except (zlib.error, OSError, EOFError, lzma.LZMAError):
        return b"", "it is compressed, and damaged"
    if stream.eof:
        return found, None
    return b"", f"it is compressed, and cut short or over {MOST >> 20} MiB"
