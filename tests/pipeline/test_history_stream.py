"""The history as a stream: exactly once for any limit, after restarts and trimming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from redisq_ops import DelaySet
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, Lost, NotFound, Refused
from redisq_ops.core.queues.delay import ShardedDelaySet
from redisq_ops.pipeline.session.data_source import RedisqDataSource
from redisq_ops.pipeline.source.history_stream import HistoryStreamReader
from redisq_ops.pipeline.source.job_errors import translate_job_error
from redisq_ops.pipeline.source.options import parse_options

from ..command_line import everywhere
from .rows import ERROR, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HIST = "redisq:{q}:hist"
ALL = ReadAllAvailable()


def recording_queue(client: redis.Redis, name: str = "q", shards: int = 1) -> Any:
    """A queue that records its whole history."""
    queue: Any = (
        DelaySet(client, name) if shards == 1 else ShardedDelaySet(client, name, shards=shards)
    )
    queue.configure("c", 1, {"history": "all"})
    return queue


def append_events(queue: Any, first: int, last: int) -> None:
    """Append one event per number."""
    for n in range(first, last + 1):
        queue.schedule([(f"e{n}", b"")], after=3600)


def stream(url: str, table: str = "history", **options: str) -> HistoryStreamReader:
    return HistoryStreamReader(parse_options({"table": table, "url": url, **options}))


def batch(reader: HistoryStreamReader, start: Any, end: Any) -> list[dict[str, Any]]:
    """The rows of a micro-batch. Offsets go through a checkpoint's JSON, as Spark's do."""
    start, end = json.loads(json.dumps([start, end]))
    return [
        row
        for partition in reader.partitions(start, end)
        for found in reader.read(partition)
        for row in found.to_pylist()
    ]


def drain(
    reader: HistoryStreamReader, start: Any, limit: Any = ALL
) -> tuple[list[str | None], Any]:
    """Read batch by batch until nothing is new: ids, and the last offset."""
    found: list[str | None] = []
    for _ in range(1000):
        end = reader.latestOffset(start, limit)
        if end == start:
            return found, start
        found += [row["id"] for row in batch(reader, start, end) if row["event"] == "submitted"]
        start = end
    raise AssertionError("it doesn't come to an end")


def names(first: int, last: int) -> list[str]:
    return [f"e{n}" for n in range(first, last + 1)]


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_batches_of_any_size_have_each_event_exactly_once(
    limit: int, client: redis.Redis, url: str
) -> None:
    queue = recording_queue(client)
    append_events(queue, 1, 20)
    reader = stream(url)
    found, end = drain(reader, reader.initialOffset(), ReadMaxRows(limit))
    assert found == names(1, 20)
    append_events(queue, 21, 25)
    later, _ = drain(stream(url), end, ReadMaxRows(limit))  # another process goes on
    assert later == names(21, 25)


def test_a_micro_batch_never_exceeds_its_limit(client: redis.Redis, url: str) -> None:
    append_events(recording_queue(client, shards=3), 1, 60)
    append_events(recording_queue(client, "other"), 1, 5)
    reader = stream(url, maxEventsPerTrigger="10")
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    sizes = []
    while (end := reader.latestOffset(start, limit)) != start:
        sizes.append(len({(r["shard"], r["event_id"]) for r in batch(reader, start, end)}))
        start = end
    assert sum(sizes) >= 65 and max(sizes) <= 13  # shares of four shards are rounded up
    assert isinstance(stream(url).getDefaultReadLimit(), ReadAllAvailable)


def test_reading_a_micro_batch_again_gives_the_same_rows(client: redis.Redis, url: str) -> None:
    queue = recording_queue(client)
    append_events(queue, 1, 10)
    reader = stream(url)
    end = reader.latestOffset({}, ReadMaxRows(6))
    once = batch(reader, {}, end)
    append_events(queue, 11, 20)
    assert batch(stream(url), {}, end) == once


def test_new_shards_and_queues_are_read_from_the_beginning(client: redis.Redis, url: str) -> None:
    append_events(recording_queue(client, shards=3), 1, 30)
    reader = stream(url)
    found, end = drain(reader, {}, ReadMaxRows(4))
    assert sorted(map(str, found)) == sorted(names(1, 30))
    append_events(recording_queue(client, "new"), 1, 3)
    assert drain(reader, end)[0] == names(1, 3)


def test_a_stream_begins_where_each_queue_is_to_begin(client: redis.Redis, url: str) -> None:
    """At the earliest or latest event, a time, or the offset of another stream's progress."""
    forty_events(client)
    append_events(recording_queue(client, "other"), 1, 5)
    append_events(recording_queue(client, "two", shards=2), 1, 6)
    middle = 1_000_000 + 29 * 10  # of e29

    def begun(starting: Any) -> dict[str, list[str]]:
        text = starting if isinstance(starting, str) else json.dumps(starting)
        reader = stream(url, startingOffsets=text)
        start, found = reader.initialOffset(), dict[str, list[str]]()
        while (end := reader.latestOffset(start, ReadMaxRows(7))) != start:
            for row in batch(reader, start, end):
                if row["event"] == "submitted":
                    found.setdefault(row["queue"], []).append(row["id"])
            start = end
        return found

    assert begun("latest") == {}
    assert begun(str(middle)) | {"two": []} == {
        "q": names(29, 39),
        "other": names(1, 5),
        "two": [],
    }
    assert begun("1970-01-01T00:16:40.290+00:00")["q"] == names(29, 39)
    assert begun(str(middle - 9))["q"] == names(29, 39)  # between two events
    assert begun("0")["q"] == begun(str(10**6))["q"] == names(0, 39)
    found = begun({"q": middle, "two/1": "earliest", "two": "latest", "*": "latest"})
    assert found.pop("q") == names(29, 39) and found.keys() <= {"two"}
    reader = stream(url)
    end = reader.latestOffset({}, ReadMaxRows(60))
    rest = begun({"q": end["q/0"], "*": "latest"}).get("q", [])
    assert rest == names(end["q/0"]["seen"], 39)
    with pytest.raises(NotFound, match="no queue or shard 'nope'"):
        stream(url, startingOffsets='{"nope": "latest"}').initialOffset()
    client.xtrim(HIST, maxlen=20, approximate=False)
    assert begun(str(middle))["q"] == names(29, 39)  # counted as they are: no gap


