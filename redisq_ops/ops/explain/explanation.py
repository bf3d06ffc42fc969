"""Why a queue does not move, a request does not finish, an entry does not run, or where it went.

Reasons are listed in the order in which they have to be dealt with: the first one is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from redisq_ops.core.engine.optional_features import HasClients, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import GONE, Entry, Request
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.redis.operation import together

from ..deployment import Address, Deployment
from ..hint import hint
from ..inspect.consumers import SILENT_MS
from ..inspect.history import history_of
from ..redaction import NO_REDACTION, Redaction
from ..terminal import age, count, entries
from .blocking_reasons import FormatTime, Reason, utc
from .observation import RATE_MINUTES, observe
from .outcome_reasons import OutcomeReasons, error_row, error_text
from .periodic_reasons import PeriodicReasons

GROUPS = 5
"""other consumer groups of a stream that are named"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer about a queue, a request or an entry: the first reason, and the others."""

    address: str
    queue: str
    kind: str
    id: str | None
    what: str
    """queue | request | entry | periodic"""
    state: str | None
    """None: it does not exist"""
    now_ms: int
    reason: Reason
    also: tuple[Reason, ...] = ()

    @property
    def known(self) -> bool:
        """Whether it exists."""
        return self.state is not None

    def row(self) -> dict[str, Any]:
        """The stable JSON form."""
        first = self.reason
        return {
            "address": self.address, "queue": self.queue, "kind": self.kind, "id": self.id,
            "what": self.what, "state": self.state, "now_ms": self.now_ms, "rule": first.rule,
            "sentence": first.sentence, "verb": first.verb, "command": first.command,
            "eta_ms": first.eta_ms, "estimate": first.estimate, "basis": first.basis,
            "facts": dict(first.facts),
            "also": [
                {"rule": reason.rule, "sentence": reason.sentence, "verb": reason.verb,
                 "command": reason.command, "facts": dict(reason.facts)}
                for reason in self.also
            ],
        }  # fmt: skip


async def explain_text(
    deployment: Deployment,
    text: str,
    when: FormatTime = utc,
    redaction: Redaction = NO_REDACTION,
) -> Explanation:
    """Explain an address of the command line.

    A bare id that does not exist is searched for in the histories of all queues; `NotFound` says
    how many events were searched.
    """
    try:
        at = await deployment.resolve(text)
    except NotFound:
        at = await _find_in_histories(deployment, text)
    return await explain(at.queue, at.id, when, redaction)


async def _find_in_histories(deployment: Deployment, text: str) -> Address:
    queues = await deployment.queues()
    histories = await together(history_of(queue, text) for queue in queues)
    for queue, history in zip(queues, histories, strict=True):
        if history.events:
            return Address(queue, text)
    searched, total = sum(h.searched for h in histories), sum(h.total for h in histories)
    raise NotFound(
        f"no queue, request or entry is named {text!r}, and the latest {count(searched)} of "
        f"{count(total)} history events do not mention it"
    )


async def explain(
    queue: Queue[Any],
    id: str | None = None,
    when: FormatTime = utc,
    redaction: Redaction = NO_REDACTION,
) -> Explanation:
    """Explain a queue, or the request or entry ``id`` in it; reads only."""
    return _Explainer(await observe(queue, id), when, redaction).explanation()


