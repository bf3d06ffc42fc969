"""Searches all entries of a state for a filter, page by page, and not only the loaded ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.filter.ast import Query
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.scan import Scan
from redisq_ops.ops.terminal import count
from redisq_ops.tui.views.base import LOADED
from redisq_ops.tui.views.entry_view import SearchResult

if TYPE_CHECKING:
    from .changes import Changes


async def search(changes: Changes, name: str, state: State, query: Query) -> SearchResult | None:
    """The entries of a state that match; None after Esc. Reads only."""
    client = changes.deployment.client
    queue = await arun(client, changes.deployment.queue(name))
    now = await arun(client, queue.now.op())
    filter = Filter(where=query, redaction=changes.redaction)
    scan, kept = Scan(queue, state, filter, now, partly=True), list[Entry]()
    while not scan.over:
        found = await arun(client, scan.step())
        kept += [replace(entry, payload=None) for entry in found[: LOADED - len(kept)]]
        so_far = f"{count(scan.scanned)} of {scan.total_text}, {count(scan.found)} found"
        changes.say(f"searching: {so_far}")
        await asyncio.sleep(0)  # lets keys and snapshots be handled
        if changes.stopping:
            changes.tell("Stopped: only the loaded entries are filtered.")
            return None
    if scan.unread:
        changes.tell(f"Not everything could be searched: {scan.unread}", False)
    return SearchResult(query, tuple(kept), scan.found, now, scan.unread)
