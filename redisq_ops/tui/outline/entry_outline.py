"""All that is known of an entry or a request, as sections of foldable lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from redisq_ops.core.model.entry import Entry, Event, Failure, Request
from redisq_ops.ops.encodings import MOST
from redisq_ops.ops.inspect.flow import FlowMember, indented
from redisq_ops.ops.inspect.history import change_words
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import age, count, printable, size, took
from redisq_ops.tui.outline.client_outline import client_sections
from redisq_ops.tui.outline.outline import LINE, Line, OutlineSection, Parts, aligned, fact
from redisq_ops.tui.outline.payload_outline import payload_parts
from redisq_ops.tui.outline.traceback_lines import traceback_lines
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, WARN
from redisq_ops.tui.views.delayed import moment

if TYPE_CHECKING:
    from redisq_ops.core.model.attachment import Attachment
    from redisq_ops.ops.inspect.details import EntryDetails, RequestDetails
    from redisq_ops.ops.inspect.history import EntryHistory
    from redisq_ops.ops.payload_content import PayloadContent
    from redisq_ops.ops.redaction import Redaction

_STATES = {"pending": HELD, "delayed": DELAYED, "dead": DEAD, "done": OK, "trash": WARN}
READ_ONCE: Final = 256 * 1024
"""bytes of a payload above which it isn't read again while it is on the screen"""


def outline_sections(
    snapshot: Snapshot, zone: tzinfo | None, contents: Sequence[OutlineSection] = ()
) -> list[OutlineSection]:
    """The sections of the snapshot's entry, request or client; empty if it is gone.

    ``contents``: the sections of an entry's payload and attachments.
    """
    if snapshot.client is not None:
        return client_sections(snapshot.client, snapshot, zone)
    if snapshot.request is not None:
        return list(_request_sections(snapshot.request, snapshot.now_ms, zone))
    if snapshot.entry is not None:
        sections = list(_entry_sections(snapshot.entry, snapshot.now_ms, zone))
        return [*sections, *contents]
    return []


def redacted(entry: Entry, redaction: Redaction) -> Entry:
    """The entry with redaction applied. A payload of more than `MOST` bytes is hidden whole."""
    from redisq_ops.ops.redaction import MASK

    if redaction and entry.payload is not None and len(entry.payload) > MOST:
        entry = replace(entry, payload=MASK.encode())
    return redaction.entry(entry)


# --- entries -----------------------------------------------------------------------------------


def _entry_sections(
    details: EntryDetails, now_ms: int, zone: tzinfo | None
) -> Iterator[OutlineSection]:
    entry = details.entry
    facts = list(_entry_facts(entry, now_ms, zone))
    since = entry.since_ms or (None if entry.state == "delayed" else entry.at_ms)
    summary = [f"{count(entry.attempts)} attempts" if entry.attempts != 1 else "1 attempt"]
    summary += [] if since is None else [f"{age(max(0, now_ms - since))} ago"]
    if entry.state == "delayed" and entry.at_ms is not None:
        summary.append(f"due in {age(entry.at_ms - now_ms)}" if entry.at_ms > now_ms else "due")
    summary += [printable(entry.consumer, 30)] if entry.consumer else []
    yield _about(entry.id, entry.state, _STATES.get(entry.state, ""), " · ".join(summary), facts)
    if entry.error is not None:
        yield _error(entry.error)
    if details.flow:
        yield _flow(details.flow)
    yield _history(details.history, zone)


def payload_section(
    entry: Entry, content: PayloadContent | None, width: int, wraps: bool
) -> OutlineSection:
    """An entry's payload in ``width`` cells; ``content``: what it holds; None: it is gone."""
    title, payload = Text.assemble(("payload", "bold")), entry.payload
    if content is None or payload is None:
        return OutlineSection("payload", Line(title.append("  gone", DIM)), None, 0)
    once = ", read once" if len(payload) > READ_ONCE else ""
    title.append(f"  {content.what}{once}", DIM)
    parts = payload_parts(content, width, wraps)
    line = Line(title, payload, parts=parts, place="payload")
    return OutlineSection("payload", line, (content, width, wraps), 0)


