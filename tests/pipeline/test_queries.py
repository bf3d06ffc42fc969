"""`redisq spark sql` against answers made of what redis-py reads, over as much of each table as the
query is said to need; and the command itself, whoever reads, in two orders, while queues change."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import redis

from redisq_ops import RequestQueue, Settlement
from redisq_ops.cli.commands import spark as spark_commands
from redisq_ops.cli.commands import spark_report, spark_submit
from redisq_ops.core.model.entry import Failure
from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.redaction import NO_REDACTION
from redisq_ops.pipeline.source.options import parse_options
from redisq_ops.pipeline.source.schemas import struct
from redisq_ops.pipeline.source.table_reader import TableReader
from redisq_ops.pipeline.source.tables import TABLES
from redisq_ops.pipeline.sql import duckdb_query, query_tables
from redisq_ops.pipeline.sql.duckdb_query import Translated
from redisq_ops.pipeline.sql.query_bounds import Clock
from redisq_ops.pipeline.sql.query_tables import only_reads, table_uses, with_all_columns
from redisq_ops.pipeline.sql.query_values import distinct_names, json_row, printable_frame

from ..command_line import Redisq
from ..foreign_keys import put

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_DEATH = 1_700_000_000_000
PLAN_LIKE = "a\n+- Project z"
MADE = {"mail": 25, "other": 15}
"""queue -> its dead letters in the beginning"""
MANY = {"mail": 60_000, "other": 40_400}
"""as `MADE`, in a second request of each: more than 100,000 in all"""
PRINTED = 20_000
"""of so many dead letters, no query that prints more rows is asked: printing takes the time"""
ALL = bool(os.environ.get("REDISQ_CORPUS"))
"""ask every query of 100,000 dead letters, also by Spark; takes six minutes"""


class Letter(NamedTuple):
    queue: str
    id: str
    number: int
    type: str
    error: str
    at: int


def error_of(number: int) -> Failure:
    message = PLAN_LIKE if number == 5 else f"box {number % 4} is full"
    return Failure("SMTP" if number % 3 else "Reject", message, f"Traceback\n  line {number}")


def die(client: redis.Redis, name: str, request: str, n: int) -> None:
    """A request whose ``n`` entries are dead, one a minute."""
    queue = RequestQueue(client, name)
    queue.submit([b"payload %d" % k for k in range(1, n + 1)], id=request, limit=1000)
    while taken := queue.take(500, consumer="w").deliveries:
        numbers = [int(one.id.rpartition("/")[2]) for one in taken]
        errors = [error_of(number).encoded() for number in numbers]
        queue.settle(
            [Settlement(one, "reject", error) for one, error in zip(taken, errors, strict=True)]
        )
        deaths = {f"{request}/{k}": FIRST_DEATH + k * 60_000 for k in numbers}
        client.zadd(f"redisq:{{{name}}}:dead", deaths)


def letters(client: redis.Redis) -> list[Letter]:
    """What redis-py reads, with the errors as they were made."""
    found = []
    for name in MADE:
        scores: Any = client.zrange(f"redisq:{{{name}}}:dead", 0, -1, withscores=True)
        for member, at in scores:
            id = member.decode()
            number = int(id.rpartition("/")[2])
            failure = error_of(number)
            found.append(Letter(name, id, number, failure.type, failure.message, int(at)))
    return found


Rows = Iterable[Sequence[Any]]
Answer = Callable[[list[Letter]], Rows]


def counted(values: Iterable[Any]) -> Rows:
    return [(*key, n) if isinstance(key, tuple) else (key, n) for key, n in Counter(values).items()]


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def ids(found: Iterable[Letter]) -> Rows:
    return [(one.id,) for one in found]


def of(name: str, found: list[Letter]) -> list[Letter]:
    return [one for one in found if one.queue == name]


def numbers(name: str, found: list[Letter]) -> set[int]:
    return {one.number for one in of(name, found)}


def by_number(found: Iterable[Letter]) -> dict[int, list[Letter]]:
    those: dict[int, list[Letter]] = {}
    for one in found:
        those.setdefault(one.number, []).append(one)
    return those


def latest(found: list[Letter], n: int) -> list[Letter]:
    return sorted(found, key=lambda one: (-one.at, one.id))[:n]


CORPUS: dict[str, Answer] = {
    # projections, filters, look-ups
    "select id from dead": ids,
    "select queue, id, number, error from dead": lambda d: [
        (one.queue, one.id, one.number, one.error) for one in d
    ],
    "select count(error) n, count(id) i from dead": lambda d: [(len(d), len(d))],
    "select count(*), count(*) from dead": lambda d: [(len(d), len(d))],
    "select queue, count(*) from dead group by all": lambda d: counted(one.queue for one in d),
    "select id, error from dead where id in ('r1/7', 'o1/9')": lambda d: [
        (one.id, one.error) for one in d if one.id in ("r1/7", "o1/9")
    ],
    "select error from dead where id = 'r1/3'": lambda d: [
        (one.error,) for one in d if one.id == "r1/3"
    ],
    "select id from dead where request = 'o1'": lambda d: ids(
        one for one in d if one.id.startswith("o1/")
    ),
    "select id from dead where queue = 'nope'": lambda d: [],
    "select id from dead where queue = 'mail' and number between 3 and 9": lambda d: ids(
        one for one in of("mail", d) if 3 <= one.number <= 9
    ),
    "select id from dead where since_at >= timestamp'2023-11-14 22:20:00'": lambda d: ids(
        one for one in d if moment(one.at) >= "2023-11-14T22:20"
    ),
    "select id from dead where error like '%\n%'": lambda d: ids(
        one for one in d if "\n" in one.error
    ),
    "select id from dead where client is null and number % 2 = 0": lambda d: ids(
        one for one in d if one.number % 2 == 0
    ),
    "select distinct error_type from dead": lambda d: {(one.type,) for one in d},
    "select id from dead order by number, queue, id limit 3": lambda d: ids(
        sorted(d, key=lambda one: (one.number, one.queue, one.id))[:3]
    ),
    "select id from dead order by since_at desc, id limit 4": lambda d: ids(latest(d, 4)),
    "-- from the first\nselect number from dead where id = 'r1/1'": lambda d: [(1,)],
    "/* a, b */ select count(*) from dead /* from counts */": lambda d: [(len(d),)],
    "from dead select id": ids,
    "from dead |> where number < 3 |> select id": lambda d: ids(one for one in d if one.number < 3),
    # subqueries and CTEs with columns that the rest does not need
    "with x as (select id, error, number from dead) select id from x where number < 3": lambda d: (
        ids(one for one in d if one.number < 3)
    ),
    "with x as (select *, rand() r from dead) select id from x": ids,
    "with x as (select id, error, since_at from dead), y as (select id, error from x) "
    "select count(*) from y": lambda d: [(len(d),)],
    "with mail as (select * from dead where queue = 'mail') select count(*) from mail union all "
    "select count(*) from mail where number = 3 union all select count(*) from dead": lambda d: [
        (len(of("mail", d)),),
        (sum(one.number == 3 for one in of("mail", d)),),
        (len(d),),
    ],
    "with n(a, b) as (select id, number from dead) select a from n where b = 2": lambda d: ids(
        one for one in d if one.number == 2
    ),
    "select count(*) from (select id, error from dead limit 1)": lambda d: [(1,)],
    "select id from (select id, error, failures from dead order by error, id) where id > 'r1/2'": (
        lambda d: ids(one for one in d if one.id > "r1/2")
    ),
    "select id, (select max(number) from dead where queue = 'other') from dead where number = 1": (
        lambda d: [(one.id, max(numbers("other", d))) for one in d if one.number == 1]
    ),
    "select id from dead where number > (select max(number) from dead where queue = 'other')": (
        lambda d: ids(one for last in [max(numbers("other", d))] for one in d if one.number > last)
    ),
    "select count(*) from dead a where exists "
    "(select h.error from dead h where h.queue = 'other' and h.number = a.number)": lambda d: [
        (sum(one.number in others for one in d),) for others in [numbers("other", d)]
    ],
    "select queue, waiting, dead from counts": lambda d: [
        (name, 0, len(of(name, d))) for name in MADE
    ],
    "select c.queue from counts c where exists (select 1 from dead d where d.queue = c.queue and "
    "d.number = 20)": lambda d: {(one.queue,) for one in d if one.number == 20},
    "select c.dead, d.id from counts c, lateral (select id from dead where dead.queue = c.queue "
    "order by number desc, id limit 1) d": lambda d: [
        (len(of(name, d)), min((-one.number, one.id) for one in of(name, d))[1]) for name in MADE
    ],
    "select id from dead where id not in (select id from dead where number > 2)": lambda d: ids(
        one for one in d if one.number <= 2
    ),
    # joins, and columns of one name
    "select a.id, b.id from dead a join dead b on a.number = b.number and a.queue < b.queue": (
        lambda d: [
            (one.id, two.id)
            for others in [by_number(of("other", d))]
            for one in of("mail", d)
            for two in others.get(one.number, ())
        ]
    ),
    "select count(*) from dead a join dead b using (id) where a.queue = 'mail'": lambda d: [
        (len(of("mail", d)),)
    ],
    "select count(*) from dead natural join (select id, queue from dead)": lambda d: [(len(d),)],
    "select d.id, c.dead from dead d left join counts c on c.queue = d.queue and c.dead > 20": (
        lambda d: [
            (one.id, n if n > 20 else None)
            for name in MADE
            for n in [len(of(name, d))]
            for one in of(name, d)
        ]
    ),
    "select d.error, s.error from dead d join subrequests s using (queue, id) where d.number < 4": (
        lambda d: [(one.error, one.error) for one in d if one.number < 4]
    ),
    "select id id, id `id_2`, id from dead where number = 1": lambda d: [
        (one.id,) * 3 for one in d if one.number == 1
    ],
    "select named_struct('a', id, 'a', number) s from dead where id = 'r1/2'": lambda d: [
        ({"a": "r1/2", "a_2": 2},)
    ],
    "select d.number as `from dead`, `d`.`queue` as `select` from `dead` `d` where number = 9": (
        lambda d: [(9, one.queue) for one in d if one.number == 9]
    ),
    # all columns without their names
    "select * except (queue, kind, shard, called, task, client, first_at, since_at, consumer, op, "
    "traceback, fingerprint, payload, payload_bytes, _corrupt) from dead where id = 'r1/5'": (
        lambda d: [("r1/5", "dead", "r1", 5, 1, 0, 1, "rejected", "SMTP", PLAN_LIKE)]
    ),
    "select count(distinct *) from (select queue, id from dead) x": lambda d: [(len(d),)],
    "select count(*) from (table dead)": lambda d: [(len(d),)],
    "select size(array_distinct(collect_list(struct(*)))) from dead": lambda d: [(len(d),)],
    "select count(*) from (select * from dead union select * from dead)": lambda d: [(len(d),)],
    "select a.id from (select id, queue, kind from dead) a where queue = 'mail' and kind != ''": (
        lambda d: ids(of("mail", d))
    ),
    # read again, whole: the text has none of the columns' names
    "select a, q from counts t(q, b, c, d, e, f, a, g, h, i, j, k, l)": lambda d: [
        (len(of(name, d)), name) for name in MADE
    ],
    "select number * 2 as twice, 3 * number from dead": lambda d: [
        (one.number * 2, one.number * 3) for one in d
    ],
    # sets, windows, groups
    "select id, error from dead union all select id, state from subrequests where number = 1": (
        lambda d: [
            *((one.id, one.error) for one in d),
            *((one.id, "dead") for one in d if one.number == 1),
        ]
    ),
    "select id from dead where queue = 'mail' union select id from dead where number < 5": (
        lambda d: {(one.id,) for one in d if one.queue == "mail" or one.number < 5}
    ),
    "select number from dead where queue = 'mail' intersect "
    "select number from dead where queue = 'other'": lambda d: [
        (number,) for number in numbers("other", d) & numbers("mail", d)
    ],
    "select id from (select id, error, row_number() over (partition by queue order by number desc) "
    "n, lag(since_at) over (order by since_at) l from dead) where n = 1": lambda d: ids(
        max(of(name, d), key=lambda one: one.number) for name in MADE
    ),
    "select error_type, count(*), min(number), max(since_at) from dead group by all": lambda d: [
        (
            kind,
            n,
            min(one.number for one in d if one.type == kind),
            moment(max(one.at for one in d if one.type == kind)),
        )
        for kind, n in counted(one.type for one in d)
    ],
    "select queue, error_type, count(*) from dead group by cube (queue, error_type) "
    "having grouping(queue) = 0 and grouping(error_type) = 0": lambda d: counted(
        (one.queue, one.type) for one in d
    ),
    "select * from (select queue, error_type from dead) pivot (count(*) for error_type in ('SMTP', "
    "'Reject'))": lambda d: [
        (name, *(sum(one.type == kind for one in of(name, d)) for kind in ("SMTP", "Reject")))
        for name in MADE
    ],
    "select if(1 = 1, number, failures) from dead": lambda d: [(one.number,) for one in d],
    # literals like plans
    f"select count(*) from dead where error = '{PLAN_LIKE}'": lambda d: [
        (sum(one.error == PLAN_LIKE for one in d),)
    ],
    r"select id from dead where error != 'a\n+- Project z' order by number, queue limit 2": (
        lambda d: ids(sorted(d, key=lambda one: (one.number, one.queue))[:2])
    ),
    "select '== Optimized Logical Plan ==\nRelationV2[id#1] redisq\n\n== ' x, count(*) from dead": (
        lambda d: [("== Optimized Logical Plan ==\nRelationV2[id#1] redisq\n\n== ", len(d))]
    ),
    "select ' from history, requests -- ' x, count(*) from dead": lambda d: [
        (" from history, requests -- ", len(d))
    ],
}
"""queries whose tables have the columns and bounds that the query needs"""
EAGER = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
BY_COMMAND = (
    "select id, error from dead where id in ('r1/7', 'o1/9')",
    "select count(error) n, count(id) i from dead",
    "select id from dead where queue = 'nope'",
    "select id from dead where queue = 'mail' and number between 3 and 9",
    "select count(*) from dead a join dead b using (id) where a.queue = 'mail'",
    "from dead |> where number < 3 |> select id",
)
"""those asked by the command itself, too; some read the same columns"""
VALUES: dict[str, Answer] = {
    "select since_at, since_at + interval 1 hour from dead where id = 'r1/1'": lambda d: [
        (moment(FIRST_DEATH + 60_000), moment(FIRST_DEATH + 3_660_000))
    ],
    "select array(since_at) a, map('t', since_at) m from dead where id = 'r1/1'": lambda d: [
        ([moment(FIRST_DEATH + 60_000)], {"t": moment(FIRST_DEATH + 60_000)})
    ],
    "select date(since_at), timestamp_ntz'2030-03-10 02:30:00' from dead where id = 'r1/1'": (
        lambda d: [("2023-11-14", "2030-03-10T02:30:00")]
    ),
    "select timestamp'2030-11-03 05:30:00' a, timestamp'2030-11-03 06:30:00.000001' b": lambda d: [
        ("2030-11-03T05:30:00+00:00", "2030-11-03T06:30:00.000001+00:00")
    ],
    "select 12345678901234567890.123456789 d, 1e0 f, array(0.10) a, sum(number) s from dead": (
        lambda d: [("12345678901234567890.123456789", 1.0, ["0.10"], sum(one.number for one in d))]
    ),
    "select double('nan') n, double('-infinity') i, null u, true b, 9223372036854775807 l": (
        lambda d: [("NaN", "-Infinity", None, True, 9223372036854775807)]
    ),
    "select interval '1' day d, interval '1-2' year to month m, time'10:00:00' t": lambda d: [
        ("INTERVAL '1' DAY", "INTERVAL '1-2' YEAR TO MONTH", "10:00:00")
    ],
    "select payload, array(payload) a from dead where id = 'o1/2'": lambda d: [
        ("payload 2", ["payload 2"])
    ],
    "select map(1, since_at, 2, null) m, parse_json('[1]') v from dead where id = 'r1/1'": (
        lambda d: [({"1": moment(FIRST_DEATH + 60_000), "2": None}, "[1]")]
    ),
}
"""queries for how values are printed, whoever read them"""

SPARK_ONLY = (
    "from dead |> where number < 3 |> select id",
    "with x as (select *, rand() r from dead) select id from x",
    *(query for query in CORPUS if "lateral" in query or "natural" in query or "pivot" in query),
    *(query for query in CORPUS if "struct" in query or "distinct *" in query or "(table" in query),
    *(query for query in VALUES if "array(" in query or "map(" in query or "interval '" in query),
    *(query for query in VALUES if "timestamp_ntz" in query or "double(" in query),
    r"select id from dead where error like 'a\_b'",
    "select 'it''s' from dead",
    "select id from dead where number = '3'",
    "select id from dead where since_at > error",
    "select id from dead where payload = 'x'",
    "select id from dead where payload like 'x'",
    "with recursive n as (select 1 k union all select k + 1 from n where k < 3) select k from n",
    "select cast(error as int), try_cast(id as int) from dead",
    "select number * -1.5 from dead",
    "select id from dead order by all",
    "select date_format(since_at, 'yyyy') from dead",
)
"""queries that DuckDB isn't known to answer as Spark does"""
COMPUTED = (
    "select id, number - 9, number / 7, number div 4, (number - 9) % 4, -number, abs(number - 9), "
    "round(number / 8, 2), round(2.675e0 * number, 2), round(number - 9), cast(number as string), "
    "cast(number as double), int(number), string(number > 3), number + 1e0 from dead order by id",
    "select id, upper(error) u, lower(error), length(error), trim(error), concat(error, client) n, "
    "error || '!' , replace(error, 'box', 'b'), contains(error, 'x 1'), startswith(error, 'box'), "
    "endswith(error, 'full'), error like 'b_x%' l, error ilike 'BOX%' i, 'ä' > error g from dead "
    "order by number, queue",
    "select id, coalesce(client, error) c, ifnull(client, 'x'), nvl2(client, 1, 2), "
    "nullif(number, 3) n, greatest(null, number, 3), least(number, 7), if(number > 3, 'a', null), "
    "case when number > 3 then 1 end, client is null, error is not null, client <=> null, "
    "number in (1, null) a, not number > 3 from dead order by id desc",
    "select id, since_at + interval 90 seconds a, date(since_at), date_trunc('hour', since_at), "
    "hour(since_at), minute(since_at), year(since_at), month(since_at), unix_millis(since_at), "
    "since_at > '2023-11-14T23:20:00+01:00' o, since_at between '2023-11-14' and '2023-11-15' b, "
    "timestamp'2030-11-03 05:30:00.000001' t from dead order by since_at, id",
    "select error_type, count(*), count(client), count(distinct number, client), sum(number), "
    "avg(number), min(error), max(since_at), median(number) m, percentile(number, 0.95) p, "
    "percentile(number, 0.5), count_if(number > 3), count(*) filter (where number > 3) f, "
    "sum(nullif(number, 3)), sum(number) / 7e0, avg(number) > -1.5, -1.5 from dead "
    "group by error_type order by error_type",
    "select id, row_number() over (partition by queue order by number desc) a, rank() over (order "
    "by nullif(number, 3)) b, dense_rank() over (order by error) c, lag(id) over (order by id) d, "
    "lead(number, 2, 0) over (order by id) e, sum(number) over (order by id) f, avg(number) over "
    "(order by id rows between 1 preceding and 1 following) g from dead "
    "order by nullif(number, 3), id",
    "select queue, error_type, count(*) n, grouping(queue) g from dead group by rollup (queue, "
    "error_type) order by queue, error_type, g",
    "select sum(number), sum(null), avg(nullif(1, 1)), count(*), min(client) from dead "
    "where id = 'x'",
    "select ERROR_TYPE, Count(*), count(*) N from DEAD group by Error_Type having n > 1 order by 2",
)
"""what only Spark can say how it is computed"""


