"""Tables as read by the reader and by Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import redis

from redisq_ops import DelaySet, RequestQueue
from redisq_ops.core.engine import queue_classes as layouts
from redisq_ops.core.engine.state_scan import ColumnPage, ScoreRange
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.errors import (
    BadInput,
    LoginRefused,
    Lost,
    NotFound,
    Unreachable,
    WrongKind,
)
from redisq_ops.core.queues.request import ShardedRequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import Call
from redisq_ops.demo.server import binaries, cluster
from redisq_ops.ops.groups.fingerprint import fingerprint
from redisq_ops.ops.redaction import NO_REDACTION
from redisq_ops.pipeline.source import entry_decoder, model_rows
from redisq_ops.pipeline.source.arrow_batch import RowOrigin
from redisq_ops.pipeline.source.call_size import CallSize
from redisq_ops.pipeline.source.connection import WriteInReader, retry_unreachable, run_read_only
from redisq_ops.pipeline.source.options import parse_options
from redisq_ops.pipeline.source.read_partitions import NumberRange, _lots
from redisq_ops.pipeline.source.schemas import arrow, struct
from redisq_ops.pipeline.source.table_reader import TableReader
from redisq_ops.pipeline.source.tables import TABLES
from redisq_ops.pipeline.sql.query_bounds import Clock
from redisq_ops.pipeline.sql.query_tables import query_frame, table_uses

from ..command_line import dead_letters, everywhere
from ..core.cluster.test_failover import until, users, watched
from ..dead_entries import KINDS
from ..foreign_keys import put
from .rows import ERROR, calls, ids, paged, reading, rows, scattered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONE = pytest.mark.parametrize("server", ["valkey"], indirect=True)
"""a session and one kind of server; readers without Spark are tested on the other kind"""
STATES = ("dead", "pending", "delayed", "waiting")


def ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


# --- what is in the rows -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_entries_of_every_kind_of_queue(
    kind: str, client: redis.Redis, url: str
) -> None:
    make, fill = KINDS[kind]
    queue = make(client, "mail")
    fill(queue)
    scattered(queue)
    seen = 0
    for state in STATES:
        expected = {entry.id: entry for entry in paged(queue, state)}
        found = rows(url, state, payloads="true", rowsPerPartition="3", queue=queue.name)
        assert sorted(row["id"] for row in found) == sorted(expected), state
        for row in found:
            entry = expected[row["id"]]
            error = entry.error or Failure("", "")
            assert (row["queue"], row["kind"], row["state"]) == (queue.name, queue.kind, state)
            assert (row["failures"], row["lost"], row["attempts"]) == (
                entry.failures,
                entry.lost,
                entry.attempts,
            )
            assert (ms(row["first_at"]), ms(row["since_at"])) == (entry.first_ms, entry.since_ms)
            for name in ("consumer", "client", "called", "op", "payload"):
                assert row[name] == getattr(entry, name), (state, name)
            time = {"pending": "deadline_at", "delayed": "ready_at", "waiting": "ready_at"}
            if state in time:
                assert ms(row[time[state]]) == entry.at_ms
            if "error" in row:
                values = (row["error_type"] or "", row["error"] or "", row["traceback"] or "")
                assert values == (error.type, error.message, error.traceback)
            if state == "dead":
                assert row["reason"] == entry.reason == "rejected"
                assert row["fingerprint"] == fingerprint(entry)
            assert row["_corrupt"] is None
            seen += 1
        assert len({row["shard"] for row in found}) == 1 or "shards" in kind
    assert seen == queue.counts().waiting + 9 + 4 + 7


def test_queues_of_other_programs_are_read_by_name(client: redis.Redis, url: str) -> None:
    put(client, "sidekiq-7")
    before = client.dbsize()
    names = {row["queue"] for row in rows(url, "dead", queue="sidekiq:default")}
    waiting = rows(url, "waiting", queue="sidekiq:default", payloads="true")
    assert names <= {"sidekiq:default"} and waiting
    assert all(row["payload"].startswith(b"{") for row in waiting)
    assert rows(url, "history", queue="sidekiq:default") == []
    assert client.dbsize() == before


def test_a_partly_readable_state_is_refused(client: redis.Redis, url: str) -> None:
    put(client, "sidekiq-7")
    client.delete("retry")
    client.set("retry", "somebody else's")
    with pytest.raises(WrongKind, match="keeps its data: retry"):
        rows(url, "delayed", queue="sidekiq")
    assert rows(url, "waiting", queue="sidekiq")


def test_a_job_is_one_row_if_its_deployment_is_registered_too(
    client: redis.Redis, url: str
) -> None:
    put(client, "sidekiq-7")
    for name in ("sidekiq:default", "sidekiq:low"):
        SidekiqQueue(client, name).configure("op", 1, {"max_failures": "3"})
    apart = {table: rows(url, table) for table in ("waiting", "pending", "delayed", "dead")}
    assert {row["queue"] for row in apart["waiting"]} <= {"sidekiq:default", "sidekiq:low"}
    SidekiqQueue(client, "sidekiq").configure("op", 1, {"max_failures": "3"})
    for table, before in apart.items():
        found = rows(url, table)
        assert {row["queue"] for row in found} <= {"sidekiq"}
        assert len({row["id"] for row in found}) == len(found) >= len(before)
    assert apart["waiting"]


@pytest.mark.parametrize("layout", ["sidekiq-7", "sidekiq-8", "resque"])
def test_every_table_of_every_recorded_layout_is_read(
    layout: str, client: redis.Redis, url: str
) -> None:
    put(client, layout)
    kind = layout.partition("-")[0]
    queue: Any = layouts.foreign_class(kind)
    found: dict[str, int] = {}
    for name in [f"{kind}:{one}" for one in queue(client, kind).names()]:
        reader = queue(client, name)
        for table in TABLES.keys() - {"finished", "tasks", "schedules"}:
            read = rows(url, table, queue=name)
            assert not any(row["_corrupt"] for row in read)
            if table in STATES:
                expected = [entry.id for entry in paged(reader, table)]
                assert [row["id"] for row in read] == expected, (name, table)
                found[table] = found.get(table, 0) + len(read)
            elif table == "counts":
                known = {state: reader.counts().of(state) for state in STATES}
                assert [{state: row[state] for state in STATES} for row in read] == [known]
            else:
                assert read == []
    assert found["pending"] and found["waiting"] and found["dead"], found


def test_an_entry_without_a_deadline_is_in_any_time_range(client: redis.Redis, url: str) -> None:
    """Sidekiq's own workers hold jobs without one."""
    put(client, "sidekiq-7")
    pending = ids(url, "pending", queue="sidekiq:default")
    assert pending
    assert ids(url, "pending", queue="sidekiq:default", since="5", until="10") == pending
    dead = rows(url, "dead", queue="sidekiq:default")
    assert dead and all(row["since_at"] for row in dead)
    assert ids(url, "dead", queue="sidekiq:default", until="10") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_up_has_the_same_row_as_the_table(kind: str, client: redis.Redis, url: str) -> None:
    make, fill = KINDS[kind]
    queue = make(client, "mail")
    fill(queue)
    scattered(queue)
    for state in STATES:
        table = {row["id"]: row for row in rows(url, state, payloads="true", queue=queue.name)}
        counted = rows(url, state, columns="queue,shard", queue=queue.name)
        assert len(counted) == len(table)
        one = min(table, default="nope")
        wanted = [row for id, row in table.items() if id == one]
        assert rows(url, state, payloads="true", queue=queue.name, id=f"{one},nope") == wanted
        request = (wanted[0]["request"] if wanted else None) or "nope"
        found = rows(url, state, payloads="true", queue=queue.name, request=request)
        assert sorted(found, key=lambda row: row["id"]) == [
            table[id] for id in sorted(table) if table[id]["request"] == request
        ]
    (counts,) = [r for r in rows(url, "counts", queue=queue.name) if not r["shard"]][:1]
    if not counts["shard"] and "shards" not in kind:
        expected = queue.counts()
        assert [counts[state] for state in STATES] == [expected.of(state) for state in STATES]


