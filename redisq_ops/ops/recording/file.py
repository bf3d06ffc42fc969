"""The file of a recording: gzip members of about a minute, each readable without the others.

A member's header has its time in an extra field, so that a reader finds the right one without
unpacking those before it; `zcat` reads the whole file. Each line is a change of the `RecordedState`
before it; the first line of a member is a whole state. A line is on disk, as far as the file system
has it, once `RecordingFile.add` returns: a kill loses no earlier line.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NotRequired, TypedDict

from redisq_ops.core.model.consumer_load import GroupLoad, PendingDelivery
from redisq_ops.core.model.errors import BadInput, Refused, file_error

from ..change.audit_log import Operation
from ..inspect.consumers import ConsumerStatus
from ..private_files import open_private, open_regular, resolved_path
from ..typed_json import json_object, typed

VERSION: Final = 1
_GZIP: Final = b"".join(
    (
        b"\x1f\x8b\x08\x04",
        bytes(4),
        b"\x00\xff",
        struct.pack("<H", 26),
        b"RQ",
        struct.pack("<H", 22),
        b"redisq",
    )
)
"""a gzip header with an extra field, up to the version, the time and the checksum in it"""
_HEADER: Final = re.compile(re.escape(_GZIP) + rb"(\d{4})(.{8})(.{4})", re.DOTALL)
_HEADER_SIZE: Final = len(_GZIP) + 16
_TRAILER: Final = struct.Struct("<LL")
_PIECE: Final = 1 << 20
_BLOCK: Final = 1 << 14
_LATEST_MS: Final = 10**14
_MOST: Final = 64 << 20
"""bytes of a member's lines; a longer member is damaged"""


class RecordedQueue(TypedDict):
    """A queue, as `redisq ls --json` prints it, but for ``oldest_age_ms``."""

    name: str
    kind: str
    waiting: int | None
    pending: int | None
    delayed: int | None
    dead: int | None
    trash: int | None
    done: int | None
    in_per_min: int | None
    out_per_min: int | None
    failed_per_min: int | None
    oldest_ms: int | None
    paused: bool | None
    draining: bool | None
    problem: str | None
    unfinished: list[str]
    periodic: int | None
    periodic_overdue: int | None
    only_shown: str | None
    resizing: NotRequired[str | None]
    read_ms: int


class RecordedReport(TypedDict):
    """A `ConsumerReport` without the single entries that are held."""

    at_ms: int
    queue: str
    group: str | None
    loads: list[GroupLoad]
    consumers: list[ConsumerStatus]
    heat: list[list[int]]
    poison: list[PendingDelivery]
    looked: int
    pending: int


class _Line(TypedDict):
    """In the first line each queue has all fields, in others only those that changed."""

    redisq: NotRequired[Literal["recording"]]
    at_ms: int
    lost: NotRequired[str | None]
    queues: NotRequired[dict[str, dict[str, Any] | None]]
    consumers: NotRequired[dict[str, list[RecordedReport]]]
    operations: NotRequired[dict[str, Operation]]


@dataclass(slots=True)
class RecordedState:
    """All that is known at one moment; `apply` moves it on to a later one."""

    at_ms: int = 0
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    """by name, as `redisq ls --json` prints them, and ``read_ms``, when each was read"""
    consumers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """by queue, as `redisq consumers ls --json` prints them"""
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    """the latest changes of operators, by id, as `redisq log --json` prints them"""
    lost: str | None = None
    """why the server could not be read; the rest is from before"""

    def apply(self, line: Mapping[str, Any]) -> None:
        """Apply a line of the file."""
        self.at_ms, self.lost = line["at_ms"], line.get("lost")
        if "redisq" in line:
            self.queues, self.consumers, self.operations = {}, {}, {}
        for name, changed in line.get("queues", {}).items():
            if changed is None:
                self.queues.pop(name, None)
                self.consumers.pop(name, None)
            else:
                self.queues.setdefault(name, {}).update(changed)
        self.consumers |= line.get("consumers", {})
        self.operations |= line.get("operations", {})

    def whole(self) -> dict[str, Any]:
        """The line that begins a member."""
        return {
            "redisq": "recording",
            "at_ms": self.at_ms,
            "lost": self.lost,
            "queues": self.queues,
            "consumers": self.consumers,
            "operations": self.operations,
        }


