"""The reasons for what has ended: dead, purged, moved, done, cancelled, or not there any more."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, cast

from redisq_ops.core.model.entry import Entry, Event, Failure, Request
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.states import Verb

from ..change.audit_log import Operation
from ..change.control import CLIENT_RULES
from ..change.wording import PAST
from ..hint import hint
from ..terminal import age, count
from .reason import Reason, Rule
from .reason_parts import ReasonParts
from .removals import removals

_CLIENT_RULES = {rule for rule, _ in CLIENT_RULES.values()}

NAMED = 5
"""changes named that may have removed an entry"""


class OutcomeReasons(ReasonParts):
    """The reasons for what has ended.

    None has an ``eta_ms``, since nothing is expected. How long an undo works and how long a result
    is kept is in the sentence and the facts.
    """

    def _dead(self, entry: Entry) -> Reason:
        since = entry.since_ms or entry.at_ms
        at = "" if since is None else f" since {self.when(since)} ({self._ago(since)})"
        because = {
            "failed": f"it failed {_times(entry.failures)}",
            "lost": f"its lease expired {_times(entry.lost)}",
            "rejected": "its handler rejected it",
        }.get(entry.reason or "", entry.reason or "the reason is not recorded")
        error = f": {error_text(self.redacted(entry.error))}" if entry.error is not None else ""
        facts: dict[str, Any] = {
            "reason": entry.reason,
            "since_ms": since,
            "failures": entry.failures,
            "lost": entry.lost,
            "error": error_row(self.redacted(entry.error)),
            "group": None,
            "alike": None,
        }
        alike = ""
        if (same := self.observed.same_error) is not None:
            facts |= {
                "group": same.group,
                "alike": same.number,
                "scanned": same.examined,
                "dead": same.total if same.exact else None,
            }
            examined, of = count(same.examined), f" of {count(same.total)}" if same.exact else ""
            alike = (
                f"; {count(same.number)} with this error (group {same.group}) among {examined}{of} "
                "dead entries"
            )
        return Reason(
            "dead",
            f"dead{at} because {because}{error}{alike}{self._why_not('replay', 'dead')}",
            facts=facts,
            **self._command("replay", "dead"),
        )

    def _trash(self, entry: Entry) -> Reason:
        request = self.request
        if entry.op is None and request is not None and request.state == "cancelled":
            return self._cancelled(request, "its request")
        change = self._operation(entry.op)
        at = entry.at_ms
        until = None if at is None else at + self._setting("trash_ms")
        kept = self._undo_until(until)
        when = "" if at is None else f" at {self.when(at)}"
        verb: dict[str, Any] = {}
        if self._command("restore", "trash"):
            verb = {"verb": "restore", "command": hint("trash", "restore", self.address)}
        if change is not None and change.undoable and self.observed.counts.only_shown is None:
            verb = {"verb": "undo", "command": hint("undo", change.id)}
        if change is not None and change.into and change.taken_back:
            until, kept = None, ""  # an undo left it here, and no later undo takes it
        facts = {"purged_ms": at, "undo_until_ms": until} | self._op_facts(change)
        if change is not None and change.into:
            return self._moved_away(entry, change, when, kept, facts)
        return Reason(
            "purged",
            f"purged{when} {self._by(change)}{kept}",
            facts=facts,
            **verb,
        )

    def _undo_until(self, until: int | None) -> str:
        if until is None:
            return ""
        return f"; undo works until {self.when(until)} ({self._until(until)})"

    def _moved_away(
        self, entry: Entry, change: Operation, when: str, kept: str, facts: dict[str, Any]
    ) -> Reason:
        """The entry is in another queue; its record in the trash here makes an undo possible."""
        sentence = f"moved to {change.into}{when} {self._by(change)}"
        there = hint("explain", f"{change.into}/{self.queue.transferred_id(change.id, entry.id)}")
        verb: dict[str, Any] = {"verb": "explain", "command": there}
        move = next((m for m in self.observed.unfinished if m.operation.id == change.id), None)
        if move is None:
            sentence += kept
        else:
            sentence += f"; {move.sentence(self.when)}"
            facts["undo_until_ms"] = None  # it is kept until the move is finished
            verb = {"verb": "undo", "command": move.command}
        return Reason("moved", sentence, facts=facts | {"into": change.into}, **verb)

    def _done(self, entry: Entry) -> Reason:
        event = self.observed.history.latest("done")
        at = event.at_ms if event else entry.since_ms
        sentence = f"done at {self.when(at)} ({self._ago(at)})" if at else "done"
        if at is None and self.queue.keeps_history:
            sentence += "; the time is not recorded"
        facts: dict[str, Any] = {"done_ms": at, "kept_until_ms": None}
        request = self.request
        if not self.queue.keeps_history:
            return Reason("done", f"{sentence}, as far as its keys show", facts=facts)
        if request is None:
            return Reason("done", sentence, facts=facts)
        keep = self._setting("keep_ms")
        until = None if request.closed_ms is None else request.closed_ms + keep
        has = "its result is" if entry.record is not None else "it has no result and is"
        if until is None:
            sentence += f"; {has} kept until request {request.id} is done, and for {age(keep)} then"
        elif request.dead or request.trash:
            sentence += f"; {has} kept while its request has dead or purged entries"
            until = None
        else:
            sentence += f"; {has} kept until {self.when(until)} ({self._until(until)})"
        return Reason(
            "done",
            sentence,
            "results",
            hint("results", f"{self.queue.name}/{request.id}"),
            facts=facts | {"kept_until_ms": until, "result": entry.record is not None},
        )

    def _cancelled(self, request: Request, subject: str) -> Reason:
        change = self._change("cancel", f"request {request.id}")
        until = None if request.closed_ms is None else request.closed_ms + self._setting("trash_ms")
        verb: dict[str, Any] = {}
        if change is not None and change.undoable:
            verb = {"verb": "undo", "command": hint("undo", change.id)}
        return Reason(
            "cancelled",
            f"{subject} was cancelled {self._by(change)}{self._undo_until(until)}",
            facts={"request": request.id, "cancelled_ms": request.closed_ms, "undo_until_ms": until}
            | self._op_facts(change),
            **verb,
        )

    def _finished(self, request: Request) -> Reason:
        """A request that is done."""
        closed = request.closed_ms
        at = "" if closed is None else f" at {self.when(closed)} ({self._ago(closed)})"
        until = None if closed is None else closed + self._setting("keep_ms")
        done = closed
        # An undo that puts back the last entries closes the request again, in the same call.
        if closed is not None and (undone := self.observed.history.undone.get(closed)) is not None:
            ends = (e.at_ms for e in self.observed.history.events if "request-done" in e.what)
            done = next((at_ms for at_ms in ends if at_ms < closed), None)
            at += f", when {undone} was undone"
            if done is None:
                at += " (when it was first done is not recorded)"
            else:
                at = f" at {self.when(done)} ({self._ago(done)}), and again{at}"
        facts = {"closed_ms": closed, "done_ms": done, "dead": request.dead, "trash": request.trash}
        if request.dead:
            return Reason(
                "done-dead",
                f"done{at}, with {count(request.dead)} of {count(request.total)} "
                "entries dead; it is kept while it has dead entries",
                "replay",
                hint("replay", self.address),
                facts=facts | {"kept_until_ms": None},
            )
        kept = "" if until is None else f"; results are kept until {self.when(until)}"
        if request.trash:
            kept = f", {count(request.trash)} of them purged or moved to another queue{kept}"
        return Reason(
            "done",
            f"done{at}, all {count(request.total)} settled{kept}",
            "results",
            hint("results", self.address),
            facts=facts | {"kept_until_ms": until},
        )

    def _gone(self, what: str) -> Reason:
        """Nothing has this id; ``what`` is ``request`` or ``entry``."""
        observed, history = self.observed, self.observed.history
        facts: dict[str, Any] = {
            "scanned": history.searched,
            "events": history.total,
            "history": None,
        }
        if not self.queue.keeps_history:
            unseen = ""
            if unseen_ms := self.queue.unseen_ms:
                until = "until it has a result"
                until = until if unseen_ms == inf else f"for {age(int(unseen_ms))}"
                unseen = f". Perhaps a worker has it: no key need show that {until}"
            return Reason(
                "unknown",
                f"queue {self.queue.name} has no entry {observed.id}; a "
                f"{self.queue.kind} queue keeps no history that shows what became of it{unseen}",
                facts=facts,
            )
        facts["history"] = self._history_level
        request = observed.position.request
        number = (observed.id or "").partition("/")[2]
        is_number = number.isdecimal() and not number.startswith("0")
        within = is_number and request is not None and int(number) <= request.total
        if request is not None and number and not within:
            return Reason(
                "unknown",
                f"there is no {observed.id}: request {request.id} has "
                f"{count(request.total)} entries, numbered from 1",
                facts=facts | {"total": request.total},
            )
        event = next((event for event in history.events if not _of_client(event)), None)
        if event is None and history.events:
            return self._is_client(history.events[0], facts)
        if event is not None:
            facts |= {"event": dict(event.what), "at_ms": event.at_ms, "by": event.by}
        certain: list[Operation] = []
        possible: list[Operation] = []
        # An event `done` or `op` says itself what became of the entry.
        if what == "entry" and (event is None or not {"done", "op"} & event.what.keys()):
            certain, possible = removals(observed, observed.id or "")
            named = (*certain, *possible[:NAMED])
            facts["removals"] = [self._op_facts(change)["operation"] for change in named]
        rule: Rule
        if certain:
            rule, sentence = "removed", self._certain_removals(certain, event)
        elif event is not None:
            rule, sentence = "gone", self._last_event(event) + self._possible_removals(possible)
        else:
            rule, sentence = "unknown", self._unmentioned(what, possible)
        return Reason(rule, sentence, "history", hint("history", self.queue.name), facts=facts)

    @property
    def _history_level(self) -> str:
        return str(self.observed.settings.get("history", DEFAULTS.history))

    def _is_client(self, event: Event, facts: dict[str, Any]) -> Reason:
        """The id is the name of a client, whose rule ``event`` changed."""
        words = event.what["op"][0].split("|")
        return Reason(
            "unknown",
            f"{self.observed.id} is a client of queue {self.queue.name}, not an entry; "
            f"its {words[1]} was set to {words[3]} {self._by(self._operation(words[0]))}",
            facts=facts,
            verb="client",
            command=hint("client", "ls", self.queue.name),
        )

    def _certain_removals(self, certain: Sequence[Operation], event: Event | None) -> str:
        """The changes that removed the entry; ``event``: its last history event before them."""
        sentence = "; ".join(f"{_removed(change)} {self._by(change)}" for change in certain)
        if certain[-1].target == "trash" or certain[-1].verb == "cancel":
            sentence += f"; entries stay in the trash for {age(self._setting('trash_ms'))}"
        before = f"; the last history event before: {self._event(event)}" if event else ""
        return f"it was {sentence}{before}"

    def _unmentioned(self, what: str, possible: Sequence[Operation]) -> str:
        """No history event has its id; ``possible``: changes that may have removed it."""
        observed, history, level = self.observed, self.observed.history, self._history_level
        among = possible if what == "entry" else observed.operations
        removed = [change for change in among if change.target == "gone" and change.done]
        also = ""
        if removed:
            also = (
                f"; {len(removed)} of the latest changes removed entries for good, the last one "
                f"{self._by(removed[0])}: the audit log does not list their entries"
            )
        quiet = ""
        if level != "all":
            quiet = f" (history is {level!r}: an entry that is done without a failure has no event)"
        kept = f"; a finished request is kept for {age(self._setting('keep_ms'))}"
        window = f"the latest {count(history.searched)} of {count(history.total)} history events"
        return (
            f"there is no {what} {observed.id} in queue {self.queue.name}, and {window} "
            f"do not mention it{quiet}{kept if what == 'request' else ''}{also}"
        )

    def _last_event(self, event: Event) -> str:
        at = f"at {self.when(event.at_ms)} ({self._ago(event.at_ms)})"
        keep = age(self._setting("keep_ms"))
        if "request-done" in event.what:
            return f"it was done {at}; finished requests are kept for {keep}"
        if "done" in event.what:
            return f"it was done {at} by {event.by}; a done entry leaves no other record"
        if "op" in event.what:
            words = event.what["op"][0].split("|")
            change = self._operation(words[0])
            return f"it is gone; an operator changed it last: {words[1]} {self._by(change)}"
        return f"it is gone; its last history event: {self._event(event)}"

    def _event(self, event: Event) -> str:
        return f"{', '.join(event.what)} at {self.when(event.at_ms)} ({self._ago(event.at_ms)})"

    def _possible_removals(self, possible: Sequence[Operation]) -> str:
        """The changes since its last event that may have removed it."""
        if not possible:
            return ""
        named = "; ".join(
            f"{count(change.done - change.undone)} {_removed(change)} {self._by(change)}"
            for change in possible[:NAMED]
        )
        left = len(possible) - NAMED
        more = f"; and {count(left)} more changes" if left > 0 else ""
        return f"; one of these later changes may have removed it: {named}{more} (see redisq log)"


def _of_client(event: Event) -> bool:
    """Whether the event is a change of a client's rule, and not of an entry."""
    return set(event.what) == {"op"} and event.what["op"][0].split("|")[1] in _CLIENT_RULES


def error_row(error: Failure | None) -> dict[str, str] | None:
    return None if error is None else {"type": error.type, "message": error.message}


def error_text(error: Failure | None) -> str:
    return "no error recorded" if error is None else error.line


def _removed(change: Operation) -> str:
    """What a change did with the entries it removed."""
    if change.into:
        return f"moved from {change.source} to {change.into}"
    if change.target == "gone":
        return (
            "removed from the trash"
            if change.source == "trash"
            else (f"purged for good from {change.source}")
        )
    if change.verb == "cancel":
        return "cancelled with its request"
    past = PAST.get(cast(Verb, change.verb), change.verb)  # newer releases may have other verbs
    return f"{past} from {change.source}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{count(n)} times"
