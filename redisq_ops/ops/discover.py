"""Finding other programs' queues: a look through all keys, bounded, in steps, that never writes.

Every master is asked, a thousand keys a step. What was found is named, counted and checked, and may
then be noted in the registry, so that it is shown from then on like any queue here.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2s
from typing import Any, TypeVar

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.queue_types import KINDS, LAYOUTS
from redisq_ops.core.engine.registry import Registered, adopt, all_queues, find, forget
from redisq_ops.core.foreign import detect
from redisq_ops.core.foreign.articles.base import RawLayout
from redisq_ops.core.foreign.base import ForeignQueue
from redisq_ops.core.model.entry import Checkup, Counts
from redisq_ops.core.model.errors import Forbidden, NotFound, Refused, Unreachable
from redisq_ops.core.model.quoting import bytes_of, legal, raw_of, text
from redisq_ops.core.redis.key_scan import COUNT, Lane, Walk, clock_ms
from redisq_ops.core.redis.operation import Call, Description, apart, both, together

from .change.audit_log import ChangeOutcome
from .deployment import Deployment
from .hint import hint

T = TypeVar("T")

CHUNK = 100
"""keys looked into side by side"""
PARTS = 100_000
"""keys remembered of one queue"""
NAMES = 1000
"""names read of a set of queues"""
_LONGEST = 128
NOTHING = Checkup()


@dataclass(slots=True)
class Find:
    """A queue as its keys tell it. ``what``: its owner's name for it, or its key."""

    kind: str
    what: bytes
    at: bytes
    parts: set[bytes] = field(default_factory=set)
    """what was found of it, where its layout keeps no index"""


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


@dataclass(slots=True)
class _Jobs:
    """Lists of jobs, and a set of queues, whose keys begin alike: Resque's, Sidekiq's, nobody's."""

    listed: bool = False
    lists: dict[bytes, detect.Jobs | None] = field(default_factory=dict)
    waits: bool = False
    """a set of Sidekiq's is there: its queues may all be empty, and then nothing names one"""


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
        lanes: tuple[Lane, ...] = detect.LANES
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
        """keys that are called as those of a framework that can't be read here"""
        self._clock = clock
        self._began = 0.0
        self._ours = _ours(deployment.prefix)
        self._now = 0
        self._groups: dict[bytes, frozenset[bytes]] = {}
        self._delays: set[bytes] = set()
        self._circles: set[bytes] = set()
        self._requests: set[bytes] = set()
        self._tokens = False
        self._fair: dict[bytes, str | None] = {}
        self._carmine: set[bytes] = set()
        self._carmine_4: set[tuple[bytes, bytes]] = set()
        self._jobs: dict[bytes, _Jobs] = {}

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

    # --- what a key says ------------------------------------------------------------------------

    async def _sort(self, type_: str, key: bytes) -> None:
        """Remember what a key tells. A key that went, or changed its type, tells nothing."""
        # A stream may be anybody's, and those of frameworks have no groups.
        if type_ != "stream" and (framework := detect.framework(key)):
            self.frameworks[framework] += 1
        elif four := detect.CARMINE_4.fullmatch(key):
            self._carmine_4.add((four[1], four[2]))
        elif type_ == "stream":
            await self._stream(key)
        elif type_ == "zset":
            if (part := detect.JOB_SET.fullmatch(key)) and (
                (await detect.first_job(key)).of == "sidekiq"
            ):
                self._jobs.setdefault(part[1], _Jobs()).waits = True
            elif await detect.is_schedule(key, self._now):
                self._delays.add(key)
        elif type_ == "list":
            await self._list(key)
        elif (part := detect.REQUEST_PART.fullmatch(key)) and type_ == "string":
            self._request(part[1])
        elif (part := detect.CARMINE_PART.fullmatch(key)) and type_ in ("hash", "set"):
            self._carmine.add(part[1])
        elif key.startswith(detect.FAIR) and type_ == "set":
            self._fair[key] = None
        elif (part := detect.JOB_QUEUES.fullmatch(key)) and type_ == "set":
            self._jobs.setdefault(part[1], _Jobs()).listed = True

    async def _stream(self, key: bytes) -> None:
        groups = frozenset(group.name for group in await detect.stream_groups(key))
        part = detect.REQUEST_PART.fullmatch(key)
        if part and key.startswith(b"sub:") and groups <= {key}:
            self._request(part[1])
        elif groups:
            self._groups[key] = groups

    def _request(self, id: bytes) -> None:
        if len(self._requests) < PARTS:
            self._requests.add(id)

    async def _list(self, key: bytes) -> None:
        if detect.REQUEST_TOKENS.fullmatch(key):
            self._tokens = True
            return
        if part := detect.CARMINE_PART.fullmatch(key):
            self._carmine.add(part[1])
            return
        named = detect.JOB_LIST.fullmatch(key)
        size = await detect.mean_size(key)
        if key.startswith(detect.FAIR):
            if len(self._fair) < PARTS:
                self._fair[key] = (await detect.next_job(key, size)).client
            return
        if named:
            jobs = self._jobs.setdefault(named[1], _Jobs())
            jobs.lists[named[2]] = (await detect.next_job(key, size)).of
            if jobs.lists[named[2]]:
                return
        if await detect.is_turning(key, size):
            self._circles.add(key)

    # --- what all of them say together -----------------------------------------------------------

    async def finds(self) -> list[Find]:
        """The queues found so far, each once, in a fixed order."""
        jobs = await self._of_jobs()
        claimed = {find.at for find in jobs}
        found = [*jobs, *self._of_fair()]
        found += [Find("carmine", name, detect.CARMINE) for name in self._carmine]
        found += [Find("carmine-4", name, at) for at, name in self._carmine_4]
        if self._requests or self._tokens:
            found.append(Find("raw-request", b"req", b"", set(self._requests)))
        for kind, keys in (
            ("stream", self._groups), ("raw-delay", self._delays), ("raw-circular", self._circles)
        ):  # fmt: skip
            free = [key for key in keys if not _belongs(key, claimed)]
            found += [Find(kind, key, key) for key in await self._not_ours(free)]
        return sorted(found, key=lambda find: (find.kind, find.what, find.at))

    async def _not_ours(self, keys: list[bytes]) -> list[bytes]:
        """Without those of our own deployments under other prefixes."""
        prefixes = sorted({named[1] for key in keys if (named := detect.OURS.match(key))})
        types = await together(_type(prefix + b":registry") for prefix in prefixes)
        # One that can't be asked may be ours: better not shown than noted as another program's.
        ours = {
            prefix
            for prefix, type_ in zip(prefixes, types, strict=True)
            if type_ in (b"hash", None)
        }
        return [key for key in keys if not ((n := detect.OURS.match(key)) and n[1] in ours)]

    def _of_fair(self) -> list[Find]:
        """Which queue a list is of: its next message names the client, the rest is the queue."""
        queues: dict[bytes, Find] = {}

        def of(what: bytes) -> Find:
            return queues.setdefault(what, Find("raw-fair", what, detect.FAIR))

        unsure = []
        for key, client in self._fair.items():
            rest = key.removeprefix(detect.FAIR)
            begin, _, name = rest.partition(b":")
            if begin in (b"processing", b"dead") and name:
                of(name)
            elif client is not None and rest.endswith(b":" + bytes_of(client)):
                of(rest[: -len(bytes_of(client)) - 1])
            else:
                unsure.append(rest)
        for rest in unsure:
            known = [what for what in queues if rest.startswith(what + b":")]
            of(max(known, key=len) if known else rest.rpartition(b":")[0] or rest)
        lists = [
            key for key in self._fair
            if key.removeprefix(detect.FAIR).partition(b":")[0] not in (b"processing", b"dead")
        ]  # fmt: skip
        for what, queue in queues.items():
            queue.parts = {key for key in lists if key.startswith(detect.FAIR + what)}
        return list(queues.values())

    async def _of_jobs(self) -> list[Find]:
        found = []
        for at, jobs in self._jobs.items():
            told = [of for of in jobs.lists.values() if of]
            if not told and not jobs.listed:
                continue
            key = at + b"queues"
            sscan: Call[list[bytes]] = Call(
                ("SSCAN", key, 0, "COUNT", NAMES), lambda r: list(r[1]), key=key
            )
            names = await apart(sscan)
            listed = [] if isinstance(names, Exception) else names
            if not told and any(name.startswith(at + b"queue:") for name in listed):
                continue  # RQ's set is called the same, and holds whole keys
            kind = Counter(told).most_common(1)[0][0] if told else await _beside(at)
            if kind is None:
                continue
            of = {name: jobs.lists.get(name) or kind for name in listed}
            of |= {name: is_ for name, is_ in jobs.lists.items() if is_}
            found += [Find(is_, name, at) for name, is_ in of.items()]
        named = {find.at for find in found if find.kind == "sidekiq"}
        # Without a queue's name it is their whole deployment, which has none of its own.
        nameless = [at for at, jobs in self._jobs.items() if jobs.waits and at not in named]
        return found + [Find("sidekiq", b"", at) for at in nameless]


