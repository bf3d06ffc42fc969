"""The rules of `redisq check`: tables of a TOML file, each for the queues that match its pattern.

    [[check]]                         # all queues
    oldest = "1h"
    critical = ["dead>1000"]

    [[check]]
    queues = "batch-*"                # these wait longer
    oldest = "1d"
    ignore = ["paused"]

A later table overrides the values of earlier ones; conditions and ignored rules add up.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from redisq_ops.core.model.bounded_read import bounded_read
from redisq_ops.core.model.errors import BadInput, file_error

from ..filter.count_condition import Condition, parse_condition
from ..filter.parser import FilterError
from ..filter.time import duration_ms
from ..queue_names import is_named
from ..trouble.finding import USUAL, Severity, Thresholds
from ..trouble.judgement import RULES

SPANS: Final = {
    "no_worker": "no_worker_ms",
    "overdue": "overdue_ms",
    "stalled": "stalled_ms",
    "oldest": "oldest_ms",
    "held": "held_ms",
}
"""thresholds given as a time span -> the field of `Thresholds`"""
NUMBERS: Final = (
    "minutes",
    "dead",
    "dead_letters",
    "many_dead_letters",
    "attempts",
    "failing_percent",
    "failures",
    "lost",
    "depth",
    "growth",
)
MOST: Final = {"failing_percent": 100, "minutes": 60}
"""the rates that are read are of an hour"""
CONDITIONS: Final = {"warning": Severity.WARNING, "critical": Severity.CRITICAL}
_EXPECTED: Final = ", ".join(["queues", *SPANS, *NUMBERS, *CONDITIONS, "ignore"])


@dataclass(frozen=True, slots=True)
class CountCondition:
    """A condition on counts that must not hold, as ``dead>100``."""

    severity: Severity
    text: str
    holds: Condition = field(compare=False)


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What a queue is checked by."""

    limits: Thresholds = USUAL
    conditions: tuple[CountCondition, ...] = ()
    ignored: frozenset[str] = frozenset()
    """names of rules that are not checked"""


_TABLES: Final = "expected TOML with tables [[check]]"


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Values for the queues that match a pattern."""

    queues: str
    limits: Mapping[str, int]
    """fields of `Thresholds`"""
    conditions: tuple[CountCondition, ...] = ()
    ignored: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rules:
    """Rule tables, in the order in which they apply."""

    tables: tuple[RuleTable, ...] = ()

    def of(self, queue: str) -> QueueRules:
        """The rules of a queue."""
        found = QueueRules()
        for table in self.tables:
            if is_named(queue, (table.queues,)):
                found = QueueRules(
                    replace(found.limits, **table.limits),
                    found.conditions + table.conditions,
                    found.ignored | table.ignored,
                )
        return found

    def unused(self, queues: Collection[str]) -> list[str]:
        """The patterns that match none of these queues, in order."""
        patterns = dict.fromkeys(table.queues for table in self.tables if table.queues != "*")
        return [each for each in patterns if not any(is_named(q, (each,)) for q in queues)]

    def with_options(
        self, settings: Iterable[str], warning: Iterable[str], critical: Iterable[str]
    ) -> Rules:
        """These rules and those of the command line (``NAME=VALUE``), which apply last."""
        values: dict[str, Any] = {"warning": list(warning), "critical": list(critical)}
        for setting in settings:
            name, equals, value = setting.partition("=")
            if not equals or name not in (*SPANS, *NUMBERS):
                raise BadInput(
                    f"--set {setting!r}: write NAME=VALUE; names: {', '.join([*SPANS, *NUMBERS])}"
                )
            values[name] = int(value) if name in NUMBERS and value.isdecimal() else value
        return Rules((*self.tables, _table(values, _option)))


def read_rules(path: Path) -> Rules:
    """The rules of a file; `BadInput` names file, line and what is expected."""
    try:
        with path.open("rb") as opened:
            content = bounded_read(opened, str(path))
    except OSError as error:
        raise file_error(error, f"{path}: {error.strerror or error}") from error
    try:
        text = content.decode()
        file = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}, line {line}: not UTF-8; {_TABLES}") from error
    except tomllib.TOMLDecodeError as error:
        why, _, place = str(error).rstrip(")").partition(" (at ")
        raise BadInput(f"{path}, {place}: {why[:1].lower()}{why[1:]}; {_TABLES}") from error
    tables = file.pop("check", [])
    if file or not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        name = next(iter(file), "check")
        found = rf"^\s*(?:{re.escape(name)}\b|\[+\s*{re.escape(name)}\b)"
        at = re.search(found, text, re.MULTILINE)
        line = text.count("\n", 0, at.end()) + 1 if at else 1
        raise BadInput(f"{path}, line {line}: {name!r} is no rule table; {_TABLES}")
    return Rules(
        tuple(
            _table(table, lambda name, nth=nth: f"{path}, line {_line(text, nth, name)}: {name}")
            for nth, table in enumerate(tables)
        )
    )


def rules_of(tables: Any, where: str) -> Rules:
    """The rules of tables that were read already; `BadInput` names ``where``, table and key."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadInput(f"{where}: expected tables [[{where.rpartition(' ')[2]}]]")
    return Rules(
        tuple(
            _table(table, lambda name, nth=nth: f"{where}, table {nth}: {name}")
            for nth, table in enumerate(tables, 1)
        )
    )


