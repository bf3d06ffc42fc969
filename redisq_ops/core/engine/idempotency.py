"""Caller slots: they make a call safe to send twice.

A slot is a name and a rising number. The queue stores each slot's last number and reply. The same
call sent again, because its reply was lost, gets that reply and changes nothing. A slot serves one
call at a time, so concurrent threads and tasks borrow different ones.
"""

from __future__ import annotations

import os
import secrets
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CallerSlots:
    """A pool of caller slots; safe to use from several threads."""

    def __init__(self, token: Callable[[], str] = lambda: secrets.token_hex(6)) -> None:
        self._token = token
        self._free: defaultdict[str, deque[tuple[str, int]]] = defaultdict(deque)
        self._pid = os.getpid()

    @contextmanager
    def borrow(self, step: str) -> Iterator[tuple[str, int]]:
        """Borrow a slot for one call of ``step``: its name and its next number."""
        if self._pid != os.getpid():  # after a fork: the slots belong to the parent
            self._pid = os.getpid()
            self._free.clear()
        free = self._free[step]
        try:
            name, last = free.pop()  # the latest one, so that few slots are in use
        except IndexError:
            name, last = f"{self._token()}:{step}", 0
        try:
            yield name, last + 1
        finally:
            free.append((name, last + 1))
