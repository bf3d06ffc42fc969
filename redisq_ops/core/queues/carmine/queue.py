"""A message queue in Carmine's layout of 2018, with receipts, limits, dead letters and undo.

From article 001. Carmine's own keys hold what a Carmine client expects to read; sorted sets and
records of ours beside them hold the rest (docs/explanation/carmine-queue.md). Only one program
writes a queue: this class or Carmine. `CarmineLayout` reads the queues that Carmine writes.
``transit``: messages on their way between two shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from redis import RedisCluster
from redis.asyncio import RedisCluster as AsyncCluster

from ...engine.optional_features import TakesEntries
from ...engine.queue import Queue
from ...engine.registry import Registered, find, read_mark
from ...engine.timed_queue import TimedQueue
from ...model import record
from ...model.clock import Moment, Seconds, duration_ms
from ...model.entry import Entry, State
from ...model.errors import BadInput, Refused, WrongKind
from ...model.keys import Keys, known_name
from ...model.quoting import legal
from ...model.settings import BATCH, MAX_PAYLOAD
from ...model.validation import checked_pairs, pairs
from ...redis.operation import C_co, Call, Description, operation, shortened, together
from ...redis.parsers import row_words
from .keys import END, THEIRS, CarmineKeys
from .names import begun, in_the_way
from .states import STATE_OF, Facts, whole

_LAPS = 50
"""steps of an upkeep at most, so that messages done in a burst are deleted within minutes"""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The reply to one message."""

    id: str
    word: str
    """``ok`` | ``updated`` | ``requeued``; else it was refused because of the state it is in: one
    of Carmine's words, ``dead``, ``trash`` or ``unknown``"""

    @property
    def accepted(self) -> bool:
        """Whether the message was put in or changed."""
        return self.word in ("ok", "updated", "requeued")


