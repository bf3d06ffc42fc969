"""Converts names of other programs (any bytes) to names of ours and back, by percent-quoting."""

from __future__ import annotations

from urllib.parse import quote_from_bytes, unquote_to_bytes

_LEGAL = "".join(map(chr, range(0x21, 0x7F))).translate(dict.fromkeys(map(ord, "{}*|/%")))


def legal(raw: bytes) -> str:
    """A legal name that `raw_of` converts back: ``{a} b`` is ``%7Ba%7D%20b``. It may be long."""
    return quote_from_bytes(raw, safe=_LEGAL)


def raw_of(name: str) -> bytes:
    """The bytes that `legal` made a name of; the bytes of any other name."""
    return unquote_to_bytes(name.encode("utf-8", "surrogateescape"))


def text(raw: bytes) -> str:
    """Bytes as text that `bytes_of` converts back, also where they aren't UTF-8."""
    return raw.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The bytes that `text` was made of."""
    return text.encode("utf-8", "surrogateescape")
