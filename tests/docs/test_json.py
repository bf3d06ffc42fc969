"""Every command prints the JSON that it declares; page and schemas are derived from that."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import jsonschema
import pytest
import redis
import rq

from redisq_ops.cli.output_types import declarations
from redisq_ops.cli.output_types.declarations import declared, slug
from redisq_ops.cli.output_types.json_schema import object_schema
from redisq_ops.core.engine.queue_types import KINDS, LAYOUTS
from redisq_ops.core.model.row_fields import Bytes, Duration, Text, Time, Unstable
from redisq_ops.schemas import schema, schema_names

from .. import corrupt_values
from ..command_line import Redisq
from ..core.foreign import test_rq
from ..foreign_keys import asynq_program, rq_tasks
from . import json_reference
from .json_scenario import Collector, Rows, every_look, run

NOT_PRINTED = {
    "Outcome": {"halted"},  # the target of a move is filled while a plan is applied
    # of delayed entries; of ids without a record; of other programs' entries
    "PlanFileEntry": {"at_ms", "orphan", "stamp"},
    "ReportFileTrailer": {"unnamed"},  # of an undo
    "ConfigurationValue": {"others[].value", "others[].origin"},  # two sources that protect
    "RequestDetails": {  # a queue that somebody damaged
        "pel_differs[].consumer",
        "pel_differs[].entries",
        "pel_differs[].reason",
    },
    "ExportFileEntry": {"redacted"},
}
"""what the scenario has no cause to print"""
ELSEWHERE = {"demo", "metrics", "work", "top"}
"""commands without JSON of their own, or with that of another command"""


@cache
def strict(name: str) -> jsonschema.protocols.Validator:
    """The validator of an output type; a field that is not declared is an error."""
    whole = schema(slug(name))
    return jsonschema.Draft202012Validator(_closed(whole))


def _closed(part: Any) -> Any:
    if isinstance(part, list):
        return [_closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    closed = {name: _closed(each) for name, each in part.items()}
    return closed | ({"additionalProperties": False} if "properties" in part else {})


def mistakes(rows: Rows) -> set[str]:
    """How rows differ from their types."""
    return {
        f"{name} {error.json_path}: {error.message[:200]}"
        for name, found in rows.items()
        for row in found
        for error in strict(name).iter_errors(row)
    }


def fields(part: dict[str, Any], at: str = "") -> Iterator[str]:
    """The paths of all fields that a schema declares; bytes have one."""
    for each in part.get("anyOf", ()):
        yield from fields(each, at)
    if "items" in part:
        yield from fields(part["items"], f"{at}[]")
    for name, below in part.get("properties", {}).items():
        path = f"{at}.{name}" if at else name
        if not name.endswith("_b64"):
            yield path
        yield from fields(below, path)


def printed(row: Any, at: str = "") -> Iterator[str]:
    """The paths of a row."""
    if isinstance(row, list):
        for each in row:
            yield from printed(each, f"{at}[]")
    elif isinstance(row, dict):
        for name, value in row.items():
            path = f"{at}.{name}" if at else name
            yield path.removesuffix("_b64")
            yield from printed(value, path)


def unseen(rows: Rows) -> dict[str, set[str]]:
    """Declared fields that no row has; those of parts that are types of their own count there."""
    found = dict[str, set[str]]()
    for name, some in rows.items():
        paths = {path for row in some for path in printed(row)}
        missing = set(fields(schema(slug(name)))) - paths
        missing -= NOT_PRINTED.get(name, set())
        missing -= {path for path in missing if path.startswith(("samples[].", "operation."))}
        missing -= {path for path in missing if path.startswith("pending_entries[].error")}
        if missing:
            found[name] = missing
    return found


@pytest.fixture
def collected(
    redisq: Redisq, client: redis.Redis, tmp_path: Path, configuration: Path
) -> Collector:
    return run(redisq, client, tmp_path, configuration)


@pytest.mark.slow
@pytest.mark.alike
def test_commands_print_what_they_declare(collected: Collector) -> None:
    """Those of Spark and reports: tests/pipeline/test_json_reference.py."""
    assert mistakes(collected.rows) == set()
    assert unseen(collected.rows) == {}
    promised = {
        (command, name)
        for command, names in json_reference.printed().items()
        for name in names
        if not command.startswith("spark ") and command not in {*ELSEWHERE, "report"}
    }
    assert collected.commands <= promised
    # Of the changes each shows its plan or its outcome.
    missing = {command for command, _ in promised} - {command for command, _ in collected.commands}
    assert missing == set()
    types = {name for name in declared() if not name.startswith(("Spark", "QueueReport"))}
    assert types == collected.rows.keys()


def others(client: redis.Redis) -> None:
    """Queues of RQ, arq, asynq, BullMQ, Bull, Celery, Dramatiq and Laravel."""
    jobs = rq.Queue("mail", connection=client)
    jobs.enqueue(rq_tasks.fails, "luck")
    test_rq.work(client)
    jobs.enqueue(rq_tasks.fails, "luck")
    job = {"t": 1, "f": "send", "a": (1,), "k": {}, "et": 1_700_000_000_000}
    client.set("arq:job:w1", pickle.dumps(job))
    client.zadd("arq:queue", {"w1": 1_700_000_000_000})
    client.hset("bull:mail:meta", mapping={"version": "bullmq:5.63.0"})
    client.set("bull:post:id", 1)
    for queue in ("mail", "post"):
        sent: dict[Any, Any] = {"name": "send", "data": "{}", "timestamp": "1700000000000"}
        client.hset(f"bull:{queue}:w1", mapping=sent)
        client.lpush(f"bull:{queue}:wait", "w1")
    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    body = {"task": "shop.old", "id": "a", "args": [1], "kwargs": {}}
    task = {
        "body": base64.b64encode(json.dumps(body).encode()).decode(),
        "headers": {},
        "content-type": "application/json",
        "properties": {"body_encoding": "base64"},
    }
    client.lpush("celery", json.dumps(task))
    client.zadd("dramatiq:__heartbeats__", {str(UUID(int=1)): 1_700_000_000_000})
    message = {"queue_name": "low", "actor_name": "fine", "args": [], "kwargs": {}, "options": {}}
    client.hset("dramatiq:low.msgs", "m1", json.dumps(message))
    client.rpush("dramatiq:low", "m1")
    asynq_program.specimen(client)
    client.rpush("laravel_database_queues:low", '{"uuid": "u", "job": "Fine", "data": {}}')


@pytest.mark.slow
@pytest.mark.alike
def test_queues_of_every_kind_print_what_is_declared(redisq: Redisq, client: redis.Redis) -> None:
    corrupt_values.populate(client, redisq.url)
    others(client)
    redisq("discover", "--register", "--yes", code=None)
    collect = Collector(redisq)
    every_look(collect, corrupt_values.queues(client))
    assert mistakes(collect.rows) == set()
    assert {row["kind"] for row in collect.rows["Queue"]} == {*KINDS, *LAYOUTS}


def test_page_is_generated_from_the_declarations() -> None:
    """`make reference` writes it again."""
    text = json_reference.PAGE.read_text()
    assert text.partition(json_reference.MARK)[2].strip() == json_reference.page().strip()


class Part(TypedDict):
    a: str


class OtherPart(TypedDict):
    a: int


class OneField(TypedDict):
    a: Any


FILE_INTERNAL = Annotated[str, Unstable()]
FIELD_TYPES: tuple[Any, ...] = (
    *(str, int, float, bool, Any, Bytes, Text, FILE_INTERNAL, Time, Duration, Part, OtherPart),
    *(str | None, Bytes | None, Time | None, Part | None, str | int, str | int | None),
    *(NotRequired[str], NotRequired[Bytes], NotRequired[Part]),
    *(Literal["a"], Literal["a", "b"], Literal["a"] | None),
    *(list[str], list[Text], list[Time], list[Any], list[Part], list[OtherPart], list[list[Part]]),
    *(list[str] | None, list[str | None], list[str | int], list[str] | int),
    *(list[str] | list[Part], list[str] | list[OtherPart]),
    *(dict[str, Part], dict[str, OtherPart], dict[str, str | None], dict[str, str] | None),
)


def test_each_change_of_a_schema_is_a_change_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reviewer sees it there: no two types of a field look the same on the page."""
    page, schemas = set[str](), set[str]()
    for kind in FIELD_TYPES:
        monkeypatch.setitem(OneField.__annotations__, "a", kind)
        declarations.fields.cache_clear()
        page.add("\n".join(json_reference.rows(OneField)))
        schemas.add(json.dumps(object_schema(OneField)))
    assert len(page) == len(schemas) == len(FIELD_TYPES)


