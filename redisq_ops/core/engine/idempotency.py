"""Caller slots: what makes a call safe to send twice.

A slot is a name and a rising number. The queue keeps each slot's last number with its reply; the
same call sent again (a reply was lost, the client re-sent it) gets that reply and changes nothing.
One slot serves one call at a time, so concurrent threads and tasks borrow different ones.
"""

from __future__ import annotations

import os
import secrets
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CallerSlots:
    """A pool of slots; borrowing is safe from several threads."""

    def __init__(self, token: Callable[[], str] = lambda: secrets.token_hex(6)) -> None:
        self._token = token
        self._free: defaultdict[str, deque[tuple[str, int]]] = defaultdict(deque)
        self._pid = os.getpid()

    @contextmanager
    def borrow(self, step: str) -> Iterator[tuple[str, int]]:
        """A slot's name and its next number, ours until the block ends."""
        if self._pid != os.getpid():  # a fork: the parent's slots stay the parent's
            self._pid = os.getpid()
            self._free.clear()
        free = self._free[step]
        try:
            name, last = free.pop()  # the newest first, so that few slots are ever in use
        except IndexError:
            name, last = f"{self._token()}:{step}", 0
        try:
            yield name, last + 1
        finally:
            free.append((name, last + 1))
