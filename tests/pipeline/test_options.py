"""What can be asked of the source, and that no secret gets into what is shown."""

from pathlib import Path
from typing import Any

import pytest

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.client import ServerAddress, connect
from redisq_ops.pipeline.options import OPTIONS, Options, as_given, parsed
from redisq_ops.pipeline.session import environment, settings_of, submit_line
from redisq_ops.pipeline.tables import TABLES

SECRET = "hunter2"


def test_names_are_read_as_spark_passes_them_on() -> None:
    as_typed = {"table": "history", "rowsPerPartition": "7", "url_env": "X", "onTrim": "report"}
    lowered = {name.lower(): value for name, value in as_typed.items()}
    assert parsed(as_typed) == parsed(lowered)
    assert parsed(lowered).rows == 7 and parsed(lowered).on_trim == "report"


@pytest.mark.parametrize(
    ("given", "said"),
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
        ({"table": "dead", "request": "r1"}, "not dead"),
        ({"table": "dead", "requests": "all"}, "requests, subrequests and results, not dead"),
        ({"table": "dead", "onTrim": "fail"}, "is for history, not dead"),
        ({"table": "dead", "maxEventsPerTrigger": "5"}, "is for history, not dead"),
        ({"table": "results", "startingOffsets": "latest"}, "is for history, not results"),
        ({"table": "history", "payloads": "true"}, "not history"),
        ({"table": "history", "marks": "[]"}, "by queue/shard"),
        ({"table": "history", "marks": '{"q/0": "later"}'}, "an event's id or a whole number"),
        ({"table": "dead", "url": "redis://h", "url_env": "X"}, "give one of"),
    ],
)
def test_what_cannot_be_used_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=r".") as refused:
        parsed(given)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_every_option_comes_back_as_it_was_given() -> None:
    options = Options(
        "history", ("mail", "later"), ("id", "at"), False, 5, 10, None, "all", None, "X", None,
        "p", True, 3, 250, "report", 9, "latest", True, '{"q/0":7,"q/1":"5-0"}',
    )  # fmt: skip
    assert parsed(as_given(options)) == options
    assert as_given(parsed({"table": "dead"})) == {"table": "dead"}


def test_a_password_has_no_place_among_options() -> None:
    for url in (f"redis://:{SECRET}@h:1", f"redis://h:1?password={SECRET}"):
        with pytest.raises(BadInput) as refused:
            parsed({"table": "dead", "url": url})
        assert SECRET not in str(refused.value) and "url_env" in str(refused.value)


def test_a_url_comes_by_the_environment_or_a_file(tmp_path: Path) -> None:
    url = f"redis://me:{SECRET}@h:1"
    by_name = parsed({"table": "dead", "url_env": "MINE"})
    assert by_name.target({"MINE": url}).url == url
    with pytest.raises(BadInput, match="the environment has no MINE here"):
        by_name.target({})
    file = tmp_path / "url"
    file.write_text(url + "\n")
    by_file = parsed({"table": "dead", "url_file": str(file)})
    assert by_file.target({}).url == url
    assert parsed({"table": "dead"}).target({"REDIS_URL": "redis://else"}).url == "redis://else"
    for options in (by_name, by_file):
        assert SECRET not in repr(options) + str(as_given(options))


def test_the_workers_are_told_a_password_under_a_name_that_spark_redacts() -> None:
    import re

    target = parsed({"table": "dead", "url_env": "X"}).target({"X": f"redis://me:{SECRET}@h:1/2"})
    told = environment(target)
    assert told["REDIS_URL"] == "redis://h:1/2" and told["REDISQ_USERNAME"] == "me"
    hidden = re.compile(r"(?i)secret|password|token|access[.]?key|api[.]?key")  # Spark's default
    assert all(hidden.search(name) for name, value in told.items() if SECRET in value)
    back = parsed({"table": "dead"}).target(told)
    assert (back.url, back.username, back.password) == ("redis://h:1/2", "me", SECRET)


def test_a_password_in_a_urls_query_is_shown_nowhere() -> None:
    """redis-py takes it there too."""
    url = f"redis://h:1/2?socket_timeout=3&password={SECRET}"
    assert str(ServerAddress(url)) == "redis://h:1/2?socket_timeout=3&password=***"
    assert (
        str(ServerAddress(f"redis://u:x@h?PASSWORD={SECRET}&db=2"))
        == "redis://u:***@h?PASSWORD=***&db=2"
    )
    assert SECRET not in repr(ServerAddress(f"rediss://h?ssl_password={SECRET}"))
    told = environment(ServerAddress(url))
    assert told == {"REDIS_URL": "redis://h:1/2?socket_timeout=3", "REDISQ_PASSWORD": SECRET}
    told = environment(
        ServerAddress(f"redis+sentinel://u:pw@h,g:2/m?sentinel_password={SECRET}&db=3")
    )
    assert told == {
        "REDIS_URL": "redis+sentinel://h,g:2/m?db=3", "REDISQ_USERNAME": "u",
        "REDISQ_PASSWORD": "pw", "REDISQ_SENTINEL_PASSWORD": SECRET,
    }  # fmt: skip
    named = f"redis+sentinel://h/m?sentinel_username=watch&sentinel_password={SECRET}"
    there = ServerAddress.from_environment(None, environment(ServerAddress(named)))
    client: Any = connect(there)
    (asked,) = client.connection_pool.sentinel_manager.sentinels
    kwargs = asked.connection_pool.connection_kwargs
    assert (kwargs["username"], kwargs["password"]) == ("watch", SECRET)
    assert environment(ServerAddress("redis://h?sentinel_password=")) == {"REDIS_URL": "redis://h"}


def test_payloads_are_read_when_their_column_is_chosen() -> None:
    assert not parsed({"table": "dead"}).with_payloads
    assert parsed({"table": "dead", "payloads": "true"}).with_payloads
    assert parsed({"table": "dead", "columns": "id,payload_bytes"}).with_payloads
    every = tuple(column.name for column in TABLES["dead"].columns)
    assert not parsed({"table": "dead"}).choosing(every).with_payloads


def test_the_submit_line_says_what_the_session_would_do() -> None:
    line = submit_line(["spark", "doctor"], "spark://head:7077", ["spark.executor.memory=2g"])
    assert line.startswith("spark-submit --master spark://head:7077 ")
    assert "--conf spark.executor.memory=2g" in line and line.endswith("__main__.py spark doctor")
    with pytest.raises(BadInput, match=r"spark\.NAME=VALUE"):
        settings_of(["executor.memory=2g"])


def test_the_docs_have_every_option() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "reference" / "spark.md").read_text()
    for option in OPTIONS:
        assert f"| `{option.name}` | {option.says} |" in page
