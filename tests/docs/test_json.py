"""docs/reference/json.md has every field that a command prints with --json, and no others."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ..command_line import Redisq
from .json_scenario import Rows, run
from .reader import PAGES

PAGE = PAGES["reference/json.md"].read_text()
Fields = dict[str, str]

NOT_PRINTED = {
    "Outcome": {"halted"},  # the target of a move is filled while a plan is applied
    "Plan file": {"into", "into_ms", "at_ms"},  # of a move, of delayed entries
    "Report file": {"unnamed"},  # of an undo
    "Error group details": {"scanned", "complete"},  # as the page says above its table
    "Spark error group": {"table"},
    "Spark critical path": {"table"},
    "Value": {"others[].value", "others[].origin"},  # two sources that protect
    "Request details": {"pel_differs[].who"},  # a queue that somebody damaged
}
"""what the scenario has no cause to print"""


def tables() -> dict[str, Fields]:
    """Field → type, by the heading of the third level above its table."""
    found = dict[str, Fields]()
    for part in re.split(r"^### ", PAGE, flags=re.M)[1:]:
        heading, _, text = part.partition("\n")
        table = text.partition("\n## ")[0]
        rows = re.findall(r"^\| (?:`(\S+)`|\*all of \[(.+?)\].*?\*) \| (.*?) \|", table, re.M)
        fields = found[heading] = Fields()
        for name, whole, kind in rows:
            if whole:
                fields |= found[whole]
            else:
                fields[name] = kind
    return {heading: dict(_expanded(fields, found)) for heading, fields in found.items() if fields}


def _expanded(fields: Fields, of: dict[str, Fields]) -> Iterator[tuple[str, str]]:
    """A field whose type links to another table has that one's fields below it."""
    for name, kind in fields.items():
        yield name, kind
        if link := re.search(r"\[(.+?)\]\(#", kind):
            for below, type in of[link[1]].items():
                yield f"{name}.{below}", type


def printed(row: Any, fields: Fields, at: str = "") -> Iterator[str]:
    """Paths of a row; what is below a documented map is data."""
    if isinstance(row, list):
        for each in row:
            yield from printed(each, fields, f"{at}[]")
    elif isinstance(row, dict) and not re.search("map|array of object", fields.get(at, "")):
        for name, value in row.items():
            path = f"{at}.{name}" if at else name
            plain = path.removesuffix("_b64")
            path = plain if fields.get(plain, "").startswith("bytes") else path
            yield path
            yield from printed(value, fields, path)


def linked(name: str, fields: Fields) -> bool:
    """Whether a field is part of another table's object, whose own heading checks it."""
    above = name
    while above := above.rpartition(".")[0]:
        if "](#" in fields.get(above, ""):
            return True
    return False


@pytest.fixture
def rows(redisq: Redisq, client: redis.Redis, tmp_path: Path, configuration: Path) -> Rows:
    return run(redisq, client, tmp_path, configuration)


def difference(rows: Rows) -> dict[str, dict[str, set[str]]]:
    """By heading: fields that were printed and aren't documented, and the other way round."""
    documented, wrong = tables(), {}
    for heading, found in rows.items():
        fields = documented.get(heading, {})
        paths = {path for row in found for path in printed(row, fields)}
        parents = {name.rpartition(".")[0].removesuffix("[]") for name in fields} | {
            name.removesuffix("[]") for name in fields
        }
        unknown = paths - fields.keys() - parents - {f"{name}[]" for name in parents}
        own = set(fields) - {name for name in fields if linked(name, fields)}
        unseen = {name for name in own if name.removesuffix("[]") not in paths}
        unseen -= NOT_PRINTED.get(heading, set())
        if unknown or unseen:
            wrong[heading] = {"not documented": unknown, "not printed": unseen}
    return wrong


@pytest.mark.alike
def test_the_reference_has_just_the_fields_that_are_printed_and_their_types(rows: Rows) -> None:
    """Those of Spark's commands: tests/pipeline/test_json_reference.py."""
    assert difference(rows) == {}
    types = tables()
    assert {heading for heading in types if not heading.startswith("Spark")} == rows.keys()
    # Times and durations are integers, and their names say so.
    for heading, found in rows.items():
        for row in found:
            for name, value in row.items():
                kind = types[heading].get(name, "").removesuffix("?")
                if kind in ("time", "ms"):
                    assert name.endswith("_ms") and (value is None or isinstance(value, int)), name
