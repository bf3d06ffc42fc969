"""Changes that are not moves of entries: requests and whole queues held, resized, ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from redisq_ops.core.errors import BadInput, NotFound, Refused
from redisq_ops.core.io import together
from redisq_ops.core.queue import Queue
from redisq_ops.core.registry import find, forget
from redisq_ops.core.request import RequestQueue
from redisq_ops.core.request.queue import Control
from redisq_ops.core.settings import DEFAULTS, Settings

from . import journal
from .bulk import Outcome
from .journal import Author

_INVERSE = {"cancel": "reopen", "pause": "resume", "resume": "pause"}


def requests_of(queue: Queue[Any]) -> RequestQueue[Any]:
    """The queue, if it has requests."""
    if not isinstance(queue, RequestQueue):
        raise BadInput(f"queue {queue.name} is a {queue.kind} queue: it has no requests")
    return queue


async def change_request(
    queue: Queue[Any], id: str, verb: Control, author: Author, value: str = ""
) -> Outcome:
    """Cancel, pause, resume, or change limit or priority of a request; undo takes it back.

    Cancelling stops new deliveries at once, then fences off the running ones, 100 at a time.
    """
    requests = requests_of(queue)
    outcome = Outcome(journal.new_id(verb), 1)
    now = await queue.now.op()
    what = f"request {id}" + (f" to {value}" if value else "")
    if await requests.request.op(id) is None:
        raise NotFound(f"no request {id} in queue {queue.name}")
    await journal.begin(queue, outcome.op, verb, author, what, now_ms=now, matched=1)
    word, before = await requests.control.op(outcome.op, 1, verb, id, value)
    if word == "same":
        outcome.skipped["same"] = 1
    else:
        outcome.done = 1
        inverse = f"{_INVERSE.get(verb, verb)} {id}"
        if verb in ("limit", "priority", "cancel"):
            inverse += f" {before}"
        await journal.note(queue, outcome.op, inverse=inverse)
    if verb == "cancel":
        await _fence_off(requests, id, outcome.op, now)
    await journal.note(queue, outcome.op, done=outcome.done, ended=1)
    return outcome


async def _fence_off(queue: RequestQueue[Any], id: str, op: str, now: int) -> None:
    """Void the receipts of a cancelled request's running and delayed sub-requests."""
    seq = 1
    while True:
        rows = await queue.unsettled.op(id, 100)
        if not rows:
            return
        for state in ("pending", "delayed"):
            ids = [entry_id for entry_id, where in rows if where == state]
            if ids:
                seq += 1
                await queue.move.op(
                    f"{op}-fence", seq, ids, source=state, target="waiting",
                    high_water_ms=now + 3_600_000,
                )  # fmt: skip


async def set_flags(
    queue: Queue[Any], verb: str, author: Author, changes: dict[str, str]
) -> Outcome:
    """Set settings or flags (pause, drain and retention are these); undo puts back the first."""
    outcome = Outcome(journal.new_id(verb), len(changes))
    now = await queue.now.op()
    what = ", ".join(f"{name} = {value or 'default'}" for name, value in changes.items())
    await journal.begin(queue, outcome.op, verb, author, what, now_ms=now, matched=len(changes))
    for seq, (name, value) in enumerate(changes.items(), 1):
        before = await queue.configure.op(outcome.op, seq, {name: value})
        if before[name] == value:
            outcome.skipped["same"] = outcome.skipped.get("same", 0) + 1
        else:
            outcome.done += 1
            inverse = f"set {name} {quote(before[name], safe='')}"
            await journal.note(queue, outcome.op, inverse=inverse)
    await journal.note(queue, outcome.op, done=outcome.done, ended=1)
    return outcome


async def pause(queue: Queue[Any], author: Author) -> Outcome:
    """Hand out nothing more; running deliveries go on and can settle."""
    return await set_flags(queue, "pause", author, {"paused": _said(author)})


async def resume(queue: Queue[Any], author: Author) -> Outcome:
    """Hand out again, and take new entries again."""
    outcome = await set_flags(queue, "resume", author, {"paused": "", "closed": ""})
    return outcome


async def drain(queue: Queue[Any], author: Author) -> Outcome:
    """Take no new requests or entries; work off what is there."""
    return await set_flags(queue, "drain", author, {"closed": _said(author)})


def _said(author: Author) -> str:
    return author.why or f"by {author.who}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A queue's setting: its value, and whether that is the default."""

    name: str
    value: str
    default: bool


async def retention(queue: Queue[Any]) -> list[Setting]:
    """Every setting of a queue with its value."""
    have = await queue.settings.op()
    return [
        Setting(name, have.get(name, str(getattr(DEFAULTS, name))), name not in have)
        for name in Settings.__dataclass_fields__
    ]


async def destroy(queue: Queue[Any], author: Author, *, hard: bool = False) -> int:
    """Remove a queue and its registry entry; how many keys went. There is no undo.

    Without ``hard`` only an empty queue: nothing waiting, pending, delayed, dead or in the trash.
    """
    entry = await find(queue.name, queue.prefix)
    if entry is None:
        raise NotFound(f"no queue {queue.name!r} here")
    counts = await queue.counts.op()
    left = {
        "waiting": counts.waiting, "pending": counts.pending, "delayed": counts.delayed,
        "dead": counts.dead, "trash": counts.trash,
    }  # fmt: skip
    if not hard and any(left.values()):
        said = ", ".join(f"{n:,} {state}" for state, n in left.items() if n)
        raise Refused(f"queue {queue.name} is not empty ({said}); drain it, or destroy --hard")
    await queue.configure.op(journal.new_id("destroy"), 1, {"closed": _said(author), "paused": "x"})
    gone = 0
    while step := await queue.dismantle.op(100):
        gone += step
    await together([forget(entry, queue.prefix)])
    return gone
