"""`t`: why something isn't running, isn't finishing, or where it went; drawn with each snapshot.

Enter on a suggested command opens the dialog of that change; Enter on a name goes there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from redisq_ops.ops.inspect.snapshot import ExplainSubject, Snapshot, View
from redisq_ops.ops.terminal import age, count, printable
from redisq_ops.tui.command.command_line import CommandInput
from redisq_ops.tui.outline.outline import Line, OutlineSection, Parts
from redisq_ops.tui.outline.outline_tree import OutlineTree
from redisq_ops.tui.outline.section_tree import SectionTree
from redisq_ops.tui.screens.opened_screen import Opened, OpenedScreen
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, WARN
from redisq_ops.tui.views import listing
from redisq_ops.tui.views.delayed import moment

if TYPE_CHECKING:
    from redisq_ops.ops.explain.reason import Explanation, Reason

_LABEL = 16
_NAME = 28
_STATES = {
    "waiting": OK,
    "open": OK,
    "sealed": OK,
    "done": OK,
    "pending": f"bold {HELD}",
    "delayed": f"bold {DELAYED}",
    "dead": DEAD,
    "cancelled": BAD,
}
_MOST = 120
"""cells of a fact"""
_LINKS = 20
_BEFORE = 6
"""cells before a row of a command"""


@dataclass(frozen=True, slots=True)
class Suggestion(Line):
    """A line with a command that helps."""

    command: str = ""


@dataclass(frozen=True, slots=True)
class ExplainLink(Line):
    """A name in the explanation; it leads to another explanation or to a view."""

    explain: ExplainSubject | None = None
    view: View = "overview"
    filter: str = ""
    row: str = ""
    """the row of the view to put the cursor on"""


class ExplainScreen(OpenedScreen):
    """The explanation of one queue, request or entry."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "dismiss", "Back", show=False),
        Binding("d", "scroll_answer(5)", "Down", show=False),
        Binding("u", "scroll_answer(-5)", "Up", show=False),
    ]

    @dataclass(eq=False)
    class Suggested(Message):
        """Enter on a command that helps."""

        command: str

    @dataclass(eq=False)
    class Followed(Message):
        """Enter on a name."""

        queue: str
        link: ExplainLink

    def __init__(self, about: ExplainSubject, zone: tzinfo | None, line: CommandInput) -> None:
        super().__init__(Opened(about.queue, about.id), SectionTree(), line)
        self.about = about
        self._zone = zone
        self._answer = Static(f"{printable(str(about))} …", markup=False)
        self._latest: Snapshot | None = None

    def content(self) -> ComposeResult:
        with VerticalScroll(id="answer", can_focus=False):
            yield self._answer
        yield self.sections

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.viewport.explain != self.about:
            return
        self._latest, found = snapshot, snapshot.explanation
        settled = found is not None and found.state in ("done", "cancelled")
        self.listed_in(_view(found), settled)
        if found is None:
            self._answer.update(printable(snapshot.explain_error or "there is nothing to say"))
            self.sections.clear()
        else:
            self._answer.update(answer(found, self._zone))
            width = self.sections.size.width - 1  # of the scrollbar
            self.sections.show_sections(list(explanation_sections(found, self._zone, width)))
        self.call_after_refresh(self._say_keys)

    def on_resize(self) -> None:
        if self._latest is not None:
            self.show(self._latest)

    def _say_keys(self) -> None:
        answer, sheet = self.query_one("#answer"), self.query_one("#sheet")
        more = "d and u scroll the answer; " if answer.max_scroll_y else ""
        sheet.border_subtitle = f"{more}Enter does what helps, or goes to a name"

    def action_scroll_answer(self, lines: int) -> None:
        self.query_one("#answer").scroll_relative(y=lines, animate=False)

    def on_outline_tree_opened(self, opened: OutlineTree.Opened) -> None:
        opened.stop()
        if isinstance(opened.item, Suggestion):
            self.post_message(self.Suggested(opened.item.command))
        elif isinstance(opened.item, ExplainLink):
            self.post_message(self.Followed(self.about.queue, opened.item))


def _view(found: Explanation | None) -> View | None:
    """The view that lists what is explained."""
    if found is None or found.id is None:
        return None
    return "requests" if found.what == "request" else listing(found.state)


def answer(found: Explanation, zone: tzinfo | None) -> Text:
    """The text above the sections: the first reason, its end, and further reasons."""
    text, first = Text(), found.reason
    text.append(f"{found.what} {printable(found.address)}")
    style = _STATES.get(found.state or "", WARN)
    text.append(f"  {found.state or 'not there'}\n\n", style)
    text.append(f"{printable(first.sentence)}\n", "bold" if found.known else f"bold {BAD}")
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
    return text


