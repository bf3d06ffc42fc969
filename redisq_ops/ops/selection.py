"""Which entries an action is about: a state of a queue and a filter, the same set that is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.errors import BadInput
from redisq_ops.core.queue import Queue
from redisq_ops.core.values import Entry, State

_AGE = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
PAGE = 500


def duration_ms(text: str) -> int:
    """``90s``, ``5m``, ``2h``, ``3d`` or ``1h30m`` in milliseconds."""
    parts = _AGE.findall(text)
    if not parts or _AGE.sub("", text).strip():
        raise BadInput(f"{text!r} is not a time span: write 90s, 5m, 2h or 3d")
    return sum(int(n) * _UNIT_MS[unit] for n, unit in parts)


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression, or one line that says where it is wrong."""
    try:
        return re.compile(text)
    except re.error as error:
        at = f" at column {error.pos + 1}" if error.pos is not None else ""
        raise BadInput(f"--match {text!r}: {error.msg}{at}") from error


@dataclass(frozen=True, slots=True)
class Filter:
    """What narrows a state down. An empty filter is the whole state.

    ``match`` looks at id, error type and message; ``older_than_ms`` at the time in the present
    state (an entry that only ever waited doesn't know it and is left out); ``max`` caps.
    """

    ids: tuple[str, ...] = ()
    request: str | None = None
    match: re.Pattern[str] | None = None
    older_than_ms: int | None = None
    max: int | None = None

    def accepts(self, entry: Entry, now_ms: int) -> bool:
        if self.ids and entry.id not in self.ids:
            return False
        if self.request is not None and entry.id.rpartition("/")[0] != self.request:
            return False
        if self.older_than_ms is not None and (
            entry.since_ms is None or now_ms - entry.since_ms < self.older_than_ms
        ):
            return False
        if self.match is None or self.match.search(entry.id):
            return True
        error = entry.error
        return error is not None and bool(
            self.match.search(error.type) or self.match.search(error.message)
        )

    def __str__(self) -> str:
        said = []
        if self.ids:
            said.append(", ".join(self.ids[:3]) + (" …" if len(self.ids) > 3 else ""))
        if self.request is not None:
            said.append(f"request {self.request}")
        if self.match is not None:
            said.append(f"match {self.match.pattern!r}")
        if self.older_than_ms is not None:
            said.append(f"older than {self.older_than_ms / 1000:g}s")
        if self.max is not None:
            said.append(f"at most {self.max:,}")
        return ", ".join(said) or "all"


@dataclass(slots=True)
class Selection:
    """The identities a filter chose, kept small: ids by pages, and what they are like.

    ``complete`` is False when ``max`` ended the scan before the state's end.
    """

    queue: Queue[Any]
    state: State
    filter: Filter
    high_water_ms: int
    """entries that came into the state after this moment are not meant"""
    pages: list[bytes] = field(default_factory=list)
    count: int = 0
    scanned: int = 0
    total: int = 0
    complete: bool = True
    sample: list[Entry] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, entries: list[Entry]) -> None:
        if entries:
            self.pages.append("\n".join(entry.id for entry in entries).encode())
        self.count += len(entries)
        self.sample += entries[: max(0, 10 - len(self.sample))]
        for entry in entries:
            reason = entry.reason or (entry.error.type if entry.error else None)
            if reason:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def ids(self) -> list[str]:
        """Every id, in the server's order; for small selections and tests."""
        return [id for page in self.pages for id in page.decode().split("\n")]


async def select(
    queue: Queue[Any],
    state: State,
    filter: Filter,
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    """Look through a state by pages of 500 and keep what the filter accepts.

    ``progress`` is told (scanned, total) after each page; raising from it, or Ctrl+C, ends the
    scan without any effect on the queue. Named ids are looked up, not searched for.
    """
    now = await queue.now.op()
    chosen = Selection(queue, state, filter, now)
    if filter.ids:
        found = [await queue.get.op(id) for id in filter.ids]
        present = [e for e in found if e is not None and e.state == state]
        chosen.scanned = chosen.total = len(filter.ids)
        chosen.add([e for e in present if filter.accepts(e, now)][: filter.max])
        return chosen
    cursor: str | None = None
    while True:
        page = await queue.page.op(state, cursor, PAGE)
        chosen.scanned += len(page.entries)
        chosen.total = max(page.total, chosen.scanned)
        left = None if filter.max is None else filter.max - chosen.count
        accepted = [entry for entry in page.entries if filter.accepts(entry, now)]
        chosen.add(accepted if left is None else accepted[:left])
        if progress is not None:
            progress(chosen.scanned, chosen.total)
        if left is not None and len(accepted) >= left:
            chosen.complete = page.cursor is None and len(accepted) == left
            return chosen
        if page.cursor is None:
            return chosen
        cursor = page.cursor
