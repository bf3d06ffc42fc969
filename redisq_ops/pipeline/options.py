"""What can be asked of the source ``redisq``: every option with its type, and no other.

Spark lower-cases the names on their way to the workers, so names are compared folded: ``urlEnv``,
``url_env`` and ``urlenv`` are one. Options stand in Spark's plans, logs and pages: none may carry
a secret. A URL with a password is given by the environment (``url_env``) or a file (``url_file``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX, checked_name
from redisq_ops.core.redis.client import ServerAddress

from .ranges import Mark, decoded, encoded
from .tables import TABLES, Table

ROWS = 250_000
"""rows a partition aims at: a task costs about as much as 10,000 rows"""


@dataclass(frozen=True, slots=True)
class Options:
    """One reading of one table. Free of secrets, so that it may travel and be shown."""

    table: str
    queue: tuple[str, ...] = ()
    """names; none: every queue in the registry"""
    columns: tuple[str, ...] = ()
    """none: all, the payload left null"""
    payloads: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    """bounds of the table's time, both included"""
    request: str | None = None
    """only this one's sub-requests or results"""
    requests: Literal["open", "settled", "all"] = "all"
    url: str | None = None
    url_env: str | None = None
    url_file: str | None = None
    prefix: str = PREFIX
    replica: bool = False
    rows: int = ROWS
    max_call_us: int = 1000
    """what one call may keep the server busy for, at most"""
    on_trim: Literal["fail", "report"] = "fail"
    max_events: int | None = None
    """history events of one micro-batch"""
    start: Literal["earliest", "latest"] = "earliest"
    """where a stream begins that has no checkpoint"""
    pushdown: bool = False
    """take bounds from the query's filters: only for a frame that is used in one place"""
    marks: str | None = None
    """JSON of `ranges.Mark` by queue/shard"""

    @property
    def described(self) -> Table:
        return TABLES[self.table]

    @property
    def known(self) -> dict[str, Mark]:
        """By queue/shard what an earlier read of the history knew of its end."""
        return {} if self.marks is None else decoded(self.marks)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return self.columns or tuple(column.name for column in self.described.columns)

    @property
    def with_payloads(self) -> bool:
        return self.payloads or bool({"payload", "payload_bytes"} & set(self.columns))

    def choosing(self, names: tuple[str, ...]) -> Options:
        """The same with these columns; all of them in their order choose nothing."""
        if names == tuple(column.name for column in self.described.columns):
            return self
        return replace(self, columns=_columns(self.described, names))

    def target(self, environment: Mapping[str, str] = os.environ) -> ServerAddress:
        """Where to connect, as this process' environment says; ask where it is used."""
        url = self.url
        if self.url_env is not None:
            url = environment.get(self.url_env)
            if not url:
                raise BadInput(f"url_env: the environment has no {self.url_env} here")
        if self.url_file is not None:
            try:
                url = Path(self.url_file).expanduser().read_text(encoding="utf-8").strip()
            except OSError as error:
                raise BadInput(f"url_file {self.url_file}: {error.strerror}") from error
        return ServerAddress.from_environment(url, environment)


def parsed(given: Mapping[str, str]) -> Options:
    """The options of a read; `BadInput` names the one that can't be used."""
    found: dict[str, Any] = {}
    for name, text in given.items():
        option = _NAMES.get(folded(name))
        if option is None:
            close = get_close_matches(folded(name), _NAMES, 1)
            meant = f" (did you mean {_NAMES[close[0]].name}?)" if close else ""
            raise BadInput(f"unknown option {name!r}{meant}; there are {', '.join(_SHOWN)}")
        try:
            found[option.field] = option.read(str(text))
        except ValueError as error:
            shown = "" if option.field.startswith("url") else f" {text!r}"
            raise BadInput(f"option {option.name}{shown}: {error}") from error
    if "table" not in found:
        raise BadInput(f"option table is missing: one of {', '.join(TABLES)}")
    if len({"url", "url_env", "url_file"} & found.keys()) > 1:
        raise BadInput("give one of the options url, url_env and url_file")
    options = Options(**found)
    table = options.described
    if options.columns:
        options = replace(options, columns=_columns(table, options.columns))
    if table.time is None and (options.since_ms is not None or options.until_ms is not None):
        raise BadInput(f"table {table.name} has no time for the options since and until")
    for option in OPTIONS:
        if option.field in found and option.tables and table.name not in option.tables:
            several = " and ".join(", ".join(option.tables).rsplit(", ", 1))
            raise BadInput(f"option {option.name} is for {several}, not {table.name}")
    return options


def folded(name: str) -> str:
    """A name as it is compared."""
    return name.lower().replace("_", "").replace("-", "")


def table(name: str) -> Table:
    """The table of that name."""
    if name not in TABLES:
        raise BadInput(f"no table {name!r}: there are {', '.join(TABLES)}")
    return TABLES[name]


