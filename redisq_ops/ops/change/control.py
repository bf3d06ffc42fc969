"""Pause, resume, drain and cancel; limits, priorities, clients' rules, settings of queues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from redisq_ops.core.engine.optional_features import HasOwnersPause
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Client, Request, State
from redisq_ops.core.model.errors import BadInput, NotFound, QueueClosed, Refused, WrongKind
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.model.rate_limit import RateLimit
from redisq_ops.core.model.settings import DEFAULTS, Settings
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.queue import Control
from redisq_ops.core.queues.request.records import found
from redisq_ops.core.queues.request.submission import checked_limit, checked_priority

from ..filter.time import duration_ms
from ..required_features import requests_of, with_clients
from ..terminal import kind_of
from . import audit_log
from .audit_log import Author
from .entry_steps import EntryAction, Pick
from .outcome import ChangeOutcome
from .runner import ChangeRun, take_all
from .steps import ChangeSteps


class SettingsSteps(ChangeSteps):
    """The few steps of a change of settings, of a request or of a client.

    Their inverse is in the audit log before the first step, with the values that were read then, so
    that an undo works after a kill, too. A step that finds another value corrects the inverse.
    """

    def __init__(
        self,
        queue: Queue[Any],
        verb: str,
        what: str,
        changes: Sequence[Callable[[str, int], Awaitable[bool]]],
        inverse: Callable[[str], str],
        last: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """``changes`` get the operation's id and their number, and return whether they changed
        anything; ``inverse`` gets the id. ``last`` is what remains to do after them."""
        super().__init__(queue, verb, len(changes), what)
        self._changes, self._inverse, self._last = changes, inverse, last
        self._taken = 0
        self._recorded = self.logged["inverse"] = inverse(self.op)

    async def step(self, size: int) -> int | None:
        if self._taken == len(self._changes):
            return None
        try:
            changed = await self._changes[self._taken](self.op, self._taken + 1)
        except (QueueClosed, NotFound, WrongKind):
            if not self.outcome.done:  # what somebody else did must not be undone by this undo
                await audit_log.note(self.queue, self.op, inverse="", ended=1)
            raise
        self._taken += 1
        self.outcome.count({"moved" if changed else "same": 1})
        inverse = self._inverse(self.op) if self.outcome.done else ""
        if inverse != self._recorded:
            self._recorded = inverse
            await audit_log.note(self.queue, self.op, inverse=inverse)
        return 1

    async def end(self) -> dict[str, str | int] | None:
        if self._last is not None:
            await self._last(self.op)
        return {"done": self.outcome.done}


_INVERSE = {"cancel": "reopen", "pause": "resume", "resume": "pause"}


async def changeable(queue: Queue[Any], id: str, verb: Control, value: str = "") -> Request:
    """The request, if this change of it is possible; nothing is written."""
    requests = requests_of(queue)
    if verb in ("limit", "priority"):
        checked = checked_limit if verb == "limit" else checked_priority
        checked(int(value))
    request = found(await requests.request.op(id), id, queue.name)
    if request.settled:
        raise QueueClosed(f"request {id} is {request.state} already")
    other = {"cancel": request.then, "resume": request.paused and request.follows}.get(verb)
    if other and (seen := await requests.request.op(other)) is not None and not seen.settled:
        if verb == "cancel":
            raise QueueClosed(
                f"request {other} follows {id} and would wait for ever: cancel that one first"
            )
        raise QueueClosed(f"request {id} goes on when {other} is done, which it follows")
    return request


async def change_request(
    queue: Queue[Any], id: str, verb: Control, author: Author, value: str = ""
) -> ChangeOutcome:
    """Cancel, pause, resume, or change limit or priority of a request; undo takes it back.

    Nothing is written if nothing would change. Cancelling stops new deliveries at once, then fences
    off the running ones, 100 at a time.
    """
    request = await changeable(queue, id, verb, value)
    if _already(request, verb, value):
        return ChangeOutcome(None, 0)
    requests = requests_of(queue)
    before = str(getattr(request, "state" if verb == "cancel" else verb, ""))

    async def control(op: str, step: int) -> bool:
        nonlocal before
        word, before = await requests.control.op(op, step, verb, id, value)
        return bool(word != "same")

    steps = SettingsSteps(
        queue,
        verb,
        f"request {id}" + (f" to {value}" if value else ""),
        [control],
        lambda op: _inverse(id, verb, before, value),
        partial(_fence_off, requests, id) if verb == "cancel" else None,
    )
    return await take_all(ChangeRun(steps, author))


def _inverse(id: str, verb: Control, before: str, value: str) -> str:
    """The inverse of a change of a request. It has the value that was set: undo resets only that
    value."""
    inverse = f"{_INVERSE.get(verb, verb)} {id}"
    if verb == "cancel":
        inverse += f" {before}"
    elif verb in ("limit", "priority"):
        inverse += f" {before} {int(value)}"
    return inverse


def _already(request: Request, verb: Control, value: str) -> bool:
    if verb in ("pause", "resume"):
        return request.paused == (verb == "pause")
    return verb != "cancel" and str(getattr(request, verb)) == value


async def _fence_off(queue: RequestQueue[Any], id: str, op: str) -> None:
    """Void the receipts of a cancelled request's running and delayed sub-requests.

    Later entries stay, so that nothing works against a user who reopens the request meanwhile.
    """
    seq, high_water = 1, await queue.now.op()
    while True:
        rows = await queue.unsettled.op(id, 100)
        moved = 0
        for state in FENCED:
            ids = [Pick(entry_id) for entry_id, where in rows if where == state]
            if ids:
                seq += 1
                action = EntryAction(queue, "requeue", state, high_water)
                results = await action.move(audit_log.fence(op), seq, ids)
                moved += results.count("moved")
        if not moved:
            return


FENCED: tuple[State, ...] = ("pending", "delayed")
"""states from which a cancel takes the receipts"""
CLIENT_RULES: dict[str, tuple[str, int | None]] = {
    "block": ("blocked", 1),
    "unblock": ("blocked", 0),
    "weight": ("weight", None),
    "cap": ("cap", None),
    "rate": ("rate", None),
}
"""verb -> the rule of a client it changes, and the value; None: the operator gives it"""


def rule_words(rule: str, value: int) -> str:
    """The value of a client's rule as a user writes it."""
    if rule == "rate":
        return str(RateLimit.of_hour(value) or "off")
    return str(value)


