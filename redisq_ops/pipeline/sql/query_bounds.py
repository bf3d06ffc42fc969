"""Bounds and look-ups for a table that a SQL query names only once.

They come from simple conditions in the ``WHERE`` of the same ``SELECT``: a column compared with
literals. A row that fails such a condition can't be part of the answer, whatever else the query
does. Spark still applies every condition itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlglot import exp

from ..source.options import listed, looks_up
from ..source.tables import TABLES

MAX_LOOKUPS = 500
"""maximum number of ids to look up one by one; with more ids the table is read"""
CLOCK_MS = 60_000
"""how far this machine's clock may be set back until Spark reads it"""
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}
_EQUAL: tuple[type[exp.Expr], ...] = (exp.EQ, exp.NullSafeEQ)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(
    rf"({_DATE.pattern})([ T]\d\d:\d\d(:\d\d(\.\d{{1,6}})?)?(Z|[+-]\d\d:\d\d)?)?",
)
_SPAN_MS = {
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}


@dataclass(frozen=True, slots=True)
class Clock:
    """For reading a query's times. ``now_ms``: None if Spark uses another machine's clock."""

    now_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a table's rows; None: no bound."""

    queue: tuple[str, ...] | None = None
    id: tuple[str, ...] | None = None
    request: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def impossible(self) -> bool:
        """Whether no row can be within the bounds."""
        return self.queue == () or self.id == ()

    def options(self, given: Mapping[str, str]) -> dict[str, str]:
        """The options of the data source for these bounds within those that are ``given``."""
        found = dict(given)
        if self.queue:
            found["queue"] = listed(self.queue)
        if self.id:
            found["id"] = listed(self.id)
        if self.request is not None:
            found["request"] = self.request
        if self.since_ms is not None:
            found["since"] = str(max(self.since_ms, int(given.get("since", self.since_ms))))
        if self.until_ms is not None:
            found["until"] = str(min(self.until_ms, int(given.get("until", self.until_ms))))
        return found

    def with_texts(self, table: str, column: str, texts: tuple[str, ...]) -> Bounds:
        """These bounds and one more: ``column`` is one of the ``texts``."""
        if column == "queue":
            return replace(self, queue=_in_both(self.queue, texts))
        is_plain = all(text and text == text.strip() for text in texts)  # as an option's list is
        if not is_plain or column not in ("id", "request") or not looks_up(table, column):
            return self
        if column == "id" and len(texts) <= MAX_LOOKUPS:
            return replace(self, id=_in_both(self.id, texts))
        if column == "request" and len(texts) == 1 and self.request is None:
            return replace(self, request=texts[0])
        return self

    def with_times(self, since_ms: int | None, until_ms: int | None) -> Bounds:
        """These bounds and a range of time; None: open at that end."""
        since = [ms for ms in (self.since_ms, since_ms) if ms is not None]
        until = [ms for ms in (self.until_ms, until_ms) if ms is not None]
        return replace(self, since_ms=max(since, default=None), until_ms=min(until, default=None))


def bounds_beside(place: exp.Table, clock: Clock | None) -> Bounds:
    """The bounds of a table that a query names only at this place. ``clock``: None if the query's
    times depend on a time zone."""
    bounds = Bounds()
    clause = place.parent
    select = clause.parent if isinstance(clause, (exp.From, exp.Join)) else None
    if not isinstance(select, exp.Select) or select.args.get("where") is None:
        return bounds
    alias = place.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:  # the columns have other names
        return bounds
    table = TABLES[place.name.lower()]
    alone = not select.args.get("joins") and not select.args.get("laterals")

    def is_own(column: object) -> bool:
        if not isinstance(column, exp.Column) or column.args.get("db"):
            return False
        return column.table.lower() == place.alias_or_name.lower() if column.table else alone

    for condition in _conditions(select.args["where"].this):
        column, others, kind = _sides(condition)
        if not is_own(column) and len(others) == 1:
            column, others, kind = others[0], [column], _MIRRORED.get(kind, kind)
        if not is_own(column):
            continue
        if column.name.lower() == table.time:
            if clock is not None:
                bounds = bounds.with_times(*_time_range(kind, others, clock))
        elif kind in (*_EQUAL, exp.In) and all(_is_text(other) for other in others):
            texts = tuple(dict.fromkeys(other.this for other in others))
            bounds = bounds.with_texts(table.name, column.name.lower(), texts)
    return bounds


