"""Options of the data source ``redisq``: names, types and checks.

Spark lower-cases option names on their way to workers, so they are compared without case and
underscores: ``urlEnv``, ``url_env`` and ``urlenv`` are the same. Options appear in Spark's plans,
logs and web pages, so none may carry a secret. A URL with a password comes from an environment
variable (``url_env``) or a file (``url_file``).
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX, known_name
from redisq_ops.core.redis.client import ServerAddress

from .history_ranges import Mark, decode_marks
from .starting_offsets import StartPosition, decode_positions
from .tables import TABLES, TableDefinition

ROWS = 150_000
"""target rows per partition: a task costs about as much as reading 10,000 rows, and too few large
ones leave a processor idle in the end"""


@dataclass(frozen=True, slots=True)
class Options:
    """One read of one table, see `OPTIONS`. Holds no secrets."""

    table: str
    queue: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """empty: all, with a null payload"""
    payloads: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    """bounds of the table's time column, both inclusive"""
    id: tuple[str, ...] = ()
    """look these entries up instead of reading the whole table; empty: no look-up"""
    request: str | None = None
    requests: Literal["open", "settled", "all"] = "all"
    url: str | None = None
    url_env: str | None = None
    url_file: str | None = None
    prefix: str = PREFIX
    replica: bool = False
    rows: int = ROWS
    max_call_us: int = 1000
    """limit for the server time of one call, µs"""
    on_trim: Literal["fail", "report"] = "fail"
    max_events: int | None = None
    start: Mapping[str, StartPosition] | None = None
    """where a stream begins, by queue or ``queue/shard``; None: at the earliest event"""
    marks: Mapping[str, Mark] | None = None
    """the end of an earlier read of the history, by ``queue/shard``"""

    @property
    def definition(self) -> TableDefinition:
        return TABLES[self.table]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The selected columns, in order."""
        return self.columns or tuple(column.name for column in self.definition.columns)

    @property
    def counts_rows(self) -> bool:
        """Whether only the number of rows is asked for, by queue and shard at most."""
        bounds = (self.since_ms, self.until_ms, self.request, self.id or None)
        unbounded = all(bound is None for bound in bounds)
        return unbounded and set(self.column_names) <= {"queue", "kind", "shard"}

    @property
    def reads_payloads(self) -> bool:
        return self.payloads or bool({"payload", "payload_bytes"} & set(self.columns))

    def with_columns(self, names: tuple[str, ...]) -> Options:
        """The same options with these columns; all columns in their order count as no selection."""
        if names == tuple(column.name for column in self.definition.columns):
            return self
        return replace(self, columns=_columns(self.definition, names))

    def target(self, environment: Mapping[str, str] = os.environ) -> ServerAddress:
        """The server to connect to, from this process's environment; call it where the connection
        is made."""
        return resolve_address(self.url, self.url_env, self.url_file, environment)


def resolve_address(
    url: str | None, url_env: str | None, url_file: str | None, environment: Mapping[str, str]
) -> ServerAddress:
    """The server of the option ``url``, ``url_env`` or ``url_file``, else that of the
    environment."""
    if url_env is not None:
        url = environment.get(url_env)
        if not url:
            raise BadInput(f"url_env: the environment has no {url_env} here")
    if url_file is not None:
        try:
            url = Path(url_file).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadInput(f"url_file {url_file}: {error.strerror}") from error
        except UnicodeDecodeError:  # the error's text quotes the content
            raise BadInput(f"url_file {url_file} is not UTF-8 text") from None
    return ServerAddress.from_environment(url, environment)


def parse_options(given: Mapping[str, str]) -> Options:
    """The options of a read; `BadInput` names the one that is wrong."""
    values = parse_values(given, OPTIONS)
    if "table" not in values:
        raise BadInput(f"option table is missing: one of {', '.join(TABLES)}")
    options = Options(**values)
    table = options.definition
    if options.columns:
        options = replace(options, columns=_columns(table, options.columns))
    if table.time is None and (options.since_ms is not None or options.until_ms is not None):
        raise BadInput(f"table {table.name} has no time column: remove the options since and until")
    for option in OPTIONS:
        if option.field in values and option.tables and table.name not in option.tables:
            tables_text = " and ".join(", ".join(option.tables).rsplit(", ", 1))
            raise BadInput(f"option {option.name} is for {tables_text}, not {table.name}")
    return options


def parse_values(given: Mapping[str, str], options: Sequence[Option]) -> dict[str, Any]:
    """The values of options by field; `BadInput` names the option that is unknown or wrong."""
    by_name = {folded(option.name): option for option in options}
    values: dict[str, Any] = {}
    for name, text in given.items():
        option = by_name.get(folded(name))
        if option is None:
            close = get_close_matches(folded(name), by_name, 1)
            hint = f" (did you mean {by_name[close[0]].name}?)" if close else ""
            names = ", ".join(option.name for option in options)
            raise BadInput(f"unknown option {name!r}{hint}; there are {names}")
        try:
            values[option.field] = option.read(str(text))
        except ValueError as error:
            shown = "" if option.field.startswith("url") else f" {text!r}"
            raise BadInput(f"option {option.name}{shown}: {error}") from error
    if len({"url", "url_env", "url_file"} & values.keys()) > 1:
        raise BadInput("give only one of the options url, url_env and url_file")
    return values


def folded(name: str) -> str:
    """An option name in the form for comparisons."""
    return name.lower().replace("_", "").replace("-", "")


def table_named(name: str) -> TableDefinition:
    """The definition of a table; `BadInput` if there is none."""
    if name not in TABLES:
        raise BadInput(f"no table {name!r}: there are {', '.join(TABLES)}")
    return TABLES[name]


def looks_up(table: str, option: str) -> bool:
    """Whether rows of a table can be looked up by the option ``id`` or ``request``."""
    return table in _NAMES[option].tables


# --- parsing values ----------------------------------------------------------------------------


def _columns(table: TableDefinition, names: tuple[str, ...]) -> tuple[str, ...]:
    by_folded_name = {column.name.lower(): column.name for column in table.columns}
    for name in names:
        if name.lower() not in by_folded_name:
            close = get_close_matches(name.lower(), by_folded_name, 1)
            hint = f" (did you mean {by_folded_name[close[0]]}?)" if close else ""
            raise BadInput(f"table {table.name} has no column {name!r}{hint}")
    selected = tuple(by_folded_name[name.lower()] for name in names)
    if len(set(selected)) < len(selected):
        raise BadInput(f"columns: {', '.join(names)} has a column twice")
    return selected


def _table(text: str) -> str:
    return table_named(text).name


def name_list(text: str) -> tuple[str, ...]:
    """The names in an option's value, which is a line of CSV."""
    try:
        words = [word.strip() for word in next(csv.reader([text], skipinitialspace=True))]
    except csv.Error:  # a line feed
        words = []
    if not any(words):
        raise ValueError("expected names separated by commas")
    return tuple(filter(None, words))


