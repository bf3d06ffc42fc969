"""Groups by task and other fields: their values, and the filters that select the same entries."""

from __future__ import annotations

import json

import pytest

from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.groups.error_groups import ErrorGroups
from redisq_ops.ops.groups.group_by import TEXT, group_by
from redisq_ops.ops.redaction import MASK, Redaction

KEY_ERROR, TIMEOUT = Failure("KeyError", "'iban'"), Failure("Timeout", "no answer in 30 s")


def entry(
    id: str, payload: object, task: str | None = None, error: Failure | None = KEY_ERROR
) -> Entry:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Entry(id, "dead", payload=data, task=task, error=error)


ENTRIES = [
    entry("own", {"release": "v2"}),
    entry("own too", {"release": "v2"}),
    entry("number", {"release": 2}),
    entry("the same number", {"release": 2.0}),
    entry("text of a number", {"release": "2"}),
    entry("none", {"release": None}),
    entry("word", {"release": "null"}),
    entry("odd", {"release": 'v "2"\\ *,)\n\x1b[2J'}),
    entry("lacks it", {"to": "eu"}),
    entry("no JSON", b"\xff\xfe"),
    entry("job", {"args": [{"release": "v2"}]}, "ChargeCard"),
    entry("other error", {"args": [{"release": "v2"}]}, "ChargeCard", TIMEOUT),
    entry("other task", {"args": [{"release": "v2"}]}, "Charge Card"),
    entry("both", {"args": [{"release": "v1"}], "release": "v2"}, "ChargeCard"),
    entry("beside", {"args": [], "release": "v2"}, "ChargeCard"),
    entry("nameless", {"args": []}, ""),
    entry("reason", {}, "ChargeCard", None),
]


@pytest.mark.parametrize("by", ["error,task,release", "task", "error,release", "error,arg.release"])
def test_a_groups_filter_selects_its_entries_and_no_others(by: str) -> None:
    groups = ErrorGroups(by=group_by(by), ids=100)
    groups.add(ENTRIES, "mail")
    for group in groups.ranked():
        assert group.where is not None
        where = parse(group.where)
        assert group.ids == [each.id for each in ENTRIES if where.accepts(each, 0)], group.where


def test_an_unknown_task_has_no_name() -> None:
    groups = ErrorGroups(by=group_by("task"))
    groups.add(ENTRIES)
    found = {group.values[0]: len(group.errors) for group in groups.ranked()}
    assert found == {None: 1, "ChargeCard": 3, "Charge Card": 1}


def test_a_group_by_error_names_the_task_that_all_its_entries_have() -> None:
    groups = ErrorGroups()
    groups.add([each for each in ENTRIES if each.error is TIMEOUT])
    assert groups.ranked()[0].task == "ChargeCard"
    groups.add([entry("no task", {}, None, TIMEOUT)])
    assert groups.ranked()[0].task is None


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"release": {"name": "v2"}}, '{"name": "v2"}'),
        ({"release": "x" * 5000}, "x" * (TEXT - 1) + "…"),
        ({"release": "tok_12345"}, MASK),
        ({"release": "v2", "token": "x"}, "v2"),
    ],
)
def test_a_value_that_a_filter_may_not_or_can_not_name_has_none(
    payload: object, shown: str
) -> None:
    redaction = Redaction.read([({"keys": ["token"], "patterns": {"token": "tok_\\w+"}}, "")])
    groups = ErrorGroups(redaction=redaction, by=group_by("error,task,release"))
    groups.add([entry("e", payload, "tok_task")])
    (group,) = groups.ranked()
    assert group.values[1] == shown and "tok_task" not in str(group.values)
    assert group.where is None


@pytest.mark.parametrize("by", ["age", "", "payload.", "error,,task", "lease", "tenant"])
def test_a_field_by_which_nobody_can_group_is_refused(by: str) -> None:
    with pytest.raises(BadInput, match=r"group by|name one field|write a path|payload.tenant"):
        group_by(by)
