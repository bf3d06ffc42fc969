"""Periodic entries: what they are, and when their runs are; no I/O.

A cron expression names minutes of the clock on a wall, and twice a year that clock is moved:

* an expression with a fixed minute and hour (``30 2 * * *``) means a time of day. Where the time is
  skipped it runs once, right after the gap; where it comes twice it runs the first time only;
* one whose minute or hour begins with ``*`` means an interval (``0 * * * *``) and follows real
  time: nothing in the skipped hour, both halves of the repeated one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Literal

from ...model.entry import task_of
from ...model.errors import BadInput
from ...model.keys import checked_name

AHEAD_MS = 60_000
"""how long before its time a run is scheduled; workers look every 30 s, and so none is late"""
RUNS = 100
"""runs of one periodic entry scheduled by one look, at most; the next look goes on"""

Missed = Literal["one", "all", "none"]
_RUN = re.compile(r"@(\d{13})$", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The latest run before a moment is searched forward from the shortest of these spans that has one:
# counting forward is exact across clock changes, but a year of minutes takes seconds to count.
_SPANS_MS = tuple(3_600_000 * hours for hours in (1, 24, 32 * 24, 366 * 24, 41 * 366 * 24))


@dataclass(frozen=True, slots=True)
class Periodic:
    """An entry that runs on a cron schedule: each run is an entry ``<name>@<time in ms>``.

    ``cron``: five fields (minute hour day month weekday), in time zone ``zone``. ``missed``: of
    runs that no worker scheduled in time, run the latest ``one``, ``all`` in order, or ``none``.
    ``overlap``: whether a run may begin before the run before it ended.

        Periodic("report", "0 6 * * mon-fri", b"daily", zone="Europe/Berlin")
    """

    name: str
    cron: str
    payload: bytes = b""
    zone: str = "UTC"
    missed: Missed = "one"
    overlap: bool = False

    def checked(self) -> Periodic:
        """Return self; raises `BadInput` for a bad name, cron expression, zone or option."""
        for field, value in (("cron", self.cron), ("zone", self.zone)):
            if not isinstance(value, str):
                raise BadInput(f"{field} must be a str, not {type(value).__name__}")
        if not isinstance(self.overlap, bool):
            raise BadInput(f"overlap must be a bool, not {type(self.overlap).__name__}")
        checked_name(self.name, "periodic name")
        checked_name(run_id(self.name, 0), "id of a run")
        if self.missed not in ("one", "all", "none"):
            raise BadInput(f"missed runs must be one, all or none, not {self.missed!r:.60}")
        next(slots(self, 0))
        return self

    def encoded(self) -> bytes:
        fields = {name: value for name, value in asdict(self).items() if name != "payload"}
        return json.dumps(fields).encode() + b"\n" + self.payload

    @classmethod
    def decoded(cls, data: bytes) -> Periodic:
        """The inverse of `encoded`. Raises one of `errors.CORRUPT` for anything else."""
        fields, _, payload = data.partition(b"\n")
        return cls(**json.loads(fields), payload=payload)


@dataclass(frozen=True, slots=True)
class ScheduledPeriodic:
    """A periodic entry as it is stored."""

    name: str
    spec: Periodic | None
    """None: its definition is corrupt, see ``problem``"""
    next_ms: int | None
    """time of its next run that isn't scheduled yet; None: it is paused, or corrupt"""
    run: str | None
    """id of its latest run; None: it never ran"""
    paused: bool = False
    problem: str | None = None
    """what is corrupt"""
    digest: str = ""
    """SHA-1 of the stored definition; it shows whether somebody changed it"""

    @property
    def program(self) -> None:
        """Another program that starts its runs: none."""

    @property
    def task(self) -> str | None:
        """The task that its runs call, if its name has one; else its payload says all."""
        return task_of(self.name)

    @property
    def run_ms(self) -> int | None:
        """The time of its latest run."""
        return run_time(self.run)

    @property
    def cron(self) -> str | None:
        return None if self.spec is None else self.spec.cron

    @property
    def zone(self) -> str | None:
        return None if self.spec is None else self.spec.zone

    @property
    def payload(self) -> bytes | None:
        return None if self.spec is None else self.spec.payload

    def overdue(self, now_ms: int) -> bool:
        """Whether a time passed without a run being scheduled."""
        return self.missed(now_ms, 1) > 0

    def missed(self, now_ms: int, most: int = RUNS) -> int:
        """How many of its times passed without a run being scheduled; counts up to ``most``."""
        if self.spec is None or self.next_ms is None or self.next_ms >= now_ms:
            return 0
        times = slots(self.spec, self.next_ms - 1)
        return sum(1 for _ in islice(takewhile(lambda at: at < now_ms, times), most))


