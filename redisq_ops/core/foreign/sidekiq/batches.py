"""Batches: callbacks that are enqueued when all jobs of a batch have run, or have succeeded.

Two programs keep them. The keys of the gem sidekiq-batch are those of ``lib/sidekiq/batch.rb`` of
0.1.9 and 0.2.0. The source of Sidekiq Pro is closed: its keys are those that its users showed
(sidekiq/sidekiq, issues 2471, 2781, 2889 and 4184), and what is in no such place stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...engine.relation import NO_LINKS, Known, Linked, Links
from ...model.cut_element import is_cut
from ...model.entry import Entry, State
from ...model.quoting import bytes_of, legal
from ...redis.operation import Call, attempt, attempts, together
from ..json_text import decoded
from ..long_records import LONG_RECORD
from ..places import LocatedEntry
from ..ruby_jobs import job
from ..schedules import records

if TYPE_CHECKING:
    from .queue import SidekiqQueue

MOST: Final = 100
"""jobs of a batch that are named, those that failed first"""
SEARCHED: Final = 10_000
"""members of a set among which the jobs of a batch are looked for, as many as Sidekiq keeps dead"""
LISTED: Final = 1_000
"""waiting jobs, of all queues, among which they are looked for"""
PARENTS: Final = 5
_TITLE = 80
"""characters of a description that are shown"""
_SHOWN = 3
"""callbacks of an event that are named"""
_FIELDS = (
    *("description", "total", "pending", "children", "kids", "parent_bid", "parent"),
    *("callbacks", "callback_batch", "complete", "success"),
)
_GEM, _PRO = b"BID-", b"b-"
"""what the names of the keys of a batch begin with"""


@dataclass(frozen=True, slots=True)
class _Batch:
    gem: bool
    """False: it is Sidekiq Pro's"""
    key: bytes
    fields: Mapping[str, bytes | None]
    problem: str = ""
    """why its record can't be read"""

    def text(self, *names: str) -> str:
        """The first of these fields that is there."""
        found = (self.fields.get(name) for name in names)
        return next((one.decode("utf-8", "backslashreplace") for one in found if one), "")

    def number(self, *names: str) -> int | None:
        word = self.text(*names)
        return int(word) if word.removeprefix("-").isdecimal() and len(word) < 16 else None


@dataclass(frozen=True, slots=True)
class _Jobs:
    """The jobs of a batch that have not succeeded."""

    named: Sequence[bytes] = ()
    """some of them, those that failed first"""
    number: int | None = None
    failed: int | None = None


def bid_of(entry: Entry) -> bytes:
    """The batch of a job; empty: it is in none."""
    record = entry.record
    if not isinstance(record, dict):
        record = job.fields(entry.payload or b"")
    bid = (record or {}).get("bid")
    return bid.encode() if job.legal(bid) else b""


async def links(queue: SidekiqQueue[Any], entry: Entry) -> Links:
    """The batch that waits for a job, with its other jobs, and the batches that wait for it."""
    if not (bid := bid_of(entry)):
        return NO_LINKS
    return Links(awaited_by=(await _linked(queue, "batch", bid, (), entry.id),), awaiting=1)


async def _linked(
    queue: SidekiqQueue[Any], role: str, bid: bytes, below: Sequence[bytes], job_id: str = ""
) -> Linked:
    """A batch; ``job_id``: the job that was asked for, empty for a batch of batches."""
    whole = queue.beside_it("")
    batch = await _read(bytes_of(queue.at), bid)
    if batch is None:
        gone = Known("gone")
        return Linked(role, whole, legal(bid), there=False, group=True, known=gone)
    if batch.problem:
        problem = Known(None, "", Links(note=f"its record can't be read: {batch.problem}"))
        return Linked(role, whole, legal(bid), group=True, known=problem)
    jobs, (succeeded,), callbacks = await together(
        _jobs(batch), attempts([_size("SCARD", batch.key + b"-success")]), _callbacks(batch)
    )
    parent, more = _parent(batch, callbacks), list[Linked]()
    if parent and parent not in (bid, *below) and len(below) < PARENTS:
        more = [await _linked(queue, "parent batch", parent, (*below, bid))]
    waits = await _members(queue, bid, jobs, job_id) if job_id else []
    pending = batch.number("pending")
    known = Links(
        tuple(waits),
        tuple(more),
        batch.number("total") or jobs.number or 0,
        len(more),
        {} if pending is None or pending < 0 else {"open": pending},
        _note(batch, jobs, succeeded, callbacks),
    )
    return Linked(role, whole, legal(bid), group=True, known=Known(None, "", known))


async def _read(at: bytes, bid: bytes) -> _Batch | None:
    keys = [at + begin + bid for begin in (_GEM, _PRO)]
    found = await records(keys, _FIELDS)
    for gem, key, fields in zip((True, False), keys, found, strict=True):
        if isinstance(fields, Exception):
            return _Batch(gem, key, {}, str(fields))
        if any(fields.values()):
            return _Batch(gem, key, fields)
    return None


def _size(verb: str, key: bytes) -> Call[int]:
    return Call((verb, key), int, key=key)


def _some(key: bytes) -> Call[list[bytes]]:
    """Some members of a set."""
    command = ("SSCAN", key, 0, "COUNT", MOST)
    return Call(command, lambda reply: sorted(reply[1])[:MOST], key=key, cut=True)


