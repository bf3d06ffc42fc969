"""The tasks of a queue: how often each ran and failed, how long it took, its latest error.

The figures are the owner's, where it counts its tasks (`HasTaskMetrics`). Elsewhere they are of the
latest done and dead entries, and of ours of the minute counters and the history. A `TaskReader`
that is kept, by the dashboard or a recording, remembers the runs that it saw: its window reaches
back further than what the owner keeps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from redisq_ops.core.engine.optional_features import HasDoneEntries, HasTaskMetrics
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.task_counts import task_counts
from redisq_ops.core.model.entry import Counts, Entry, Event, Failure, State
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.model.task_figures import TaskFigures, TaskReport, Times, quantile
from redisq_ops.core.redis.operation import attempt, together

from ..filter.fields import FIELDS, Field
from ..filter.filter import Filter
from ..filter.scan import Scan
from ..groups.value_counts import shown
from ..redaction import NO_REDACTION, Redaction
from ..terminal import age, count, quantity, took
from .overview import problem_text

LATEST: Final = 500
"""entries of a state that are read, and events of the history"""
KEPT: Final = 2_000
"""runs of a queue that a reader remembers"""
HOUR_MS: Final = 3_600_000
MOST_MS: Final = 24 * HOUR_MS
"""the longest window: minute counters are kept so long"""
PAGES: Final = 10
"""reads of a state, at most: a page of large entries has few"""
SCANS: Final = 2
"""the same where no key lists the entries: each scans 20,000 keys"""
EARLIER: Final = (
    "not counted: {} of these tasks before that time, as what succeeded then is no longer kept"
)
ERRORS_IN: Final[tuple[State, ...]] = ("delayed", "dead")
_TASK: Final = FIELDS["task"]


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that ended, as its entry told."""

    id: str
    task: str | None
    ended_ms: int
    failed: bool
    run_ms: int | None
    error: Failure | None


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a state."""

    runs: tuple[_Run, ...] = ()
    words: str = ""
    """how much of it, in words; empty: nothing is kept there"""
    begins_ms: int | None = None
    """from when on all runs are in it, if it doesn't have all; None: it has all"""
    ordered: bool = True
    """False: which runs are missing is unknown"""
    problem: str = ""


@dataclass(slots=True)
class _Sum:
    """The runs of a task."""

    done: int = 0
    failed: int = 0
    times: list[int] = field(default_factory=list)
    latest: _Run | None = None
    """the latest one with an error"""

    def add(self, run: _Run) -> None:
        self.failed += run.failed
        self.done += not run.failed
        if run.run_ms is not None and not run.failed:
            self.times.append(run.run_ms)
        if run.error is not None and (self.latest is None or run.ended_ms >= self.latest.ended_ms):
            self.latest = run

    def figures(self, task: str | None, *, counted: bool) -> TaskFigures:
        latest = self.latest
        return TaskFigures(
            task,
            self.done + self.failed if counted else None,
            self.failed,
            quantile(self.times, 0.5),
            quantile(self.times, 0.95),
            len(self.times),
            None if latest is None else latest.error,
            None if latest is None else latest.ended_ms,
        )