def _table(values: Mapping[str, Any], place: Any) -> RuleTable:
    """A table of checked values; ``place`` names where a value is, in words."""
    limits: dict[str, int] = {}
    conditions: list[CountCondition] = []
    ignored: frozenset[str] = frozenset()
    queues = "*"
    for name, value in values.items():
        if name == "queues" and isinstance(value, str):
            queues = value
        elif name in SPANS and isinstance(value, str):
            try:
                limits[SPANS[name]] = duration_ms(value)
            except BadInput as error:
                raise BadInput(f"{place(name)}: {error}") from error
        elif name in NUMBERS and type(value) is int and 0 < value <= MOST.get(name, value):
            limits[name] = value
        elif name in CONDITIONS and _texts(value):
            conditions += [_condition(CONDITIONS[name], text, place(name)) for text in value]
        elif name == "ignore" and _texts(value) and set(value) <= RULES.keys():
            ignored = frozenset(value)
        else:
            raise BadInput(f"{place(name)}: expected {_expected(name)}")
    return RuleTable(queues, limits, tuple(conditions), ignored)


def _option(name: str) -> str:
    return f"--{name}" if name in CONDITIONS else f"--set {name}"


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _condition(severity: Severity, text: str, place: str) -> CountCondition:
    try:
        return CountCondition(severity, text, parse_condition(text))
    except FilterError as error:
        raise BadInput(f"{place}: {error.line}") from error


def _expected(name: str) -> str:
    if name in SPANS:
        return 'a time span in quotes, as "90s", "5m" or "2h"'
    if name in NUMBERS:
        most = MOST.get(name)
        return f"a whole number, 1 {f'to {most}' if most else 'or more'}"
    if name in CONDITIONS:
        return 'a list of conditions, as ["dead>100"]'
    if name == "ignore":
        return f"a list of rules: {', '.join(RULES)}"
    return 'a pattern, as "mail*"' if name == "queues" else f"one of {_EXPECTED}"


def _line(text: str, nth: int, name: str) -> int:
    """The line of a key in the nth table [[check]]; of the table if the key isn't found."""
    headers = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if re.match(r"\s*\[\[\s*check\s*\]\]", line)
    ]
    first = headers[nth] if nth < len(headers) else 1
    last = headers[nth + 1] if nth + 1 < len(headers) else len(text.splitlines()) + 1
    for number, line in enumerate(text.splitlines()[first:last], first + 1):
        if re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", line):
            return number
    return first