@dataclass(frozen=True, slots=True)
class Member:
    """Where a member of the file begins, and the time of its first line."""

    offset: int
    at_ms: int


def members(path: Path) -> list[Member]:
    """The members of a recording, but for those whose header is damaged.

    Raises `BadInput` for another file, a file that can't be read, and a newer version.
    """
    try:
        with open_regular(path) as file:
            if not os.fstat(file.fileno()).st_size:
                return []
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                headers = [
                    (each.start(), int(each[1]), int.from_bytes(each[2], "little"), each[0])
                    for each in _HEADER.finditer(data)
                ]
                ours = data[: len(_GZIP)] == _GZIP[: len(data)]
                cut = len(data) < _HEADER_SIZE
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    if not ours:
        raise BadInput(f"{path} is no recording: redisq record FILE makes one")
    if headers and headers[0][1] > VERSION:
        raise BadInput(
            f"{path} is a recording of version {headers[0][1]}; this release reads {VERSION}"
        )
    found = [
        Member(offset, at_ms)
        for offset, version, at_ms, whole in headers
        if whole == _header(version, at_ms) and at_ms < _LATEST_MS
    ]
    if not found and not cut:
        raise BadInput(f"{path} is damaged: no part of it can be read")
    return found


def _header(version: int, at_ms: int) -> bytes:
    checked = b"%04d" % version + at_ms.to_bytes(8, "little")
    return _GZIP + checked + zlib.crc32(checked).to_bytes(4, "little")


def lines(path: Path, member: Member) -> tuple[list[dict[str, Any]], int | None]:
    """The lines of a member, and the offset of its end; None: a kill left it without its end.

    Of a damaged member the lines before the damage; none if its place is unknown.
    """
    unpack, data = zlib.decompressobj(-15), bytearray()
    with open_regular(path) as file:
        file.seek(member.offset + _HEADER_SIZE)
        with suppress(zlib.error):
            for piece in _unpacked(unpack, file, _PIECE):
                data += piece
        if not unpack.eof:
            return list(_checked(data, member)), None
        file.seek(-len(unpack.unused_data), os.SEEK_CUR)
        trailer = file.read(_TRAILER.size)
        end = file.tell()
    if len(trailer) < _TRAILER.size:
        return list(_checked(data, member)), None
    if trailer != _TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF):
        return [], end
    return list(_checked(data, member)), end


def first_line(path: Path, member: Member) -> dict[str, Any] | None:
    """The first line of a member, a whole state, without unpacking the rest; None: it can't be
    read."""
    unpack, data = zlib.decompressobj(-15), bytearray()
    with open_regular(path) as file, suppress(zlib.error):
        file.seek(member.offset + _HEADER_SIZE)
        for piece in _unpacked(unpack, file, _BLOCK):
            data += piece
            if b"\n" in piece:
                break
    return next(_checked(data, member), None)


def _unpacked(unpack: Any, file: BinaryIO, size: int) -> Iterator[bytes]:
    """The data of a member in pieces, at most `_MOST` bytes: a small file may unpack to any
    size."""
    left, packed = _MOST, b""
    while left > 0 and not unpack.eof and (packed := unpack.unconsumed_tail or file.read(size)):
        piece = unpack.decompress(packed, left)
        left -= len(piece)
        yield piece


def _checked(data: bytes | bytearray, member: Member) -> Iterator[dict[str, Any]]:
    """The lines up to the first that can't be from a recording."""
    queues, at_ms, rest = dict[str, dict[str, Any]](), member.at_ms, 0
    with suppress(BadInput):
        while (end := data.find(b"\n", rest)) >= 0:
            line = json_object(data[rest:end].decode(errors="surrogateescape"))
            typed(_Line, line, "line")
            if not at_ms <= line["at_ms"] < _LATEST_MS or (not rest and "redisq" not in line):
                return
            if "redisq" in line:
                queues = {}
            for name, changed in line.get("queues", {}).items():
                if changed is None:
                    queues.pop(name, None)
                    continue
                row = queues[name] = queues.get(name, {}) | changed
                typed(RecordedQueue, row, "queue")
                if row["name"] != name:
                    return
            yield line
            at_ms, rest = line["at_ms"], end + 1