def test_requests_subrequests_and_results(client: redis.Redis, url: str) -> None:
    queue = everywhere(client)
    queue.submit([b"x"] * 3, id="r2")
    queue.settle(
        [
            Settlement(one, "result", b"\xff")
            for one in queue.take(3, consumer="w2").deliveries
            if one.request == "r2"
        ]
    )
    r1 = queue.request("r1")
    assert r1 is not None
    (row,) = rows(url, "requests", request="r1")
    for name in ("state", "priority", "limit", "paused", "total", "waiting", "dead", "done"):
        assert row[name] == getattr(r1, name)
    assert ms(row["created_at"]) == r1.created_ms and row["closed_at"] is None
    assert {row["request"] for row in rows(url, "requests")} == {"r1", "r2"}
    for table in ("requests", "subrequests", "results"):
        assert rows(url, table, request="r1", requests="settled") == []
        assert rows(url, table, request="r1", requests="open")
    assert [r["request"] for r in rows(url, "requests", requests="open")] == [
        r.id for r in queue.requests()
    ]
    for size in ("1", "3", "100"):
        parts = rows(url, "subrequests", rowsPerPartition=size, payloads="true")
        assert sorted(r["id"] for r in parts) == [
            *(f"r1/{n}" for n in range(1, 9)),
            *(f"r2/{n}" for n in range(1, 4)),
        ]
        for r in parts:
            entry = queue.get(r["id"])
            assert entry is not None and (r["state"], r["number"]) == (
                entry.state,
                int(r["id"].rpartition("/")[2]),
            )
            if r["state"] == "dead":
                assert (r["error_type"], ms(r["since_at"])) == ("SMTP", entry.since_ms)
    results = rows(url, "results", request="r1")
    assert [(r["number"], r["state"]) for r in results][:2] == [(1, "done"), (2, "dead")]
    assert results[0]["result"] == b"fine" and results[1]["error_type"] == "SMTP"


