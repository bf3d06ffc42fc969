"""Traits of an error group: values that its entries have more often than the other entries.

The values of each field are counted in the group and in the rest of the state. Shares are compared
by the lower bound of their difference (Newcombe's interval of Wilson scores), so that a few entries
or a small sample of payloads are not taken for a trait.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State

from ..filter.fields import Path, path_text
from ..filter.filter import Filter
from ..filter.scan import Scan
from ..redaction import MASK, NO_REDACTION, Redaction
from ..terminal import percent
from .error_groups import ErrorGroup, ErrorGroups
from .fingerprint import fingerprint
from .heavy_hitters import HeavyHitters

PAYLOADS = 2000
"""payloads examined in the group, and as many in the rest"""
LARGEST = 64 * 1024
"""bytes of the largest payload that is parsed"""
PATHS = 100
"""paths examined of a payload"""
FIELDS = 200
"""fields counted"""
ITEMS = 10
"""items examined of a list in a payload"""
DEPTH, ENVELOPE_DEPTH = 2, 4
"""levels examined of a payload, and of one in another program's envelope"""
VALUES = 1000
"""different values counted exactly per field, in the group and in the rest"""
SUPPORT = 5
"""least number of the group's entries with a value that is a trait"""
SURE = 3.29
"""standard deviations of the bounds (1 error in 1,000, since many values are compared)"""
TEXT = 80
"""characters kept of a value"""
HOUR = 3_600_000
SAMPLES = 5
TRAITS = 10
ENVELOPE_ERRORS = ("error", "exception", "backtrace", "failed_at", "retried_at", "retry_count")
"""fields of another program's envelope that describe the error, which the group already shows"""


@dataclass(frozen=True, slots=True)
class Trait:
    """A value that is more frequent in the group than in the rest. Shares are from 0 to 1."""

    field: str
    value: Any
    """None: the field is missing"""
    here: float
    rest: float
    surely: float
    """lower bound of ``here`` - ``rest``"""


def trait_sentence(
    field: str, value: Any, here: float, rest: float, when: Callable[[int], str]
) -> str:
    """``61 % have payload.region=eu, 2 % of the rest``."""
    if value is None:
        what = f"lack {field}"
    elif field == "hour":
        what = f"died in the hour from {when(int(value))}"
    elif field == "payload":
        what = f"have a payload that is {value}"
    else:
        what = f"have {field} (redacted)" if value == MASK else f"have {field}={value}"
    return f"{percent(here)} {what}, {percent(rest)} of the rest"


def share_difference(a: int, of_a: int, b: int, of_b: int) -> float:
    """The lower bound of a/of_a - b/of_b."""
    p, q = a / of_a, b / of_b
    low, _ = _wilson(a, of_a)
    _, high = _wilson(b, of_b)
    return p - q - sqrt((p - low) ** 2 + (high - q) ** 2)


def _wilson(k: int, n: int) -> tuple[float, float]:
    p, zz = k / n, SURE * SURE
    middle = (p + zz / (2 * n)) / (1 + zz / n)
    half = SURE / (1 + zz / n) * sqrt(p * (1 - p) / n + zz / (4 * n * n))
    return middle - half, middle + half


class FieldCounts:
    """Counts of the field values of the group's entries, or of all others, with a random sample of
    payloads."""

    def __init__(self, seed: int, depth: int, skip: tuple[str, ...], redaction: Redaction) -> None:
        self.total = 0
        self.looked = 0
        """payloads of the sample that still existed and were examined"""
        self.fields: dict[str, HeavyHitters[Any]] = {}
        self.known: dict[str, int] = {}
        """field -> number of entries that have it"""
        self.sample: list[str | dict[str, Any]] = []
        """ids of entries to read, or the fields of payloads that pages brought along"""
        self._depth, self._skip, self._redaction = depth, skip, redaction
        self._random = random.Random(seed)

    def add(self, entry: Entry) -> None:
        self.total += 1
        for name, value in _record_fields(entry):
            self._count(name, value)
        if entry.task is not None:
            self._count("task", self._redaction.text(entry.task))
        # Every entry is sampled with the same probability (Vitter's algorithm R).
        at = len(self.sample)
        if at == PAYLOADS:
            at = self._random.randrange(self.total)
        if at < PAYLOADS:
            # Pages of queues without reads by id bring payloads along.
            sampled = entry.id if entry.payload is None else self._traits_of(entry, entry.payload)
            self.sample[at : at + 1] = [sampled]

    def _traits_of(self, entry: Entry, payload: bytes) -> dict[str, Any]:
        """The fields of a payload, without the member that names the task: that is counted already,
        of every entry."""
        found = self._payload_values(payload)
        return {name: value for name, value in found.items() if value != entry.task}

    def add_payload(self, payload: bytes | dict[str, Any]) -> None:
        """Count the fields of a payload of the sample."""
        self.looked += 1
        found = self._payload_values(payload) if isinstance(payload, bytes) else payload
        for name, value in found.items():
            self._count(name, value)

    def examined(self, field: str) -> int:
        """The number of entries in which a field was looked for."""
        return self.looked if field.startswith("payload") else self.total

    def _count(self, name: str, value: Any) -> None:
        found = self.fields.get(name)
        if found is None:
            if len(self.fields) >= FIELDS:
                return
            found = self.fields[name] = HeavyHitters(VALUES)
        found.add(value)
        self.known[name] = self.known.get(name, 0) + 1

    def _payload_values(self, payload: bytes) -> dict[str, Any]:
        return payload_values(payload, self._redaction, self._depth, self._skip)


