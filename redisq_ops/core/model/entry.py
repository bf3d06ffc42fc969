"""What queues hand out: frozen values, times in integer milliseconds UTC of the server's clock."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

State: TypeAlias = Literal["waiting", "pending", "delayed", "dead", "done", "trash"]
STATES: tuple[State, ...] = ("waiting", "pending", "delayed", "dead", "done", "trash")


class Delivery(NamedTuple):
    """An entry handed to one consumer. The receipt settles it; only the latest one is good.

    (A tuple, as a settlement is: a worker makes one of each per entry, and a frozen dataclass takes
    four times as long to make.)
    """

    queue: str
    id: str
    payload: bytes
    receipt: str
    deadline_ms: int
    failures: int
    lost: int
    consumer: str
    client: str | None = None
    """whose work it is, in a fair queue"""

    @property
    def attempt(self) -> int:
        """1 for the first delivery; failures and lost leases both count."""
        return self.failures + self.lost + 1

    @property
    def request(self) -> str | None:
        """The request this is a sub-request of, where the queue has requests."""
        rid, slash, _ = self.id.rpartition("/")
        return rid if slash else None

    @property
    def number(self) -> int | None:
        """The sub-request's number in its request, from 1."""
        _, slash, n = self.id.rpartition("/")
        return int(n) if slash else None


@dataclass(frozen=True, slots=True)
class TakeResult:
    """The reply of a take: deliveries, and when another look is worth it."""

    deliveries: tuple[Delivery, ...]
    look_again_ms: int | None
    """server time of the next due entry, if this consumer is the one to watch for it"""
    more: bool
    """the call stopped at its bound: there may be work right now"""