def test_large_requests_are_split_into_several_lots() -> None:
    numbers = [NumberRange("a", 1, 5), NumberRange("b", 1, 1), NumberRange("c", 1, 2)]
    lots = list(_lots(numbers, 3))
    assert lots == [
        (NumberRange("a", 1, 3),),
        (NumberRange("a", 4, 5), NumberRange("b", 1, 1)),
        (NumberRange("c", 1, 2),),
    ]


def test_history_has_a_row_for_each_item_of_an_event(client: redis.Redis, url: str) -> None:
    queue: RequestQueue[redis.Redis] = RequestQueue(client, "mail")
    queue.configure("c1", 1, {"history": "all"})
    queue.submit([b"x"] * 3, id="r1")
    one, two, three = queue.take(3, consumer="w1").deliveries
    queue.settle(
        [Settlement(one, "ack"), Settlement(two, "reject", ERROR), Settlement(three, "fail", ERROR)]
    )
    found = rows(url, "history")
    events_read = {(r["event"], r["id"], r["request"], r["number"], r["detail"]) for r in found}
    assert ("submitted", "r1", "r1", None, "1|3") in events_read
    assert ("taken", "r1/2", "r1", 2, None) in events_read
    assert ("dead", "r1/2", "r1", 2, "rejected") in events_read
    assert ("failed", "r1/3", "r1", 3, "w1") in events_read
    assert ("op", None, None, None, "c1|set|history|all") in events_read
    (done,) = [r for r in found if r["event"] == "done"]
    assert done["run_ms"] is not None and done["detail"] is None and done["by"] == "w1"
    events = queue.history()
    assert len(found) == sum(len(items) for e in events for items in e.what.values())
    assert {ms(r["at"]) for r in found} == {e.at_ms for e in events}


def test_only_the_selected_columns_are_read(client: redis.Redis, url: str) -> None:
    everywhere(client)
    client.config_resetstat()
    (row,) = rows(url, "dead", columns="number,id")
    assert list(row) == ["number", "id"] and row == {"number": 2, "id": "r1/2"}
    assert "hmget" not in calls(client)
    assert rows(url, "dead")[0]["payload"] is None
    assert "xrange" not in calls(client)
    assert rows(url, "dead", columns="payload_bytes")[0]["payload_bytes"] == 20


def test_a_missing_queue_is_not_found(client: redis.Redis, url: str) -> None:
    assert rows(url, "dead") == []
    with pytest.raises(NotFound, match="no queue 'nope'"):
        rows(url, "dead", queue="nope")


# --- how a state is cut ------------------------------------------------------------------------


def test_parts_are_even_and_have_each_entry_once(client: redis.Redis, url: str) -> None:
    """Also with thousands of entries of one score, as after a bulk change."""
    dead_letters(client, 1000)
    key = "redisq:{mail}:dead"
    client.zadd(key, {f"r1/{n}": 5 for n in range(100, 900)})
    made = reading(url, "dead", rowsPerPartition="90")
    made.call_size.size = 7
    parts = made.plan()
    sizes = [sum(batch.num_rows for batch in made.read(part)) for part in parts]
    assert len(sizes) == 12 and max(sizes) - min(sizes) <= 1 and sum(sizes) == 1000
    found = ids(url, "dead", rowsPerPartition="90")
    assert sorted(found) == sorted(f"r1/{n}" for n in range(1, 1001))