def test_progress_has_the_latest_offset_and_the_events_behind_it(
    client: redis.Redis, url: str
) -> None:
    append_events(recording_queue(client), 1, 9)  # ten events, with the setting
    reader = stream(url)
    end = reader.latestOffset({}, ReadMaxRows(4))
    report = reader.reportLatestOffset()
    assert report is not None and report["latest"]["q/0"]["seen"] == 10
    assert report["behind"] == 6 and report["behind_by_shard"] == {"q/0": 6}
    reader.latestOffset(end, ALL)
    report = reader.reportLatestOffset()
    assert report is not None and report["behind"] == 0


def test_dead_letters_are_a_stream(client: redis.Redis, url: str) -> None:
    queue = everywhere(client)
    reader = stream(url, table="dead", payloads="true", maxEventsPerTrigger="3")
    end = reader.latestOffset({}, ALL)
    (row,) = batch(reader, {}, end)
    assert [row] == rows(url, "dead", payloads="true") and row["id"] == "r1/2"
    taken = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(one, "reject", ERROR) for one in taken])
    later = reader.latestOffset(end, ALL)
    (row,) = batch(reader, end, later)
    assert (row["id"], row["error_type"], row["_corrupt"]) == (taken[0].id, "SMTP", None)
    ids = [one.id for one in taken]
    queue.move("op1", 1, ids, source="dead", target="trash", high_water_ms=10**13)
    (gone,) = batch(reader, end, later)  # read again, after somebody purged it
    assert (gone["id"], gone["since_at"]) == (row["id"], row["since_at"])
    assert gone["_corrupt"] == "it was changed after it became dead"
    assert (
        reader.latestOffset(later, ALL) == later
        or batch(reader, later, reader.latestOffset(later, ALL)) == []
    )


def test_available_now_ends_at_the_offsets_of_its_start(client: redis.Redis, url: str) -> None:
    queue = recording_queue(client)
    append_events(queue, 1, 10)
    reader = stream(url)
    reader.prepareForTriggerAvailableNow()
    append_events(queue, 11, 12)
    found, end = drain(reader, {}, ReadMaxRows(3))
    assert found == names(1, 10)
    append_events(recording_queue(client, "new"), 1, 1)
    assert reader.latestOffset(end, ALL) == end
    assert drain(stream(url), end)[0] == [*names(11, 12), "e1"]


