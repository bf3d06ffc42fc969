"""Elements that are too long to be kept: what stands for one, with its beginning, length and hash.

Replies have these in place of long elements where a read asks for it (`Call.cut`). None is ever
written anywhere.
"""

from __future__ import annotations

from hashlib import sha1
from secrets import token_bytes

from .quoting import text

LARGEST = 1 << 24
"""a longer record is never read: in memory it takes several times its bytes"""
HEAD = 1024
"""bytes kept of an element that is cut: sorted sets order equal scores by them"""
UNREAD = "*"
"""prefix of what an unread entry has in place of an id; no id begins with it"""
_END = b"\0cut by redisq " + token_bytes(8)
"""ends an element that was cut; nobody else can write what is taken for one"""
_TAIL = 20 + 40 + len(_END)


def placeholder(head: bytes, length: int, sha: str) -> bytes:
    """What stands for an element: its beginning, how many bytes it has, and its SHA-1 in hex."""
    return head + b"%020d" % length + sha.encode() + _END


def is_cut(element: bytes) -> bool:
    """Whether only the beginning of an element is here."""
    return element.endswith(_END)


def length(element: bytes) -> int:
    """Bytes of an element on the server; of one that was cut, those of the whole."""
    return int(element[-_TAIL : 20 - _TAIL]) if is_cut(element) else len(element)


def digest(element: bytes) -> str:
    """The SHA-1 of an element, of the whole of it where it was cut."""
    if is_cut(element):
        return element[20 - _TAIL : -len(_END)].decode()
    return sha1(element).hexdigest()


def unread_name(element: bytes) -> str:
    """What stands for an element that is too long to be a name here."""
    return UNREAD + digest(element)[:16]


def name(element: bytes) -> str:
    """A name as text (see `quoting.text`)."""
    return unread_name(element) if is_cut(element) else text(element)
