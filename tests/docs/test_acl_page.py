"""The ACL rules on the page are those that `redisq acl` prints."""

from __future__ import annotations

import os
import re

import pytest

from redisq_ops.ops.acl_roles import ROLES, Role, rules, setuser

from .reader import PAGES

PAGE = PAGES["how-to/limit-what-users-may-do.md"]
SIDEKIQ = (
    "queue:*",
    "queues",
    "retry",
    "schedule",
    "dead",
    "failed_queues",
    "processes",
    "super_processes",
    "paused",
    "stat:*",
    "*:[0-9]*:????????????",
    "*:[0-9]*:????????????:work*",
    "*:[0-9]*:????????????:super_queues",
    "*:[0-9]*:????????????-signals",
)
USERS: dict[str, tuple[Role, tuple[str, ...]]] = {
    **{f"redisq-{role}": (role, ()) for role in ROLES},
    "redisq-sidekiq": ("operator", SIDEKIQ),
}


@pytest.mark.parametrize("user", USERS)
def test_page_has_the_rule_of_each_role(user: str) -> None:
    role, keys = USERS[user]
    line = setuser(user, rules(role, keys=keys))
    text = PAGE.read_text()
    if os.environ.get("REDISQ_DOCS") == "redraw":
        at = re.compile(rf"^(ACL SETUSER {user} .*|{role.upper()})$", re.M)
        text = at.sub(lambda _: line, text, count=1)
        PAGE.write_text(text)
    assert f"\n{line}\n" in text
