"""The digest of a submission's content, which makes submitting a request idempotent.

A producer may submit a request again after a crash: the digest of the content that is stored says
whether it is the same request, and where to continue.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


class Digest:
    """The running digest: priority and limit, then each payload in order.

    It depends on where each payload ends, and not on how payloads were cut into chunks.
    """

    def __init__(self, priority: int, limit: int) -> None:
        self._hash = blake2b(f"{priority} {limit}".encode(), digest_size=16)

    def add(self, payload: bytes) -> None:
        self._hash.update(b"%d:" % len(payload))
        self._hash.update(payload)

    def extend(self, payloads: Iterable[bytes]) -> None:
        """`add` for each, in one go."""
        self._hash.update(b"".join([b"%d:%b" % (len(payload), payload) for payload in payloads]))

    def __str__(self) -> str:
        return self._hash.hexdigest()
