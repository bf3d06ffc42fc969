"""Queues whose jobs are hashes of texts, found by the ids in lists and sorted sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Any, ClassVar

from ..engine.optional_features import HasDoneEntries, HasTimeline
from ..model.cut_element import UNREAD
from ..model.entry import Entry, State
from ..model.errors import Unfit, WrongKind
from ..model.quoting import bytes_of, legal, raw_of
from ..redis.operation import C_co, Call, attempt_read, attempt_reads, operation, together
from ..redis.parsers import moment
from .changes import ForeignChanges
from .elements import Element
from .json_text import decoded
from .long_records import LONG_RECORD, not_read, whole_sizes
from .places import Place, Row, next_members, orphan

_NUMBERS = 2**63


class Note(bytes):
    """The text shown in place of a field that is too long to be read."""


@dataclass(frozen=True, slots=True)
class JobHash:
    """Some fields of a hash."""

    values: Mapping[str, bytes | None]

    def text(self, field: str) -> str:
        value = self.values[field]
        return value.decode("utf-8", "backslashreplace") if value else ""

    def number(self, field: str) -> int | None:
        """A whole number below 2**63 (a time in nanoseconds fits); None: it is something else."""
        value = self.values[field]
        if not (value and value.isdigit() and len(value) < 20):
            return None
        number = int(value)
        return number if number < _NUMBERS else None

    def notes(self) -> list[str]:
        """The fields that were not read, and why."""
        if Note not in {*map(type, self.values.values())}:
            return []
        values = self.values.items()
        return [f"{name}: {note.decode()}" for name, note in values if type(note) is Note]

    def stamp(self, names: Sequence[str]) -> bytes:
        """Which of these fields were read, and the digest of their values; `stamps.lua` makes the
        same bytes."""
        values = [self.values.get(name) or b"" for name in names]
        marks = b"".join([b"0" if type(value) is Note else b"1" for value in values])
        told = [b"%d:%b" % (len(value), value) for value in values if type(value) is not Note]
        return b"%b %b" % (marks, sha1(b"".join(told)).hexdigest().encode())

    def parts(self, key: bytes, values: Mapping[str, bytes]) -> list[Element]:
        """What an edit writes: other JSON in these fields. Raises `Unfit` if they have no JSON."""
        if any(decoded(self.values[name] or b"", UNREAD) is UNREAD for name in values):
            raise Unfit("not JSON")
        return [Element("hash", key, n.encode(), self.values[n], new) for n, new in values.items()]

    @property
    def gone(self) -> bool:
        """True if the hash has none of the fields that were read."""
        return not any(self.values.values())

    @property
    def problem(self) -> str | None:
        """Why the job can't be shown, although its hash exists."""
        return None


async def hash_fields(
    keys: Sequence[bytes],
    fields: Sequence[str],
    sizes: Sequence[int],
    reads: Callable[[int], bool],
    of_short: Sequence[str] = (),
) -> list[dict[str, bytes | None] | Exception]:
    """Fields of the hashes of jobs, or why one can't be read. ``sizes``: bytes of each hash.
    ``reads``: whether a field of that many bytes is read; a `Note` replaces any other.
    ``of_short``: further fields that are read of hashes of at most `LONG_RECORD` bytes."""
    sized, names = list(zip(keys, sizes, strict=True)), (*fields, *of_short)
    whole, long = await together(
        attempt_reads([_fields(key, names) for key, size in sized if size <= LONG_RECORD]),
        together(
            attempt_read(_fields_of_long(key, fields, reads))
            for key, size in sized
            if size > LONG_RECORD
        ),
    )
    short, rest = iter(whole), iter(long)
    return [next(short if size <= LONG_RECORD else rest) for size in sizes]


def _fields(key: bytes, names: Sequence[str]) -> Call[dict[str, bytes | None]]:
    def read(values: list[Any]) -> dict[str, bytes | None]:
        return dict(zip(names, values, strict=True))

    return Call(("HMGET", key, *names), read, key=key, ready=2 + len(names))