@pytest.mark.parametrize("seed", range(4))
def test_unchanged_entries_are_read_once_while_others_change(
    seed: int, client: redis.Redis, url: str
) -> None:
    chance = random.Random(seed)
    queue = dead_letters(client, 300)
    key = "redisq:{mail}:dead"
    if seed % 2:
        client.zadd(key, {f"r1/{n}": 5 + chance.randrange(3) for n in range(1, 301)})
    made = reading(url, "dead", rowsPerPartition="60")
    parts = made.plan()
    gone: set[str] = set()
    found: list[str] = []
    leaf = queue
    for part in parts:
        cursor, more = None, True
        while more:
            assert part.span is not None
            page = leaf.read_range("dead", part.span, cursor, 7)
            found += [id.decode() for id in page.ids]
            cursor, more = page.cursor, page.cursor is not None
            left = [entry.id for entry in queue.page("dead", None, 300).entries]
            away = chance.sample(left, min(4, len(left)))
            queue.move(
                f"o{len(found)}-{len(gone)}",
                1,
                away,
                source="dead",
                target="trash",
                high_water_ms=10**13,
            )
            gone |= set(away)
    assert len(found) == len(set(found))
    assert {f"r1/{n}" for n in range(1, 301)} - gone <= set(found)


def test_a_time_range_reads_only_its_entries(client: redis.Redis, url: str) -> None:
    dead_letters(client, 1000)
    key = "redisq:{mail}:dead"
    at = {f"r1/{n}": 1_000_000 + n for n in range(1, 1001)}
    client.zadd(key, at)
    client.config_resetstat()
    bounds = {"since": "1000500", "until": "1000509"}
    assert ids(url, "dead", **bounds) == [f"r1/{n}" for n in range(500, 510)]
    made = reading(url, "dead", **bounds)
    (part,) = made.plan()
    assert part.span is not None and part.span.entries == 10
    # Without columns of the record, only the range itself is read.
    assert ids(url, "dead", **bounds, columns="id") == [f"r1/{n}" for n in range(500, 510)]


def test_ready_entries_are_waiting_not_delayed(client: redis.Redis, url: str) -> None:
    later: DelaySet[redis.Redis] = DelaySet(client, "later")
    later.schedule([("due", b"1")], after=0)
    later.schedule([("not", b"2")], after=3600)
    until = 1
    while later.counts().waiting < until:
        pass
    assert ids(url, "waiting") == ["due"] and ids(url, "delayed") == ["not"]


def test_history_is_partitioned_by_time(client: redis.Redis, url: str) -> None:
    queue: DelaySet[redis.Redis] = DelaySet(client, "q")
    queue.configure("c", 1, {"history": "all"})
    key = "redisq:{q}:hist"
    client.delete(key)
    for n in range(1, 501):
        client.xadd(key, {"t": n * 1000, "by": "w", "taken": f"e{n}"}, id=f"{n * 1000}-0")
    assert ids(url, "history", rowsPerPartition="50") == [f"e{n}" for n in range(1, 501)]
    assert len(reading(url, "history", rowsPerPartition="50").plan()) == 10
    bounds = {"since": "100000", "until": "110000"}
    for size in ("50", "3", "1"):
        found = ids(url, "history", rowsPerPartition=size, **bounds)
        assert found == [f"e{n}" for n in range(100, 111)]
    assert ids(url, "history", since="499001") == ["e500"]
    assert ids(url, "history", until="1999") == ["e1"]
    assert ids(url, "history", since="1", until="2") == []


def test_events_are_bounded_by_their_own_time_and_corrupt_ones_by_their_id(
    client: redis.Redis, url: str
) -> None:
    """The server's clock was set back: ids continue from where they were."""
    DelaySet(client, "q").configure("c", 1, {"history": "all"})
    client.delete("redisq:{q}:hist")
    client.xadd("redisq:{q}:hist", {"t": 9000, "by": "w", "taken": "e1"}, id="10000-0")
    client.xadd("redisq:{q}:hist", {"who": "knows"}, id="10000-1")
    client.xadd("redisq:{q}:hist", {"t": 7000, "by": "w", "taken": "e2"}, id="10000-2")
    assert ids(url, "history", until="9500") == ["e1", "e2"]
    (bad,) = [row for row in rows(url, "history", since="9500") if row["_corrupt"]]
    assert bad["event_id"] == "10000-1"
    assert ids(url, "history", since="8000", until="9999") == ["e1"]


# --- rows that can't be read, history that went ------------------------------------------------


def test_corrupt_records_among_many_are_corrupt_rows(client: redis.Redis, url: str) -> None:
    dead_letters(client, 200)
    client.hset("redisq:{mail}:meta", "r1/7", b"three words \xff")
    client.hset("redisq:{mail}:meta", "r1/8", "- 99999999999 0 0 0 w - failed 0")
    found = {row["id"]: row for row in rows(url, "dead")}
    assert len(found) == 200
    bad = {id for id, row in found.items() if row["_corrupt"]}
    assert bad == {"r1/7", "r1/8"}
    assert found["r1/7"]["consumer"] is None and found["r1/7"]["queue"] == "mail"
    assert "three" not in found["r1/7"]["_corrupt"]
    assert found["r1/9"]["reason"] == "rejected" and found["r1/9"]["error_type"] == "SMTP"


