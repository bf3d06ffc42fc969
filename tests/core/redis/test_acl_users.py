"""The users of the roles: what each needs is allowed, what harms others is refused.

The rules are read from the page that shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.errors import Forbidden
from redisq_ops.core.queues.fair.sharded import ShardedFairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.acl_denial import READS
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker.upkeep import TransferRecoverer
from redisq_ops.demo.server import binaries

from ...atomicity.database import Database
from ...atomicity.stages import KINDS, stage
from ...command_line import Redisq, dead_letters
from ...conftest import Clusters
from ...model.wire import picture
from ..cluster.test_failover import USERS, users

ROLES = {line.split(" ")[2]: line.split(" ")[3:] for line in users()}
HARMFUL: list[tuple[Any, ...]] = [
    ("FLUSHALL",), ("FLUSHDB",), ("SWAPDB", 0, 1), ("KEYS", "*"), ("CLIENT", "PAUSE", 1),
    ("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "LIST"), ("CLIENT", "NO-EVICT", "on"),
    ("FUNCTION", "DELETE", "lib"), ("FUNCTION", "FLUSH"), ("FUNCTION", "KILL"),
    ("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() end)"),
    ("FCALL", "f", 0), ("SCRIPT", "FLUSH"), ("SCRIPT", "KILL"), ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "maxmemory", "1"), ("SHUTDOWN",), ("SAVE",),
    ("BGREWRITEAOF",), ("REPLICAOF", "NO", "ONE"), ("MONITOR",), ("ACL", "LIST"),
    ("ACL", "SETUSER", "x", "on"), ("MIGRATE", "127.0.0.1", 1, "redisq:registry", 0, 1),
    ("RESTORE", "redisq:x", 0, "x"), ("SORT", "redisq:l", "BY", "secret:*"),
    ("SORT", "redisq:l", "GET", "secret:*"), ("SORT_RO", "redisq:l", "BY", "secret:*"),
    ("MODULE", "LIST"),
    ("LATENCY", "RESET"), ("SLOWLOG", "RESET"), ("GET", "secret:1"), ("SET", "secret:1", "x"),
    ("DEL", "secret:1"), ("RENAME", "redisq:l", "secret:2"), ("PUBLISH", "news", "x"),
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
            said = admin.execute_command("ACL", "DRYRUN", role, *name.split("|"), *["redisq:x"] * n)
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
    assert allowed == {"info"} | ({"eval", "evalsha"} if role != "redisq-viewer" else set())


@pytest.mark.parametrize("role", ROLES)
def test_what_harms_others_is_refused(admin: Any, url: str, role: str) -> None:
    admin.set("secret:1", "x")
    admin.set("app:1:session", "x")
    admin.rpush("redisq:l", "1", "2")
    before = admin.acl_list()
    with as_user(admin, url, role) as user:
        for words in HARMFUL:
            with pytest.raises((redis.exceptions.NoPermissionError, redis.ResponseError)) as said:
                user.execute_command(*words)
            text = str(said.value)
            assert "permission" in text or "can't " in text, (words, text)
        if role == "redisq-viewer":
            for words in (
                ("SET", "redisq:x", 1),
                ("DEL", "redisq:l"),
                ("GETEX", "redisq:l", "EX", 1),
            ):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    user.execute_command(*words)
    assert admin.exists("secret:1", "app:1:session", "redisq:l") == 3
    assert len(admin.acl_list()) == len(before) + 1


PRODUCER = {"put", "plan", "push again", "reschedule by its producer"}
WORKER = {
    "take",
    "take of what is due",
    "ack",
    "result",
    "fail",
    "reject",
    "release",
    "extend",
    "sweep",
    "sweep of leases",
    "sweep of the trash",
    "tick",
    "hand over",
}
"""operations of `stages`; an operator may do all of them"""


@pytest.mark.parametrize("role", ["redisq-producer", "redisq-worker", "redisq-operator"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_role_may_do_all_of_its_own(
    admin: Any, url: str, kind: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SidekiqQueue, "random", staticmethod(lambda: 0.5))
    theirs = {"carmine": ["~carmine:*"], "resque": ["~resque:*"], "stream": ["~orders"]}
    more = theirs.get(kind, [])
    if kind == "sidekiq":
        more = [word for word in ROLES["redisq-sidekiq"] if word.startswith("~")]
    with as_user(admin, url, "redisq-operator", *more) as operator:
        built = stage(operator, kind)
        database = Database(admin)
        database.save()
    with as_user(admin, url, role, *more) as user:
        built.made._client = user
        own = {"redisq-producer": PRODUCER, "redisq-worker": PRODUCER | WORKER}.get(role)
        for name in built.operations:
            if own is None or name in own:
                database.restore()
                built.run(name)


@pytest.mark.alike
def test_a_role_is_refused_what_the_next_one_may(
    admin: Any, url: str, redisq: Redisq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says which right is missing, and nothing is begun."""
    (tmp_path / "upper.py").write_text("def handle(d):\n    return d.payload.upper()\n")
    (tmp_path / "lines").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    faces = {}
    for role in ("viewer", "producer", "worker", "operator"):
        as_user(admin, url, f"redisq-{role}").close()
        faces[role] = Redisq(url.replace("//", f"//redisq-{role}:change-me@"), redisq._capsys)
    work = ("work", "upper:handle", "--queue", "mail", "--burst")
    refused = "may not run"
    assert refused in faces["viewer"].refusal("submit", "lines", "--queue", "mail", code=1)
    assert admin.keys() == []
    faces["producer"]("submit", "lines", "--queue", "mail", "--id", "r1")
    before = picture(admin)
    assert "BLPOP" in faces["producer"].refusal(*work, code=1)
    for role in ("producer", "worker"):
        faces[role]("queue", "pause", "mail", "--yes", code=1)
        assert refused in faces[role].err
    assert picture(admin) == before
    faces["worker"](*work)
    assert "ACL" not in faces["worker"].err
    assert faces["producer"]("results", "mail/r1", "--raw") == "ONE\nTWO\n"
    faces["operator"]("queue", "pause", "mail", "--yes")
    faces["operator"]("queue", "rm", "mail", "--hard", "--yes")


