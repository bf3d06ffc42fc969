"""Finding other programs' queues: a look through all keys, bounded, in steps, that never writes.

Every master is asked, a thousand keys a step. What was found is named, counted and checked, and may
then be noted in the registry, so that it is shown from then on like any queue here.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2s
from typing import Any, TypeVar

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.queue_types import KINDS, LAYOUTS
from redisq_ops.core.engine.registry import Registered, adopt, all_queues, find, forget
from redisq_ops.core.foreign import recognition
from redisq_ops.core.foreign.recognition import Find, KeyLook, recognisers
from redisq_ops.core.model.entry import Checkup, Counts
from redisq_ops.core.model.errors import Forbidden, NotFound, Refused, Unreachable
from redisq_ops.core.model.quoting import bytes_of, legal, raw_of, text
from redisq_ops.core.redis.key_scan import COUNT, Lane, Walk, clock_ms
from redisq_ops.core.redis.operation import Call, Description, apart, both, together

from .change.outcome import ChangeOutcome
from .deployment import Deployment
from .hint import hint

T = TypeVar("T")

CHUNK = 100
"""keys looked into side by side"""
_LONGEST = 128
NOTHING = Checkup()


@dataclass(frozen=True, slots=True)
class Discovered:
    """A found queue, named, counted and checked. ``problem``: why it can't be read."""

    name: str
    kind: str
    at: str
    called: str | None
    registered: bool | None
    """None: the registry couldn't be read"""
    counts: Counts | None = None
    checkup: Checkup = NOTHING
    problem: str | None = None


class Discovery:
    """One look. Drive `step` until it says False, sleeping `pause` between; then `finds`.

    ``match`` is a pattern as SCAN has them; ``rate`` keys a second; ``most`` keys looked at.
    Stopped anywhere, `finds` tells what was found so far.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        match: str | None = None,
        rate: float | None = None,
        most: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._recognisers = recognisers()
        lanes = recognition.lanes(self._recognisers)
        if match is not None:
            lanes = tuple(dict.fromkeys(Lane(lane.type, bytes_of(match)) for lane in lanes))
        count = min(COUNT, max(1, int(rate or COUNT)), most or COUNT)
        self.deployment = deployment
        self.rate = rate
        self.most = most
        self.walk = Walk(deployment.client, lanes, count)
        self.barred = 0
        """keys that this user may not read, and that say nothing therefore"""
        self.frameworks: Counter[str] = Counter()
        """how many keys are named like those of each program whose queues can't be read here"""
        self._clock = clock
        self._began = 0.0
        self._ours = _ours(deployment.prefix)
        self._now = 0

    @property
    def over(self) -> bool:
        return self.walk.over or (self.most is not None and self.walk.looked >= self.most)

    @property
    def pause(self) -> float:
        """Seconds to wait before the next step, so that the rate is kept."""
        if not self.rate or self.over:
            return 0.0
        return max(0.0, self._began + self.walk.looked / self.rate - self._clock())

    async def step(self) -> bool:
        """Look at some more keys; False when all were, or enough."""
        if not self._now:
            self._now = await clock_ms(self.deployment.client)
            self._began = self._clock()
        if self.over:
            return False
        keys = [(type_, key) for type_, key in await self.walk.step() if self._foreign(key)]
        for i in range(0, len(keys), CHUNK):
            said = await together(apart(self._sort(*pair)) for pair in keys[i : i + CHUNK])
            self.barred += sum(isinstance(error, Forbidden) for error in said)
        return not self.over

    def _foreign(self, key: bytes) -> bool:
        return not self._ours.match(key)

    async def _sort(self, type_: str, key: bytes) -> None:
        """Show a key to the recognisers until one claims it. One that is gone by now, or of another
        type, tells nothing."""
        # A stream may be anybody's, and those of these programs have no groups.
        if type_ != "stream" and (program := recognition.unreadable(key)):
            self.frameworks[program] += 1
            return
        look = KeyLook(type_, key, self._now)
        for one in self._recognisers:
            if await one.by_name(look):
                return
        for one in self._recognisers:
            if await one.by_content(look):
                return

    async def finds(self) -> list[Find]:
        """The queues found so far, each once, in a fixed order."""
        found = [find for one in self._recognisers for find in await one.finds()]
        named = [find for find in found if not find.by_content]
        loose = [
            find
            for find in found
            if find.by_content and not any(one.owns(find.what) for one in self._recognisers)
        ]
        found = named + await self._not_ours(loose)
        return sorted(found, key=lambda find: (find.kind, find.what, find.at))

    async def _not_ours(self, finds: list[Find]) -> list[Find]:
        """Without those of our own deployments under other prefixes."""
        prefixes = {find.what: named[1] for find in finds if (named := _OURS.match(find.what))}
        once = sorted(set(prefixes.values()))
        types = await together(_type(prefix + b":registry") for prefix in once)
        # One that can't be asked may be ours: better not shown than noted as another program's.
        ours = {
            prefix for prefix, type_ in zip(once, types, strict=True) if type_ in (b"hash", None)
        }
        return [find for find in finds if prefixes.get(find.what) not in ours]


