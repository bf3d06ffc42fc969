"""JSON about changes: plans, outcomes, the audit log, the history, files of entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NotRequired, TypedDict

from redisq_ops.core.model.entry import Event
from redisq_ops.core.model.row_fields import INLINE, Duration, Size, Text, Time
from redisq_ops.ops.change.outcome import ChangeOutcome


class EditSample(TypedDict):
    id: str
    """entry"""
    diff: list[Text]
    """what would change"""
    unfit: Text | None
    """why it would stay as it is"""
    redacted: bool
    """whether the difference is hidden"""


class Consequences(TypedDict):
    count: int
    """entries"""
    scanned: int
    """entries the breakdowns are made of"""
    clients: dict[str, int]
    """client → entries; the 20 most frequent, then `other`"""
    priorities: dict[str, int]
    """priority → entries"""
    errors: dict[str, int]
    """error group → entries"""
    error_types: dict[str, str | None]
    """error group → type of the error"""
    ages: dict[str, int]
    """age class → entries"""
    bytes: Size | None
    """size of the payloads"""
    weighed: int
    """payloads the size rests on; fewer than `count`: an estimate"""
    waiting: int | None
    """entries that wait already"""
    settled_a_minute: float | None
    """entries settled per minute in the last hour"""
    drain_ms: Duration | None
    """estimate: when all that waits will be done"""
    calls: int
    """estimate: calls to the server"""
    server_ms: Duration
    """estimate: server time"""
    fairness: Text | None
    """effect on other clients of a fair queue"""
    asked: int | None
    """how many of the first entries the queue was asked about; `null`: it could not be asked"""
    skips: dict[str, int]
    """reason → entries, of these, that the change would skip now"""


class PlanOutput(TypedDict):
    """Printed instead of the outcome with `--dry-run`, with `--plan FILE`, and without `--yes`
    where there is no terminal (exit code 5)."""

    plan: Text
    """what would be done"""
    verb: str
    """the change"""
    queue: NotRequired[str]
    """only changes in one queue: queue"""
    matched: int
    """entries (or requests, settings, workers) that would change"""
    state: NotRequired[str]
    """only changes of entries: state of the entries"""
    filter: NotRequired[str]
    """only changes of entries: which entries"""
    reasons: NotRequired[dict[str, int]]
    """only changes of dead letters: reason → number"""
    sample: NotRequired[list[str] | list[EditSample]]
    """only changes of entries: up to ten entries"""
    into: NotRequired[str]
    """only `move`: target queue"""
    changes: NotRequired[int]
    """only `edit`: entries that would change"""
    settings: NotRequired[dict[str, str]]
    """only `settings`: setting → new value"""
    stay: NotRequired[dict[str, int]]
    """only `edit`: reason → entries that would stay as they are"""
    request: NotRequired[str]
    """only `request …`: request"""
    client: NotRequired[str]
    """only `client …`: client"""
    periodic: NotRequired[str]
    """only `periodic …`: periodic entry"""
    next_ms: NotRequired[Time | None]
    """only `periodic …`: its next run afterwards; null: none, or its program sets it later"""
    value: NotRequired[int | None]
    """only `request …`, `client …`: new value"""
    entries: NotRequired[int]
    """only `request cancel`, `queue rm`, `dlq acknowledge`: entries affected"""
    until_ms: NotRequired[Time | None]
    """only `dlq acknowledge`: from when its dead letters are trouble again; null: never"""
    hard: NotRequired[bool]
    """only `queue rm`"""
    group: NotRequired[str | None]
    """only `consumers …`, `group …`: group"""
    consumer: NotRequired[str]
    """only `consumers …`: consumer whose entries are taken over"""
    to: NotRequired[str | None]
    """only `consumers …`: consumer that receives them; `group …`: id behind which it goes on, or up
    to which entries go"""
    was: NotRequired[str | None]
    """only `group …`: id behind which it goes on so far; null: there is no such group"""
    left_out: NotRequired[int]
    """only `consumers …`: entries held for less than `--min-idle`"""
    groups: NotRequired[int]
    """only `consumers …`: groups affected"""
    queues: NotRequired[list[str]]
    """only `discover --register`: queues that would be registered"""
    processes: NotRequired[list[str]]
    """only `workers rm`: processes"""
    jobs: NotRequired[int]
    """only `workers rm`: jobs they hold"""
    target: NotRequired[str]
    """only commands to workers: the worker; of `pending stop`, the job"""
    rescue: NotRequired[bool]
    """only `workers rm`: whether these would be put back"""
    file: NotRequired[str]
    """only `--plan`, `apply`: plan file"""
    op: NotRequired[str]
    """only `--plan`, `apply`, `undo`: operation"""
    before: NotRequired[int]
    """only `apply`: entries dealt with by earlier runs"""
    planned_ms: NotRequired[Time]
    """only `apply`: when the plan was made"""
    planned_by: NotRequired[str]
    """only `apply`: by whom"""
    now: NotRequired[dict[str, int]]
    """only `apply --dry-run`: state, or reason to skip → entries"""
    untouched: NotRequired[int | None]
    """only `undo --dry-run`: entries that would be put back"""
    list: NotRequired[str | None]
    """only `undo --dry-run`: command that lists these"""
    kind: NotRequired[str]
    """only `import`: kind of the queue"""
    from_queue: NotRequired[str]
    """only `import`: queue that was exported"""
    states: NotRequired[dict[str, int]]
    """only `import`: state → entries"""
    bytes: NotRequired[Size]
    """only `import`: size of the payloads"""
    undoable: NotRequired[bool]
    """only `import`: whether it can be undone"""
    remarks: NotRequired[list[Text]]
    """only changes of entries: what to know about the selection"""
    consequences: NotRequired[Consequences]
    """only changes of selected entries: what comes of it"""


class MoreOfOutcome(TypedDict):
    """What the outcome of some changes has besides."""

    left: NotRequired[int]
    """only `apply`, `replay --ramp`: not dealt with yet; the same command continues"""
    heard: NotRequired[int | None]
    """only commands to workers: clients of the server that got it; `null`: the worker has still to
    read it"""
    already: NotRequired[bool]
    """only `apply`, when the plan had been applied before"""
    halted: NotRequired[str]
    """only `apply` of a move that the target stopped: `full` or `closed`"""
    phase: NotRequired[Literal["over", "stopped", "interrupted"]]
    """only a ramp: how it ended"""
    reason: NotRequired[Text]
    """only a ramp: why it stopped, or empty"""
    judged: NotRequired[int]
    """only a ramp: settled entries that were judged, of the latest 200"""
    died: NotRequired[int]
    """only a ramp: of these, dead again"""
    failing: NotRequired[int]
    """only a ramp: failed again, will be retried"""
    unsettled: NotRequired[int]
    """only a ramp: watched entries not settled within `--watch`"""
    sample: NotRequired[list[str]]
    """only `undo`: up to five entries left as they are"""
    unnamed: NotRequired[int]
    """only `undo`: entries left as they are whose ids are not known"""
    removed: NotRequired[bool | int]
    """only `consumers …`: whether the consumer was removed, or from how many groups"""
    jobs: NotRequired[dict[str, int]]
    """only `workers rm`: what became of the jobs → number"""


@dataclass(frozen=True, slots=True)
class OutcomeOutput:
    """The last line of every change."""

    outcome: ChangeOutcome = field(metadata=INLINE)
    more: MoreOfOutcome = field(metadata=INLINE)


class OperationOutput(TypedDict):
    """An operation of the audit log, the latest first."""

    id: str
    """operation"""
    queue: str
    verb: str
    """the change"""
    started_ms: Time
    """when it began"""
    user: str
    """user, as the client reported it"""
    host: str
    reason: str
    """reason given with `--reason`"""
    what: Text
    """filter or object"""
    source: str
    """state the entries came from"""
    target: str
    """state they went to; `gone`: removed"""
    matched: int
    """entries selected"""
    done: int
    """entries changed"""
    undone: int
    """entries put back by an undo"""
    undoable: bool
    """whether `redisq undo` can take it back now"""
    ended: bool
    """whether it ran to its end"""
    into: str
    """move: target queue, or empty"""
    origin: str
    """target of a move: queue the operation belongs to, or empty"""
    rest: int
    """move: entries that can return once another change is undone"""


EventOutput = Event


class ImportProblemOutput(TypedDict):
    """A line that was not imported, before the outcome."""

    line: int
    """line in the file"""
    queue: str
    id: str
    """entry"""
    problem: Text
    """why; `same` and `exists` are stable words"""


class ExportSummaryOutput(TypedDict):
    """With `-o FILE`: one object per queue and state."""

    queue: str
    state: str
    entries: int
    """entries written"""
    left: int
    """entries that changed their state before they were read"""
    redacted: int
    """entries with redacted values; these cannot be imported"""
    file: str
