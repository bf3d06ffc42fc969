"""Users who lack a right: what is refused says which and how to give it, and nothing is begun."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import redis

from redisq_ops.core.model.errors import Forbidden
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.acl_denial import Denial
from redisq_ops.core.redis.acl_rights import every_command
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import Call, run
from redisq_ops.core.redis.server_errors import translate
from redisq_ops.core.worker import Worker
from redisq_ops.ops import acl_roles as roles
from redisq_ops.ops.acl_roles import Role
from redisq_ops.ops.change import audit_log

from ...command_line import Redisq, dead_letters
from ...model.wire import picture
from ...queue_steps import until

Limited = Callable[..., Redisq]
WORKER = "~redisq:* &redisq:* +@all"


@pytest.fixture
def limited(url: str, client: redis.Redis, capsys: pytest.CaptureFixture[str]) -> Iterator[Limited]:
    """The command line as a user with a worker's rights but for some; called again: with others."""
    admin: Any = client

    def as_user(*rules: str) -> Redisq:
        admin.execute_command("ACL", "SETUSER", "bob", "reset", "on", ">x", *WORKER.split(), *rules)
        return Redisq(url.replace("//", "//bob:x@"), capsys)

    yield as_user
    client.acl_deluser("bob")


@pytest.fixture
def handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "upper.py").write_text("def handle(d):\n    return d.payload.upper()\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "upper:handle"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        # Redis 7.0, then inside a script
        ("this user has no permissions to run the 'xgroup|create' command", "+xgroup|create"),
        ("this user has no permissions to access one of the keys used as arguments", ""),
        ("this user has no permissions to access one of the channels used as arguments", ""),
        (
            "The user executing the script can't run this command or subcommand script: 0a, on "
            "@user_script:3.",
            "+hgetall +hmget +time +type",
        ),
        (
            "The user executing the script can't access at least one of the keys mentioned in the "
            "command arguments script: 0a, on @user_script:3.",
            "",
        ),
        (
            "user_script:3: The user executing the script can't publish to the channel mentioned"
            " in the command",
            "",
        ),
        # Redis 7.2 and 8, Valkey 7.2 to 9
        ("User bob has no permissions to run the 'zadd' command", "+zadd"),
        ("User bob has no permissions to access the 'redisq:{mail}:stat' key", "~redisq:*"),
        ("User bob has no permissions to access the 'news' channel", "&news"),
        ("No permissions to access a key", ""),
        ("No permissions to access a channel", ""),
        (
            "ACL failure in script: User bob has no permissions to run the 'zadd' command script:"
            " 0a, on @user_script:2.",
            "+zadd",
        ),
        (
            "ERR ACL failure in script: No permissions to access a key script: on @user_script:2.",
            "",
        ),
        ("user_script:2: ACL failure in script: No permissions to access a channel", ""),
        ("User bob has no permissions to access database 3", "db=3"),
        ("User bob has no permissions to run the 'evalsha' command", "+eval +evalsha"),
    ],
)
def test_the_words_of_every_server_are_understood(text: str, rules: str) -> None:
    error = translate(redis.ResponseError(text))
    assert isinstance(error, Forbidden) and error.denial is not None
    assert error.denial.rules == rules
    who = "bob" if "bob" in text else "<user>"
    assert str(error).startswith("the server's ACL says no: ")
    assert not rules or str(error).endswith(f"; to allow it: ACL SETUSER {who} {rules}")


@pytest.mark.parametrize(
    ("role", "words", "rule"),
    [
        ("viewer", "ls", "%R~redisq:*"),
        ("viewer", "inspect queue post", "%R~redisq:*"),
        ("viewer", "dlq ls post", "%R~redisq:*"),
        ("operator", "results r2", "%R~redisq:*"),
        ("operator", "purge post --state waiting --yes", "~redisq:*"),
        ("operator", "queue pause post --yes", "~redisq:*"),
        ("operator", "request cancel r2 --yes", "~redisq:*"),
    ],
)
def test_the_hint_is_pasted_once_and_the_command_works(
    client: redis.Redis, limited: Limited, role: Role, words: str, rule: str
) -> None:
    """A user of one queue asks for another."""
    dead_letters(client, 1)
    RequestQueue(client, "post").submit([b"x"], id="r2")
    bob = limited("reset", "on", ">x", *roles.rules(role, queues=["mail"]))
    said = bob(*words.split(), code=None) + bob.err
    assert bob.code in (1, 3)
    (said,) = re.findall(r"to allow it: (.*)", said)
    assert said == f"ACL SETUSER bob {rule}"
    admin: Any = client
    admin.execute_command(*said.split())
    bob(*words.split())


