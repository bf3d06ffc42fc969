"""Trimmed history: a gap in every part, between two reads, and in the lake."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from redisq_ops import DelaySet
from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.engine.state_scan import HistoryExtent
from redisq_ops.core.model.errors import Lost
from redisq_ops.core.queues.delay import ShardedDelaySet
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import run, together
from redisq_ops.pipeline.lake import lake_export
from redisq_ops.pipeline.lake.lake_table import Lake
from redisq_ops.pipeline.source import history_ranges
from redisq_ops.pipeline.source.call_size import CallSize
from redisq_ops.pipeline.source.connection import Server
from redisq_ops.pipeline.source.history_ranges import read_mark
from redisq_ops.pipeline.source.read_partitions import TablePart

from .rows import reading, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = "redisq:{q}:hist"
FIRST_MS = 10_000_000
BOUNDS = [
    {},
    {"since": "1"},
    {"until": str(10**13)},
    {"since": str(FIRST_MS), "until": str(10**13)},
]


@pytest.fixture
def past(client: redis.Redis) -> redis.Redis:
    """A history of 100 events, a second apart."""
    DelaySet(client, "q").configure("c", 1, {"history": "all"})
    client.delete(KEY)
    for n in range(100):
        at = FIRST_MS + n * 1000
        client.xadd(KEY, {"t": at, "by": "w", "taken": f"e{n}"}, id=f"{at}-0")
    return client


def trim(client: redis.Redis, left: int) -> None:
    client.xtrim(KEY, maxlen=left, approximate=False)


def seen(found: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in found if row["event"] == "taken"]


def gaps(found: list[dict[str, Any]]) -> list[str]:
    return [row["detail"] for row in found if row["event"] == "gap"]


def of_part(made: Any, part: TablePart) -> list[dict[str, Any]]:
    return [row for batch in made.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("size", ["20", "1000"])
def test_events_trimmed_between_planning_and_reading_are_a_gap_in_their_part(
    bounds: dict[str, str], size: str, past: redis.Redis, url: str
) -> None:
    strict = reading(url, "history", rowsPerPartition=size, **bounds)
    lenient = reading(url, "history", rowsPerPartition=size, onTrim="report", **bounds)
    parts = strict.plan()
    assert len(parts) == (5 if size == "20" else 1)
    trim(past, 70)
    found = [row for part in parts for row in of_part(lenient, part)]
    assert seen(found) == [f"e{n}" for n in range(30, 100)]
    lost = [part for part in parts if gaps(of_part(lenient, part))]
    assert len(lost) == (2 if size == "20" else 1) and lost == parts[: len(lost)]
    for part in lost:
        with pytest.raises(Lost, match=r"history of queue q.* trimmed"):
            of_part(strict, part)
    for part in parts[len(lost) :]:
        assert of_part(strict, part)


@pytest.mark.parametrize("left", [95, 80, 60, 3, 0])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_events_trimmed_while_a_part_is_read_are_a_gap(
    bounds: dict[str, str],
    left: int,
    past: redis.Redis,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = reading(url, "history", onTrim="report", **bounds)
    made.call_size = CallSize(10**9, 25, max_rows=25)
    (part,) = made.plan()
    read_events_before = made.read_events
    pages: list[int] = []

    def read_events(*given: Any) -> Any:
        if len(pages) == 1:
            trim(past, left)
        page = read_events_before(*given)
        pages.append(len(page[0]))
        return page

    monkeypatch.setattr(made, "read_events", read_events)
    found = of_part(made, part)
    lost = max(0, 100 - left - pages[0])
    assert len(pages) > 1 and len(seen(found)) == 100 - lost
    assert len(gaps(found)) == (1 if lost else 0)


def test_no_gap_is_reported_without_trimming(past: redis.Redis, url: str) -> None:
    for bounds in BOUNDS:
        for size in ("7", "30", "1000"):
            assert len(rows(url, "history", rowsPerPartition=size, **bounds)) == 100
    trim(past, 50)  # before planning: no read has seen these events
    assert len(rows(url, "history", since="1", rowsPerPartition="7")) == 50


def test_every_part_begins_with_an_event(past: redis.Redis, url: str) -> None:
    """Time ranges without events have no part."""
    past.xadd(KEY, {"t": 1, "by": "w", "taken": "late"}, id=f"{FIRST_MS * 100}-0")
    parts = reading(url, "history", since="1", rowsPerPartition="1").plan()
    assert len(parts) == 2
    for part in parts:
        assert part.range is not None and part.range.first is not None
        assert past.xrange(KEY, part.range.first, part.range.first)


# --- marks -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "reach", "expected"),
    [
        (10, HistoryExtent(10, 10, "1-0", "9-0"), None),
        (10, HistoryExtent(15, 5, "11-0", "15-0"), None),
        (10, HistoryExtent(15, 2, "14-0", "15-0"), "3 events"),
        (10, HistoryExtent(15, 0, None, "15-0"), "5 events"),
        (10, HistoryExtent(4, 4, "20-0", "24-0"), "anew"),
        (0, HistoryExtent(), None),
        ("7-0", HistoryExtent(15, 9, "7-0", "15-0"), None),
        ("7-0", HistoryExtent(15, 10, "6-99", "15-0"), None),
        ("7-0", HistoryExtent(15, 8, "7-1", "15-0"), "events from 7-0 on"),
        ("9-0", HistoryExtent(15, 8, "10-0", "15-0"), "events from 9-0 on"),
        ("7-0", HistoryExtent(15, 0, None, "15-0"), "events from 7-0 on"),
    ],
)
def test_a_mark_shows_what_was_trimmed_since(
    mark: history_ranges.Mark, reach: HistoryExtent, expected: str | None
) -> None:
    found = history_ranges.trimmed_since(mark, reach)
    assert (found is None) if expected is None else (found is not None and expected in found)


def test_marks_of_all_shards_are_passed_as_an_option(client: redis.Redis, url: str) -> None:
    queue: Any = ShardedDelaySet(client, "s", shards=3)
    queue.configure("c", 1, {"history": "all"})
    for n in range(60):
        queue.schedule([(f"e{n}", b"")], after=0)
    until = run(client, server_ms()) + 1

    def marks() -> dict[str, history_ranges.Mark]:
        shards = run(client, lake_export._shards("redisq", ["s"]))
        found = run(client, together(read_mark(shard, until) for shard in shards.values()))
        return dict(zip(shards, found, strict=True))

    before = marks()
    assert set(before) == {"s/0", "s/1", "s/2"} and all(type(m) is int for m in before.values())
    while run(client, server_ms()) <= until:
        pass
    for n in range(60, 90):
        queue.schedule([(f"e{n}", b"")], after=0)
    later = marks()
    assert all(type(m) is str for m in later.values()), "the first event that wasn't read"
    for known in (before, later):
        bounds = {"since": str(until), "marks": history_ranges.encode_marks(known)}
        assert sorted(row["id"] for row in rows(url, "history", **bounds)) == [
            f"e{n}" for n in range(60, 90)
        ]
    client.xtrim("redisq:{s/1}:hist", maxlen=1, approximate=False)
    for known in (before, later):
        bounds = {"since": str(until), "marks": history_ranges.encode_marks(known)}
        with pytest.raises(Lost, match=r"queue s \(shard 1\).*trimmed before they were read"):
            rows(url, "history", **bounds)
        (gap,) = [r for r in rows(url, "history", onTrim="report", **bounds) if r["_corrupt"]]
        assert (gap["event"], gap["queue"], gap["shard"]) == ("gap", "s", 1)
    client.xtrim("redisq:{s/1}:hist", maxlen=0, approximate=False)
    with pytest.raises(Lost):
        rows(url, "history", marks=history_ranges.encode_marks(before))


# --- the lake ----------------------------------------------------------------------------------


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url, protocol=3) as client:
        client.flushall()
        yield client


@pytest.mark.slow
def test_events_trimmed_between_two_exports_fail_the_run_or_are_reported(
    spark: SparkSession, valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    server = Server(ServerAddress(valkey_url))
    queue = DelaySet(valkey, "q")
    queue.configure("c", 1, {"history": "all"})

    def read(name: str, **options: str) -> DataFrame:
        given = {"table": name, "url": valkey_url, **options}
        return spark.read.format("redisq").options(**given).load()

    def happen(n: int) -> None:
        for k in range(n):
            queue.schedule([(f"e{k}-{time.monotonic_ns()}", b"")], after=0)

    def export(**options: str) -> lake_export.ExportResult:
        until = run(valkey, server_ms()) + 1
        while run(valkey, server_ms()) < until:
            pass
        lake, trim = Lake(str(tmp_path)), {"onTrim": "fail"}
        return lake_export.export(server, read, "history", lake, until_ms=until, **trim | options)

    def lying() -> int:
        return lake_export.lake_rows(Lake(str(tmp_path)), ["history"])

    happen(20)
    assert export().rows == 21
    trim(valkey, 5)  # the lake has all of these
    happen(10)
    valkey.xadd(KEY, {"who": "knows"})
    second = export()
    assert (second.rows, second.corrupt) == (10, 1)
    happen(10)
    trim(valkey, 4)
    before = lying()
    with pytest.raises(Lost, match="6 events were trimmed before they were read"):
        export()
    assert lying() == before
    third = export(onTrim="report")
    # The unreadable row is the gap; the corrupt event is in the lake already.
    assert (third.rows, third.corrupt) == (4, 1)
    happen(3)
    fourth = export()
    assert (fourth.rows, fourth.corrupt) == (3, 0)
