"""The reasons for an entry, by its state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from redisq_ops.core.model.consumer_load import NOBODY
from redisq_ops.core.model.entry import GONE, Entry

from ..hint import hint
from ..inspect.consumers import SILENT_MS
from ..inspect.flow import FlowMember
from ..terminal import age, count
from .blocking_reasons import BlockingReasons
from .observation import RELATED
from .outcome_reasons import OutcomeReasons, error_row, error_text
from .reason import Reason, Rule

GROUPS = 5
"""other consumer groups of a stream that are named"""


class EntryReasons(BlockingReasons, OutcomeReasons):
    """The reasons for an entry: what keeps it in its state, and what was done to it."""

    def _entry_reasons(self, entry: Entry) -> Iterator[Reason]:
        match GONE if entry.orphan else entry.state:
            case "gone":
                yield self._orphan(entry)
            case "waiting":
                yield from self._waiting()
            case "delayed" if self.observed.held.holding:
                yield self._waits_for(self.observed.held.holding)
            case "delayed":
                yield from self._delayed(entry)
            case "pending":
                yield from self._pending(entry)
            case "dead":
                yield self._dead(entry)
                yield from self._depends()
            case "trash":
                yield self._trash(entry)
            case "done":
                yield self._done(entry)
        yield from self._batches(entry)
        yield from self._other_groups(entry)
        change = self._operation(entry.op)
        if entry.state not in ("trash", "done") and change is not None:
            sentence = f"last changed by an operator: {change.verb} {self._by(change)}"
            if change.origin:
                sentence = f"moved here from {change.origin} {self._by(change)}"
            yield Reason("touched", sentence, facts=self._op_facts(change))

    def _orphan(self, entry: Entry) -> Reason:
        return Reason(
            "gone",
            f"{entry.problem}: deleted, evicted or expired. Only its id is left, so nobody"
            f" can run or replay it{self._why_not('purge', entry.state)}",
            **self._command("purge", entry.state),
        )

    def _waits_for(self, holding: Sequence[FlowMember]) -> Reason:
        """The entry waits for others; if the first of these is dead, its replay is advised."""
        return Reason(
            "children",
            f"it goes on when {self._all_of(holding)} have ended, and waits for"
            f" {self._listed(holding)}",
            facts=self._facts_of(holding),
            **self._replay_of(holding[0]),
        )

    def _depends(self) -> Iterator[Reason]:
        """Of a dead entry: what has to be replayed before it, and after it."""
        holding = self.observed.held.holding
        if holding:
            yield Reason(
                "children",
                f"replay it only after {self._listed(holding)}",
                facts=self._facts_of(holding),
                **self._replay_of(holding[0]),
            )
        for one in self.observed.held.awaiting[:RELATED]:
            if one.state == "dead":
                yield Reason(
                    "parent",
                    f"replay {self._named(one)} when this one is done",
                    facts=self._facts_of([one]),
                )

    def _batches(self, entry: Entry) -> Iterator[Reason]:
        """Of an entry of a batch: which entries the batch waits for; a dead one is to be replayed,
        unless the entry itself is dead."""
        beside = self.observed.held.beside
        for one in self.observed.held.awaiting:
            if not one.group or entry.state == "trash":
                continue
            name, facts = f"{one.role} {one.id}", {"batch": one.id}
            if one.state == "gone":
                yield Reason("batch", f"{name} is gone: nothing waits for it now", facts=facts)
                continue
            others = f" and {self._listed(beside)}" if beside else ""
            note = self.redacted_text(one.note)
            yield Reason(
                "batch",
                f"{name} waits for it{others}: {note}",
                facts=facts | self._facts_of(beside),
                **(self._replay_of(beside[0]) if beside and entry.state != "dead" else {}),
            )

    def _replay_of(self, one: FlowMember) -> dict[str, Any]:
        if one.state != "dead":
            return {}
        if (one.id, "replay") in self.observed.refused:
            return {"verb": "explain", "command": hint("explain", one.address)}
        return {"verb": "replay", "command": hint("replay", one.address)}

    @staticmethod
    def _all_of(members: Sequence[FlowMember]) -> str:
        role = members[0].role  # a plug-in may call it otherwise
        several = {"child": "children", "dependency": "dependencies"}.get(role, f"{role} entries")
        return f"all its {several}"

    def _listed(self, members: Sequence[FlowMember]) -> str:
        more = len(members) - RELATED
        named = ", ".join(self._named(one) for one in members[:RELATED])
        return named + (f" and at least {count(more)} more" if more > 0 else "")

    def _named(self, one: FlowMember) -> str:
        state = {"dead": "dead ", "gone": "vanished "}.get(one.state or "", "")
        return f"its {state}{one.role} {one.address}"

    def _facts_of(self, members: Sequence[FlowMember]) -> dict[str, Any]:
        return {
            "related": [
                {"address": one.address, "role": one.role, "state": one.state}
                for one in members[:RELATED]
            ]
        }

    def _held_back(self) -> list[Reason]:
        """What keeps an entry that is ready from delivery; busy workers last."""
        held = [
            *self._paused(),
            *self._request_paused(),
            *self._client(),
            *self._no_worker(),
            *self._limit(),
            *self._rated(),
        ]
        return sorted(held, key=lambda reason: reason.rule == "busy")

    def _waiting(self) -> Iterator[Reason]:
        held = self._held_back()
        yield from held
        # A client that is not served has no place in the order of clients, so nothing is "ahead" of
        # it; still the next take does not deliver its entry.
        unserved = any(reason.rule in ("blocked", "cap", "client-rate") for reason in held)
        if not unserved or self.observed.position.ahead:
            yield self._in_line()
        yield from self._owners_limit(known=False)

    def _delayed(self, entry: Entry) -> Iterator[Reason]:
        at = entry.at_ms
        requeue = self._command("requeue", "delayed")
        facts = {
            "ready_ms": at,
            "failures": entry.failures,
            "error": error_row(self.redacted(entry.error)),
        }
        why_not = self._why_not("requeue", "delayed")
        if at is not None and at <= self.now:
            held = self._held_back()
            yield from held
            yield Reason(
                "due",
                f"it became ready {age(self.now - at)} ago: the next takes deliver it, a "
                "few ready entries per take",
                facts={"ready_ms": at},
                **({} if held else requeue),
            )
            return
        until = "an unknown time" if at is None else f"{self.when(at)}, {self._until(at)}"
        if entry.failures:
            most = self._setting("max_failures") if self.queue.has_settings else None
            of = f" of {most}" if most and self.queue.counts_failures else ""
            error = error_text(self.redacted(entry.error))
            yield Reason(
                "retry",
                f"it will be retried at {until}; failure {entry.failures}{of}: {error}{why_not}",
                eta_ms=at,
                facts=facts | {"max_failures": most},
                **requeue,
            )
        else:
            yield Reason(
                "delayed",
                f"it is delayed until {until}{why_not}",
                eta_ms=at,
                facts=facts,
                **requeue,
            )
        yield from self._paused()
        yield from self._no_worker_at_all()

    def _pending(self, entry: Entry) -> Iterator[Reason]:
        who = f"consumer {entry.consumer}" if entry.consumer else "an unknown consumer"
        held = "" if entry.since_ms is None else f" for {age(self.now - entry.since_ms)}"
        facts = {
            "consumer": entry.consumer,
            "since_ms": entry.since_ms,
            "deadline_ms": entry.at_ms,
            "lost": entry.lost,
            "deliveries": entry.deliveries,
        }
        claim = self._operation(entry.op)
        claimed = ""
        if claim is not None and claim.verb == "claim":
            claimed = f", claimed for it {self._by(claim)}"
            facts |= self._op_facts(claim)
        if entry.at_ms is None:
            yield self._without_lease(
                entry, who, held, facts | {"heard_ms": self.observed.position.heard_ms}
            )
        elif entry.at_ms > self.now:
            yield Reason(
                "pending",
                f"{who} has had it{held}{claimed}; its lease ends "
                f"{self._until(entry.at_ms)}, unless it is extended",
                eta_ms=entry.at_ms,
                facts=facts,
                **self._command("requeue", "pending"),
            )
        else:
            late = self.now - entry.at_ms
            becomes = self.queue.after_deadline
            if not self.queue.owner or entry.receipt is not None:  # the lease is one of ours
                facts["max_lost"] = most = self._setting("max_lost")
                state = "dead" if entry.lost + 1 >= most else "waiting again"
                becomes = f"the next take, or a worker's maintenance every 30 s, makes it {state}"
            no_worker = self._no_worker_at_all()
            but = f", but {no_worker[0].sentence}" if no_worker else ""
            yield Reason(
                "overdue",
                f"{who} was silent for at least {age(late)}: it has had the entry{held}"
                f"{claimed}, and its lease ended {self._ago(entry.at_ms)}; {becomes}{but}",
                facts=facts | {"silent_ms": late},
                **self._command("requeue", "pending"),
            )
            yield from no_worker

    def _without_lease(self, entry: Entry, who: str, held: str, facts: dict[str, Any]) -> Reason:
        """Pending in a queue without deadlines: the entry stays until somebody claims it."""
        position = self.observed.position
        active = position.heard_ms
        verb = self._command("requeue", "pending")
        grouped = position.group is not None
        of = f" of group {position.group}" if grouped else ""
        if entry.called == GONE:
            return self._trimmed(entry, f"{who}{of} has held its id{held}", facts)
        sentence = f"{who}{of} has had it{held}"
        if grouped and entry.consumer is None:
            sentence = f"nobody{of} has it: its consumer gave it back"
        facts |= {"group": position.group}
        long = entry.since_ms is not None and self.now - entry.since_ms >= SILENT_MS
        if grouped and (long or entry.consumer is None):
            options = {"group": position.group, "to": "NAME"}
            claim = hint("workers", "claim", self.queue.name, entry.consumer or NOBODY, **options)
            verb = {"verb": "claim", "command": claim}
        if grouped and entry.consumer is not None and active is not None:
            sentence += f" and was last active {self._ago(active)}"
        rule: Rule = "pending" if active is None or self.now - active < SILENT_MS else "silent"
        sentence += f"; {self.queue.without_deadline}{self._why_not('requeue', 'pending')}"
        return Reason(rule, sentence, facts=facts, **verb)

    def _trimmed(self, entry: Entry, held: str, facts: dict[str, Any]) -> Reason:
        """Only the id of a stream entry is left."""
        group, id = self.observed.position.group, entry.id.rpartition(":")[2]
        words = ("workers", "ack", self.queue.name, entry.consumer or NOBODY)
        return Reason(
            "trimmed",
            "its payload was deleted or trimmed from the stream, so no consumer can "
            f"process it. {held}, until an XACK from any client removes it"
            f"{'' if group is None else f', as {hint(*words, group=group, entry=id)} does'}",
            facts=facts | {"group": group},
        )

    def _other_groups(self, entry: Entry) -> Iterator[Reason]:
        """The state of the same stream entry in other consumer groups."""
        group = self.observed.position.group
        for other in self.observed.position.beside[:GROUPS]:
            name = other.id.rpartition(":")[0]
            sentence = f"group {name} has not received it yet"
            if other.state == "pending":
                since = age(self.now - (other.since_ms or self.now))
                sentence = f"in group {name}, consumer {other.consumer} has had it for {since}"
            yield Reason(
                "group",
                f"the answer is for group {group}; {sentence}",
                "explain",
                hint("explain", f"{self.queue.name}/{other.id}"),
                facts={"group": name, "state": other.state, "consumer": other.consumer},
            )
