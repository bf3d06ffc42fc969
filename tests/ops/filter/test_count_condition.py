"""Conditions on counts."""

import pytest

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.filter.count_condition import parse_condition

COUNTS = Counts(waiting=5, pending=2, delayed=0, dead=1, trash=0, done=1000)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("waiting==5", True),
        ("waiting == 0", False),
        ("5 <= waiting", True),
        ("waiting < 5", False),
        ("waiting <= 5", True),
        ("done > 999", True),
        ("done>=1_001", False),
        ("dead != 0", True),
        ("waiting>pending", True),
        ("dead==0 or waiting>=5", True),
        ("dead==0 and waiting>=5", False),
        ("waiting==5 or dead==1 and pending==0", True),
        ("(waiting==5 or dead==1) and pending==0", False),
        ("  ( ( trash==delayed ) )  ", True),
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
        ("waiting=0", 8),
        ("waiting==", 10),
        ("waiting==0 or", 14),
        ("waiting==0 dead==0", 12),
        ("wating==0", 1),
        ("  wating==0", 3),
        ("waiting==0)", 11),
        ("waiting==-1", 10),
        ("waiting==True", 10),
        ("waiting==0 & dead==0", 1),
        ("waiting is 0", 1),
        ("0<dead<5", 1),
        ("not dead==0", 1),
        ("__import__('os')", 1),
        ("waiting==0 or dead>x", 20),
        ("waiting>=1__0", 11),
        ("waiting>=²", 10),
    ],
)
def test_bad_condition_names_the_column(text: str, column: int) -> None:
    with pytest.raises(BadInput, match=f"column {column}: expected "):
        parse_condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "waiting==0 and (dead>1", "5x==5", "waiting>=" + "9" * 5000, "dead>0\0", "dead>'\udcff'",
        "(" * 20_000 + "dead==0" + ")" * 20_000, "-" * 100_000 + "1==1",
    ],
)  # fmt: skip
def test_bad_condition_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match=r"column \d+: expected "):
        parse_condition(text)
