"""Contexts: where a setting comes from, and what a context keeps a hand from doing."""

import asyncio
import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

import redisq_ops
from redisq_ops.core.model.errors import BadInput, Refused
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import aconnect
from redisq_ops.ops.change.limits import FREE, Guard
from redisq_ops.ops.config.config import load
from redisq_ops.ops.config.contexts import NamedContext, contexts
from redisq_ops.ops.config.settings import SETTINGS
from redisq_ops.ops.deployment import Deployment
from redisq_ops.tui.app import Top
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.frame import text
from redisq_ops.tui.poller import Connected, Live

from ..command_line import Redisq, dead_letters

pytestmark = pytest.mark.alike


@pytest.fixture
def file(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration, and nothing in the environment."""
    for name in [name for name in os.environ if name.startswith("PROD")]:
        monkeypatch.delenv(name)
    configuration.write_text("")
    return configuration


def prod(file: Path, *lines: str, top: str = "") -> None:
    """A configuration whose context prod has these lines."""
    file.write_text("\n".join([top, "[contexts.prod]", *lines, ""]))


# --- what a setting is ---------------------------------------------------------------------------


def test_flag_context_environment_file_default(file: Path) -> None:
    file.write_text('queue = "everybody"\n[contexts.prod]\nqueue = "own"\n')
    asked: list[tuple[dict[str, str | None], str | None, dict[str, str], str, str]] = [
        ({"queue": "given"}, "prod", {"REDISQ_QUEUE": "env"}, "given", "flag"),
        ({}, "prod", {"REDISQ_QUEUE": "env"}, "own", "context prod"),
        ({}, None, {"REDISQ_QUEUE": "env"}, "env", "REDISQ_QUEUE"),
        ({}, None, {"REDISQ_CONTEXT": "prod"}, "own", "context prod"),
        ({}, None, {}, "everybody", str(file)),
    ]
    home = {"XDG_CONFIG_HOME": str(file.parent.parent)}
    for flags, context, environment, value, origin in asked:
        found = load(flags, context, home | environment).values["queue"]
        assert (found.value, found.origin) == (value, origin)
    file.write_text("")
    assert load({}, None, home).values["queue"].origin == "default"


def test_context_uses_environment_variables(file: Path) -> None:
    prod(file, 'url = "${PROD_URL}"', 'queue = "a${PROD_X}$$b"')
    with pytest.raises(BadInput) as caught:
        load({}, "prod")
    assert str(caught.value) == (
        f"{file} [contexts.prod]: url: environment variable 'PROD_URL' is not set"
    )
    environment = {**os.environ, "PROD_URL": "redis://u:secret@h:1", "PROD_X": "-"}
    config = load({}, "prod", environment)
    assert config["url"] == "redis://u:secret@h:1" and config["queue"] == "a-$b"
    shown = {value.name: value for value in config.display_values()}
    assert shown["url"].value == "redis://u:***@h:1"
    assert shown["url"].origin == "context prod, PROD_URL"
    assert shown["context"].value == "prod"


def test_unset_variable_is_an_error_before_connecting(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from redisq_ops.cli import main as cli

    prod(file, 'url = "${PROD_URL}"')
    assert cli.run(["ls", "--context", "prod"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "'PROD_URL' is not set" in err


def test_variables_of_other_contexts_may_be_unset(file: Path, redisq: Redisq) -> None:
    file.write_text('[contexts.prod]\nurl = "${PROD_URL}"\n[contexts.staging]\nqueue = "q"\n')
    assert redisq("config", "--context", "staging")
    assert load({"url": "redis://h"}, "prod")["url"] == "redis://h"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("contexts = 3", "contexts must be a table, not 3"),
        ("[contexts]\nprod = 3", "contexts.prod must be a table, not 3"),
        ('[contexts."a b"]', "bad name 'a b'"),
        ("[contexts.prod]\nurls = 3", "[contexts.prod]: unknown setting 'urls'"),
        ("[contexts.prod]\nread_only = 'maybe'", "read_only must be true or false, not 'maybe'"),
        ("[contexts.prod]\nmax_entries = 0", "max_entries must be a whole number from 1, not '0'"),
        ("[contexts.prod]\nmax_entries = true", "max_entries can't be true"),
        ("[contexts.prod]\nmax_rate = 'fast'", "max_rate: 'fast' is not a rate"),
        ("[contexts.prod]\nconfirm = 'twice'", "confirm must be plain or name, not 'twice'"),
        ("[contexts.prod]\ncolor = 'pink'", "color must be red or yellow"),
        ("[contexts.prod]\nlabel = 'much too long for a header'", "label must have 1 to"),
        ("[contexts.prod]\nurl = ['a']", "url must be one value, not a list"),
        ("confirm = 'name'", "needs a context"),
        ("redact = 3", "redact must be a table, not 3"),
    ],
)
def test_invalid_setting_names_its_place(file: Path, text: str, problem: str) -> None:
    file.write_text(text)
    context = "prod" if "prod" in text else None
    with pytest.raises(BadInput) as caught:
        load({}, context)
    assert problem in str(caught.value) and str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_invalid_environment_value_names_its_variable(file: Path) -> None:
    with pytest.raises(BadInput, match="REDISQ_MAX_ENTRIES: max_entries must be a whole"):
        load({}, None, {**os.environ, "REDISQ_MAX_ENTRIES": "many"})


def test_unknown_context_lists_the_known_ones(file: Path, redisq: Redisq) -> None:
    prod(file, "read_only = true")
    assert redisq.refusal("ls", "--context", "nope", code=2).endswith("; its contexts are prod")


def test_list_of_contexts_shows_no_secrets(file: Path, redisq: Redisq) -> None:
    file.write_text(
        '[contexts.prod]\nurl = "${PROD_URL}"\nread_only = true\nmax_entries = 500\n'
        'confirm = "name"\nlabel = "PROD"\npassword = "hunter2"\n'
        '[contexts.here]\nurl = "redis://me:hunter2@localhost"\n'
    )
    rows = redisq.rows("config", "--contexts")
    assert rows == [
        {
            "name": "here",
            "url": "redis://me:***@localhost",
            "read_only": False,
            "max_entries": None,
            "confirm": "plain",
            "label": None,
        },
        {
            "name": "prod",
            "url": "${PROD_URL}",
            "read_only": True,
            "max_entries": 500,
            "confirm": "name",
            "label": "PROD",
        },
    ]
    assert contexts()[1] == NamedContext("prod", "${PROD_URL}", True, 500, "name", "PROD")
    out = redisq("config", "--contexts")
    assert "prod" in out and "hunter2" not in out + json.dumps(rows)


def test_config_has_every_setting(file: Path, redisq: Redisq) -> None:
    names = {row["name"] for row in redisq.rows("config")}
    assert names == {*SETTINGS, "context", "redact", "notify"}


# --- what a context allows -----------------------------------------------------------------------


def test_more_entries_than_allowed_are_refused(
    file: Path, redisq: Redisq, client: redis.Redis
) -> None:
    queue = dead_letters(client, 12)
    prod(file, "max_entries = 10")
    replay = ("dlq", "replay", "mail", "--context", "prod")
    redisq(*replay, "--yes", code=1)
    assert (
        "that is 12 entries, and one change may touch 10 (max_entries, context prod)" in redisq.err
    )
    assert queue.counts().dead == 12 and "choose fewer, with --max" in redisq.err
    redisq(*replay, "--dry-run")
    redisq(*replay, "--max", "10", "--yes")
    assert queue.counts().dead == 2


def test_max_entries_does_not_count_what_an_acknowledgement_leaves_alone(
    redisq: Redisq, client: redis.Redis, file: Path
) -> None:
    dead_letters(client, 12)
    prod(file, "max_entries = 10")
    for words, code in (((), 0), (("--end",), 1)):
        redisq("--context", "prod", "dlq", "acknowledge", "mail", "--yes", *words)
        redisq("check", "--set", "dead=100", code=code)


def test_max_entries_counts_all_queues_of_a_change(
    file: Path, redisq: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 6, "one")
    dead_letters(client, 6, "two")
    prod(file, "max_entries = 10")
    redisq("dlq", "replay", "one", "two", "--context", "prod", "--yes", code=1)
    assert "that is 12 entries" in redisq.err
    assert RequestQueue(client, "one").counts().dead == 6


def test_max_entries_counts_the_entries_of_a_request_or_queue(
    file: Path, redisq: Redisq, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 11, id="r1")
    prod(file, "max_entries = 10")
    for words in (("request", "cancel", "mail/r1"), ("queue", "rm", "mail", "--hard")):
        redisq(*words, "--context", "prod", "--yes", code=1)
        assert "that is 11 entries" in redisq.err
        assert "choose fewer" not in redisq.err  # of these no part can be chosen
    assert queue.counts().waiting == 11
    redisq("request", "priority", "mail/r1", "3", "--context", "prod", "--yes")


def test_confirm_by_name_with_yes(file: Path, redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 3)
    prod(file, 'confirm = "name"')
    pause = ("queue", "pause", "mail", "--context", "prod", "--yes")
    redisq(*pause, code=5)
    assert "context prod asks for its name: add --confirm prod" in redisq.err
    redisq(*pause, "--confirm", "staging", code=2)
    assert "--confirm staging: this is context prod" in redisq.err
    assert queue.counts().paused is None
    redisq(*pause, "--confirm", "prod")
    assert queue.counts().paused is not None
    redisq("queue", "resume", "mail", "--yes", "--confirm", "prod", code=2)
    assert "nothing here asks for a name" in redisq.err


def at_terminal(words: list[str], typed: str) -> str:
    """What a command says on a terminal where a person types."""
    master, slave = pty.openpty()
    process = subprocess.Popen(["redisq", *words], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, typed.encode())
    said = b""
    while True:
        try:
            block = os.read(master, 4096)
        except OSError:
            break
        if not block:
            break
        said += block
    os.close(master)
    process.wait(timeout=90)
    return said.decode()


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
def test_confirm_by_name_at_a_terminal(file: Path, url: str, client: redis.Redis) -> None:
    queue = dead_letters(client, 3)
    prod(file, 'confirm = "name"', f'url = "{url}"')
    words = ["dlq", "replay", "mail", "--context", "prod"]
    said = at_terminal(words, "y\n")
    assert "Type prod to go ahead" in said and "nothing was changed" in said
    assert queue.counts().dead == 3
    at_terminal(words, "prod\n")
    assert queue.counts().dead == 0


def test_max_rate_of_a_change(
    file: Path, redisq: Redisq, client: redis.Redis, naps: list[Callable[[float], object]]
) -> None:
    dead_letters(client, 300)
    prod(file, 'max_rate = "100/s"')
    replay = ("dlq", "replay", "mail", "--context", "prod", "--yes")
    redisq(*replay, "--rate", "101/s", code=1)
    assert "101/s is faster than 100/s (max_rate, context prod)" in redisq.err
    rests: list[float] = []
    naps.append(rests.append)
    redisq(*replay)
    assert 2 < max(rests) <= 3  # 300 entries are three seconds of it


def test_binary_password_file_is_not_quoted(file: Path, redisq: Redisq, tmp_path: Path) -> None:
    (tmp_path / "pw").write_bytes(b"p\xe4ss\n")
    prod(file, f"password_file = '{tmp_path}/pw'")
    said = redisq.refusal("ls", "--context", "prod", code=2)
    assert f"password file {tmp_path}/pw is not UTF-8 text" in said


def test_password_file_without_end_is_refused(file: Path, redisq: Redisq) -> None:
    prod(file, "password_file = '/dev/zero'")
    said = redisq.refusal("ls", "--context", "prod", code=2)
    assert "password file /dev/zero has more than 64 MiB" in said


@pytest.mark.parametrize(("typed", "held"), [((), "5/s"), (("--rate", "4/s"), "4/s")])
@pytest.mark.parametrize("applied", [False, True])
def test_max_rate_of_a_ramp(
    file: Path,
    redisq: Redisq,
    client: redis.Redis,
    tmp_path: Path,
    applied: bool,
    typed: tuple[str, ...],
    held: str,
) -> None:
    """Alone it would begin with 10 a second."""
    dead_letters(client, 2)
    prod(file, 'max_rate = "5/s"')
    words = ["replay", "mail"]
    if applied:
        words = ["apply", str(tmp_path / "plan")]
        redisq("dlq", "replay", "mail", "--plan", words[1])
    words += ["--ramp", "--watch", "1ms", "--max-latency", "60s", "--context", "prod", "--yes"]
    redisq(*words, "--rate", "6/s", code=1)
    assert "6/s is faster than 5/s (max_rate, context prod)" in redisq.err
    redisq(*words, *typed, code=3)  # nobody is there to settle them
    assert f"ramp at {held} · " in redisq.err and "ramp at 10/s" not in redisq.err


def test_read_only_refuses_every_change(file: Path, redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 1)
    prod(file, "read_only = true", 'confirm = "name"')
    said = redisq.refusal("dlq", "replay", "mail", "--context", "prod", "--yes", code=1)
    assert "read-only" in said


STRICTEST = [
    ("read_only", "true", {"file": "true", "context": "false"}, "file"),
    ("read_only", "true", {"context": "true", "environment": "false"}, "context"),
    ("read_only", "true", {"context": "false", "environment": "true"}, "environment"),
    ("read_only", "false", {"context": "false", "file": "false"}, "context"),
    ("max_entries", "5", {"context": "500", "environment": "5", "file": "50"}, "environment"),
    ("max_entries", "7", {"context": "70", "file": "7"}, "file"),
    ("max_rate", "2", {"context": "120/m", "environment": "9/s"}, "context"),
    ("max_rate", "0.5", {"context": "1/s", "file": "30/m"}, "file"),
    ("confirm", "name", {"context": "plain", "environment": "name"}, "environment"),
    ("confirm", "name", {"context": "plain", "file": "name"}, "file"),
]


@pytest.mark.parametrize(("setting", "value", "said", "by"), STRICTEST)
def test_strictest_source_of_a_protection_holds(
    file: Path,
    redisq: Redisq,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    value: str,
    said: dict[str, str],
    by: str,
) -> None:
    variable = SETTINGS[setting].variable
    prod(
        file,
        f'{setting} = "{said["context"]}"',
        top=f'{setting} = "{said["file"]}"' if "file" in said else "",
    )
    if "environment" in said:
        monkeypatch.setenv(variable, said["environment"])
    origins = {"file": str(file), "context": "context prod", "environment": variable}
    rows = {row["name"]: row for row in redisq.rows("config", "--context", "prod")}
    row = rows[setting]
    assert (row["value"], row["origin"]) == (value, origins[by])
    assert {o["origin"] for o in row["others"]} == {origins[x] for x in said if x != by}
    shown = redisq("config", "--context", "prod")
    assert shown.count("not used, less strict: ") == len(said) - 1
    (listed,) = redisq.rows("config", "--contexts")
    if setting != "max_rate":
        assert str(listed[setting]).lower() == value


def test_no_source_weakens_a_protection(
    file: Path, redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 12)
    replay = ("dlq", "replay", "mail", "--context", "prod", "--yes")
    prod(file, "read_only = false", "max_entries = 500", top="read_only = true")
    said = redisq.refusal(*replay, code=1)
    assert said == f"read-only: nothing can be changed (read_only, {file})"
    prod(file, "max_entries = 500", "max_rate = '100/s'", top="max_entries = 10")
    redisq(*replay, code=1)
    assert f"may touch 10 (max_entries, {file})" in redisq.err
    monkeypatch.setenv("REDISQ_MAX_RATE", "5/s")
    redisq(*replay, "--max", "2", "--rate", "6/s", code=1)
    assert "6/s is faster than 5/s (max_rate, REDISQ_MAX_RATE)" in redisq.err
    monkeypatch.setenv("REDISQ_CONFIRM", "name")
    redisq(*replay, "--max", "2", code=5)
    assert "add --confirm prod" in redisq.err
    redisq(*replay, "--max", "2", "--confirm", "prod")


# --- the guard by itself, and in the dashboard ---------------------------------------------------


def test_guard_asks_for_the_context_name() -> None:
    guard = Guard(word="prod")
    assert guard.typed(None, None) == "prod"
    assert guard.typed(None, "1234") == "1234 prod"
    assert guard.typed("prod", "1234") == "1234"
    assert FREE.typed(None, None) is None
    assert FREE.rate(None) is None and FREE.rate(7) == 7
    assert Guard(max_rate=5).rate(None) == 5
    with pytest.raises(Refused):
        Guard(max_rate=5).rate(6)


@pytest.mark.slow
def test_dashboard_obeys_the_protections(url: str, client: redis.Redis) -> None:
    queue = dead_letters(client, 12)
    guard: list[Any] = [Guard(max_entries=10), Guard(word="prod")]
    seen: list[str] = []
    for each in guard:
        connected = {"guard": each, "word": "PROD", "color": "red"}

        def connect(connected: dict[str, Any] = connected) -> Connected:
            return Connected(url, Deployment(aconnect(url, "top")), **connected)

        app = Top(Live(connect), interval=0.1, queue="mail")

        async def run(app: Top = app) -> None:
            async with app.run_test(size=(120, 30)) as pilot:

                async def see(*words: str) -> None:
                    for _ in range(1000):
                        told = " ".join(note.message for note in app._notifications)
                        if all(word in text(app) + told for word in words):
                            return
                        await pilot.pause(0.01)
                    raise AssertionError(text(app))

                await see("redisq  PROD", "mail")
                await pilot.press("5")
                await see("r1/12")
                await pilot.press("A", "P")
                if app.source.connected.guard.max_entries:  # type: ignore[union-attr]
                    await see("one change may touch 10")
                    return
                await see("To go on, type prod")
                assert isinstance(app.screen, Confirm) and not app.screen.agreed
                await pilot.press(*"prod", "enter")
                await see("12 replayed")

        asyncio.run(run())
        seen.append(str(queue.counts().dead))
    assert seen == ["12", "0"]


def test_the_library_connects_as_the_command_line_does(
    file: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prod(file, f'url = "{url}/3"', 'prefix = "ours"', top='prefix = "all"')

    def where(**options: Any) -> tuple[int, str]:
        with redisq_ops.connect(**options) as client:
            return client.connection_pool.connection_kwargs.get("db", 0), RequestQueue(
                client
            ).prefix

    assert where() == (0, "all"), "the file"
    monkeypatch.setenv("REDIS_URL", f"{url}/2")
    monkeypatch.setenv("REDISQ_PREFIX", "env")
    assert where() == (2, "env"), "the environment, before the file"
    assert where(context="prod") == (3, "ours"), "a context, before the environment"
    assert where(url=f"{url}/4", prefix="own", context="prod") == (4, "own"), "arguments, first"
    monkeypatch.setenv("REDISQ_CONTEXT", "prod")
    assert where() == (3, "ours") and where(prefix="own") == (3, "own")
    queue = redisq_ops.DelaySet(redisq_ops.aconnect())
    assert (queue.prefix, redisq_ops.DelaySet(queue.client, prefix="own").prefix) == ("ours", "own")
    with pytest.raises(BadInput, match="no context 'test'"):
        redisq_ops.connect(context="test")