def test_every_trimmed_event_is_counted_as_missing(client: redis.Redis, url: str) -> None:
    queue = recording_queue(client)
    append_events(queue, 1, 10)
    _, end = drain(stream(url), {})
    append_events(queue, 11, 20)
    client.xtrim(HIST, maxlen=4, approximate=False)
    strict, lenient = stream(url), stream(url, onTrim="report")
    latest = strict.latestOffset(end, ALL)
    with pytest.raises(Lost, match="6 events were trimmed"):
        batch(strict, end, latest)
    found = batch(lenient, end, latest)
    assert [row["id"] for row in found] == [*names(17, 20), None]
    assert found[-1]["event"] == "gap" and "6 events" in found[-1]["detail"]
    append_events(queue, 21, 21)
    assert drain(strict, latest)[0] == ["e21"]


def test_trimming_events_already_read_is_no_gap(client: redis.Redis, url: str) -> None:
    queue = recording_queue(client)
    append_events(queue, 1, 10)
    _, end = drain(stream(url), {})
    client.xtrim(HIST, maxlen=0, approximate=False)
    append_events(queue, 11, 13)
    assert drain(stream(url), end)[0] == names(11, 13)


@pytest.mark.parametrize("limit", [3, 1000])
def test_a_gap_across_small_batches_is_reported_once(
    limit: int, client: redis.Redis, url: str
) -> None:
    queue = recording_queue(client)
    append_events(queue, 1, 20)
    reader = stream(url, onTrim="report")
    start = reader.latestOffset({}, ReadMaxRows(3))
    client.xtrim(HIST, maxlen=10, approximate=False)
    rows_read = []
    while (end := reader.latestOffset(start, ReadMaxRows(limit))) != start:
        rows_read += batch(reader, start, end)
        start = end
    gaps = [row["detail"] for row in rows_read if row["event"] == "gap"]
    assert len(gaps) == 1 and "8 events" in gaps[0]  # of 21, 3 were read and 10 are left
    assert [row["id"] for row in rows_read if row["event"] == "submitted"] == names(11, 20)


def test_a_history_that_was_started_anew_is_a_gap(client: redis.Redis, url: str) -> None:
    queue = recording_queue(client)
    append_events(queue, 1, 10)
    _, end = drain(stream(url), {})
    client.delete(HIST)
    append_events(queue, 11, 12)
    strict, lenient = stream(url), stream(url, onTrim="report")
    latest = strict.latestOffset(end, ALL)
    with pytest.raises(Lost, match="started anew"):
        batch(strict, end, latest)
    found = batch(lenient, end, latest)
    assert {row["id"] for row in found} == {None, *names(11, 12)}
    assert drain(strict, latest)[0] == []


def test_a_deregistered_queue_with_unread_events_is_a_gap(client: redis.Redis, url: str) -> None:
    append_events(recording_queue(client), 1, 10)
    append_events(recording_queue(client, "other"), 1, 5)
    strict, lenient = stream(url), stream(url, onTrim="report")
    start = strict.latestOffset({}, ReadMaxRows(4))
    end = strict.latestOffset(start, ALL)
    client.hdel("redisq:registry", "q")
    client.delete(HIST)
    with pytest.raises(
        Lost, match=r"history of queue q, after .*: 9 events were deleted with the queue"
    ):
        batch(strict, start, end)
    found = batch(lenient, start, end)
    (gap,) = [row for row in found if row["event"] == "gap"]
    assert gap["queue"] == "q" and gap["kind"] is None and gap["_corrupt"]
    assert {row["queue"] for row in found} == {"q", "other"}
    assert drain(strict, end)[0] == []


def test_a_shard_whose_history_was_deleted_is_a_gap(client: redis.Redis, url: str) -> None:
    append_events(recording_queue(client, shards=2), 1, 20)
    reader = stream(url)
    end = reader.latestOffset({}, ALL)
    client.delete("redisq:{q/1}:hist")
    with pytest.raises(Lost, match=r"queue q \(shard 1\).*deleted with the queue or its shard"):
        batch(reader, {}, end)


def parts_of(reader: HistoryStreamReader, start: Any, end: Any) -> list[Any]:
    start, end = json.loads(json.dumps([start, end]))
    return [partition.value for partition in reader.partitions(start, end)]


