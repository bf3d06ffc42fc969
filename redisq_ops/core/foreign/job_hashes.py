"""Queues whose jobs are hashes of texts, found by the ids in lists and sorted sets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..engine.optional_features import HasTimeline
from ..model.entry import Entry, State
from ..model.errors import WrongKind
from ..model.quoting import bytes_of, legal, raw_of
from ..redis.operation import C_co, Call, attempt, both, operation, together
from ..redis.parsers import moment, optional
from .changes import ForeignChanges
from .long_records import not_read
from .places import LocatedEntry, Place, Row, next_members, orphan


@dataclass(frozen=True, slots=True)
class JobHash:
    """Some fields of a hash."""

    values: Mapping[str, bytes | None]

    def text(self, field: str) -> str:
        return (self.values[field] or b"").decode("utf-8", "backslashreplace")

    def number(self, field: str) -> int | None:
        value = self.values[field] or b""
        return int(value) if value.isdigit() and len(value) < 16 else None

    @property
    def gone(self) -> bool:
        """Whether there is no such hash, as far as its fields were read."""
        return not any(self.values.values())

    @property
    def problem(self) -> str | None:
        """Why the job can't be shown, although there is something of it."""
        return None


async def fields_of(
    place: Place, key: bytes, fields: Sequence[str], long: str
) -> dict[str, bytes | None]:
    """Fields of a job's hash. ``long``: the one that can be very long; where the place reads no
    long records, a note of its size stands for it."""
    if place.whole:
        found = await Call(("HMGET", key, *fields), list[Any], key=key)
        return dict(zip(fields, found, strict=True))
    rest = [name for name in fields if name != long]
    values, size = await both(
        Call(("HMGET", key, *rest), list[Any], key=key), Call(("HSTRLEN", key, long), int, key=key)
    )
    text: bytes | None = not_read(size).encode()
    if place.reads(size):
        text = await Call(("HGET", key, long), optional, key=key)
    return {**dict(zip(rest, values, strict=True)), long: text}


class JobHashQueue(ForeignChanges[C_co], HasTimeline[C_co]):
    """A queue of such jobs. An entry's id is the job's."""

    by_id: ClassVar[bool] = True
    identity: ClassVar[tuple[str, ...]] = ()
    """fields that distinguish a job from a later one with its id"""
    of_every_job: ClassVar[tuple[str, ...]] = ()
    """what `is_whole` looks at"""
    timed: ClassVar[Mapping[str, float]] = {}
    """places, as `Declared.called`, whose scores are the times of their entries -> milliseconds in
    one unit of these"""
    wait_fields: ClassVar[tuple[str, ...]] = ()
    """what `waits_since` reads"""

    @abstractmethod
    def waits_since(self, job: JobHash) -> int | None:
        """When a waiting job began to wait, by its `wait_fields`."""

    @abstractmethod
    async def job(self, place: Place, state: State, id: bytes) -> JobHash:
        """Read a job that is in a place: its long field only as far as `fields_of` does."""

    @abstractmethod
    def entry(self, state: State, place: Place, id: str, at_ms: int | None, job: Any) -> Entry:
        """The entry of a job that has no `problem`. ``at_ms``: its time, in a place of `timed`."""

    async def job_ids(self, place: Place, members: Sequence[bytes]) -> Sequence[bytes | None]:
        """The jobs' ids, of elements of a place; None: it isn't a job."""
        return members

    def job_key(self, id: bytes) -> bytes:
        """The key of a job's hash."""
        return bytes_of(self.keys["t_job_"]) + id

    def is_whole(self, values: Sequence[bytes | None]) -> bool:
        """Whether a hash with these values of `of_every_job` is a job of this queue."""
        return all(values)

    @operation
    async def get(self, id: str) -> Entry | None:
        """As of every queue. Raises `WrongKind` if the job is there and in no known state."""
        for _ in range(2):  # a job may change its state between two reads
            if (found := await ForeignChanges.get(self, id)) is not None:
                return found
            (values,) = await self.job_fields([raw_of(id)], self.of_every_job)
            if (
                self.typed_id(id) != id
                or not self.is_whole(values)
                or await self._has_depths({id: []}, [id])
            ):
                return None
        raise WrongKind(
            f"job {id} of queue {self.name} is there, and in no list or set that this release of"
            f" redisq knows: {self.owner} lost it, or is of a newer release"
        )

    async def job_fields(self, ids: Sequence[bytes], fields: Sequence[str]) -> list[list[Any]]:
        """Some fields of each of these jobs, in one exchange."""
        keys = map(self.job_key, ids)
        return await together(Call(("HMGET", key, *fields), list[Any], key=key) for key in keys)

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        ids = await self.job_ids(place, [row.member for row in rows])
        found = await together(attempt(self.job(place, state, id or b"")) for id in ids)
        return [
            None if id is None else self._entry(state, place, row, legal(id), job)
            for id, row, job in zip(ids, rows, found, strict=True)
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
            return Entry(id, state, at_ms, called=place.called, problem=why)
        return self.entry(state, place, id, at_ms, job)

    async def _oldest_ms(self, waiting: Sequence[Place]) -> int | None:
        """Of each place, the job that is taken next counts."""
        rows = await self.job_fields(await next_members(waiting), self.wait_fields)
        jobs = (JobHash(dict(zip(self.wait_fields, row, strict=True))) for row in rows)
        return min(filter(None, map(self.waits_since, jobs)), default=None)

    async def stamps(self, found: Sequence[LocatedEntry]) -> Sequence[bytes]:
        """The `identity` of each job as it is read here; `moves_take_out` compares it."""
        rows = await self.job_fields([seen.member for seen in found], self.identity)
        return [b" ".join(value or b"" for value in row) for row in rows]