class _Explainer(OutcomeReasons, PeriodicReasons):
    """Puts the reasons for a queue, a request or an entry in order."""

    def explanation(self) -> Explanation:
        observed = self.observed
        if observed.id is None:
            what, state = "queue", self._queue_state()
            reasons = [*self._unread(), *self._queue_reasons(), *self._unfinished_moves()]
        elif observed.request is not None:
            what, state, reasons = "request", observed.request.state, list(self._request_reasons())
        elif observed.entry is not None:
            what, state = "entry", observed.entry.state
            reasons = [*self._entry_reasons(observed.entry), *self._unread()]
        elif observed.periodic:
            (one,) = observed.periodic
            what, state = "periodic", self._periodic_state(one)
            reasons = list(self._periodic_entry(one))
        else:
            is_request = isinstance(self.queue, HasRequests) and "/" not in observed.id
            what, state = "request" if is_request else "entry", None
            reasons = [self._gone(what)]
        return Explanation(
            self.address, self.queue.name, self.queue.kind, observed.id, what, state, self.now,
            reasons[0], tuple(_each_command_once(reasons))[1:],
        )  # fmt: skip

    # --- entries -------------------------------------------------------------------------------

    def _entry_reasons(self, entry: Entry) -> Iterator[Reason]:
        match entry.state:
            case "waiting":
                yield from self._waiting()
            case "delayed":
                yield from self._delayed(entry)
            case "pending":
                yield from self._pending(entry)
            case "dead":
                yield self._dead(entry)
            case "trash":
                yield self._trash(entry)
            case "done":
                yield self._done(entry)
        yield from self._other_groups(entry)
        change = self._operation(entry.op)
        if entry.state not in ("trash", "done") and change is not None:
            sentence = f"last changed by an operator: {change.verb} {self._by(change)}"
            if change.origin:
                sentence = f"moved here from {change.origin} {self._by(change)}"
            yield Reason("touched", sentence, facts=self._op_facts(change))

    def _held_back(self) -> list[Reason]:
        """What keeps an entry that is ready from delivery; busy workers last."""
        held = [
            *self._paused(), *self._request_paused(), *self._client(), *self._no_worker(),
            *self._limit(),
        ]  # fmt: skip
        return sorted(held, key=lambda reason: reason.rule == "busy")

    def _waiting(self) -> Iterator[Reason]:
        held = self._held_back()
        yield from held
        # A client that is not served has no place in the order of clients, so nothing is "ahead" of
        # it; still the next take does not deliver its entry.
        unserved = any(reason.rule in ("blocked", "cap") for reason in held)
        if not unserved or self.observed.position.ahead:
            yield self._in_line()

    def _delayed(self, entry: Entry) -> Iterator[Reason]:
        at = entry.at_ms
        requeue = self._command("requeue", "delayed")
        facts = {
            "ready_ms": at,
            "failures": entry.failures,
            "error": error_row(self.redacted(entry.error)),
        }
        if at is not None and at <= self.now:
            held = self._held_back()
            yield from held
            yield Reason(
                "due", f"it became ready {age(self.now - at)} ago: the next takes deliver it, a "
                "few ready entries per take", facts={"ready_ms": at}, **({} if held else requeue),
            )  # fmt: skip
            return
        until = "an unknown time" if at is None else f"{self.when(at)}, {self._until(at)}"
        if entry.failures:
            most = self._setting("max_failures") if self.queue.has_settings else None
            of = f" of {most}" if most and self.queue.counts_failures else ""
            error = error_text(self.redacted(entry.error))
            yield Reason(
                "retry", f"it will be retried at {until}; failure {entry.failures}{of}: {error}",
                eta_ms=at, facts=facts | {"max_failures": most}, **requeue,
            )  # fmt: skip
        else:
            yield Reason("delayed", f"it is delayed until {until}", eta_ms=at, facts=facts,
                         **requeue)  # fmt: skip
        yield from self._paused()
        yield from self._no_worker_at_all()

    def _no_worker_at_all(self) -> list[Reason]:
        return [reason for reason in self._no_worker() if reason.rule == "no-worker"]

    def _pending(self, entry: Entry) -> Iterator[Reason]:
        who = f"consumer {entry.consumer}" if entry.consumer else "an unknown consumer"
        held = "" if entry.since_ms is None else f" for {age(self.now - entry.since_ms)}"
        facts = {
            "consumer": entry.consumer, "since_ms": entry.since_ms, "deadline_ms": entry.at_ms,
            "lost": entry.lost, "deliveries": entry.deliveries,
        }  # fmt: skip
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
                "pending", f"{who} has had it{held}{claimed}; its lease ends "
                f"{self._until(entry.at_ms)}, unless it is extended", eta_ms=entry.at_ms,
                facts=facts, **self._command("requeue", "pending"),
            )  # fmt: skip
        else:
            late = self.now - entry.at_ms
            max_lost = self._setting("max_lost")
            becomes = "dead" if entry.lost + 1 >= max_lost else "waiting again"
            no_worker = self._no_worker_at_all()
            but = f", but {no_worker[0].sentence}" if no_worker else ""
            yield Reason(
                "overdue", f"{who} has been silent for {age(late)}: it has had the entry{held}"
                f"{claimed}, and its lease ended {self._ago(entry.at_ms)}; the next take, or a "
                f"worker's maintenance every 30 s, makes it {becomes}{but}",
                facts=facts | {"silent_ms": late, "max_lost": max_lost},
                **self._command("requeue", "pending"),
            )  # fmt: skip
            yield from no_worker

    def _without_lease(self, entry: Entry, who: str, held: str, facts: dict[str, Any]) -> Reason:
        """Pending where deliveries have no deadline: it stays until somebody claims it."""
        position = self.observed.position
        active = position.heard_ms
        verb = self._command("requeue", "pending")
        of = "" if position.group is None else f" of group {position.group}"
        if entry.called == GONE:
            return self._trimmed(entry, f"{who}{of} has held its id{held}", facts)
        sentence = f"{who}{of} has had it{held}"
        facts |= {"group": position.group}
        if active is not None and position.group is not None:
            options = {"group": position.group, "to": "NAME"}
            claim = hint("consumers", "claim", self.queue.name, entry.consumer or "-", **options)
            verb = {"verb": "claim", "command": claim}
            sentence += f" and was last active {self._ago(active)}"
        rule = "pending" if active is None or self.now - active < SILENT_MS else "silent"
        sentence += "; deliveries here have no deadline: it stays pending until it is acknowledged"
        return Reason(rule, f"{sentence} or claimed", facts=facts, **verb)

    def _trimmed(self, entry: Entry, held: str, facts: dict[str, Any]) -> Reason:
        """Only the id of a stream entry is left. No command removes this one alone."""
        group = self.observed.position.group
        also = f"; consumers claim or remove of {entry.consumer} removes it and moves the others"
        return Reason(
            "trimmed", "its payload was deleted or trimmed from the stream, so no consumer can "
            f"process it. {held}, until an XACK from any client removes it"
            f"{'' if group is None else also}", facts=facts | {"group": group},
        )  # fmt: skip

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
                "group", f"the answer is for group {group}; {sentence}", "explain",
                hint("explain", f"{self.queue.name}/{other.id}"),
                facts={"group": name, "state": other.state, "consumer": other.consumer},
            )  # fmt: skip

    # --- requests ------------------------------------------------------------------------------

    def _request_reasons(self) -> Iterator[Reason]:
        request = self.observed.request
        assert request is not None
        if request.state == "cancelled":
            yield self._cancelled(request, "it")
        elif request.state == "done":
            yield self._finished(request)
        else:
            yield from self._unfinished(request)
        if request.dead and request.state != "done":
            yield Reason(
                "dead", f"{_its_entries(request.dead)} dead; it can finish without them",
                "replay", hint("replay", self.address), facts={"dead": request.dead},
            )  # fmt: skip

    def _unfinished(self, request: Request) -> Iterator[Reason]:
        left = request.waiting + request.pending + request.delayed
        if left:
            yield from (*self._paused(), *self._request_paused())
        position = self.observed.position
        expired = any((holder.until_ms or self.now) < self.now for holder in position.holders)
        if request.waiting or request.delayed or expired:
            yield from self._no_worker_at_all()
        eta = self._after(left + (position.before or 0)) if left else {}
        if request.waiting:
            if limited := list(self._limit()):
                yield from (replace(reason, **eta) for reason in limited)
            elif not request.paused:
                waiting = f"{count(request.waiting)} of {entries(request.total)}"
                waits = "waits" if request.waiting == 1 else "wait"
                yield replace(self._in_line(waiting, waits), **eta)
        if request.pending:
            yield self._in_work(request, eta)
        if request.delayed:
            at = position.next_ms
            first = (
                "" if at is None else f"; the first is ready {self._until(at)} ({self.when(at)})"
            )
            yield Reason(
                "delayed", f"{_its_entries(request.delayed)} delayed{first}",
                "requeue", hint("requeue", self.address, state="delayed"), at,
                facts={"delayed": request.delayed, "next_ms": at},
            )  # fmt: skip
        if request.state == "open":
            added = request.added_ms or request.created_ms
            yield Reason(
                "open", f"it is not sealed: its producer may still add to its "
                f"{entries(request.total)}; the last addition was {self._ago(added)}",
                "submit",
                hint("submit", "FILE", queue=self.queue.name, id=request.id),
                facts={"added_ms": added, "created_ms": request.created_ms,
                       "total": request.total},
            )  # fmt: skip
        if request.moving:
            alone = "" if left else "; no other entry is left to do"
            yield Reason(
                "moving", f"{_its_entries(request.moving)} on the way to another queue, by an "
                f"unfinished move{alone}", "log",
                hint("log", queue=self.queue.name), facts={"moving": request.moving},
            )  # fmt: skip
            yield from self._unfinished_moves()
        elif not left and request.state != "open":
            yield Reason("sealed", "no entry is left to do, but it is not done: run redisq fsck",
                         "fsck", hint("fsck", self.queue.name))  # fmt: skip

    def _in_work(self, request: Request, eta: Mapping[str, Any]) -> Reason:
        oldest = next(iter(self.observed.position.holders), None)
        facts: dict[str, Any] = {
            "pending": request.pending,
            "oldest": None if oldest is None else asdict(oldest),
        }  # fmt: skip
        sentence = f"{_its_entries(request.pending)} pending"
        command = None
        if oldest is not None:
            held = f" for {age(self.now - oldest.since_ms)}" if oldest.since_ms is not None else ""
            lease = f" ({self._lease(oldest.until_ms)})" if oldest.until_ms is not None else ""
            sentence += f"; the oldest is {oldest.id}, held by {oldest.consumer}{held}{lease}"
            command = hint("requeue", f"{self.queue.name}/{oldest.id}")
        return Reason("pending", sentence, command and "requeue", command, facts=facts, **eta)

    # --- queues --------------------------------------------------------------------------------

    def _unfinished_moves(self) -> Iterator[Reason]:
        for move in self.observed.unfinished:
            yield Reason(
                "unfinished", move.sentence(self.when), "undo", move.command,
                facts={"op": move.operation.id, "idle_ms": move.idle_ms},
            )  # fmt: skip

    def _queue_state(self) -> str:
        counts = self.observed.counts
        return "paused" if counts.paused is not None else (
            "draining" if counts.closed is not None else "open"
        )  # fmt: skip

    def _queue_reasons(self) -> Iterator[Reason]:
        counts, rate = self.observed.counts, self._rate
        may_wait = counts.waiting or "waiting" in counts.unknown
        expired = self.observed.first["pending"]
        if expired is not None and (expired.at_ms is None or expired.at_ms > self.now):
            expired = None
        delayed = self.observed.first["delayed"]
        next_ms = delayed.at_ms if delayed else None
        ready = next_ms is not None and next_ms <= self.now
        yield from self._paused()
        if may_wait or expired or ready:
            yield from self._no_worker_at_all()
        held = bool(counts.waiting) and self.observed.position.open == 0 and counts.paused is None
        if held:
            why = "; ".join(self.observed.blockers) or "run redisq fsck"
            clients: dict[str, Any] = {}
            if isinstance(self.queue, HasClients) and self.queue.client_rules:
                clients = {"verb": "client", "command": hint("client", "ls", self.queue.name)}
            yield Reason(
                "held", f"{entries(counts.waiting)} waiting, and none can be delivered: {why}",
                facts={"waiting": counts.waiting, "held": list(self.observed.blockers)}, **clients,
            )  # fmt: skip
        if expired is not None and expired.at_ms is not None:
            yield Reason(
                "overdue", f"{expired.id} is overdue: consumer {expired.consumer} has been silent "
                f"for {age(self.now - expired.at_ms)}",
                **self._command("requeue", "pending", f"{self.queue.name}/{expired.id}"),
                facts={"id": expired.id, "consumer": expired.consumer,
                       "deadline_ms": expired.at_ms},
            )  # fmt: skip
        yield from self._closed()
        yield from self._overdue(self.observed.periodic)
        waiting, pending = f"{count(counts.waiting)} waiting", f"{count(counts.pending)} pending"
        if next_ms is not None and ready and not may_wait and not counts.pending:
            yield Reason(
                "due", f"{entries(counts.delayed)} delayed; the first became ready "
                f"{age(self.now - next_ms)} ago: the next take delivers it",
                facts={"delayed": counts.delayed, "next_ms": next_ms},
            )  # fmt: skip
        elif rate is not None:
            yield self._moving(rate, f"{waiting}, {pending}")
        elif counts.pending and expired is None:
            settled = "settled entries are not counted"
            if self.observed.rates.settled:
                settled = f"none settled in the last {RATE_MINUTES} minutes"
            yield Reason(
                "pending", f"{pending}, {waiting}; {settled}",
                facts={"pending": counts.pending, "waiting": counts.waiting},
            )  # fmt: skip
        elif counts.waiting:
            oldest = counts.oldest_ms
            since = "" if oldest is None else f", the oldest for {age(self.now - oldest)}"
            if not held:
                yield Reason(
                    "waiting", f"{entries(counts.waiting)} waiting{since}",
                    facts={"waiting": counts.waiting, "oldest_ms": oldest},
                )  # fmt: skip
        elif counts.delayed:
            first = "" if next_ms is None else f"; the first is ready {self._until(next_ms)}"
            yield Reason(
                "delayed", f"{entries(counts.delayed)} delayed, none ready{first}",
                eta_ms=next_ms, facts={"delayed": counts.delayed, "next_ms": next_ms},
            )  # fmt: skip
        elif not may_wait and expired is None:
            dead = f"; {entries(counts.dead)} dead" if counts.dead else ""
            yield Reason("empty", f"it has no work to do{dead}", facts={"dead": counts.dead})
        elif expired is None:
            yield Reason(
                "unknown", f"a {self.queue.kind} queue does not show how many entries wait in it"
            )
        yield from self._next_periodic(self.observed.periodic)

    def _moving(self, rate: float, counts: str) -> Reason:
        """The queue moves: how fast, and when it will be empty."""
        rates = self.observed.rates
        out = rate * 60_000
        come = sum(rates.arrived) / max(1, sum(rates.settled)) * out
        left = self.observed.counts.waiting + self.observed.counts.pending
        eta: dict[str, Any] = {}
        if come < out and left:
            at = self.now + int(left / (rate - come / 60_000))
            eta = {"eta_ms": at, "estimate": True, "basis": f"{count(left)} left, at these rates"}
        return Reason(
            "moving",
            f"≈ {out:,.1f} settled and ≈ {come:,.1f} added per minute (last {RATE_MINUTES} "
            f"minutes); {counts}",
            facts={"out_per_min": round(out, 2), "in_per_min": round(come, 2)}, **eta,
        )  # fmt: skip


def _each_command_once(reasons: Sequence[Reason]) -> Iterator[Reason]:
    """Leave out a command that an earlier reason has (one resume ends a pause and a drain)."""
    known: set[str | None] = {None}
    for reason in reasons:
        yield replace(reason, verb=None, command=None) if reason.command in known else reason
        known.add(reason.command)


def _its_entries(n: int) -> str:
    """``1 of its entries is``, ``2 of its entries are``."""
    return f"{count(n)} of its entries {'is' if n == 1 else 'are'}"
