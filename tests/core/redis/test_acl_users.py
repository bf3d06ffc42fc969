"""The users that the docs propose: what each role needs is allowed, what harms others is refused.

The rules are read from the page itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.server import binaries, cluster

from ...atomicity.database import Database
from ...atomicity.stages import KINDS, stage
from ...command_line import Redisq
from ..cluster.test_failover import USERS, users

WANTED = {"info", "eval", "evalsha"}
"""what is dangerous or of scripts, and needed"""
ROLES = {line.split(" ")[2]: line.split(" ")[3:] for line in users()}
HARMFUL: list[tuple[Any, ...]] = [
    ("FLUSHALL",), ("FLUSHDB",), ("SWAPDB", 0, 1), ("KEYS", "*"), ("CLIENT", "PAUSE", 1),
    ("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "LIST"), ("CLIENT", "NO-EVICT", "on"),
    ("FUNCTION", "DELETE", "lib"), ("FUNCTION", "FLUSH"), ("FUNCTION", "KILL"),
    ("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() end)"),
    ("FCALL", "f", 0), ("SCRIPT", "FLUSH"), ("SCRIPT", "KILL"), ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "maxmemory", "1"), ("SHUTDOWN",), ("SAVE",),
    ("BGREWRITEAOF",), ("REPLICAOF", "NO", "ONE"), ("MONITOR",), ("ACL", "LIST"),
    ("ACL", "SETUSER", "x", "on"), ("MIGRATE", "127.0.0.1", 1, "rq:registry", 0, 1),
    ("RESTORE", "rq:x", 0, "x"), ("SORT", "rq:l", "BY", "secret:*"),
    ("SORT", "rq:l", "GET", "secret:*"), ("SORT_RO", "rq:l", "BY", "secret:*"), ("MODULE", "LIST"),
    ("LATENCY", "RESET"), ("SLOWLOG", "RESET"), ("GET", "secret:1"), ("SET", "secret:1", "x"),
    ("DEL", "secret:1"), ("RENAME", "rq:l", "secret:2"), ("PUBLISH", "news", "x"),
    ("EVAL", "return redis.call('DEL', 'secret:1')", 0), ("SET", "app:1:session", "x"),
    ("EVAL", "return redis.call('FLUSHALL')", 0),
]  # fmt: skip


@pytest.fixture
def admin(client: redis.Redis) -> Iterator[Any]:
    yield client
    client.acl_deluser(*ROLES)


def as_user(admin: Any, url: str, role: str, *more: str) -> redis.Redis:
    admin.execute_command("ACL", "SETUSER", role, *ROLES[role], *more)
    return redis.Redis.from_url(url, username=role, password="change-me", protocol=3)


def may(admin: Any, role: str, name: str) -> bool:
    """Whether a role may run a command, with whatever number of arguments it wants."""
    for n in range(9):
        try:
            said = admin.execute_command("ACL", "DRYRUN", role, *name.split("|"), *["rq:x"] * n)
        except redis.ResponseError as error:
            if "wrong number of arguments" in str(error):
                continue
            said = error
        return "permissions to run" not in str(said)
    raise AssertionError(f"{name} takes more arguments")


@pytest.mark.parametrize("role", ROLES)
def test_no_dangerous_command_is_allowed_but_those_needed(admin: Any, url: str, role: str) -> None:
    with as_user(admin, url, role):
        named = {*admin.acl_cat("dangerous"), *admin.acl_cat("admin"), *admin.acl_cat("scripting")}
        commands = {name.decode() if isinstance(name, bytes) else name for name in named}
        # A container alone is no command.
        commands -= {name.partition("|")[0] for name in commands if "|" in name}
        assert len(commands) > 80
        allowed = {name for name in commands if may(admin, role, name)}
    assert allowed <= WANTED
    assert allowed == WANTED or (role == "redisq-viewer" and allowed == {"info"})


@pytest.mark.parametrize("role", ROLES)
def test_what_harms_others_is_refused(admin: Any, url: str, role: str) -> None:
    admin.set("secret:1", "x")
    admin.set("app:1:session", "x")
    admin.rpush("rq:l", "1", "2")
    before = admin.acl_list()
    with as_user(admin, url, role) as user:
        for words in HARMFUL:
            with pytest.raises((redis.exceptions.NoPermissionError, redis.ResponseError)) as said:
                user.execute_command(*words)
            text = str(said.value)
            assert "permission" in text or "can't " in text, (words, text)
        if role == "redisq-viewer":
            for words in (("SET", "rq:x", 1), ("DEL", "rq:l"), ("GETEX", "rq:l", "EX", 1)):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    user.execute_command(*words)
    assert admin.exists("secret:1", "app:1:session", "rq:l") == 3
    assert len(admin.acl_list()) == len(before) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_may_do_all_that_is_done_to_a_queue(
    admin: Any, url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operation of workers, producers and operators."""
    monkeypatch.setattr(SidekiqQueue, "random", staticmethod(lambda: 0.5))
    role = "redisq-sidekiq" if kind == "sidekiq" else "redisq-worker"
    theirs = {"carmine": "~carmine:*", "resque": "~resque:*", "stream": "~orders"}.get(kind)
    with as_user(admin, url, role, *[theirs] if theirs else []) as user:
        built = stage(user, kind)
        database = Database(admin)
        database.save()
        for name in built.operations:
            database.restore()
            built.run(name)


def test_a_new_rule_takes_from_a_user_what_it_had(admin: Any, url: str) -> None:
    admin.execute_command("ACL", "SETUSER", "redisq-worker", "on", ">old", "~*", "+@all")
    with as_user(admin, url, "redisq-worker") as user:
        with pytest.raises(redis.exceptions.NoPermissionError):
            user.flushall()
        RequestQueue(user, "mail").submit([b"x"], id="r1")


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(binaries()))
def test_on_a_cluster_both_roles_need_what_the_page_adds(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (more,) = re.findall(r"`(\+cluster\|[^`]*)`", USERS.read_text())
    (tmp_path / "upper.py").write_text("def handle(d):\n    return d.payload.upper()\n")
    (tmp_path / "lines").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with cluster(binaries()[kind]) as nodes:
        for node in nodes.nodes:
            for role in ("redisq-viewer", "redisq-worker"):
                node.command("ACL", "SETUSER", role, *ROLES[role], *more.split(" "))
        url = nodes.urls[0].replace("://", "+cluster://{}:change-me@")
        worker, viewer = (Redisq(url.format(f"redisq-{r}"), capsys) for r in ("worker", "viewer"))
        for name in ("a", "b", "c"):  # slots of all three nodes
            worker("submit", "lines", "--queue", name, "--id", f"job-{name}")
        for words in (
            "work upper:handle --queue a --queue b --once", "results job-a", "queue pause c --yes",
            "undo --yes", "purge c --state waiting --yes", "trash restore c --yes", "fsck",
            "queue destroy b --hard --yes",
        ):  # fmt: skip
            worker(*words.split(" "))
        for words in ("ls", "top --once", "fsck", "inspect request a/job-a", "explain c", "log"):
            viewer(*words.split(" "))
        viewer("wait", "request", "a/job-a", "--timeout", "5s")
        viewer("queue", "pause", "c", "--yes", code=1)
        assert "ACL SETUSER redisq-viewer +eval +evalsha" in viewer.err
