"""Why something isn't running, isn't finishing, or where it went: the rule that holds it.

Reasons come in the order in which they would have to be dealt with; the first one is the answer,
the others are said beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redisq_ops.core.engine.optional_features import HasClients, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import GONE, Entry, Request
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.redis.operation import together

from ..deployment import Address, Deployment
from ..hint import hint
from ..inspect.consumers import SILENT_MS
from ..redaction import NOTHING, Redaction
from ..terminal import age, count
from .endings import Endings, error_row, said_of
from .facts import MINUTES, look, told_of
from .rules import Reason, When, utc

GROUPS = 5
"""other groups of a stream that are named"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer about an address: its first reason, and what else is true of it."""

    address: str
    queue: str
    kind: str
    id: str | None
    what: str
    """queue | request | entry"""
    state: str | None
    """None: it isn't there"""
    now_ms: int
    reason: Reason
    also: tuple[Reason, ...] = ()

    @property
    def known(self) -> bool:
        return self.state is not None

    def row(self) -> dict[str, Any]:
        """As stable JSON names."""
        first = self.reason
        return {
            "address": self.address, "queue": self.queue, "kind": self.kind, "id": self.id,
            "what": self.what, "state": self.state, "now_ms": self.now_ms, "rule": first.rule,
            "sentence": first.sentence, "verb": first.verb, "command": first.command,
            "eta_ms": first.eta_ms, "estimate": first.estimate, "basis": first.basis,
            "facts": dict(first.facts),
            "also": [
                {"rule": one.rule, "sentence": one.sentence, "verb": one.verb,
                 "command": one.command, "facts": dict(one.facts)}
                for one in self.also
            ],
        }  # fmt: skip


async def explain_text(
    deployment: Deployment, text: str, when: When = utc, redaction: Redaction = NOTHING
) -> Explanation:
    """What an address of the command line is held by.

    A bare id that is nowhere is looked for in the histories of all queues; `NotFound` says how far.
    """
    try:
        at = await deployment.resolve(text)
    except NotFound:
        at = await _remembered(deployment, text)
    return await explain(at.queue, at.id, when, redaction)


async def _remembered(deployment: Deployment, text: str) -> Address:
    queues = await deployment.queues()
    stories = await together(told_of(queue, text) for queue in queues)
    for queue, story in zip(queues, stories, strict=True):
        if story.events:
            return Address(queue, text)
    looked, total = sum(s.looked for s in stories), sum(s.total for s in stories)
    raise NotFound(
        f"nothing here is called {text!r}: no queue, request or entry, and in the latest "
        f"{count(looked)} of {count(total)} events there is nothing about it"
    )


async def explain(
    queue: Queue[Any], id: str | None = None, when: When = utc, redaction: Redaction = NOTHING
) -> Explanation:
    """Why a queue doesn't move, a request doesn't finish, an entry doesn't run."""
    situation = await look(queue, id)
    return _Explanation(situation, when, redaction).explanation()


