"""Values that queues return. Times are integer ms since 1970 (UTC) by the server's clock."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, dataclass_transform, get_args

from .clock import Seconds
from .row_fields import UNPRINTED, Duration, Size, Text, Time

State: TypeAlias = Literal["waiting", "pending", "delayed", "dead", "done", "trash"]
STATES: tuple[State, ...] = ("waiting", "pending", "delayed", "dead", "done", "trash")


class Delivery(NamedTuple):
    """An entry that one consumer holds under a lease.

    Settle it with a `Settlement`, or let a `Worker` do that. Only the receipt of an entry's latest
    delivery is valid.
    """

    # A tuple, as `Settlement` is: a worker makes one of each per entry, and a frozen dataclass
    # takes four times as long to make.
    queue: str
    """the queue's name"""
    id: str
    payload: bytes
    receipt: str
    """proof that this delivery is the latest one"""
    deadline_ms: int
    """when the lease expires"""
    failures: int
    """earlier attempts that failed"""
    lost: int
    """earlier attempts whose lease expired"""
    consumer: str
    client: str | None = None
    """the client it belongs to, in a fair queue"""

    @property
    def attempt(self) -> int:
        """The number of this attempt: 1 for the first."""
        return _attempts(self) + 1

    @property
    def request(self) -> str | None:
        """The id of its request; None where the queue has no requests."""
        rid, slash, _ = self.id.rpartition("/")
        return rid if slash else None

    @property
    def number(self) -> int | None:
        """Its number in its request, from 1; None where the queue has no requests."""
        _, slash, n = self.id.rpartition("/")
        return int(n) if slash else None


@dataclass(frozen=True, slots=True)
class TakeResult:
    """The result of a take: deliveries, and when to take again."""

    deliveries: tuple[Delivery, ...]
    look_again_ms: int | None
    """server time at which to take again; None: wait until the queue's wake list has an element.
    Of several idle consumers one gets the time of the next due entry."""
    more: bool
    """the call stopped at its limit: there may be more entries now"""


