"""Finds the entries that a consumer holds, by pages, for a change of them. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.engine.optional_features import HasConsumerGroups, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.consumer_load import NOBODY, PendingDelivery
from redisq_ops.core.model.errors import BadInput, NotFound, Refused
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.redis.operation import together

from ..filter.fields import quoted
from ..filter.filter import Filter
from ..filter.parser import parse
from ..hint import hint
from ..inspect.consumers import consumers_of, independent_groups
from ..redaction import NO_REDACTION, Redaction
from ..terminal import kind_of

PAGE_OF_GROUPS = 100
PAGE = 500


@dataclass(slots=True)
class HeldEntries:
    """The ids that a consumer held when the change was planned, and the groups it is in."""

    queue: Queue[Any]
    consumer: str
    group: str
    """'': the whole queue"""
    min_idle_ms: int
    high_water_ms: int
    ids: list[str] = field(default_factory=list)
    only: Collection[str] = ()
    """ids that were named; empty: all that it holds"""
    rows: dict[str, PendingDelivery] = field(default_factory=dict)
    """by id, as they were seen"""
    too_young: int = 0
    """entries left out because they were held for less than ``min_idle_ms``"""
    groups: list[str] = field(default_factory=list)
    """the groups from which it can be removed"""
    idle_ms: int | None = None
    """since its last activity"""

    @property
    def what(self) -> str:
        return f"consumer {self.consumer}" + (f" of group {self.group}" if self.group else "")


async def held_entries(
    queue: Queue[Any],
    consumer: str,
    group: str | None = None,
    *,
    min_idle_ms: int = 0,
    only: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> HeldEntries:
    """Find what a consumer holds, by pages; changes nothing.

    ``only``: of these ids. ``progress`` is called with (found, examined) after each page; an
    exception from it ends the search. `NotFound` if there is no consumer of that name, or it
    doesn't hold an id that was named.
    """
    if not consumer:  # which would be all of a group's consumers
        raise BadInput(f"no name of a consumer is given; `{NOBODY}` is the one without a name")
    checked = consumer if independent_groups(queue) else checked_consumer(consumer)
    in_group = await _resolve_group(queue, consumer, group)
    held = HeldEntries(queue, checked, in_group, min_idle_ms, await queue.now.op(), only=only)
    await add_ids(held, progress)
    held.groups = await _groups_with(queue, consumer, in_group)
    members = await consumers_of(queue, in_group)
    held.idle_ms = next((member.idle_ms for member in members if member.name == consumer), None)
    if not (held.ids or held.too_young or held.groups):
        raise NotFound(
            f"no {held.what} in queue {queue.name}: it holds no entry and no group lists it"
        )
    if missing := [id for id in only if id not in held.ids]:
        raise NotFound(f"{held.what} of queue {queue.name} doesn't hold {', '.join(missing)}")
    return held


async def add_ids(held: HeldEntries, progress: Callable[[int, int], None] | None = None) -> None:
    """Add the ids that the consumer holds now; ``progress`` as of `held_entries`."""
    after, examined = None, 0
    while True:
        page = await held.queue.pending_deliveries.op(held.group, PAGE, held.consumer, after)
        meant = [row for row in page.rows if not held.only or row.id in held.only]
        old = {
            row.id: row
            for row in meant
            if (row.age_ms or 0) >= held.min_idle_ms or held.consumer == NOBODY
        }
        held.rows |= old
        held.ids += old
        held.too_young += len(meant) - len(old)
        examined += PAGE
        if progress is not None:
            progress(len(held.ids), min(examined, page.total))
        after = page.after
        if after is None:
            break


def held_filter(held: HeldEntries, redaction: Redaction = NO_REDACTION) -> Filter:
    """The filter for a consumer's entries, for queues where a claim is an ordinary bulk change."""
    return Filter(
        requests=(held.group,) if held.group else (),
        older_than_ms=held.min_idle_ms,
        where=parse(f"consumer={quoted(held.consumer)}"),
        redaction=redaction,
    )


def checked_receiver(held: HeldEntries, to: str) -> str:
    """``to``, if it can receive the entries; otherwise `BadInput`."""
    checked_consumer(to)
    if to == held.consumer:
        raise BadInput(f"consumer {to} holds these entries already: name another one with --to")
    return to


async def check_settleable(queue: Queue[Any], *, acknowledge: bool) -> None:
    """`Refused` if what a consumer holds cannot be acknowledged, or go back to waiting, here."""
    if isinstance(queue, HasConsumerGroups):
        if not acknowledge and (why := await queue.give_back_refused()) is not None:
            claim = hint("workers", "claim", queue.name, "CONSUMER", to="NAME")
            raise Refused(f"queue {queue.name}: {why}; {claim} gives it to another consumer")
    elif acknowledge:
        raise Refused(
            f"queue {queue.name} is {kind_of(queue.kind)}: only its workers settle entries"
        )


async def _resolve_group(queue: Queue[Any], consumer: str, group: str | None) -> str:
    """The named group, or the only group with such a consumer; '' if groups are not independent."""
    if group is not None or not independent_groups(queue):
        if group is not None and not await queue.group_loads.op(group):
            raise NotFound(f"queue {queue.name} has no consumer group {group}")
        return group or ""
    loads = await queue.group_loads.op()
    members = await together(consumers_of(queue, load.group) for load in loads)
    found: list[str] = [
        load.group
        for load, group_members in zip(loads, members, strict=True)
        if any(member.name == consumer for member in group_members)
        or (consumer == NOBODY and load.pending)
    ]
    if not found:
        raise NotFound(f"no group of queue {queue.name} has a consumer {consumer}")
    if len(found) > 1:
        raise BadInput(
            f"consumer {consumer} is in several groups: choose one with --group: {', '.join(found)}"
        )
    return found[0]


async def _groups_with(queue: Queue[Any], consumer: str, group: str) -> list[str]:
    """The groups that list the consumer."""
    if group:
        members = await consumers_of(queue, group)
        return [group] if any(member.name == consumer for member in members) else []
    found: list[str] = []
    if isinstance(queue, HasRequests):
        for settled in (False, True):
            start = 0
            while page := await queue.requests.op(start, PAGE_OF_GROUPS, settled):
                listed = await together(queue.consumers.op(request.id) for request in page)
                found += [
                    request.id
                    for request, members in zip(page, listed, strict=True)
                    if any(member.name == consumer for member in members)
                ]
                start += len(page)
    return found


def verb_of(to: str | None, *, remove: bool, acknowledge: bool) -> str:
    """The verb of a change of what a consumer holds."""
    if remove:
        return "remove"
    return "claim" if to is not None else "acknowledge" if acknowledge else "requeue"
