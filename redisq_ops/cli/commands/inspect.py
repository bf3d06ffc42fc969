"""`redisq inspect`: everything known about one queue, request or entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import typer

from redisq_ops.core.model.entry import Failure, State
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.row_fields import row_of
from redisq_ops.ops.terminal import count, entries, size, took

from ..completion import addresses
from ..options import argument, command
from ..output import age, emit, printable, quantity, table, tell, when
from ..rows import client_cells, client_row, entry_row, operation_row, tell_events
from ..session import Session
from .periodic import periodic_row, periodic_table

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.ops.deployment import Address
    from redisq_ops.ops.inspect.details import QueueDetails, RequestDetails
    from redisq_ops.ops.inspect.flow import FlowMember
    from redisq_ops.ops.inspect.history import EntryHistory
    from redisq_ops.ops.inspect.queue_fields import QueueFields
    from redisq_ops.ops.payload_content import PayloadContent

    from ..output_types.entries import EntryHistory as EntryHistoryFields
    from ..output_types.entries import FlowEntry
    from ..output_types.queues import PeriodicEntryOutput, QueueDetailsOutput
    from ..output_types.requests import PendingDifference, PendingSubRequest

commands = typer.Typer()
KINDS = frozenset(("queue", "request", "entry"))
SHOWN = 20
"""history events shown to a person"""
READ = 2_000
"""characters of a payload shown to a person"""


@command(commands, "inspect", prints="QueueDetails RequestDetails EntryDetails", repeats=True)
def inspect(
    s: Session,
    *,
    words: list[str] = argument("[queue|request|entry] ADDRESS", complete=addresses),
) -> None:
    """Show all about one queue, request or entry. An id alone is looked up in all queues.

    A queue: counts, rates, settings, requests and priorities. A request: state, counts, tokens,
    stream, group, pending entries, results, history. An entry: state, attempts, error, payload and
    history. The word before the address is needed only where a queue has the name of an id.

    Examples:
      redisq inspect mail
      redisq inspect mail/r1 --json
      redisq inspect mail/r1/17
      redisq inspect request r1
    """
    *meant, address = words
    if len(meant) > 1 or not KINDS.issuperset(meant):
        raise BadInput("write one address, or queue, request or entry before it")
    at = s.run(s.deployment.resolve(address, ids_only=not {"request", "entry"}.isdisjoint(meant)))
    show, kind = _shown(at)
    if meant and meant != [kind]:
        raise BadInput(f"{address!r} is no {meant[0]}, but a {kind}: redisq inspect {address}")
    show(s)


def _shown(at: Address) -> tuple[Callable[[Session], None], str]:
    """What shows the thing of an address, and the word for it."""
    from redisq_ops.core.engine.optional_features import HasRequests

    if (id := at.id) is None:
        return partial(show_queue, queue=at.queue), "queue"
    if isinstance(queue := at.queue, HasRequests) and "/" not in id:
        return lambda s: _show_request(s, queue, id), "request"
    return lambda s: _show_entry(s, at.queue, id), "entry"


def show_queue(s: Session, queue: Queue[Any]) -> None:
    """Show a queue, as ``inspect`` does."""
    from redisq_ops.ops.inspect.details import queue_details
    from redisq_ops.ops.inspect.overview import queue_rates, queue_row
    from redisq_ops.ops.inspect.queue_fields import QueueFields

    view = s.run(queue_details(queue))
    rates = queue_rates(queue, view.now_ms, 60)
    seen = s.run(queue_row(queue, queue.name, queue.kind, view.now_ms, rates, None, None))
    fields = QueueFields.of(replace(seen, counts=view.counts), view.now_ms)
    periodic = [periodic_row(queue.name, one) for one in view.periodic or ()]
    if s.json:
        emit(_queue_row(view, fields, periodic))
    else:
        row = row_of(fields) | {"unfinished": " ".join(fields.unfinished) or None}
        _print_queue(s, view, row, periodic)


def _queue_row(
    view: QueueDetails, fields: QueueFields, periodic: list[PeriodicEntryOutput]
) -> QueueDetailsOutput:
    from ..output_types.queues import QueueDetailsOutput

    open, settled = view.requests or (None, None)
    queue = view.queue
    return QueueDetailsOutput(
        queue=fields,
        open_requests=open,
        settled_requests=settled,
        levels=view.levels,
        shards=len(queue.shard_queues),
        settings={setting.name: setting.value for setting in view.settings},
        history=view.history,
        consumers=view.consumers,
        known_faults=queue.layout_faults,
        faults=view.checkup.flaws,
        not_checked=view.checkup.unseen,
        clients=[client_row(queue.name, client) for client in view.clients.clients],
        options=view.options,
        periodic_entries=periodic,
    )


def _print_queue(
    s: Session, view: QueueDetails, row: dict[str, Any], periodic: list[PeriodicEntryOutput]
) -> None:
    queue = view.queue
    _facts(s, {"": f"queue {queue.name}", **row, **_queue_facts(view)})
    if view.consumers:
        print()
        table(
            ["consumer", "pending", "idle"],
            [[one.name, one.pending, age(one.idle_ms)] for one in view.consumers],
        )
    if clients := [client_cells(client) for client in view.clients.clients]:
        print()
        table(list(clients[0]), [list(client.values()) for client in clients])
        if len(clients) < view.clients.total:
            tell(f"  {len(clients)} of {view.clients.total:,} shown")
    if periodic:
        print()
        periodic_table(s, periodic)
    for title, lines in (
        ("wrong now", view.checkup.flaws),
        ("not looked at", filter(None, [view.checkup.unseen])),
        ("known faults of this layout", queue.layout_faults),
    ):
        for nth, line in enumerate(lines):
            if not nth:
                print()
                tell(f"  {title}")
            tell(f"    {line}")


def _queue_facts(view: QueueDetails) -> dict[str, Any]:
    queue, facts = view.queue, dict[str, Any]()
    own = [f"{setting.name}={setting.value}" for setting in view.settings if not setting.default]
    if len(queue.shard_queues) > 1:
        facts["shards"] = len(queue.shard_queues)
    if view.requests:
        facts["open requests"], facts["settled requests"] = view.requests
    if view.levels or view.requests:
        facts["priorities"] = ", ".join(f"{x.priority}: {x.tokens} tokens" for x in view.levels)
    if view.options:
        facts["options"] = ", ".join(f"{name}={value}" for name, value in view.options.items())
    if queue.has_settings:
        facts["settings"] = ", ".join(own) or "all default"
    return facts | {"history": quantity(view.history, "event")}


def _show_request(s: Session, queue: Queue[Any], id: str) -> None:
    from redisq_ops.ops.inspect.details import request_details

    view = s.run(request_details(queue, id))
    request, now = view.request, view.now_ms
    pending: list[PendingSubRequest] = [
        {
            **entry_row(view.queue.name, row.entry),
            "idle_ms": row.idle_ms,
            "lease_left_ms": (row.entry.at_ms or now) - now,
        }
        for row in view.pending
    ]
    differ: list[PendingDifference] = [
        {"consumer": consumer, "entries": number, "reason": reason}
        for consumer, number, reason in view.differences
    ]
    if not s.json:
        return _print_request(s, view, pending, differ)
    from ..output_types.requests import RequestDetailsOutput

    row = RequestDetailsOutput(
        queue=view.queue.name,
        request=request,
        tokens_free=request.tokens,
        tokens_held=request.pending,
        stream={"key": view.stream, "length": view.length, "group": "g"},
        consumers=view.consumers,
        pending_entries=pending,
        pel_differs=differ,
        history=_history_row(view.history),
    )
    return emit(row)


def _print_request(
    s: Session,
    view: RequestDetails,
    pending: list[PendingSubRequest],
    differ: list[PendingDifference],
) -> None:
    _facts(s, _request_facts(view))
    for difference in differ:
        tell(
            f"  the group's own pending list: {difference['entries']:,} under "
            f"{difference['consumer']} ({difference['reason']})"
        )
    if view.consumers:
        print()
        held: dict[str | None, int] = {}
        for one in view.pending:
            since = view.now_ms if one.entry.since_ms is None else one.entry.since_ms
            held[one.entry.consumer] = max(held.get(one.entry.consumer, 0), view.now_ms - since)
        table(
            ["consumer", "pending", "oldest"],
            [
                [
                    consumer.name,
                    consumer.pending,
                    age(held[consumer.name]) if consumer.name in held else None,
                ]
                for consumer in view.consumers
            ],
        )
    if pending:
        print()
        table(
            ["pending", "consumer", "idle", "attempt", "lease left"],
            [
                [
                    row["id"],
                    row["consumer"],
                    row["idle_ms"] and age(row["idle_ms"]),
                    None if row["attempts"] is None else row["attempts"] + 1,
                    age(row["lease_left_ms"]),
                ]
                for row in pending
            ],
        )
        if len(pending) < view.request.pending:
            tell(f"  {len(pending)} of {view.request.pending:,} shown")
    _tell_history(s, view.history)


def _request_facts(view: RequestDetails) -> dict[str, Any]:
    request = view.request
    states = ("waiting", "pending", "delayed", "done", "dead", "trash")
    return {
        "": f"request {view.queue.name}/{request.id}",
        "state": request.state + (", paused" if request.paused else ""),
        "priority": request.priority,
        "limit": f"{request.limit} (tokens: {request.pending} held, {request.tokens} free)",
        "total": f"{request.total:,} = "
        + " + ".join(f"{getattr(request, state):,} {state}" for state in states),
        "created_ms": request.created_ms,
        "added_ms": request.added_ms,
        "closed_ms": request.closed_ms,
        "results": f"{size(request.results_bytes)}, {request.results_dropped:,} over the limit",
        "stream": f"{view.stream}: {entries(view.length)}, group g",
    }


def _show_entry(s: Session, queue: Queue[Any], id: str) -> None:
    from redisq_ops.ops.change.wording import state_entries
    from redisq_ops.ops.inspect.details import entry_details
    from redisq_ops.ops.payload_content import attachment_content, payload_content

    view = s.run(entry_details(queue, id))
    members = None if view.flow is None else [one.redacted(s.redaction) for one in view.flow]
    row: dict[str, Any] = {**entry_row(view.queue.name, view.entry)}
    row |= {"idle_ms": view.idle_ms, "deliveries": view.entry.deliveries}
    done = view.operation
    if s.json:
        kept = [replace(a, content=s.redaction.payload(a.content)) for a in view.attachments]
        whole = [one.content for one in kept if one.name == "result" and not one.left_out]
        others = [one for one in kept if one.name != "result" or one.left_out]
        row |= {"result": whole[0] if whole else None, "attachments": others}
        operation = done and operation_row(done)
        flow = None if members is None else list(map(_member_row, members))
        return emit(
            row | {"operation": operation, "history": _history_row(view.history), "flow": flow}
        )
    error: Failure | None = row.pop("error")
    title = {"": f"entry {row.pop('address')}"}
    del row["queue"], row["id"]
    payload = view.entry.payload
    content = None if payload is None else payload_content(payload, s.redaction)
    if content is not None and content.was_encoded:  # below, by its lines
        row |= {"payload": None}
    if error is not None:
        row |= {"error": error.type, "message": error.message}
    _facts(s, title | row)
    for line in error.traceback.splitlines() if error is not None else ():
        tell(f"    {line}")
    if content is not None and content.was_encoded:
        _tell_decoded("payload", content)
    for one in view.attachments:
        _tell_decoded(one.name, attachment_content(one, s.redaction))
    _tell_flow(members)
    _tell_history(s, view.history)
    if done is not None:
        state = cast("State", done.source or done.target)  # the audit log stores text
        what = f"{done.verb} of {state_entries(done.done, state)} (op {done.id})"
        why = f": {done.why}" if done.why else ""
        tell(f"  {when(done.started_ms, s.utc)}  {what}  by {done.by}{why}")


def _member_row(one: FlowMember) -> FlowEntry:
    return {
        "depth": one.depth,
        "role": one.role or None,
        "address": one.address,
        "state": one.state,
        "owner_state": one.called or None,
        "holds": one.holds,
        "waits_for": one.number,
        "awaited_by": one.awaiting,
        "counts": one.counts,
        "note": one.note or None,
    }


def _tell_flow(members: Sequence[FlowMember] | None) -> None:
    from redisq_ops.ops.inspect.flow import indented

    if members is not None and not members:
        return
    print()
    tell("  flow" if members else "  flow: it can't be read")
    for indent, one in indented(members or ()):
        tell(printable(f"    {indent}{one.line}"))


def _tell_decoded(name: str, content: PayloadContent) -> None:
    """What was decoded, and the beginning of it, by lines."""
    text = content.content.decode("utf-8", "backslashreplace")
    tell(f"  {name:<16}  {content.what}")
    for line in text[:READ].splitlines():
        tell(f"    {line}")
    if len(text) > READ:
        tell(f"    … {count(len(text) - READ)} more characters")


def _facts(s: Session, facts: dict[str, Any]) -> None:
    """Names and values, aligned; unknown values are left out, times are formatted."""
    for name, value in facts.items():
        if value is None:
            continue
        if name.endswith(("_age_ms", "idle_ms")):
            value = age(value)
        elif name == "run_ms":
            value = took(value)
        elif name.endswith("_ms"):
            value = when(value, s.utc)
        elif not isinstance(value, (str, bytes)):
            value = f"{value:,}"
        word = name.removesuffix("_ms").replace("_", " ")
        tell(f"  {word:<16}  {printable(value, READ)}" if name else printable(value))


def _history_row(history: EntryHistory) -> EntryHistoryFields:
    """The same events as for people, oldest first, as in `redisq history`."""
    events = history.events[::-1]
    return {"events": events, "scanned": history.searched, "total": history.total}


def _tell_history(s: Session, history: EntryHistory) -> None:
    found, looked = len(history.events), f"the latest {history.searched:,} of {history.total:,}"
    cut = f", the latest {SHOWN} of them" if found > SHOWN else ""
    print()
    tell(f"  history: {found:,} about it in {looked} events{cut}")
    tell_events(s, reversed(history.events[:SHOWN]))