_OURS = re.compile(rb"(.+?):\{[^{}]+\}:", re.DOTALL)
"""keys of a deployment of ours, under whatever prefix"""


def _ours(prefix: str) -> re.Pattern[bytes]:
    """Our keys: by tag, the registry, and what stands beside another program's."""
    kinds = "|".join(map(re.escape, (*KINDS, *LAYOUTS)))
    own = rf"(?:.*:)?{re.escape(prefix)}:(?:registry\Z|(?:\w+:)?\{{|(?:{kinds}):)"
    return re.compile(bytes_of(own), re.DOTALL)


async def _type(key: bytes) -> bytes | None:
    """None: the node that would have it doesn't answer, or one may not ask."""
    asked: Call[bytes] = Call(("TYPE", key), bytes, key=key)
    return await _known(asked)


async def _known(asked: Description[T]) -> T | None:
    said = await apart(asked)
    if isinstance(said, Exception) and not isinstance(said, (Unreachable, Forbidden)):
        raise said
    return None if isinstance(said, Exception) else said


# --- from finds to rows --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisteredFind:
    """A find with its registry entry: the one it has, or the one it would get."""

    find: Find
    entry: Registered
    registered: bool | None
    """None: the registry couldn't be read"""


async def named(deployment: Deployment, finds: Iterable[Find]) -> list[RegisteredFind]:
    """Names for what was found.

    A name is the kind and what the owner calls it, quoted where that can't be a name; cut, or with
    a digest behind it, where it is too long, another queue here is called so, or it would mean
    other keys unless registered. Of a Cluster that lost the registry's node nobody knows which are
    registered, and who may not read the registry doesn't either.
    """
    now = await clock_ms(deployment.client)
    told = await _known(all_queues(deployment.prefix))
    unknown, entries = told is None, told or []
    taken = {entry.name: entry for entry in entries}
    known = {(entry.kind, entry.at, _own(entry)): entry for entry in entries}
    rows = []
    for one in finds:
        at, own = text(one.at), text(one.what)
        entry = known.get((one.kind, at, own))
        if entry is None and at == own:  # noted by its name alone
            entry = known.get((one.kind, "", own))
        registered = entry is not None
        name = f"{one.kind}:{legal(one.what)}" if one.what else one.kind
        reader = foreign_class(one.kind)
        if _is_ours(one.kind, taken.get(name)) or (reader and _is_shard(reader, own, taken)):
            continue  # in a layout that is another program's
        if entry is None:
            called = None
            if len(name) > _LONGEST or name in taken or not _by_name(reader, name, at, own):
                digest = blake2s(one.at + b"\0" + one.what, digest_size=4).hexdigest()
                name, called = f"{name[: _LONGEST - 9]}~{digest}", own
            entry = Registered(
                name, one.kind, reader.schema if reader else 1, now, at=at, called=called
            )
            taken[name] = entry
        rows.append(RegisteredFind(one, entry, None if unknown else registered))
    return rows