def state_at(path: Path, at_ms: int, known: Sequence[Member] | None = None) -> RecordedState | None:
    """The latest state at or before a moment; None: the recording begins later.

    ``known``: the members, if the caller has read them.
    """
    found = members(path) if known is None else known
    before = [member for member in found if member.at_ms <= at_ms]
    while before:  # a member that was cut in its first line has no state
        state = RecordedState()
        for line in lines(path, before.pop())[0]:
            if line["at_ms"] > at_ms:
                break
            state.apply(line)
        if state.at_ms:
            return state
    return None


def span_ms(path: Path) -> tuple[int, int] | None:
    """The times of the first and of the last line; None: there is none."""
    found = members(path)
    ends = (lines(path, member)[0] for member in reversed(found))
    last = next((rows[-1]["at_ms"] for rows in ends if rows), None)
    return None if last is None else (found[0].at_ms, last)


class RecordingFile:
    """A recording that is written, or continued where it ends.

    ``most``: bytes of the file; when it has more, its older half is removed. One process at a time
    writes a file: another one is `Refused`. A full disk raises an error and leaves the file
    readable. A new file to which nothing could be written is removed.
    """

    def __init__(self, path: str, most: int) -> None:
        self.path = resolved_path(path)
        self._most = most
        self._is_new = not os.path.lexists(path)
        try:
            self._file = open_private(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise file_error(error, f"{path}: {error.strerror or error}") from error
        try:
            self._lock()
            self._pack: Any = None
            self._crc = self._size = 0
            self._continue()
        except BaseException:
            os.close(self._file)
            raise

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._file).st_size

    def begin(self, whole: Mapping[str, Any]) -> None:
        """End the member and begin the next one with a whole state."""
        self.end()
        if self.size > self._most:
            self._drop_older_half()
        at_ms = int(whole["at_ms"])
        self._pack, self._crc, self._size = zlib.compressobj(6, zlib.DEFLATED, -15), 0, 0
        self._write(_header(VERSION, at_ms) + self._packed(whole))

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a change."""
        self._write(self._packed(line))

    def end(self) -> None:
        """End the member, if one was begun."""
        if self._pack is not None:
            data = self._pack.flush(zlib.Z_FINISH)
            self._pack = None
            self._write(data + _TRAILER.pack(self._crc, self._size & 0xFFFFFFFF))

    def close(self) -> None:
        """Close the file; its last member stays without its end unless `end` was called."""
        if self._is_new and not self.size:
            with suppress(OSError):
                os.unlink(self.path)
        os.close(self._file)

    def _packed(self, line: Mapping[str, Any]) -> bytes:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self._crc, self._size = zlib.crc32(data, self._crc), self._size + len(data)
        packed: bytes = self._pack.compress(data) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        return packed

    def _write(self, data: bytes) -> None:
        """Append, or leave the file as it was: half a line would hide the lines behind it."""
        end = os.lseek(self._file, 0, os.SEEK_END)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._pack = None
            os.ftruncate(self._file, end)
            why = error.strerror or error
            kept = (
                "recording stopped; the file is readable up to here" if end else "nothing recorded"
            )
            raise file_error(error, f"{self.path}: {why}: {kept}") from error

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(f"{self.path}: another redisq record writes it") from error

    def _continue(self) -> None:
        """If the last member has no end, write its lines again as a member with an end."""
        found = members(self.path)
        if not found:
            os.ftruncate(self._file, 0)  # a header that was cut
            return
        rows, end = lines(self.path, found[-1])
        os.ftruncate(self._file, found[-1].offset if end is None else end)
        if end is not None:
            return
        if rows:
            self.begin(rows[0])
            for row in rows[1:]:
                self.add(row)
            self.end()

    def _drop_older_half(self) -> None:
        """Replace the file by its newer half. Readers of the old file go on reading that one."""
        keep = self.size - self._most // 2
        start = next((each.offset for each in members(self.path) if each.offset >= keep), self.size)
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.lseek(self._file, start, os.SEEK_SET)
            while piece := os.read(self._file, _PIECE):
                while piece:
                    piece = piece[os.write(file, piece) :]
            os.replace(new, self.path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(new)
            raise file_error(
                error, f"{new}: {error.strerror or error}: recording stopped"
            ) from error
        os.close(self._file)
        self._file = file
        self._lock()
