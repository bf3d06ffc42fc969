"""A selection as a file of JSON Lines.

A file has a section for each state of a queue: a header line (``{"redisq": "export", …}``), a line
for each entry, and a line that ends it. docs/reference/json.md has the fields.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.model.entry import Entry, Request, State
from redisq_ops.core.redis.operation import together

from ..filter.scan import Scan
from ..filter.target import Target
from ..ndjson import END, Format
from ..redaction import NO_REDACTION, Redaction

EXPORT = Format("export")
STATES: tuple[State, ...] = ("delayed", "waiting", "pending", "dead", "trash")
"""in the order of reading: an entry that becomes due meanwhile is written twice, not missed"""
EXPORTED: tuple[State, ...] = (*STATES, "done")
"""done entries of other programs only where they are asked for: no import takes them"""
ERROR = ("type", "message", "traceback")
"""fields of the error in an entry's line"""
REQUEST = ("priority", "limit", "total")
"""fields of the request in a sub-request's line"""


class Export:
    """One section. Call `step` until it returns False; after each call ``rows`` has new lines."""

    def __init__(self, target: Target, now_ms: int, redaction: Redaction = NO_REDACTION) -> None:
        self.queue = target.queue
        self.state = target.state
        self.rows: list[dict[str, Any]] = []
        self.written = 0
        self.left = 0
        """entries that changed their state before their payload was read"""
        self.redacted = 0
        self._redaction = redaction
        self.scan = Scan(
            target.queue,
            target.state,
            target.filter,
            now_ms,
            needs=frozenset({"payload"}),
            partly=True,
        )
        self._head: dict[str, Any] | None = EXPORT.head(
            queue=target.queue.name,
            kind=target.queue.kind,
            state=target.state,
            filter=str(target.filter),
            at_ms=now_ms,
            redacted=bool(redaction),
        )

    async def step(self) -> bool:
        """Read some entries; False when the last line is in ``rows``."""
        if self._head is not None:
            self.rows, self._head = [self._head], None
            return True
        readable = [entry for entry in await self.scan.step() if not entry.problem]
        found = await self._whole(readable)
        self.rows = [self._row(*pair) for pair in found]
        self.written += len(self.rows)
        if not self.scan.over:
            return True
        self.rows.append(
            {
                "redisq": END,
                "queue": self.queue.name,
                "state": self.state,
                "entries": self.written,
                "scanned": self.scan.scanned,
                "complete": self.scan.complete and not self.scan.unread,
                "left": self.left,
            }
        )
        return False

    async def _whole(self, batch: Sequence[Entry]) -> list[tuple[Entry, Request | None]]:
        """The entries that are still in the state, with their payloads and requests."""
        found: Sequence[Entry | None] = batch
        if missing := [entry.id for entry in batch if entry.payload is None]:
            again = await together(self.queue.get.op(id) for id in missing)
            now = dict(zip(missing, again, strict=True))
            found = [now.get(entry.id, entry) for entry in batch]
        present = [entry for entry in found if entry is not None and entry.state == self.state]
        self.left += len(batch) - len(present)
        queue = self.queue
        if not isinstance(queue, HasRequests):
            return [(entry, None) for entry in present]
        names = list(dict.fromkeys(entry.id.rpartition("/")[0] for entry in present))
        records = await together(queue.request.op(name) for name in names)
        requests = dict(zip(names, records, strict=True))
        return [(entry, requests[entry.id.rpartition("/")[0]]) for entry in present]

    def _row(self, entry: Entry, request: Request | None) -> dict[str, Any]:
        shown = self._redaction.entry(entry)
        error = shown.error
        row: dict[str, Any] = {
            "id": entry.id,
            "state": entry.state,
            "since_ms": entry.since_ms,
            "ready_ms": entry.at_ms if entry.state in ("waiting", "delayed") else None,
            "first_ms": entry.first_ms,
            "failures": entry.failures if entry.counted else None,
            "lost": entry.lost if entry.counted else None,
            "attempts": entry.attempts if entry.counted else None,
            "reason": entry.reason,
            "error": error and {name: getattr(error, name) for name in ERROR},
            "client": entry.client,
            "task": shown.task,
        }
        if request is not None:
            row["request"] = {name: getattr(request, name) for name in REQUEST}
        if self._redaction and shown != entry:
            self.redacted += 1
            row["redacted"] = True
        payload = shown.payload
        try:
            row["payload"] = None if payload is None else payload.decode()
        except UnicodeDecodeError:
            row["payload_b64"] = base64.b64encode(payload or b"").decode()
        return row
