"""A plain stream with its consumer groups, as a queue: kind ``stream``.

The one key is ``at``, or the part of the name behind the colon (``stream:orders``). Each group
reads by itself, so an entry may be pending in one and waiting for another; ids name the group
(``group:ms-seq``). *Waiting* are the entries that the group furthest behind hasn't received,
*pending* those that any group has delivered and not acknowledged. Entries that all groups have
acknowledged stay in the stream and are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from redis import RedisCluster
from redis.asyncio import RedisCluster as AsyncRedisCluster

from ...engine.operator_changes import ChangeUndo
from ...engine.optional_features import HasConsumerGroups
from ...engine.registry import adopt, find, server_ms
from ...engine.state_scan import history_extent
from ...model.activity import Activity, ConsumerSign
from ...model.consumer_load import (
    NOBODY,
    GroupLoad,
    GroupPosition,
    GroupPositions,
    PendingDelivery,
    PendingPage,
    PendingQuery,
    Reassigned,
    StreamId,
    after,
    before,
)
from ...model.cut_element import LARGEST
from ...model.entry import Checkup, Consumer, Counts, Entry, Page, PageQuery, State
from ...model.errors import BadInput, NotFound, Refused, WrongKind
from ...model.keys import GivenKeys
from ...model.queue_position import Ahead, QueuePosition
from ...model.quoting import bytes_of, legal, raw_of, shown, text
from ...redis.operation import C_co, Call, attempt, operation, together
from ...redis.parsers import words
from ...redis.whole_keys import has_type
from ..base import ForeignQueue
from ..long_records import LONG_RECORD, few, mean_bytes, not_read, too_long
from ..paging import with_unread
from . import groups
from .checkup import checkup
from .groups import ConsumerGroup, LabelledGroup

LAGGING = 20
"""groups that are asked when their consumers last read, the furthest behind first"""
CROWD = 1000
"""consumers from which on a group is left out: the server would list all of them"""
AHEAD = 100
"""entries read to count those before an entry: the server sends their fields, too"""
TRIMMED = 10_000
"""entries of a stream removed by one step, which takes the server about a millisecond"""


class StreamQueue(ForeignQueue[C_co], HasConsumerGroups[C_co]):
    """One stream. Its entries are never changed; what changes is what its groups hold and where
    they are, and entries with which all groups are done can be trimmed."""

    public: ClassVar[tuple[str, ...]] = ("groups",)
    kind: ClassVar[str] = "stream"
    package: ClassVar[str] = "foreign.streams"
    one_key: ClassVar[bool] = True
    layout_faults: ClassVar[tuple[str, ...]] = (
        "a pending entry has no deadline: what a dead consumer holds stays there until somebody "
        "claims it",
        "there is no limit of attempts and there are no dead letters: an entry that kills its "
        "consumer comes back for ever",
        "an entry that is trimmed while it is pending is lost, and its id stays pending",
    )

    @property
    def key(self) -> bytes:
        return bytes_of(self.at or self.own_name)

    @operation
    def exists(self) -> Call[bool]:
        return has_type(self.key, "stream")

    def _part(self, group: ConsumerGroup) -> LabelledGroup:
        return LabelledGroup(self.key, group, f"{legal(group.name)}:")

    @property
    def _nobody(self) -> LabelledGroup:
        """Stands for the future readers of a stream without groups."""
        return LabelledGroup(self.key, ConsumerGroup(b"", 0, 0, "0-0", None), ":")

    @operation
    async def groups(self) -> list[ConsumerGroup]:
        """The consumer groups by name."""
        return await groups.groups(self.key)

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        there, length, mean = await together(groups.groups(self.key), self._length(), self._mean())
        last = min((group.place for group in there), default=None)
        behind = min(there, key=lambda group: group.place, default=None)
        low = "-" if last is None else f"({last[0]}-{last[1]}"
        ahead, waiting = None, behind.lag if behind else length
        if mean <= LONG_RECORD:
            ahead = await groups.content(self.key, low, "+", 1)
            waiting = waiting if ahead else 0
        unknown: frozenset[State] = frozenset({"done"})
        return Counts(
            waiting or 0,
            sum(group.pending for group in there),
            0,
            0,
            0,
            0,
            groups.came_ms(ahead[0][0]) if ahead else None,
            unknown=unknown | {"waiting"} if waiting is None else unknown,
        )

    @operation
    async def activity(self, since_ms: int, known_ms: int | None = None) -> Activity:
        """When the most neglected group that lags was last read, and when each consumer of a group
        with pending entries last read. Unknown if no group lags: a consumer that waits for new
        entries looks idle, too."""
        there, now = await together(groups.groups(self.key), self._now())
        behind = sorted((group for group in there if group.lag), key=lambda group: group.place)
        holding = [group for group in there if group.pending]
        asked = {
            group.name: group
            for group in behind[:LAGGING] + holding[:LAGGING]
            if group.consumers < CROWD
        }
        read = (groups.consumers(self._part(group)) for group in asked.values())
        found = dict(zip(asked, await together(read), strict=True))
        complete = all(group.name in found for group in holding)
        signs = _signs(found, now) if complete else None
        readers = [found[group.name] for group in behind[:LAGGING] if group.name in found]
        if not readers:
            return Activity(signs=signs)
        idle_ms = [min((one.idle_ms for one in each), default=None) for each in readers]
        if None in idle_ms:
            return Activity(askers=0, registered=True, signs=signs)
        longest = max(range(len(readers)), key=lambda at: idle_ms[at] or 0)
        asked_ms = now - (idle_ms[longest] or 0)
        return Activity(asked_ms, len(readers[longest]), registered=True, signs=signs)

    async def _mean(self) -> int:
        """Bytes of an entry on average, as the server estimates it; 0: not known."""
        return await mean_bytes(self.key, self._length())

    def _length(self) -> Call[int]:
        return Call(("XLEN", self.key), int, key=self.key)

    async def _page(self, state: State, query: PageQuery) -> Page:
        if state not in ("waiting", "pending"):
            return Page((), None, 0)
        there, now, mean, length = await together(
            groups.groups(self.key), self._now(), self._mean(), self._length()
        )
        problem = too_long(text(self.key), mean) if mean > LARGEST else None
        if state == "pending":
            total = sum(group.pending for group in there)
            if query.payloads and not problem:
                query = replace(query, max=few(query.max, mean) or 1)
            short = replace(query, payloads=query.payloads and not problem)
            page = await groups.page(state, list(map(self._part, there)), total, short, now)
            if query.payloads and problem:
                unread = (replace(one, problem=not_read(mean)) for one in page.entries)
                page = replace(page, entries=tuple(unread))
            return page
        part, total = self._nobody, length
        if there:
            group = min(there, key=lambda group: group.place)
            part, total = self._part(group), group.lag or 0
        start = query.start or 0
        read = few(start + query.max, mean) - start if query.glance else few(query.max, mean) or 1
        if read <= 0 or problem:
            page = Page((), None, total, exact=not problem, problem=problem)
        else:
            page = await groups.page(state, [part], total, replace(query, max=read), now)
        return with_unread(page, state, query, read, mean)

    @operation
    async def get(self, id: str) -> Entry | None:
        """An entry as a group sees it (``group:ms-seq``), or as the first group does that has it
        pending or still to come (``ms-seq``)."""
        there, now = await together(groups.groups(self.key), self._now())
        found = await self._seen(id, there, now)
        return found[0][1] if found else None

    async def _seen(
        self, id: str, there: Sequence[ConsumerGroup], now: int
    ) -> list[tuple[LabelledGroup, Entry]]:
        """An entry as each group sees it, or only the group that its id names. The first row gives
        the entry's state, and is the same in every call."""
        label, _, rest = id.rpartition(":")
        parts = [self._part(group) for group in there] or [self._nobody]
        if label:
            parts = [part for part in parts if part.label == f"{label}:"]
        parts = [part for part in parts if part.rest(part.label + rest)]
        mean = await self._mean()
        if mean > LARGEST:
            held = await together(groups.held(part, rest, rest, 1) for part in parts)
            found = [
                groups.held_unread(part, rows[0], now, mean) if rows else None
                for part, rows in zip(parts, held, strict=True)
            ]
            if not any(found):
                raise WrongKind(too_long(text(self.key), mean))
        else:
            found = await together(groups.entry(part, rest, now) for part in parts)
        known = [(part, one) for part, one in zip(parts, found, strict=True) if one is not None]
        states = ("pending", "waiting", "done")
        return sorted(known, key=lambda each: states.index(each[1].state))

    async def _get_waiting(self, id: str) -> Entry | None:
        return None

    @operation
    async def consumers(self, id: str) -> list[Consumer]:
        """The consumers of a group, or of all (``''``), as ``group:consumer``."""
        rows = await together(groups.consumers(part) for part in await self._named(id))
        return [consumer for found in rows for consumer in found]

    async def _named(self, group: str) -> list[LabelledGroup]:
        """The group of that name, or all of them."""
        there = [self._part(one) for one in await groups.groups(self.key)]
        return [part for part in there if shown(group) in ("", part.label[:-1])]

    @operation
    async def group_loads(self, group: str = "") -> list[GroupLoad]:
        """The load of a group, or (``''``) of each group."""
        return [
            GroupLoad(part.label[:-1], part.group.pending, part.group.lag)
            for part in await self._named(group)
        ]

    async def _pending_deliveries(self, query: PendingQuery) -> PendingPage:
        """One window of a group's pending list, in the order of ids; ``query.after`` is an id."""
        part = await self._one(query.group)
        nobody = query.consumer == NOBODY
        named = "" if nobody else query.consumer
        rows = await groups.held(part, query.low, "+", query.max, named)
        more = rows[-1].id if len(rows) == query.max else None
        rows = [row for row in rows if not nobody or row.consumer is None]
        found = (PendingDelivery(row.id, row.consumer, row.idle_ms, row.deliveries) for row in rows)
        return PendingPage(tuple(found), part.group.pending, more)

    async def _one(self, group: str) -> LabelledGroup:
        parts = await self._named(group)
        if not parts:
            raise NotFound(f"stream {self.name} has no group {group!r}")
        return parts[0]

    @operation
    async def reassign(
        self,
        group: str,
        consumer: str,
        to: str,
        ids: Sequence[str],
        *,
        min_idle_ms: int = 0,
        remove: bool = False,
        op: str = "",
    ) -> Reassigned:
        """``ids`` as in `pending_deliveries`. An entry's age and number of deliveries stay."""
        part = await self._one(group)
        keys, counted = await self._keys_of_step(op)

        def read(reply: list[bytes]) -> Reassigned:
            removed, *answer = words(reply)
            now = tuple("moved" if word == "there" else word for word in answer)
            return Reassigned(now, removed == "1", answer.count("there"), counted)

        return await self._script("reassign").call(
            keys,
            self.clock,
            read,
            [(id,) for id in ids],
            group=part.group.name,
            consumer=bytes_of("" if consumer == NOBODY else consumer),
            to=bytes_of(to),
            min_idle=min_idle_ms,
            remove=int(remove),
        )

    async def _keys_of_step(self, op: str) -> tuple[GivenKeys, bool]:
        """The keys of a step: the stream, and the operation's entry in our audit log. False:
        without the latter, which a cluster keeps in another slot than the owner's key."""
        await self._register()
        apart = not op or isinstance(self.client, (RedisCluster, AsyncRedisCluster))
        stream = text(self.key)
        journal = stream if apart else self.keys["op_"] + op
        return GivenKeys(stream=stream, journal=journal), not apart

    async def give_back_refused(self) -> str | None:
        # Without the other arguments it fails in any case, and changes nothing.
        answer = await attempt(Call(("XNACK", self.key), str, key=self.key))
        if "unknown command" not in str(answer):
            return None
        return (
            "what a group has received can't wait for it again on this server, which lacks XNACK "
            "(Redis 8.8)"
        )

    @operation
    async def settle_held(
        self,
        group: str,
        consumer: str,
        ids: Sequence[str],
        *,
        acknowledge: bool,
        min_idle_ms: int,
        op: str,
        step: int,
    ) -> Reassigned:
        part = await self._one(group)
        keys, counted = await self._keys_of_step(op)
        if not acknowledge and (why := await self.give_back_refused()) is not None:
            raise Refused(f"queue {self.name}: {why}")
        return await self._script("acknowledge" if acknowledge else "give_back").call(
            keys,
            self.clock,
            lambda reply: Reassigned(tuple(words(reply)), counted=counted),
            [(id,) for id in ids],
            group=part.group.name,
            consumer=bytes_of("" if consumer == NOBODY else consumer),
            min_idle=min_idle_ms,
            seq=step,
        )

    @operation
    async def group_positions(self) -> GroupPositions:
        there, extent = await together(
            groups.groups(self.key), history_extent(text(self.key))._replace(cut=True)
        )
        parts = [self._part(group) for group in there]
        firsts = await together(groups.held(part, "-", "+", 1) for part in parts)
        found = [
            GroupPosition(
                part.label[:-1],
                StreamId(*part.group.place),
                part.group.read,
                part.group.lag,
                part.group.pending,
                StreamId(*groups.place(rows[0].id)) if rows else None,
                part.group.consumers,
            )
            for part, rows in zip(parts, firsts, strict=True)
        ]
        start, end = (StreamId(*groups.place(id)) for id in (extent.first or "0-0", extent.last))
        return GroupPositions(tuple(found), start, end, extent.length)

    def position(self, where: str | int, end: StreamId) -> StreamId:
        if where == "start":
            return StreamId(0, 0)
        if where == "end":
            return end
        if isinstance(where, int):
            if end.ms and groups.came_ms(str(end)) is None:
                raise BadInput(f"the ids of {self.name} are no times: name an id")
            found = before(StreamId(where, 0))
        else:
            found = StreamId(*groups.place(where if "-" in where else f"{where}-0"))
        if found > end:
            raise BadInput(f"{found} is behind the last entry of {self.name}, {end}")
        return found

    @operation
    async def place_group(
        self,
        group: str,
        was: StreamId | None,
        to: StreamId | None,
        *,
        read: int | None = None,
        unused: bool = False,
    ) -> str:
        keys, _ = await self._keys_of_step("")
        return await self._script("place_group").call(
            keys,
            self.clock,
            bytes.decode,
            group=raw_of(group),
            was=str(was or ""),
            to=str(to or ""),
            entries_read=-1 if read is None else read,
            unused=int(unused),
        )

    @operation
    async def trim_step(self, upto: StreamId, op: str) -> int | None:
        keys, _ = await self._keys_of_step(op)
        return await self._script("trim").call(
            keys,
            self.clock,
            lambda gone: None if gone < 0 else int(gone),
            upto=str(upto),
            high=str(after(upto)),
            most=TRIMMED,
        )

    async def _register_again(self) -> None:
        await ForeignQueue._register_again(self)
        await self._register()

    async def _register(self) -> None:
        """Write the registry entry before the first change, so that the audit log is found."""
        if not self._registered and await find(self.name, self.prefix) is None:
            now = await server_ms()
            # With its key, as `discover` does: else `discover` finds it under a second name.
            await adopt(replace(self._as_registered(now), at=text(self.key)), self.prefix)
        self._registered = True

    async def _undo_change(self, undo: ChangeUndo) -> int:
        """Undo ``reassign GROUP CONSUMER TO ID…`` for ids that are still pending, ``pend GROUP
        CONSUMER ID/MS/DELIVERIES…`` for ids that are not, ``place GROUP WAS TO READ`` if the group
        is where the change left it. Names are quoted; ``-``: no group, unknown."""
        verb, args = undo.verb, undo.args
        if verb == "place":
            ends = (StreamId(*groups.place(id)) if id != "-" else None for id in args[1:3])
            read = int(args[3]) if args[3] != "-" else None
            word = await self.place_group.op(args[0], *ends, read=read, unused=True)
            if word in ("changed", "holds"):
                undo.left([args[0]])
            return int(word not in ("changed", "holds"))
        if verb not in ("reassign", "pend"):
            return await ForeignQueue._undo_change(self, undo)
        group, consumer, to = (text(raw_of(word)) for word in args[:3])
        if verb == "reassign":
            ids = args[3:]
            done = await self.reassign.op(group, consumer, to, ids, op=undo.op)
        else:
            held = [each.split("/") for each in args[2:]]
            ids = [id for id, *_ in held]
            done = await self._pend(group, consumer, held)
        undo.left([id for id, word in zip(ids, done.words, strict=True) if word != "moved"])
        return done.words.count("moved") - done.already

    async def _pend(self, group: str, consumer: str, held: Sequence[Sequence[str]]) -> Reassigned:
        part = await self._one(group)
        keys, _ = await self._keys_of_step("")

        def read(reply: list[bytes]) -> Reassigned:
            answer = words(reply)
            now = tuple("moved" if word == "there" else word for word in answer)
            return Reassigned(now, already=answer.count("there"))

        name = bytes_of("" if consumer == NOBODY else consumer)
        call = self._script("pend").call
        return await call(keys, self.clock, read, held, group=part.group.name, consumer=name)

    def undo_change_size(self, verb: str, args: Sequence[str]) -> int:
        names = {"reassign": 3, "pend": 2}.get(verb)
        return super().undo_change_size(verb, args) if names is None else len(args) - names

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        """As seen by the group that `get` uses; if there is none, by the group furthest behind."""
        there, now = await together(groups.groups(self.key), self._now())
        if not there:
            return QueuePosition(askers=0)
        seen = await self._seen(id, there, now) if id else []
        part = seen[0][0] if seen else self._part(min(there, key=lambda group: group.place))
        group, entry = part.group, seen[0][1] if seen else None
        readers = await groups.consumers(part)
        holder = part.label + entry.consumer if entry is not None and entry.consumer else None
        heard = next((now - one.idle_ms for one in readers if one.name == holder), None)
        found = entry.id.removeprefix(part.label) if entry is not None else None
        ahead: tuple[Ahead, ...] = ()
        before = None
        if found is not None and groups.place(found) > group.place:
            command = ("XRANGE", self.key, f"({group.last}", f"({found}", "COUNT", AHEAD)
            before = await Call(command, len, key=self.key, cut=True)
            ahead = (Ahead("entries of the stream", before, before < AHEAD),) if before else ()
        return QueuePosition(
            here=True,
            askers=len(readers),
            group=part.label[:-1],
            before=before,
            asked_ms=max((now - one.idle_ms for one in readers), default=None),
            ahead=ahead,
            before_exact=before is not None and before < AHEAD,
            heard_ms=heard,
            beside=tuple(one for _, one in seen[1:] if one.state in ("pending", "waiting")),
        )

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        parts = [self._part(group) for group in await groups.groups(self.key)]
        return await checkup(parts, thorough, await self._mean())

    @operation
    async def invariants(self) -> list[str]:
        return list((await self.checkup.op(thorough=True)).flaws)


def _signs(readers: Mapping[bytes, Sequence[Consumer]], now_ms: int) -> tuple[ConsumerSign, ...]:
    """When each consumer last read; under a name that several groups have, the latest of them.

    ``readers``: by the name of their group. Negative idle times are unknown ones."""
    latest: dict[str, int] = {}
    for group, consumers in readers.items():
        for one in consumers:
            name = one.name.removeprefix(f"{legal(group)}:")
            if one.idle_ms >= 0:
                latest[name] = max(latest.get(name, 0), now_ms - one.idle_ms)
    return tuple(ConsumerSign(name, seen_ms) for name, seen_ms in latest.items())