def typed_rule(rule: str, words: str) -> int:
    """The value of a client's rule that a user typed; raises `BadInput`."""
    if rule == "rate":
        rate = RateLimit.read(words)
        return rate.per_hour if rate else 0
    if not words.isascii() or not words.isdigit():
        raise BadInput(f"{rule} is a number, not {words!r:.60}")
    return int(words)


def client_rule(verb: str, given: int | None = None) -> tuple[str, int]:
    """The rule a verb changes, and the value it is to have."""
    rule, value = CLIENT_RULES[verb]
    if value is None:
        value = given
    if value is None:
        raise BadInput(f"{verb}: to what?")
    return rule, value


async def client_changeable(queue: Queue[Any], client: str, rule: str, value: int) -> Client:
    """The client, if that rule can have this value; nothing is written."""
    fair = with_clients(queue)
    checked_name(client, "client name")
    allowed = fair.client_rules.get(rule)
    if allowed is None:
        raise Refused(f"queue {queue.name} is {kind_of(queue.kind)}: it has no rules for clients")
    if value not in allowed:
        raise BadInput(f"{rule} {value}: {allowed.start:,} to {allowed.stop - 1:,}")
    return await fair.get_client.op(client) or Client(client, 0, 0, 1, False, None)


async def change_client(
    queue: Queue[Any], client: str, verb: str, author: Author, value: int
) -> ChangeOutcome:
    """Block or unblock a client, or change its weight, cap or rate (entries per hour); undo takes
    it back.

    Nothing is written if nothing would change. Rules can be set before a client's first entry.
    """
    rule, value = client_rule(verb, value)
    have = int(getattr(await client_changeable(queue, client, rule, value), rule) or 0)
    if have == value:
        return ChangeOutcome(None, 0)
    before, clients = have, with_clients(queue)

    async def set_rule(op: str, step: int) -> bool:
        nonlocal before
        word, before = await clients.set_client_rule.op(op, step, rule, client, value)
        return bool(word != "same")

    steps = SettingsSteps(
        queue,
        verb,
        f"client {client}"
        + (f" to {rule_words(rule, value)}" if CLIENT_RULES[verb][1] is None else ""),
        [set_rule],
        lambda op: f"{rule} {client} {before} {value}",
    )
    return await take_all(ChangeRun(steps, author))


def settable(queue: Queue[Any], verb: str = "") -> None:
    """Refuse a queue whose owner knows nothing of our settings and flags; for ``pause`` and
    ``resume``, one that redisq can't pause as its owner does either."""
    pauses = verb in ("pause", "resume")
    if queue.has_settings or (pauses and isinstance(queue, HasOwnersPause)):
        return
    program = queue.owner or "that program"
    why = f"it has no settings here; pause or configure it with {program}"
    why = queue.no_pause if pauses and queue.no_pause else why
    raise Refused(f"queue {queue.name} is kept by another program: {why}")


async def holdable(queue: Queue[Any], verb: str) -> None:
    """As `settable`; refuses also a queue whose owner's pause can't be set now."""
    settable(queue, verb)
    if verb == "drain" or not isinstance(queue, HasOwnersPause):
        return
    if (why := await queue.only_shown.op()) is not None:
        raise Refused(f"queue {queue.name} is only shown: {why}")
    if verb == "resume" and queue.has_settings:  # it may have been drained
        return
    if (why := await queue.pause_refused()) is not None:
        raise Refused(f"queue {queue.name}: {why}: pause or resume it by {queue.owner}")


def stops_workers(queue: Queue[Any]) -> bool:
    """Whether a pause of the queue stops the workers that take its entries."""
    return not queue.owner or (isinstance(queue, HasOwnersPause) and queue.pause_heeded)


