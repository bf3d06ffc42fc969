"""What has ended, or is no more, in words: dead, purged, moved on, done, cancelled, gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from redisq_ops.core.model.entry import Entry, Event, Failure, Request
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.model.states import Verb

from ..change.audit_log import Operation
from ..change.bulk import PAST
from ..hint import hint
from ..terminal import age, count
from .removals import removals
from .rules import Reason, Reasons

NAMED = 5
"""changes that may have taken away what is gone"""


class Endings(Reasons):
    """The reasons for what nobody waits for any more. None has an `eta_ms`: nothing is to come. How
    long undo works and results are kept is in the sentence and the facts."""

    def _dead(self, entry: Entry) -> Reason:
        since = entry.since_ms or entry.at_ms
        at = "" if since is None else f" since {self.when(since)} ({self._ago(since)})"
        because = {
            "failed": f"it failed {_times(entry.failures)}",
            "lost": f"its lease was lost {_times(entry.lost)}",
            "rejected": "its handler rejected it",
        }.get(entry.reason or "", entry.reason or "its layout doesn't say why")
        said = f": {said_of(self.shown(entry.error))}" if entry.error is not None else ""
        facts: dict[str, Any] = {
            "reason": entry.reason, "since_ms": since, "failures": entry.failures,
            "lost": entry.lost, "error": error_row(self.shown(entry.error)), "group": None,
            "alike": None,
        }  # fmt: skip
        alike = ""
        if (group := self.look.alike) is not None:
            facts |= {"group": group.group, "alike": group.number, "looked": group.looked,
                      "dead": group.total if group.exact else None}  # fmt: skip
            among = f"all {count(group.total)} dead"
            if not group.exact:
                among = f"{count(group.looked)} looked at"
            elif group.looked < group.total:
                among = f"{count(group.looked)} looked at of {count(group.total)} dead"
            n = group.number
            alike = f"; {count(n)} of this error (group {group.group}) among {among}"
        return Reason(
            "dead", f"dead{at} because {because}{said}{alike}", facts=facts,
            **self._moving("replay", "dead"),
        )  # fmt: skip

    def _trash(self, entry: Entry) -> Reason:
        request = self.request
        if entry.op is None and request is not None and request.state == "cancelled":
            return self._cancelled(request, "its request")
        done = self._operation(entry.op)
        at = entry.at_ms
        until = None if at is None else at + self._setting("trash_ms")
        kept = "" if until is None else f"; undo until {self.when(until)} ({self._until(until)})"
        when = "" if at is None else f" at {self.when(at)}"
        verb: dict[str, Any] = {}
        if done is not None and done.undoable:
            verb = {"verb": "undo", "command": hint("undo", done.id)}
        elif self._can("restore", "trash"):
            verb = {"verb": "restore", "command": hint("trash", "restore", self.address)}
        if done is not None and done.into and done.taken_back:
            until, kept = None, ""  # what an undo left here stays here
        facts = {"purged_ms": at, "undo_until_ms": until} | self._of_journal(done)
        if done is not None and done.into:
            return self._moved_on(entry, done, when, kept, facts)
        return Reason(
            "purged", f"purged{when} {self._by(done)}{kept}", facts=facts, **verb,
        )  # fmt: skip

    def _moved_on(
        self, entry: Entry, done: Operation, when: str, kept: str, facts: dict[str, Any]
    ) -> Reason:
        """What its move to another queue left here."""
        said = f"moved to {done.into}{when} {self._by(done)}{kept}"
        there = hint("explain", f"{done.into}/{self.queue.transferred_id(done.id, entry.id)}")
        verb: dict[str, Any] = {"verb": "explain", "command": there}
        left = next((one for one in self.look.unfinished if one.operation.id == done.id), None)
        if left is not None:
            said = f"moved to {done.into}{when} {self._by(done)}; {left.sentence(self.when)}"
            facts["undo_until_ms"] = None  # it is kept until that is finished
            verb = {"verb": "undo", "command": left.command}
        return Reason("moved", said, facts=facts | {"into": done.into}, **verb)

    def _done(self, entry: Entry) -> Reason:
        told = self.look.told.latest("done")
        at = told.at_ms if told else entry.since_ms
        said = f"done at {self.when(at)} ({self._ago(at)})" if at else "done"
        if at is None and self.queue.keeps_history:
            said += "; when isn't kept"
        facts: dict[str, Any] = {"done_ms": at, "kept_until_ms": None}
        request = self.request
        if not self.queue.keeps_history:
            return Reason("done", f"{said}, as far as its layout tells", facts=facts)
        if request is None:
            return Reason("done", said, facts=facts)
        keep = self._setting("keep_ms")
        until = None if request.closed_ms is None else request.closed_ms + keep
        has = "its result is" if entry.payload is not None else "it is without a result, and"
        if until is None:
            said += f"; {has} kept while request {request.id} goes on, and {age(keep)} longer"
        elif request.dead or request.trash:
            said += f"; {has} kept while its request has dead or purged entries"
            until = None
        else:
            said += f"; {has} kept until {self.when(until)} ({self._until(until)})"
        return Reason(
            "done", said, "results",
            hint("results", f"{self.queue.name}/{request.id}"),
            facts=facts | {"kept_until_ms": until, "result": entry.payload is not None},
        )  # fmt: skip

    def _cancelled(self, request: Request, what: str) -> Reason:
        change = self._change(["cancel"], lambda about: about == f"request {request.id}")
        until = None if request.closed_ms is None else request.closed_ms + self._setting("trash_ms")
        kept = "" if until is None else f"; undo until {self.when(until)} ({self._until(until)})"
        verb: dict[str, Any] = {}
        if change is not None and change.undoable:
            verb = {"verb": "undo", "command": hint("undo", change.id)}
        return Reason(
            "cancelled", f"{what} was cancelled {self._by(change)}{kept}",
            facts={"request": request.id, "cancelled_ms": request.closed_ms,
                   "undo_until_ms": until} | self._of_journal(change), **verb,
        )  # fmt: skip

    def _finished(self, request: Request) -> Reason:
        closed = request.closed_ms
        at = "" if closed is None else f" at {self.when(closed)} ({self._ago(closed)})"
        until = None if closed is None else closed + self._setting("keep_ms")
        done = closed
        # An undo that puts back its last entries closes it again, in the same call and moment.
        if closed is not None and (back := self.look.told.undone.get(closed)) is not None:
            ends = (e.at_ms for e in self.look.told.events if "request-done" in e.what)
            done = next((at_ms for at_ms in ends if at_ms < closed), None)
            at += f", when {back} was taken back"
            if done is None:
                at += " (when the rest of it was done isn't kept)"
            else:
                at = f" at {self.when(done)} ({self._ago(done)}), and again{at}"
        facts = {
            "closed_ms": closed, "done_ms": done, "dead": request.dead, "trash": request.trash
        }  # fmt: skip
        results = hint("results", self.address)
        if request.dead:
            return Reason(
                "done-dead", f"done{at}, with {count(request.dead)} of {count(request.total)} dead;"
                " it is kept while it has dead entries", "replay",
                hint("replay", self.address), facts=facts | {"kept_until_ms": None},
            )  # fmt: skip
        kept = "" if until is None else f"; results are kept until {self.when(until)}"
        if request.trash:
            kept = f", {count(request.trash)} of them purged or moved to another queue{kept}"
        return Reason(
            "done", f"done{at}, all {count(request.total)} settled{kept}", "results", results,
            facts=facts | {"kept_until_ms": until},
        )  # fmt: skip

    def _gone(self, what: str) -> Reason:
        look, told = self.look, self.look.told
        window = f"the latest {count(told.looked)} of {count(told.total)} events"
        facts: dict[str, Any] = {"looked": told.looked, "events": told.total, "history": None}
        if not self.queue.keeps_history:
            return Reason(
                "unknown", f"nothing in queue {self.queue.name} is called {look.id}, and a "
                f"{self.queue.kind} layout keeps no history that would say what became of it",
                facts=facts,
            )  # fmt: skip
        level = look.settings.get("history", DEFAULTS.history)
        facts["history"] = level
        request = look.queue_position.request
        number = (look.id or "").partition("/")[2]
        counts = number.isdecimal() and not number.startswith("0")
        there = counts and request is not None and int(number) <= request.total
        if request is not None and number and not there:
            return Reason(
                "unknown", f"request {request.id} has {count(request.total)} entries, numbered "
                f"from 1: there is no {look.id}", facts=facts | {"total": request.total},
            )  # fmt: skip
        event = told.events[0] if told.events else None
        history: dict[str, Any] = {
            "verb": "history",
            "command": hint("history", self.queue.name),
        }
        if event is not None:
            facts |= {"event": dict(event.what), "at_ms": event.at_ms, "by": event.by}
        sure: list[Operation] = []
        maybe: list[Operation] = []
        # What the history saw done, or changed by name, it says itself.
        if what == "entry" and (event is None or not {"done", "op"} & event.what.keys()):
            sure, maybe = removals(look, look.id or "")
            facts["removals"] = [self._of_journal(one)["op"] for one in (*sure, *maybe[:NAMED])]
        if sure:
            said = "; ".join(f"{_removed(one)} {self._by(one)}" for one in sure)
            if sure[-1].target == "trash" or sure[-1].verb == "cancel":
                said += f"; what is in the trash is kept for {age(self._setting('trash_ms'))}"
            before = f"; before that the history says of it: {self._word(event)}" if event else ""
            return Reason("removed", f"it was {said}{before}", facts=facts, **history)
        if event is not None:
            return Reason("gone", self._ending(event) + self._since(maybe), facts=facts, **history)
        among = maybe if what == "entry" else look.operations
        removed = [o for o in among if o.target == "gone" and o.done]
        also = ""
        if removed:
            also = (
                f"; {len(removed)} of the latest changes removed entries for good, the last one "
                f"{self._by(removed[0])}: those don't name their entries"
            )
        quiet = ""
        if level != "all":
            quiet = f" (history is {level!r}: what was done without trouble leaves no event)"
        kept = f"; a finished request is kept for {age(self._setting('keep_ms'))}"
        return Reason(
            "unknown", f"there is no {what} {look.id} in queue {self.queue.name}: in {window} "
            f"there is nothing about it{quiet}{kept if what == 'request' else ''}{also}",
            facts=facts, **history,
        )  # fmt: skip

    def _ending(self, event: Event) -> str:
        at = f"at {self.when(event.at_ms)} ({self._ago(event.at_ms)})"
        keep = age(self._setting("keep_ms"))
        if "request-done" in event.what:
            return f"it was done {at}, and finished requests are kept for {keep}"
        if "done" in event.what:
            return f"it was done {at} by {event.by}; such an entry leaves no other trace"
        if "op" in event.what:
            words = event.what["op"][0].split("|")
            done = self._operation(words[0])
            return f"an operator changed it last: {words[1]} {self._by(done)}, and it is gone since"
        return f"it is gone; the last thing the history says of it is: {self._word(event)}"

    def _word(self, event: Event) -> str:
        return f"{', '.join(event.what)} at {self.when(event.at_ms)} ({self._ago(event.at_ms)})"

    def _since(self, maybe: Sequence[Operation]) -> str:
        """The changes that may have taken it away since its last word."""
        if not maybe:
            return ""
        named = "; ".join(
            f"{count(one.done - one.undone)} {_removed(one)} {self._by(one)}"
            for one in maybe[:NAMED]
        )
        more = f"; and {count(len(maybe) - NAMED)} more changes" if len(maybe) > NAMED else ""
        return f"; it may be among these, changed since then: {named}{more} (redisq log has them)"


def error_row(error: Failure | None) -> dict[str, str] | None:
    return None if error is None else {"type": error.type, "message": error.message}


def _removed(operation: Operation) -> str:
    """What a change did with an entry that it took away."""
    if operation.into:
        return f"moved from {operation.source} to {operation.into}"
    if operation.target == "gone":
        return "removed from the trash" if operation.source == "trash" else (
            f"purged for good from {operation.source}"
        )  # fmt: skip
    if operation.verb == "cancel":
        return "cancelled with its request"
    return f"{PAST.get(cast(Verb, operation.verb), operation.verb)} from {operation.source}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{count(n)} times"


def said_of(error: Failure | None) -> str:
    if error is None:
        return "nothing"
    return f"{error.type}: {error.message}" if error.message else error.type
