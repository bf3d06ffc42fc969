"""Filters of queues compare the columns of the overview; what is unknown matches no comparison."""

import os
import re

import pytest

from redisq_ops.core.model.entry import Counts
from redisq_ops.ops.filter.fields import OPERATORS, VALUE_FORMS
from redisq_ops.ops.filter.parser import FilterError
from redisq_ops.ops.filter.queue_filter import (
    QUEUE_FIELDS,
    QueueFields,
    accepts_queue,
    parse_queue_filter,
)

from .test_parser import PAGE

HOUR = 3_600_000
COUNTS = Counts(250, 3, 0, 12, 0, 99, unknown=frozenset({"delayed"}))
MAIL = QueueFields("mail", "rq", ["no worker for 8 m", "12 dead"], COUNTS, (5, 4, 0), 2 * HOUR, 7)
SOUND = QueueFields("billing", "request", [], None, None, None, 0)


@pytest.mark.parametrize(
    ("text", "mail", "sound"),
    [
        ("dead>0", True, False),
        ("kind=rq", True, False),
        ("trouble~worker", True, False),
        ("trouble!~worker", False, False),
        ("waiting>=100 oldest>1h", True, False),
        ("waiting>=100 oldest>3h", False, False),
        ("dead>0 or queue=bill*", True, True),
        ("-has:trouble", False, True),
        ("delayed>=0", False, False),
        ("has:delayed", False, False),
        ("in>4 out<=4 failed=0", True, False),
        ("mail", True, False),
        ("dead", True, False),
        ("rq|request", True, True),
        ("-mail", False, True),
    ],
)
def test_columns_are_compared(text: str, mail: bool, sound: bool) -> None:
    query = parse_queue_filter(text)
    assert (accepts_queue(query, MAIL), accepts_queue(query, SOUND)) == (mail, sound)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ded>0", "did you mean dead?"),
        ("client=acme", "there is no field 'client': use one of queue, kind, trouble"),
        ("payload.a=1", "there is no field 'payload'"),
        ("dead~1", "dead can't be compared by ~"),
        ("oldest>soon", "write 90s, 5m, 2h"),
        ("dead>", "a value is missing"),
    ],
)
def test_what_is_no_filter_of_queues_is_refused(text: str, why: str) -> None:
    with pytest.raises(FilterError, match=why.replace("?", r"\?")):
        parse_queue_filter(text)


def test_every_column_of_the_overview_can_be_compared() -> None:
    from redisq_ops.tui.views import OverviewView

    shown = {column.key for column in OverviewView.columns if "1 h" not in column.title}
    assert shown == {"name" if name == "queue" else name for name in QUEUE_FIELDS}


MADE = re.compile(r"(<!-- of queues, made [^\n]*-->\n).*?(<!-- end of queues -->)", re.S)


def test_docs_table_of_fields_of_queues_is_current() -> None:
    lines = [
        f"| `{name}` | {one.what} | {' '.join(f'`{sign}`' for sign in OPERATORS[one.kind])} "
        f"| {VALUE_FORMS[one.kind]} |"
        for name, one in QUEUE_FIELDS.items()
    ]
    head = ["", "| field | what | compared by | with |", "|---|---|---|---|"]
    table = "\n".join([*head, *lines, "", ""])
    page = PAGE.read_text()
    made = MADE.sub(lambda found: found[1] + table + found[2], page)
    if os.environ.get("REDISQ_DOCS") == "redraw":
        PAGE.write_text(made)
    assert PAGE.read_text() == made