def _is_ours(kind: str, entry: Registered | None, shard: int = 0) -> bool:
    return entry is not None and (entry.kind, entry.at) == (kind, None) and shard < entry.all_shards


def _is_shard(reader: type[Queue[Any]], own: str, entries: Mapping[str, Registered]) -> bool:
    place = reader.shard_of(own)
    return place is not None and _is_ours(reader.kind, entries.get(place[0]), place[1])


def _by_name(reader: type[Queue[Any]] | None, name: str, at: str, own: str) -> bool:
    """Whether a name leads to these keys also where it isn't registered.

    Only then it may be had: else the same command would mean one program's queue before it is
    registered, and another's after. It doesn't count whether anything is there now.
    """
    return reader is None or at == own or reader(None, name).at == at


def _own(entry: Registered) -> str:
    return text(raw_of(entry.name.partition(":")[2])) if entry.called is None else entry.called


async def described(deployment: Deployment, rows: Sequence[RegisteredFind]) -> list[Discovered]:
    """Count and check what was found; one that can't be read doesn't hide the others."""
    now = await clock_ms(deployment.client)
    looks: list[tuple[Counts, Checkup] | Exception]
    looks = await together(apart(_looked_at(deployment, row, now)) for row in rows)
    done = []
    for row, look in zip(rows, looks, strict=True):
        entry = row.entry
        shown = Discovered(entry.name, entry.kind, entry.at or "", entry.called, row.registered)
        if isinstance(look, Exception):
            done.append(replace(shown, problem=str(look)))
        else:
            done.append(replace(shown, counts=look[0], checkup=look[1]))
    return done


async def _looked_at(
    deployment: Deployment, row: RegisteredFind, now: int
) -> tuple[Counts, Checkup]:
    queue = opened(deployment, row.entry)
    if row.find.parts:
        queue.found = frozenset(row.find.parts)
    looks: tuple[Description[Counts], Description[Checkup]] = (
        queue.counts.op(now), queue.checkup.op()
    )  # fmt: skip
    return await both(*looks)


def opened(deployment: Deployment, entry: Registered) -> Queue[Any]:
    """The reader of a found queue, registered or not."""
    if foreign_class(entry.kind) is None:
        raise Refused(f"this release recognises {entry.kind} queues and can't read them")
    return deployment.open(entry)


# --- the registry --------------------------------------------------------------------------------


async def register(deployment: Deployment, entries: Iterable[Registered]) -> ChangeOutcome:
    """Note queues so that they are shown like any other; what has the name already stays."""
    entries = list(entries)
    outcome = ChangeOutcome(None, len(entries))
    for i in range(0, len(entries), CHUNK):
        said = await together(adopt(e, deployment.prefix) for e in entries[i : i + CHUNK])
        outcome.done += sum(said)
        outcome.skip("exists", len(said) - sum(said))
    return outcome


async def forgettable(deployment: Deployment, name: str) -> Registered:
    """The registry entry of another program's queue; ours are destroyed, not forgotten."""
    entry = await find(name, deployment.prefix)
    if entry is None:
        raise NotFound(f"no queue {name!r} is registered here ({hint('ls')} shows them)")
    if entry.at is None and entry.kind in KINDS:
        raise Refused(f"queue {name} is of our own kind {entry.kind}: redisq queue destroy")
    return entry


async def forgotten(deployment: Deployment, entry: Registered) -> ChangeOutcome:
    """Take a queue out of the registry; its owner's keys stay as they are."""
    gone = await forget(entry, deployment.prefix)
    outcome = ChangeOutcome(None, 1, gone)
    outcome.skip("same", 1 - gone)
    return outcome