Outcome = Literal["ack", "result", "fail", "give_up", "reject", "release"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Settlement(NamedTuple):
    """How one delivery ends.

    ``outcome``: ``ack``: done; ``result``: done, and ``value`` is kept as the result; ``fail``: try
    again after ``delay`` (seconds or a timedelta), or dead after too many failures; ``value`` is
    the error; ``give_up``: failed for the last time, dead at once; ``reject``: the same, because
    its handler refused it; ``release``: back to waiting, not counted as an attempt. Without a
    ``delay`` the queue's `RetryPolicy` says when; a queue without one tries again at once.
    """

    delivery: Delivery
    outcome: Outcome
    value: bytes = b""
    delay: Seconds | None = None


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _unguarded(kind: type[T]) -> type[T]:
    """A dataclass that is frozen for type checkers only: where millions are made, the guard at run
    time would be three quarters of the time that making one takes."""
    return dataclass(slots=True, unsafe_hash=True)(kind)


@_unguarded
class Failure:
    """Why an attempt failed: the exception's type, message and traceback, as text."""

    type: str
    """type of the error"""
    message: str = ""
    traceback: Text = ""
    """traceback, may be empty"""

    @property
    def line(self) -> str:
        """``TYPE: MESSAGE``, or the type of an error without a message."""
        return f"{self.type}: {self.message}" if self.message else self.type

    def encoded(self) -> bytes:
        short = {"type": self.type[:200], "message": self.message[:4096]}
        return json.dumps(short | {"traceback": self.traceback[-16384:]}).encode()

    @classmethod
    def decoded(cls, data: bytes | None) -> Failure | None:
        """Read a stored error; another program's may be any bytes, which become the message."""
        if data is None:
            return None
        try:
            found: Any = json.loads(data)
            return cls(str(found["type"]), str(found["message"]), str(found.get("traceback", "")))
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls("error", data.decode("utf-8", "backslashreplace"))


LEASES_LOST = "its lease was lost each time: its workers were killed, or stood still"
"""what the reason ``lost`` means"""


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    """What became of an entry so far: its state, and its result or what made it dead."""

    id: str
    state: State | None
    """None: the queue doesn't have it: it was done without a result, its result is kept no longer,
    or it never was there"""
    result: bytes | None = None
    """what its handler returned, of one that is done"""
    reason: str | None = None
    """why it is dead: failed | lost | rejected"""
    error: Failure | None = None
    """its last error, also of one that will be tried again"""

    @classmethod
    def of(cls, id: str, entry: Entry | None) -> EntryOutcome:
        """What became of an entry, by what was read of it."""
        if entry is None:
            return cls(id, None)
        result = entry.record if entry.state == "done" else None
        return cls(id, entry.state, result, entry.reason, entry.error)

    @property
    def settled(self) -> bool:
        """Whether it has ended: done, dead, in the trash, or unknown."""
        return self.state not in ("waiting", "pending", "delayed")


GONE = "gone"
"""`Entry.called` of a stream's pending entry that was deleted or trimmed, and `Entry.reason` of an
orphan: only its id is left"""


_TASK = re.compile(r"([A-Za-z_][\w.-]*)~")


def task_of(id: str) -> str | None:
    """The task in an id such as ``thumbnail~01KB…``, of an entry of `redisq_ops.tasks`; else
    None."""
    found = _TASK.match(id)
    return None if found is None else found[1]


ARGUMENTS = ("kwargs", "data", "args")
"""members of a task's payload that may hold its arguments: an object by name, a list by position,
and a list of one object by that object's names too"""


@_unguarded
class Entry:
    """One entry as it is now, in whatever state. None: unknown, or not stored."""

    id: str
    state: State
    at_ms: int | None = None
    """pending: the deadline; delayed, and waiting where it has one: the ready time; dead and trash:
    when it entered the state"""
    since_ms: int | None = None
    """when it entered its present state"""
    payload: bytes | None = None
    failures: int = 0
    lost: int = 0
    uncounted: bool = False
    """its program doesn't keep how often it failed or was lost"""
    first_ms: int | None = None
    """the first delivery, or the first after a replay"""
    consumer: str | None = None
    """the consumer that holds it, or held it last"""
    receipt: str | None = None
    reason: str | None = None
    """why it is dead: failed | lost | rejected; of an orphan in any state: gone"""
    error: Failure | None = None
    op: str | None = None
    """the operator's change that put it into its present state"""
    deliveries: int | None = None
    """number of deliveries in the stream's pending list, if there is one"""
    client: str | None = None
    """the client it belongs to, in a fair queue"""
    called: str | None = None
    """the other program's own word for the state, if it has one"""
    task: str | None = None
    """the name of its task (a function, a class, an actor), if the layout keeps one; the payload is
    JSON then and has the arguments in one of the members `ARGUMENTS`"""
    problem: str | None = None
    """its record is corrupt: why; the other fields are unknown"""
    partly: str | None = None
    """the parts of its record that were too long to be read; the rest is here"""
    run_ms: int | None = None
    """how long its latest run took, if that has ended and the owner keeps it"""
    handed: bool = field(default=False, compare=False, repr=False)
    """whether it was ever delivered, also before a replay"""
    put_ms: int | None = field(default=None, compare=False, repr=False)
    """when it was put into its present state, if its record has that; an undo restores the old
    ``since_ms``, but sets this to its own time"""
    record: Any = field(default=None, compare=False, repr=False)
    """another program's record as it was read, if a change of the entry has to compare it; the
    result of a sub-request that is done"""

    @property
    def orphan(self) -> bool:
        """Whether only its id is left: its record was deleted or evicted, or expired."""
        return self.reason == GONE

    @property
    def counted(self) -> bool:
        """Whether it is known how often it failed or was lost."""
        return not (self.orphan or self.uncounted)

    @property
    def attempts(self) -> int:
        """How many have ended."""
        return _attempts(self)

    @property
    def unread(self) -> bool:
        """Whether its record is too long to be read."""
        return self.problem is not None and self.problem.startswith(NOT_READ)

    @property
    def digest(self) -> str:
        """A short hash of payload and client: it tells two entries that reused one id apart."""
        text = (self.client or "").encode() + b"\0" + (self.payload or b"")
        return hashlib.blake2b(text, digest_size=8).hexdigest()


def _attempts(of: Entry | Delivery) -> int:
    """How attempts count, as by `record_attempts` in Lua: a lost lease is one, like a failure."""
    return of.failures + of.lost


NOT_READ = "not read"
"""how `Entry.problem` begins if the record is too long to be read, but not known as corrupt"""


def not_read(bytes_: int, where: str = "") -> str:
    """The `Entry.problem` of a record that is too long to be read."""
    return f"{NOT_READ}{where}: {bytes_ / 2**20:,.1f} MiB"


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which part of a state a page shows: the arguments of `Queue.page`."""

    cursor: str | None = None
    max: int = 100
    start: int | None = None
    payloads: bool = False
    glance: bool = False
    brief: bool = False
    latest: bool = False
    """as `Queue.latest` has them, where ranks don't tell"""


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a state, in the order in which the server keeps them."""

    entries: tuple[Entry, ...]
    cursor: str | None
    """the cursor for the next page; None: this is the last one"""
    total: int
    """number of entries in the state when the page was read"""
    exact: bool = True
    """False: ``total`` is a lower bound"""
    problem: str | None = None
    """what part of the state can't be read; the rest is here"""
    scores: tuple[float, ...] = ()
    """the score of each entry, where the page is from one sorted set"""


@dataclass(frozen=True, slots=True)
class MovedRange:
    """The result of one step of `move_range`."""

    moved: int
    """entries that this step moved"""
    left: tuple[int, ...]
    """for each shard, how many entries at the beginning of the state could not be moved so far"""
    over: bool
    """there are no more entries to move"""
    done: int
    """entries that all steps of the operation moved so far"""


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of entries in each state, and the queue's flags."""

    waiting: int
    pending: int
    delayed: int
    dead: int
    trash: int
    done: int
    """entries that are done, since the queue was created"""
    oldest_ms: int | None = None
    """when the oldest waiting entry began to wait (in a request queue: its request was created)"""
    paused: str | None = None
    """the reason, when the queue is paused"""
    closed: str | None = None
    """the reason, when the queue is draining"""
    unknown: frozenset[State] = frozenset()
    """states whose numbers another program's layout doesn't have; they are 0 here"""
    problem: str | None = None
    """what can't be read, so that numbers are unknown"""
    only_shown: str | None = None
    """why nothing in the queue can be changed from here: a sentence about its release"""

    def of(self, state: State) -> int | None:
        """Number of entries in a state; None: unknown."""
        number: int = getattr(self, state)
        return None if state in self.unknown else number


@dataclass(frozen=True, slots=True)
class Checkup:
    """The result of `checkup`."""

    flaws: tuple[str, ...] = ()
    """faults in the queue's data, one sentence each"""
    unseen: str | None = None
    """what was not checked, where the check is bounded"""
    orphans: Mapping[State, Sequence[str]] = field(default_factory=dict)
    """ids of orphans, see `Entry.orphan`"""


RequestState: TypeAlias = Literal["open", "sealed", "done", "cancelled"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request's record."""

    id: str
    """request"""
    state: RequestState
    """`open` may grow; `sealed` is complete"""
    priority: int
    """0 (first) to 99"""
    limit: int
    """most sub-requests pending at a time"""
    paused: bool
    """whether it is paused"""
    total: int
    """sub-requests: the sum of the next six"""
    waiting: int
    """sub-requests that wait"""
    pending: int
    """sub-requests that are pending"""
    delayed: int
    """sub-requests that are delayed"""
    done: int
    """sub-requests that are done"""
    dead: int
    """sub-requests that are dead"""
    trash: int
    """sub-requests that were purged, cancelled or moved"""
    tokens: int
    """tokens in its priority's list"""
    created_ms: Time
    """when it was created"""
    added_ms: Time | None
    """when the last sub-request was added"""
    closed_ms: Time | None
    """when it ended"""
    results_bytes: Size
    """size of all results"""
    results_dropped: int
    """results that were not kept because they exceed the limit"""
    digest: str = field(metadata=UNPRINTED)
    """digest of everything submitted so far: it tells whether a submission is the same"""
    moving: int = 0
    """those in the trash that are on their way to another queue"""
    follows: str = ""
    """the request that has to be done first; empty: none"""
    then: str = ""
    """the request that follows it; empty: none"""

    @property
    def settled(self) -> bool:
        """Whether it is done or cancelled."""
        return self.state in ("done", "cancelled")


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a request or of a consumer group, by the stream's own numbers."""

    name: str
    """consumer of a group, `GROUP:NAME` in a plain stream"""
    pending: int
    """entries it holds"""
    idle_ms: Duration
    """time since its last command"""


@dataclass(frozen=True, slots=True)
class Level:
    """One priority and its list of tokens."""

    priority: int
    tokens: int
    """tokens in its list"""
    requests: tuple[str, ...] = ()
    """some of the requests whose tokens are next"""


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a fair queue: its entries and its rules."""

    client: str
    waiting: int
    pending: int
    weight: int
    """its turns for each turn of a client of weight 1"""
    blocked: bool
    """its entries are not handed out"""
    cap: int | None
    """how many of its entries may be pending; None: any number"""
    rate: int = 0
    """how many entries it is handed per hour; 0: any number"""
    rests: bool = False
    """it isn't served now, because of its rate"""


@dataclass(frozen=True, slots=True)
class Limit:
    """Why entries wait: as many of a request or client are pending as its limit or cap allows, or a
    queue or client was handed as many as its rate allows."""

    what: Literal["request", "client", "queue"]
    id: str
    most: int
    """its limit, cap, or the number in its rate"""
    waiting: int
    rate: str = ""
    """the rate that it is at"""


@dataclass(frozen=True, slots=True)
class OwnersLimit:
    """A limit of the program that owns a queue, at which its workers take nothing more, or may
    not."""

    what: Literal["concurrency", "rate", "stop"]
    """so many entries at a time, so many in a span, or none until a time"""
    used: int | None = None
    """None: of a stop"""
    most: int | None = None
    """None: only the program's workers know it, so that they may take more"""
    left_ms: int | None = None
    """until the span or the stop ends"""


@dataclass(frozen=True, slots=True)
class Clients:
    """Some clients of a queue, by name."""

    clients: tuple[Client, ...] = ()
    total: int = 0
    """number of all clients"""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the history, the oldest first."""

    id: str
    """stream id of the event"""
    at_ms: Time
    """when"""
    by: str
    """consumer or operator; `-`: nobody in particular"""
    what: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """event → entries; the part of an item before `|` is the entry's id"""
