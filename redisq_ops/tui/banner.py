"""The two lines on top: the server, queue and age of the data; and the list of views."""

from __future__ import annotations

from collections.abc import Iterable
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
    sound: bool = False
    """whether all queues were judged, so that no trouble means that there is none"""
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


_LEFT = 30
"""columns that the sums leave for the server's name"""
_MORE = " ? more"
"""stands for the views for which there is no room: the help lists them"""


class Banner(Widget):
    """Server and queue on the left, cut if too long; flags, staleness and time on the right."""

    DEFAULT_CSS = "Banner { height: 1; background: $panel; }"
    ALLOW_SELECT = False
    state: reactive[State] = reactive(State())

    class TroubleClicked(Message):
        """A click on the number of queues in trouble."""

    def on_click(self, event: Click) -> None:
        # It is the first part on the right: an overview is neither paused nor draining.
        begins = self.size.width - self._shown_right().cell_len
        if 0 <= event.x - begins < _judged(self.state).cell_len:
            self.post_message(self.TroubleClicked())

    def _shown_right(self) -> Text:
        """The right part with as many figures as there is room for."""
        figures = len(self.state.sums)
        while (right := _right(self.state, figures)).cell_len > self.size.width - _LEFT and figures:
            figures -= 1
        return right

    def render(self) -> Text:
        left, width, right = _left(self.state), self.size.width, self._shown_right()
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
    if judged := _judged(state):
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


def _judged(state: State) -> Text:
    """How many queues are in trouble; empty: unknown."""
    if state.in_trouble is None:
        return Text()
    if state.in_trouble:
        return Text(f"{count(state.in_trouble)} in trouble (!)", f"bold {BAD}")
    return Text("no trouble", OK) if state.sound else Text("no trouble known", DIM)


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
    """The views that the queue has: their keys, titles and numbers of entries."""

    DEFAULT_CSS = "Tabs { height: 1; background: $surface; }"
    ALLOW_SELECT = False
    state: reactive[TabsState] = reactive(TabsState())

    @dataclass(eq=False)
    class Chosen(Message):
        """A click on a view's name."""

        view: View

    def render(self) -> Text:
        tabs = [tab for _, tab in self._drawn()]
        text = Text("", no_wrap=True, overflow="crop", end="").join(tabs)
        return text.append(_MORE, DIM) if len(tabs) < len(list(self._tabs())) else text

    def on_click(self, event: Click) -> None:
        right = 0
        for view, tab in self._drawn():
            right += tab.cell_len
            if event.x < right:
                self.post_message(self.Chosen(view.name_))
                return

    def _drawn(self) -> list[tuple[type[QueueView], Text]]:
        """The views, by their longest titles that fit. Where even the short ones don't, some are
        left out, from the right: first those without a number, never the first or the open one."""
        tabs = list(self._tabs())
        if _width(tabs) > self.size.width:
            tabs = list(self._tabs(short=True))
        room = self.size.width
        while len(tabs) > 2 and _width(tabs) > room:
            room = self.size.width - len(_MORE)
            closed = [tab for tab in tabs[1:] if tab[0].name_ != self.state.view]
            tabs.remove(next((tab for tab in closed[::-1] if not self._number(tab[0])), closed[-1]))
        return tabs

    def _number(self, view: type[QueueView]) -> int:
        """How many entries are in the state that a view lists; 0 if it lists none."""
        number: int = getattr(self.state.counts, view.state, 0) if view.state else 0
        return number

    def _tabs(self, short: bool = False) -> Iterable[tuple[type[QueueView], Text]]:
        here = next(view for view in ALL if view.name_ == self.state.view)
        for key, view in numbered():
            is_open = view is here
            # Of the views of all queues, the tabs of a queue have only the overview.
            beside = here.of_all_queues or not view.of_all_queues or view is ALL[0]
            if is_open or (beside and view.offered_by(self.state.queue)):
                number = self._number(view)
                words = f" {key} {view.short if short else view.title} "
                words += f"{short_count(number)} " if number else ""
                yield view, Text(words, f"bold {INK} on {HELD}" if is_open else "")


def _width(tabs: Iterable[tuple[type[QueueView], Text]]) -> int:
    return sum(tab.cell_len for _, tab in tabs)
