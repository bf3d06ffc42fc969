"""`redisq check --notify`: people are told, and the check stays what it was."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from redisq_ops import RequestQueue
from redisq_ops.core.queues.delay import DelaySet

from ..command_line import Redisq, dead_letters
from ..hook import Hook
from ..ports import free_port


@pytest.fixture
def hook(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """A webhook that the configuration names, by a variable."""
    hook = Hook()
    monkeypatch.setenv("HOOK", hook.url)
    monkeypatch.setenv("TOKEN", "t0ken")
    configuration.write_text(
        """
        [notify]
        calm = "1ms"
        [notify.to.team]
        webhook = "${HOOK}"
        token = "${TOKEN}"
        """
    )
    yield hook
    hook.close()


def paused(client: redis.Redis, *names: str) -> None:
    for name in names:
        DelaySet(client, name).configure("op", 1, {"paused": "db migration"})


def test_nobody_is_told_of_a_pattern_that_matches_no_queue(
    redisq: Redisq, client: redis.Redis, hook: Hook
) -> None:
    dead_letters(client, 3)
    assert "no queue matches 'zzz*'" in redisq("check", "zzz*", "--notify", code=3)
    assert hook.got == []


def test_a_trouble_is_told_once_and_its_end(
    redisq: Redisq, client: redis.Redis, hook: Hook
) -> None:
    redisq("check", "--notify", code=3)
    assert hook.got == []
    dead_letters(client, 3)
    for _ in range(2):
        text = redisq("check", "--notify", "--set", "dead=100", code=1)
        assert text.startswith("WARNING: mail: 3 dead, mostly SMTP") and redisq.err == ""
    assert hook.lines == ["Look at mail: 3 dead, mostly SMTP. Type: redisq explain mail"]
    assert hook.got[0]["deployment"] == redisq.url
    redisq("dlq", "purge", "mail", "--yes")
    for _ in range(3):
        redisq("check", "--notify")
        time.sleep(0.002)
    (resolved,) = hook.lines[1:]
    assert resolved.startswith("Resolved mail after ") and len(hook.got) == 2


def test_without_notify_nobody_is_told(redisq: Redisq, client: redis.Redis, hook: Hook) -> None:
    dead_letters(client, 3)
    redisq("check", code=None)
    assert hook.got == []


def test_dead_letters_that_are_known_are_not_told_again(
    redisq: Redisq, client: redis.Redis, hook: Hook
) -> None:
    dead_letters(client, 3)
    rules = ("--set", "dead=100")
    redisq("check", "--notify", *rules, code=1)
    redisq("dlq", "acknowledge", "mail", "--until", "3d", "--reason", "known", "--yes")
    for _ in range(3):
        redisq("check", "--notify", *rules)
        time.sleep(0.002)
    assert [line.split()[0] for line in hook.lines] == ["Look", "Acknowledged"]
    client.flushall()
    dead_letters(client, 3, "other")
    redisq("dlq", "acknowledge", "other", "--until", "3d", "--yes")
    redisq("check", "--notify", *rules)
    assert not any("other" in line for line in hook.lines)


@pytest.mark.parametrize("answer", [500, 302, "close"])
@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_a_target_that_fails_is_one_line_and_no_other_exit_code(
    answer: int | str, json_: tuple[str, ...], redisq: Redisq, client: redis.Redis, hook: Hook
) -> None:
    hook.answer = answer
    dead_letters(client, 1)
    usual = redisq("check", "--set", "dead=100", *json_, code=1)
    said = redisq("check", "--notify", "--set", "dead=100", *json_, code=1)
    assert json_ == () or json.loads(said) == json.loads(usual)
    assert redisq.err.startswith("redisq: notify team: it ") and redisq.err.count("\n") == 1
    assert "s3cret" not in said + redisq.err and "t0ken" not in said + redisq.err


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.usefixtures("on_path")
def test_a_webhook_that_hangs_is_left_and_the_check_ends(
    url: str, client: redis.Redis, hook: Hook
) -> None:
    hook.answer = "hang"
    dead_letters(client, 1)
    check = ["redisq", "--url", url, "check", "--notify"]
    done = subprocess.run(
        [*check, "--set", "dead=100"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1 and done.stdout.startswith("WARNING: mail: 1 dead")
    assert done.stderr == (
        "redisq: notify team: no answer within 5 s; tried again with the next check\n"
    )


def test_a_server_that_cannot_be_reached_is_told(redisq: Redisq, hook: Hook) -> None:
    redisq.url = f"redis://:pa55word@127.0.0.1:{free_port()}"
    for _ in range(2):
        assert redisq("check", "--notify", code=3).startswith("UNKNOWN: can't reach the server")
    (line,) = hook.lines
    assert line.startswith("Fix the server: can't reach the server: ")
    assert line.endswith(". Type: redisq doctor")
    assert "pa55word" not in str(hook.got)


def test_queues_that_are_gone_are_told(redisq: Redisq, client: redis.Redis, hook: Hook) -> None:
    paused(client, "mail", "later")
    redisq("check", "--notify", code=None)
    client.delete(*client.scan_iter("redisq:{mail}:*"))  # the registry has it still
    for _ in range(3):
        assert redisq("check", "ma*", "--notify").startswith("OK: 1 queue")
        time.sleep(0.002)
    client.flushall()
    paused(client, "mail")
    for _ in range(3):
        redisq("check", "later", "--notify", code=3)
        time.sleep(0.002)
    assert [line.split(" after ")[0] for line in hook.lines] == [
        "Look at later: paused: db migration. Type: redisq explain later",
        "Look at mail: paused: db migration. Type: redisq explain mail",
        "Lost mail",
        "Lost later",
    ]
    assert ", the data is gone. Before: paused: db migration. Type: redisq doctor" in hook.lines[3]


@pytest.mark.parametrize("names", [(), ("ma*",), ("mail",)])
def test_that_everything_is_gone_is_told_though_nothing_was_in_trouble(
    names: tuple[str, ...], redisq: Redisq, client: redis.Redis, hook: Hook
) -> None:
    redisq("check", *names, "--notify", code=3)
    for name in ("mail", "main"):
        DelaySet(client, name).schedule([("e", b"x")], after=3600)
    redisq("check", *names, "--notify")
    assert hook.got == []
    client.flushall()
    for _ in range(2):
        redisq("check", *names, "--notify", code=3)
    (line,) = hook.lines
    named = f" named {names[0]}" if names else ""
    there = "1 queue" if names == ("mail",) else "2 queues"
    assert line == f"Fix the server: {there} gone, none{named} is left. Type: redisq doctor"
    redisq("check", "other*", "--notify", code=3)  # it says nothing of these
    DelaySet(client, "mail").schedule([("e", b"x")], after=3600)
    for _ in range(3):
        redisq("check", *names, "--notify")
        time.sleep(0.002)
    (_, end) = hook.lines
    assert end.startswith("Resolved the server after ")


def test_a_queue_that_was_made_anew_resolves_nothing(
    redisq: Redisq, client: redis.Redis, hook: Hook
) -> None:
    dead_letters(client, 3)
    redisq("check", "--notify", code=None)
    client.flushall()
    DelaySet(client, "mail").schedule([("e", b"x")])
    for _ in range(3):
        redisq("check", "--notify")
        time.sleep(0.002)
    assert [line.split()[0] for line in hook.lines] == ["Look", "Lost"]


def test_bad_input_calls_nobody(redisq: Redisq, client: redis.Redis, hook: Hook) -> None:
    paused(client, "mail")
    for _ in range(2):
        said = redisq("check", "zzz*", "--notify", code=3)
        assert said == "UNKNOWN: no queue matches 'zzz*' (redisq ls shows what there is)\n"
        assert redisq.err == ""
    assert "UNKNOWN: " in redisq("check", "--notify", "--prefix", "a b", code=3)
    assert hook.got == []


def test_a_check_of_some_queues_says_nothing_of_the_others(
    redisq: Redisq, client: redis.Redis, hook: Hook
) -> None:
    paused(client, "a1", "b1", "b2", "b3")
    redisq("check", "--notify", code=None)
    assert [line[:16] for line in hook.lines] == ["Look at 4 queues"]
    for _ in range(3):
        redisq("check", "a*", "--notify", code=None)
        time.sleep(0.002)
    assert len(hook.got) == 1


def test_nothing_shows_a_secret(redisq: Redisq, client: redis.Redis, hook: Hook) -> None:
    dead_letters(client, 1)
    hook.answer = 500
    said = redisq("-vv", "check", "--notify", "--json", code=None) + redisq.err
    said += redisq("config") + redisq("config", "--json") + redisq.err
    for file in Path(os.environ["XDG_STATE_HOME"]).rglob("*"):
        said += file.read_text() if file.is_file() else ""
    assert "SMTP" in said and "t0ken" not in said and "s3cret" not in said


def test_a_test_message_says_who_can_be_reached(
    redisq: Redisq, hook: Hook, configuration: Path
) -> None:
    assert redisq("check", "--notify-test") == "team: told\n"
    assert hook.lines == ["Ignore this test: it shows that this recipient can be told of trouble."]
    bad = '[notify.to.chat]\nurl = "nosuch://s3cret"\n'
    configuration.write_text(configuration.read_text() + bad)
    said = redisq("check", "--notify-test", code=3)
    assert said == "team: told\nchat: not told: apprise can't use the url of notify.to.chat\n"
    (_, chat) = redisq.rows("check", "--notify-test", code=3)
    assert chat == {"recipient": "chat", "reason": "apprise can't use the url of notify.to.chat"}


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "nobody to tell: add a table [notify.to.NAME]"),
        ("notify = 5", "notify must be a table"),
        ("[notify]\nto = {}", "nobody to tell"),
    ],
)
def test_a_table_that_tells_nobody_is_unknown_but_hides_no_trouble(
    text: str, why: str, redisq: Redisq, client: redis.Redis, configuration: Path
) -> None:
    configuration.write_text(text)
    RequestQueue(client, "news").submit([], id="r")
    said = redisq("check", "--notify", code=3)
    assert said.startswith("UNKNOWN: ") and why in said and said.count("\n") == 1
    assert redisq("check").startswith("OK: ")  # it only matters to --notify
    paused(client, "mail")
    assert redisq("check", "--notify", code=1).startswith("WARNING: mail: paused: db migration")
    assert redisq.err.startswith("redisq: nobody is told: ") and why in redisq.err


@pytest.mark.parametrize(
    "table, why",
    [
        ("url = '${NOT_SET}'", "'NOT_SET' is not set"),
        ("webhook = 'ftp://x'", "http:// or https://"),
        ("colour = 'red'", "unknown field 'colour'"),
    ],
)
def test_a_mistake_in_a_recipients_table_is_named_and_the_others_are_told(
    table: str, why: str, redisq: Redisq, client: redis.Redis, hook: Hook, configuration: Path
) -> None:
    configuration.write_text(f"[notify.to.pager]\n{table}\n{configuration.read_text()}")
    paused(client, "mail")
    assert redisq("check", "--notify", code=1).startswith("WARNING: mail: paused: db migration")
    assert redisq.err.startswith("redisq: notify pager: ") and why in redisq.err
    assert redisq.err.count("\n") == 1 and len(hook.got) == 1
    with_test = redisq("check", "--notify-test", code=3)
    assert "team: told\n" in with_test and why in with_test
    assert why in redisq.refusal("watch", "--listen", "127.0.0.1:0", code=2)


def test_a_context_may_tell_others(
    redisq: Redisq, client: redis.Redis, hook: Hook, configuration: Path
) -> None:
    with_context = """
        [contexts.prod.notify]
        severity = "warning"
        [contexts.prod.notify.to.team]
        webhook = "${HOOK}"
    """
    configuration.write_text(configuration.read_text() + with_context)
    paused(client, "mail")
    redisq("--context", "prod", "check", "--notify", code=None)
    assert hook.got[0]["deployment"] == "prod" and "Authorization" not in hook.heads[0]
    assert hook.lines[0].endswith("Type: redisq explain mail --context prod")


def test_without_apprise_a_url_names_the_extra(
    redisq: Redisq, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redisq_ops.ops.notify import notifier

    configuration.write_text('[notify.to.chat]\nurl = "slack://s3cret"\n')
    monkeypatch.setattr(notifier, "find_spec", lambda name: None)
    redisq("check", "--notify", code=3)
    missing = "apprise isn't installed: pip install 'redisq-ops[notify]'\n"
    assert redisq.err == f"redisq: notify chat: {missing}"
