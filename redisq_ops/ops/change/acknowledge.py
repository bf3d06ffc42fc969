"""Acknowledge the dead letters of a queue: known, dealt with by somebody, no trouble until then."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from redisq_ops.core.engine.acknowledgement import (
    ACKNOWLEDGE,
    Acknowledgement,
    acknowledgement,
    replace_acknowledgement,
    to_acknowledge,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.errors import NotFound, Refused

from ..terminal import count, date, kind_of
from .audit_log import Author
from .control import SettingsSteps
from .outcome import ChangeOutcome
from .preview import Preview
from .runner import ChangeRun, take_all

MEANWHILE = "somebody else acknowledged them meanwhile: look again"


def dead_letters(queue: Queue[Any], counts: Counts) -> int:
    """How many there are; `Refused` where the layout doesn't show it."""
    dead = counts.of("dead")
    if dead is None:
        why = "nobody counts its dead entries: no check reports them, and none can be acknowledged"
        raise Refused(f"queue {queue.name} is {kind_of(queue.kind)}: {why}")
    return dead


def acknowledge_preview(
    queue: Queue[Any], counts: Counts, until_ms: int | None, *, end: bool = False
) -> Preview:
    """What acknowledging, or the ``end`` of it, will do."""
    dead = dead_letters(queue, counts)
    if end:
        title = f"end the acknowledgement of the dead letters of {queue.name}"
        lines = [f"{count(dead)} dead: they count as trouble again"]
    else:
        title = f"acknowledge the dead letters of {queue.name}"
        until = "for good" if until_ms is None else f"until {date(until_ms)}"
        lines = [f"{count(dead)} dead: no trouble {until}; entries that die later are trouble"]
    facts = {"verb": ACKNOWLEDGE, "queue": queue.name, "matched": dead, "until_ms": until_ms}
    facts |= {"entries": 0}  # none is touched
    return Preview(title, tuple(lines), facts=facts)


async def acknowledge(
    queue: Queue[Any],
    author: Author,
    counts: Counts,
    at_ms: int,
    until_ms: int | None = None,
    *,
    end: bool = False,
) -> ChangeOutcome:
    """Acknowledge the entries that were dead when somebody looked, or ``end`` an acknowledgement;
    undo takes it back.

    ``counts``, ``at_ms``: what was seen, and when by the server's clock (ms): what died since is
    not covered. Writes nothing of the queue's own. With no dead entry, or nothing to end, it writes
    nothing at all. ``until_ms``: from when they are trouble again; None: never.
    """
    await to_acknowledge(queue.prefix)
    before = await acknowledgement(queue.name, queue.prefix)
    dead = dead_letters(queue, counts)
    if not (before if end else dead):
        return ChangeOutcome(None, 0)
    theirs = Acknowledgement.decoded(before.encode())
    if not end and theirs is not None and theirs.at_ms > at_ms:
        raise NotFound(MEANWHILE)
    known = Acknowledgement(at_ms, dead, until_ms, author.who, author.why)
    after = "" if end else known.encoded()

    async def replace(op: str, step: int) -> bool:
        if not await replace_acknowledgement(queue.name, before, after, queue.prefix):
            raise NotFound(MEANWHILE)
        return True

    what = "dead letters, end" if end else f"{count(dead)} dead letters"
    inverse = f"{ACKNOWLEDGE} {quote(before, safe='')} {quote(after, safe='')}"
    steps = SettingsSteps(queue, ACKNOWLEDGE, what, [replace], lambda op: inverse)
    return await take_all(ChangeRun(steps, author))
