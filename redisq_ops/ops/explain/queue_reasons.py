"""The reasons for a queue: what stops it, what it waits for, or how fast it moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from redisq_ops.core.engine.optional_features import HasClients
from redisq_ops.core.model.entry import Entry

from ..hint import hint
from ..inspect.consumers import SILENT_MS, ConsumerStatus
from ..terminal import age, count, entries, kind_of, took
from ..trouble.finding import USUAL
from .observation import RATE_MINUTES, UNASKED
from .outcome_reasons import NAMED
from .periodic_reasons import PeriodicReasons
from .reason import Reason, Rule

TRIED_AGAIN: Final = f"failures>={USUAL.failures} or lost>={USUAL.lost}"


class QueueReasons(PeriodicReasons):
    """The reasons for a queue as a whole."""

    def _queue_state(self) -> str:
        counts = self.observed.counts
        return (
            "paused"
            if counts.paused is not None
            else ("draining" if counts.closed is not None else "open")
        )

    def _queue_reasons(self) -> Iterator[Reason]:
        counts, expired = self.observed.counts, self._first_expired
        delayed = self.observed.first["delayed"]
        next_ms = delayed.at_ms if delayed else None
        ready = next_ms is not None and next_ms <= self.now
        held = bool(counts.waiting) and self.observed.position.open == 0 and counts.paused is None
        yield from self._paused()
        if self._may_wait or expired or ready:
            yield from self._no_worker_at_all()
        rated = list(self._rated())
        if held:
            yield self._held(counts.waiting)
        yield from rated
        if expired is not None and expired.at_ms is not None:
            yield self._expired(expired, expired.at_ms)
        yield from self._holders(expired.consumer if expired else None)
        yield from self._closed()
        yield from self._failures()
        yield from self._overdue(self.observed.periodic)
        progress = self._progress(next_ms, ready)
        if progress is not None and not ((held or rated) and progress.rule == "waiting"):
            yield progress
        yield from self._owners_limit(known=False)
        yield from self._next_periodic(self.observed.periodic)
        yield from self._unseen_periodic(self.observed.periodic)
        yield from self._dead_letters()

    @property
    def _may_wait(self) -> bool:
        counts = self.observed.counts
        return counts.waiting > 0 or "waiting" in counts.unknown

    @property
    def _first_expired(self) -> Entry | None:
        """The pending entry whose lease expired first."""
        first = self.observed.first["pending"]
        return first if first and first.at_ms is not None and first.at_ms <= self.now else None

    def _progress(self, next_ms: int | None, ready: bool) -> Reason | None:
        """How fast the queue moves, or what its entries wait for.

        None: only entries with an expired lease are left, which have a reason of their own.

        ``next_ms``: when the first delayed entry is ready; ``ready``: it is ready now.
        """
        counts, rate, expired = self.observed.counts, self._rate, self._first_expired
        waiting, pending = (
            f"{self._number('waiting')} waiting",
            f"{self._number('pending')} pending",
        )
        delayed = f"{self._entries('delayed')} delayed"
        known = {state: counts.of(state) for state in ("waiting", "pending", "delayed", "dead")}
        if next_ms is not None and ready and not self._may_wait and not counts.pending:
            return Reason(
                "due",
                f"{delayed}; the first became ready {age(self.now - next_ms)} ago: the next take "
                "delivers it",
                facts={"delayed": known["delayed"], "next_ms": next_ms},
            )
        if rate is not None:
            return self._moving(rate, f"{waiting}, {pending}")
        first_pending = "pending" in counts.unknown and self.observed.first["pending"]
        if (counts.pending or first_pending) and expired is None:
            settled = "settled entries are not counted"
            if self.observed.rates.settled:
                settled = f"none settled in the last {RATE_MINUTES} minutes"
            return Reason(
                "pending",
                f"{pending}, {waiting}; {settled}",
                facts={"pending": known["pending"], "waiting": known["waiting"]},
            )
        if counts.waiting:
            oldest = counts.oldest_ms
            since = "" if oldest is None else f", the oldest for {age(self.now - oldest)}"
            return Reason(
                "waiting",
                f"{self._entries('waiting')} waiting{since}",
                facts={"waiting": known["waiting"], "oldest_ms": oldest},
            )
        if counts.delayed or (next_ms is not None and not ready):
            first = "" if next_ms is None else f"; the first is ready {self._until(next_ms)}"
            return Reason(
                "delayed",
                f"{delayed}, none ready{first}",
                eta_ms=next_ms,
                facts={"delayed": known["delayed"], "next_ms": next_ms},
            )
        if expired is not None:
            return None
        unknown = [state for state, number in known.items() if number is None and state != "dead"]
        if unknown:
            kind, states = kind_of(self.queue.kind), " and ".join(unknown)
            return Reason("unknown", f"{kind} does not show how many entries are {states} in it")
        dead = f"; {entries(counts.dead)} dead" if counts.dead else ""
        return Reason("empty", f"it has no work to do{dead}", facts={"dead": known["dead"]})

    def _failures(self) -> Iterator[Reason]:
        """Entries die or fail again and again. Failing attempts are named only if no other rule
        is."""
        name, found = (
            self.queue.name,
            {one.rule: one for one in self.observed.broken if one.rule not in ("dead", UNASKED)},
        )
        commands: dict[Rule, tuple[str, str]] = {
            "dying": ("dlq", hint("dlq", "groups", name)),
            "poison": ("select", hint("select", name, where=TRIED_AGAIN)),
            "failing": ("history", hint("history", name)),
        }
        for rule, (verb, command) in commands.items():
            if rule in found and (rule != "failing" or len(found) == 1):
                yield Reason(rule, self.redacted_text(found[rule].reason), verb, command)

    def _dead_letters(self) -> Iterator[Reason]:
        """Dead letters that nobody acknowledged: they hold nothing up, so they come last."""
        command = hint("dlq", "groups", self.queue.name)
        for one in self.observed.broken:
            if one.rule == "dead":
                yield Reason("dead-letters", self.redacted_text(one.reason), "dlq", command)

    def _held(self, waiting: int) -> Reason:
        """No token or client is free."""
        blockers = self.observed.blockers
        why = "; ".join(blocker.sentence for blocker in blockers) or "run redisq fsck"
        helps: dict[str, Any] = {}
        first = blockers[0] if blockers else None
        if first is not None and first.rule == "request-paused":
            address = f"{self.queue.name}/{first.names[0]}"
            helps = {"verb": "resume", "command": hint("request", "resume", address)}
        elif first is not None and first.rule == "blocked":
            helps = self._client_command("unblock", first.names[0])
        elif isinstance(self.queue, HasClients) and self.queue.client_rules:
            helps = {"verb": "client", "command": hint("client", "ls", self.queue.name)}
        named = {
            noun: [name for b in blockers if b.rule in rules for name in b.names][:NAMED]
            for noun, rules in (
                ("requests", ("request-paused", "limit")),
                ("clients", ("blocked", "cap", "client-rate")),
            )
        }
        return Reason(
            "held",
            f"{entries(waiting)} waiting, and none can be delivered: {why}",
            **helps,
            facts={"waiting": waiting, "held": [b.sentence for b in blockers], **named},
        )

    def _expired(self, entry: Entry, deadline_ms: int) -> Reason:
        """A lease has expired. The command is for all entries of its consumer, which is silent."""
        silence, command = age(self.now - deadline_ms), {}
        who = f"consumer {entry.consumer}" if entry.consumer else "an unknown consumer"
        sentence = f"{entry.id} is overdue: {who} was silent for at least {silence}"
        holder = next((one for _, one in self._holding() if one.name == entry.consumer), None)
        if holder is not None and holder.pending > 1:
            sentence += f" and holds {holder.holds}"
            command = self._requeue_all_of(entry.consumer or "-")
        else:
            command = self._command("requeue", "pending", f"{self.queue.name}/{entry.id}")
        return Reason(
            "overdue",
            sentence,
            facts={
                "id": entry.id,
                "consumer": entry.consumer,
                "deadline_ms": deadline_ms,
                "pending": holder.pending if holder is not None and holder.exact else None,
            },
            **command,
        )

    def _holding(self) -> Iterator[tuple[str | None, ConsumerStatus]]:
        """(group, consumer) of silent consumers; if nothing moves in the
        queue, also of consumers that have held an entry for `SILENT_MS`."""
        stuck = self._rate is None and bool(self.observed.rates.settled)
        for report in self.observed.reports:
            for one in report.consumers:
                long = stuck and one.oldest_ms is not None and one.oldest_ms >= SILENT_MS
                if one.pending and (one.silent_ms is not None or long):
                    yield report.group, one

    def _holders(self, besides: str | None) -> Iterator[Reason]:
        """Who holds entries in silence, or for long while nothing is settled."""
        found = [row for row in self._holding() if row[1].name != besides]
        for group, one in sorted(found, key=lambda row: -(row[1].oldest_ms or 0))[:NAMED]:
            of = f" of group {group}" if group else ""
            holds = f"holds {one.holds}, the oldest for {age(one.oldest_ms or 0)}"
            silent = (
                "" if one.silent_ms is None else f"has been silent for {age(one.silent_ms)} and "
            )
            command = self._requeue_all_of(one.name)
            if group is not None:
                options = {"group": group, "to": "NAME"}
                claim = hint("workers", "claim", self.queue.name, one.name, **options)
                command = {"verb": "claim", "command": claim}
            yield Reason(
                "holder" if one.silent_ms is None else "silent",
                f"consumer {one.name}{of} {silent}{holds}",
                facts={
                    "consumer": one.name,
                    "group": group,
                    "pending": one.pending if one.exact else None,
                    "silent_ms": one.silent_ms,
                    "oldest_age_ms": one.oldest_ms,
                },
                **command,
            )

    def _moving(self, rate: float, numbers: str) -> Reason:
        """The queue moves: how fast, and when it will be empty."""
        rates = self.observed.rates
        out = rate * 60_000
        added, come = "what is added isn't counted", None
        if rates.arrived:
            come = sum(rates.arrived) / max(1, sum(rates.settled)) * out
            added = f"≈ {come:,.1f} added"
        counts = self.observed.counts
        known = counts.unknown.isdisjoint(("waiting", "pending"))
        left = counts.waiting + counts.pending if known else 0
        eta: dict[str, Any] = {}
        if come is not None and come < out and left:
            at = self.now + int(left / (rate - come / 60_000))
            eta = {"eta_ms": at, "estimate": True, "basis": f"{count(left)} left, at these rates"}
        return Reason(
            "moving",
            f"≈ {out:,.1f} settled and {added} per minute (last {took(self._span_ms)}); {numbers}",
            facts={"out_per_min": round(out, 2), "in_per_min": come and round(come, 2)},
            **eta,
        )