class _Explanation(Endings):
    """The reasons for each kind of thing, in their order."""

    def explanation(self) -> Explanation:
        look = self.look
        if look.id is None:
            what, state = "queue", self._queue_state()
            reasons = [*self._unread(), *self._queue_reasons(), *self._moves()]
        elif look.request is not None:
            what, state, reasons = "request", look.request.state, list(self._request_reasons())
        elif look.entry is not None:
            what, state = "entry", look.entry.state
            reasons = [*self._entry_reasons(look.entry), *self._unread()]
        else:
            is_request = isinstance(self.queue, HasRequests) and "/" not in look.id
            what, state = "request" if is_request else "entry", None
            reasons = [self._gone(what)]
        return Explanation(
            self.address, self.queue.name, self.queue.kind, look.id, what, state, self.now,
            reasons[0], tuple(_once(reasons))[1:],
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
        yield from self._beside(entry)
        if entry.state not in ("trash", "done") and (done := self._operation(entry.op)):
            said = f"an operator touched it last: {done.verb} {self._by(done)}"
            if done.origin:
                said = f"it was moved here from {done.origin} {self._by(done)}"
            yield Reason("touched", said, facts=self._of_journal(done))

    def _waiting(self) -> Iterator[Reason]:
        held = [
            *self._paused(), *self._request_paused(), *self._client(), *self._nobody(),
            *self._limit(),
        ]  # fmt: skip
        held.sort(key=lambda reason: reason.rule == "busy")
        yield from held
        # A client that isn't served has no place in the turns: nobody comes before it there, and
        # still the next take doesn't get its entry.
        unserved = any(reason.rule in ("blocked", "cap") for reason in held)
        if not unserved or self.look.queue_position.ahead:
            yield self._ahead()

    def _delayed(self, entry: Entry) -> Iterator[Reason]:
        at = entry.at_ms
        requeue = self._moving("requeue", "delayed")
        facts = {
            "ready_ms": at,
            "failures": entry.failures,
            "error": error_row(self.shown(entry.error)),
        }
        if at is not None and at <= self.now:
            yield from self._due(at)
            return
        until = "its time comes" if at is None else f"{self.when(at)}, {self._until(at)}"
        if entry.failures:
            most = self._setting("max_failures") if self.queue.has_settings else None
            of = f" of {most}" if most and self.queue.counts_failures else ""
            said = said_of(self.shown(entry.error))
            yield Reason(
                "retry",
                f"it is tried again at {until}, because failure {entry.failures}{of} said {said}",
                eta_ms=at, facts=facts | {"max_failures": most}, **requeue,
            )  # fmt: skip
        else:
            yield Reason("delayed", f"it is delayed until {until}", eta_ms=at, facts=facts,
                         **requeue)  # fmt: skip
        yield from self._paused()
        yield from (reason for reason in self._nobody() if reason.rule == "no-worker")

    def _due(self, at: int) -> Iterator[Reason]:
        """Delayed by what is written, and past its time: takes bring such ones in."""
        held = [*self._paused(), *self._request_paused(), *self._nobody(), *self._limit()]
        yield from held
        yield Reason(
            "due", f"it is due since {age(self.now - at)}: the next takes bring it in, a few at a "
            "time", facts={"ready_ms": at}, **({} if held else self._moving("requeue", "delayed")),
        )  # fmt: skip

    def _pending(self, entry: Entry) -> Iterator[Reason]:
        who = entry.consumer or "somebody"
        since = "" if entry.since_ms is None else f" since {age(self.now - entry.since_ms)}"
        facts = {
            "consumer": entry.consumer, "since_ms": entry.since_ms, "deadline_ms": entry.at_ms,
            "lost": entry.lost, "deliveries": entry.deliveries,
        }  # fmt: skip
        claim = self._operation(entry.op)
        if claim is not None and claim.verb != "claim":
            claim = None
        handed = f", given to it {self._by(claim)}" if claim is not None else ""
        facts |= self._of_journal(claim) if claim is not None else {}
        if entry.at_ms is None:
            yield self._held(
                entry, who, since, facts | {"heard_ms": self.look.queue_position.heard_ms}
            )
        elif entry.at_ms > self.now:
            yield Reason(
                "pending", f"{who} has it{since}{handed}; its lease ends "
                f"{self._until(entry.at_ms)}, unless it is renewed", eta_ms=entry.at_ms,
                facts=facts, **self._moving("requeue", "pending"),
            )  # fmt: skip
        else:
            late = self.now - entry.at_ms
            lost = self._setting("max_lost")
            then = "dead" if entry.lost + 1 >= lost else "waiting again"
            nobody = [reason for reason in self._nobody() if reason.rule == "no-worker"]
            who_reaps = "the next take, or a worker's upkeep every 30 s, makes it " + then
            why = f", but {nobody[0].sentence}" if nobody else ""
            yield Reason(
                "overdue", f"consumer {who} is silent for {age(late)}: it has the entry{since}"
                f"{handed}, its lease ended {self._ago(entry.at_ms)}; {who_reaps}{why}",
                facts=facts | {"silent_ms": late, "max_lost": lost},
                **self._moving("requeue", "pending"),
            )  # fmt: skip
            yield from nobody

    def _held(self, entry: Entry, who: str, since: str, facts: dict[str, Any]) -> Reason:
        """Where a delivery has no deadline: nobody takes it back but who claims it."""
        standing = self.look.queue_position
        heard = standing.heard_ms
        verb = self._moving("requeue", "pending")
        of = "" if standing.group is None else f" of group {standing.group}"
        if entry.called == GONE:
            return self._left_behind(entry, f"{who}{of} holds its id{since}", facts)
        said = f"{who}{of} has it{since}"
        facts |= {"group": standing.group}
        if heard is not None and standing.group is not None:
            where = {"group": standing.group, "to": "NAME"}
            claim = hint("consumers", "claim", self.queue.name, who, **where)
            verb = {"verb": "claim", "command": claim}
            said += f" and was heard of {self._ago(heard)}"
        rule = "pending" if heard is None or self.now - heard < SILENT_MS else "silent"
        said += "; in this layout a delivery has no deadline, it stays until it is acknowledged"
        return Reason(rule, f"{said} or claimed", facts=facts, **verb)

    def _left_behind(self, entry: Entry, held: str, facts: dict[str, Any]) -> Reason:
        """An id without its payload. No command here would clear this one and leave the others."""
        group = self.look.queue_position.group
        also = f"; consumers claim or remove of {entry.consumer} clears it and moves the rest"
        return Reason(
            "trimmed", "its payload is gone, it was deleted or trimmed from the stream: nobody can "
            f"work on it. {held}, until somebody acknowledges it (XACK does, whoever sends it)"
            f"{'' if group is None else also}", facts=facts | {"group": group},
        )  # fmt: skip

    def _beside(self, entry: Entry) -> Iterator[Reason]:
        """The other groups that read the same entry, each with a word of its own about it."""
        group = self.look.queue_position.group
        for other in self.look.queue_position.beside[:GROUPS]:
            name = other.id.rpartition(":")[0]
            said = f"group {name} wasn't given it yet"
            if other.state == "pending":
                since = age(self.now - (other.since_ms or self.now))
                said = f"{other.consumer} of group {name} has it too, since {since}"
            yield Reason(
                "group", f"that is said of group {group}; {said}", "explain",
                hint("explain", f"{self.queue.name}/{other.id}"),
                facts={"group": name, "state": other.state, "consumer": other.consumer},
            )  # fmt: skip

    # --- requests ------------------------------------------------------------------------------

    def _request_reasons(self) -> Iterator[Reason]:
        request = self.look.request
        assert request is not None
        if request.state == "cancelled":
            yield self._cancelled(request, "it")
        elif request.state == "done":
            yield self._finished(request)
        else:
            yield from self._unfinished(request)
        if request.dead and request.state != "done":
            yield Reason(
                "dead", f"{_of(request.dead, 'is', 'are')} dead, which doesn't hold it up",
                "replay", hint("replay", self.address), facts={"dead": request.dead},
            )  # fmt: skip

    def _unfinished(self, request: Request) -> Iterator[Reason]:
        left = request.waiting + request.pending + request.delayed
        if left:
            yield from (*self._paused(), *self._request_paused())
        late = any(
            (one.until_ms or self.now) < self.now for one in self.look.queue_position.holders
        )
        if request.waiting or request.delayed or late:
            nobody = list(self._nobody())
            yield from (reason for reason in nobody if reason.rule == "no-worker")
        whole = self._after(left + (self.look.queue_position.before or 0)) if left else {}
        if request.waiting:
            if limited := list(self._limit()):
                yield from (_with(one, whole) for one in limited)
            elif not request.paused:
                reason = self._ahead()
                one = request.waiting == 1
                verb = "waits" if one else "wait"
                waits = f"{count(request.waiting)} of {count(request.total)} {verb}"
                said = reason.sentence.replace(
                    "it waits behind", "it waits behind" if one else "they wait behind", 1
                )
                if reason.rule == "next":
                    said = (
                        f"nothing comes before {'it' if one else 'them'}"
                        if request.tokens
                        else "no token of it is in the list"
                    )
                yield _with(reason, {"sentence": f"{waits}: {said}", **whole})
        if request.pending:
            yield self._in_work(request, whole)
        if request.delayed:
            at = self.look.queue_position.next_ms
            due = "" if at is None else f", the first one due {self._until(at)} ({self.when(at)})"
            yield Reason(
                "delayed", f"{_of(request.delayed, 'waits', 'wait')} for a later time{due}",
                "requeue", hint("requeue", self.address, state="delayed"), at,
                facts={"delayed": request.delayed, "next_ms": at},
            )  # fmt: skip
        if request.state == "open":
            added = request.added_ms or request.created_ms
            yield Reason(
                "open", f"it is open, nobody has sealed it: its producer may still add to its "
                f"{count(request.total)}; the last addition was {self._ago(added)} (who added "
                "isn't kept)",
                "submit",
                hint("submit", "FILE", queue=self.queue.name, id=request.id),
                facts={"added_ms": added, "created_ms": request.created_ms,
                       "total": request.total},
            )  # fmt: skip
        if request.moving:
            alone = "" if left else "; nothing else of it is left to do"
            yield Reason(
                "moving", f"{_of(request.moving, 'is', 'are')} on the way to another queue, by a "
                f"move that has not ended{alone}", "log",
                hint("log", queue=self.queue.name), facts={"moving": request.moving},
            )  # fmt: skip
            yield from self._moves()
        elif not left and request.state != "open":
            yield Reason("sealed", "nothing of it is left to do and it isn't done: see redisq fsck",
                         "fsck", hint("fsck", self.queue.name))  # fmt: skip

    def _in_work(self, request: Request, whole: Mapping[str, Any]) -> Reason:
        holders = self.look.queue_position.holders
        facts: dict[str, Any] = {
            "pending": request.pending,
            "oldest": None if not holders else {
                "id": holders[0].id, "consumer": holders[0].consumer,
                "since_ms": holders[0].since_ms, "until_ms": holders[0].until_ms,
            },
        }  # fmt: skip
        said = f"{_of(request.pending, 'is', 'are')} being worked on"
        command = None
        if holders:
            one = holders[0]
            since = f" since {age(self.now - one.since_ms)}" if one.since_ms is not None else ""
            lease = f" ({self._lease(one.until_ms)})" if one.until_ms is not None else ""
            said += f", the oldest: {one.id} by {one.consumer}{since}{lease}"
            command = hint("requeue", f"{self.queue.name}/{one.id}")
        return Reason("pending", said, command and "requeue", command, facts=facts, **whole)

    # --- queues --------------------------------------------------------------------------------

    def _moves(self) -> Iterator[Reason]:
        for one in self.look.unfinished:
            yield Reason(
                "unfinished", one.sentence(self.when), "undo", one.command,
                facts={"op": one.operation.id, "idle_ms": one.idle_ms},
            )  # fmt: skip

    def _queue_state(self) -> str:
        counts = self.look.counts
        return "paused" if counts.paused is not None else (
            "draining" if counts.closed is not None else "open"
        )  # fmt: skip

    def _queue_reasons(self) -> Iterator[Reason]:
        counts, rate = self.look.counts, self._rate
        waits = counts.waiting or "waiting" in counts.unknown
        late = self.look.first["pending"]
        overdue = late is not None and late.at_ms is not None and late.at_ms <= self.now
        timed = self.look.first["delayed"]
        next_ms = timed.at_ms if timed else None
        due = next_ms is not None and next_ms <= self.now
        yield from self._paused()
        nobody = list(self._nobody()) if waits or overdue or counts.delayed else []
        if waits or overdue or due:
            yield from (reason for reason in nobody if reason.rule == "no-worker")
        held = bool(counts.waiting) and self.look.queue_position.open == 0 and counts.paused is None
        if held:
            why = "; ".join(self.look.held) or "see redisq fsck"
            some = _n(counts.waiting, "waits", "wait")
            see: dict[str, Any] = {}
            if isinstance(self.queue, HasClients) and self.queue.client_rules:
                see = {"verb": "client", "command": hint("client", "ls", self.queue.name)}
            yield Reason(
                "held", f"{some}, and nothing may be handed out: {why}",
                facts={"waiting": counts.waiting, "held": list(self.look.held)}, **see,
            )  # fmt: skip
        if overdue and late is not None and late.at_ms is not None:
            yield Reason(
                "overdue", f"{late.id} is overdue since {age(self.now - late.at_ms)}: consumer "
                f"{late.consumer} is silent", **self._requeue(late),
                facts={"id": late.id, "consumer": late.consumer, "deadline_ms": late.at_ms},
            )  # fmt: skip
        yield from self._closed()
        if next_ms is not None and due and not waits and not counts.pending:
            some, since = _n(counts.delayed, "waits", "wait"), age(self.now - next_ms)
            yield Reason(
                "due", f"{some} for a time, and the first one's came {since} ago: whoever takes "
                "next gets it", facts={"delayed": counts.delayed, "next_ms": next_ms},
            )  # fmt: skip
        elif rate is not None:
            out = rate * 60_000
            come = sum(self.look.rates.arrived) / max(1, sum(self.look.rates.settled)) * out
            left = counts.waiting + counts.pending
            gain = (rate - come / 60_000) if come < out else 0
            eta: dict[str, Any] = (
                {
                    "eta_ms": self.now + int(left / gain), "estimate": True,
                    "basis": f"{count(left)} to go, if it goes on so",
                }
                if gain and left
                else {}
            )  # fmt: skip
            yield Reason(
                "moving",
                f"it moves: ≈ {out:,.1f} a minute leave, ≈ {come:,.1f} come (last {MINUTES} "
                f"minutes); {_n(counts.waiting, 'waits', 'wait')}, "
                f"{_n(counts.pending, 'is', 'are')} pending",
                facts={"out_per_min": round(out, 2), "in_per_min": round(come, 2)}, **eta,
            )  # fmt: skip
        elif counts.pending and not overdue:
            yield Reason(
                "pending", f"{_n(counts.pending, 'is', 'are')} being worked on, "
                f"{_n(counts.waiting, 'waits', 'wait')}; nothing was settled in "
                f"the last {MINUTES} minutes" if self.look.rates.settled else
                f"{_n(counts.pending, 'is', 'are')} handed out and not settled"
                + (f"; {_n(counts.waiting, 'waits', 'wait')}" if counts.waiting else ""),
                facts={"pending": counts.pending, "waiting": counts.waiting},
            )  # fmt: skip
        elif counts.waiting:
            oldest = counts.oldest_ms
            since = "" if oldest is None else f", the oldest since {age(self.now - oldest)}"
            if not held:  # that said how many
                yield Reason(
                    "waiting", f"{_n(counts.waiting, 'waits', 'wait')}{since}",
                    facts={"waiting": counts.waiting, "oldest_ms": oldest},
                )  # fmt: skip
        elif counts.delayed:
            some = _n(counts.delayed, "waits", "wait")
            then = "" if next_ms is None else f"; the first one is due {self._until(next_ms)}"
            yield Reason(
                "delayed", f"nothing is due: {some} for a later time{then}",
                eta_ms=next_ms, facts={"delayed": counts.delayed, "next_ms": next_ms},
            )  # fmt: skip
        elif not waits and not overdue:
            dead = f"; {_n(counts.dead, 'is', 'are')} dead" if counts.dead else ""
            yield Reason(
                "empty", f"there is nothing to do in it{dead}", facts={"dead": counts.dead}
            )
        elif not overdue:
            yield Reason("unknown", f"how much waits in it, a {self.queue.kind} layout doesn't say")

    def _requeue(self, entry: Entry) -> dict[str, Any]:
        if not self._can("requeue", "pending"):
            return {}
        address = f"{self.queue.name}/{entry.id}"
        return {"verb": "requeue", "command": hint("requeue", address)}


def _once(reasons: Sequence[Reason]) -> Iterator[Reason]:
    """A command that several of them are ended by (one resume for a pause and a drain) once."""
    said: set[str | None] = {None}
    for reason in reasons:
        yield replace(reason, verb=None, command=None) if reason.command in said else reason
        said.add(reason.command)


def _with(reason: Reason, changes: Mapping[str, Any]) -> Reason:
    return replace(reason, **changes)


def _n(n: int, one: str, many: str) -> str:
    """``1 waits``, ``2 wait``."""
    return f"{count(n)} {one if n == 1 else many}"


def _of(n: int, one: str, many: str) -> str:
    return f"{count(n)} of its entries {one if n == 1 else many}"
