"""What a payload holds, as people see it: decoded, redacted, and told what was done."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal

from redisq_ops.core.model.attachment import Attachment

from .encodings import MOST, Decoded, decoded
from .json_numbers import JsonNumber
from .redaction import MASK, NO_REDACTION, Redaction
from .terminal import printable, size

BEGINNING: Final = 64 * 1024
"""bytes shown of a payload, or of decoded content, of more than `MOST`"""


@dataclass(frozen=True, slots=True, eq=False)
class PayloadContent:
    """The content inside of a payload's encodings, redacted."""

    what: str
    """``340 B, JSON``; if it was decoded, how: ``gzip, 340 B → 2.1 KiB, JSON``"""
    format: Literal["empty", "JSON", "text", "binary"]
    content: bytes
    """at most `MOST` bytes, or the first `BEGINNING` of more"""
    document: Any = None
    """the value of JSON; numbers are `JsonNumber`"""
    was_encoded: bool = False
    redaction: Redaction = NO_REDACTION
    """what was hidden"""


@lru_cache(2)  # every refresh reads the same again
def payload_content(payload: bytes, redaction: Redaction = NO_REDACTION) -> PayloadContent:
    """Decode a payload and apply redaction; what is larger than `MOST` is then hidden whole."""
    return _content(payload, redaction)


@lru_cache(64)
def text_content(text: str, redaction: Redaction) -> PayloadContent | None:
    """The content of a text within a document if it is encoded, in base64 for example."""
    try:
        found = _content(text.encode(), redaction)
    except UnicodeEncodeError:
        return None
    return found if found.was_encoded else None


def _content(payload: bytes, redaction: Redaction) -> PayloadContent:
    layers = decoded(payload)
    if layers:
        content = redaction.decoded(layers[-1])
    elif redaction and len(payload) > MOST:
        content = MASK.encode()
    else:
        content = redaction.payload(payload)
    whole = len(content) <= MOST
    shown = content if whole else content[:BEGINNING]
    format, document = _format(shown, whole)
    cut = "" if whole else f", the first {size(BEGINNING)}"
    how = format if not (layers and layers[-1].reading) else layers[-1].reading
    what = f"{_sizes(payload, layers)}, {how}{cut}" if payload else "empty"
    return PayloadContent(what, format, shown, document, bool(layers), redaction)


@lru_cache(16)
def attachment_content(
    attachment: Attachment, redaction: Redaction = NO_REDACTION
) -> PayloadContent:
    """Decode and redact an attachment; ``what`` also says what is left out."""
    content, left_out = payload_content(attachment.content, redaction), attachment.left_out
    if left_out is None:
        return content
    what = f"{content.what}, without {left_out}" if attachment.content else left_out
    return replace(content, what=printable(what))


def _sizes(payload: bytes, layers: list[Decoded]) -> str:
    sizes, stored = size(len(payload)), [layer for layer in layers if not layer.reading]
    if stored:
        last = len(stored[-1].content)
        sizes += f" → {size(last) if last <= MOST else f'more than {size(MOST)}'}"
    return ", ".join([*(layer.encoding for layer in layers), sizes])


def _format(content: bytes, whole: bool) -> tuple[Literal["empty", "JSON", "text", "binary"], Any]:
    if not content:
        return "empty", None
    if _binary(content):
        return "binary", None
    if whole:
        try:
            return "JSON", json.loads(
                content.decode(),
                parse_int=JsonNumber,
                parse_float=JsonNumber,
                parse_constant=_no_constant,
            )
        except (ValueError, RecursionError):
            pass
    return "text", None


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")  # nor is it for a filter


def _binary(payload: bytes) -> bool:
    """As `file` and Perl's ``-B`` decide: it has a zero byte, or almost a third is not text."""
    if b"\0" in payload:
        return True
    text = payload[:1024].decode("utf-8", "replace")
    strange = sum(char == "\ufffd" or (char < " " and char not in "\t\n\r\x1b") for char in text)
    return strange > 0.3 * len(text)
