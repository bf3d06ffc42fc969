"""What several reasons share: times in words, commands, who made a change, when it will be over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.states import Verb

from ..change.audit_log import Operation
from ..filter.fields import quoted
from ..hint import hint
from ..redaction import Redaction
from ..terminal import age, count, date, entries, took
from .observation import Observation

FormatTime = Callable[[int], str]
"""shows a time (ms since 1970)"""


def utc(ms: int) -> str:
    """A time as a date in UTC."""
    return date(ms, UTC)


class ReasonParts:
    """Parts of sentences and facts, from one observation."""

    def __init__(self, observed: Observation, when: FormatTime, redaction: Redaction) -> None:
        self.observed = observed
        self.redacted = redaction.failure
        self.redacted_text = redaction.text
        self.queue = observed.queue
        self.now = observed.now_ms
        self.when = when
        self.request = observed.request or observed.position.request
        self.address = (
            observed.queue.name if observed.id is None else f"{observed.queue.name}/{observed.id}"
        )

    def _ago(self, ms: int) -> str:
        if ms - self.now >= 1000:
            return f"by a clock that was {age(ms - self.now)} ahead"
        return f"{age(max(0, self.now - ms))} ago"

    def _until(self, ms: int) -> str:
        left = ms - self.now
        return f"in {age(left)}" if left >= 1000 else "now"

    def _lease(self, until_ms: int) -> str:
        if until_ms > self.now:
            return f"lease ends {self._until(until_ms)}"
        return f"lease ended {self._ago(until_ms)}"

    def _setting(self, name: str) -> int:
        return int(self.observed.settings.get(name, getattr(DEFAULTS, name)))

    def _number(self, state: State) -> str:
        number = self.observed.counts.of(state)
        return "an unknown number" if number is None else count(number)

    def _entries(self, state: State) -> str:
        """How many entries are in a state."""
        number = self.observed.counts.of(state)
        return "an unknown number of entries" if number is None else entries(number)

    def _can(self, verb: Verb, state: State) -> bool:
        changeable = self.observed.counts.only_shown is None
        entry = self.observed.entry
        orphans = self.queue.orphan_states if entry is not None and entry.orphan else ()
        return changeable and state in (*self.queue.actions.get(verb, ()), *orphans)

    def _why_not(self, verb: Verb, state: State) -> str:
        """Why the verb that would help would skip the observed entry; empty: it would not."""
        why = self.observed.refused.get((self.observed.id or "", verb))
        return f"; {why}" if why and self._can(verb, state) else ""

    def _command(self, verb: Verb, state: State, address: str | None = None) -> dict[str, Any]:
        """The verb and its command for an entry, by default the observed one; empty if the verb
        would leave it alone."""
        id = (address or self.address).partition("/")[2]
        if not self._can(verb, state) or (id, verb) in self.observed.refused:
            return {}
        return {"verb": verb, "command": hint(verb, address or self.address)}

    def _by(self, operation: Operation | None) -> str:
        """Who made a change, when and why, from the audit log."""
        if operation is None:
            return "by an unknown user (not in the audit log)"
        why = f" because {operation.why!r}" if operation.why else ", no reason given"
        return f"by {operation.by} {self._ago(operation.started_ms)}{why} (op {operation.id})"

    def _operation(self, id: str | None) -> Operation | None:
        return next((o for o in self.observed.operations if o.id == id), None)

    def _change(self, verb: str, what: str) -> Operation | None:
        """The latest change with this verb and object."""
        found = (o for o in self.observed.operations if o.verb == verb and o.what == what)
        return next(found, None)

    def _requeue_all_of(self, consumer: str) -> dict[str, Any]:
        """The command that makes all that a consumer holds wait again, if the queue can."""
        if not self._can("requeue", "pending"):
            return {}
        where = f"consumer={quoted(consumer)}"
        command = hint("requeue", queue=self.queue.name, state="pending", where=where)
        return {"verb": "requeue", "command": command}

    def _op_facts(self, operation: Operation | None) -> dict[str, Any]:
        if operation is None:
            return {"operation": None}
        return {
            "operation": {
                "id": operation.id,
                "verb": operation.verb,
                "started_ms": operation.started_ms,
                "user": operation.who,
                "host": operation.whence,
                "reason": operation.why,
            }
        }

    @property
    def _span_ms(self) -> int:
        """Since when rates are known: the first of the last minutes in which something came or was
        settled."""
        arrived, settled = self.observed.rates.arrived, self.observed.rates.settled
        pairs = enumerate(zip(arrived or settled, settled, strict=True))
        began = next((n for n, pair in pairs if any(pair)), 0)
        return (len(settled) - 1 - began) * 60_000 + self.now % 60_000

    @property
    def _rate(self) -> float | None:
        """Entries settled per millisecond in that time; None: none, or not counted."""
        settled = sum(self.observed.rates.settled)
        return settled / self._span_ms if settled and self._span_ms > 0 else None

    def _after(self, entries: int | None, share: float = 1.0) -> dict[str, Any]:
        """When this many entries will have been settled at the current rate.

        ``share`` is the part of all settled entries that counts, from 0 to 1.
        """
        if entries is None or self._rate is None or share <= 0:
            return {}
        part = "" if share >= 1 else f", {count(round(100 * share))} % of them of this request"
        basis = (
            f"{count(entries)} left, at ≈ {self._rate * 60_000:,.1f} settled per minute as in the "
            f"last {took(self._span_ms)}{part}"
        )
        at = self.now + int(entries / (self._rate * share))
        return {"eta_ms": at, "estimate": True, "basis": basis}
