"""The rules that hold work, in words: what a `Situation` comes to.

What a queue can't tell isn't guessed, and no command is offered that it would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from redisq_ops.core.engine.optional_features import HasClients
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.queue_position import Ahead
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.states import Verb

from ..change.audit_log import Operation
from ..hint import hint
from ..redaction import Redaction
from ..terminal import age, count, date
from .facts import MINUTES, Situation

QUIET_MS = 60_000
"""nobody asked for work for so long: nobody takes. An idle worker asks every few seconds"""

When = Callable[[int], str]


def utc(ms: int) -> str:
    """A moment as people write it, in UTC."""
    return date(ms, UTC)


@dataclass(frozen=True, slots=True)
class Reason:
    """One rule that holds something, or that has ended it."""

    rule: str
    sentence: str
    verb: str | None = None
    """what helps, as an operator's word"""
    command: str | None = None
    eta_ms: int | None = None
    """when it is expected to be over; None: unknown"""
    estimate: bool = False
    """the time was worked out from rates, not read"""
    basis: str | None = None
    """what an estimate rests on"""
    facts: Mapping[str, Any] = field(default_factory=dict)


class Reasons:
    """The sentences about one look."""

    def __init__(self, look: Situation, when: When, redaction: Redaction) -> None:
        self.look = look
        self.shown = redaction.failure
        self.queue = look.queue
        self.now = look.now_ms
        self.when = when
        request = look.request or look.queue_position.request
        self.request = request
        self.address = look.queue.name if look.id is None else f"{look.queue.name}/{look.id}"

    # --- the small words -----------------------------------------------------------------------

    def _ago(self, ms: int) -> str:
        if ms - self.now >= 1000:
            return f"by a clock that was {age(ms - self.now)} ahead"
        return f"{age(max(0, self.now - ms))} ago"

    def _until(self, ms: int) -> str:
        left = ms - self.now
        return f"in {age(left)}" if left >= 1000 else "now"

    def _setting(self, name: str) -> int:
        return int(self.look.settings.get(name, getattr(DEFAULTS, name)))

    def _can(self, verb: Verb, state: State) -> bool:
        return state in self.queue.actions.get(verb, ())

    def _moving(self, verb: Verb, state: State) -> dict[str, Any]:
        """The verb for this entry, where the queue has it."""
        if not self._can(verb, state):
            return {}
        return {"verb": verb, "command": hint(verb, self.address)}

    def _by(self, operation: Operation | None) -> str:
        """Who, when and why, as the journal has it."""
        if operation is None:
            return "the journal doesn't say by whom"
        why = f" because {operation.why!r}" if operation.why else ", no reason given"
        return f"by {operation.by} {self._ago(operation.started_ms)}{why} (op {operation.id})"

    def _operation(self, id: str | None) -> Operation | None:
        return next((o for o in self.look.operations if o.id == id), None)

    def _change(self, verbs: Sequence[str], what: Callable[[str], bool]) -> Operation | None:
        """The latest change of these verbs about something."""
        found = (o for o in self.look.operations if o.verb in verbs and what(o.what))
        return next(found, None)

    def _of_journal(self, operation: Operation | None) -> dict[str, Any]:
        names = ("id", "verb", "who", "whence", "why", "started_ms")
        if operation is None:
            return {"op": None}
        known = {name: getattr(operation, name) for name in names}
        return {"op": known}

    @property
    def _rate(self) -> float | None:
        """Entries settled a millisecond, over the last minutes; None: none, or nobody counts."""
        arrived, settled = self.look.rates.arrived, self.look.rates.settled
        began = next((n for n, pair in enumerate(zip(arrived, settled, strict=True)) if any(pair)),
                     0)  # fmt: skip
        span = (len(settled) - 1 - began) * 60_000 + self.now % 60_000
        return sum(settled) / span if sum(settled) and span > 0 else None

    def _after(self, entries: int | None, share: float = 1.0) -> dict[str, Any]:
        """When so many entries will have gone, at the present rate."""
        if entries is None or self._rate is None or share <= 0:
            return {}
        part = "" if share >= 1 else f", {count(round(100 * share))} % of them its request's"
        basis = (
            f"{count(entries)} to go, if ≈ {self._rate * 60_000:,.1f} a minute go on leaving the "
            f"queue, as in the last {MINUTES} minutes{part}"
        )
        at = self.now + int(entries / (self._rate * share))
        return {"eta_ms": at, "estimate": True, "basis": basis}

    # --- rules that any work may be held by ------------------------------------------------------

    def _unread(self) -> Iterator[Reason]:
        """What can't be read may be what holds it."""
        if problem := self.look.counts.problem:
            yield Reason(
                "unread", f"not all of queue {self.queue.name} can be read: {problem}", "fsck",
                hint("fsck", self.queue.name), facts={"problem": problem},
            )  # fmt: skip

    def _paused(self) -> Iterator[Reason]:
        why = self.look.settings.get("paused", self.look.counts.paused)
        if why is None:
            return
        facts = {"paused": why}
        if "paused" not in self.look.settings:
            yield Reason(
                "paused", f"queue {self.queue.name} is paused by its own program: {why}",
                facts=facts,
            )  # fmt: skip
            return
        change = self._change(["pause"], lambda what: what == f"paused = {why}")
        said = f": {why!r}, {self._by(None)}" if change is None else f" {self._by(change)}"
        yield Reason(
            "paused", f"queue {self.queue.name} is paused{said}", "resume",
            hint("queue", "resume", self.queue.name),
            facts=facts | self._of_journal(change),
        )  # fmt: skip

    def _closed(self) -> Iterator[Reason]:
        why = self.look.counts.closed
        if why is None:
            return
        change = self._change(["drain"], lambda what: what == f"closed = {why}")
        yield Reason(
            "closed",
            f"queue {self.queue.name} is draining, it takes nothing new: {self._by(change)}",
            "resume", hint("queue", "resume", self.queue.name),
            facts={"closed": why} | self._of_journal(change),
        )  # fmt: skip

    @property
    def _live(self) -> bool:
        """Whether some delivery's lease stands, or its layout has none."""
        first = self.look.first["pending"]
        return first is not None and (first.at_ms is None or first.at_ms > self.now - 30_000)

    def _nobody(self) -> Iterator[Reason]:
        """No worker takes, as far as the queue can tell."""
        standing = self.look.queue_position
        if standing.askers is None:
            return
        asked = standing.asked_ms
        silent = None if asked is None else self.now - asked
        facts = {
            "asked_ms": asked, "silent_ms": silent, "consumers_seen": standing.askers,
            "all_looked_at": standing.askers_all,
        }  # fmt: skip
        command = hint("work", "MODULE:FUNCTION", queue=self.queue.name)
        work: dict[str, Any] = {"verb": "work", "command": command}
        if standing.group is not None or not self.queue.worked_on_here:
            work = {}
        of = f"group {standing.group}" if standing.group is not None else self.queue.name
        if silent is not None and silent < QUIET_MS:
            return
        if self._live and standing.group is None:
            if silent is not None:
                n = self.look.counts.pending
                yield Reason(
                    "busy",
                    f"all workers seem busy: they hold {count(n)} pending, and nobody has asked "
                    f"for more for {age(silent)}",
                    facts=facts | {"pending": n}, **work,
                )  # fmt: skip
            return
        more = "" if standing.askers_all else f" (of {standing.askers} callers looked at)"
        said = (
            f"no worker is taking: no consumer of {of} was seen{more or ' in the last day'}"
            if silent is None
            else f"no worker is taking: nobody has asked {of} for work for {age(silent)}{more}"
        )
        yield Reason("no-worker", said, facts=facts, **work)

    def _request_paused(self) -> Iterator[Reason]:
        request = self.request
        if request is None or not request.paused:
            return
        change = self._change(["pause"], lambda what: what == f"request {request.id}")
        yield Reason(
            "request-paused", f"request {request.id} is paused {self._by(change)}", "resume",
            hint("request", "resume", f"{self.queue.name}/{request.id}"),
            facts={"request": request.id} | self._of_journal(change),
        )  # fmt: skip

    def _client(self) -> Iterator[Reason]:
        client = self.look.queue_position.client
        if client is None:
            return
        facts = {
            "client": client.client, "waiting": client.waiting, "pending": client.pending,
            "weight": client.weight, "cap": client.cap,
        }  # fmt: skip
        if client.blocked:
            yield Reason(
                "blocked", f"client {client.client} is blocked: nothing more of it is handed out",
                facts=facts, **self._rule("unblock", client.client),
            )  # fmt: skip
        if client.cap is not None and client.pending >= client.cap:
            yield Reason(
                "cap", f"client {client.client} has {client.pending} pending, and its cap is "
                f"{client.cap}", facts=facts,
                **self._rule("cap", client.client, str(2 * client.cap)), **self._after(1),
            )  # fmt: skip

    def _rule(self, verb: str, client: str, *words: str) -> dict[str, Any]:
        """The command that changes a client's rule, where this queue's clients have rules."""
        if not isinstance(self.queue, HasClients) or not self.queue.client_rules:
            return {}
        command = hint("client", verb, self.queue.name, client, *words)
        return {"verb": verb, "command": command}

    def _limit(self) -> Iterator[Reason]:
        """All tokens of the request are out."""
        request, standing = self.request, self.look.queue_position
        if request is None or request.pending < request.limit or not request.waiting:
            return
        held = standing.holders
        named = "; ".join(
            f"{one.consumer} has {one.id}"
            + (f" since {age(max(0, self.now - one.since_ms))}" if one.since_ms else "")
            + (f" ({self._lease(one.until_ms)})" if one.until_ms else "")
            for one in held[:3]
        )
        more = ", …" if len(held) > 3 or not standing.holders_all else ""
        own = standing.ahead[-1].number if standing.ahead and "/" in (self.look.id or "") else 0
        share = request.pending / max(1, self.look.counts.pending)
        verb: dict[str, Any] = {"verb": "limit", "command": hint(
            "request", "limit", f"{self.queue.name}/{request.id}",
            str(min(1000, 2 * request.limit)),
        )}  # fmt: skip
        yield Reason(
            "limit",
            f"all {request.limit} tokens of request {request.id} are held: {named}{more}",
            facts={
                "request": request.id, "limit": request.limit, "pending": request.pending,
                "holders": [
                    {"id": one.id, "consumer": one.consumer, "since_ms": one.since_ms,
                     "until_ms": one.until_ms}
                    for one in held
                ],
            },
            **verb, **self._after(own + 1, share),
        )  # fmt: skip

    def _lease(self, until_ms: int) -> str:
        if until_ms > self.now:
            return f"lease ends {self._until(until_ms)}"
        return f"its lease ended {self._ago(until_ms)}"

    def _ahead(self) -> Reason:
        """What is handed out first, or that nothing is."""
        standing = self.look.queue_position
        facts: dict[str, Any] = {
            "ahead": [
                {"what": a.what, "number": a.number, "exact": a.exact} for a in standing.ahead
            ],
            "before": standing.before, "before_exact": standing.before_exact,
        }  # fmt: skip
        if not standing.here and not self.queue.tells_position:
            return Reason(
                "waiting", f"it waits; what comes before it, a {self.queue.kind} layout doesn't "
                "say", facts=facts,
            )  # fmt: skip
        before = standing.before
        later = {} if before is None else self._after(before + 1)
        request = standing.request
        if not standing.ahead:
            said = "it is next: nothing comes before it, whoever takes next gets it"
            if request is not None and not request.tokens:
                said = (
                    "nothing comes before it, and its request has no token in the list: it is "
                    "being handed out right now, or see redisq fsck"
                )
            return Reason("next", said, facts=facts, **later)
        parts = ", ".join(
            f"{'' if one.exact else '≈ '}{count(one.number)} {_plural(one)}"
            for one in standing.ahead
        )
        total = ""
        if before is not None and [before] != [one.number for one in standing.ahead]:
            total = f" (≈ {count(before)} {'entry' if before == 1 else 'entries'} in all)"
        verb: dict[str, Any] = {}
        if request is not None and request.priority and len(facts["ahead"]) > len(self._own()):
            address = f"{self.queue.name}/{request.id}"
            verb = {
                "verb": "priority", "command": hint("request", "priority", address, "0")
            }  # fmt: skip
        rule, said = "behind", f"it waits behind {parts}{total}"
        if standing.client is not None:
            name = standing.client.client
            rule = "turn"
            said = f"client {name} waits for its turn: it is behind {parts}{total}"
            facts |= {"client": name}
        return Reason(rule, said, facts=facts, **verb, **later)

    def _own(self) -> list[Ahead]:
        """What comes first of its own request: no other priority would change that."""
        return [
            one for one in self.look.queue_position.ahead if one.what == "entries of its request"
        ]


_SINGULAR = {"tokens ": "token ", "entries ": "entry ", "clients ": "client ", "jobs ": "job ",
             "elements ": "element "}  # fmt: skip


def _plural(one: Ahead) -> str:
    if one.number == 1:
        for many, single in _SINGULAR.items():
            if one.what.startswith(many):
                return single + one.what.removeprefix(many)
    return one.what
