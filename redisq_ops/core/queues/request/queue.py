"""The priority request queue.

A *request* is split into *sub-requests*; up to ``limit`` of them are worked on at once, requests of
a higher priority (0 first) go first, requests of one priority take turns. From article 000, with
its protocol mended (docs/explanation/faults.md says where and why).

Keys beside the common ones (see docs/explanation/request-queue.md): ``r:<id>`` the request's
record, ``s:<id>`` its stream with group ``g``, ``p:<0–99>`` lists of tokens, ``prios`` the
priorities that may have some, ``open`` and ``fin`` requests by time, ``res:<id>:<k>`` results, a
thousand in each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha1
from typing import ClassVar, Literal, cast

from ...engine.operator_changes import ChangeUndo
from ...engine.queue import Queue
from ...engine.registry import refuse_reserved_name
from ...model.errors import Exists, NotFound, QueueClosed, Unregistered
from ...model.keys import checked_consumer
from ...model.settings import LIMIT, MAX_PAYLOAD, PRIORITIES, PRIORITY
from ...model.validation import listed
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import scored, words
from .digest import Digest
from .reads import RequestReads
from .submission import (
    CHUNK,
    Chunk,
    SubmittedRequest,
    cancelled,
    checked_limit,
    checked_payload,
    checked_priority,
    checked_request,
    checked_traceparent,
    cut,
)

_MOVED = re.compile(r"(\.[0-9a-f]{8})?\.move-[0-9a-f]{10}$")

Control = Literal["cancel", "reopen", "pause", "resume", "limit", "priority"]


class RequestQueue(RequestReads[C_co]):
    """Requests of many sub-requests, with priorities and a concurrency limit for each request.

    A sub-request is one payload (bytes). Priority 0 comes first, 99 last; requests of one priority
    take turns. A producer calls `submit`, a `Worker` runs a handler for each sub-request, and
    `results` or `redisq_ops.wait` have what came of it. Delivery is at least once.

        queue = RequestQueue(connect("redis://127.0.0.1:6379/0"), "mail")
        queue.submit([b"one", b"two"], id="monday", priority=10, limit=5)
        Worker(queue, lambda work: work.payload.upper(), burst=True).run()
        [part.result for part in queue.results("monday")]  # [b"ONE", b"TWO"]

    On a client from `aconnect`: ``await queue.submit(…)``. What `redisq` and
    `redisq-top` run for operators isn't listed here: see `OperatorChanges`.

    >>> RequestQueue(None, "mail").keys["s_"]
    'redisq:{mail}:s:'
    """

    public: ClassVar[tuple[str, ...]] = (
        *("submit", "append", "request", "requests", "results", "outcomes"),
    )
    keeps_results: ClassVar[bool] = True
    kind: ClassVar[str] = "request"
    package: ClassVar[str] = "queues.request"
    waiting_depth: ClassVar[int | None] = 1000
    key_types: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("prios", "open", "fin", "retire"), "zset"),
        **dict.fromkeys((f"p:{priority}" for priority in range(PRIORITIES)), "list"),
        "edited": "hash",
    }

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def submit(
        self,
        payloads: Iterable[bytes],
        *,
        id: str,
        priority: int = PRIORITY,
        limit: int = LIMIT,
        max_payload: int = MAX_PAYLOAD,
        traceparent: str = "",
        follows: str = "",
    ) -> SubmittedRequest:
        """Submit a whole request: ``payloads`` in order, numbered from 1, then sealed.

        ``id``: 1 to 128 printable ASCII characters. ``priority``: 0 (first) to 99. ``limit``: how
        many of its sub-requests may be pending at a time, 1 to 1000. ``max_payload``: bytes.
        ``traceparent``: W3C trace context of the producer, kept with a new request. ``follows``:
        a request of this queue; the new one is paused until that one is done, also with dead
        sub-requests. Until then it can't be resumed, nor the other cancelled. One request may
        follow another; not in a queue with shards. Returns a `SubmittedRequest`. No payloads: the
        request is done at once.

        Safe to repeat: the same id and content again, also after a crash half way, completes the
        request or answers ``same``; ``trash`` if sub-requests of it were purged or moved meanwhile,
        which stay where they are. Other content raises `Exists` and changes nothing. Raises
        `BadInput` and `TooLarge` before anything is sent, `QueueFull`, `QueueClosed`.

            queue.submit([b"one", b"two"], id="monday", priority=10)
        """
        checked_request(id, priority, limit)
        checked_traceparent(traceparent)
        payloads = listed(payloads, "payloads")
        for nth, payload in enumerate(payloads, 1):
            checked_payload(payload, nth, max_payload)
        await self._ensure_registered()
        digest, start = Digest(priority, limit), 0
        if len(payloads) > CHUNK:
            start = await self._resumed(payloads, id, digest)
        chunks = list(cut(payloads[start:])) or [[]]
        submitted = None
        for nth, chunk in enumerate(chunks, 1):
            before = str(digest)
            digest.extend(chunk)
            seal = nth == len(chunks)
            submitted = await self._append(
                Chunk(
                    id,
                    start + 1,
                    chunk,
                    before,
                    str(digest),
                    seal,
                    priority,
                    limit,
                    traceparent,
                    follows=follows,
                )
            )
            start += len(chunk)
        assert submitted is not None
        if submitted.word == "past":
            raise Exists(f"request {id} exists with other content")
        return submitted

    async def _resumed(self, payloads: Sequence[bytes], id: str, digest: Digest) -> int:
        """The number of payloads that are there already, checked and added to ``digest``."""
        known = await self.request.op(id)
        if known is None or known.total == 0:
            return 0
        for payload in payloads[: known.total]:  # one by one: there may be millions
            digest.add(payload)
        if known.total > len(payloads) or str(digest) != known.digest:
            raise Exists(f"request {id} exists with other content")
        # The last chunk is sent again even when all is there: its reply says `same`, or seals.
        return known.total

    @operation
    async def append(
        self,
        id: str,
        start: int,
        payloads: Sequence[bytes],
        *,
        before: str,
        after: str,
        seal: bool = False,
        priority: int = PRIORITY,
        limit: int = LIMIT,
        traceparent: str = "",
        op: str = "",
    ) -> SubmittedRequest:
        """Add sub-requests from number ``start`` on; 1 creates the request. ``seal`` completes it.

        For producers that don't have all payloads at once; `submit` does it for a list.
        ``before`` and ``after``: `Digest` of all content before the chunk, and with it. The chunk
        is only added behind that content, so it is safe to repeat. Up to 500 payloads. ``op``: the
        import that creates the request. Raises as `submit` does.
        """
        checked_request(id, priority, limit)
        checked_traceparent(traceparent)
        await self._ensure_registered()
        return await self._append(
            Chunk(id, start, payloads, before, after, seal, priority, limit, traceparent, op)
        )

    async def _append(self, chunk: Chunk) -> SubmittedRequest:
        id = chunk.id

        def read(reply: list[bytes]) -> SubmittedRequest:
            word, total, state, *gone = words(reply)
            if word == "exists" and state == "cancelled":
                raise cancelled(id)
            if word == "exists":
                raise Exists(f"request {id} exists with other content ({total} sub-requests)")
            return SubmittedRequest(id, word, int(total), state, int(gone[0]) if gone else 0)

        call = self._call_script(
            "submit",
            read,
            [(payload,) for payload in chunk.payloads],
            rid=id,
            priority=chunk.priority,
            limit=chunk.limit,
            start=chunk.start,
            before=chunk.before,
            after=chunk.after,
            seal=int(chunk.seal),
            trace=chunk.traceparent,
            op=chunk.op,
            rehearse="" if chunk.rehearse is None else chunk.rehearse,
            follows=chunk.follows,
        )
        return await (self._once_registered(call) if chunk.rehearse is None else call)

    @operation
    async def rehearse(
        self, id: str, start: int, n: int, *, before: str, after: str, priority: int, limit: int
    ) -> SubmittedRequest:
        """What `append` of ``n`` payloads with ``seal`` would return or raise. Writes nothing."""
        checked_request(id, priority, limit)
        chunk = Chunk(id, start, [], before, after, True, priority, limit, rehearse=n)
        if await self.exists.op():
            with suppress(Unregistered):  # the server has lost it: it would be new
                return await self._append(chunk)
        refuse_reserved_name(self.name, self.kind)
        await self._check_submit_rights()
        await self.check_creatable.op()
        return SubmittedRequest(id, "ok", n, "open")

    # --- operators -----------------------------------------------------------------------------

    @operation
    def control(
        self, op: str, seq: int, verb: Control, id: str, value: str = "", since: str = ""
    ) -> Call[tuple[str, str]]:
        """Cancel, reopen, pause, resume, or change the limit or priority of an open request.

        ``value``: the new limit or priority; it is only set where the present one is ``since``, if
        that is given. Returns (word, the value before): ``ok``; ``same``: it had that value;
        ``changed``: it isn't ``since``. Raises `NotFound`, `QueueClosed` for a finished request.

        Cancelling stops new deliveries at once. Entries that are pending stay valid until they are
        requeued (``redisq request cancel`` does that, in bounded steps).
        """
        given = int(value) if value.isdecimal() else -1
        if verb == "limit":
            checked_limit(given)
        if verb == "priority":
            checked_priority(given)
        return self._call_script(
            "control_request",
            lambda reply: (reply[0].decode(), reply[1].decode()),
            caller=op,
            seq=seq,
            verb=verb,
            rid=id,
            value=value,
            was=since,
        )

    async def _undo_change(self, undo: ChangeUndo) -> int:
        if undo.verb == "set":
            return await Queue._undo_change(self, undo)
        id, *value = undo.args
        if undo.verb == "cancel" and value and await self._importer(id) != value.pop():
            return 0  # another request has the id of the one that was imported
        try:
            verb = cast(Control, undo.verb)
            word, _ = await self.control.op(undo.op, undo.seq, verb, id, *value)
        except (QueueClosed, NotFound):
            if undo.verb not in ("cancel", "reopen"):
                raise
            found = await self.request.op(id)
            if undo.verb == "reopen":
                if found is None or found.settled:
                    raise
            elif found is None or found.state != "cancelled":
                undo.left([id])  # all its sub-requests are done
            return 0
        if word == "changed":
            undo.left([id])
        return int(word == "ok")

    def transferred_id(self, op: str, id: str) -> str:
        """The new request of sub-requests that operation ``op`` moves here; its name has both.

        >>> RequestQueue(None, "mail").transferred_id("move-0123456789", "r1/17")
        'r1.move-0123456789'
        """
        whole = id.partition("/")[0]
        own, most = _MOVED.sub("", whole), 127 - len(op)
        if own != whole or len(own) > most:  # a shortened name may be another request's too
            digest = sha1(whole.encode()).hexdigest()[:8]
            own = f"{own[: most - 9]}.{digest}"
        return f"{own}.{op}"

    @operation
    def remove_consumer(self, group: str, consumer: str) -> Call[str]:
        checked_consumer(consumer)
        return self._call_script("remove_consumer", bytes.decode, rid=group, consumer=consumer)

    async def _destroy_entries(self, max: int) -> int:
        gone = 0
        for part in ("open", "fin"):
            listed = await scored(self.keys[part], "0", str(max - 1))
            for id, _ in listed:
                request = await self.request.op(id)
                pieces = range((request.total if request else 0) // 1000 + 1)
                keys = [self.keys[part] + id for part in ("s_", "again_", "later_", "r_")]
                keys += [f"{self.keys['res_']}{id}:{piece}" for piece in pieces]
                gone += await Call(("UNLINK", *keys), int, key=keys[0])
                await together(
                    Call(("ZREM", self.keys[z], id), int, key=self.keys[z])
                    for z in (part, "retire")
                )
        return gone

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)