def _ours(prefix: str) -> re.Pattern[bytes]:
    """Our keys: by tag, the registry, and what stands beside another program's."""
    kinds = "|".join(map(re.escape, (*KINDS, *LAYOUTS)))
    own = rf"(?:.*:)?{re.escape(prefix)}:(?:registry\Z|(?:\w+:)?\{{|(?:{kinds}):)"
    return re.compile(bytes_of(own), re.DOTALL)


def _belongs(key: bytes, homes: Iterable[bytes]) -> bool:
    """Whether a key is one that Resque or Sidekiq keep beside their lists."""
    for at in homes:
        rest = key.removeprefix(at) if key.startswith(at) else b""
        if any(rest in kept for kept in detect.JOB_SIGNS.values()):
            return True
        if rest.startswith(b"queue:") or re.fullmatch(rb"delayed:\d+", rest):
            return True
    return False


async def _beside(at: bytes) -> detect.Jobs | None:
    """Whose the keys beside a set of queues are, where no list has a job to tell by."""
    for kind, kept in detect.JOB_SIGNS.items():
        types = await together(_type(at + part) for part in kept)
        if any(is_ == wanted for is_, wanted in zip(types, kept.values(), strict=True)):
            return kind
    return "resque" if at.endswith(b"resque:") else None


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


def _is_shard(reader: type[ForeignQueue[Any]], own: str, entries: Mapping[str, Registered]) -> bool:
    place = reader.shard_of(own)
    return place is not None and _is_ours(reader.kind, entries.get(place[0]), place[1])


def _by_name(reader: type[ForeignQueue[Any]] | None, name: str, at: str, own: str) -> bool:
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
    if isinstance(queue, RawLayout) and row.find.parts:
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
