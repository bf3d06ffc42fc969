"""Placeholders for elements that are too long to keep: the beginning, length and hash of each.

Replies have them in place of long elements where a read asks for it (`Call.cut`). A placeholder is
never written to a server.
"""

from __future__ import annotations

from hashlib import sha1
from secrets import token_bytes

from .quoting import text

LARGEST = 1 << 24
"""a longer record is never read: in memory it takes several times its bytes"""
HEAD = 1024
"""first bytes that are kept of a cut element: sorted sets order equal scores by them"""
UNREAD = "*"
"""prefix of the name that replaces the id of an unread entry; no id begins with it"""
_END = b"\0cut by redisq " + token_bytes(8)
"""the end of every placeholder; random, so nobody can store an element that looks like one"""
_TAIL = 20 + 40 + len(_END)


def placeholder(head: bytes, length: int, sha: str) -> bytes:
    """The placeholder for an element of ``length`` bytes: ``head``, the length, SHA-1 in hex."""
    return head + b"%020d" % length + sha.encode() + _END


def is_cut(element: bytes) -> bool:
    """Whether this is a placeholder, not a whole element."""
    return element.endswith(_END)


def length(element: bytes) -> int:
    """Bytes of an element on the server; for a placeholder those of the whole element."""
    return int(element[-_TAIL : 20 - _TAIL]) if is_cut(element) else len(element)


def digest(element: bytes) -> str:
    """The SHA-1 (hex) of an element; for a placeholder that of the whole element."""
    if is_cut(element):
        return element[20 - _TAIL : -len(_END)].decode()
    return sha1(element).hexdigest()


def unread_name(element: bytes) -> str:
    """The name to show for an element that is too long to be a name."""
    return UNREAD + digest(element)[:16]


def name(element: bytes) -> str:
    """A name as text (see `quoting.text`)."""
    return unread_name(element) if is_cut(element) else text(element)