# --- reading the values ------------------------------------------------------------------------


def _columns(table: Table, names: tuple[str, ...]) -> tuple[str, ...]:
    known = {column.name.lower(): column.name for column in table.columns}
    for name in names:
        if name.lower() not in known:
            close = get_close_matches(name.lower(), known, 1)
            meant = f" (did you mean {known[close[0]]}?)" if close else ""
            raise BadInput(f"table {table.name} has no column {name!r}{meant}")
    chosen = tuple(known[name.lower()] for name in names)
    if len(set(chosen)) < len(chosen):
        raise BadInput(f"columns: {', '.join(names)} names one twice")
    return chosen


def _table(text: str) -> str:
    return table(text).name


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise ValueError("a list of names, parted by commas")
    return words


def _queues(text: str) -> tuple[str, ...]:
    return tuple(checked_name(word, "queue name") for word in _words(text))


def _yes(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _number(low: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < low:
            raise ValueError(f"a whole number from {low:,} on")
        return int(text)

    return read


def _moment(text: str) -> int:
    """Milliseconds, or ISO 8601 with its offset."""
    if text.isdecimal():
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a moment needs its offset: 2030-01-31T12:00:00+00:00 (or ms UTC)")
    return round(moment.timestamp() * 1000)


def _budget(text: str) -> int:
    """Milliseconds, as microseconds."""
    ms = float(text)
    if not 0.05 <= ms <= 1.0:
        raise ValueError("0.05 to 1 ms")
    return round(ms * 1000)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text.lower()

    return read


def _marks(text: str) -> str:
    return encoded(decoded(text))


def _plain_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.password is not None or "password=" in parts.query.lower():
        raise ValueError(
            "a password here would be seen in Spark's plans and pages: name an environment "
            "variable with url_env, or a file with url_file"
        )
    return text


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    field: str
    read: Callable[[str], Any]
    says: str
    tables: tuple[str, ...] = ()
    """those it means something for; none: all"""


_OF_REQUESTS = ("requests", "subrequests", "results")
_WITH_PAYLOAD = tuple(name for name, table in TABLES.items() if table.column("payload"))
_PAST = ("history",)

OPTIONS = (
    _Option("table", "table", _table, "dead, pending, delayed, waiting, requests, …"),
    _Option("queue", "queue", _queues, "names parted by commas; else every queue of the registry"),
    _Option("columns", "columns", _words, "only these, in this order"),
    _Option("payloads", "payloads", _yes, "read payloads too (so does choosing their column)",
            _WITH_PAYLOAD),
    _Option("since", "since_ms", _moment, "from this moment on, ISO 8601 with offset or ms"),
    _Option("until", "until_ms", _moment, "up to this moment"),
    _Option("request", "request", str, "only this request's rows", _OF_REQUESTS),
    _Option("requests", "requests", _one_of("open", "settled", "all"), "which requests",
            _OF_REQUESTS),
    _Option("url", "url", _plain_url, "the server, without a password"),
    _Option("url_env", "url_env", str, "the environment variable with the URL"),
    _Option("url_file", "url_file", str, "the file with the URL"),
    _Option("prefix", "prefix", str, "what all keys begin with"),
    _Option("replica", "replica", _yes, "read from replicas (Cluster, Sentinel)"),
    _Option("rowsPerPartition", "rows", _number(1), "rows a partition aims at"),
    _Option("maxCallMs", "max_call_us", _budget, "server time of one call, at most 1 ms"),
    _Option("onTrim", "on_trim", _one_of("fail", "report"), "history that went under the reader",
            _PAST),
    _Option("maxEventsPerTrigger", "max_events", _number(1), "history events of a micro-batch",
            _PAST),
    _Option("startingOffsets", "start", _one_of("earliest", "latest"), "where a stream begins",
            _PAST),
    _Option("pushdown", "pushdown", _yes, "bounds from the filters of a frame that is used once"),
    _Option("marks", "marks", _marks, "where an earlier read of the history ended", _PAST),
)  # fmt: skip
_NAMES = {folded(option.name): option for option in OPTIONS}
_SHOWN = [option.name for option in OPTIONS]
assert {option.field for option in OPTIONS} == {field.name for field in fields(Options)}


def as_given(options: Options) -> dict[str, str]:
    """The options as Spark takes them; `parsed` reads the same from them."""
    default = Options(options.table)
    given: dict[str, str] = {}
    for option in OPTIONS:
        value = getattr(options, option.field)
        if value is None or (value == getattr(default, option.field) and option.field != "table"):
            continue
        if isinstance(value, tuple):
            text = ",".join(cast(tuple[str, ...], value))
        elif isinstance(value, bool):
            text = str(value).lower()
        else:
            text = str(value / 1000 if option.field == "max_call_us" else value)
        given[option.name] = text
    return given
