"""The dashboard on a recording: keys move through the time; nothing can be changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from operator import add
from pathlib import Path
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from redisq_ops.core.model.activity import Activity
from redisq_ops.core.model.entry import STATES, Counts
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.model.rates import Rates
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import QueueRow
from redisq_ops.ops.inspect.snapshot import ChartData, ListedQueue, Snapshot, Viewport
from redisq_ops.ops.recording.file import RecordedState, span_ms, state_at
from redisq_ops.ops.recording.history import SAMPLES_MS, RecordedHistory, RecordedPoint
from redisq_ops.ops.recording.playback import recorded_operations, recorded_reports
from redisq_ops.ops.terminal import printable
from redisq_ops.ops.trouble.finding import USUAL
from redisq_ops.tui.app import Top
from redisq_ops.tui.poller import Connected
from redisq_ops.tui.samples import DAY, MINUTE_MS, Sample, Samples

RECORDED: Final = "overview", "consumers", "log", "charts", "tasks"
"""views that a recording can show"""
STEP_MS: Final = 10_000
LEAP_MS: Final = 300_000
_BAR: Final = 40
"""cells of the timeline's bar"""
_SHORT: Final = 10
"""its cells on a narrow terminal"""
_PAST: Final = "this is a recording: nothing can be changed."