@pytest.fixture
def in_session(
    spark: SparkSession, client: redis.Redis, redisq: Redisq, monkeypatch: pytest.MonkeyPatch
) -> Redisq:
    """The command line in the tests' session, whose readers get the server by an option."""
    from redisq_ops.cli.commands import spark as module

    commands: Any = module
    options = commands.frame_options
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    monkeypatch.setattr(
        commands, "frame_options", lambda *given, **o: options(*given, url=redisq.url, **o)
    )
    for name, n in MADE.items():
        die(client, name, "o1" if name == "other" else "r1", n)
    return redisq


def comparable(rows: Rows) -> list[str]:
    return sorted(json.dumps(list(row), sort_keys=True) for row in rows)


def show_what_is_needed(spark: SparkSession, url: str, query: str) -> None:
    """Make the query's tables of what it is said to need, read without Spark's processes."""
    for use in table_uses(query, Clock(1_700_000_000_000)).values():
        within = use.within([*MADE])
        options = parse_options(within.options({"table": use.table, "url": url}))
        rows = TableReader(options).whole(10**6, 10**9)
        assert rows is not None
        rows = rows.slice(0, 0) if within.bounds.impossible else rows
        schema = struct(options.definition, options.column_names)
        frame = spark.createDataFrame(rows, schema)
        with_all_columns(frame, within).createOrReplaceTempView(use.table)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_every_query_has_the_answer_of_redis_py_over_what_it_is_said_to_need(
    spark: SparkSession,
    in_session: Redisq,
    client: redis.Redis,
    url: str,
    request: pytest.FixtureRequest,
) -> None:
    # Spark would compute all columns of a frame that is in its memory, when it plans the query.
    spark.conf.set("spark.sql.optimizer.excludedRules", EAGER)
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.optimizer.excludedRules"))
    found = letters(client)
    wrong: list[tuple[Any, ...]] = []
    for query, answer in CORPUS.items():
        try:
            show_what_is_needed(spark, url, query)
            frame = printable_frame(spark.sql(query))
            schema = frame.schema
            rows = [json_row(row, schema, NO_REDACTION).values() for row in frame.collect()]
            if comparable(rows) != comparable(answer(found)):
                wrong.append((query, rows[:3], list(answer(found))[:3]))
        except Exception as error:
            wrong.append((query, str(error)[:300]))
    assert not wrong, "\n".join(map(str, wrong))


