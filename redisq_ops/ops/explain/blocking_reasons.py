"""The rules that keep work from running, each as a `Reason` with a sentence and a command.

A rule that the queue's data cannot decide gives no reason, and no command is offered that the queue
would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from redisq_ops.core.engine.optional_features import HasClients, HasOwnersPause
from redisq_ops.core.model.queue_position import Ahead, Holder
from redisq_ops.core.model.rate_limit import RateLimit

from ..hint import hint
from ..resize import what_completes
from ..terminal import age, count, entries, kind_of, took
from ..trouble.finding import USUAL
from ..trouble.worker_rules import sign_of, silence
from .observation import UNASKED
from .reason import Reason, Rule
from .reason_parts import ReasonParts

NO_TAKE_MS = 60_000
"""without a take for this long a queue has no worker; an idle worker takes every few seconds"""


class BlockingReasons(ReasonParts):
    """The reasons for what has not run yet, from one observation."""

    def _unread(self) -> Iterator[Reason]:
        """A part of the queue can't be read, and may hold the cause."""
        if problem := self.observed.counts.problem:
            yield Reason(
                "unread",
                f"queue {self.queue.name} can only be read in part: {problem}",
                "fsck",
                hint("fsck", self.queue.name),
                facts={"problem": problem},
            )

    def _only_shown(self) -> Iterator[Reason]:
        if why := self.observed.counts.only_shown:
            yield Reason("only-shown", f"queue {self.queue.name} is only shown: {why}")

    def _paused(self) -> Iterator[Reason]:
        why = self.observed.settings.get("paused", self.observed.counts.paused)
        if why is None:
            return
        facts = {"paused": why}
        if "paused" not in self.observed.settings:
            resumes = isinstance(self.queue, HasOwnersPause)
            resumes = resumes and not self.observed.counts.only_shown
            latest = self._change("pause", f"as {self.queue.owner} does")
            yield Reason(
                "paused",
                f"queue {self.queue.name} is paused by its own program: {why}"
                + (f"; the latest pause from here was {self._by(latest)}" if latest else ""),
                "resume" if resumes else None,
                hint("queue", "resume", self.queue.name) if resumes else None,
                facts=facts | (self._op_facts(latest) if latest else {}),
            )
            return
        as_owner = isinstance(self.queue, HasOwnersPause)
        what = f"as {self.queue.owner} does" if as_owner else f"paused = {why}"
        change = self._change("pause", what)
        by = f": {why!r}, {self._by(None)}" if change is None else f" {self._by(change)}"
        by += f": {why}" if as_owner and change is not None else ""
        yield Reason(
            "paused",
            f"queue {self.queue.name} is paused{by}",
            "resume",
            hint("queue", "resume", self.queue.name),
            facts=facts | self._op_facts(change),
        )

    def _closed(self) -> Iterator[Reason]:
        why = self.observed.counts.closed
        if why is None:
            return
        change = self._change("drain", f"closed = {why}")
        yield Reason(
            "closed",
            f"queue {self.queue.name} is draining and accepts no new entries; drained "
            f"{self._by(change)}",
            "resume",
            hint("queue", "resume", self.queue.name),
            facts={"closed": why} | self._op_facts(change),
        )

    def _unfinished_moves(self) -> Iterator[Reason]:
        for move in self.observed.unfinished:
            yield Reason(
                "unfinished",
                move.sentence(self.when),
                "undo",
                move.command,
                facts={"op": move.operation.id, "idle_ms": move.idle_ms},
            )

    def _open_resize(self) -> Iterator[Reason]:
        resize, name = self.observed.resize, self.queue.name
        if resize is None:
            return
        dead = "dead" in resize.left
        sentence = f"queue {name} is {resize}; to complete it, {what_completes(name, resize)}"
        verb, command = ("replay", hint("replay", name)) if dead else (None, None)
        yield Reason(
            "resizing",
            sentence,
            verb,
            command,
            facts={"shards": resize.new, "old_shards": resize.old, "left": dict(resize.left)},
        )

    @property
    def _lease_live(self) -> bool:
        """Whether some delivery's lease has not expired, or this kind of queue has no leases."""
        first = self.observed.first["pending"]
        return first is not None and (first.at_ms is None or first.at_ms > self.now - 30_000)

    def _no_worker(self) -> Iterator[Reason]:
        """No worker takes entries, or all of them are busy."""
        position = self.observed.position
        if position.askers is None:
            return
        last_take = position.asked_ms
        silent = None if last_take is None else self.now - last_take
        facts = {
            "asked_ms": last_take,
            "silent_ms": silent,
            "consumers_seen": position.askers,
            "all_looked_at": position.askers_all,
        }
        entry, command = self.observed.entry, hint("work", "MODULE:FUNCTION", queue=self.queue.name)
        if entry is not None and entry.task and not self.queue.owner:
            command = hint("work", "MODULE:TASKS")
        work: dict[str, Any] = {"verb": "work", "command": command}
        if position.group is not None or not self.queue.worked_on_here:
            work = {}
        if silent is not None and silent < NO_TAKE_MS:
            return
        held = self._lease_live and position.group is None
        if held and not any(one.rule == UNASKED for one in self.observed.broken):
            if silent is not None:
                yield Reason(
                    "busy",
                    f"all workers seem to be busy: {self._number('pending')} pending, and no "
                    f"worker has asked for more for {age(silent)}",
                    facts=facts | {"pending": self.observed.counts.of("pending")},
                    **work,
                )
            return
        source = f"group {position.group}" if position.group is not None else self.queue.name
        examined = "" if position.askers_all else f" (among {position.askers} consumers examined)"
        if silent is None and position.group is None and not self.queue.worked_on_here:
            # A worker that ended is forgotten.
            start = f"; start one of {self.queue.owner}" if self.queue.owner else ""
            evidence = f"none is registered for {source}{start}"
        elif silent is None:
            evidence = f"no consumer of {source} was seen{examined or ' in the last day'}"
        else:
            evidence = f"no consumer has asked {source} for work for {age(silent)}{examined}"
        if held:
            evidence += f"; {self._number('pending')} pending, perhaps of dead workers"
        yield Reason("no-worker", f"no worker is taking: {evidence}", facts=facts, **work)

    def _rated(self) -> Iterator[Reason]:
        """The queue's rate, or a limit of the program that owns it, where entries wait."""
        yield from self._owners_limit(known=True)
        limit = RateLimit.kept(self.observed.settings.get("rate", ""))
        counts, name = self.observed.counts, self.queue.name
        if limit is None or not counts.waiting or counts.paused is not None:
            return
        takes = int(counts.waiting * limit.each_ms)
        yield Reason(
            "rate",
            f"queue {name} is limited to {limit}: {entries(counts.waiting)} waiting, at that rate "
            f"they take {age(takes)}",
            "settings",
            hint("settings", name, "rate=off"),
            eta_ms=self.now + takes,
            estimate=True,
            basis=f"{count(counts.waiting)} waiting, at {limit}",
            facts={"rate": str(limit), "waiting": counts.waiting},
        )

    def _owners_limit(self, known: bool) -> Iterator[Reason]:
        """A limit of the queue's program; not ``known``: one of which only its workers know whether
        it is reached."""
        limit, counts = self.observed.owners_limit, self.observed.counts
        if limit is None or not counts.waiting or counts.paused is not None:
            return
        if known == (limit.what == "rate" and limit.most is None):
            return
        name, owner, left_ms = self.queue.name, self.queue.owner, limit.left_ms
        left = "" if left_ms is None else took(left_ms)
        if limit.what == "concurrency":
            why = f"{owner}'s limit of {name} is reached: {entries(limit.used or 0)} at a time"
        elif limit.what == "stop":
            why = f"`rateLimit` of {owner}: workers of {name} that have a rate limit take nothing"
            why += f" for {left}"
        elif limit.most is None:
            why = f"{owner}'s workers of {name} counted {entries(limit.used or 0)} towards a rate"
            why += f" limit: if it is reached, which only they know, they take nothing for {left}"
            left_ms = None
        else:
            why = f"{owner}'s rate limit of {name} is reached: workers take nothing for {left}"
        yield Reason(
            "rate",
            why,
            eta_ms=None if left_ms is None else self.now + left_ms,
            facts={"limit": limit.what, "used": limit.used, "most": limit.most},
        )

    def _no_worker_at_all(self) -> list[Reason]:
        return [reason for reason in self._no_worker() if reason.rule == "no-worker"]

    def _request_paused(self) -> Iterator[Reason]:
        request = self.request
        if request is None or not request.paused:
            return
        change = self._change("pause", f"request {request.id}")
        if request.follows and change is None:
            first, leader = request.follows, self.observed.leader
            if leader is None or leader.state == "cancelled":
                gone = "was cancelled" if leader else "is gone"
                yield Reason(
                    "request-paused",
                    f"request {request.id} is paused until request {first} is done, which {gone}",
                    "resume",
                    hint("request", "resume", f"{self.queue.name}/{request.id}"),
                    facts={"request": request.id, "follows": first},
                )
                return
            yield Reason(
                "request-paused",
                f"request {request.id} is paused until request {first} is done",
                "explain",
                hint("explain", f"{self.queue.name}/{first}"),
                facts={"request": request.id, "follows": first},
            )
            return
        yield Reason(
            "request-paused",
            f"request {request.id} is paused {self._by(change)}",
            "resume",
            hint("request", "resume", f"{self.queue.name}/{request.id}"),
            facts={"request": request.id} | self._op_facts(change),
        )

    def _client(self) -> Iterator[Reason]:
        """The entry's client, in a fair queue, is blocked or has reached its cap."""
        client = self.observed.position.client
        if client is None:
            return
        facts = {
            "client": client.client,
            "waiting": client.waiting,
            "pending": client.pending,
            "weight": client.weight,
            "cap": client.cap,
        }
        if client.blocked:
            yield Reason(
                "blocked",
                f"client {client.client} is blocked: its entries are not delivered",
                facts=facts,
                **self._client_command("unblock", client.client),
            )
        if client.cap is not None and client.pending >= client.cap:
            yield Reason(
                "cap",
                f"client {client.client} has reached its cap: {client.pending} pending of "
                f"at most {client.cap}",
                facts=facts,
                **self._client_command("cap", client.client, str(2 * client.cap)),
                **self._after(1),
            )
        if client.rests and (rate := RateLimit.of_hour(client.rate)):
            takes = age(int(client.waiting * rate.each_ms))
            yield Reason(
                "client-rate",
                f"client {client.client} is limited to {rate}: {entries(client.waiting)} waiting, "
                f"at that rate they take {takes}",
                facts=facts | {"rate": str(rate)},
                **self._client_command("rate", client.client, "off"),
            )

    def _client_command(self, verb: str, client: str, *words: str) -> dict[str, Any]:
        """The command that changes a client's rule; empty if the queue has no such rules."""
        if not isinstance(self.queue, HasClients) or not self.queue.client_rules:
            return {}
        command = hint("client", verb, self.queue.name, client, *words)
        return {"verb": verb, "command": command}

    def _limit(self) -> Iterator[Reason]:
        """The request has as many pending entries as its limit allows."""
        request, position = self.request, self.observed.position
        if request is None or request.pending < request.limit or not request.waiting:
            return
        holders = position.holders
        named = "; ".join(
            f"{holder.consumer} has {holder.id}"
            + (f" for {age(max(0, self.now - holder.since_ms))}" if holder.since_ms else "")
            + (f" ({self._lease(holder.until_ms)})" if holder.until_ms else "")
            for holder in holders[:3]
        )
        more = ", …" if len(holders) > 3 or not position.holders_all else ""
        own = position.ahead[-1].number if position.ahead and "/" in (self.observed.id or "") else 0
        share = request.pending / max(1, self.observed.counts.pending)
        where = f"{self.queue.name}/{request.id}"
        raised = hint("request", "limit", where, str(min(1000, 2 * request.limit)))
        command: dict[str, Any] = {"verb": "limit", "command": raised}
        for holder in holders:
            if holder.consumer and (silent_ms := self._silence(holder.consumer, holder)):
                silent = f"consumer {holder.consumer} has been silent for {age(silent_ms)}"
                named, command = f"{silent}; {named}", self._requeue_all_of(holder.consumer)
                break
        yield Reason(
            "limit",
            f"request {request.id} is at its limit of {request.limit}: {named}{more}",
            facts={
                "request": request.id,
                "limit": request.limit,
                "pending": request.pending,
                "holders": [asdict(holder) for holder in holders],
            },
            **command,
            **self._after(own + 1, share),
        )

    def _silence(self, consumer: str, holder: Holder) -> int | None:
        """For how long who holds an entry has shown no sign of life; None: it lives, or nobody
        can tell."""
        sign = sign_of(consumer, holder.since_ms, self.observed.signs)
        if sign is None:
            return None
        return silence(sign, holder.until_ms, self.now, USUAL.held_ms)

    def _in_line(self, subject: str = "it", waits: str = "waits") -> Reason:
        """What is delivered earlier, or that it is next.

        ``subject`` and ``waits`` say what waits: one entry, or the waiting entries of a request.
        """
        position = self.observed.position
        facts: dict[str, Any] = {
            "ahead": [asdict(ahead) for ahead in position.ahead],
            "before": position.before,
            "before_exact": position.before_exact,
        }
        if not position.here and not self.queue.tells_position:
            return Reason(
                "waiting",
                f"{subject} {waits}; {kind_of(self.queue.kind)} does not show what is before it",
                facts=facts,
            )
        before = position.before
        eta = {} if before is None else self._after(before + 1)
        request = position.request
        if not position.ahead:
            return Reason("next", self._next(subject, waits), facts=facts, **eta)
        parts = ", ".join(
            f"{'' if ahead.exact else '≈ '}{count(ahead.number)} {_singular(ahead)}"
            for ahead in position.ahead
        )
        total = ""
        if before is not None and [before] != [ahead.number for ahead in position.ahead]:
            total = f" (≈ {count(before)} {'entry' if before == 1 else 'entries'} in all)"
        verb: dict[str, Any] = {}
        # Another priority of the request changes nothing about entries of the same request.
        others = any(ahead.what != "entries of its request" for ahead in position.ahead)
        if request is not None and request.priority and others:
            address = f"{self.queue.name}/{request.id}"
            verb = {"verb": "priority", "command": hint("request", "priority", address, "0")}
        rule: Rule = "behind"
        sentence = f"{subject} {waits} behind {parts}{total}"
        if position.client is not None:
            name = position.client.client
            rule = "turn"
            sentence = f"it waits for the turn of client {name}, behind {parts}{total}"
            facts |= {"client": name}
        return Reason(rule, sentence, facts=facts, **verb, **eta)

    def _next(self, subject: str, waits: str) -> str:
        """Nothing is delivered before ``subject``."""
        request = self.observed.position.request
        is_next, pronoun = ("is", "it") if waits == "waits" else ("are", "them")
        if request is not None and (request.paused or request.pending >= request.limit):
            return f"{subject} {waits} and {is_next} next of its request"
        if request is not None and not request.tokens:
            return (
                f"{subject} {waits}, but request {request.id} has no token in the list: one of "
                "its entries is just being delivered, or run redisq fsck"
            )
        return f"{subject} {waits} and {is_next} next: nothing is delivered before {pronoun}"


_SINGULAR = {
    "tokens ": "token ",
    "entries ": "entry ",
    "clients ": "client ",
    "jobs ": "job ",
    "elements ": "element ",
}


def _singular(ahead: Ahead) -> str:
    """``token of …`` of one, ``tokens of …`` of several."""
    if ahead.number == 1:
        for many, single in _SINGULAR.items():
            if ahead.what.startswith(many):
                return single + ahead.what.removeprefix(many)
    return ahead.what