Outcome = Literal["ack", "result", "fail", "reject", "release"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Settlement(NamedTuple):
    """How one delivery ends.

    ``outcome``: ``ack`` | ``result`` (ack, and ``value`` is kept) | ``fail`` (``value`` is the
    error, again after ``delay_ms``, ms or a timedelta) | ``reject`` (dead at once) | ``release``
    (not counted).
    """

    delivery: Delivery
    outcome: Outcome
    value: bytes = b""
    delay_ms: int | timedelta = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as the worker saw it."""

    type: str
    message: str = ""
    traceback: str = ""

    def encoded(self) -> bytes:
        short = {"type": self.type[:200], "message": self.message[:4096]}
        return json.dumps(short | {"traceback": self.traceback[-16384:]}).encode()

    @classmethod
    def decoded(cls, data: bytes | None) -> Failure | None:
        """Errors written by other programs may be any bytes: shown as they are."""
        if data is None:
            return None
        try:
            found: Any = json.loads(data)
            return cls(str(found["type"]), str(found["message"]), str(found.get("traceback", "")))
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls("error", data.decode("utf-8", "backslashreplace"))


GONE = "gone"
"""what a stream's pending entry is called that was deleted or trimmed: only its id is left"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One unit of work as it stands now. Unknown is None."""

    id: str
    state: State
    at_ms: int | None = None
    """pending: deadline; delayed, and waiting if it has one: ready time; dead, trash: since"""
    since_ms: int | None = None
    """when it entered its present state"""
    payload: bytes | None = None
    failures: int = 0
    lost: int = 0
    first_ms: int | None = None
    """first delivery; of what was replayed, the first since"""
    consumer: str | None = None
    """who has it, or had it last"""
    receipt: str | None = None
    reason: str | None = None
    """why it is dead: failed | lost | rejected"""
    error: Failure | None = None
    op: str | None = None
    """the operator's change that touched it last, while untouched since"""
    deliveries: int | None = None
    """as the stream's own pending list counts them, where there is one"""
    client: str | None = None
    """whose work it is, in a fair queue"""
    called: str | None = None
    """what the queue's own users call its state, where they have a word of their own"""
    problem: str | None = None
    """why its other fields can't be read: its record is corrupt"""
    handed: bool = field(default=False, compare=False, repr=False)
    """whether anybody was ever given it, before a replay too"""
    put_ms: int | None = field(default=None, compare=False, repr=False)
    """when it was last put into its state, where its record says so; an undo gives back the old
    ``since_ms``, and puts it there all the same"""

    @property
    def attempts(self) -> int:
        return self.failures + self.lost

    @property
    def digest(self) -> str:
        """Short; tells entries that had the same id one after the other by payload and client."""
        text = (self.client or "").encode() + b"\0" + (self.payload or b"")
        return hashlib.blake2b(text, digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a state, in the order the server keeps."""

    entries: tuple[Entry, ...]
    cursor: str | None
    """where to go on; None: the end was reached"""
    total: int
    """entries in that state when the page was read"""
    exact: bool = True
    """False: ``total`` are those that were seen, and there may be more"""
    problem: str | None = None
    """what of the state can't be read; the rest is here"""
    scores: tuple[float, ...] = ()
    """the exact score of each entry, of a page of one sorted set"""


@dataclass(frozen=True, slots=True)
class MovedRange:
    """One step of a bulk move of a whole state."""

    moved: int
    left: tuple[int, ...]
    """how many could not be moved so far and stay at its beginning, per shard"""
    over: bool
    """nothing of what was meant is behind them"""
    done: int
    """how many the operation's steps moved by then, this one's among them"""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entries are in each state, and the queue's flags."""

    waiting: int
    pending: int
    delayed: int
    dead: int
    trash: int
    done: int
    """settled since the queue exists"""
    oldest_ms: int | None = None
    """since when the oldest waiting work waits (requests: when its request was created)"""
    paused: str | None = None
    """why, when paused"""
    closed: str | None = None
    """why, when draining"""
    unknown: frozenset[State] = frozenset()
    """states another program's layout doesn't say the number of; they read 0 here"""
    problem: str | None = None
    """what can't be read, where that leaves numbers unknown"""

    def of(self, state: State) -> int | None:
        """How many are in a state; None: unknown."""
        number: int = getattr(self, state)
        return None if state in self.unknown else number


@dataclass(frozen=True, slots=True)
class Checkup:
    """What doesn't add up in a queue, as far as one look went."""

    flaws: tuple[str, ...] = ()
    unseen: str | None = None
    """what was left out, where a look is bounded"""


ENOUGH = 30
"""settled entries that make a pace"""


@dataclass(frozen=True, slots=True)
class Rates:
    """Per minute, oldest first; the last element is the minute that is still running. Empty where
    nobody counts: in queues other programs keep."""

    arrived: tuple[int, ...]
    settled: tuple[int, ...]
    failed: tuple[int, ...]

    def last_minute(self, now_ms: int) -> tuple[int, int, int]:
        """Arrived, settled and failed in the last sixty seconds, as far as minute counters tell:
        the running minute, and of the one before the share that is not yet sixty seconds ago."""
        share = 1 - now_ms % 60_000 / 60_000

        def sliding(series: tuple[int, ...]) -> int:
            return series[-1] + round(series[-2] * share) if len(series) > 1 else sum(series)

        return sliding(self.arrived), sliding(self.settled), sliding(self.failed)

    def pace(self, now_ms: int) -> float | None:
        """Settled a minute, from the first of these minutes on in which any were; None where they
        are too few to go by."""
        if sum(self.settled) < ENOUGH:
            return None
        began = next(k for k, n in enumerate(self.settled) if n)
        minutes = len(self.settled) - 1 - began + now_ms % 60_000 / 60_000
        return sum(self.settled) / max(1.0, minutes)


@dataclass(frozen=True, slots=True)
class Request:
    """A request and its counts: total = waiting + pending + delayed + done + dead + trash."""

    id: str
    state: str
    priority: int
    limit: int
    paused: bool
    total: int
    waiting: int
    pending: int
    delayed: int
    done: int
    dead: int
    trash: int
    tokens: int
    """tokens in its priority list; `pending` is how many are held"""
    created_ms: int
    added_ms: int | None
    closed_ms: int | None
    results_bytes: int
    results_dropped: int
    digest: str
    """of everything submitted so far: the guard of resuming"""
    moving: int = 0
    """of those in the trash, how many are on their way to another queue, and may come back"""

    @property
    def settled(self) -> bool:
        return self.state in ("done", "cancelled")


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a request's group, as the stream itself sees it."""

    name: str
    pending: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class Level:
    """One priority: its list of tokens."""

    priority: int
    tokens: int
    requests: tuple[str, ...] = ()
    """some of the requests whose tokens are next"""


@dataclass(frozen=True, slots=True)
class Client:
    """One whose work a fair queue serves in turn with others'."""

    client: str
    waiting: int
    pending: int
    weight: int
    """turns it gets where another gets one"""
    blocked: bool
    """nothing more of it is handed out"""
    cap: int | None
    """at most so many are pending at a time"""


@dataclass(frozen=True, slots=True)
class Limit:
    """A request, or a client, that has work waiting and as much pending as it may have."""

    what: Literal["request", "client"]
    id: str
    most: int
    """its limit, or cap"""
    waiting: int


@dataclass(frozen=True, slots=True)
class Clients:
    """Some clients of a queue, by name."""

    clients: tuple[Client, ...] = ()
    total: int = 0
    """how many there are"""


@dataclass(frozen=True, slots=True)
class Event:
    """One history entry: what one call did."""

    id: str
    at_ms: int
    by: str
    what: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """event name -> items; an item's first part (before ``|``) is an entry's id"""