@pytest.mark.alike
def test_a_worker_finishes_a_killed_move_and_a_producer_does_not(
    admin: Any, url: str, redisq: Redisq, caplog: pytest.LogCaptureFixture
) -> None:
    dead_letters(admin, 3)
    RequestQueue(admin, "other").submit([b"x"], id="r2")
    redisq("dlq", "move", "mail", "--to", "other", "--yes")
    op = redisq.rows("log", "--queue", "mail")[0]["id"]
    admin.zadd("redisq:{mail}:unfinished", {op: 1})  # as if it was killed before it ended
    with as_user(admin, url, "redisq-producer") as user:
        run(user, TransferRecoverer().look(RequestQueue(user, "mail")))
    assert len(caplog.messages) == 1 and "ACL SETUSER" in caplog.text
    assert redisq.rows("ls")[0]["unfinished"] == [op]
    with as_user(admin, url, "redisq-worker") as user:
        run(user, TransferRecoverer().look(RequestQueue(user, "mail")))
    assert redisq.rows("ls")[0]["unfinished"] == []
    assert len(caplog.messages) == 1


@pytest.mark.alike
def test_a_user_of_one_queue_is_refused_the_others(
    admin: Any, url: str, redisq: Redisq, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("one\n")
    lines = str(tmp_path / "lines")
    admin.execute_command(*redisq("acl", "operator", "--queue", "a?b").split())
    try:
        user = Redisq(url.replace("//", "//redisq-operator:change-me@"), redisq._capsys)
        user("submit", lines, "--queue", "a?b", "--id", "r1")
        user("purge", "a?b", "--state", "waiting", "--yes")
        for other in ("axb", "mail"):
            assert "ACL says no" in user.refusal("submit", lines, "--queue", other, code=1)
        assert {key.decode().partition("}")[0] for key in admin.keys("*{*")} == {"redisq:{a?b"}
    finally:
        admin.acl_deluser("redisq-operator")


@pytest.mark.alike
@pytest.mark.parametrize("role", ["producer", "worker", "operator"])
def test_a_user_of_one_queue_can_hide_and_replace_no_queue(
    admin: Any, url: str, redisq: Redisq, role: str
) -> None:
    admin.rpush("resque:queue:x", "{}")
    run(admin, RequestQueue(admin, "other")._ensure_registered())
    admin.execute_command(*redisq("acl", role, "--queue", "mail").split())
    try:
        user: Any = redis.Redis.from_url(url, username=f"redisq-{role}", password="change-me")
        RequestQueue(user, "mail").submit([b"1"], id="r1")
        before = admin.hgetall("redisq:registry")
        for name in (b"mail", b"other"):
            for command in (("HDEL", name), ("HSET", name, "{}"), ("DEL",), ("RENAME", "x")):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    user.execute_command(command[0], "redisq:registry", *command[1:])
        with pytest.raises(redis.exceptions.ResponseError):
            user.eval("return redis.call('HDEL', KEYS[1], 'mail')", 1, "redisq:registry")
        assert user.hsetnx("redisq:registry", "mail", "{}") == 0
        assert admin.hgetall("redisq:registry") == before
    finally:
        admin.acl_deluser(f"redisq-{role}")


@pytest.mark.alike
def test_what_an_operator_of_one_queue_cannot_finish_does_not_begin(
    admin: Any, url: str, redisq: Redisq
) -> None:
    queue = ShardedFairQueue(admin, "mail", shards=2)
    queue.submit("client", [b"1"])
    admin.execute_command(*redisq("acl", "operator", "--queue", "mail").split())
    before = picture(admin)
    try:
        user = Redisq(url.replace("//", "//redisq-operator:change-me@"), redisq._capsys)
        user("queue", "rm", "mail", "--hard", "--yes", code=1)
        assert "may not use key redisq:registry" in user.err
        confined = redis.Redis.from_url(url, username="redisq-operator", password="change-me")
        with pytest.raises(Forbidden, match="redisq:registry"):
            ShardedFairQueue(confined, "mail").resize(3)
        assert picture(admin) == before
    finally:
        admin.acl_deluser("redisq-operator")


def test_reads_that_no_rule_names_are_reads(client: Any) -> None:
    """A producer and a worker have these by `+@read`."""
    known = {name.decode().partition("|")[0] for name in client.acl_cat("read")}
    named = {name for name in client.command() if name in READS}
    assert len(named) > 20 and named <= known


def test_a_new_rule_takes_from_a_user_what_it_had(admin: Any, url: str) -> None:
    admin.execute_command("ACL", "SETUSER", "redisq-worker", "on", ">old", "~*", "+@all")
    with as_user(admin, url, "redisq-worker") as user:
        with pytest.raises(redis.exceptions.NoPermissionError):
            user.flushall()
        RequestQueue(user, "mail").submit([b"x"], id="r1")


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(binaries()))
def test_on_a_cluster_each_role_needs_what_the_page_adds(
    clusters: Clusters,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (more,) = re.findall(r"`(\+cluster\|[^`]*)`", USERS.read_text())
    (tmp_path / "upper.py").write_text("def handle(d):\n    return d.payload.upper()\n")
    (tmp_path / "lines").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    nodes = clusters(kind)
    for node in nodes.nodes:
        for role in ("redisq-viewer", "redisq-operator"):
            node.command("ACL", "SETUSER", role, *ROLES[role], *more.split(" "))
    url = nodes.urls[0].replace("://", "+cluster://{}:change-me@")
    operator, viewer = (
        Redisq(url.format(f"redisq-{role}"), capsys) for role in ("operator", "viewer")
    )
    for name in ("a", "b", "c"):  # slots of all three nodes
        operator("submit", "lines", "--queue", name, "--id", f"job-{name}")
    for words in (
        "work upper:handle --queue a --queue b --burst",
        "results job-a",
        "queue pause c --yes",
        "undo --yes",
        "purge c --state waiting --yes",
        "trash restore c --yes",
        "fsck",
        "queue rm b --hard --yes",
    ):
        operator(*words.split(" "))
    for words in ("ls", "top --once", "fsck", "inspect a/job-a", "explain c", "log"):
        viewer(*words.split(" "))
    viewer("wait", "a/job-a", "--timeout", "5s")
    viewer("queue", "pause", "c", "--yes", code=1)
    assert "ACL SETUSER redisq-viewer +eval +evalsha" in viewer.err
    for address in nodes.urls:
        with redis.Redis.from_url(address) as node:
            node.acl_deluser("redisq-viewer", "redisq-operator")
