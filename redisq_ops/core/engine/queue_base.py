"""What every queue is built on: its names, its scripts, and what its kind says of itself."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import unquote

from ..model.clock import Clock, ServerClock
from ..model.entry import State
from ..model.errors import WrongKind
from ..model.keys import PREFIX, Keys, checked_name, checked_prefix
from ..model.states import FIXED, VERBS, Verb
from ..redis import acl_rights
from ..redis.operation import Bound, C_co, Call, both, operation, together
from ..redis.scripts import Script, script
from .declared_features import DeclaredFeatures
from .idempotency import Callers
from .registry import enrol, find, server_ms

if TYPE_CHECKING:
    from .queue import Queue


class Room(DeclaredFeatures, Bound[C_co], ABC):
    """A queue's keys and the ways to its scripts; nothing of what can be done with it."""

    kind: ClassVar[str]
    schema: ClassVar[int] = 1
    room: ClassVar[str]
    capabilities: ClassVar[frozenset[str]] = frozenset()
    parts: ClassVar[dict[str, str]] = {}
    """the room's own fixed keys, beside `FIXED`"""
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        verb: states for verb, (states, _) in VERBS.items() if verb not in ("reschedule", "move")
    }
    """what an operator can do here, and to entries of which states (`move` takes two queues)"""
    fronts: ClassVar[frozenset[State]] = frozenset({"dead", "trash"})
    """states that can be moved whole, the server choosing what is next: see `move_front`"""
    accepts: ClassVar[frozenset[State]] = frozenset()
    """states in which entries that were exported can be taken in: see `accept`"""
    editable: ClassVar[tuple[State, ...]] = ("delayed", "dead")
    """states whose entries can be given another payload"""
    settable: ClassVar[bool] = True
    """whether it has settings and flags (paused, closed)"""
    rules: ClassVar[Mapping[str, range]] = {}
    """what can be set of a client (``clients`` in `capabilities`), and to which values"""
    faults: ClassVar[tuple[str, ...]] = ()
    """what is known to be wrong with the layout itself, a sentence each"""
    replays: ClassVar[str] = "attempts counted afresh"
    """what a replayed entry's attempts are"""
    unrescued: ClassVar[str] = ""
    """what becomes of the work of a process that is pruned without rescue, in words"""

    def __init__(
        self,
        client: C_co,
        name: str = "default",
        *,
        prefix: str = PREFIX,
        clock: Clock | None = None,
        callers: Callers | None = None,
        shard: int = 0,
        layout: int = 0,
    ) -> None:
        super().__init__(client)
        self.name = checked_name(name, "queue name")
        self.prefix = checked_prefix(prefix)
        self.shard = shard
        self.layout = layout
        # No name has a slash, so no queue can be called like another's shard.
        self.keys = Keys(f"{name}/{shard}" if shard else name, prefix)
        self.clock = clock or ServerClock()
        self.callers = callers or Callers()
        self._enrolled = False
        self._fits = False

    def _script(self, name: str) -> Script:
        return script(self.room, name, self.kinds)

    async def _enrol(self) -> None:
        if not self._enrolled:
            enrolment = enrol(
                self.name, self.kind, self.schema, self.prefix, permitted=self._permitted
            )
            entry, _ = await both(enrolment, self._unobstructed())
            if entry.all_shards > 1:
                raise WrongKind(f"queue {self.name} has shards: open it as a sharded queue")
            self.layout = entry.layout
            self._enrolled = True

    async def _permitted(self) -> None:
        """Refuse a user who may put nothing into the queue, before an empty one is created."""
        await acl_rights.to_put(cast("Queue[Any]", self))

    async def _fit(self) -> None:
        """Once a process: refuse foreign keys in the way of scripts that don't look themselves."""
        if not self._enrolled and not self._fits:
            await self._unobstructed()
            self._fits = True

    async def mistyped(self) -> list[tuple[str, str, str]]:
        """Keys that are of another type than ours: (key, its type, what it should be)."""
        kinds = {self.keys[part]: kind for part, kind in sorted(self.kinds)}
        found = await together(Call(("TYPE", key), bytes.decode, key=key) for key in kinds)
        return [(key, is_, kinds[key]) for key, is_ in zip(kinds, found, strict=True)
                if is_ not in ("none", kinds[key])]  # fmt: skip

    async def _unobstructed(self) -> None:
        """Refuse foreign keys in the way now: a script finds them when it has begun to write."""
        for key, is_, kind in await self.mistyped():
            raise WrongKind(f"key {key} is a {is_} where queue {self.name} has a {kind}")

    async def _guarded(self, name: str, read: Any, rows: Any = (), **argv: Any) -> Any:
        """Run a script in a caller's slot, so that a re-sent call has no effect."""
        loaded = self._script(name)
        with self.callers.turn(name) as (caller, seq):
            try:
                return await loaded.call(
                    self.keys, self.clock, read, rows, caller=caller, seq=seq, **argv
                )
            except WrongKind:
                self._enrolled = self._fits = False  # from now on, look first
                await self._unobstructed()  # now, to name it
                raise

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Its fixed keys' parts, each with its type."""
        return _kinds(type(self))

    @property
    def wake_key(self) -> str:
        """The list an idle worker blocks on; an element is a hint, never work."""
        return self.keys["wake"]

    @property
    def all_keys(self) -> tuple[Keys, ...]:
        """The keys of every shard; wake lists and journals are there, one each."""
        return (self.keys,)

    @property
    def former_keys(self) -> tuple[Keys, ...]:
        """The keys of every shard that may have been given up."""
        return ()

    @operation
    async def exists(self) -> bool:
        """Whether there is such a queue. Its first submission creates it, no look does."""
        return self._enrolled or await find(self.name, self.prefix) is not None

    @operation
    def settings(self) -> Call[dict[str, str]]:
        """The settings that differ from the defaults, and flags (``paused``, ``closed``)."""
        return Call(
            ("HGETALL", self.keys["cfg"]),
            lambda reply: {k.decode(): unquote(v.decode()) for k, v in reply.items()},
            key=self.keys["cfg"],
        )

    @operation
    async def now(self) -> int:
        """The queue's clock: the server's, in ms."""
        return await self._now()

    def _counters(self, *names: str) -> Call[list[int]]:
        """Counters of the queue's ``stat`` hash."""
        key = self.keys["stat"]
        return Call(("HMGET", key, *names), lambda r: [int(v or 0) for v in r], key=key)

    def _flags(self) -> Call[list[str | None]]:
        """Why the queue is paused and why it is closed; None where it isn't."""

        def read(reply: list[bytes | None]) -> list[str | None]:
            return [None if flag is None else unquote(flag.decode()) for flag in reply]

        key = self.keys["cfg"]
        return Call(("HMGET", key, "paused", "closed"), read, key=key)

    async def _now(self) -> int:
        stamp = self.clock.stamp()
        return int(stamp) if stamp else await server_ms()


@cache
def _kinds(queue: type[Room[Any]]) -> frozenset[tuple[str, str]]:
    return frozenset((FIXED | queue.parts).items())
