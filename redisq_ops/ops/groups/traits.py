"""What the entries of one group have in common and the rest have not.

Each field's values are counted among the group's entries and among all others of the state. What
is told is sure: shares are compared by the lower bound of their difference (Newcombe's interval
of Wilson scores), so a few entries, or a small sample of payloads, prove little.
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
from redisq_ops.core.redis.operation import together

from ..filter.fields import Path, spelt
from ..filter.scan import Filter, Scan
from ..redaction import MASK, NOTHING, Redaction
from .error_groups import ErrorGroup, ErrorGroups
from .fingerprint import fingerprint
from .heavy_hitters import Frequent

PAYLOADS = 2000
"""payloads looked at, of the group and of the rest each"""
LARGEST = 64 * 1024
"""bytes of a payload that is looked into"""
PATHS = 100
FIELDS = 200
ITEMS = 10
"""of a list in a payload"""
DEPTH, ENVELOPE = 2, 4
"""how deep payloads are looked into; another program's payloads are wrapped in what it keeps"""
VALUES = 1000
"""different values counted exactly of each field, of the group and of the rest each"""
SUPPORT = 5
"""entries of the group that must have a value before it is told"""
SURE = 3.29
"""standard deviations of the bounds: 1 in 1,000, as many values are compared"""
TEXT = 80
HOUR = 3_600_000
SAMPLES = 5
# In the envelope of another program these say again what the group already says.
SAID = ("error", "exception", "backtrace", "failed_at", "retried_at", "retry_count")


@dataclass(frozen=True, slots=True)
class Trait:
    """A value that is more frequent in the group than elsewhere. Shares from 0 to 1."""

    field: str
    value: Any
    """None: the field isn't there"""
    here: float
    rest: float
    surely: float
    """by how much the share is higher, at least"""


def has(field: str, value: Any, moment: Callable[[int], str]) -> str:
    """A trait in words: ``have payload.region=eu``."""
    if value is None:
        return f"lack {field}"
    if field == "hour":
        return f"died in the hour from {moment(int(value))}"
    if field == "payload":
        return f"have a payload that is {value}"
    return f"have {field} (redacted)" if value == MASK else f"have {field}={value}"


def difference(a: int, of_a: int, b: int, of_b: int, z: float = SURE) -> float:
    """The lower bound of a/of_a - b/of_b."""
    p, q = a / of_a, b / of_b
    low, _ = _wilson(a, of_a, z)
    _, high = _wilson(b, of_b, z)
    return p - q - sqrt((p - low) ** 2 + (high - q) ** 2)


def _wilson(k: int, n: int, z: float) -> tuple[float, float]:
    p, zz = k / n, z * z
    middle = (p + zz / (2 * n)) / (1 + zz / n)
    half = z / (1 + zz / n) * sqrt(p * (1 - p) / n + zz / (4 * n * n))
    return middle - half, middle + half


class Side:
    """The group's entries, or all others: their fields' values, and a fair sample of payloads."""

    def __init__(self, seed: int, depth: int, skip: tuple[str, ...], redaction: Redaction) -> None:
        self.total = 0
        self.looked = 0
        """payloads looked into; of those in the sample that are still there"""
        self.fields: dict[str, Frequent[Any]] = {}
        self.known: dict[str, int] = {}
        """field -> entries that have it"""
        self.sample: list[str | dict[str, Any]] = []
        """ids to be looked up, or what a page's payload said"""
        self._depth, self._skip, self._redaction = depth, skip, redaction
        self._random = random.Random(seed)

    def add(self, entry: Entry) -> None:
        self.total += 1
        for name, value in _plain(entry):
            self._count(name, value)
        # Each entry is in the sample with the same chance (Vitter's algorithm R).
        at = len(self.sample)
        if at == PAYLOADS:
            at = self._random.randrange(self.total)
        if at < PAYLOADS:
            # Pages of layouts where nothing is found by its id bring payloads along.
            known = entry.id if entry.payload is None else self._paths(entry.payload)
            self.sample[at : at + 1] = [known]

    def look(self, payload: bytes | dict[str, Any]) -> None:
        """Count what a payload of the sample says."""
        self.looked += 1
        found = self._paths(payload) if isinstance(payload, bytes) else payload
        for name, value in found.items():
            self._count(name, value)

    def of(self, field: str) -> int:
        """Entries whose field could have been seen."""
        return self.looked if field.startswith("payload") else self.total

    def _count(self, name: str, value: Any) -> None:
        found = self.fields.get(name)
        if found is None:
            if len(self.fields) >= FIELDS:
                return
            found = self.fields[name] = Frequent(VALUES)
        found.add(value)
        self.known[name] = self.known.get(name, 0) + 1

    def _paths(self, payload: bytes) -> dict[str, Any]:
        return told(payload, self._redaction, self._depth, self._skip)