def test_a_hint_for_the_registry_lets_nobody_write_it(
    client: redis.Redis, limited: Limited
) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    bob = limited("resetkeys", "~redisq:{mail}:*")
    said = bob.refusal("queue", "pause", "mail", "--yes", code=1)
    assert said.endswith("to allow it: ACL SETUSER bob %R~redisq:registry")


def test_a_hint_takes_a_key_as_it_is(client: redis.Redis, limited: Limited) -> None:
    """In the rule of an ACL some characters mean others, and some can't be typed at a prompt."""
    key = 'a*b c[d]"\\e'
    client.set(key, "1")
    client.set('axb c[d]"\\e', "1")
    bob = connect(limited("resetkeys").url)
    with pytest.raises(Forbidden) as caught:
        run(bob, Call(("GET", key), bytes, key=key))
    admin: Any = client
    admin.execute_command(*str(caught.value).rpartition("to allow it: ")[2].split())
    assert run(bob, Call(("GET", key), bytes, key=key)) == b"1"
    with pytest.raises(Forbidden):
        run(bob, Call(("GET", 'axb c[d]"\\e'), bytes, key="other"))
    bob.close()


@pytest.mark.parametrize("text", ["ERR unknown command 'FOO'", "MISFIT key user has no is a list"])
def test_other_errors_are_no_denials(text: str) -> None:
    assert Denial.read(text) is None


@pytest.mark.parametrize(
    ("lua", "rules", "said"),
    [
        ("redis.call('HGET', KEYS[1], 'a')", "-hget", "+hget"),
        ("redis.call('GET', 'elsewhere')", "-zadd", "~redisq:*"),
        ("redis.call('PUBLISH', 'elsewhere', 'a')", "-zadd", ""),
        ("return 1", "-eval -evalsha", "+eval +evalsha"),
    ],
)
def test_what_a_script_may_not_do_is_forbidden_and_names_the_rule(
    url: str, limited: Limited, lua: str, rules: str, said: str
) -> None:
    bob = connect(limited(*rules.split()).url)
    call = Call(("EVAL", lua, 1, "redisq:{q}:stat"), int, key="redisq:{q}:stat", source=lua)
    with pytest.raises(Forbidden) as caught:
        run(bob, call)
    assert caught.value.denial and caught.value.denial.user == "bob"
    assert said in str(caught.value) and "\n" not in str(caught.value)
    bob.close()


def test_without_channels_a_request_is_cancelled_and_worked_on(
    client: redis.Redis, limited: Limited, handler: str
) -> None:
    """``resetchannels`` is what new users have."""
    queue: Any = RequestQueue(client, "mail")
    queue.submit([b"x"] * 3, id="r1")
    queue.submit([b"y"], id="r2")
    bob = limited("resetchannels")
    bob("request", "cancel", "r1", "--yes")
    assert queue.request("r1").state == "cancelled" and queue.counts().of("trash") == 3
    bob("work", handler, "--queue", "mail", "--burst")
    assert "to allow it: ACL SETUSER bob +publish &redisq:*" in bob.err
    assert bob("results", "r2", "--raw") == "Y\n"
    assert queue.request("r2").state == "done"
    assert queue.invariants() == []
    bob = limited()
    queue.submit([b"z"], id="r3")
    bob("work", handler, "--queue", "mail", "--burst")
    assert "ACL" not in bob.err and "WARNING" not in bob.err


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("-zrem", "run ZREM; to allow it: ACL SETUSER bob +zrem"),
        ("-blpop", "run BLPOP; to allow it: ACL SETUSER bob +blpop"),
        ("-evalsha", "run EVALSHA; to allow it: ACL SETUSER bob +eval +evalsha"),
        ("-eval", "run EVAL; to allow it: ACL SETUSER bob +eval +evalsha"),
        (
            "resetkeys %R~redisq:* ~redisq:registry",
            "use one of the keys; to allow it: ACL SETUSER bob ~redisq:*",
        ),
    ],
)
def test_a_worker_without_its_rights_takes_nothing(
    client: redis.Redis, limited: Limited, handler: str, rule: str, named: str
) -> None:
    client.script_flush()
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 3, id="r1")
    seen = picture(client)
    said = limited(*rule.split()).refusal("work", handler, "--queue", "mail", "--burst", code=1)
    assert said.endswith(named)
    assert picture(client) == seen