def check_answers(
    redisq: Redisq,
    client: redis.Redis,
    queries: Iterable[str],
    *by: str,
    most_rows: float = math.inf,
) -> None:
    """``most_rows``: a query whose answer has more is not asked."""
    found = letters(client)
    for query in queries:
        expected = list((CORPUS | VALUES)[query](found))
        if len(expected) > most_rows:
            continue
        rows = (json.loads(line).values() for line in redisq("--json", *by, query).splitlines())
        # Not with ==, whose explanation of a difference of 100,000 rows takes minutes.
        assert not differences(comparable(rows), comparable(expected)), query


def differences(rows: list[str], expected: list[str]) -> list[str]:
    """The first rows that only one of the two has."""
    both = zip_longest(rows, expected)
    return [f"{row} is not {other}" for row, other in both if row != other][:3]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_spark_has_the_answer_of_redis_py_whatever_was_asked_before(
    in_session: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_answers(in_session, client, [*VALUES, *BY_COMMAND], "spark", "sql")
    die(client, "mail", "r2", 20)
    check_answers(in_session, client, reversed(BY_COMMAND), "spark", "sql")
    # Where the parser is wrong, the tables are read again, whole.
    monkeypatch.setattr(query_tables, "_needed_columns", lambda tree: {})
    check_answers(in_session, client, BY_COMMAND[:1], "spark", "sql")


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_duckdb_has_the_answer_of_redis_py_or_refuses_in_words(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, n in MADE.items():
        die(client, name, "o1" if name == "other" else "r1", n)
    for query in SPARK_ONLY:
        assert "redisq spark sql may run it" in redisq.refusal("sql", query, code=2), query
    queries = [query for query in CORPUS | VALUES if query not in SPARK_ONLY]
    check_answers(redisq, client, queries, "sql")
    die(client, "mail", "r2", 20)
    check_answers(redisq, client, reversed(BY_COMMAND[:-1]), "sql")
    monkeypatch.setattr(query_tables, "_needed_columns", lambda tree: {})
    check_answers(redisq, client, BY_COMMAND[:1], "sql")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_both_have_the_answer_of_redis_py_over_100_000_dead_letters(
    in_session: Redisq, client: redis.Redis
) -> None:
    """Tables of many pages, which several tasks of Spark read; look-ups and bounds among many
    entries; and again in the other order."""
    for name, n in MANY.items():
        die(client, name, "o2" if name == "other" else "r2", n)
    quick = [query for query in CORPUS if "subrequests" not in query]
    by_duckdb = [query for query in (CORPUS if ALL else quick) if query not in SPARK_ONLY]
    # Of an array Spark compares all pairs.
    by_spark = [query for query in (CORPUS if ALL else BY_COMMAND) if "array_dist" not in query]
    most = math.inf if ALL else PRINTED
    check_answers(in_session, client, by_duckdb, "sql", most_rows=most)
    check_answers(in_session, client, by_spark[::-1], "spark", "sql", most_rows=most)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_duckdb_computes_and_names_what_spark_does(in_session: Redisq) -> None:
    for query in COMPUTED:
        of_spark, of_duckdb = (in_session.rows(*by, query) for by in (("spark", "sql"), ("sql",)))
        assert [[*row.values()] for row in of_duckdb] == [[*row.values()] for row in of_spark], (
            query
        )
    assert list(of_duckdb[0]) == list(of_spark[0]) == ["ERROR_TYPE", "count(1)", "N"]


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_times_are_in_utc_in_any_zone(
    in_session: Redisq, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """05:30 and 06:30 are both 01:30 in New York."""
    import time

    query = (
        "select since_at, array(timestamp'2030-11-03 05:30:00Z', timestamp'2030-11-03 06:30:00Z') a"
    )
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        (row,) = in_session.rows("spark", "sql", f"{query} from dead where id = 'r1/1'")
    time.tzset()
    assert row == {
        "since_at": moment(FIRST_DEATH + 60_000),
        "a": ["2030-11-03T05:30:00+00:00", "2030-11-03T06:30:00+00:00"],
    }


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_a_table_for_people_has_both_columns_of_one_name(in_session: Redisq) -> None:
    lines = in_session("spark", "sql", "select id, number, id from dead where id = 'r1/3'")
    assert [line.split() for line in lines.splitlines()] == [
        ["id", "number", "id_2"],
        ["r1/3", "3", "r1/3"],
    ]


def test_names_become_distinct() -> None:
    assert distinct_names(["id", "id", "id_2", "id", "n"]) == ["id", "id_3", "id_2", "id_4", "n"]


def test_columns_that_a_query_needs_are_read_and_in_doubt_all() -> None:
    for query, expected in {
        "select count(*) from dead": "kind",
        "select queue, count( * ) from dead group by 1 order by all": "queue",
        "select id, number * 2, 2 * failures from DEAD where Error != ''": (
            "id, number, failures, error"
        ),
        "select id, 'task' from dead": "id",
        "select * from dead": "all",
        "select count(*) from (select * from dead)": "kind",
        "with x as (select * from dead) select id from x where number > 1": "id, number",
        "select id n from dead where error > '' order by n": "id, error",
        "select failures id from dead order by id": "failures",
        "select id from dead order by since_at": "id, since_at",
        "select queue from dead where exists (select 1 from counts where dead.id = queue)": (
            "queue, id"
        ),
        "select sum(number) over w from dead window w as (partition by queue)": "queue, number",
        "select d.id from dead d join counts using (queue)": "queue, id",
        "select count(distinct *) from dead": "all",
        "select struct(d.*) from dead d": "all",
        "select id from dead natural join counts": "all",
        "select id from (table dead)": "all",
        "from dead select id": "id",
        "from dead |> select id": "all",
        "select id from dead pivot (count(*) for state in ('dead'))": "all",
        "select id, nothing from dead": "all",
        "select a from dead d(a, b)": "all",
        "select id from dead where": "all",
        "select id from dead where error = 'it": "all",
        "create temporary view x as select id from dead": "all",
        "describe dead": "all",
    }.items():
        use = table_uses(query)["dead"]
        assert ("all" if use.whole else ", ".join(use.columns)) == expected, query


AT = 1_699_999_200_000
"""2023-11-14 22:00"""


def test_simple_conditions_beside_a_table_become_bounds() -> None:
    cases: dict[str, dict[str, str | int]] = {
        "where queue = 'mail'": {"queue": "mail"},
        "d where d.queue in ('mail', 'x') and (id > '' and 'mail' = queue)": {"queue": "mail"},
        "where id in ('a', 'b') and id = 'b' and reason = 'lost'": {"id": "b"},
        "d join counts c using (queue) where d.id <=> 'a' and request = 'r'": {"id": "a"},
        "where request = 'r1' limit 3": {"request": "r1"},
        "where since_at >= timestamp'2023-11-14 22:00:00'": {"since": AT},
        "where since_at between '2023-11-14T22:00:00Z' and '2023-11-14 23:00:00+01:00'": {
            "since": AT,
            "until": AT + 1,
        },
        "where date'2023-11-15' > since_at": {"until": AT + 7_200_001},
        "where since_at > now() - interval 2 hours": {"since": AT - 7_260_000},
        "where since_at < now() - interval 2 hours": {},
        "where since_at > '20231114' or queue = 'x'": {},
        "where since_at > '20231114'": {},
        "where not queue = 'mail'": {},
        "where queue = 'mail' or number = 1": {},
        "where queue = id and lower(queue) = 'mail' and queue like 'mail'": {},
        "where id = 'a,b' and queue = concat('m', 'x')": {"id": '"a,b"'},
        'where queue = "mail"': {},
        r"where queue = 'ma\x69l'": {},
        "d(a, b, c, queue) where queue = 'mail'": {},
        "d join counts c on true where queue = 'mail'": {},
        "group by queue having queue = 'mail'": {},
        "d join dead e using (id) where d.queue = 'mail'": {},
        "where queue = 'mail' union all select queue from dead": {},
        "tablesample (1 rows) where queue = 'mail'": {},
        "|> limit 1 |> where queue = 'mail'": {},
    }
    for where, bounds in cases.items():
        uses = table_uses(f"select d.queue from dead {where}", Clock(AT))
        found = uses["dead"].options({})
        found.pop("columns", None)
        assert found == {name: str(value) for name, value in bounds.items()}, where
    # An alias is no column of the WHERE; a view lasts longer than a query; a zone moves literals.
    renamed = "select 'x' queue, id request from dead where request = 'r1'"
    assert table_uses(renamed)["dead"].bounds.request == "r1"
    for query in (
        "create temporary view v as select id from dead where queue = 'mail'",
        "with dead as (select * from dead) select id from dead where queue = 'mail'",
        "select id from dead where since_at > '2023-11-14'",
    ):
        assert table_uses(query)["dead"].bounds == query_tables.NO_BOUNDS, query
    given = {"since": str(AT + 1), "queue": "mail"}
    use = table_uses("select id from dead where since_at > '2023-11-14'", Clock())["dead"]
    assert use.options(given) == given | {"columns": "id,since_at"}


def test_only_tables_that_a_query_may_read_are_known_not_columns_and_states() -> None:
    for query, tables in {
        "select queue, waiting, dead from counts where dead > 1 order by dead": ["counts"],
        "select id from requests where state = 'dead' or event in ('done', 'pending')": [
            "requests"
        ],
        "with d as (select * from dead) select (select 1 from history) from d": ["dead", "history"],
        "select * from counts as waiting, (dead), `pending` p": ["dead", "pending", "counts"],
        "select 1 from counts -- and\n, dead": ["dead", "counts"],
        "select ' from history -- ' x from results": ["results"],
        "describe dead": ["dead"],
        "cache table dead": ["dead"],
    }.items():
        assert list(table_uses(query)) == [name for name in TABLES if name in tables], query


@pytest.mark.parametrize("by", [("sql",), ("spark", "sql")])
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_explain_says_what_is_read_without_spark(
    redisq: Redisq, client: redis.Redis, by: tuple[str, ...]
) -> None:
    die(client, "mail", "r1", 25)
    words = (*by, "--explain")
    query = "select error from dead where queue in ('mail', 'nope') and id = 'r1/2'"
    assert redisq(*words, query) == "dead: queue, id, error (only queue mail; id r1/2)\n"
    counting = "select queue, count(*) from dead group by all"
    assert redisq(*words, counting) == "dead: counters, no rows\n"
    put(client, "sidekiq-7")
    said = "dead: queue (only queue sidekiq:default)\n"
    assert redisq(*words, counting, "--queue", "sidekiq:default") == said, "its jobs are read"
    assert redisq.rows(*words, query)[0] == {
        "table": "dead",
        "columns": ["queue", "id", "error"],
        "queue": "mail",
        "id": "r1/2",
        "request": None,
        "since": None,
        "until": None,
        "rows": 25,
    }


def test_a_queue_with_a_comma_in_its_name_is_one_queue(redisq: Redisq, client: redis.Redis) -> None:
    for n, name in enumerate(("a", "b", "a,b"), 1):
        die(client, name, "r1", n)
    for query in ("where queue = 'a,b'", "where queue in ('a,b', 'nope')"):
        asked = f"select queue, count(id) n from dead {query} group by all"
        assert redisq.rows("sql", asked) == [{"queue": "a,b", "n": 3}]
    asked = "select queue, count(id) n from dead group by all"
    assert redisq.rows("sql", asked, "--queue", "a,b") == [{"queue": "a,b", "n": 3}]
    for names, found in ((["a,b"], {"a,b": 3}), (["a", "a,b"], {"a": 1, "a,b": 3})):
        rows = redisq.rows("report", *names)
        dead = Counter[str]()
        for row in rows:
            if row["table"] == "dead_groups":
                dead[row["queue"]] += row["entries"]
        assert dead == found


@pytest.mark.parametrize("by", [("sql",), ("spark", "sql")])
@pytest.mark.parametrize(
    "statement",
    [
        "drop table dead",
        "-- select\ninsert into dead select * from dead",
        "from dead insert overwrite directory '/tmp/x' select id",
        "create view x as select 1",
        "set spark.sql.ansi.enabled = false",
    ],
)
def test_a_statement_that_writes_is_refused(
    redisq: Redisq, by: tuple[str, ...], statement: str
) -> None:
    assert redisq.refusal(*by, statement, code=2).startswith("the statement is no query")


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_duckdb_reads_only_our_tables_within_bounds(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, configuration: Path
) -> None:
    die(client, "mail", "r1", 25)
    for source in ("read_csv('/etc/passwd')", "'/etc/passwd'", "csv.`/etc/passwd`", "range(3)"):
        redisq.refusal("sql", f"select * from {source}", code=2)
    for query in ("select * from read_csv('/etc/passwd')", "set enable_external_access = true"):
        with pytest.raises(BadInput, match=r"disabled|locked"):
            list(duckdb_query.answer(Translated(query, ()), {}, NO_REDACTION))
    assert "Column 'x'" in redisq.refusal("sql", "select x from dead", code=2)
    for wanted in ("1", "*", "count(*)"):
        assert "no table nope:" in redisq.refusal("sql", f"select {wanted} from nope", code=2)
    query = "select id from dead where payload like '%x%'"
    assert "payload, which is bytes" in redisq.refusal("sql", query, code=2)
    for divided in ("1 / (number - 3)", "number div 0", "1e0 % (number - 3)"):
        assert "Division" in redisq.refusal("sql", f"select {divided} from dead", code=2)
    configuration.write_text("[redact.patterns]\nbox = 'b[o]x [0-9]'\n")
    query = "select replace(error, 'o', '0') e, concat('bo', 'x 1') c from dead where number = 1"
    assert [*redisq.rows("sql", query)[0].values()] == ["*** is full", "***"]
    query = "select count(at) n from history where at > now() - interval 1 hour"
    assert redisq.rows("sql", query) == [{"n": 25}]
    monkeypatch.setattr(duckdb_query, "MOST_ROWS", 24)
    with monkeypatch.context() as patch:
        patch.setattr(TableReader, "whole", None)  # nothing is read
        assert redisq.rows("sql", "select id from dead where queue = 'nope'") == []
        message = redisq.refusal("sql", "select id from dead", code=1)
    assert "too large for redisq sql (24 rows" in message and "have 25 rows" in message
    assert redisq.rows("sql", "select count(*) n from dead where id = 'r1/1'") == [{"n": 1}]
    monkeypatch.setattr(duckdb_query, "MOST_BYTES", 1)
    redisq.refusal("sql", "select id from dead where id = 'r1/1'", code=1)


def test_a_query_is_known_behind_comments_and_parentheses() -> None:
    for query in (
        "-- why\nselect 1",
        "/* a\n*/ (with x as (select 1) select 1)",
        "EXPLAIN select 1",
        "from dead select id",
    ):
        assert only_reads(query), query
    assert not only_reads("cache table dead")


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_few_rows_are_said_to_need_no_spark(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*given: object, **options: object) -> None:
        raise BadInput("Spark was asked")

    die(client, "mail", "r1", 25)
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    for module in (spark_commands, spark_report, spark_submit):
        monkeypatch.setattr(module, "on_spark", refused)
    said = {
        ("sql", "select id from dead"): "25 rows: the same query is quicker by redisq sql\n",
        ("groups", "mail"): "25 rows of dead: redisq dlq groups mail is quicker\n",
        ("report", "mail"): "1 row of history: redisq report is quicker\n",
        ("submit", str(file), "--name", "n"): f"redisq submit {file} --queue default --id n\n",
        ("sql", "select rand() from dead"): "",
    }
    for words, quicker in said.items():
        redisq("spark", *words, code=2)
        assert quicker in redisq.err and redisq.err.count("\n") == 2 + bool(quicker), words
    for module in (spark_commands, spark_report):
        monkeypatch.setattr(module, "SPARK_PAYS", 1)
    for words in list(said)[:2]:
        redisq("spark", *words, code=2)
        assert "quicker" not in redisq.err, words