def attachment_section(
    attachment: Attachment, content: PayloadContent, width: int, wraps: bool
) -> OutlineSection:
    """What else is kept of an entry, as `payload_section` shows the payload."""
    title = Text.assemble((printable(attachment.name), "bold"), (f"  {content.what}", DIM))
    parts = payload_parts(content, width, wraps, False)
    line = Line(title, content.content, parts=parts)
    return OutlineSection(attachment.name, line, (content, width, wraps), 1)


def _about(id: str, state: str, style: str, summary: str, facts: list[Line]) -> OutlineSection:
    title = Text.assemble((printable(id), "bold"), (f"  {state}", f"bold {style}"))
    line = Line(title, id, f"id={_quoted(id)}", Parts.of(facts), summary=summary)
    return OutlineSection("about", line, (state, [line.words for line in facts]), 2)


def _when(ms: int | None, now_ms: int, zone: tzinfo | None) -> str:
    if ms is None:
        return "-"
    gap = now_ms - ms
    return (
        f"{moment(ms, zone)}  ({age(gap)} ago)"
        if gap >= 0
        else (f"{moment(ms, zone)}  (in {age(-gap)})")
    )


def _entry_facts(entry: Entry, now_ms: int, zone: tzinfo | None) -> Iterator[Line]:
    at = {"pending": "lease until", "delayed": "due", "dead": "dead since", "trash": "purged"}
    if entry.reason:
        yield fact("reason", entry.reason, BAD, f"reason={_quoted(entry.reason)}")
    attempts = f"{entry.attempts}  ({entry.failures} failed, {entry.lost} lost)"
    if entry.counted:
        yield fact("attempts", attempts, condition=f"attempts={entry.attempts}")
    if entry.at_ms is not None:
        yield fact(at.get(entry.state, "ready"), _when(entry.at_ms, now_ms, zone))
    elif entry.state == "dead":
        yield fact("dead since", "unknown")
    if entry.run_ms is not None:
        yield fact("took", took(entry.run_ms))
    if entry.since_ms is not None and entry.since_ms != entry.at_ms:
        yield fact(f"{entry.state} since", _when(entry.since_ms, now_ms, zone))
    yield fact("first taken", _when(entry.first_ms, now_ms, zone))
    if entry.task:
        yield fact("task", entry.task, condition=f"task={_quoted(entry.task)}")
    if entry.client:
        yield fact("client", entry.client, condition=f"client={_quoted(entry.client)}")
    holder = entry.consumer
    yield fact("consumer", holder or "-", "", f"consumer={_quoted(holder)}" if holder else "")
    if entry.receipt:
        yield fact("receipt", entry.receipt)
    if entry.op:
        yield fact("touched by", entry.op, condition=f"op={_quoted(entry.op)}")
    if entry.problem is not None:
        yield fact("problem", entry.problem, BAD)


def _quoted(text: str) -> str:
    from redisq_ops.ops.filter.fields import quoted

    return quoted(text)


def _error(error: Failure) -> OutlineSection:
    summary = Text(printable(error.type, 60), BAD)
    if error.message:
        summary.append(f": {printable(error.message, 120)}", "none")
    lines = [fact("type", error.type, BAD, f"error.type={_quoted(error.type)}")]
    if error.message:
        same = f"error.message={_quoted(error.message)}"
        lines.append(fact("message", error.message[:LINE], "", same))
    if error.traceback:
        lines += traceback_lines(error.traceback)
    title, value = Text("error", "bold"), error.traceback or error.line
    line = Line(title, value, f"error={_quoted(error.line)}", Parts.of(lines), summary=summary)
    return OutlineSection("error", line, error, 1)


def _flow(members: Sequence[FlowMember]) -> OutlineSection:
    """Above the entry: what waits for it; below: what it waits for."""
    lines = [
        Line(Text(indent + printable(one.line), _STATES.get(one.state or "", "")), one.address)
        for indent, one in indented(members)
    ]
    words = next(one.sums if one.number else one.role for one in members if not one.depth)
    title = Text.assemble(("flow", "bold"), (f"  {words}", DIM))
    return OutlineSection(
        "flow", Line(title, parts=Parts.of(lines)), [line.words for line in lines], 2
    )