class Replay:
    """Snapshots of a recording. ``at_ms``: the time shown; ``playing``: that time moves on."""

    warning: str | None = None

    def __init__(
        self, path: Path, at_ms: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``at_ms``: None means the end. Raises `BadInput` for a file without a sample."""
        self.path = path
        self.begin_ms, self.end_ms = span_ms(path)
        self.history = RecordedHistory(path)
        self.at_ms = self.end_ms if at_ms is None else at_ms
        self.playing = False
        self._clock, self._looked = clock, clock()
        self.connected: Connected | None = Connected(
            str(path), Deployment(), read_only=True, word="PAST"
        )

    def scrub(self, ms: int) -> None:
        """Move the time shown by ``ms``, within the recording."""
        self.at_ms = max(self.begin_ms, min(self.end_ms, self.at_ms + ms))

    async def look(self, viewport: Viewport) -> Snapshot:
        now = self._clock()
        if self.playing:
            self.scrub(int(1000 * (now - self._looked)))
            self.playing = self.at_ms < self.end_ms
        self._looked = now
        state = state_at(self.path, self.at_ms)
        if state is None:
            raise NotFound(f"{self.path} begins later")
        viewport = replace(viewport, explain=None, detail=None)
        earlier = max(self.begin_ms, self.at_ms - USUAL.minutes * MINUTE_MS)
        before = state_at(self.path, earlier)
        return _snapshot(state, before, viewport, self.at_ms, self.history)

    async def close(self) -> None:
        """Does nothing: no connection is open."""


class RecordedSamples(Samples):
    """The recording's samples before the time shown, for the charts."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self._replay = replay

    def live(self, queue: str | None) -> list[Sample]:
        found, arrived, settled, failed = list[Sample](), 0.0, 0.0, 0.0
        for point in self._replay.history.by_sample(queue, self._replay.at_ms, SAMPLES_MS):
            rates = [rate for rate in point.rates if rate is not None]
            counted = len(rates) == len(point.rates)
            if found and counted:
                minutes = (point.at_ms - found[-1].at_ms) / MINUTE_MS
                each = (rate * minutes for rate in rates)
                arrived, settled, failed = map(add, (arrived, settled, failed), each)
            passed = (arrived, settled, failed) if counted else None
            found.append(Sample(point.at_ms, point.waiting, _age(point), passed))
        return found

    def by_minute(self, queue: str | None) -> list[tuple[int, int | None, int | None]]:
        points = self._replay.history.by_minute(queue, self._replay.at_ms, DAY)
        return [(point.at_ms // MINUTE_MS, point.waiting, _age(point)) for point in points]

    def record(self, snapshot: Snapshot) -> None:
        """Keep nothing: the recording has all samples."""


def _age(point: RecordedPoint) -> int | None:
    return None if point.oldest_ms is None else max(0, point.at_ms - point.oldest_ms)


class ReplayTop(Top):
    """The dashboard on a `Replay`, with a time line; ``[`` and ``]`` scrub, Space plays."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(key, f"scrub({ms})", words, show=False, priority=True)
            for key, ms, words in (
                ("left_square_bracket", -STEP_MS, "10 s back"),
                ("right_square_bracket", STEP_MS, "10 s on"),
                ("left_curly_bracket", -LEAP_MS, "5 min back"),
                ("right_curly_bracket", LEAP_MS, "5 min on"),
            )
        ),
        Binding("space", "play", "Play or stop", show=False, priority=True),
    ]

    def __init__(self, replay: Replay, **options: Any) -> None:
        super().__init__(replay, **options)
        self.replay = replay
        self.charts.samples = RecordedSamples(replay)
        self._timeline = Static(id="timeline", markup=False)

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            yield widget
            if widget is self.bars.tabs:
                yield self._timeline

    def tick(self) -> None:
        super().tick()
        self._timeline.update(printable(timeline(self.replay, self.zone, self.size.width)))

    def action_scrub(self, ms: int) -> None:
        self.replay.scrub(ms)
        self.poller.wake()
        self.tick()

    def action_play(self) -> None:
        self.replay.playing = not self.replay.playing
        self.poller.wake()
        self.tick()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("scrub", "play"):
            return self.focused not in (self.field, self.command) and len(self.screen_stack) == 1
        return super().check_action(action, parameters)

    def forbidden(self, action: str) -> str:
        if action in ("command", "explain", "scan"):
            return _PAST
        return _PAST if super().forbidden(action) else ""

    def why_unfit(self, action: str, parameters: tuple[object, ...]) -> str:
        """First that this is a recording: no hint to another view, where a change fails too."""
        return self.forbidden(action) or super().why_unfit(action, parameters)

    def action_command_palette(self) -> None:
        """Refused, as it offers commands."""
        self.refuse(_PAST)

    def action_page(self) -> None:
        self.refuse("a recording has no payloads.")

    def action_marked(self) -> None:
        self.refuse("a recording has no marks.")


def timeline(replay: Replay, zone: tzinfo | None, width: int = 140) -> str:
    """A line with the time shown, a bar of the recording, and the keys that move; a narrow line
    has a shorter bar, without the times of its ends."""

    def clock(ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone).strftime("%H:%M:%S")

    day = datetime.fromtimestamp(replay.at_ms / 1000, UTC).astimezone(zone).strftime("%Y-%m-%d")
    how, other = ("playing", "stops") if replay.playing else ("stopped", "plays")
    head = f" PAST {day} {clock(replay.at_ms)} {how}  "
    keys = f"  [ ] 10 s  {{ }} 5 min  Space {other}"
    begin, end = f"{clock(replay.begin_ms)} ", f" {clock(replay.end_ms)}"
    room = width - len(head + keys)
    if room < len(begin + end) + _SHORT:
        begin = end = ""
    cells = max(_SHORT, min(_BAR, room - len(begin + end)))
    length = max(1, replay.end_ms - replay.begin_ms)
    place = round((cells - 1) * (replay.at_ms - replay.begin_ms) / length)
    bar = "─" * place + "●" + "─" * (cells - 1 - place)
    return f"{head}{begin}{bar}{end}{keys}"


def _snapshot(
    state: RecordedState,
    before: RecordedState | None,
    viewport: Viewport,
    at_ms: int,
    history: RecordedHistory,
) -> Snapshot:
    rows = [state.queues[name] for name in sorted(state.queues)]
    queues = tuple(ListedQueue(row["name"], row["kind"], has_settings=False) for row in rows)
    bare = Snapshot(viewport, at_ms, queues)
    if state.lost is not None:  # the figures are from before
        why = f"the server could not be read at that moment: {state.lost}"
        return replace(bare, problem=why)
    if viewport.view == "overview":
        return replace(bare, overview=tuple(_rows(rows, before)))
    charts = viewport.view == "charts"
    if viewport.view == "dead-all":
        return replace(bare, problem="dead letters: not recorded")
    queue = None if charts and viewport.charts.all_queues else viewport.queue
    operations = tuple(recorded_operations(state, () if queue is None else (queue,)))
    if charts:
        rates = history.rates(queue, at_ms, viewport.charts.minutes)
        bare = replace(bare, charts=ChartData(viewport.charts, rates, operations))
        if queue is None:
            return replace(bare, overview=tuple(_rows(rows, before)))
    row = state.queues.get(viewport.queue or "")
    if row is None:
        return replace(bare, problem=f"no queue {viewport.queue!r} at that moment")
    if viewport.view not in RECORDED:
        return replace(bare, problem=f"{viewport.view}: not recorded")
    return replace(
        bare,
        counts=_counts(row),
        reports=tuple(recorded_reports(state, () if viewport.queue is None else (viewport.queue,))),
        operations=operations,
        total=len(operations),
        tasks=state.tasks.get(row["name"]),
    )


def _rows(rows: Iterable[dict[str, Any]], before: RecordedState | None) -> Iterable[QueueRow]:
    """Rows of the overview; recent deaths are computed from the dead entries of ``before``."""
    earlier = {} if before is None or before.lost is not None else before.queues
    for row in rows:
        then, dead = earlier.get(row["name"], {}).get("dead"), row["dead"]
        died = None if then is None or dead is None else max(0, dead - then)
        minute = [row[f"{what}_per_min"] for what in ("in", "out", "failed")]
        known = minute[1:] != [None, None]
        rates = Rates(*(() if n is None else (n,) for n in minute)) if known else None
        periodic = row["periodic"], row["periodic_overdue"]
        yield QueueRow(
            row["name"],
            row["kind"],
            _counts(row),
            rates,
            row["problem"],
            tuple(row["unfinished"]),
            Activity(dead_lately=died),
            periodic=None if periodic == (None, None) else periodic,
        )


def _counts(row: dict[str, Any]) -> Counts | None:
    unknown = frozenset(state for state in STATES if row[state] is None)
    if len(unknown) == len(STATES):
        return None
    numbers: dict[str, Any] = {state: row[state] or 0 for state in STATES}
    return Counts(
        **numbers,
        oldest_ms=row["oldest_ms"],
        paused=row["paused"],
        closed=row["draining"],
        unknown=unknown,
    )