def heeded_by(queue: Queue[Any], verb: str) -> str:
    """Whom a pause or drain of another program's queue stops, in words; empty for our queues."""
    if isinstance(queue, HasOwnersPause) and verb != "drain":
        return f"{queue.name}: {queue.pause_note}"
    if not queue.owner or not queue.has_settings:
        return ""
    return f"{queue.name}: only redisq's workers and producers heed it; {queue.owner}'s own go on."


async def set_flags(
    queue: Queue[Any], verb: str, author: Author, changes: dict[str, str]
) -> ChangeOutcome:
    """Set settings or flags (for pause, drain and settings); undo puts them back.

    Values that are set already are left out; if none is left, nothing is written.
    """
    settable(queue)  # refused before the audit log has it
    if "rate" in changes:
        queue.stored_rate(changes["rate"])
    have = await queue.settings.op()
    changes = {name: value for name, value in changes.items() if have.get(name, "") != value}
    if not changes:
        return ChangeOutcome(None, 0)
    before = {name: have.get(name, "") for name in changes}

    def setting(name: str, value: str) -> Callable[[str, int], Awaitable[bool]]:
        async def configure(op: str, step: int) -> bool:
            before[name] = (await queue.configure.op(op, step, {name: value}))[name]
            return True

        return configure

    def inverse(op: str) -> str:
        rows = ((name, before[name], value) for name, value in changes.items())
        return "\n".join(
            f"set {name} {quote(was, safe='')} {quote(value, safe='')}" for name, was, value in rows
        )

    what = ", ".join(f"{name} = {value or 'default'}" for name, value in changes.items())
    settings = [setting(name, value) for name, value in changes.items()]
    return await take_all(ChangeRun(SettingsSteps(queue, verb, what, settings, inverse), author))


async def pause(queue: Queue[Any], author: Author) -> ChangeOutcome:
    """Hand out nothing more; running deliveries go on and can settle."""
    if isinstance(queue, HasOwnersPause):
        return await _as_owner(queue, True, author)
    return await set_flags(queue, "pause", author, {"paused": author.reason})


async def resume(queue: Queue[Any], author: Author) -> ChangeOutcome:
    """Hand out again, and take new entries again."""
    flags = {"paused": "", "closed": ""}
    if not isinstance(queue, HasOwnersPause):
        return await set_flags(queue, "resume", author, flags)
    if queue.has_settings:  # a drain is ours
        outcome = await set_flags(queue, "resume", author, flags)
        if outcome.op is not None and (await queue.counts.op()).paused is None:
            return outcome
    return await _as_owner(queue, False, author)


async def _as_owner(queue: HasOwnersPause[Any], paused: bool, author: Author) -> ChangeOutcome:
    """Pause or resume another program's queue, as that program does."""
    await holdable(queue, "pause" if paused else "resume")  # before the audit log has it
    if ((await queue.counts.op()).paused is not None) is paused:
        return ChangeOutcome(None, 0)

    async def step(op: str, number: int) -> bool:
        word = await queue.set_owners_pause.op(op, number, paused)
        if word == "changed":
            raise NotFound(f"queue {queue.name} was paused or resumed by somebody else just now")
        return bool(word == "ok")

    await queue.check_owners_rights.op()  # before the audit log has it
    steps = SettingsSteps(
        queue,
        "pause" if paused else "resume",
        f"as {queue.owner} does",
        [step],
        lambda op: queue.pause_inverse(op, paused),
    )
    return await take_all(ChangeRun(steps, author))


async def drain(queue: Queue[Any], author: Author) -> ChangeOutcome:
    """Take no new requests or entries; work off what is there."""
    return await set_flags(queue, "drain", author, {"closed": author.reason})


@dataclass(frozen=True, slots=True)
class QueueSetting:
    """A queue's setting: its value, and whether that is the default."""

    name: str
    value: str
    default: bool


async def queue_settings(queue: Queue[Any]) -> list[QueueSetting]:
    """Every setting of a queue with its value; none of another program's queue."""
    if not queue.has_settings:
        return []
    have = await queue.settings.op()
    return [
        QueueSetting(name, have.get(name, str(getattr(DEFAULTS, name))), name not in have)
        for name in Settings.__dataclass_fields__
        if name != "rate" or queue.has_rate
    ]


def checked_setting(name: str, text: str) -> str:
    """A setting's value as it is stored: a number, a time span in ms, a rate or a history level.

    An empty text means the default.
    """
    if name not in Settings.__dataclass_fields__:
        raise BadInput(f"no setting {name!r}; there are {', '.join(Settings.__dataclass_fields__)}")
    if name == "history":
        if text not in ("", "off", "ops", "all"):
            raise BadInput(f"history is off, ops or all, not {text!r}")
        return text
    if name == "rate":
        return str(RateLimit.read(text) or "")
    least = 1 if name.startswith(("max_failures", "max_lost", "history_max")) else 0
    if name.endswith("_ms") and not text.isdigit() and text:
        text = str(duration_ms(text))
    whole = text.isascii() and text.isdigit() and len(text) < 17
    if text and not (whole and least <= int(text) < 2**53):
        raise BadInput(f"{name} is a number from {least}, not {text!r}")
    return text and str(int(text))
