"""Cuts elements of replies that are too long to keep, as they arrive.

The server can't send a part of a list's or a sorted set's element, and doesn't tell how long it is.
Where a round's calls ask for it (`Call.cut`), `CuttingReader` passes on only the beginning of an
element of more than `LARGEST` bytes, with its length and its hash: it is received, but never in
memory as a whole. Other replies stay whole, because callers may write their elements elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from hashlib import sha1
from typing import Any

from hiredis import PushNotification
from redis._parsers.hiredis import NOT_ENOUGH_DATA, _AsyncHiredisParser, _HiredisParser

from ..model.cut_element import HEAD, LARGEST, placeholder

_STRING = ord("$")
_UNCHECKED = 1 << 20
"""bytes that are passed on before their lines are read"""
_LONG_LINE = 1 << 16
"""bytes of a line without an end that are kept for the next feed, which copies them"""
NONE_ARRIVED = NOT_ENOUGH_DATA
"""what is returned in place of a reply"""

_round: ContextVar[object | None] = ContextVar("round", default=None)
"""a new object for each round whose replies are cut; None: replies stay whole"""


@contextmanager
def cutting() -> Iterator[None]:
    """Cut elements that are too long in the replies to one round."""
    token = _round.set(object())
    try:
        yield
    finally:
        _round.reset(token)


@cache
def _header(longest: int) -> re.Pattern[bytes]:
    """How the line before an element of more bytes begins; other bytes may look like that."""
    return re.compile(rb"\$\d{%d}" % len(str(longest)))


class _Element:
    """An element that is being cut."""

    def __init__(self, length: int) -> None:
        self._length = self._room = length
        self._head = b""
        self._hash = sha1()

    def add(self, part: bytes) -> None:
        part = part[: self._room]  # behind the element the line ends
        self._room -= len(part)
        self._head += part[: HEAD - len(self._head)]
        self._hash.update(part)

    def reply(self) -> bytes:
        """The element's placeholder in the reply."""
        cut = placeholder(self._head, self._length, self._hash.hexdigest())
        return b"$%d\r\n%s\r\n" % (len(cut), cut)


class CuttingReader:
    """hiredis's reader of replies, which gets long elements cut while `cutting`."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.gets = reader.gets
        self.has_data = reader.has_data
        self._begin(None)

    def _begin(self, round: object | None) -> None:
        # What is left of an earlier message would be taken for the beginning of a reply.
        self._whole = round is None or self._reader.has_data()
        self._round = round
        self._ahead = bytearray()
        """lines that were passed on as they came, because no long element can begin in them"""
        self._line = b""
        """the beginning of a line whose end has not arrived yet"""
        self._left = 0
        """before ``_ahead``: bytes of an element and its line's end that had not arrived"""
        self._long: _Element | None = None

    def feed(self, data: Any, start: int = 0, size: int = -1) -> None:
        round = _round.get()
        if round is not self._round:
            self._begin(round)
        if size < 0:
            size = len(data) - start
        if self._whole:
            self._reader.feed(data, start, size)
            return
        chunk = self._line + bytes(memoryview(data)[start : start + size])
        if (
            self._left
            or len(self._line) > _LONG_LINE
            or len(self._ahead) + len(chunk) > _UNCHECKED
            or _header(LARGEST).search(chunk)
        ):
            for _ in self._kept(bytes(self._ahead)):
                pass  # it was passed on before: where it ends matters
            self._ahead.clear()
            kept = b"".join(self._kept(chunk))
        else:  # to read each line would take longer than to parse the reply
            end = chunk.rfind(b"\n") + 1
            kept, self._line = chunk[:end], chunk[end:]
            self._ahead += kept
        if kept:
            self._reader.feed(kept)

    def _kept(self, chunk: bytes) -> Iterator[bytes]:
        """The parts to pass on. Replies are lines; an element follows a line ``$LENGTH``."""
        self._line = b""
        begin, at, size = 0, 0, len(chunk)  # chunk[begin:at] is passed on unchanged
        while at < size:
            if self._left:
                end = min(size, at + self._left)
                self._left -= end - at
                if self._long is not None:
                    self._long.add(chunk[at:end])
                    begin = end
                    if not self._left:
                        yield self._long.reply()
                        self._long = None
                at = end
                continue
            end = chunk.find(b"\n", at) + 1
            if not end:
                self._line = chunk[at:]
                break
            kind, header, at = chunk[at], at, end
            if kind not in b"$=!" or (bytes_ := int(chunk[header + 1 : end - 2])) < 0:
                continue
            if bytes_ > LARGEST and kind == _STRING:
                yield chunk[begin:header]
                self._long, begin = _Element(bytes_), end
            elif end + bytes_ + 2 <= size:
                at = end + bytes_ + 2
                continue
            self._left = bytes_ + 2
        yield chunk[begin:at]


class CuttingParser(_HiredisParser):
    """redis-py's parser with this reader."""

    _reader: Any

    def on_connect(self, connection: Any, **options: Any) -> None:
        super().on_connect(connection, **options)  # type: ignore[no-untyped-call]  # in redis-py
        self._reader = CuttingReader(self._reader)

    def arrived(self) -> Any:
        """A reply that has arrived as a whole, an error as in `read_response`; or `NONE_ARRIVED`.

        redis-py's way to each reply takes longer than the reply.
        """
        reply = self._reader.gets(False)
        if isinstance(reply, Exception):
            raise reply
        if type(reply) is PushNotification:
            self.handle_push_response(reply)  # type: ignore[no-untyped-call]  # likewise
            return NONE_ARRIVED
        return reply


class AsyncCuttingParser(_AsyncHiredisParser):
    """The same for asyncio."""

    _reader: Any

    def on_connect(self, connection: Any) -> None:
        super().on_connect(connection)  # type: ignore[no-untyped-call]  # likewise
        self._reader = CuttingReader(self._reader)
