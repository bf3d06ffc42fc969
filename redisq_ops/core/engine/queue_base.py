"""What every queue is built on: its keys, its scripts, its registry entry, its server clock."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote

from ..model.clock import Clock, ServerClock
from ..model.entry import State
from ..model.errors import BadInput, Unregistered, WrongKind
from ..model.keys import PREFIX, Keys, checked_name, checked_prefix
from ..model.quoting import text
from ..model.retry_policy import RetryPolicy, log
from ..model.settings import STATED_ATTEMPTS
from ..model.states import FIXED, VERBS, Verb
from ..redis import acl_rights
from ..redis.operation import (
    Arg,
    Bound,
    C_co,
    Call,
    Description,
    attempt,
    mode,
    operation,
    together,
)
from ..redis.parsers import integers
from ..redis.script_files import script_names
from ..redis.scripts import Script, script
from ..redis.whole_keys import types_of
from .declared_features import DeclaredFeatures
from .idempotency import CallerSlots
from .registry import MARK, Registered, ensure_registered, find, read_mark, server_ms

T = TypeVar("T")


class _QueueClass(ABCMeta):
    """Makes `help` and completion show what programs call (`QueueBase.public`); the rest is for
    operators' tools."""

    def __dir__(cls) -> list[str]:
        public = {name for each in cls.__mro__ for name in vars(each).get("public", ())}
        return [name for name in super().__dir__() if name in public or name.startswith("_")]