def _conditions(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that ``AND`` joins."""
    whole = expression.unnest()
    if isinstance(whole, exp.And):
        yield from _conditions(whole.left)
        yield from _conditions(whole.right)
    else:
        yield whole


def _sides(
    condition: exp.Expr,
) -> tuple[exp.Expr, list[exp.Expr], type[exp.Expr]]:
    """The compared expression, the others, and the operator; without others if unknown."""
    kind = type(condition)
    if kind in (*_EQUAL, *_MIRRORED):
        return condition.this, [condition.expression], kind
    if kind is exp.Between and not condition.args.get("symmetric"):
        return condition.this, [condition.args["low"], condition.args["high"]], kind
    if kind is exp.In and condition.expressions:
        return condition.this, condition.expressions, kind
    return condition, [], kind


def _is_text(expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Literal) and expression.is_string


def _time_range(
    kind: type[exp.Expr], others: list[exp.Expr], clock: Clock
) -> tuple[int | None, int | None]:
    """The range in ms, slightly wider, of a time that such a comparison with literals allows."""
    fixed = [_fixed_ms(other) for other in others]
    high = None if fixed[-1] is None else fixed[-1] + 1  # for fractions of a ms
    low = _past_ms(others[0], clock) if fixed[0] is None else fixed[0]
    if kind in (exp.GT, exp.GTE):
        return low, None
    if kind in (exp.LT, exp.LTE):
        return None, high
    if kind in _EQUAL:
        return fixed[0], high
    return (low, high) if kind is exp.Between else (None, None)


def _fixed_ms(expression: exp.Expr) -> int | None:
    moment = literal_time(expression)
    return None if moment is None else int(moment.timestamp() * 1000 // 1)


def literal_time(expression: exp.Expr) -> datetime | None:
    """The time of a literal such as ``timestamp'2030-01-31 12:00:00'``; UTC without an offset."""
    form = _TIME
    if isinstance(expression, exp.Cast) and type(expression) is exp.Cast:
        kinds = {exp.DType.TIMESTAMPTZ: _TIME, exp.DType.TIMESTAMPLTZ: _TIME, exp.DType.DATE: _DATE}
        found = kinds.get(expression.to.this)
        if found is None:
            return None
        form, expression = found, expression.this
    if not _is_text(expression) or form.fullmatch(expression.this) is None:
        return None
    try:
        moment = datetime.fromisoformat(expression.this)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _past_ms(expression: exp.Expr, clock: Clock) -> int | None:
    """A time in ms at or before the value of an expression like ``now() - interval 1 hour``."""
    if not isinstance(expression, exp.Sub) or clock.now_ms is None:
        return None
    now, span = expression.this, expression.expression
    is_now = isinstance(now, exp.CurrentTimestamp) or (
        isinstance(now, exp.Anonymous) and now.name.lower() == "now" and not now.expressions
    )
    if not is_now or not isinstance(span, exp.Interval) or not isinstance(span.this, exp.Literal):
        return None
    unit = _SPAN_MS.get(str(span.unit or "").upper().removesuffix("S"))
    number = span.this.this
    if unit is None or not number.isdecimal():
        return None
    return max(0, clock.now_ms - int(number) * unit - CLOCK_MS)


def _in_both(one: tuple[str, ...] | None, other: tuple[str, ...]) -> tuple[str, ...]:
    return other if one is None else tuple(text for text in one if text in other)