class CarmineQueue(TimedQueue[C_co], TakesEntries[C_co]):
    """Messages with ids, each at most once in the queue, readable by Carmine clients.

    Delivery is at least once, with back-off times per message.

        queue = CarmineQueue(connect("redis://127.0.0.1:6379/0"), "mails")
        queue.enqueue([("message-1", b"payload")], backoff=5)
    """

    public: ClassVar[tuple[str, ...]] = ("enqueue",)
    kind: ClassVar[str] = "carmine"
    bounds_delayed: ClassVar[bool] = True
    package: ClassVar[str] = "queues.carmine"
    keys_class: ClassVar[type[Keys]] = CarmineKeys
    keys: CarmineKeys
    importable_states: ClassVar[frozenset[State]] = frozenset({"waiting", "delayed"})
    unwatched: ClassVar[str] = (
        "newer content takes the place of a message that dies, so the end of a replayed message is"
        " unknown"
    )
    key_types: ClassVar[dict[str, str]] = {
        **{part: type_ for part, (_, type_) in THEIRS.items()},
        "body": "hash",
        "next": "hash",
        "stray": "set",
        "transit": "hash",
        "seen": "zset",
    }

    @operation
    async def exists(self) -> bool:
        if self._registered:
            return True
        (begun_,), entry = await together(begun([self.keys]), self._entry())
        return begun_ or entry is not None

    @staticmethod
    def _checked_name(name: str) -> str:
        return known_name(name, "queue name")  # Carmine chose it

    async def _ensure_registered(self) -> None:
        if not self._registered:
            await self._ours()
            await Queue._ensure_registered(self)

    async def _ours(self, others: Sequence[CarmineKeys] = ()) -> None:
        """Raise where Carmine itself writes the queue, or has keys of it or of its new shards."""
        if not self.keys.tagged and isinstance(self.client, (RedisCluster, AsyncCluster)):
            tagged = legal(f"{{{self.keys.own}}}".encode())
            raise BadInput(
                f"queue {self.name} has keys in several slots; "
                f"on a Cluster call it carmine:{tagged}"
            )
        # The entry is read last: a process that creates the queue now writes it before any key.
        (kept,), entry = await together(begun([self.keys]), self._entry())
        if kept if entry is None else entry.at is not None:
            raise WrongKind(f"queue {self.name} is kept by Carmine itself: here it is only read")
        if entry is None:
            refused = await in_the_way(self.keys, others, self.prefix)
            if refused and await self._entry() is None:
                raise WrongKind(f"queue {self.name} {refused}")

    async def _entry(self) -> Registered | None:
        """The registry's entry, or the one that the queue's mark stands for."""
        entry, mark = await together(find(self.name, self.prefix), read_mark(self.keys))
        return entry or Registered.marked(self.name, mark)

    @operation
    async def check_creatable(self) -> None:
        await self._ours()
        await Queue.check_creatable(self)

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def enqueue(
        self,
        entries: Iterable[tuple[str, bytes]],
        *,
        backoff: Seconds = 0,
        requeue: bool = False,
        update: bool = False,
        max_payload: int = MAX_PAYLOAD,
    ) -> list[Enqueued]:
        """Add (id, payload) pairs, up to 500, due ``backoff`` (seconds or a timedelta) from now.

        Returns an `Enqueued` for each, in their order. An id that is in the queue is refused, with
        its state as the word; one that is done can be added again. ``requeue``: a message that is
        locked (pending) runs again afterwards with this payload. ``update``: a message that hasn't
        begun gets this payload. Raises `BadInput` and `TooLarge` before anything is sent,
        `QueueFull`, `QueueClosed`.

            queue.enqueue([("message-1", b"payload")], requeue=True)
        """
        rows = pairs(entries, "messages")
        checked_pairs(rows, "message", max_payload)
        if any(id == END for id, _ in rows):
            raise BadInput(f"a message can't be called {END}: that is the circle's own mark")
        if not rows:
            return []
        wait_ms = duration_ms(backoff, "backoff")
        await self._ensure_registered()

        replies = await self._enqueue(rows, wait_ms, int(requeue), int(update))
        if any(one.word == "elsewhere" for one in replies):
            raise Refused(f"queue {self.name} has shards now: open it as a sharded queue")
        return replies

    async def _add_entries(
        self,
        entries: Sequence[tuple[str, bytes]],
        client: str | None,
        at: Moment | None,
        after: Seconds | None,
    ) -> list[str]:
        replies = await self.enqueue.op(entries)
        return ["ok" if one.accepted else "exists" for one in replies]

    async def _enqueue(
        self, entries: Sequence[tuple[str, bytes]], backoff: int, requeue: int, update: int
    ) -> list[Enqueued]:
        def read(reply: list[bytes]) -> list[Enqueued]:
            return [Enqueued(id, w) for (id, _), w in zip(entries, each(reply), strict=True)]

        each = row_words(len(entries))
        replies: list[Enqueued] = await self._call_idempotent(
            "enqueue",
            read,
            entries,
            backoff=backoff,
            requeue=requeue,
            update=update,
            layout=self.layout,
        )
        return replies

    # --- workers -------------------------------------------------------------------------------

    @operation
    async def upkeep(self) -> int:
        went = 0
        for _ in range(_LAPS):
            some = await self.sweep.op(BATCH)
            went += some
            if some < BATCH:
                break
        return went

    # --- looking -------------------------------------------------------------------------------

    async def _entries(
        self, state: State, rows: Sequence[tuple[str, float | None]], payloads: bool = True
    ) -> list[Entry]:
        entries, found = await together(
            Queue._entries(self, state, rows, payloads),
            self._called(
                [id for id, _ in rows] if state in ("waiting", "delayed", "pending") else []
            ),
        )
        return [replace(entry, called=found.get(entry.id)) for entry in entries]

    def _columns(
        self, state: State, ids: Sequence[str], want: frozenset[str]
    ) -> dict[str, Description[Any]]:
        columns = TimedQueue._columns(self, state, ids, want)
        if "called" in want and state in ("waiting", "delayed", "pending"):
            columns["called"] = self._words(ids)
        return columns

    async def _words(self, ids: Sequence[str]) -> list[str | None]:
        found = await self._called(ids)
        return [found.get(id) for id in ids]

    async def _called(self, ids: Sequence[str]) -> dict[str, str]:
        """Carmine's words for the states of messages that its keys have."""
        if not ids:
            return {}
        facts, now = await together(self._facts(ids), self._now())
        return {id: fact.word(now) for id, fact in zip(ids, facts, strict=True)}

    async def _facts(self, ids: Sequence[str]) -> list[Facts]:
        asked = [("HMGET", part) for part in ("locks", "backoffs", "nattempts")]
        asked += [("SMISMEMBER", part) for part in ("finished", "requeued")]
        replies = await together(
            Call((verb, self.keys[part], *ids), list[Any], key=self.keys[part])
            for verb, part in asked
        )
        return [
            Facts(whole(lock), whole(backoff), whole(attempts), bool(done), bool(requeue))
            for lock, backoff, attempts, done, requeue in zip(*replies, strict=True)
        ]

    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]:
        if not ids:
            return []
        seen, hidden = await together(
            Call(("HMGET", self.keys[part], *ids), list[bytes | None], key=self.keys[part])
            for part in ("messages", "body")
        )
        return [a if a is not None else b for a, b in zip(seen, hidden, strict=True)]

    @operation
    async def get(self, id: str) -> Entry | None:
        entry = await Queue.get(self, id)
        if entry is not None and entry.state == "delayed" and entry.called == "queued":
            return replace(entry, state="waiting")
        return entry

    async def _get_waiting(self, id: str) -> Entry | None:
        """A message that is done, until a take removes it from the circle."""
        (payload,), (facts,), now = await together(
            shortened(self._payloads([id])), self._facts([id]), self._now()
        )
        if payload is None:
            return None
        word = facts.word(now)
        state = STATE_OF[word]
        until = facts.backoff_ms if word == "done-with-backoff" else None
        # A done entry shows its result as payload, and messages have no results.
        if state == "done":
            return Entry(id, state, at_ms=until, called=word)
        return replace(record.readable(id, state, until, None, None, payload), called=word)

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)