class TaskReader:
    """Reads the tasks of a queue in the last ``span_ms``; ``by``: the field that names an entry's
    task, where its owner doesn't."""

    def __init__(
        self,
        queue: Queue[Any],
        span_ms: int = HOUR_MS,
        by: Field = _TASK,
        redaction: Redaction = NO_REDACTION,
    ) -> None:
        self.queue = queue
        self._span_ms = span_ms
        self._by = by
        self._redaction = redaction
        self._runs: dict[_Run, None] = {}
        """runs that were seen, in the order in which they were read"""
        self._since_ms: int | None = None
        """from when on all runs were seen"""

    async def read(self, now_ms: int) -> TaskReport:
        """In at most three round trips, and one for each page of the entries that are read."""
        counts: Counts = await self.queue.counts.op(now_ms)
        reads, owner, ours = await together(
            together(self._state(state, counts, now_ms) for state in ("done", *ERRORS_IN)),
            self._by_owner(now_ms),
            self._by_counters(now_ms),
        )
        done, delayed, dead = reads
        if isinstance(owner, Exception):
            done = replace(done, problem=problem_text(owner))
            owner = None
        found = owner or ours or self._by_entries(done, dead, now_ms)
        errors = _sums((*delayed.runs, *dead.runs))
        figures = found.tasks
        if owner is None and ours is not None:
            figures += tuple(
                replace(sum.figures(task, counted=False), failed=None)
                for task, sum in errors.items()
                if task is not None and task not in {one.task for one in found.tasks}
            )
        figures = tuple(self._redacted(_with_error(one, errors)) for one in figures)
        problems = dict.fromkeys(read.problem for read in reads if read.problem)
        unknown = not figures or any(
            one.ended is None or (one.p50_ms is None and one.ended != one.failed) for one in figures
        )
        note = (self.queue.task_figures,) if unknown else ()
        return replace(
            found,
            tasks=tuple(sorted(figures, key=_rank)),
            remarks=(*found.remarks, *problems, *filter(None, note)),
        )

    # --- sources ---------------------------------------------------------------------------------

    async def _by_owner(self, now_ms: int) -> TaskReport | Exception | None:
        if not isinstance(self.queue, HasTaskMetrics) or self._by != _TASK:
            return None
        return await attempt(self.queue.task_metrics.op(now_ms, self._span_ms // 60_000))

    async def _by_counters(self, now_ms: int) -> TaskReport | None:
        """The runs of a queue of ours, by task where its workers count them so; None: of another
        program's, and where nobody counts."""
        if self.queue.owner:
            return None
        minutes = max(1, self._span_ms // 60_000)
        if self._by == _TASK and (counted := await task_counts(self.queue, now_ms, minutes)):
            return counted
        rates, events = await together(
            self.queue.rates.op(now_ms, minutes), self.queue.history.op(LATEST)
        )
        return _of_counters(rates, events, now_ms) if rates.counted else None

    async def _state(self, state: State, counts: Counts, now_ms: int) -> _Read:
        """The latest entries of a state; of delayed ones the first, which were tried before."""
        number = counts.of(state)
        if number == 0 or (state == "done" and not isinstance(self.queue, HasDoneEntries)):
            return _Read()
        backwards = number is not None and state != "delayed"
        window = -LATEST if backwards else LATEST
        needs = frozenset({self._by.need} if self._by.need else ())
        filter = Filter(window=window)
        scan = Scan(self.queue, state, filter, now_ms, needs=needs, partly=True, counts=counts)
        entries = list[Entry]()
        for _ in range(SCANS if number is None else PAGES):
            page = await attempt(scan.step())
            if isinstance(page, Exception):
                return _Read(problem=f"{state} entries: {problem_text(page)}")
            entries += page
            if scan.over:
                break
        runs = tuple(run for entry in entries if (run := self._run(entry, scan)) is not None)
        whole = scan.over and (scan.complete if number is None else scan.read_all)
        begins = None if whole else min((run.ended_ms for run in runs), default=now_ms)
        which = "all" if whole else "the latest" if backwards else "some"
        of = "" if number is None or whole else f" of {count(number)}"
        words = f"{which} {count(len(entries))}{of} {state}" if entries else ""
        return _Read(runs, words, begins, backwards or whole, scan.unread)

    def _run(self, entry: Entry, scan: Scan) -> _Run | None:
        if entry.problem or entry.since_ms is None:
            return None
        task = shown(self._by.read(scan.fields(entry)))
        failed = entry.state != "done"
        return _Run(entry.id, task, entry.since_ms, failed, entry.run_ms, entry.error)

    def _by_entries(self, done: _Read, dead: _Read, now_ms: int) -> TaskReport:
        """What done and dead entries tell, with those that were seen before."""
        ordered, begin = done.ordered and dead.ordered, now_ms - self._span_ms
        since = begin
        if ordered:
            since = max(begin, dead.begins_ms or 0)
            if done.runs:  # its owner may keep no older ones
                since = max(since, min(run.ended_ms for run in done.runs))
            if self._since_ms is not None and self._joins(done) and self._joins(dead):
                since = max(begin, min(since, self._since_ms))
        seen = dict.fromkeys((*done.runs, *dead.runs))
        self._runs |= seen
        kept = sorted(self._runs, key=lambda run: run.ended_ms)[-KEPT:]
        if len(kept) < len(self._runs):
            since = max(since, kept[0].ended_ms)
        self._runs = dict.fromkeys(run for run in kept if run.ended_ms >= since)
        self._since_ms = since
        sums = _sums(self._runs)
        # Of a task without a success nobody knows whether its owner keeps any.
        counted = {run.task for run in kept if not run.failed}
        remembered = not self._runs.keys() <= seen.keys()
        words = [read.words for read in (done, dead) if read.words]
        words += [f"{count(len(self._runs))} seen before and now"] if remembered else []
        source = f"{' and '.join(words)} entries" if words else "no done or dead entries"
        left_out = {run for run in dead.runs if begin <= run.ended_ms < since and run.task in sums}
        remarks = (EARLIER.format(quantity(len(left_out), "failed run")),) if left_out else ()
        figures = [sum.figures(task, counted=task in counted) for task, sum in sums.items()]
        # Tasks that failed only before the window: how often they ran then is unknown.
        before = _sums(
            run for run in dead.runs if begin <= run.ended_ms < since and run.task not in sums
        )
        figures += [sum.figures(task, counted=False) for task, sum in before.items()]
        begins = since if ordered else None
        return TaskReport(source, begins, now_ms, tuple(figures), remarks=remarks)

    def _joins(self, read: _Read) -> bool:
        """Whether no run can be missing between those seen before and these."""
        oldest = min(read.runs, key=lambda run: run.ended_ms, default=None)
        return oldest is None or oldest in self._runs or (oldest.failed and read.begins_ms is None)

    def _redacted(self, figures: TaskFigures) -> TaskFigures:
        hide, error = self._redaction.text, figures.error
        if error is not None:
            error = Failure(hide(error.type), hide(error.message))
        return replace(figures, task=figures.task and hide(figures.task), error=error)


def _sums(runs: Iterable[_Run]) -> defaultdict[str | None, _Sum]:
    """The runs by task."""
    sums: defaultdict[str | None, _Sum] = defaultdict(_Sum)
    for run in runs:
        sums[run.task].add(run)
    return sums


def _of_counters(rates: Rates, events: Sequence[Event], now_ms: int) -> TaskReport:
    since = (now_ms // 60_000 - len(rates.settled) + 1) * 60_000
    times = [
        int(took)
        for event in events
        if event.at_ms >= since
        for item in event.what.get("done", ())
        if (took := item.rpartition("|")[2]).isdigit()
    ]
    failed = sum(rates.failed)
    ended = sum(rates.settled) + failed
    p50, p95 = quantile(times, 0.5), quantile(times, 0.95)
    every = TaskFigures(None, ended, failed, p50, p95, len(times), every=True)
    source = "the queue's counters by the minute, of all tasks; each attempt is a run"
    if times:
        source += f"; run times of the history's latest {count(len(events))} events"
    return TaskReport(source, since, now_ms, (every,))


def _with_error(figures: TaskFigures, errors: dict[str | None, _Sum]) -> TaskFigures:
    """With the latest error of the task; of all tasks, for a figure of every run."""
    sums: Iterable[_Sum | None] = errors.values() if figures.every else (errors.get(figures.task),)
    latest = [one.latest for one in sums if one is not None and one.latest is not None]
    if not latest:
        return figures
    run = max(latest, key=lambda run: run.ended_ms)
    if figures.error_ms is not None and figures.error_ms > run.ended_ms:
        return figures
    return replace(figures, error=run.error, error_ms=run.ended_ms)


def _rank(figures: TaskFigures) -> tuple[bool, int, int, str]:
    failed = figures.failed or 0
    return not figures.every, -(figures.ended or failed), -failed, figures.task or ""


def rate_words(per_min: float | None) -> str | None:
    if per_min is None:
        return None
    return f"{per_min:,.1f}" if per_min < 100 else count(round(per_min))


def time_words(ms: int | None, times: Times | None) -> str | None:
    """A quantile; the bound of a bucket as ``≤ 150 ms``."""
    return None if ms is None else f"{'≤ ' if times == 'at most' else ''}{took(ms)}"


def window_words(report: TaskReport) -> str:
    """The source and its window, as people see it."""
    if report.since_ms is None:
        return f"{report.source}; since when is unknown, and so are rates"
    words = f"{report.source}, {age(report.until_ms - report.since_ms)}"
    if not report.marks:
        return words
    latest = report.marks[-1]
    return f"{words}; since {latest.label} {age(report.until_ms - latest.at_ms)}"
