"""Takes off the encodings around a payload: gzip, zlib, base64, msgpack and pickle.

Reads at most `LEVELS` encodings and `MOST` bytes of each. A pickle is disassembled, never loaded.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

MOST: Final = 1024 * 1024
"""bytes that are decoded; redisq's own queues accept no larger payload"""
LEVELS: Final = 3
_NAME: Final = 200
"""characters of the longest text in a pickle that may be the name of a key"""
_BASE64 = re.compile(rb"\s*[A-Za-z0-9+/_-]{16}[A-Za-z0-9+/_\r\n-]*={0,2}\s*")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_OLD: Final = tuple(bytes([byte]) for byte in b"(]}cSVUX")
"""how a pickle of protocol 0 or 1 may begin"""
_STANDARD = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class Decoded:
    """What was inside of one encoding."""

    encoding: str
    content: bytes
    """more than `MOST` bytes: only the beginning"""
    reading: str = ""
    """how the content was made, if it isn't in the payload as it is: ``disassembled``"""
    names: tuple[str, ...] = ()
    """the short texts in a pickle: a hidden key may be among them"""


def decoded(payload: bytes) -> list[Decoded]:
    """The encodings around a payload, the outermost first; empty: it has none that is known."""
    found: list[Decoded] = []
    while len(found) < LEVELS and 1 < len(payload) <= MOST:
        inner = next(filter(None, (decode(payload) for decode in _DECODERS)), None)
        if inner is None:
            break
        found.append(inner)
        if inner.reading:
            break
        payload = inner.content
    # base64 of arbitrary bytes may as well be a word.
    if found and found[-1].encoding == "base64" and not is_text(found[-1].content):
        found.pop()
    return found


def too_large(payload: bytes) -> bool:
    """Whether a payload may be encoded, and is too large to be decoded."""
    encoded = len(payload) > MOST and (_BASE64.fullmatch(payload) or not is_text(payload))
    return bool(encoded)


def is_text(content: bytes) -> bool:
    """Whether it is UTF-8 without control characters other than tabs and ends of lines."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None


def base64_bytes(text: str) -> bytes | None:
    """The bytes of base64 in either alphabet, with or without padding; None: it is none."""
    text = re.sub(r"\s", "", text).rstrip("=").translate(_STANDARD)
    try:
        # The end may be missing, as of a text that was cut.
        whole = text[: len(text) // 4 * 4 + (0 if len(text) % 4 == 1 else 4)]
        return base64.b64decode(whole + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None


def _from_gzip(payload: bytes) -> Decoded | None:
    if not payload.startswith(b"\x1f\x8b"):
        return None
    from gzip import GzipFile

    try:
        return Decoded("gzip", GzipFile(fileobj=BytesIO(payload)).read(MOST + 1))
    except (OSError, EOFError, zlib.error):
        return None


def _from_zlib(payload: bytes) -> Decoded | None:
    if payload[0] != 0x78 or int.from_bytes(payload[:2], "big") % 31:
        return None
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(payload, MOST + 1)
    except zlib.error:
        return None
    whole = stream.eof and not stream.unused_data
    return Decoded("zlib", content) if whole or len(content) > MOST else None


def _from_base64(payload: bytes) -> Decoded | None:
    if _BASE64.fullmatch(payload) is None:
        return None
    content = base64_bytes(payload.decode())
    return Decoded("base64", content) if content else None


def _from_pickle(payload: bytes) -> Decoded | None:
    """Of protocols 0 and 1 only one that keeps an object for later, as all do that hold a map, a
    list or a text: others can't be told from text."""
    old = payload[0] != 0x80
    if payload[-1:] != b"." or (payload[:1] not in _OLD if old else not 2 <= payload[1] <= 5):
        return None
    import pickletools

    lines, names, room = list[str](), list[str](), MOST
    try:
        for opcode, value, at in pickletools.genops(payload):
            old = old and opcode.name not in ("PUT", "BINPUT")
            if isinstance(value, (str, bytes)) and len(value) <= _NAME:
                names.append(value if isinstance(value, str) else value.decode("latin-1"))
            shown = "" if value is None else f" {value!r}"
            lines.append(f"{at:>6}: {opcode.name}{shown}")
            room -= len(lines[-1])
            if room < 0:
                break
    except (ValueError, OverflowError, IndexError):
        return None
    if old:
        return None
    text = "\n".join(lines).encode("utf-8", "backslashreplace")
    return Decoded("pickle", text, "disassembled, never loaded", tuple(names))


def like_msgpack(payload: bytes) -> bool:
    """Whether it begins as a map or list in msgpack; other values can't be told from any bytes."""
    first = payload[:1]
    begins = b"\x80" <= first <= b"\x9f" or b"\xdc" <= first <= b"\xdf"
    return begins and not is_text(payload)


def _from_msgpack(payload: bytes) -> Decoded | None:
    """One map or list. Needs ``redisq-ops[msgpack]``."""
    if not like_msgpack(payload):
        return None
    try:
        import msgpack
    except ImportError:
        return None
    try:
        value = msgpack.unpackb(
            payload,
            strict_map_key=False,
            unicode_errors="backslashreplace",
            object_pairs_hook=_with_names,
        )
        text = json.dumps(value, default=_plain, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        return None
    return Decoded("msgpack", text.encode("utf-8", "backslashreplace"), "shown as JSON")


def _with_names(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """A map whose keys may be of any type."""
    return {key if isinstance(key, str) else _plain(key): value for key, value in pairs}


def _plain(value: Any) -> str:
    """A value that JSON doesn't have: bytes, a time, a program's own type."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


_DECODERS: tuple[Callable[[bytes], Decoded | None], ...] = (
    _from_gzip,
    _from_zlib,
    _from_pickle,
    _from_msgpack,
    _from_base64,
)
