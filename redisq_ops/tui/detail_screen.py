"""`Enter`: all that is known of one entry or one request."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from datetime import tzinfo
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from redisq_ops.core.model.entry import Entry, Event, Request
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import age, count, printable, size
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, WARN
from redisq_ops.tui.views.base import redaction_of
from redisq_ops.tui.views.delayed import moment

if TYPE_CHECKING:
    from redisq_ops.ops.inspect.details import RequestDetails
    from redisq_ops.ops.inspect.history import EntryHistory

SHOWN = 8 * 1024
"""bytes of a payload on the screen; the clipboard gets all of it"""
_LABEL = 14
_STATES = {"pending": HELD, "delayed": DELAYED, "dead": DEAD, "done": OK, "trash": WARN}


class DetailScreen(ModalScreen[None]):
    """An entry or a request, drawn again with every snapshot."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back"),
        Binding("y", "yank", "Copy", tooltip="Copy payload or id to the clipboard"),
        Binding("t", "app.explain", "Explain", tooltip="What holds it, and what helps"),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
        Binding("pagedown", "scroll(20)", "Page down", show=False),
        Binding("pageup", "scroll(-20)", "Page up", show=False),
        Binding("g,home", "scroll(-100000)", "First", show=False),
        Binding("G,end", "scroll(100000)", "Last", show=False),
    ]

    def __init__(self, id: str, zone: tzinfo | None) -> None:
        super().__init__()
        self.about = id
        self._zone = zone
        self._payload: bytes | None = None
        # Held, not queried: a picture may come before this screen is composed.
        self._body = Static(f"{printable(id)} …", markup=False)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet"):
            yield self._body
        yield Footer(compact=True, show_command_palette=False)

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.viewport.detail == self.about:
            if snapshot.entry is not None and (redaction := redaction_of(self)):
                shown = redaction.entry(snapshot.entry.entry)
                snapshot = replace(snapshot, entry=replace(snapshot.entry, entry=shown))
            self._payload = snapshot.entry.entry.payload if snapshot.entry else None
            self._body.update(described(snapshot, self._zone))

    def action_scroll(self, lines: int) -> None:
        self.query_one("#sheet").scroll_relative(y=lines, animate=False)

    def action_yank(self) -> None:
        if self._payload is None:
            text, what = self.about, printable(self.about)
        else:
            try:
                text, what = self._payload.decode(), "the payload"
            except UnicodeDecodeError:
                text, what = b64encode(self._payload).decode(), "the payload as base64"
        self.app.copy_to_clipboard(text)
        self.notify(f"copied {what}", markup=False)


def described(snapshot: Snapshot, zone: tzinfo | None) -> Text:
    """The whole sheet as text, everything escaped."""
    text, now = Text(), snapshot.now_ms
    if snapshot.request is not None:
        _request(text, snapshot.request.request, now, zone)
        _stream(text, snapshot.request, now)
        _history(text, snapshot.request.history, zone)
    elif snapshot.entry is not None:
        _entry(text, snapshot.entry.entry, now, zone)
        _history(text, snapshot.entry.history, zone)
    else:
        gone = f"{snapshot.viewport.detail} is not here any more: done, or removed for good."
        text.append(printable(gone))
    return text


def _title(text: Text, id: str, state: str, style: str) -> None:
    text.append(printable(id), "bold")
    text.append(f"  {state}\n", f"bold {style}")


def _line(text: Text, label: str, words: str, style: str = "") -> None:
    text.append(f"{label:<{_LABEL}}", DIM)
    text.append(f"{printable(words)}\n", style)


def _when(ms: int | None, now_ms: int, zone: tzinfo | None) -> str:
    if ms is None:
        return "-"
    gap = now_ms - ms
    return f"{moment(ms, zone)}  ({age(gap)} ago)" if gap >= 0 else (
        f"{moment(ms, zone)}  (in {age(-gap)})"
    )  # fmt: skip


