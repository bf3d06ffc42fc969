"""JSON about entries and groups of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from redisq_ops.core.model.attachment import Attachment
from redisq_ops.core.model.entry import Event, Failure, State
from redisq_ops.core.model.row_fields import INLINE, Bytes, Duration, Share, Text, Time
from redisq_ops.ops.explain.reason import Explanation, OtherReason

from .changes import OperationOutput


class EntryOutput(TypedDict):
    queue: str
    id: str
    """id; `REQUEST/N` for a sub-request"""
    address: str
    """`QUEUE/ID`, as commands take it"""
    state: State
    """[state](states.md)"""
    since_ms: Time | None
    """when it entered this state; `null` if it has only ever waited"""
    deadline_ms: Time | None
    """pending: end of its lease"""
    ready_ms: Time | None
    """delayed, and waiting in a delay set: ready time"""
    first_ms: Time | None
    """first delivery since it was submitted or replayed"""
    failures: int | None
    """attempts whose handler failed; `null` if only its id is left, or its program doesn't keep
    that"""
    lost: int | None
    """attempts whose lease expired"""
    attempts: int | None
    """`failures` + `lost`"""
    consumer: str | None
    """consumer that holds it, or held it last"""
    reason: str | None
    """dead: `failed`, `lost`, `rejected` or `invalid`; in any state `gone`: only its id is left"""
    error: Failure | None
    """last error"""
    op: str | None
    """operator's change that touched it last, while nothing has touched it since"""
    client: str | None
    """client, in a fair queue"""
    task: str | None
    """name of its task, in queues of task programs such as Celery"""
    owner_state: str | None
    """the owner's word for the state, in other programs' queues; `gone`: trimmed from the
    stream"""
    problem: Text | None
    """why its record cannot be read"""
    run_ms: Duration | None
    """how long its latest run took, where its program keeps that"""
    payload: Bytes | None


class EntryHistory(TypedDict):
    events: Sequence[Event]
    """events about it, oldest first"""
    scanned: int
    """events that were searched, from the latest on"""
    total: int
    """events in the history"""


class FlowEntry(TypedDict):
    depth: int
    """0: the entry itself, and behind it others of its batch; 1, 2 …: below it, what it waits for;
    -1, -2 …: above it, what waits"""
    role: str | None
    """its program's word for what it is to the entry one level nearer: `child`, `parent`,
    `dependency`, `dependent`; `batch`, `parent batch`, `job` (of the same batch)"""
    address: str
    """`QUEUE/ID`; of a batch its `bid`"""
    state: State | Literal["gone"] | None
    """[state](states.md); `null`: unknown, or a batch, which has none while it exists"""
    owner_state: str | None
    """the owner's word for the state"""
    holds: bool
    """whether the one above can't go on before this one has ended, or was replayed"""
    waits_for: int
    """entries for which it waits, or did; those that were read follow it"""
    awaited_by: int
    """entries that wait for it, or did"""
    counts: Mapping[str, int]
    """state → entries, of all for which it waits or of those that were read; `open`: still waited
    for, so not ended, or dead and not replayed"""
    note: Text | None
    """what else its program keeps of it, such as how far a chord of Celery or a batch came"""


class EntryDetailsOutput(EntryOutput):
    result: Bytes | None
    """result, if it is done"""
    attachments: list[Attachment]
    """what else its program keeps of it"""
    idle_ms: Duration | None
    """pending in a stream: time since its consumer received or claimed it"""
    deliveries: int | None
    """deliveries as the stream counts them"""
    operation: OperationOutput | None
    """the change named by `op`"""
    history: EntryHistory
    """events about it"""
    flow: list[FlowEntry] | None
    """entries that wait for each other with it, in order, itself among them; at most 100 a level;
    empty: it has none; `null`: they can't be read"""


class EntryCountOutput(TypedDict):
    queue: str
    state: str
    matched: int
    """entries that match"""
    scanned: int
    """entries that were read"""
    total: int | None
    """entries in that state; `null` if nobody counts them"""
    complete: bool
    """whether the whole state was read"""


class ValueCountOutput(TypedDict):
    """Entries counted by the value of a field (`select --by`)."""

    queue: str | None
    """`null` for several queues"""
    field: str
    value: str | None
    """text, or JSON of a payload; `null`: entries whose field has no value"""
    entries: int
    by_state: dict[State, int]
    """entries by state, without states that have none"""
    at_least: list[str]
    """the fields here that are lower bounds: there were more than 2,000 values"""
    scanned: int
    """entries that were read"""
    complete: bool
    """whether every state was read to its end"""


class GroupError(TypedDict):
    """The error of the latest dead letter."""

    type: str | None
    """type of the error"""
    message: str | None


class ErrorGroupFields(TypedDict):
    queue: str | None
    """`null` for the row that sums up the smallest groups of several queues"""
    state: Literal["dead"]
    """state of the entries"""
    group: str | None
    """fingerprint, for `--where group=…`; `null` if grouped by other fields alone, and for the row
    that sums up the smallest groups"""
    groups: int
    """groups that the row stands for: 1, or those that it sums up"""
    entries: int
    """dead letters of the group"""
    by: list[str]
    """what the groups are made by: `error`, `task`, `payload.region` …"""
    values: dict[str, Text | None]
    """field → what the entries have in it; `null`: nothing, or it is unknown"""
    where: str | None
    """for `--where`: selects exactly these entries; `null`: no filter can, or redaction hides a
    value"""
    task: Text | None
    """task of all its entries; `null`: unknown, or they have several"""
    tasks: int | None
    """different tasks that are known"""
    errors: int | None
    """different errors"""
    form: Text | None
    """message with its variable parts replaced"""
    error: GroupError | None
    """error of the latest dead letter; `null` for the row that sums up"""
    lost: int | None
    """dead letters of the group that were lost, not failed"""
    reasons: dict[str, int]
    """reason → number"""
    first_ms: Time | None
    """first death"""
    last_ms: Time | None
    """latest death"""
    sample: str | None
    """id of the latest dead letter"""
    clients: int | None
    """different clients"""
    requests: int | None
    """different requests"""
    top_clients: dict[str, int]
    """most frequent clients → number"""
    top_requests: dict[str, int]
    """most frequent requests → number"""
    at_least: list[str]
    """fields of this object that are lower bounds"""
    total: int
    """dead letters in all groups, of all queues that were looked at"""


class ErrorGroupOutput(ErrorGroupFields):
    """The largest group comes first."""

    scanned: int
    """dead letters that were read"""
    complete: bool
    """whether all were read"""


class Contrast(TypedDict):
    field: str
    """field that is more frequent in this group than in the others"""
    value: str | None
    """its value; `null`: the field is missing"""
    share: Share
    """share of this group that has it"""
    rest: Share
    """share of all other dead letters"""


class ErrorGroupDetailsOutput(ErrorGroupFields):
    contrast: list[Contrast]
    """what is more frequent in this group than in the others"""
    payloads: int
    """payloads of this group that were sampled"""
    rest_payloads: int
    """payloads of the others that were sampled"""
    samples: list[EntryOutput]
    """latest dead letters; `payload` is `null`"""


@dataclass(frozen=True, slots=True)
class ExplanationOutput:
    """The [rules](../how-to/find-out-why.md#the-rules) are stable names."""

    explanation: Explanation = field(metadata=INLINE)
    also: list[OtherReason]
    """other reasons"""
