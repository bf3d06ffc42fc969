"""From a command's options to what it is about, and how it is looked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.operation import together
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.filter.scan import Filter, Scan, match_pattern
from redisq_ops.ops.filter.time import duration_ms

from .output import reading
from .session import Session


def filtered(given: Mapping[str, Any], utc: bool) -> Filter:
    """The options of `SELECTING` as a filter: all of them have to hold."""
    where, window = given.get("where"), given.get("window")
    if window == 0:
        raise BadInput("--window 0: look at one entry at least")
    return Filter(
        match=None if given["match"] is None else match_pattern(given["match"]),
        older_than_ms=None if given["older_than"] is None else duration_ms(given["older_than"]),
        max=given["max"],
        where=None if where is None else parse(where, utc=utc),
        window=window,
    )


def pages(s: Session, scan: Scan, given: Mapping[str, Any]) -> Iterator[list[Entry]]:
    """What a scan finds, page by page, at the pace that was asked for; Ctrl+C ends it."""
    # Where lines come as they are found, a line of progress would be among them.
    apart = not (s.json and sys.stdout.isatty())
    what = f"looking through {scan.queue.name}" if apart else None
    with reading(what, rate=given.get("scan_rate")) as meter:
        while not scan.over:
            yield s.run(scan.step())
            meter(scan.scanned, scan.expected)


def reads_payloads(s: Session, queue: Queue[Any], page: Sequence[Entry]) -> list[Entry]:
    """The same entries with their payloads, but for those that went elsewhere meanwhile.

    Only of what is shown: a filter that looks at payloads has fetched them, as have layouts where
    nothing is found by its id.
    """
    if all(entry.payload is not None for entry in page):
        return list(page)
    found = s.run(together(queue.get.op(entry.id) for entry in page))
    return [
        now
        for then, now in zip(page, found, strict=True)
        if now is not None and now.state == then.state
    ]
