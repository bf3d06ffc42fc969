"""Options of the data source, and no secret in anything that is shown."""

from pathlib import Path
from typing import Any

import pytest

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.client import ServerAddress, connect
from redisq_ops.pipeline.session.spark_session import environment, parse_conf, spark_submit_line
from redisq_ops.pipeline.sink.write_options import WRITE_OPTIONS
from redisq_ops.pipeline.source.options import OPTIONS, Options, listed, name_list, parse_options
from redisq_ops.pipeline.source.tables import TABLES

SECRET = "hunter2"


def test_lower_cased_option_names_are_recognised() -> None:
    as_typed = {"table": "history", "rowsPerPartition": "7", "url_env": "X", "onTrim": "report"}
    lowered = {name.lower(): value for name, value in as_typed.items()}
    assert parse_options(as_typed) == parse_options(lowered)
    assert parse_options(lowered).rows == 7 and parse_options(lowered).on_trim == "report"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": "dead", "rowsperpartitoin": "1"}, "did you mean rowsPerPartition?"),
        ({"table": "dead", "path": "/tmp"}, "unknown option 'path'"),
        ({}, "option table is missing"),
        ({"table": "letters"}, "no table 'letters'"),
        ({"table": "dead", "columns": "id,fialures"}, "did you mean failures?"),
        ({"table": "dead", "columns": "id,ID"}, "twice"),
        ({"table": "dead", "rowsPerPartition": "0"}, "a whole number from 1 on"),
        ({"table": "dead", "since": "2030-01-31T12:00:00"}, "needs its offset"),
        ({"table": "waiting", "since": "5"}, "table waiting has no time"),
        ({"table": "dead", "replica": "maybe"}, "true or false"),
        ({"table": "dead", "maxCallMs": "5"}, "0.05 to 1 ms"),
        ({"table": "dead", "queue": "a/b"}, "can't be used"),
        ({"table": "history", "request": "r1"}, "not history"),
        ({"table": "dead", "requests": "all"}, "requests, subrequests and results, not dead"),
        ({"table": "pending", "onTrim": "fail"}, "is for history and dead, not pending"),
        ({"table": "dead", "marks": "{}"}, "is for history, not dead"),
        ({"table": "results", "startingOffsets": "latest"}, "is for history and dead, not results"),
        ({"table": "dead", "startingOffsets": "soon"}, "earliest, latest or a time"),
        (
            {"table": "dead", "startingOffsets": '{"q": -1}'},
            "earliest, latest, a time or an offset",
        ),
        ({"table": "history", "payloads": "true"}, "not history"),
        ({"table": "history", "marks": "[]"}, "by queue/shard"),
        ({"table": "history", "marks": '{"q/0": "later"}'}, "an event's id or a whole number"),
        ({"table": "dead", "url": "redis://h", "url_env": "X"}, "give only one of"),
    ],
)
def test_invalid_options_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=r".") as refused:
        parse_options(given)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_list_of_names_is_read_as_it_was_written() -> None:
    for names in (("a",), ("a", "b"), ("a,b", "a"), ('"', 'a"b', '",'), ("[a]", "x'y")):
        text = listed(names)
        assert name_list(text) == parse_options({"table": "dead", "queue": text}).queue == names
    assert name_list(' a , "b,c",, d') == ("a", "b,c", "d")


def test_every_option_is_read() -> None:
    given = {
        "table": "history",
        "queue": "mail, later",
        "columns": "ID,at",
        "since": "5",
        "until": "10",
        "url_env": "X",
        "prefix": "p",
        "replica": "True",
        "rowsPerPartition": "3",
        "maxCallMs": "0.25",
        "onTrim": "report",
        "maxEventsPerTrigger": "9",
        "startingOffsets": "latest",
        "marks": '{"q/0":7,"q/1":"5-0"}',
    }
    assert parse_options(given) == Options(
        "history",
        ("mail", "later"),
        ("id", "at"),
        False,
        5,
        10,
        (),
        None,
        "all",
        None,
        "X",
        None,
        "p",
        True,
        3,
        250,
        "report",
        9,
        {"*": "latest"},
        {"q/0": 7, "q/1": "5-0"},
    )


def test_a_url_option_with_a_password_is_refused() -> None:
    for url in (f"redis://:{SECRET}@h:1", f"redis://h:1?password={SECRET}"):
        with pytest.raises(BadInput) as refused:
            parse_options({"table": "dead", "url": url})
        assert SECRET not in str(refused.value) and "url_env" in str(refused.value)


