"""A queue's history: its latest events, and those of one entry or request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import STATES, Event
from redisq_ops.core.model.states import EDIT
from redisq_ops.core.redis.operation import together

from ..change.wording import PAST

PAGE = 1000
"""history events read by one call"""
_OF_MANY = (*STATES, "undo", "set", "prune", "move")
"""words that the event of a change has in place of an entry's id, if it changed many entries"""


async def latest_events(queue: Queue[Any], most: int) -> list[Event]:
    """Up to ``most`` events, the newest first, read by pages."""
    found: list[Event] = []
    while len(found) < most:
        size = min(PAGE, most - len(found))
        page = await queue.history.op(size, found[-1].id if found else "+")
        found += page
        if len(page) < size:
            break
    return found


@dataclass(frozen=True, slots=True)
class EntryHistory:
    """The events about one id among the latest ``searched`` of ``total`` events, newest first."""

    events: tuple[Event, ...] = ()
    searched: int = 0
    total: int = 0
    undone: Mapping[int, str] = field(default_factory=dict)
    """time of an undo's last step that was seen -> the operation it undid"""

    def latest(self, name: str) -> Event | None:
        """The latest event of a kind, such as ``done``."""
        return next((event for event in self.events if name in event.what), None)


async def history_of(queue: Queue[Any], id: str, window: int = PAGE) -> EntryHistory:
    """Search the latest ``window`` events for an entry, or for a request and all its entries."""
    if not id:
        return EntryHistory()
    named = rf"{re.escape(id)}(?:/\d+)?(?:\||$)"
    subject = re.compile(named)
    # An operator's change of one entry has its id behind the verb; a change of many has a state and
    # a number there, which may look like an id.
    changed = re.compile(rf"[^|]*\|(?!(?:{'|'.join(_OF_MANY)})\|)[^|]*\|{named}")
    found: list[Event] = []
    undone: dict[int, str] = {}
    events, total = await together(queue.history.op(min(window, PAGE)), queue.history_length.op())
    searched = 0
    while events:
        for event in events:
            for words in (item.split("|") for item in event.what.get("op", ())):
                if words[1:2] == ["undo"]:
                    undone[event.at_ms] = words[2]
            matching = {
                name: tuple(filter((changed if name == "op" else subject).match, items))
                for name, items in event.what.items()
            }
            if what := {name: items for name, items in matching.items() if items}:
                found.append(Event(event.id, event.at_ms, event.by, what))
        searched += len(events)
        if searched >= window or len(events) < PAGE:
            break
        events = await queue.history.op(min(PAGE, window - searched), events[-1].id)
    return EntryHistory(tuple(found), searched, max(total, searched), undone)


def change_words(item: str) -> str:
    """An operator's change in words, of an item of an ``op`` event: ``OP|VERB or STATE|…``."""
    op, *parts = item.split("|")
    return f"{_change(op, [part for part in parts if part not in ('', '-')])} (op {op})"


def _change(op: str, parts: list[str]) -> str:
    match parts:
        case ["undo", undone, number]:
            return f"undone: {undone}, {_entries(number)}"
        case ["set", name]:
            return f"set: {name} to its default"
        case ["set", name, value]:
            return f"set: {name}={unquote(value)}"
        case ["prune", *_]:
            return "removed a killed worker"
        case [source, target, number] if source in STATES:
            verb = op.rpartition("-")[0]
            done = "edited" if target == EDIT else PAST.get(verb, "changed")
            to = "the state before the purge" if target == "restore" else target
            way = source if target in (EDIT, source) else f"{source} → {to}"
            return f"{done}: {way}, {_entries(number)}"
    return " ".join(parts)


def _entries(number: str) -> str:
    return f"{number} {'entry' if number == '1' else 'entries'}"