def test_a_corrupt_request_and_a_corrupt_event_are_corrupt_rows(
    client: redis.Redis, url: str
) -> None:
    everywhere(client)
    RequestQueue(client, "mail").submit([b"x"], id="r2")
    client.hset("redisq:{mail}:r:r1", "total", "many")
    client.xadd("redisq:{mail}:hist", {"who": "knows"})
    found = {row["request"]: row for row in rows(url, "requests")}
    assert found["r1"]["_corrupt"] and found["r1"]["total"] is None
    assert found["r2"]["_corrupt"] is None and found["r2"]["total"] == 1
    *good, bad = rows(url, "history")
    assert bad["_corrupt"] and bad["event_id"] and good
    assert not any(row["_corrupt"] for row in good)


@pytest.mark.slow
def test_column_decoding_equals_row_decoding() -> None:
    """Column decoding and the core's parsers, over valid and invalid errors."""
    chance = random.Random(5)
    odd = [
        None,
        b"",
        b"plain",
        b"{",
        b"null",
        b"[1]",
        b'{"type": 1, "message": "m"}',
        b'{"type": "T"}',
        b'{"type": "T",\n "message": "m"}',
        b'{"type":"T","message":"\\ud800"}',
        b"\xff\xfe",
        Failure("é", "ünï\n\x00", "\x9b").encoded(),
        ERROR,
        b'{"type": "T", "message": "m", "more": {"a": 1}}',
        b'{"type": null, "message": "m"}',
    ]
    table = TABLES["dead"]
    schema = arrow(table)
    origin = RowOrigin("q", "delay", 0, False)
    for _ in range(200):
        n = chance.randrange(1, 6)
        errors = [chance.choice(odd) for _ in range(n)]
        lines = [
            chance.choice([None, b"5-1 1 2 100 200 w1 - failed 0", b"- 0 0 0 0 - op1 - 7"])
            for _ in range(n)
        ]
        page = ColumnPage(
            [b"e%d" % i for i in range(n)],
            [1000.0 + i for i in range(n)],
            None,
            0,
            list(lines),
            list(errors),
        )
        slow = model_rows.entry_batch(entry_decoder._decode_rows(page, "dead"), origin, schema)
        assert (
            entry_decoder.decode_page(page, origin, "dead", schema).to_pylist() == slow.to_pylist()
        )


def trimmed(client: redis.Redis, url: str, **options: str) -> tuple[TableReader, Any]:
    """A read of ten events of which three are trimmed between planning and reading."""
    queue: DelaySet[redis.Redis] = DelaySet(client, "q")
    queue.configure("c", 1, {"history": "all"})
    for n in range(9):
        queue.schedule([(f"e{n}", b"")], after=0)
    made = reading(url, "history", **options)
    (part,) = made.plan()
    client.xtrim("redisq:{q}:hist", maxlen=7, approximate=False)
    return made, part


def test_trimmed_history_is_an_error_by_default(client: redis.Redis, url: str) -> None:
    made, part = trimmed(client, url)
    with pytest.raises(Lost, match="3 events were trimmed"):
        list(made.read(part))


def test_trimmed_history_can_be_reported_as_a_row(client: redis.Redis, url: str) -> None:
    made, part = trimmed(client, url, onTrim="report")
    found = [row for batch in made.read(part) for row in batch.to_pylist()]
    assert [row["event"] for row in found] == ["submitted"] * 7 + ["gap"]
    assert "3 events were trimmed" in found[-1]["_corrupt"] and found[-1]["queue"] == "q"


# --- what reading costs and what it can't do ---------------------------------------------------


def answered(client: redis.Redis) -> int:
    """Bytes that the server has sent."""
    stats: Any = client.info("stats")
    return int(stats["total_net_output_bytes"])