def test_what_has_a_schema_is_printed_or_a_line_of_a_file() -> None:
    printed = {name for names in json_reference.printed().values() for name in names}
    files = set(declarations.declared_in("files"))
    assert declared().keys() == printed | files | {"Error"}


def test_schemas_are_valid_and_found_by_name() -> None:
    for name in schema_names():
        jsonschema.Draft202012Validator.check_schema(schema(name))
    assert schema("entry")["title"] == "Entry"
    with pytest.raises(KeyError, match="nonsense"):
        schema("nonsense")


def test_times_and_durations_end_in_ms() -> None:
    """And numbers of milliseconds have their unit declared."""
    for name in schema_names():
        for path, unit in _units(schema(name)):
            field = path.rpartition(".")[2].removesuffix("[]")
            assert field.endswith("_ms") == (unit in ("ms", "ms UTC")), f"{name}: {path}"


def _units(part: dict[str, Any], at: str = "") -> Iterator[tuple[str, str | None]]:
    for name, below in part.get("properties", {}).items():
        path = f"{at}.{name}" if at else name
        inner = below.get("items", below)
        yield path, inner.get("x-unit")
        yield from _units(inner, path)


def test_one_name_means_one_type() -> None:
    """A field is an object, a text or a number wherever it is; `error` is always an object."""
    kinds = dict[str, set[str]]()
    for name in schema_names():
        whole = json.dumps(schema(name))
        assert '"error": {"type": ["string"' not in whole
        for path, kind in _kinds(schema(name)):
            kinds.setdefault(path.rpartition(".")[2].removesuffix("[]"), set()).add(kind)
    assert kinds["error"] == {"object"}
    assert kinds["queue"] == kinds["name"] == kinds["reason"] == {"string"}
    assert kinds["op"] == {"string"}


def _kinds(part: dict[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    for name, below in part.get("properties", {}).items():
        path = f"{at}.{name}" if at else name
        for each in below.get("anyOf", [below]):
            kind = each.get("type", "any")
            for one in kind if isinstance(kind, list) else [kind]:
                if one != "null":
                    yield path, one
            yield from _kinds(each.get("items", each), path)