def told(
    payload: bytes,
    redaction: Redaction = NOTHING,
    depth: int = DEPTH,
    skip: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A payload's paths with their simple values, as they may be shown."""
    if len(payload) > LARGEST:
        return {"payload": "too large"}
    try:
        found = json.loads(redaction.payload(payload))
    except (ValueError, RecursionError):
        return {"payload": "not JSON"}
    leaves = islice(_leaves((), found, depth), PATHS)
    return {
        f"payload{spelt(path)}": value
        for path, value in leaves
        if not (path and str(path[0]).startswith(skip))
    }


def _plain(entry: Entry) -> Iterator[tuple[str, Any]]:
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
    """Paths of a JSON value down to a depth, with their simple values."""
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


class Contrast:
    """One group beside the rest of a state. Drive `step` until `over`, then ask `traits`.

    The state is read once; after it up to 2,000 payloads of the group and of the rest.
    """

    def __init__(
        self,
        queue: Queue[Any],
        state: State,
        filter: Filter,
        group: str,
        now_ms: int,
        redaction: Redaction = NOTHING,
    ) -> None:
        self.queue = queue
        self.state = state
        self.name = group
        self.now_ms = now_ms
        depth = ENVELOPE if queue.enveloped else DEPTH
        skip = SAID if queue.enveloped else ()
        self.here, self.rest = (Side(seed, depth, skip, redaction) for seed in (1, 2))
        self.groups = ErrorGroups(redaction=redaction)
        self.samples: list[Entry] = []
        """the latest entries of the group"""
        self._scan = Scan(queue, state, filter, now_ms)
        self._step = 20

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
        """The group itself; None: nothing of it was found."""
        return next(iter(self.groups.ranked()), None)

    async def step(self) -> None:
        """One page, or some payloads."""
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
        batch, side.sample = side.sample[: self._step], side.sample[self._step :]
        ids = [known for known in batch if isinstance(known, str)]
        found = await together(self.queue.get.op(id) for id in ids)
        payloads = [
            entry.payload
            for entry in found
            if entry is not None and entry.state == self.state and entry.payload is not None
        ]
        for known in (*payloads, *(known for known in batch if isinstance(known, dict))):
            side.look(known)
        # About a megabyte a round, whatever payloads weigh.
        weight = sum(map(len, payloads)) // max(1, len(payloads))
        self._step = max(1, min(100, 2**20 // max(1, weight)))

    def traits(self, most: int = 10) -> list[Trait]:
        """Values that are surely more frequent in the group than in the rest, the surest first."""
        found = list(self._traits())
        return sorted(found, key=lambda trait: (-trait.surely, -trait.here))[:most]

    def _traits(self) -> Iterator[Trait]:
        here, rest = self.here, self.rest
        for name in {**here.fields, **rest.fields}:
            n, m = here.of(name), rest.of(name)
            if not n or not m:  # nothing to compare with
                continue
            values = here.fields.get(name)
            others = rest.fields.get(name)
            # Bounds against the trait where values were too many to count them all.
            pairs: list[tuple[Any, int, int]] = [
                (value, k, others.at_most(value) if others is not None else 0)
                for value, k in (values.top(VALUES) if values is not None else ())
            ]
            if name.startswith("payload") and name != "payload":
                pairs.append((None, n - here.known.get(name, 0), m - rest.known.get(name, 0)))
            for value, k, other in pairs:
                if k < SUPPORT:
                    continue
                surely = difference(k, n, min(other, m), m)
                if surely > 0:
                    yield Trait(name, value, k / n, min(other, m) / m, surely)