async def _fields_of_long(
    key: bytes, fields: Sequence[str], reads: Callable[[int], bool]
) -> dict[str, bytes | None]:
    sizes = zip(fields, await together(_size(key, name) for name in fields), strict=True)
    notes = {name: Note(not_read(n).encode()) for name, n in sizes if not reads(n)}
    names = [name for name in fields if name not in notes]
    return (await _fields(key, names) if names else {}) | notes


def _size(key: bytes, field: str) -> Call[int]:
    return Call(("HSTRLEN", key, field), int, key=key)


class JobHashQueue(ForeignChanges[C_co], HasTimeline[C_co], HasDoneEntries[C_co]):
    """A queue whose jobs are hashes. An entry's id is the job's."""

    by_id: ClassVar[bool] = True
    checked: ClassVar[Sequence[State]] = (*ForeignChanges.checked, "done")
    fields: ClassVar[tuple[str, ...]] = ()
    """the fields of a job's hash that are shown"""
    identity: ClassVar[tuple[str, ...]] = ()
    """fields that distinguish a job from a later one with its id; `moves_take_out` compares them by
    `stamps.lua`"""
    of_every_job: ClassVar[tuple[str, ...]] = ()
    """fields that every job has, for `is_whole`"""
    timed: ClassVar[Mapping[str, float]] = {}
    """`Declared.called` of places whose scores are the times of their entries -> milliseconds in
    one unit of the score"""
    wait_fields: ClassVar[tuple[str, ...]] = ()
    """what `waits_since` reads"""

    @abstractmethod
    def waits_since(self, job: JobHash) -> int | None:
        """When a waiting job began to wait, by its `wait_fields`."""

    async def read_hashes(
        self, place: Place, keys: Sequence[bytes], sizes: Sequence[int]
    ) -> Sequence[Mapping[str, bytes | None] | Exception]:
        """The `fields` of hashes of these sizes, or why one can't be read."""
        return await hash_fields(keys, self.fields, sizes, place.reads)

    async def read_beside(self, place: Place, state: State, ids: Sequence[bytes]) -> Sequence[Any]:
        """What is read of each job in other keys than its hash."""
        return [None] * len(ids)

    def job(self, values: Mapping[str, bytes | None], beside: Any) -> JobHash | Exception:
        """A job by its fields and by what `read_beside` returned, or why it can't be read."""
        return JobHash(values)

    @abstractmethod
    def entry(self, state: State, place: Place, id: str, at_ms: int | None, job: Any) -> Entry:
        """The entry of a job without a `problem`; the entry's `record` is the job. ``at_ms``: the
        job's time, if its place is in `timed`."""

    def job_key(self, place: Place, id: bytes) -> bytes:
        """The key of a job's hash, by its id and the place that has the id."""
        return bytes_of(self.keys["t_job_"]) + id

    def is_whole(self, values: Sequence[bytes | None]) -> bool:
        """Whether a hash with these values of `of_every_job` is a job of this queue."""
        return all(values)

    @operation
    async def get(self, id: str) -> Entry | None:
        """As `Queue.get`. Raises `WrongKind` if the job exists in no known state."""
        for _ in range(2):  # a job may change its state between two reads
            if (found := await ForeignChanges.get(self, id)) is not None:
                return found
            lost = await self.lost([id])
            if self.typed_id(id) != id or not lost or await self._has_depths({id: []}, [id]):
                return None
        raise WrongKind(
            f"job {id} of queue {self.name} is there, and in no list or set that this release of"
            f" redisq knows: a worker is just taking it, {self.owner} lost it, or is of a newer"
            " release"
        )

    @operation
    async def get_many(self, ids: Sequence[str], likely: State | None = None) -> list[Entry | None]:
        found = await ForeignChanges.get_many(self, ids, likely)
        missing = [id for id, entry in zip(ids, found, strict=True) if entry is None]
        there = await self.lost(missing)
        again = dict(zip(there, await together(self.get.op(id) for id in there), strict=True))
        return [
            again.get(id) if entry is None else entry for id, entry in zip(ids, found, strict=True)
        ]

    async def lost(self, ids: Sequence[str]) -> list[str]:
        """Those of these jobs, which are in no place, that have a hash."""
        places = await self._places("waiting") if ids else []
        keys = {self.job_key(place, raw_of(id)): id for place in places for id in ids}
        rows = await self.job_fields(list(keys), self.of_every_job)
        whole = (id for id, row in zip(keys.values(), rows, strict=True) if self.is_whole(row))
        return list(dict.fromkeys(whole))

    async def job_fields(self, keys: Sequence[bytes], fields: Sequence[str]) -> list[list[Any]]:
        """Some short fields of the hash of each of these jobs."""
        found = await hash_fields(keys, fields, await whole_sizes(keys), lambda n: n <= LONG_RECORD)
        for values in found:
            if isinstance(values, Exception):
                raise values
        rows = [values for values in found if not isinstance(values, Exception)]
        return [[values[name] for name in fields] for values in rows]

    async def sizes(self, place: Place, rows: Sequence[Row]) -> Sequence[int]:
        """The bytes of each job's hash; of a long hash, the bytes of the fields that are read."""
        ids = await self.job_ids(place, [row.member for row in rows])
        keys = [self.job_key(place, id or b"") for id in ids]
        whole = await whole_sizes(keys)
        long = await together(
            self._long_size(place, key)
            for key, size in zip(keys, whole, strict=True)
            if size > LONG_RECORD
        )
        read = iter(long)
        return [size if size <= LONG_RECORD else next(read) for size in whole]

    async def _long_size(self, place: Place, key: bytes) -> int:
        sizes = await attempt_read(together(_size(key, name) for name in self.fields))
        if isinstance(sizes, Exception):  # a key of another type: reading it reports that
            return 0
        return LONG_RECORD + 1 + sum(filter(place.reads, sizes))

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        found = await self.job_ids(place, [row.member for row in rows])
        ids, sizes = [id or b"" for id in found], [row.size or 0 for row in rows]
        keys = [self.job_key(place, id) for id in ids]
        values, beside = await together(
            self.read_hashes(place, keys, sizes), self.read_beside(place, state, ids)
        )
        jobs = [
            fields if isinstance(fields, Exception) else self.job(fields, more)
            for fields, more in zip(values, beside, strict=True)
        ]
        return [
            None if id is None else self._entry(state, place, row, legal(id), job)
            for id, row, job in zip(found, rows, jobs, strict=True)
        ]

    def _entry(
        self, state: State, place: Place, row: Row, id: str, job: JobHash | Exception
    ) -> Entry:
        unit_ms = self.timed.get(place.called)
        at_ms = None if unit_ms is None else moment(row.score * unit_ms)
        if isinstance(job, JobHash) and job.gone:
            return orphan(place, state, id, at_ms)
        why = f"its job: {job}" if isinstance(job, Exception) else job.problem
        if why is not None:
            return Entry(id, state, at_ms, called=place.called, problem=why, record=job)
        assert isinstance(job, JobHash)
        entry, notes = self.entry(state, place, id, at_ms, job), job.notes()
        return replace(entry, partly="; ".join(notes)) if notes else entry

    async def _oldest_ms(self, waiting: Sequence[Place]) -> int | None:
        """Of each place, the job that is taken next counts."""
        keys = [self.job_key(*each) for each in await next_members(waiting)]
        rows = await self.job_fields(keys, self.wait_fields)
        jobs = (JobHash(dict(zip(self.wait_fields, row, strict=True))) for row in rows)
        return min(filter(None, map(self.waits_since, jobs)), default=None)

    def stamp(self, entry: Entry) -> bytes:
        return entry.record.stamp(self.identity) if isinstance(entry.record, JobHash) else b""