def test_the_url_is_read_from_the_environment_or_a_file(tmp_path: Path) -> None:
    url = f"redis://me:{SECRET}@h:1"
    by_name = parse_options({"table": "dead", "url_env": "MINE"})
    assert by_name.target({"MINE": url}).url == url
    with pytest.raises(BadInput, match="the environment has no MINE here"):
        by_name.target({})
    file = tmp_path / "url"
    file.write_text(url + "\n")
    by_file = parse_options({"table": "dead", "url_file": str(file)})
    assert by_file.target({}).url == url
    assert (
        parse_options({"table": "dead"}).target({"REDIS_URL": "redis://else"}).url == "redis://else"
    )
    for options in (by_name, by_file):
        assert SECRET not in repr(options)


def test_workers_get_the_password_in_a_variable_that_spark_redacts() -> None:
    import re

    target = parse_options({"table": "dead", "url_env": "X"}).target(
        {"X": f"redis://me:{SECRET}@h:1/2"}
    )
    variables = environment(target)
    assert variables["REDIS_URL"] == "redis://h:1/2" and variables["REDISQ_USERNAME"] == "me"
    hidden = re.compile(r"(?i)secret|password|token|access[.]?key|api[.]?key")  # Spark's default
    assert all(hidden.search(name) for name, value in variables.items() if SECRET in value)
    back = parse_options({"table": "dead"}).target(variables)
    assert (back.url, back.username, back.password) == ("redis://h:1/2", "me", SECRET)


def test_a_password_in_a_url_query_is_removed() -> None:
    """redis-py accepts a password there, too."""
    url = f"redis://h:1/2?socket_timeout=3&password={SECRET}"
    assert str(ServerAddress(url)) == "redis://h:1/2?socket_timeout=3&password=***"
    assert (
        str(ServerAddress(f"redis://u:x@h?PASSWORD={SECRET}&db=2"))
        == "redis://u:***@h?PASSWORD=***&db=2"
    )
    assert SECRET not in repr(ServerAddress(f"rediss://h?ssl_password={SECRET}"))
    variables = environment(ServerAddress(url))
    assert variables == {"REDIS_URL": "redis://h:1/2?socket_timeout=3", "REDISQ_PASSWORD": SECRET}
    variables = environment(
        ServerAddress(f"redis+sentinel://u:pw@h,g:2/m?sentinel_password={SECRET}&db=3")
    )
    assert variables == {
        "REDIS_URL": "redis+sentinel://h,g:2/m?db=3",
        "REDISQ_USERNAME": "u",
        "REDISQ_PASSWORD": "pw",
        "REDISQ_SENTINEL_PASSWORD": SECRET,
    }
    named = f"redis+sentinel://h/m?sentinel_username=watch&sentinel_password={SECRET}"
    there = ServerAddress.from_environment(None, environment(ServerAddress(named)))
    client: Any = connect(there)
    (sentinel,) = client.connection_pool.sentinel_manager.sentinels
    kwargs = sentinel.connection_pool.connection_kwargs
    assert (kwargs["username"], kwargs["password"]) == ("watch", SECRET)
    assert environment(ServerAddress("redis://h?sentinel_password=")) == {"REDIS_URL": "redis://h"}


def test_selecting_a_payload_column_reads_payloads() -> None:
    assert not parse_options({"table": "dead"}).reads_payloads
    assert parse_options({"table": "dead", "payloads": "true"}).reads_payloads
    assert parse_options({"table": "dead", "columns": "id,payload_bytes"}).reads_payloads
    every = tuple(column.name for column in TABLES["dead"].columns)
    assert not parse_options({"table": "dead"}).with_columns(every).reads_payloads


def test_the_spark_submit_line_has_the_sessions_settings() -> None:
    line = spark_submit_line(["spark", "doctor"], "spark://head:7077", ["spark.executor.memory=2g"])
    assert line.startswith("spark-submit --master spark://head:7077 ")
    assert "--conf spark.executor.memory=2g" in line and line.endswith("__main__.py spark doctor")
    with pytest.raises(BadInput, match=r"spark\.NAME=VALUE"):
        parse_conf(["executor.memory=2g"])


def test_the_docs_list_every_option() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "reference" / "spark.md").read_text()
    for option in (*OPTIONS, *WRITE_OPTIONS):
        assert f"| `{option.name}` | {option.says} |" in page