class QueueBase(DeclaredFeatures, Bound[C_co], metaclass=_QueueClass):
    """A queue's keys and scripts, and the class attributes that describe its kind."""

    public: ClassVar[tuple[str, ...]] = ("client", "exists", "settings", "now")
    """names that producers and workers use; a subclass lists those that it adds"""

    kind: ClassVar[str]
    """the kind's name in the registry and on the command line"""
    schema: ClassVar[int] = 1
    """version of the kind's stored layout; a queue of a newer one is refused"""
    package: ClassVar[str]
    """the package that has the kind's Lua files: under `redisq_ops.core`, or outside redisq"""
    keys_class: ClassVar[type[Keys]] = Keys
    """how the kind's keys are named"""
    key_types: ClassVar[dict[str, str]] = {}
    """the kind's own keys, key part -> Redis type, beside those all queues have (`FIXED`)"""
    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        verb: tuple(state for state in states if state != "done")
        for verb, (states, _) in VERBS.items()
        if verb not in ("reschedule", "move")
    }
    """an operator's verbs that this kind supports -> the states whose entries they change
    (without ``move``, which needs a second queue)"""
    orphan_states: ClassVar[tuple[State, ...]] = ()
    """states of which only orphans (`Entry.orphan`) can be purged"""
    range_states: ClassVar[frozenset[State]] = frozenset({"dead", "trash"})
    """states from which `move_range` can move entries without a list of their ids"""
    importable_states: ClassVar[frozenset[State]] = frozenset()
    """states in which `import_entries` can put entries"""
    editable_states: ClassVar[tuple[State, ...]] = ("delayed", "dead")
    """states in which `edit` can change a payload"""
    waiting_depth: ClassVar[int | None] = None
    """waiting entries that a page finds by position (``start``); None: all"""
    bounds_pages: ClassVar[bool] = False
    """whether pages are bounded by their bytes, too: where entries are large, a page has fewer"""
    has_settings: ClassVar[bool] = True
    """whether the queue has settings and the flags ``paused`` and ``closed``"""
    has_rate: ClassVar[bool] = True
    """whether the queue can have a rate (`Settings.rate`): all takes are by our scripts"""
    layout_faults: ClassVar[tuple[str, ...]] = ()
    """known faults of the layout itself, one sentence each"""
    replay_note: ClassVar[str] = "attempts restart at zero"
    """what happens to the attempts of a replayed entry, in words"""

    def __init__(
        self,
        client: C_co,
        name: str = "default",
        *,
        prefix: str | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
        callers: CallerSlots | None = None,
        shard: int = 0,
        layout: int = 0,
    ) -> None:
        """Open a queue. Nothing is sent or written before the first operation.

        ``client``: from `connect` (operations block) or `aconnect` (operations are awaited).
        ``name``: 1 to 128 printable ASCII characters without space, ``{ } * | /``. ``prefix``:
        what all keys of this deployment begin with; None: what `connect` found. ``retry``: how
        often and when a failed entry is tried again. ``clock``: for tests. ``callers``, ``shard``
        and ``layout``: set by a sharded queue for its shards. Raises `BadInput`.
        """
        super().__init__(client)
        self.name = self._checked_name(name)
        own = getattr(client, "redisq_prefix", PREFIX) if prefix is None else prefix
        self.prefix = checked_prefix(own)
        if not isinstance(retry, RetryPolicy | None):
            raise BadInput(f"retry must be a RetryPolicy, not {type(retry).__name__}")
        self.retry = retry
        self.shard = shard
        self.layout = layout
        self.keys = self.keys_class(self.name, self.prefix, shard)
        self.clock = clock or ServerClock()
        self.callers = callers or CallerSlots()
        self._registered = False
        self._whole: QueueBase[Any] | None = None
        """the queue that this shard is a part of"""
        self._key_types_checked = False

    @staticmethod
    def _checked_name(name: str) -> str:
        """The queue's name; raises `BadInput` for one that no queue of this kind can have."""
        return checked_name(name, "queue name")

    def typed_id(self, words: str) -> str:
        """The id as redisq shows it, for the id that a user typed."""
        return words

    def __repr__(self) -> str:
        shard = f"/{self.shard}" if self.shard else ""
        return f"<{type(self).__name__} {self.name + shard!r} ({mode(self.client)})>"

    def __dir__(self) -> list[str]:
        """What an interactive shell offers as completions."""
        own = [name for name in dir(type(self)) if not name.startswith("_")]
        return [*own, "keys", "name", "prefix"]

    # --- scripts and the registry --------------------------------------------------------------

    def _script(self, name: str) -> Script:
        return script(self.package, name, self._all_key_types)

    def _call_script(
        self,
        name: str,
        read: Callable[[Any], T],
        rows: Iterable[Sequence[Arg]] = (),
        /,
        **argv: Arg,
    ) -> Call[T]:
        """Describe a run of a script; ``argv`` and ``rows`` as its header has them."""
        return self._script(name).call(self.keys, self.clock, read, rows, **argv)

    def script_digests(self) -> dict[str, str]:
        """SHA-1 -> name of each script of the queue, as the server's slow log has them."""
        found = {}
        for name in script_names(self.package):
            with suppress(FileNotFoundError):  # of the engine, for kinds with other hooks
                found[self._script(name).sha] = name
        return found

    async def _ensure_registered(self) -> None:
        """Find the queue's registry entry or create it, once per object."""
        while not self._registered:
            entry, _ = await together(self._registry_entry(), self._refuse_wrong_types())
            if entry.all_shards > 1:
                raise WrongKind(f"queue {self.name} has shards: open it as a sharded queue")
            self.layout = entry.layout
            self._registered = await self._is_marked(entry)

    def refuse_several_slots(self) -> None:
        """Raise `Refused` where a Cluster has the keys in several slots: a script can't run."""

    def _registry_entry(self, shards: int = 1) -> Description[Registered]:
        """The registry's entry; a new one has the number of shards and the layout given here."""
        return ensure_registered(
            self.name,
            self.kind,
            self.schema,
            self.prefix,
            shards,
            self._check_submit_rights,
            layout=self.layout,
            mark=read_mark(self.keys),
        )

    async def _is_marked(self, entry: Registered) -> bool:
        """Write the registration mark into every shard that has none. False: a shard had none, so
        the caller reads the registry again: the server may have lost its data in between.

        A refused write is no error: workers need no mark, and scripts that need it report it.
        """
        if self.retry is not None:
            await self._keep_attempts(self.retry.attempts)
        places = self.shard_keys
        marks = await together(read_mark(keys) for keys in places)
        marking = self._script("mark_registered")
        left = await attempt(
            together(
                marking.call(keys, self.clock, int, mark=entry.mark)
                for keys, mark in zip(places, marks, strict=True)
                if mark is None
            )
        )
        return isinstance(left, Exception) or not left

    async def _keep_attempts(self, attempts: int | None) -> None:
        """Keep the attempts that the code states with the queue, where scripts and operators see
        them; None: what other code stated is over. An operator's setting stays in force."""
        keys = [keys["cfg"] for keys in self.shard_keys]
        stated = None if attempts is None else str(attempts).encode()
        there = await together(
            Call(("HMGET", key, STATED_ATTEMPTS, "max_failures"), list[bytes | None], key=key)
            for key in keys
        )
        change = ("HDEL",) if stated is None else ("HSET", stated)
        left = await attempt(
            together(
                Call((change[0], key, STATED_ATTEMPTS, *change[1:]), int, key=key)
                for key, (kept, _) in zip(keys, there, strict=True)
                if kept != stated
            )
        )
        said = "queue %s: attempts=%s of the code isn't in force: %s"
        if isinstance(left, Exception):  # the server is full: workers go on
            log.warning(said, self.name, attempts, left)
        elif stated is not None and (setting := there[0][1]) not in (None, stated):
            log.warning(said, self.name, attempts, f"the setting max_failures is {text(setting)}")

    async def _register_again(self) -> None:
        """Register the whole queue after a script found no mark: the server lost the queue's data.
        The number of shards stays."""
        whole = self._whole or self
        whole._registered = False
        await whole._ensure_registered()

    async def _call_registered(
        self,
        name: str,
        read: Callable[[Any], T],
        rows: Iterable[Sequence[Arg]] = (),
        /,
        **argv: Arg,
    ) -> T:
        """`_call_script` for a script that stores something: see `_register_again`."""
        return await self._once_registered(self._call_script(name, read, rows, **argv))

    async def _once_registered(self, call: Call[T]) -> T:
        try:
            return await call
        except Unregistered:
            await self._register_again()
            return await call

    async def _check_submit_rights(self) -> None:
        """Raise `Forbidden` for a user who can't submit, before an empty queue is created."""
        await acl_rights.to_put(self)

    async def _check_key_types_once(self) -> None:
        """Check key types once per object, for scripts that don't check them at each call."""
        if not self._registered and not self._key_types_checked:
            await self._refuse_wrong_types()
            self._key_types_checked = True

    async def _expected_types(self) -> dict[str, str]:
        """The Redis type of each key that has a fixed name."""
        return {self.keys[part]: type_ for part, type_ in sorted(self._all_key_types)}

    async def _wrong_type_keys(self) -> list[tuple[str, str, str]]:
        """Keys of another Redis type than the queue's: (key, its type, the expected type)."""
        expected = await self._expected_types()
        found = await types_of(expected)
        return [
            (key, is_, expected[key])
            for key, is_ in found.items()
            if is_ not in ("none", expected[key])
        ]

    async def _refuse_wrong_types(self) -> None:
        """Raise `WrongKind` for a key of another type; a script finds out after its first write."""
        for key, is_, kind in await self._wrong_type_keys():
            raise WrongKind(f"key {key} is a {is_} where queue {self.name} has a {kind}")

    async def _call_idempotent(
        self, name: str, read: Any, rows: Any = (), slot: str = "", **argv: Any
    ) -> Any:
        """Run a script in a caller slot: the same call sent again changes nothing."""
        loaded = self._script(name)
        with self.callers.borrow(slot or name) as (caller, seq):
            try:
                return await self._once_registered(
                    loaded.call(self.keys, self.clock, read, rows, caller=caller, seq=seq, **argv)
                )
            except WrongKind:
                self._registered = self._key_types_checked = False  # check again at the next call
                await self._refuse_wrong_types()  # and now, because this names the key
                raise

    # --- keys ----------------------------------------------------------------------------------

    @property
    def _all_key_types(self) -> frozenset[tuple[str, str]]:
        """Every fixed key of the queue: (key part, Redis type)."""
        return _types_of_keys(type(self))

    @property
    def shard_queues(self) -> Sequence[QueueBase[Any]]:
        """See `Queue.shard_queues`."""
        return (self,)

    @property
    def shard_keys(self) -> tuple[Keys, ...]:
        """The keys of every shard; each has its own wake list and audit log."""
        return (self.keys,)

    @property
    def former_shard_keys(self) -> tuple[Keys, ...]:
        """The keys of every shard that the queue may have had once and has no more."""
        return ()

    # --- small reads ---------------------------------------------------------------------------

    @operation
    async def exists(self) -> bool:
        """Whether the queue exists. The first submission creates it; reading never does."""
        if self._registered:
            return True
        entry, mark = await together(find(self.name, self.prefix), read_mark(self.keys))
        return entry is not None or mark is not None

    @operation
    def settings(self) -> Call[dict[str, str]]:
        """Settings that differ from their defaults, and the flags ``paused`` and ``closed``."""

        def read(reply: dict[bytes, bytes]) -> dict[str, str]:
            found = {k.decode(): unquote(v.decode()) for k, v in reply.items()}
            found.pop(MARK, None)
            if stated := found.pop(STATED_ATTEMPTS, ""):
                found.setdefault("max_failures", stated)
            return found

        return Call(("HGETALL", self.keys["cfg"]), read, key=self.keys["cfg"])

    @operation
    def stated_attempts(self) -> Call[str]:
        """``max_failures`` as the code states it (`RetryPolicy`); empty: it doesn't."""
        key = self.keys["cfg"]
        return Call(("HGET", key, STATED_ATTEMPTS), lambda reply: text(reply or b""), key=key)

    @operation
    async def now(self) -> int:
        """The queue's clock: the server's time, in ms since 1970 (UTC)."""
        return await self._now()

    def _counters(self, *names: str) -> Call[list[int]]:
        """Counters of the queue's ``stat`` hash."""
        key = self.keys["stat"]
        return Call(("HMGET", key, *names), integers, key=key)

    def _flags(self, *more: str) -> Call[list[str | None]]:
        """The reason why the queue is paused and why it is closed; None where it isn't. ``more``:
        settings to read with them."""

        def read(reply: list[bytes | None]) -> list[str | None]:
            return [None if flag is None else unquote(flag.decode()) for flag in reply]

        key = self.keys["cfg"]
        return Call(("HMGET", key, "paused", "closed", *more), read, key=key)

    async def _now(self) -> int:
        stamp = self.clock.stamp()
        return int(stamp) if stamp else await server_ms()


@cache
def _types_of_keys(queue: type[QueueBase[Any]]) -> frozenset[tuple[str, str]]:
    return frozenset((FIXED | queue.key_types).items())