def payload_values(
    payload: bytes,
    redaction: Redaction = NO_REDACTION,
    depth: int = DEPTH,
    skip: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The paths of a payload with their simple values, redacted."""
    if len(payload) > LARGEST:
        return {"payload": "too large"}
    try:
        found = json.loads(redaction.payload(payload))
    except (ValueError, RecursionError):
        return {"payload": "not JSON"}
    leaves = islice(_leaves((), found, depth), PATHS)
    return {
        f"payload{path_text(path)}": value
        for path, value in leaves
        if not (path and str(path[0]).startswith(skip))
    }


def _record_fields(entry: Entry) -> Iterator[tuple[str, Any]]:
    request = entry.id.rpartition("/")[0]
    if entry.client is not None:
        yield "client", entry.client
    if request:
        yield "request", request
    if entry.consumer is not None:
        yield "consumer", entry.consumer
    if entry.reason is not None:
        yield "reason", entry.reason
    if entry.since_ms is not None:
        yield "hour", entry.since_ms // HOUR * HOUR


def _leaves(path: Path, value: Any, depth: int) -> Iterator[tuple[Path, Any]]:
    """The paths of a JSON value down to ``depth`` levels, with their simple values."""
    if isinstance(value, dict) and depth:
        for name, item in value.items():
            yield from _leaves((*path, name[:TEXT]), item, depth - 1)
    elif isinstance(value, list) and depth:
        for index, item in enumerate(value[:ITEMS]):
            yield from _leaves((*path, index), item, depth - 1)
    elif isinstance(value, str):
        yield path, value if len(value) <= TEXT else value[: TEXT - 1] + "…"
    elif path and not isinstance(value, (dict, list)):
        yield path, json.dumps(value)


class GroupComparison:
    """Compares one error group with the rest of a state. Call `step` until `over`, then `traits`.

    It reads the state once, then up to 2,000 payloads of the group and as many of the rest.
    """

    def __init__(
        self,
        queue: Queue[Any],
        state: State,
        filter: Filter,
        group: str,
        now_ms: int,
        redaction: Redaction = NO_REDACTION,
    ) -> None:
        self.queue = queue
        self.state = state
        self.name = group
        self.now_ms = now_ms
        depth = ENVELOPE_DEPTH if queue.enveloped else DEPTH
        skip = ENVELOPE_ERRORS if queue.enveloped else ()
        self.here, self.rest = (FieldCounts(seed, depth, skip, redaction) for seed in (1, 2))
        self.groups = ErrorGroups(redaction=redaction)
        self.samples: list[Entry] = []
        """latest entries of the group"""
        self._scan = Scan(queue, state, filter, now_ms)
        self._batch = 20
        """payloads read by one step"""

    @property
    def over(self) -> bool:
        return self._scan.over and not (self.here.sample or self.rest.sample)

    @property
    def scanned(self) -> int:
        return self._scan.scanned

    @property
    def total(self) -> int:
        return self._scan.total

    @property
    def group(self) -> ErrorGroup | None:
        """The group; None: no entry of it was found."""
        return next(iter(self.groups.ranked()), None)

    async def step(self) -> None:
        """Read one page, or some payloads."""
        if not self._scan.over:
            for entry in await self._scan.step():
                here = fingerprint(entry) == self.name
                (self.here if here else self.rest).add(entry)
                if here:
                    self.groups.add((entry,))
                    self.samples.append(entry)
            self.samples.sort(key=lambda entry: -(entry.since_ms or 0))
            del self.samples[SAMPLES:]
            if self._scan.over and not self.here.total:
                self.rest.sample = []
            return
        side = self.here if self.here.sample else self.rest
        batch, side.sample = side.sample[: self._batch], side.sample[self._batch :]
        ids = [sampled for sampled in batch if isinstance(sampled, str)]
        found = await self.queue.get_many.op(ids, self.state)
        payloads = [
            entry.payload
            for entry in found
            if entry is not None and entry.state == self.state and entry.payload is not None
        ]
        for payload in (*payloads, *(sampled for sampled in batch if isinstance(sampled, dict))):
            side.add_payload(payload)
        # About a mebibyte per step, for payloads of any size.
        mean = sum(map(len, payloads)) // max(1, len(payloads))
        self._batch = max(1, min(100, 2**20 // max(1, mean)))

    def traits(self) -> list[Trait]:
        """The values that are more frequent in the group for sure, the largest difference first."""
        return sorted(self._traits(), key=lambda trait: (-trait.surely, -trait.here))[:TRAITS]

    def _traits(self) -> Iterator[Trait]:
        here, rest = self.here, self.rest
        for name in {**here.fields, **rest.fields}:
            n, m = here.examined(name), rest.examined(name)
            if not n or not m:
                continue
            values = here.fields.get(name)
            others = rest.fields.get(name)
            # With too many values to count, bounds that make a trait less likely.
            pairs: list[tuple[Any, int, int]] = [
                (value, k, others.at_most(value) if others is not None else 0)
                for value, k in (values.top(VALUES) if values is not None else ())
            ]
            if name.startswith("payload") and name != "payload":
                pairs.append((None, n - here.known.get(name, 0), m - rest.known.get(name, 0)))
            for value, k, other in pairs:
                if k < SUPPORT:
                    continue
                surely = share_difference(k, n, min(other, m), m)
                if surely > 0:
                    yield Trait(name, value, k / n, min(other, m) / m, surely)
