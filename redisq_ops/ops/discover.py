"""Finds other programs' queues: scans all keys in bounded steps, and never writes.

Each step scans a thousand keys of a master. Queues that are found get a name, are counted and
checked, and may then be added to the registry, so that all commands show them.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.queue_types import KINDS, LAYOUTS
from redisq_ops.core.engine.registration_marks import marked
from redisq_ops.core.engine.registry import (
    Registered,
    adopt,
    all_queues,
    distinct_name,
    find,
    forget,
    plain_name,
)
from redisq_ops.core.foreign import recogniser
from redisq_ops.core.foreign.guarded_recogniser import Guarded
from redisq_ops.core.foreign.plug_ins import plug_ins
from redisq_ops.core.foreign.recogniser import Find, KeyLook
from redisq_ops.core.foreign.recognition import recognisers
from redisq_ops.core.model.entry import Checkup, Counts
from redisq_ops.core.model.errors import Forbidden, Refused, Unreachable
from redisq_ops.core.model.quoting import bytes_of, raw_of, text
from redisq_ops.core.redis.key_scan import COUNT, Lane, Walk, clock_ms
from redisq_ops.core.redis.operation import Call, Description, apart, together

from .change.outcome import ChangeOutcome
from .change.preview import Preview
from .deployment import Deployment

T = TypeVar("T")

CHUNK = 100
"""keys examined in one round trip"""
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
    """One scan. Call `step` until it returns False, sleeping `pause` in between; then `finds`.

    ``match``: a pattern of SCAN; ``rate``: keys per second; ``most``: keys to scan. If the scan is
    stopped, `finds` has what was found so far.
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
        lanes = recogniser.lanes(self._recognisers)
        if match is not None:
            lanes = tuple(dict.fromkeys(Lane(lane.type, bytes_of(match)) for lane in lanes))
        count = min(COUNT, max(1, int(rate or COUNT)), most or COUNT)
        self.deployment = deployment
        self.rate = rate
        self.most = most
        self.whole = match is None and most is None
        """whether all keys are to be scanned"""
        self.walk = Walk(deployment.client, lanes, count)
        self.barred = 0
        """keys that this user may not read"""
        self._clock = clock
        self._began = 0.0
        self._ours = _ours(deployment.prefix)
        self._now = 0

    @property
    def unusable(self) -> list[str]:
        """Why kinds that other packages bring weren't looked for; after `finds`."""
        found = [one.problem for one in self._recognisers if isinstance(one, Guarded)]
        return [problem for problem in found if problem]

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
        """Scan some more keys; False when all, or ``most``, were scanned."""
        if not self._now:
            self._now = await clock_ms(self.deployment.client)
            self._began = self._clock()
        if self.over:
            return False
        keys = [(type_, key) for type_, key in await self.walk.step() if not self._ours.match(key)]
        for i in range(0, len(keys), CHUNK):
            errors = await together(apart(self._sort(*pair)) for pair in keys[i : i + CHUNK])
            self.barred += sum(isinstance(error, Forbidden) for error in errors)
        return not self.over

    async def _sort(self, type_: str, key: bytes) -> None:
        """Show a key to the recognisers until one recognises it; a key that was deleted or changed
        its type meanwhile is ignored."""
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

    def unread(self) -> Counter[str]:
        """What this release can't read, in words -> number of keys; after `finds`."""
        found = Counter[str]()
        for one in self._recognisers:
            others = [each for each in self._recognisers if each is not one]
            for what, keys in one.unread().items():
                found[what] += sum(not any(o.owns(key) for o in others) for key in keys)
        return +found

    async def _not_ours(self, finds: list[Find]) -> list[Find]:
        """Without redisq's own queues under other prefixes."""
        prefixes = {find.what: named[1] for find in finds if (named := _OURS.match(find.what))}
        once = sorted(set(prefixes.values()))
        keys = [prefix + b":registry" for prefix in once]
        types = await together(_if_readable(Call(("TYPE", key), bytes, key=key)) for key in keys)
        # Leave out also what may be ours: registering our own queue as another's is worse.
        ours = {
            prefix for prefix, type_ in zip(once, types, strict=True) if type_ in (b"hash", None)
        }
        return [find for find in finds if prefixes.get(find.what) not in ours]


_OURS = re.compile(rb"(.+?):\{[^{}]+\}:", re.DOTALL)
"""keys of redisq's own queues, under any prefix"""


def _ours(prefix: str) -> re.Pattern[bytes]:
    """Our keys under a prefix: of queues, of the registry, and beside other programs' queues."""
    kinds = "|".join(map(re.escape, (*KINDS, *LAYOUTS, *plug_ins())))
    own = rf"(?:.*:)?{re.escape(prefix)}:(?:registry\Z|(?:\w+:)?\{{|(?:{kinds}):)"
    return re.compile(bytes_of(own), re.DOTALL)


async def _if_readable(read: Description[T]) -> T | None:
    """The result of a read; None: its node doesn't answer, or the user may not read it."""
    found = await apart(read)
    if isinstance(found, Exception) and not isinstance(found, (Unreachable, Forbidden)):
        raise found
    return None if isinstance(found, Exception) else found


# --- from finds to rows --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisteredFind:
    """A find with its registry entry, or the one that it would get."""

    find: Find
    entry: Registered
    registered: bool | None
    """None: the registry couldn't be read"""