def explanation_sections(
    found: Explanation, zone: tzinfo | None, width: int
) -> Iterator[OutlineSection]:
    """The sections of an explanation in ``width`` cells: what helps, names, and facts."""
    reasons = (found.reason, *found.also)
    if helps := [line for one in reasons for line in _suggestions(one, width)]:
        title = Line(Text("what helps", "bold"), helps[0].value, parts=Parts.of(helps))
        yield OutlineSection("helps", title, [line.words for line in helps], 0, of_choices=True)
    names = list({link.label.plain: link for link in _links(found)}.values())[:_LINKS]
    if names:
        title = Line(Text("names", "bold"), parts=Parts.of(names))
        content = [link.label.plain for link in names]
        yield OutlineSection("names", title, content, 1, of_choices=not helps)
    for at, one in enumerate(reasons):
        if facts := list(_facts(one.facts, found.now_ms, zone)):
            text = Text(f"facts  {printable(one.rule)}", DIM)
            title = Line(text, found.address, parts=Parts.of(facts))
            content = [fact.words for fact in facts]
            yield OutlineSection(f"facts {at}: {one.rule}", title, content, 2 + at)


def _suggestions(reason: Reason, width: int) -> Iterator[Suggestion]:
    """What the reason's command does, and below it the whole command, wrapped between words."""
    command = reason.command
    if command is None:
        return
    yield Suggestion(Text(printable(reason.deed or ""), f"bold {OK}"), command, command=command)
    room = max(1, width - _BEFORE)
    for row in wrap(printable(command), room, break_on_hyphens=False):
        yield Suggestion(Text(f"  {row}", DIM), command, command=command)


# --- names -------------------------------------------------------------------------------------


def _links(found: Explanation) -> Iterator[ExplainLink]:
    """The consumers, requests, entries, clients, operations and queues that the facts name."""
    for one in (found.reason, *found.also):
        facts = one.facts
        oldest = facts.get("oldest")
        holders = [*facts.get("holders", ()), *([oldest] if isinstance(oldest, Mapping) else [])]
        group = facts.get("group") if one.rule != "dead" else None
        for holder in (*holders, {"consumer": facts.get("consumer")}):
            if name := holder.get("consumer"):
                yield _consumer(str(name), group)
        entries = [holder.get("id") for holder in holders] + [facts.get("id")]
        requests = [*facts.get("requests", ()), facts.get("request")]
        for noun, ids in (("entry", entries), ("request", requests)):
            for id in ids:
                if id and id != found.id:
                    yield _explained(noun, str(id), ExplainSubject(found.queue, str(id)))
        for client in (*facts.get("clients", ()), facts.get("client")):
            if client:
                yield _link("client", str(client), "its rules", view="clients", row=str(client))
        operations = [facts.get("op"), facts.get("operation"), *facts.get("removals", ())]
        for operation in operations:
            op = operation.get("id") if isinstance(operation, Mapping) else operation
            if op:
                yield _link("operation", str(op), "in the audit log", view="log", row=str(op))
        if one.rule == "dead" and facts.get("group"):
            same = str(facts["group"])
            yield _link(
                "error", same, "all dead letters with it", view="dead", filter=f"group={same}"
            )
        if facts.get("into"):
            yield _explained("queue", str(facts["into"]), ExplainSubject(str(facts["into"])))


def _consumer(name: str, group: object) -> ExplainLink:
    from redisq_ops.ops.filter.fields import quoted

    whole = f"{group}:{name}" if group else name
    return _link(
        "consumer", whole, "what it holds", view="pending", filter=f"consumer={quoted(whole)}"
    )


def _explained(noun: str, name: str, subject: ExplainSubject) -> ExplainLink:
    return _link(noun, name, "explain it", explain=subject)


def _link(noun: str, name: str, what: str, **where: Any) -> ExplainLink:
    text = Text.assemble(
        (f"{noun:<{_LABEL}}", DIM), (f"{printable(name):<{_NAME}}", HELD), (f"  {what}", DIM)
    )
    return ExplainLink(text, name, **where)


# --- facts -------------------------------------------------------------------------------------


def _facts(facts: Mapping[str, Any], now_ms: int, zone: tzinfo | None) -> Iterator[Line]:
    for name, value in facts.items():
        if value not in (None, "", [], {}):
            label = printable(name.removesuffix("_ms").replace("_", " "))
            words = _written(name, value, now_ms, zone)
            yield Line(Text(f"{label:<{_LABEL}}{printable(words, _MOST)}", DIM), words)


_SPANS = {"silent_ms", "oldest_age_ms"}


def _written(name: str, value: Any, now_ms: int, zone: tzinfo | None) -> str:
    if isinstance(value, Mapping) and set(value) == {"type", "message"}:
        return f"{value['type']}: {value['message']}"
    if isinstance(value, Mapping):
        return "; ".join(f"{k} {_written(str(k), v, now_ms, zone)}" for k, v in value.items() if v)
    if isinstance(value, (list, tuple)):
        return ", ".join(_written("", item, now_ms, zone) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if not name.endswith("_ms"):
            return count(value)
        if name in _SPANS or value < now_ms // 10:  # a duration, not a time
            return age(value)
        gap = now_ms - value
        ago = f"{age(gap)} ago" if gap >= 0 else f"in {age(-gap)}"
        return f"{moment(value, zone)}  ({ago})"
    return str(value)
