"""Names for elements that a foreign producer pushed and that can't be ids.

`batch.lua` makes the same names: such an element is a dead letter, and its bytes are the payload.
"""

from __future__ import annotations

import hashlib
import re

_SHOWN = re.compile(rb"[^A-Za-z0-9._-]")


def name_of(raw: bytes) -> str:
    """The element's id: its own text if that is a legal id."""
    if re.fullmatch(rb"[!-~]{1,128}", raw) and not re.search(rb"[{}*|/]", raw):
        return raw.decode()
    shown = _SHOWN.sub(lambda c: b"%%%02X" % c.group()[0], raw[:64])[:80].decode()
    return f"invalid:{shown}:{hashlib.sha1(raw).hexdigest()[:16]}"
