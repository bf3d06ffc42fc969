"""The two lines on top: where we are and whether it is true, and the views there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from redisq_ops.ops.inspect.snapshot import Snapshot, View
from redisq_ops.ops.terminal import age, count, printable, short_count
from redisq_ops.tui.theme import BAD, DIM, HELD, INK, OK, WARN
from redisq_ops.tui.views import ALL


@dataclass(frozen=True, slots=True)
class State:
    """All that the header says."""

    label: str = ""
    queue: str | None = None
    snapshot: Snapshot | None = None
    read_only: bool = False
    stale_s: int | None = None
    """seconds since the last picture, when that is too long ago"""
    failing: bool = False
    """the latest look brought an error"""
    zone: tzinfo | None = None
    word: str = ""
    """which context this is"""
    color: str = ""
    in_trouble: int | None = None
    """queues in trouble; None: not looked at now"""


class Banner(Widget):
    """Server and queue on the left; flags, staleness and time on the right, which never yield."""

    DEFAULT_CSS = "Banner { height: 1; background: $panel; }"
    ALLOW_SELECT = False
    state: reactive[State] = reactive(State())

    def render(self) -> Text:
        left, right = _left(self.state), _right(self.state)
        width = self.size.width
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
        text.append("  " + printable(state.queue), f"bold {HELD}")
        if state.snapshot is not None and (queue := state.snapshot.queue):
            text.append(f" {queue.kind}", DIM)
    text.append("  " + (printable(state.label) or "connecting …"), DIM)
    return text


def _right(state: State) -> Text:
    said: list[tuple[str, str]] = []
    snapshot = state.snapshot
    if snapshot is not None and snapshot.counts is not None:
        if snapshot.counts.paused is not None:
            said.append(("PAUSED", f"bold {WARN}"))
        if snapshot.counts.closed is not None:
            said.append(("DRAINING", f"bold {WARN}"))
    if state.in_trouble is not None:
        words = f"{count(state.in_trouble)} in trouble (!)" if state.in_trouble else "no trouble"
        said.append((words, f"bold {BAD}" if state.in_trouble else OK))
    if state.read_only:
        said.append(("read-only", WARN))
    if state.stale_s is not None:
        said.append((f"stale {age(1000 * state.stale_s)}", f"bold {BAD}"))
    if snapshot is not None:
        when = datetime.fromtimestamp(snapshot.now_ms / 1000, UTC).astimezone(state.zone)
        said.append((when.strftime("%H:%M:%S %Z"), DIM if state.stale_s is not None else OK))
    elif state.failing:
        said.append(("no answer", f"bold {BAD}"))
    return Text("  ").join(Text(*words) for words in said).append(" ")


class Tabs(Widget):
    """The views by their keys; those the queue can't offer are dim."""

    DEFAULT_CSS = "Tabs { height: 1; background: $surface; }"
    ALLOW_SELECT = False
    state: reactive[tuple[View, Snapshot | None]] = reactive[tuple[View, Snapshot | None]](
        ("overview", None)
    )

    class Chosen(Message):
        """A click on a view's name."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view = view

    def render(self) -> Text:
        return Text("", no_wrap=True, overflow="crop", end="").join(self._drawn())

    def on_click(self, event: Click) -> None:
        right = 0
        for view, tab in zip(ALL, self._drawn(), strict=True):
            right += tab.cell_len
            if event.x < right:
                self.post_message(self.Chosen(view.name_))
                return

    def _drawn(self) -> list[Text]:
        tabs = list(self._tabs(long=True))
        fits = sum(tab.cell_len for tab in tabs) <= self.size.width
        return tabs if fits else list(self._tabs(long=False))

    def _tabs(self, long: bool) -> Iterable[Text]:
        current, snapshot = self.state
        queue = snapshot.queue if snapshot else None
        for key, view in enumerate(ALL, 1):
            offered = view.name_ == "overview" or (
                queue is not None and (view.needs is None or view.needs in queue.features)
            )
            style = "" if offered else DIM
            if view.name_ == current:
                style = f"bold {INK} on {HELD}"
            counts = snapshot.counts if snapshot else None
            number = getattr(counts, view.state) if counts and view.state else 0
            words = f" {key} {view.title} " if long or view.name_ == current else f" {key} "
            if number and long:
                words += f"{short_count(number)} "
            yield Text(words, style)
