"""Conditions on counts."""

import pytest

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.errors import Refused
from redisq_ops.ops.filter.count_condition import parse_condition
from redisq_ops.ops.filter.parser import FilterError

COUNTS = Counts(waiting=5, pending=2, delayed=0, dead=1, trash=0, done=1000)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("waiting==5", True),
        ("waiting=5", True),
        ("waiting == 0", False),
        ("waiting < 5", False),
        ("waiting <= 5", True),
        ("done > 999", True),
        ("done>=1001", False),
        ("dead != 0", True),
        ("waiting=4,5", True),
        ("dead==0 or waiting>=5", True),
        ("dead==0 and waiting>=5", False),
        ("dead=1 waiting=5", True),
        ("waiting==5 or dead==1 and pending==0", True),
        ("(waiting==5 or dead==1) and pending==0", False),
        ("not dead==0", True),
        ("  ( ( trash==0 ) )  ", True),
    ],
)
def test_a_condition_compares_counts(text: str, holds: bool) -> None:
    assert parse_condition(text)(COUNTS) is holds


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("   ", 4),
        ("waiting", 1),
        ("waiting==", 10),
        ("waiting==0 or", 14),
        ("wating==0", 1),
        ("  wating==0", 3),
        ("payload.a>0", 1),
        ("age>2h", 1),
        ("dead>0 Timeout", 8),
        ('dead>0 or "no customer"', 11),
        ("has:dead", 5),
        ("dead~1", 5),
        ("waiting==0)", 11),
        ("waiting==-1", 10),
        ("waiting==True", 10),
        ("waiting>pending", 9),
        ("waiting==0 & dead==0", 12),
        ("0<dead<5", 1),
        ("waiting==0 and (dead>1", 16),
        ("waiting==0 or dead>x", 20),
        ("waiting>=²", 10),
        ("waiting>=" + "9" * 3000, 10),
        ("dead>0\0", 6),
        ("(" * 3000 + "dead==0", 51),
    ],
)
def test_bad_condition_names_the_column(text: str, column: int) -> None:
    with pytest.raises(FilterError) as failed:
        parse_condition(text)
    assert failed.value.column == column


def test_a_count_that_is_not_known_is_refused_not_taken_as_zero() -> None:
    counts = Counts(0, 0, 0, 0, 0, 0, unknown=frozenset({"done"}))
    assert parse_condition("dead=0")(counts)
    with pytest.raises(Refused, match="does not show how many entries are done"):
        parse_condition("done=0")(counts)
