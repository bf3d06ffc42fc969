"""The two lines on top: the server, queue and age of the data; and the list of views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from redisq_ops.core.model.entry import Counts
from redisq_ops.ops.inspect.snapshot import ListedQueue, View
from redisq_ops.ops.terminal import age, count, printable, short_count
from redisq_ops.tui.theme import BAD, DIM, HELD, INK, OK, WARN
from redisq_ops.tui.views import ALL, QueueView, numbered


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the header shows."""

    label: str = ""
    queue: ListedQueue | None = None
    counts: Counts | None = None
    """of this queue"""
    now_ms: int | None = None
    read_only: bool = False
    stale_s: int | None = None
    """seconds since the last snapshot, if that is too long ago"""
    failing: bool = False
    """whether the latest read failed"""
    zone: tzinfo | None = None
    word: str = ""
    """the context's name in the header, from the configuration file"""
    color: str = ""
    in_trouble: int | None = None
    """queues in trouble; None: unknown, or another view than the overview is open"""
    sums: tuple[str, ...] = ()
    """figures of all queues together, in words, the gravest first"""
    crumbs: str = ""
    """the places to which back leads"""
    server: str = ""
    """a warning about the server's state; empty: none"""
    login_refused: bool = False
    """the server refused the user name or password, or wants one"""
    frozen_s: int | None = None
    """seconds since the last snapshot, while the refresh is stopped"""


NO_TROUBLE = Text("no trouble", OK)
_LEFT = 30
"""columns that the sums leave for the server's name"""


class Banner(Widget):
    """Server and queue on the left, cut if too long; flags, staleness and time on the right."""

    DEFAULT_CSS = "Banner { height: 1; background: $panel; }"
    ALLOW_SELECT = False
    state: reactive[State] = reactive(State())

    def render(self) -> Text:
        left, width, figures = _left(self.state), self.size.width, 2
        while (right := _right(self.state, figures)).cell_len > width - _LEFT and figures:
            figures -= 1
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        room = width - right.cell_len - 1
        if room > 3:
            left.truncate(room, overflow="ellipsis")
            text.append_text(left)
            text.append(" " * (width - text.cell_len - right.cell_len))
        text.append_text(right)
        return text


def _left(state: State) -> Text:
    text = Text(" redisq", "bold")
    if state.word:
        text.append(" ")
        text.append(f" {printable(state.word)} ", f"bold reverse {state.color or WARN}")
    if state.queue is not None:
        text.append("  " + printable(state.queue.name), f"bold {HELD}")
        text.append(f" {state.queue.kind}", DIM)
    if state.crumbs:
        text.append("  " + printable(state.crumbs), DIM)
    text.append("  " + (printable(state.label) or "connecting …"), DIM)
    return text


def _right(state: State, figures: int) -> Text:
    """``figures``: how many of the overview's sums are shown."""
    said: list[Text] = []
    if state.counts is not None:
        if state.counts.paused is not None:
            said.append(Text("PAUSED", f"bold {WARN}"))
        if state.counts.closed is not None:
            said.append(Text("DRAINING", f"bold {WARN}"))
    if (bad := state.in_trouble) is not None:
        judged = Text(f"{count(bad)} in trouble (!)", f"bold {BAD}") if bad else NO_TROUBLE
        sums = ((f" · {words}", DIM) for words in state.sums[:figures])
        said.append(Text.assemble(judged, *sums))
    if state.read_only:
        said.append(Text("read-only", WARN))
    if state.frozen_s is not None:
        said.append(Text(f"FROZEN {age(1000 * state.frozen_s)} (z)", f"bold {WARN}"))
    if state.server:
        said.append(Text(state.server, f"bold {WARN}"))
    if state.login_refused:
        said.append(Text("LOGIN REFUSED", f"bold {BAD}"))
    if state.stale_s is not None:
        said.append(Text(f"stale {age(1000 * state.stale_s)}", f"bold {BAD}"))
    if state.now_ms is not None:
        when = datetime.fromtimestamp(state.now_ms / 1000, UTC).astimezone(state.zone)
        said.append(Text(when.strftime("%H:%M:%S %Z"), DIM if state.stale_s is not None else OK))
    elif state.failing:
        said.append(Text("no answer", f"bold {BAD}"))
    return Text("  ").join(said).append(" ")


class FixedText(Static):
    """A text in a region of fixed size: a new text needs no layout."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._text = ""

    def show(self, text: str) -> None:
        """Draw the text, unless it is drawn already."""
        if text != self._text:
            self._text = text
            self.update(text, layout=False)


@dataclass(frozen=True, slots=True)
class TabsState:
    """The open view, and the queue whose views are listed."""

    view: View = "overview"
    queue: ListedQueue | None = None
    counts: Counts | None = None


class Tabs(Widget):
    """The views that the queue has, by their keys, with the number of their entries."""

    DEFAULT_CSS = "Tabs { height: 1; background: $surface; }"
    ALLOW_SELECT = False
    state: reactive[TabsState] = reactive(TabsState())

    @dataclass(eq=False)
    class Chosen(Message):
        """A click on a view's name."""

        view: View

    def render(self) -> Text:
        tabs = (tab for _, tab in self._drawn())
        return Text("", no_wrap=True, overflow="crop", end="").join(tabs)

    def on_click(self, event: Click) -> None:
        right = 0
        for view, tab in self._drawn():
            right += tab.cell_len
            if event.x < right:
                self.post_message(self.Chosen(view.name_))
                return

    def _drawn(self) -> list[tuple[type[QueueView], Text]]:
        """The longest titles that fit, each with its view; counts are never left out."""
        short = [view.short for view in ALL]
        beside = {view for view in ALL if view.of_all_queues and view.name_ != "overview"}
        of_digits = [v.short if key.isdigit() or v in beside else "" for key, v in numbered()]
        of_states = [view.short if view.state or view in beside else "" for view in ALL]
        for titles in ([view.title for view in ALL], short, of_digits, of_states, [""] * len(ALL)):
            tabs = list(self._tabs(titles))
            if sum(tab.cell_len for _, tab in tabs) <= self.size.width:
                break
        return tabs

    def _tabs(self, titles: Sequence[str]) -> Iterable[tuple[type[QueueView], Text]]:
        current, queue, counts = self.state.view, self.state.queue, self.state.counts
        here = next(view for view in ALL if view.name_ == current)
        there = [
            (digit, view, title)
            for (digit, view), title in zip(numbered(), titles, strict=True)
            if view.name_ == current or view.offered_by(queue)
            # The tabs of a queue have room for one way up.
            if here.of_all_queues or not view.of_all_queues or view.name_ == "overview"
        ]
        for (digit, view, title), following in zip(there, [*there[1:], None], strict=True):
            title = title or (view.short if view.name_ == current else "")
            words = f" {digit} {title}".rstrip()
            number = getattr(counts, view.state) if counts and view.state else 0
            words += f" {short_count(number)}" if number else ""
            # Tabs without a title have no space between them, except before the coloured open view.
            alone = len(words) == 2 and not (following and following[1].name_ == current)
            words += "" if alone else " "
            style = f"bold {INK} on {HELD}" if view.name_ == current else ""
            yield view, Text(words, style)
