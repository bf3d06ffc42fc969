"""Why a queue does not move, a request does not finish, an entry does not run, or where it went.

Reasons are listed in the order in which they have to be dealt with: the first one is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from redisq_ops.core.engine.optional_features import HasClients, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, Request
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.redis.operation import apart, together

from ..deployment import Address, Deployment
from ..filter.fields import quoted
from ..hint import hint
from ..inspect.consumers import SILENT_MS, ConsumerStatus
from ..inspect.history import history_of
from ..redaction import NO_REDACTION, Redaction
from ..terminal import age, count, entries, kind_of, quantity
from ..trouble import USUAL
from .blocking_reasons import FormatTime, Reason, utc
from .entry_reasons import EntryReasons
from .observation import RATE_MINUTES, observe
from .outcome_reasons import NAMED
from .periodic_reasons import PeriodicReasons

TRIED_AGAIN: Final = f"failures>={USUAL.failures} or lost>={USUAL.lost}"


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
    deployment: Deployment, text: str, when: FormatTime = utc, redaction: Redaction = NO_REDACTION
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
    read = await together(apart(history_of(queue, text)) for queue in queues)
    histories = [history for history in read if not isinstance(history, Exception)]
    for queue, history in zip(queues, read, strict=True):
        if not isinstance(history, Exception) and history.events:
            return Address(queue, text)
    searched, total = sum(h.searched for h in histories), sum(h.total for h in histories)
    unread = len(read) - len(histories)
    but = f"; the history of {quantity(unread, 'queue')} can't be read" if unread else ""
    near = await deployment.similar(text.partition("/")[0])
    raise NotFound(
        f"no queue, request or entry is named {text!r}, and the latest {count(searched)} of "
        f"{count(total)} history events do not mention it{but}{near}"
    )


async def explain(
    queue: Queue[Any],
    id: str | None = None,
    when: FormatTime = utc,
    redaction: Redaction = NO_REDACTION,
) -> Explanation:
    """Explain a queue, or the request or entry ``id`` in it; reads only."""
    return _Explainer(await observe(queue, id), when, redaction).explanation()


class _Explainer(EntryReasons, PeriodicReasons):
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
            yield self._held(counts.waiting)
        if expired is not None and expired.at_ms is not None:
            yield self._expired(expired, expired.at_ms)
        yield from self._holders(expired.consumer if expired else None)
        yield from self._closed()
        yield from self._failures()
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
                "unknown", f"{kind_of(self.queue.kind)} does not show how many entries wait in it"
            )
        yield from self._next_periodic(self.observed.periodic)

    def _failures(self) -> Iterator[Reason]:
        """Entries die or fail again and again; that attempts fail is said where nothing else is."""
        name, found = self.queue.name, {one.rule: one for one in self.observed.failures}
        commands = {
            "dying": ("dlq", hint("dlq", "groups", name)),
            "poison": ("select", hint("select", name, where=TRIED_AGAIN)),
            "failing": ("history", hint("history", name)),
        }  # fmt: skip
        for rule, (verb, command) in commands.items():
            if rule in found and (rule != "failing" or len(found) == 1):
                yield Reason(rule, found[rule].reason, verb, command)

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
                ("requests", ("request-paused", "limit")), ("clients", ("blocked", "cap")),
            )
        }  # fmt: skip
        return Reason(
            "held", f"{entries(waiting)} waiting, and none can be delivered: {why}", **helps,
            facts={"waiting": waiting, "held": [b.sentence for b in blockers], **named},
        )  # fmt: skip

    def _expired(self, entry: Entry, deadline_ms: int) -> Reason:
        """A lease has expired. What a silent consumer holds besides goes the same way."""
        silence, command = age(self.now - deadline_ms), {}
        sentence = (
            f"{entry.id} is overdue: consumer {entry.consumer} was silent for at least {silence}"
        )
        held = next((n for _, one, n in self._holding() if one.name == entry.consumer), 0)
        if held > 1:
            sentence += f" and holds {entries(held)}"
            command = self._requeue_all_of(entry.consumer or "-")
        else:
            command = self._command("requeue", "pending", f"{self.queue.name}/{entry.id}")
        return Reason(
            "overdue", sentence,
            facts={"id": entry.id, "consumer": entry.consumer, "deadline_ms": deadline_ms},
            **command,
        )  # fmt: skip

    def _holding(self) -> Iterator[tuple[str | None, ConsumerStatus, int]]:
        """Silent consumers, with their group and the number of entries they hold; in a queue in
        which nothing moves also those that have held an entry for as long."""
        stuck = self._rate is None and bool(self.observed.rates.settled)
        for report in self.observed.reports:
            for one in report.consumers:
                long = stuck and one.oldest_ms is not None and one.oldest_ms >= SILENT_MS
                if one.pending and (one.silent_ms is not None or long):
                    yield report.group, one, one.pending

    def _holders(self, besides: str | None) -> Iterator[Reason]:
        """Who holds entries in silence, or for long while nothing is settled."""
        found = [row for row in self._holding() if row[1].name != besides]
        for group, one, held in sorted(found, key=lambda row: -(row[1].oldest_ms or 0))[:NAMED]:
            of = f" of group {group}" if group else ""
            holds = f"holds {entries(held)}, the oldest for {age(one.oldest_ms or 0)}"
            silent = (
                "" if one.silent_ms is None else f"has been silent for {age(one.silent_ms)} and "
            )
            command = self._requeue_all_of(one.name)
            if group is not None:
                options = {"group": group, "to": "NAME"}
                claim = hint("consumers", "claim", self.queue.name, one.name, **options)
                command = {"verb": "claim", "command": claim}
            yield Reason(
                "holder" if one.silent_ms is None else "silent",
                f"consumer {one.name}{of} {silent}{holds}",
                facts={"consumer": one.name, "group": group, "pending": held,
                       "silent_ms": one.silent_ms, "oldest_age_ms": one.oldest_ms}, **command,
            )  # fmt: skip

    def _requeue_all_of(self, consumer: str) -> dict[str, Any]:
        """The command that makes all that a consumer holds wait again, if the queue can."""
        if not self._can("requeue", "pending"):
            return {}
        where = f"consumer={quoted(consumer)}"
        command = hint("requeue", queue=self.queue.name, state="pending", where=where)
        return {"verb": "requeue", "command": command}

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