def forty_events(client: redis.Redis) -> None:
    recording_queue(client)
    client.delete(HIST)
    for n in range(40):
        event: Any = {"t": 1_000_000 + n, "by": "w", "submitted": f"e{n}"}
        client.xadd(HIST, event, id=f"{1_000_000 + n * 10}-0")


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_large_micro_batch_is_read_in_several_partitions(
    size: int, client: redis.Redis, url: str
) -> None:
    forty_events(client)
    reader = stream(url, rowsPerPartition=str(size))
    start = reader.latestOffset({}, ReadMaxRows(5))
    end = reader.latestOffset(start, ALL)
    assert len(parts_of(reader, start, end)) == -(-35 // size)
    assert [row["id"] for row in batch(reader, start, end)] == names(5, 39)
    assert batch(stream(url, rowsPerPartition=str(size)), start, end) == batch(reader, start, end)


@pytest.mark.parametrize("left", [35, 30, 12, 1, 0])
def test_trimmed_events_of_a_large_micro_batch_are_a_gap(
    left: int, client: redis.Redis, url: str
) -> None:
    forty_events(client)
    strict, lenient = (
        stream(url, rowsPerPartition="4", onTrim=word) for word in ("fail", "report")
    )
    start = strict.latestOffset({}, ReadMaxRows(5))
    end = strict.latestOffset(start, ALL)
    planned = strict.partitions(start, end)
    client.xtrim(HIST, maxlen=left, approximate=False)
    # Trimmed before the parts were planned, and after.
    for parts in (lenient.partitions(start, end), planned):
        found = [row for one in parts for b in lenient.read(one) for row in b.to_pylist()]
        assert [r["id"] for r in found if r["event"] == "submitted"] == names(40 - left, 39)
        gaps = [r["detail"] for r in found if r["event"] == "gap"]
        assert bool(gaps) == (left < 35)
        if parts is not planned and gaps:
            assert len(gaps) == 1 and f"{35 - left} events" in gaps[0]
    if left < 35:
        with pytest.raises(Lost, match=f"{35 - left} events were trimmed"):
            batch(strict, start, end)
        with pytest.raises(Lost, match="trimmed"):
            [row for one in planned for row in strict.read(one)]


@pytest.mark.parametrize("option", [{"maxEventsPerTrigger": "5"}, {"startingOffsets": "latest"}])
def test_stream_options_are_refused_for_batch_reads(option: dict[str, str], url: str) -> None:
    source = RedisqDataSource({"table": "history", "url": url, **option})
    assert isinstance(source.streamReader(source.schema()), HistoryStreamReader)
    with pytest.raises(BadInput, match="are for a stream"):
        source.reader(source.schema())


def test_only_the_history_can_be_streamed_and_without_bounds(url: str) -> None:
    with pytest.raises(BadInput, match="only the tables history and dead"):
        HistoryStreamReader(parse_options({"table": "waiting", "url": url}))
    for bound in ("since", "until"):
        with pytest.raises(BadInput, match=f"option {bound} is not for a stream"):
            stream(url, **{bound: "5"})


@pytest.mark.slow
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_a_failed_query_restarts_from_its_checkpoint_exactly_once(
    spark: SparkSession, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    queue = recording_queue(client)
    append_events(queue, 1, 99)  # and the setting itself: 100 events
    seen: list[str] = []
    fails = {2}

    def keep(frame: DataFrame, nth: int) -> None:
        if nth in fails:
            fails.clear()
            raise RuntimeError("the disk is full")
        seen.extend(row.event_id for row in frame.select("event_id").collect())

    def run() -> None:
        options = {"table": "history", "url": url, "maxEventsPerTrigger": "30"}
        frame = spark.readStream.format("redisq").options(**options).load()
        query = (
            frame.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.lastProgress is not None
        (source,) = query.lastProgress["sources"]
        assert json.loads(source["latestOffset"])["behind"] == 0

    with pytest.raises(Exception, match="disk is full"):
        run()
    assert len(seen) == 60
    append_events(queue, 100, 109)
    run()
    assert len(seen) == len(set(seen)) == 110
    run()
    assert len(seen) == 110
    queue.configure("c", 2, {"history": "off"})
    for table, kind, message in (
        ("waiting", BadInput, "only the tables history and dead can be read as a stream"),
        (
            "dead",
            Refused,
            "queue q keeps no history, by which its dead letters are a stream: redisq",
        ),
    ):
        frame = spark.readStream.format("redisq").options(table=table, url=url).load()
        with pytest.raises(Exception, match=rf"^\[.*{message}") as refused:
            frame.writeStream.format("noop").start().awaitTermination()
        known = translate_job_error(refused.value)
        assert isinstance(known, kind) and "\n" not in str(known)