def _entry(text: Text, entry: Entry, now_ms: int, zone: tzinfo | None) -> None:
    _title(text, entry.id, entry.state, _STATES.get(entry.state, ""))
    at = {"pending": "lease until", "delayed": "due", "dead": "dead since", "trash": "purged"}
    if entry.reason:
        _line(text, "reason", entry.reason, BAD)
    _line(text, "attempts", f"{entry.attempts}  ({entry.failures} failed, {entry.lost} lost)")
    if entry.at_ms is not None:
        _line(text, at.get(entry.state, "ready"), _when(entry.at_ms, now_ms, zone))
    if entry.since_ms is not None and entry.since_ms != entry.at_ms:
        _line(text, f"{entry.state} since", _when(entry.since_ms, now_ms, zone))
    _line(text, "first taken", _when(entry.first_ms, now_ms, zone))
    _line(text, "worker", entry.consumer or "-")
    if entry.receipt:
        _line(text, "receipt", entry.receipt)
    if entry.op:
        _line(text, "touched by", entry.op)
    if entry.problem is not None:
        _line(text, "problem", entry.problem, BAD)
    if entry.error is not None:
        error = entry.error
        text.append("\nerror\n", "bold")
        text.append(printable(error.type), BAD)
        text.append(f": {printable(error.message)}\n" if error.message else "\n")
        for line in error.traceback.rstrip().split("\n") if error.traceback else ():
            text.append(f"  {printable(line)}\n", DIM)
    payload = entry.payload
    text.append("\npayload", "bold")
    if payload is None:
        text.append("  gone\n", DIM)
        return
    text.append(f"  {size(len(payload))}\n", DIM)
    for part in payload[:SHOWN].split(b"\n"):
        text.append(f"{printable(part)}\n")
    if len(payload) > SHOWN:
        text.append(f"… {size(len(payload) - SHOWN)} more; y copies all\n", DIM)


def _request(text: Text, request: Request, now_ms: int, zone: tzinfo | None) -> None:
    paused = request.paused and not request.settled
    style = WARN if paused else {"done": OK, "cancelled": BAD}.get(request.state, "")
    _title(text, request.id, "paused" if paused else request.state, style)
    _line(text, "priority", f"{request.priority}")
    _line(
        text, "tokens",
        f"{request.pending} held of {request.limit}, {request.tokens} free in the priority list",
    )  # fmt: skip
    _line(text, "total", count(request.total))
    for state, style in (("waiting", ""), *_STATES.items()):
        number = getattr(request, state)
        _line(text, f"  {state}", count(number), style if number else DIM)
    _line(text, "created", _when(request.created_ms, now_ms, zone))
    if request.added_ms not in (None, request.created_ms):
        _line(text, "last grown", _when(request.added_ms, now_ms, zone))
    if request.closed_ms is not None:
        _line(text, "settled", _when(request.closed_ms, now_ms, zone))
    dropped = f", {count(request.results_dropped)} dropped" if request.results_dropped else ""
    _line(text, "results", size(request.results_bytes) + dropped)


def _stream(text: Text, view: RequestDetails, now_ms: int) -> None:
    text.append("\nwho has what", "bold")
    text.append(f"  the first {count(len(view.pending))}, by number\n", DIM)
    for held in view.pending:
        entry = held.entry
        left = (entry.at_ms or 0) - now_ms
        text.append(f"  {printable(entry.id, 36):<36} {printable(entry.consumer or '-', 24):<24} ")
        lease = f"lease {age(left)}" if left >= 0 else f"over {age(-left)}"
        text.append(f"{lease:<14}", OK if left >= 0 else BAD)
        text.append(f" attempt {entry.attempts + 1}\n", DIM)
    text.append("\nstream", "bold")
    text.append(f"  {printable(view.stream)}, {count(view.length)} entries\n", DIM)
    for consumer in view.consumers:
        text.append(f"  {printable(consumer.name, 36):<36} ")
        text.append(f"{count(consumer.pending):>8} pending, idle {age(consumer.idle_ms)}\n", DIM)
    for name, number, why in view.differences:
        text.append(f"  {printable(name)} has {count(number)}: {printable(why)}\n", WARN)


def _history(text: Text, history: EntryHistory, zone: tzinfo | None) -> None:
    text.append("\nhistory", "bold")
    text.append(
        f"  in the latest {count(history.searched)} of {count(history.total)} events\n", DIM
    )
    if not history.events:
        text.append("  nothing\n", DIM)
    for event in history.events:
        text.append(f"  {moment(event.at_ms, zone)}  ", DIM)
        text.append(_said(event))
        text.append(f"  by {printable(event.by)}\n" if event.by != "-" else "\n", DIM)


def _said(event: Event) -> str:
    said = []
    for name, items in event.what.items():
        rest = items[0].partition("|")[2].replace("|", " ")
        more = f" and {count(len(items) - 1)} more" if len(items) > 1 else ""
        said.append(printable(f"{name} {rest}{more}".strip()))
    return ", ".join(said)
