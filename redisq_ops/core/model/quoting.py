"""Other programs' names as names of ours, and back: any bytes, percent-quoted where need be."""

from __future__ import annotations

from urllib.parse import quote_from_bytes, unquote_to_bytes

_LEGAL = "".join(map(chr, range(0x21, 0x7F))).translate(dict.fromkeys(map(ord, "{}*|/%")))


def legal(raw: bytes) -> str:
    """A legal name or id that `raw_of` turns back: ``{a} b`` is ``%7Ba%7D%20b``. May be long."""
    return quote_from_bytes(raw, safe=_LEGAL)


def raw_of(name: str) -> bytes:
    """The bytes behind a name made by `legal`; any other name is itself."""
    return unquote_to_bytes(name.encode("utf-8", "surrogateescape"))


def text(raw: bytes) -> str:
    """Bytes as text that `bytes_of` turns back, also where they are no UTF-8."""
    return raw.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """What `text` was made of."""
    return text.encode("utf-8", "surrogateescape")
