"""Makes the commands that `explain` suggests changes of the dashboard, with dialog and undo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.settings import MAX_LIMIT, PRIORITIES
from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.control_preview import client_preview, request_preview
from redisq_ops.ops.filter.fields import quoted
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.hint import words_of
from redisq_ops.ops.required_features import with_clients
from redisq_ops.tui.change import asked_values, run_change
from redisq_ops.tui.views.base import ChangeTarget

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import State
    from redisq_ops.core.model.states import Verb
    from redisq_ops.core.queues.request.queue import Control
    from redisq_ops.tui.change.changes import Changes

SuggestedChange = Callable[["Changes"], Awaitable[bool]]


def suggested_change(command: str) -> SuggestedChange | None:
    """The change that a suggested command makes; None if the dashboard has no dialog for it."""
    words, options = words_of(command)
    match words:
        case ["queue", "resume", name]:
            return lambda changes: run_change.hold_queues(changes, (name,), resumes=True)
        case ["request", "resume", address]:
            return lambda changes: _resume_request(changes, address)
        case ["request", "limit" | "priority" as verb, address, number]:
            return lambda changes: _set_request(changes, address, cast("Control", verb), number)
        case ["client", verb, name, client, *value] if verb in control.CLIENT_RULES:
            given = control.typed_rule(verb, value[0]) if value else None
            return lambda changes: _set_client(changes, name, client, verb, given)
        case ["workers", "claim", name, consumer]:
            group = options.get("group")
            return lambda changes: run_change.take_over(changes, "claim", name, group, consumer)
        case ["undo", op]:
            return lambda changes: run_change.undo_named(changes, op)
        case ["requeue" | "replay" as verb, address]:
            state = options.get("state")
            return lambda changes: _move(changes, cast("Verb", verb), address, state)
        case ["requeue"] if {"queue", "state", "where"} <= options.keys():
            state = cast("State", options["state"])
            target = ChangeTarget(state, where=parse(options["where"]))
            return lambda changes: run_change.move(changes, "requeue", options["queue"], target)
    return None


async def _at(changes: Changes, address: str) -> tuple[Queue[object], str]:
    """The queue and the id of an address."""
    found = await arun(changes.deployment.client, changes.deployment.resolve(address))
    return found.queue, found.id or ""


async def _move(changes: Changes, verb: Verb, address: str, state: str | None) -> bool:
    """Move an entry, or a request's entries in that state."""
    queue, id = await _at(changes, address)
    usual = "dead" if verb == "replay" else "pending"
    if isinstance(queue, HasRequests) and "/" not in id:
        where = parse(f"request={quoted(id)}")
        target = ChangeTarget(cast("State", state or usual), where=where)
    else:
        entry = await arun(changes.deployment.client, queue.get.op(id))
        if entry is None:
            changes.tell(f"{id} is not there any more.", False)
            return False
        target = ChangeTarget(entry.state, (id,))
    return await run_change.move(changes, verb, queue.name, target)


async def _resume_request(changes: Changes, address: str) -> bool:
    queue, id = await _at(changes, address)
    return await run_change.hold_requests(changes, queue.name, (id,), resumes=True)


async def ask_request(changes: Changes, name: str, id: str, verb: Control) -> bool:
    """Cancel a request, or set its limit or priority to a number that the user gives."""
    client = changes.deployment.client
    if verb == "cancel":
        return await _set_request(changes, f"{name}/{id}", verb, "")
    queue = await arun(client, changes.deployment.queue(name))
    request = await arun(client, control.changeable(queue, id, "pause"))  # one that is not settled
    title = f"{verb.capitalize()} of request {name}/{id}"
    numbers = range(1, MAX_LIMIT + 1) if verb == "limit" else range(PRIORITIES)
    given = await asked_values.number(changes, title, numbers, getattr(request, verb))
    return given is not None and await _set_request(changes, f"{name}/{id}", verb, str(given))


async def ask_client(changes: Changes, name: str, client: str, verb: str) -> bool:
    """Block or unblock a client, or set its cap or weight to a number that the user gives."""
    redis = changes.deployment.client
    fair = with_clients(await arun(redis, changes.deployment.queue(name)))
    seen = await arun(redis, fair.get_client.op(client))
    if verb == "block":
        blocked = seen is not None and seen.blocked
        return await _set_client(changes, name, client, "unblock" if blocked else verb, None)
    title = f"{verb.capitalize()} of client {client} of queue {name}"
    now = int(getattr(seen, verb, None) or 0)
    given = await asked_values.number(changes, title, fair.client_rules.get(verb, range(0)), now)
    return given is not None and await _set_client(changes, name, client, verb, given)


async def _set_request(changes: Changes, address: str, verb: Control, value: str) -> bool:
    queue, id = await _at(changes, address)
    client = changes.deployment.client
    request = await arun(client, control.changeable(queue, id, verb, value))
    if not await changes.ask(run_change.asked(request_preview(queue, [request], verb, value))):
        return False
    change = control.change_request(queue, id, verb, Author.here(changes.why), value)
    done = f"{verb} of request {id}" + (f": {value}" if value else "")
    return run_change.tell_one(changes, await arun(client, change), done)


async def _set_client(
    changes: Changes, name: str, client: str, verb: str, given: int | None
) -> bool:
    redis = changes.deployment.client
    queue = await arun(redis, changes.deployment.queue(name))
    rule, value = control.client_rule(verb, given)
    before = await arun(redis, control.client_changeable(queue, client, rule, value))
    to = "" if given is None else f" to {control.rule_words(rule, given)}"
    if not await changes.ask(run_change.asked(client_preview(queue, before, verb, value))):
        return False
    author = Author.here(changes.why)
    change = control.change_client(queue, client, verb, author, value)
    return run_change.tell_one(changes, await arun(redis, change), f"{verb} of client {client}{to}")