def listed(names: Iterable[str]) -> str:
    """The value of an option that lists these names: one with a comma is between quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _queues(text: str) -> tuple[str, ...]:
    return tuple(known_name(word, "queue name") for word in name_list(text))


def _ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name_list(text)))


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def whole_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("expected a whole number from 1 on")
    return int(text)


def _moment_ms(text: str) -> int:
    """Milliseconds (UTC), or ISO 8601 with an offset."""
    if text.isdecimal():
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs its offset: 2030-01-31T12:00:00+00:00 (or ms UTC)")
    return round(moment.timestamp() * 1000)


def _call_budget_us(text: str) -> int:
    """Milliseconds, as microseconds."""
    ms = float(text)
    if not 0.05 <= ms <= 1.0:
        raise ValueError("expected 0.05 to 1 ms")
    return round(ms * 1000)


def choice(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return text.lower()

    return read


def _positions(text: str) -> dict[str, StartPosition]:
    return decode_positions(text, _moment_ms)


def _url_without_password(text: str) -> str:
    parts = urlsplit(text)
    if parts.password is not None or "password=" in parts.query.lower():
        raise ValueError(
            "Spark's plans and web pages would show the password: name an environment "
            "variable with url_env, or a file with url_file"
        )
    return text


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    field: str
    read: Callable[[str], Any]
    says: str
    tables: tuple[str, ...] = ()
    """tables that it applies to; empty: all"""


_REQUEST_TABLES = ("requests", "subrequests", "results")
_TABLES_WITH_PAYLOAD = tuple(name for name, table in TABLES.items() if table.column("payload"))
_HISTORY_ONLY = ("history",)
_STREAM_TABLES = ("history", "dead")
_ENTRY_TABLES = ("dead", "pending", "delayed", "waiting", "finished", "subrequests")

SERVER_OPTIONS = (
    Option("url", "url", _url_without_password, "URL of the server, without a password"),
    Option("url_env", "url_env", str, "environment variable with the URL"),
    Option("url_file", "url_file", str, "file with the URL"),
    Option("prefix", "prefix", str, "prefix of all keys"),
)
OPTIONS = (
    Option("table", "table", _table,
            "table to read: dead, pending, delayed, waiting, requests, …"),
    Option("queue", "queue", _queues,
            'names, separated by commas ("a,b" is one name); default: every registered queue'),
    Option("columns", "columns", name_list, "columns to read, in this order"),
    Option("payloads", "payloads", boolean,
            "read payloads, too; so does choosing their column", _TABLES_WITH_PAYLOAD),
    Option("since", "since_ms", _moment_ms, "start: ISO 8601 with offset, or ms"),
    Option("until", "until_ms", _moment_ms, "end, inclusive"),
    Option("id", "id", _ids, "look up these entries, separated by commas", _ENTRY_TABLES),
    Option("request", "request", str, "look up the rows of this request",
            (*_ENTRY_TABLES, "requests", "results")),
    Option("requests", "requests", choice("open", "settled", "all"),
            "which requests: open, settled, all", _REQUEST_TABLES),
    *SERVER_OPTIONS,
    Option("replica", "replica", boolean, "read from replicas (Cluster, Sentinel)"),
    Option("rowsPerPartition", "rows", whole_number, "rows of a partition, approximately"),
    Option("maxCallMs", "max_call_us", _call_budget_us,
            "most server time of one call, up to 1 ms"),
    Option("onTrim", "on_trim", choice("fail", "report"),
            "trimmed history: fail, or report it in a row", _STREAM_TABLES),
    Option("maxEventsPerTrigger", "max_events", whole_number,
            "most history events of a micro-batch", _STREAM_TABLES),
    Option("startingOffsets", "start", _positions,
           "where a stream begins: earliest, latest, a time, or JSON (see below)", _STREAM_TABLES),
    Option("marks", "marks", decode_marks,
            "where an earlier read of the history ended (see below)", _HISTORY_ONLY),
)  # fmt: skip
_NAMES = {folded(option.name): option for option in OPTIONS}
assert {option.field for option in OPTIONS} == {field.name for field in fields(Options)}