def run_id(name: str, slot_ms: int) -> str:
    """The id of one run; its 13 digits are how `shard_map.home` recognises a run."""
    return f"{name}@{slot_ms:013d}"


def run_time(run: str | None) -> int | None:
    """The time in a run's id; None where it has none."""
    found = _RUN.search(run or "")
    return None if found is None else int(found[1])


def following(spec: Periodic, after_ms: int, run: str | None) -> int:
    """The first time after ``after_ms`` and after the latest ``run``, which was scheduled ahead."""
    at = run_time(run)
    if at is not None and after_ms < at <= after_ms + 2 * AHEAD_MS:  # beyond that it is corrupt
        after_ms = at
    return next(slots(spec, after_ms))


def every(span_ms: int) -> str:
    """The cron expression of an interval; raises `BadInput` for one that cron can't say.

    >>> every(900_000)
    '*/15 * * * *'
    """
    minutes, rest = divmod(span_ms, 60_000)
    hours = minutes // 60
    if not rest and 0 < minutes < 60 and 60 % minutes == 0:
        return f"*/{minutes} * * * *" if minutes > 1 else "* * * * *"
    if not rest and minutes % 60 == 0 and 0 < hours <= 24 and 24 % hours == 0:
        return {1: "0 * * * *", 24: "0 0 * * *"}.get(hours, f"0 */{hours} * * *")
    raise BadInput(
        "an interval must divide an hour (1m 2m 3m 4m 5m 6m 10m 12m 15m 20m 30m) or a day "
        "(1h 2h 3h 4h 6h 8h 12h 24h); for others write a cron expression"
    )


_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31 or L",
    "month": "1-12 or jan-dec",
    "day-of-week": "0-7 or sun-sat",
}


def slots(spec: Periodic, after_ms: int) -> Iterator[int]:
    """The times (ms UTC) of all runs after ``after_ms``, in order."""
    from zoneinfo import ZoneInfo  # here: most delay sets have no periodic entries

    from cronsim import CronSim, CronSimError

    if len(spec.cron.split()) != 5:
        raise BadInput(f"cron {spec.cron!r}: must have five fields (minute hour day month weekday)")
    try:
        zone = ZoneInfo(spec.zone)
    except (KeyError, ValueError, OSError) as error:
        raise BadInput(
            f"time zone {spec.zone!r}: none of that name (Europe/Berlin is one)"
        ) from error
    try:
        moments = CronSim(spec.cron, (_EPOCH + timedelta(milliseconds=after_ms)).astimezone(zone))
    except CronSimError as error:
        minute, hour, day, month, weekday = spec.cron.split()
        field = str(error).lower()
        said = (f": {field}, expected {n}" for name, n in _FIELDS.items() if field.endswith(name))
        why = next(said, f": {field}")
        with suppress(CronSimError):
            CronSim(f"* * * {month} *", _EPOCH)
            CronSim(f"{minute} {hour} {day} * {weekday}", _EPOCH)
            why = " never fires: no month of it has such a day"
        raise BadInput(f"cron {spec.cron!r}{why}") from error
    last = after_ms
    for moment in moments:
        at = (moment - _EPOCH) // timedelta(milliseconds=1)
        # In a repeated hour the first moment may be before `after_ms`. All times in a skipped hour
        # become the moment right after it: one run.
        if at > last:
            yield at
            last = at
    raise BadInput(f"cron {spec.cron!r} never fires: such a day never comes")


def due(spec: Periodic, next_ms: int, now_ms: int) -> tuple[list[int], int]:
    """Which slots to schedule now, from ``next_ms`` on, and which is the next after these."""
    begin = next_ms
    if begin < now_ms and spec.missed == "none":
        begin = now_ms
    elif begin < now_ms and spec.missed == "one":
        begin = _latest(spec, begin, now_ms)
    upcoming = slots(spec, begin - 1)
    runs: list[int] = []
    for at in islice(upcoming, RUNS if spec.overlap else 1):
        if at > now_ms + AHEAD_MS:
            return runs, at
        runs.append(at)
    return runs, next(upcoming)


def _latest(spec: Periodic, first_ms: int, now_ms: int) -> int:
    """The latest slot from ``first_ms`` on and before ``now_ms``; else ``now_ms`` itself."""
    for span in _SPANS_MS:
        start = max(first_ms, now_ms - span)
        missed = list(takewhile(lambda at: at < now_ms, slots(spec, start - 1)))
        if missed:
            return missed[-1]
        if start == first_ms:
            break
    return now_ms