@pytest.mark.parametrize("again", [True, False])
def test_a_result_is_kept_while_a_running_worker_may_not_settle(
    url: str, client: redis.Redis, limited: Limited, caplog: pytest.LogCaptureFixture, again: bool
) -> None:
    """With the right back it is told; a worker that is stopped before that says so and fails."""
    queue: Any = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1")
    bob = connect(limited().url)

    def handle(_: object) -> str:
        limited("-zrem")
        Thread(target=then).start()
        return "done"

    def then() -> None:
        until(
            lambda: any("trying again until it works" in line for line in caplog.messages),
            "the worker never said that it may not settle",
        )
        limited() if again else worker.stop()

    worker = Worker(RequestQueue(bob, "mail"), handle, burst=True, grace=0.1)
    with caplog.at_level(logging.WARNING, "redisq_ops"):
        if again:
            worker.run()
            assert queue.request("r1").done == 1
        else:
            with pytest.raises(Forbidden, match=r"ACL SETUSER bob [+]zrem"):
                worker.run()
            assert queue.counts().of("pending") == 1
    assert queue.invariants() == []
    bob.close()


@pytest.mark.parametrize(
    "words",
    [
        "queue pause mail",
        "request cancel r1",
        "purge mail --state waiting",
        "settings mail keep_ms=48h",
        "queue rm mail --hard",
    ],
)
def test_an_operator_without_a_right_begins_nothing(
    client: redis.Redis, limited: Limited, words: str
) -> None:
    RequestQueue(client, "mail").submit([b"x"] * 3, id="r1")
    seen = picture(client)
    bob = limited("-unlink", "-xadd")
    bob(*words.split(), "--yes", code=1)
    said = "may not run UNLINK, XADD; to allow it: ACL SETUSER bob +unlink +xadd"
    assert [line.endswith(said) for line in bob.err.splitlines() if "redisq: " in line] == [True]
    assert "stopped after" not in bob.err
    assert picture(client) == seen
    bob(*words.split(), "--dry-run")
    bob("ls")


def test_an_operator_of_some_queues_learns_before_the_audit_log_that_only_others_acknowledge(
    client: redis.Redis, limited: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 3)
    monkeypatch.setattr(audit_log, "begin", None)
    seen = picture(client)
    words = ("dlq", "acknowledge", "mail", "--yes")
    rules = ("resetkeys", "~redisq:{mail}:*", "%R~redisq:registry", "%R~redisq:acknowledged")
    for given, named in ((rules, "~redisq:acknowledged"), (("-hdel",), "+hdel")):
        bob = limited(*given)
        bob(*words, code=1)
        assert bob.err.endswith(f"ACL SETUSER bob {named}\n")
    assert picture(client) == seen


def test_a_producer_without_a_right_creates_no_queue(
    client: redis.Redis, limited: Limited, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("one\ntwo\n")
    bob = limited("-xadd")
    said = bob.refusal("submit", str(tmp_path / "lines"), "--queue", "new", code=1)
    assert "ACL SETUSER bob +xadd" in said
    assert client.keys() == []


def test_every_command_of_a_queue_can_be_asked_for(client: redis.Redis) -> None:
    """One that the server doesn't know counts as allowed; one whose keys it looks for behind
    the arguments crashes it, unless it is asked for with all of them."""
    own = ("request", "delay", "fair", "circular", "carmine")
    foreign = ("sidekiq", "resque", "rq", "streams")
    packages = [f"queues.{kind}" for kind in own] + [f"foreign.{kind}" for kind in foreign]
    asked = {name.partition("|")[0] for each in packages for name in every_command(each)}
    admin: Any = client
    known = admin.command()
    assert len(asked) > 50 and asked - known.keys() <= {"xnack"}, "only Redis 8.8 has it"
    movable = {
        name for name in asked & known.keys() if "movablekeys" in map(str, known[name]["flags"])
    }
    assert movable == {"xreadgroup"}
