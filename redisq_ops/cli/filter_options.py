"""Makes a filter from a command's options, and reads the pages of its scan."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.filter.time import duration_ms

from .options import Conditions
from .output import printable, reading
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.filter.filter import Filter
    from redisq_ops.ops.filter.scan import Scan
    from redisq_ops.ops.groups.value_counts import ValueCounts


def filtered(asked: Conditions, utc: bool) -> Filter:
    """The filter of these options: an entry has to match all of them."""
    from redisq_ops.ops.filter.filter import Filter, match_pattern
    from redisq_ops.ops.filter.parser import parse

    if asked.window == 0:
        raise BadInput("--window 0: scan at least one entry")
    return Filter(
        match=None if asked.match is None else match_pattern(asked.match),
        older_than_ms=None if asked.older_than is None else duration_ms(asked.older_than),
        max=asked.max,
        where=None if asked.where is None else parse(asked.where, utc=utc),
        window=asked.window,
    )


def value_counts(by: str) -> ValueCounts:
    """Counts by the field of ``--by``."""
    from redisq_ops.ops.filter.parser import FilterError, parse_field
    from redisq_ops.ops.groups.value_counts import ValueCounts

    try:
        return ValueCounts(parse_field(by))
    except FilterError as error:
        raise BadInput(f"--by {printable(by)}: {error.problem}") from error


def pages(s: Session, scan: Scan, rate: str | None) -> Iterator[list[Entry]]:
    """The pages of a scan, at the rate of ``--scan-rate`` if there is one; Ctrl+C ends it."""
    # JSON lines are printed as entries are found: on a terminal they would mix with a progress bar.
    quiet = s.json and sys.stdout.isatty()
    what = None if quiet else f"looking through {scan.queue.name}"
    with reading(what, rate=rate) as meter:
        while not scan.over:
            yield s.run(scan.step())
            meter(scan.scanned, scan.expected)


def reads_payloads(s: Session, scan: Scan, page: Sequence[Entry]) -> list[Entry]:
    """The entries with their payloads, without entries that changed their state meanwhile. The
    scan counts payloads that are too long.

    Nothing is read if the entries have their payloads already: because the filter needs them, or
    because the layout has no reads by id.
    """
    from redisq_ops.core.redis.operation import together

    if all(entry.payload is not None for entry in page):
        return list(page)
    found = s.run(together(scan.queue.get.op(entry.id) for entry in page))
    rows = zip(page, found, strict=True)
    scan.saw(now for then, now in rows if now and not (then.problem or then.partly))
    return [
        now
        for then, now in zip(page, found, strict=True)
        if now is not None and now.state == then.state
    ]
