"""`t`: why something isn't running, isn't finishing, or where it went; drawn with each snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from redisq_ops.ops.inspect.snapshot import ExplainSubject, Snapshot
from redisq_ops.ops.terminal import age, count, printable
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, WARN
from redisq_ops.tui.views.delayed import moment

if TYPE_CHECKING:
    from redisq_ops.ops.explain.explanation import Explanation

_LABEL = 14
_STATES = {
    "waiting": OK, "open": OK, "sealed": OK, "done": OK, "pending": f"bold {HELD}",
    "delayed": f"bold {DELAYED}", "dead": DEAD, "cancelled": BAD,
}  # fmt: skip
_MOST = 120
"""cells of a fact"""


class WhyScreen(ModalScreen[None]):
    """The explanation of one queue, request or entry."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,t,enter", "dismiss", "Back"),
        Binding("y", "yank", "Copy", tooltip="Copy the command that helps"),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
        Binding("pagedown", "scroll(20)", "Page down", show=False),
        Binding("pageup", "scroll(-20)", "Page up", show=False),
    ]

    def __init__(self, about: ExplainSubject, zone: tzinfo | None) -> None:
        super().__init__()
        self.about = about
        self._zone = zone
        self._command: str | None = None
        # Held, not queried: a picture may come before this screen is composed.
        self._body = Static(f"{printable(str(about))} …", markup=False)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet"):
            yield self._body
        yield Footer(compact=True, show_command_palette=False)

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.viewport.explain != self.about:
            return
        found = snapshot.explanation
        if found is None:
            self._command = None
            self._body.update(printable(snapshot.explain_error or "there is nothing to say"))
        else:
            self._command = found.reason.command
            self._body.update(explained(found, self._zone))

    def action_scroll(self, lines: int) -> None:
        self.query_one("#sheet").scroll_relative(y=lines, animate=False)

    def action_yank(self) -> None:
        text = self._command or str(self.about)
        self.app.copy_to_clipboard(text)
        self.notify(f"copied {printable(text)}", markup=False)


def explained(found: Explanation, zone: tzinfo | None) -> Text:
    """The answer first, then what else is true, what helps, and what that rests on."""
    text, first = Text(), found.reason
    text.append(f"{found.what} {printable(found.address)}", "bold")
    style = _STATES.get(found.state or "", WARN)
    text.append(f"  {found.state or 'not there'}\n\n", style)
    text.append(f"{printable(first.sentence)}\n", "" if found.known else BAD)
    if first.eta_ms is not None:
        left = first.eta_ms - found.now_ms
        about = "≈ " if first.estimate else ""
        when = f"{about}in {age(left)}" if left >= 1000 else "now"
        text.append(f"\n  {'when':<{_LABEL}}", DIM)
        text.append(when, OK)
        text.append(f"  {moment(first.eta_ms, zone)}\n", DIM)
    if found.also:
        text.append("\nalso\n", "bold")
        for one in found.also:
            text.append(f"  {printable(one.sentence)}\n")
    helps = [one for one in (first, *found.also) if one.command is not None]
    if helps:
        text.append("\nwhat helps\n", "bold")
    for one in helps:
        text.append(f"  {one.verb or '':<{_LABEL}}", DIM)
        text.append(f"{printable(one.command or '')}\n", OK)
    for one in (first, *found.also):
        rows = list(_facts(one.facts, found.now_ms, zone))
        if rows:
            text.append(f"\nfacts: {printable(one.rule)}\n", "bold")
        for name, said in rows:
            text.append(f"  {printable(name):<{_LABEL}}", DIM)
            text.append(f"{printable(said, _MOST)}\n")
    return text


def _facts(facts: Mapping[str, Any], now_ms: int, zone: tzinfo | None) -> list[tuple[str, str]]:
    return [
        (name.removesuffix("_ms").replace("_", " "), _said(name, value, now_ms, zone))
        for name, value in facts.items()
        if value not in (None, "", [], {})
    ]


_SPANS = {"silent_ms"}


def _said(name: str, value: Any, now_ms: int, zone: tzinfo | None) -> str:
    if isinstance(value, Mapping) and set(value) == {"type", "message"}:
        return f"{value['type']}: {value['message']}"
    if isinstance(value, Mapping):
        return "; ".join(f"{k} {_said(str(k), v, now_ms, zone)}" for k, v in value.items() if v)
    if isinstance(value, (list, tuple)):
        return ", ".join(_said("", item, now_ms, zone) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if not name.endswith("_ms"):
            return count(value)
        if name in _SPANS or value < now_ms // 10:  # a span, not a moment
            return age(value)
        gap = now_ms - value
        ago = f"{age(gap)} ago" if gap >= 0 else f"in {age(-gap)}"
        return f"{moment(value, zone)}  ({ago})"
    return str(value)
