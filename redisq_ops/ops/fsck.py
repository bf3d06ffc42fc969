"""fsck: what is inconsistent in a queue, confirmed by checking it repeatedly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import GONE, Checkup, State
from redisq_ops.core.model.errors import CORRUPT, RedisqError, Refused, Unreadable, WrongKind
from redisq_ops.core.model.open_resize import OpenResize
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.redis.operation import Call, attempt, attempt_read
from redisq_ops.core.redis.scripts import NUMBERS

from .change import audit_log
from .change.allowed import allowed
from .change.unfinished import unfinished
from .change.wording import SKIPPED
from .hint import hint
from .resize import what_completes
from .terminal import date

CHECKS, CHECKS_IN_USE = 5, 20
"""checks that must all make a finding. More are needed while the queue is in use: workers take
entries between two reads of a check, so most checks find the count of a busy client off by one"""
_WHOLE_NUMBER = re.compile(rb"-?\d{1,16}")
_COUNTS = re.compile(r"is (\d+), counted (\d+)")
_FIGURES = re.compile(r"(?<!\S)\d[\d,]*(?=[\s,;.)]|$)")
_EXAMPLES = re.compile(r" \([^)]*\)")


@dataclass(slots=True)
class QueueCheck:
    """Repeated checks of one queue.

    A queue in use changes between the reads of one check, so a finding of a single check may be
    transient. ``findings`` are those that every check so far has made.
    """

    queue: Queue[Any]
    checks: int = 0
    findings: list[str] = field(default_factory=list)
    transient: int = 0
    """findings that a later check did not confirm"""
    not_checked: str | None = None
    """what the latest check left out because checks are bounded"""
    _in_use: bool = False
    """whether findings, or the figures in them, differ between two checks"""

    async def check(self) -> bool:
        """Check the queue once more; returns whether another check is needed to confirm."""
        try:
            checkup = await self.queue.checkup.op(thorough=True)
        except (Unreadable, WrongKind, *CORRUPT) as corrupt:
            why = str(corrupt) if isinstance(corrupt, RedisqError) else "a value in it is corrupt"
            checkup = Checkup((f"the queue can't be checked: {why}",))
        when = partial(date, zone=UTC)
        moves = [m.sentence(when) for m in await unfinished(self.queue) if m.abandoned]
        orphans = [await self._orphans(*found) for found in checkup.orphans.items()]
        counters, resize = await self._corrupt_counters(), await self._held_resize()
        found = (*checkup.flaws, *orphans, *counters, *moves, *resize)
        self.not_checked = checkup.unseen
        same = _foreign_identity if self.queue.names_examples else _identity
        earlier = {same(finding) for finding in self.findings}
        confirmed = [finding for finding in found if not self.checks or same(finding) in earlier]
        self.transient += max(0, len(self.findings) - len(confirmed))
        self._in_use |= self.checks > 0 and confirmed != self.findings
        self.findings = confirmed
        self.checks += 1
        return bool(confirmed) and self.checks < (CHECKS_IN_USE if self._in_use else CHECKS)

    async def _orphans(self, state: State, ids: Sequence[str]) -> str:
        """The orphans of a state, and what removes them, or why that is refused now."""
        named = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
        what = "entry is only an id" if len(ids) == 1 else "entries are only ids"
        found = f"{len(ids):,} {state} {what} ({named}), with no record that anybody could run"
        try:
            allowed(self.queue, "purge", state, orphan=True)
        except Refused as refusal:
            return f"{found}. {refusal}"
        some = ids[:MAX_BATCH]
        words = await attempt(self.queue.would_move.op(some, state, "trash", some))
        if not isinstance(words, Exception) and all(words):
            named = " or ".join(SKIPPED.get(word, word) for word in dict.fromkeys(words))
            return f"{found}. They can't be removed now: they {named}"
        command = hint("purge", self.queue.name, state=state, where=f"reason={GONE}")
        return f"{found}. To remove: {command}"

    async def _held_resize(self) -> list[str]:
        """A change of the number of shards that waits for an operator."""
        resize = await attempt(self.queue.open_resize.op())
        if not isinstance(resize, OpenResize) or not resize.held:
            return []
        return [f"{resize}. To complete it, {what_completes(self.queue.name, resize)}"]

    async def _corrupt_counters(self) -> list[str]:
        """Counters that are not whole numbers, with which the queue's scripts refuse to work."""
        names, findings = sorted(NUMBERS), []
        for keys in self.queue.shard_keys:
            key = keys["stat"]
            values = await attempt_read(Call(("HMGET", key, *names), list[bytes | None], key=key))
            if isinstance(values, Exception):  # a key of another type, which `checkup` reports
                continue
            for name, value in zip(names, values, strict=True):
                if value is not None and not _WHOLE_NUMBER.fullmatch(value):
                    findings.append(
                        f"key {key}, field {name} is not a whole number: take, settle and submit "
                        "are refused until it is repaired"
                    )
        return findings

    async def audit_log_findings(self) -> list[str]:
        """The corrupt operations in the queue's audit log."""
        try:
            return await audit_log.corrupt(self.queue)
        except (Unreadable, WrongKind) as corrupt:
            return [f"the audit log can't be read: {corrupt}"]


def _identity(finding: str) -> str:
    """A finding without the numbers that change in a queue in use; their difference is kept."""
    return _COUNTS.sub(lambda found: f"is off by {int(found[1]) - int(found[2])}", finding)


def _foreign_identity(finding: str) -> str:
    """The same for another program's queue, whose findings contain counts and examples."""
    return _FIGURES.sub("", _EXAMPLES.sub("", finding))