async def _jobs(batch: _Batch) -> _Jobs:
    """Up to Sidekiq Pro 7 what failed is in a hash; its values are errors, of any length."""
    jids, failed, infos = (batch.key + part for part in (b"-jids", b"-failed", b"-failinfo"))
    ask = Call(("HRANDFIELD", infos, MOST), list[bytes], key=infos, cut=True)
    sizes, names = await together(
        attempts([_size("SCARD", jids), _size("SCARD", failed), _size("HLEN", infos)]),
        attempts([_some(failed), ask, _some(jids)]),
    )
    number, *failures = (None if isinstance(n, Exception) else n for n in sizes)
    most = max(filter(None, failures), default=0)
    listed = [name for some in names if not isinstance(some, Exception) for name in some]
    # sidekiq-batch 0.1.9 writes one JSON array of all ids, and never removes one, with redis-rb 4.8
    ids = [name for name in dict.fromkeys(listed) if not is_cut(name) and not name.startswith(b"[")]
    told = number if len(ids) >= len(dict.fromkeys(listed)) else None
    known = most or (batch.gem and failures[0] is not None)
    return _Jobs(ids[:MOST], told, most if known else None)


async def _callbacks(batch: _Batch) -> dict[str, list[Any]]:
    """Event -> its callbacks as (target, options). The gem has them in sets of their own."""
    if (text := batch.fields.get("callbacks")) is not None:
        found = decoded(text)
        events = found.items() if isinstance(found, dict) else ()
        return {
            event: [pair for one in some if isinstance(one, dict) for pair in one.items()]
            for event, some in events
            if isinstance(some, list)
        }
    events_ = "success", "complete"
    sets = await attempts([_some(batch.key + f"-callbacks-{event}".encode()) for event in events_])
    found = {}
    for event, some in zip(events_, sets, strict=True):
        if isinstance(some, Exception):
            found[event] = [("a set that can't be read", None)]
            continue
        read = (decoded(one) for one in some if not is_cut(one))
        known = [one for one in read if isinstance(one, dict)]
        found[event] = [(one.get("callback"), one.get("opts")) for one in known]
    return found


def _parent(batch: _Batch, callbacks: Mapping[str, Sequence[Any]]) -> bytes:
    """The batch that waits for this one. The gem makes a batch of the callbacks of another one."""
    if batch.fields.get("callback_batch"):
        options = [options for _, options in callbacks.get("complete", ())]
        bids = [one.get("bid") for one in options if isinstance(one, dict)]
        return next((bid.encode() for bid in bids if job.legal(bid)), b"")
    return batch.fields.get("parent_bid") or batch.fields.get("parent") or b""


def _note(
    batch: _Batch,
    jobs: _Jobs,
    succeeded: int | Exception,
    callbacks: Mapping[str, Sequence[Any]],
) -> str:
    pending, total = batch.number("pending"), batch.number("total")
    of = "its jobs" if total is None else f"{total:,} jobs"
    if pending is None:
        parts = [f"still to succeed: unknown of {of}"]
    elif pending < 0 or pending > (pending if total is None else total):
        parts = [f"still to succeed: {pending:,} of {of}, which can't be right"]
    else:
        parts = [f"still to succeed: {pending:,} of {of}"]
    if jobs.failed is not None:
        parts.append(f"{jobs.failed:,} failed")
    if len(jobs.named) >= MOST:
        parts.append(f"{len(jobs.named):,} are named")
    if children := batch.number("children", "kids"):
        ended = "" if isinstance(succeeded, Exception) else f", of which {succeeded:,} succeeded"
        parts.append(f"{children:,} {'batch' if children == 1 else 'batches'} in it{ended}")
    for event, some in sorted(callbacks.items()):
        targets = [str(target) for target, _ in some]
        more = len(targets) - _SHOWN
        named = ", ".join(targets[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
        called = " (was enqueued)" if batch.gem and batch.text(event) == "true" else ""
        parts += [f"on {event} {named}{called}"] if named else []
    what = repr(batch.text("description")[:_TITLE]) if batch.text("description") else ""
    what = what or ("callbacks" if batch.text("callback_batch") else "")
    return (f"{what}: " if what else "") + "; ".join(parts)


async def _members(queue: SidekiqQueue[Any], bid: bytes, jobs: _Jobs, job_id: str) -> list[Linked]:
    """The jobs of a batch that have not succeeded, as far as they are found; dead ones first."""
    whole = queue.beside_it("")
    found: dict[str, LocatedEntry] = {}
    for state in ("dead", "delayed"):
        for place in await whole._weighed(await whole._places(state)):
            if place.mean > LONG_RECORD or await place.count() > SEARCHED:
                continue
            for seen in await place.matching(f'"{bid.decode()}"', MOST):
                if bid_of(seen.entry) == bid:
                    found.setdefault(seen.entry.id, seen)
    ids = [legal(name) for name in jobs.named]
    states: tuple[State, State] = "pending", "waiting"
    for state in states:
        missing = [id for id in ids if id not in found]
        if missing and (state == "pending" or await _short(whole)):
            rows = await attempt(whole._located(missing, state, False, True, False))
            if not isinstance(rows, Exception):
                found |= {id: rows[id][0] for id in missing if rows[id]}
    there = [_member(queue, id, found.get(id)) for id in dict.fromkeys([*found, *ids])]
    return [one for one in there if one.id != job_id][:MOST]


def _member(queue: SidekiqQueue[Any], id: str, seen: LocatedEntry | None) -> Linked:
    name, known = "", Known(None)
    if seen is not None:
        entry = seen.entry
        known = Known(entry.state, entry.called or "")
        record = (
            entry.record if isinstance(entry.record, dict) else job.fields(entry.payload or b"")
        )
        told = (record or {}).get("queue")
        name = told if isinstance(told, str) else ""
    return Linked("job", queue.beside_it(name), id, holds=True, known=known)


async def _short(whole: SidekiqQueue[Any]) -> bool:
    """Whether the lists of waiting jobs are short enough to be searched."""
    sizes = await together(place.count() for place in await whole._places("waiting"))
    return sum(sizes) <= LISTED