def content(client: Any) -> dict[bytes, Any]:
    """Every key's value. Hashes by field: reading one with HGETALL may have reordered it."""
    return {
        key: client.hgetall(key) if client.type(key) == b"hash" else client.dump(key)
        for key in client.keys("*")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_reading_changes_nothing(kind: str, client: redis.Redis, url: str) -> None:
    make, fill = KINDS[kind]
    queue = make(client, "mail")
    fill(queue)
    scattered(queue)
    before = content(client)
    client.config_resetstat()
    for name, table in TABLES.items():
        options = {"payloads": "true"} if table.column("payload") else {}
        rows(url, name, **options)
    command_counts = calls(client)
    assert content(client) == before
    writes: Any = client.command_list(category="write")
    assert not {name.decode() for name in writes} & {
        name.partition("|")[0] for name in command_counts
    }
    assert not {"eval", "evalsha", "fcall", "keys", "scan"} & set(command_counts)


@pytest.mark.parametrize("command", ["ZADD", "EVALSHA", "del", "CONFIG", "KEYS"])
def test_a_reader_sends_read_commands_only(command: str, client: redis.Redis) -> None:
    client.config_resetstat()
    with pytest.raises(WriteInReader):
        run_read_only(client, Call((command, "k", "x"), str, key="k"))
    assert command.lower() not in calls(client)


def test_call_size_follows_the_server_time() -> None:
    pace = CallSize(1000, 100)
    for _ in range(100):
        pace.learn(pace.size, pace.size)  # 1 µs each: a quarter of the time is for 250
    assert 200 < pace.size <= 250
    pace.learn(pace.size, 10**6)  # one long call halves it
    assert 100 <= pace.size <= 125 and pace.slowest_us == 10**6
    for _ in range(20):
        pace.learn(pace.size, pace.size * 1000)  # payloads of a megabyte, say
    assert pace.size == 1
    pace.learn(1, 10)
    assert pace.size == 2


def test_a_page_costs_two_round_trips(client: redis.Redis, url: str) -> None:
    dead_letters(client, 1000)
    made = reading(url, "dead")
    parts = made.plan()
    made.call_size = CallSize(10**9, 20, max_rows=20)
    client.config_resetstat()
    before = client.info("stats")["total_reads_processed"]
    assert sum(batch.num_rows for part in parts for batch in made.read(part)) == 1000
    command_counts = calls(client)
    # Scores of 320 entries in 16 calls of 20, and two columns of each in 32 calls.
    assert command_counts["zrange"] == 4 * 16 and command_counts["hmget"] == 2 * 50
    assert "zcount" not in command_counts and "zrank" not in command_counts
    assert client.info("stats")["total_reads_processed"] - before < 24, "two for each of 4 pages"


def test_one_slow_call_does_not_count_as_the_cost_of_a_page() -> None:
    """The server did not get a processor; smaller pages would only make it worse."""
    queue: Any = DelaySet(None, "mail")
    clock = iter([0, 100, 9_000, 0, 200, 10_200, 10_300])
    replies: dict[str, Callable[..., Any]] = {
        "ZRANGE": lambda _, low, high, *__: [
            [b"e%d" % n, 1.0] for n in range(low, min(high + 1, 6))
        ],
        "HMGET": lambda *_: [b"x"] * 2,
        "TIME": lambda *_: divmod(next(clock), 10**6),
    }
    description = queue.read_range.op("dead", ScoreRange(), None, 6, frozenset({"lines"}), 2)
    replies_sent: Any = None
    try:
        while True:
            requested_calls = description.send(replies_sent)
            replies_sent = [replies[call.command[0]](*call.command[1:]) for call in requested_calls]
    except StopIteration as stop:
        page = stop.value
    assert page.lines == [b"x"] * 6 and page.call_us == 200


def test_calls_are_retried_while_the_server_is_unreachable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waited: list[float] = []
    answers: list[Any] = [Unreachable("gone"), Unreachable("gone"), 7]

    def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    assert retry_unreachable(ask, waited.append) == 7 and waited == [0.2, 0.4]
    assert caplog.messages == ["gone; trying again for up to 60 s"]
    answers = [Unreachable("gone")] * 40
    with pytest.raises(Unreachable):
        retry_unreachable(ask, waited.append)
    assert 50 < sum(waited[2:]) < 60
    answers = [LoginRefused("wrong password"), 7]
    with pytest.raises(LoginRefused):
        retry_unreachable(ask, waited.append)
    answers, hanging = [Unreachable("no answer")] * 40, iter(range(0, 400, 11))
    with pytest.raises(Unreachable):
        retry_unreachable(ask, waited.append, clock=lambda: next(hanging))
    assert len(answers) > 30, "a server that hangs is given a minute, too"


def test_arrow_and_spark_schemas_match() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    for table in TABLES.values():
        assert to_arrow_schema(struct(table), timezone="UTC").equals(arrow(table))


# --- by Spark ----------------------------------------------------------------------------------


@pytest.fixture
def load(spark: SparkSession, url: str) -> Callable[..., DataFrame]:
    def made(table: str, **options: str) -> DataFrame:
        given = {"table": table, "url": url, **options}
        return spark.read.format("redisq").options(**given).load()

    return made


@pytest.mark.slow
@ONE
def test_spark_reads_every_table(client: redis.Redis, url: str, load: Any) -> None:
    everywhere(client)
    for name, table in TABLES.items():
        frame = load(name, rowsPerPartition="2")
        assert frame.columns == [column.name for column in table.columns]
        moment = ("until_at", "since_at") if name == "tasks" else ()  # when it was read
        read = [
            {k: v for k, v in row.asDict().items() if k not in moment} for row in frame.collect()
        ]
        assert read == [
            {
                k: v.replace(tzinfo=None) if isinstance(v, datetime) else v
                for k, v in row.items()
                if k not in moment
            }
            for row in rows(url, name)
        ], name


def run_query(spark: SparkSession, url: str, sql: str, table: str) -> list[Any]:
    """The rows of a query, of which `redisq spark sql` reads as much."""
    options = {"table": table, "url": url}
    frame = query_frame(spark, table_uses(sql, Clock())[table], options, NO_REDACTION)
    frame.createOrReplaceTempView(table)
    return spark.sql(sql).collect()


@pytest.mark.slow
@ONE
def test_a_query_reads_only_what_it_uses_and_always_all_of_that(
    spark: SparkSession, client: redis.Redis, url: str
) -> None:
    dead_letters(client, 1000)
    client.zadd("redisq:{mail}:dead", {f"r1/{n}": 1_000_000_000 + n for n in range(1, 1001)})
    dead_letters(client, 100, name="other")
    sizes: dict[str, int] = {}

    def ask(name: str, sql: str, table: str = "dead") -> list[Any]:
        before = answered(client)
        found = run_query(spark, url, sql, table)
        sizes[name] = answered(client) - before
        return [tuple(row) for row in found]

    assert len(ask("all", "select * from dead")) == 1100
    assert ask("count", "select count(*) from dead") == [(1100,)]
    assert ask("by queue", "select queue, count(*) from dead group by 1 order by 1") == [
        ("mail", 1000),
        ("other", 100),
    ]
    assert ask("counts", "select queue, dead from counts order by 1", "counts") == [
        ("mail", 1000),
        ("other", 100),
    ]
    assert len(ask("ids", "select id, since_at from dead")) == 1100
    assert ask("one", "select queue, number from dead where id = 'r1/1000'") == [("mail", 1000)]
    assert len(ask("request", "select number from dead where request = 'r1'")) == 1100
    assert ask("none", "select number from dead where request = 'nope'") == []
    bound = "since_at > timestamp'1970-01-12 13:46:40.500'"
    assert len(ask("late", f"select id from dead where queue = 'mail' and {bound}")) == 500
    # The branches of a union, a join and a subquery have filters of their own.
    assert ask(
        "union",
        """
        with mail as (select * from dead where queue = 'mail')
        select count(*) from mail union all select count(*) from mail where number = 3
        union all select count(*) from dead""",
    ) == [(1000,), (1,), (1100,)]
    assert ask(
        "join",
        "select count(*) from dead a join dead b using (id) where "
        "a.queue = 'mail' and b.queue = 'other'",
    ) == [(100,)]
    assert ask(
        "below",
        "select count(*) from dead where queue = 'mail' and number > "
        "(select max(number) from dead where queue = 'other')",
    ) == [(900,)]
    assert len(ask("twice", "select * from dead union all select * from dead")) == 2200
    few = 20_000
    assert max(sizes[name] for name in ("count", "by queue", "counts", "one", "none")) < few
    assert few < sizes["ids"] < sizes["all"] / 2 and sizes["late"] < 0.6 * sizes["all"]


@pytest.mark.slow
@ONE
def test_a_frame_can_be_reused_with_other_filters(client: redis.Redis, load: Any) -> None:
    """Spark would read with the last pushed filters for all queries of the frame."""
    dead_letters(client, 30)
    dead_letters(client, 10, name="other")
    frame = load("dead")
    mail, other = frame.where("queue = 'mail'"), frame.where("queue = 'other'")
    assert (mail.count(), frame.count(), mail.union(other).count()) == (30, 40, 40)
    assert mail.join(other, "number").count() == 10
    with pytest.raises(Exception, match="unknown option 'pushdown'"):
        load("dead", pushdown="true")


@pytest.mark.slow
@ONE
def test_spark_takes_columns_from_options_and_from_a_schema(
    spark: SparkSession, client: redis.Redis, url: str, load: Any
) -> None:
    everywhere(client)
    assert load("dead", columns="payload_bytes,id").collect() == [(20, "r1/2")]
    given = spark.read.format("redisq").options(table="dead", url=url)
    assert given.schema("id string, payload binary").load().collect()[0].payload[:1] == b"2"
    for schema, message in (
        ("id int", "is string, not int"),
        ("ident string", "no column 'ident'"),
    ):
        with pytest.raises(Exception, match=message):
            given.schema(schema).load().collect()


@pytest.mark.slow
@ONE
def test_errors_are_in_the_first_line_of_sparks(load: Any, client: redis.Redis) -> None:
    def first_line(action: Callable[[], object]) -> str:
        with pytest.raises(Exception) as refused:
            action()
        assert "Traceback" not in str(refused.value)
        return str(refused.value).partition("\n")[0]

    assert "BadInput: unknown option 'payload' (did you mean payloads?)" in first_line(
        lambda: load("dead", payload="true")
    )
    assert "NotFound: no queue 'nope' (redisq ls" in first_line(load("dead", queue="nope").count)


@pytest.mark.slow
@ONE
def test_no_secret_is_in_a_plan(
    spark: SparkSession, client: redis.Redis, url: str, tmp_path: Any, capsys: Any
) -> None:
    everywhere(client)
    file = tmp_path / "url"
    file.write_text(url.replace("redis://", "redis://default:hunter2@"))
    client.config_set("requirepass", "hunter2")
    try:
        client.auth("hunter2")
        frame = spark.read.format("redisq").options(table="dead", url_file=str(file)).load()
        assert frame.count() == 1
        frame.where("number = 2").explain(True)
    finally:
        client.config_set("requirepass", "")
    shown = capsys.readouterr().out
    assert "BatchScan redisq" in shown and "hunter2" not in shown


# --- past one server, and with few rights ------------------------------------------------------


def test_the_documented_read_only_user_may_read_every_table(
    client: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(client)
    (line,) = [line for line in users() if "redisq-viewer" in line]
    admin: Any = client
    admin.execute_command(*line.split())
    password = line.partition(">")[2].split()[0]
    monkeypatch.setenv("VIEWER", url.replace("://", f"://redisq-viewer:{password}@"))
    for name in TABLES:
        made = TableReader(parse_options({"table": name, "url_env": "VIEWER"}))
        n = sum(batch.num_rows for part in made.plan() for batch in made.read(part))
        assert n or name in ("finished", "schedules")


@pytest.mark.slow
def test_a_cluster_is_read_shard_by_shard_and_from_its_replicas() -> None:
    with cluster(binaries()["valkey"], replicas=True) as nodes:
        url = nodes.urls[0].replace("://", "+cluster://")
        queue = ShardedRequestQueue(connect(url), "mail", shards=3)
        for n in range(20):
            queue.submit([b"x"] * 2, id=f"r{n}", limit=2)
        while taken := queue.take(40, consumer="w").deliveries:
            queue.settle([Settlement(one, "reject", ERROR) for one in taken])
        expected = sorted(f"r{n}/{k}" for n in range(20) for k in (1, 2))
        assert sorted(ids(url, "dead", rowsPerPartition="5")) == expected
        assert len({row["shard"] for row in rows(url, "dead")}) == 3
        assert len(rows(url, "requests", requests="settled")) == 20
        masters = nodes.nodes
        with redis.Redis.from_url(nodes.urls[0]) as client:
            untyped: Any = client
            # first slot, last slot, master, replicas
            until(lambda: all(len(row) > 3 for row in untyped.execute_command("CLUSTER SLOTS")))
        for node in masters:
            node.command("CONFIG", "RESETSTAT")
        assert sorted(ids(url, "dead", replica="true")) == expected
        for node in masters:
            assert "cmdstat_hmget" not in node.command("INFO", "commandstats")


@pytest.mark.slow
def test_behind_sentinel_the_replica_is_read() -> None:
    with watched(binaries()["valkey"]) as (master, replica, url):
        first, second = redis.Redis.from_url(master.url), redis.Redis.from_url(replica.url)
        everywhere(first)
        until(lambda: second.dbsize() == first.dbsize() > 10)
        for node in (master, replica):
            node.command("CONFIG", "RESETSTAT")
        assert ids(url, "dead", replica="true") == ["r1/2"]
        assert "cmdstat_hmget" in replica.command("INFO", "commandstats")
        assert "cmdstat_hmget" not in master.command("INFO", "commandstats")
        assert ids(url, "dead") == ["r1/2"]
        assert "cmdstat_hmget" in master.command("INFO", "commandstats")


def test_a_wrong_column_type_is_refused_before_reading() -> None:
    from pyspark.sql.types import IntegerType, StructType

    from redisq_ops.pipeline.source.schemas import selected_columns

    with pytest.raises(BadInput, match="column id of table dead is string, not int"):
        selected_columns(TABLES["dead"], StructType().add("id", IntegerType()))


def test_batches_have_the_declared_types(client: redis.Redis, url: str) -> None:
    everywhere(client)
    for name in TABLES:
        made = reading(url, name)
        for part in made.plan():
            for batch in made.read(part):
                assert isinstance(batch, pa.RecordBatch) and batch.schema.equals(made.schema)