async def named(deployment: Deployment, finds: Iterable[Find]) -> list[RegisteredFind]:
    """Give names to what was found.

    A name is the kind and the owner's name, quoted if it has other characters. It is cut and gets a
    digest if it is too long, if another queue here has the name, or if the name without a
    registration would mean other keys.
    """
    now = await clock_ms(deployment.client)
    entries = await _if_readable(all_queues(deployment.prefix))
    unknown, entries = entries is None, entries or []
    taken = {entry.name: entry for entry in entries}
    finds = list(finds)
    lost = await together(_lost(one, deployment.prefix) for one in finds)
    taken = {entry.name: entry for each in lost for entry in each} | taken
    known = {(entry.kind, entry.at, _own(entry)): entry for entry in entries}
    rows = []
    for one in finds:
        at, own = text(one.at), text(one.what)
        entry = known.get((one.kind, at, own))
        if entry is None and at == own:  # registered by its name alone
            entry = known.get((one.kind, "", own))
        registered = entry is not None
        name = plain_name(one.kind, one.what)
        reader = foreign_class(one.kind)
        if _is_ours(one.kind, taken.get(name)) or (reader and _is_shard(reader, own, taken)):
            continue  # one of ours that uses another program's layout
        if entry is None:
            called = None
            if len(name) > _LONGEST or name in taken or not _by_name(reader, name, at):
                name, called = distinct_name(one.kind, one.at, one.what), own
            entry = Registered(
                name, one.kind, reader.schema if reader else 1, now, at=at, called=called
            )
            taken[name] = entry
        rows.append(RegisteredFind(one, entry, None if unknown else registered))
    return rows


async def _lost(find: Find, prefix: str) -> list[Registered]:
    """Queues of ours in another program's layout that may own these keys. Their own marks are read,
    since the registry can have lost them."""
    reader = foreign_class(find.kind)
    if find.kind not in KINDS or reader is None:
        return []
    places = [(plain_name(find.kind, find.what), 0), reader.shard_of(text(find.what))]
    entries = await together(marked(name, prefix, n) for name, n in filter(None, places))
    return [entry for entry in entries if entry is not None]


def _is_ours(kind: str, entry: Registered | None, shard: int = 0) -> bool:
    return entry is not None and (entry.kind, entry.at) == (kind, None) and shard < entry.all_shards


def _is_shard(reader: type[Queue[Any]], own: str, entries: Mapping[str, Registered]) -> bool:
    place = reader.shard_of(own)
    return place is not None and _is_ours(reader.kind, entries.get(place[0]), place[1])


def _by_name(reader: type[Any] | None, name: str, at: str) -> bool:
    """Whether the name means these keys also without a registration.

    Otherwise the same command would mean one program's queue before a registration and another's
    after it, so the name can't be used.
    """
    return reader is None or bool(reader(None, name, at=at).name == name)


def _own(entry: Registered) -> str:
    return text(raw_of(entry.name.partition(":")[2])) if entry.called is None else entry.called


async def described(deployment: Deployment, rows: Sequence[RegisteredFind]) -> list[Discovered]:
    """Count and check the queues that were found; a queue that can't be read has a ``problem``."""
    now = await clock_ms(deployment.client)
    checks: list[tuple[Counts, Checkup] | Exception]
    checks = await together(apart(_checked(deployment, row, now)) for row in rows)
    done = []
    for row, check in zip(rows, checks, strict=True):
        entry = row.entry
        shown = Discovered(entry.name, entry.kind, entry.at or "", entry.called, row.registered)
        if isinstance(check, Exception):
            done.append(replace(shown, problem=str(check)))
        else:
            done.append(replace(shown, counts=check[0], checkup=check[1]))
    return done


async def _checked(deployment: Deployment, row: RegisteredFind, now: int) -> tuple[Counts, Checkup]:
    if foreign_class(row.entry.kind) is None:
        raise Refused(f"this release recognises {row.entry.kind} queues, but can't read them")
    queue = deployment.open(row.entry)
    if row.find.parts:
        queue.found = frozenset(row.find.parts)
    counts, checkup = await together(queue.counts.op(now), queue.checkup.op())
    return counts, checkup


# --- the registry --------------------------------------------------------------------------------


async def register(deployment: Deployment, entries: Iterable[Registered]) -> ChangeOutcome:
    """Add queues to the registry; an existing entry of the same name stays."""
    entries = list(entries)
    outcome = ChangeOutcome(None, len(entries))
    for i in range(0, len(entries), CHUNK):
        added = await together(adopt(e, deployment.prefix) for e in entries[i : i + CHUNK])
        outcome.done += sum(added)
        outcome.skip("exists", len(added) - sum(added))
    return outcome


async def forgettable(deployment: Deployment, name: str) -> Registered | None:
    """The registry entry of another program's queue; None if it has none, or is redisq's own."""
    entry = await find(name, deployment.prefix)
    return None if entry is None or (entry.at is None and entry.kind in KINDS) else entry


def forget_preview(entry: Registered) -> Preview:
    """What removing another program's queue from the registry will do."""
    facts = {"verb": "forget", "queue": entry.name, "matched": 1}
    lines = ("redisq doesn't show it any more; its owner's keys stay as they are",)
    return Preview(f"remove queue {entry.name} from the registry", lines, facts=facts)


async def forgotten(deployment: Deployment, entry: Registered) -> ChangeOutcome:
    """Remove a queue from the registry; the owner's keys stay as they are."""
    gone = await forget(entry, deployment.prefix)
    outcome = ChangeOutcome(None, 1, gone)
    outcome.skip("same", 1 - gone)
    return outcome