def _history(history: EntryHistory, zone: tzinfo | None) -> OutlineSection:
    title = Text.assemble(("history", "bold"))
    number = count(len(history.events)) if history.events else "nothing"
    among = f"in the latest {count(history.searched)} of {count(history.total)} events"
    title.append(f"  {number} {among}" if history.total else "  empty", DIM)
    lines = [_event(event, zone) for event in history.events]
    return OutlineSection("history", Line(title, parts=Parts.of(lines)), history.events, 3)


def _event(event: Event, zone: tzinfo | None) -> Line:
    happened = []
    for name, items in event.what.items():
        rest = items[0].partition("|")[2].replace("|", " ")
        if rest == event.by:  # shown after it
            rest = ""
        words = change_words(items[0]) if name == "op" else f"{name} {rest}".strip()
        more = f" and {count(len(items) - 1)} more" if len(items) > 1 else ""
        happened.append(printable(words + more))
    text = Text.assemble((f"{moment(event.at_ms, zone)}  ", DIM), ", ".join(happened))
    if event.by != "-":
        text.append(f"  by {printable(event.by)}", DIM)
    return Line(text, text.plain)


# --- requests ----------------------------------------------------------------------------------


def _request_sections(
    details: RequestDetails, now_ms: int, zone: tzinfo | None
) -> Iterator[OutlineSection]:
    request = details.request
    paused = request.paused and not request.settled
    style = WARN if paused else {"done": OK, "cancelled": BAD}.get(request.state, "")
    facts = list(_request_facts(request, now_ms, zone))
    summary = f"{count(request.done)} of {count(request.total)} done"
    yield _about(request.id, "paused" if paused else request.state, style, summary, facts)
    yield _section(
        "holders",
        f"the first {count(len(details.pending))}, by number",
        "holders",
        _holders([held.entry for held in details.pending], now_ms),
        0,
    )
    stream = f"{printable(details.stream)}, {count(details.length)} entries"
    yield _section("stream", stream, "stream", _stream(details), 1)
    yield _history(details.history, zone)


def _section(name: str, what: str, title: str, lines: list[Line], rank: int) -> OutlineSection:
    text = Text.assemble((title, "bold"))
    text.append(f"  {what}", DIM)
    content: Any = [what, *(line.words for line in lines)]
    return OutlineSection(name, Line(text, parts=Parts.of(lines)), content, rank)


def _request_facts(request: Request, now_ms: int, zone: tzinfo | None) -> Iterator[Line]:
    yield fact("priority", f"{request.priority}")
    held = f"{request.pending} held of {request.limit}"
    yield fact("tokens", f"{held}, {request.tokens} free in the priority list")
    yield fact("total", count(request.total))
    for state, style in (("waiting", ""), *_STATES.items()):
        number = getattr(request, state)
        yield fact(f"  {state}", count(number), style if number else DIM)
    yield fact("created", _when(request.created_ms, now_ms, zone))
    if request.added_ms not in (None, request.created_ms):
        yield fact("last grown", _when(request.added_ms, now_ms, zone))
    if request.closed_ms is not None:
        yield fact("settled", _when(request.closed_ms, now_ms, zone))
    dropped = f", {count(request.results_dropped)} dropped" if request.results_dropped else ""
    yield fact("results", size(request.results_bytes) + dropped)


def _holders(entries: list[Entry], now_ms: int) -> list[Line]:
    ids = aligned([entry.id for entry in entries])
    consumers = aligned([entry.consumer or "-" for entry in entries])
    lines = []
    for entry, id, consumer in zip(entries, ids, consumers, strict=True):
        left = (entry.at_ms or 0) - now_ms
        lease = f"lease {age(left)}" if left >= 0 else f"lease over for {age(-left)}"
        text = Text.assemble(
            f"{id}  {consumer}  ",
            (f"{lease:<22}", OK if left >= 0 else BAD),
            (f"attempt {entry.attempts + 1}", DIM),
        )
        lines.append(Line(text, entry.id))
    return lines


def _stream(details: RequestDetails) -> list[Line]:
    lines = []
    names = aligned([consumer.name for consumer in details.consumers])
    for consumer, name in zip(details.consumers, names, strict=True):
        held = f"{count(consumer.pending):>8} pending, idle {age(consumer.idle_ms)}"
        lines.append(Line(Text.assemble(name, (held, DIM)), consumer.name))
    for name, number, why in details.differences:
        lines.append(Line(Text(f"{printable(name)} has {count(number)}: {printable(why)}", WARN)))
    return lines
