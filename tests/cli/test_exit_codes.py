"""Exit codes: the same mistake has the same code in every command, and one clear line says why."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import redis
from typer.main import get_command

from redisq_ops.cli import main as cli
from redisq_ops.cli.app import app
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue

from ..command_line import Redisq, everywhere
from ..model.wire import picture

QUEUE = [
    "work json:loads --burst --queue {}",
    "inspect {}",
    "waiting ls {}",
    "dlq ls {}",
    "dlq groups {}",
    "history {}",
    "log --queue {}",
    "select {}",
    "export {}",
    "fsck {}",
    "explain {}",
    "workers ls {}",
    "client ls {}",
    "replay {}",
    "purge {} --state dead",
    "move mail --to {} --state dead",
    "queue pause {} --yes",
    "queue rm {} --yes",
    "wait {} --until dead>0",
    "wait {}/r1",
    "results {}/r1",
    "top --once --queue {}",
    "queue rm {}",
]
REQUEST = [
    "inspect {}",
    "explain {}",
    "waiting ls {}",
    "wait {}",
    "results {}",
    "request cancel {} --yes",
    "request pause {} --yes",
    "request limit {} 5 --yes",
    "purge {} --state dead --yes",
]
ENTRY = ["inspect {}", "explain {}", "replay {} --yes", "purge {} --yes", "dlq edit {}"]
LOOKS = [
    "ls",
    "log",
    "fsck",
    "history mail",
    "dlq ls mail",
    "discover",
    "top --once",
    "export mail",
]
CHANGES = [
    "replay mail",
    "dlq purge mail",
    "purge mail --state dead --hard",
    "move mail --to other --state dead",
    "queue pause mail",
    "queue rm mail --hard",
    "request cancel mail/r1",
    "request limit mail/r1 7",
    "settings mail trash_ms=1000",
    "dlq edit mail/r1/2 --payload x",
    "import mail.ndjson --queue copy --as-waiting",
]
FILES = [
    "submit {}",
    "import {} --yes",
    "apply {} --yes",
    "dlq edit mail/r1/2 --payload @{} --yes",
    "dlq edit mail --patch @{} --yes",
]
OUTPUTS = ["export mail -o {}/x", "dlq replay mail --plan {}/x"]


def of(mistake: str, code: int, commands: list[str], *values: str) -> list[tuple[str, str, int]]:
    return [(mistake, words.format(value), code) for words in commands for value in values]


MISTAKES = [
    *of("no such queue", 1, QUEUE[1:-1], "nosuch"),
    ("no such queue", "queue rm nosuch --yes", 1),
    *of("no such request", 1, REQUEST, "mail/nosuch"),
    *of("no such entry", 1, ENTRY, "mail/r1/99"),
    *of("no such id", 1, [*REQUEST, *ENTRY], "nosuch"),
    *of("no requests in it", 1, ["request pause {} --yes", "request resume {} --yes"], "later/e1"),
    ("no requests in it", "request limit later/e1 5 --yes", 1),
    ("no clients in it", "client ls mail", 1),
    ("no clients in it", "client block mail ann --yes", 1),
    *of("no such operation", 1, ["undo {} --yes"], "replay-0000000000"),
    *of("no such file", 2, FILES, "nosuch"),
    ("no such file", "spark submit nosuch --id id", 2),
    *of("a directory", 2, FILES, "."),
    *of("no such folder", 2, OUTPUTS, "nosuch"),
    *of("not confirmed", 5, CHANGES, ""),
    *of("a bad name", 2, ["inspect {}", "waiting ls {}", "submit in.txt --queue {}"], "{x}"),
    *of("a bad name", 2, ["queue pause {}", "wait {} --until dead>0"], "{x}"),
    *of("a bad time span", 2, ["dlq ls mail --older-than {}", "wait r1 --timeout {}"], "5x"),
    *of("a bad time span", 2, ["work json:loads --lease {}"], "5x"),
    *of("a bad expression", 2, ["select mail --where {}", "replay mail --where {}"], "state:"),
    *of("a bad expression", 2, ["wait mail --until {}"], "ded>1"),
    *of("no such option", 2, [f"{words} --nosuch" for words in [*LOOKS, *CHANGES]], ""),
    ("no such command", "nosuch", 2),
    ("no such command", "queue nosuch", 2),
]


@pytest.fixture
def deployment(
    client: redis.Redis, redisq: Redisq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> redis.Redis:
    monkeypatch.chdir(tmp_path)
    everywhere(client)
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    RequestQueue(client, "other").submit([b"x"], id="o1")
    Path("in.txt").write_bytes(b"one\n")
    redisq("export", "mail", "--state", "dead", "--raw-payloads", "-o", "mail.ndjson")
    return client


@pytest.mark.slow
@pytest.mark.alike
def test_the_same_mistake_has_the_same_code_in_every_command(
    deployment: redis.Redis, redisq: Redisq
) -> None:
    before = picture(deployment)
    wrong = []
    for mistake, words, code in MISTAKES:
        try:
            redisq(*words.split(), code=code)
        except AssertionError as error:
            wrong.append(f"{mistake}: {words}: {error}")
            continue
        if mistake == "not confirmed" or words.startswith("explain"):
            continue  # it shows the plan, or what the history knows
        if redisq.err.count("\n") != 1 or not redisq.err.startswith("redisq: "):
            wrong.append(f"{mistake}: {words}: {redisq.err}")
    assert not wrong, "\n".join(wrong)
    assert picture(deployment) == before


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_server_that_is_gone_or_refuses_has_one_code(
    deployment: redis.Redis, redisq: Redisq, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [*LOOKS, *CHANGES, "submit in.txt", "work json:loads --burst", "wait r1"]
    monkeypatch.setattr("redisq_ops.core.redis.client._RESENDS", 0)
    there = redisq.url
    port = there.rpartition(":")[2]
    with socket.socket() as taken:  # bound and not listening: refuses
        taken.bind(("127.0.0.1", 0))
        servers = {
            f"redis://127.0.0.1:{taken.getsockname()[1]}": (4, "can't reach the server"),
            f"redis://nobody:wrong@127.0.0.1:{port}": (1, "wrong user name or password"),
            f"{there}/9999": (2, "no database of the number"),
            "http://127.0.0.1": (2, "not a URL of a server"),
        }
        for url, (code, why) in servers.items():
            redisq.url = url
            for words in commands:
                redisq(*words.split(), code=code)
                assert why in redisq.err and redisq.err.count("\n") == 1, (url, words, redisq.err)


OPTIONS = {
    "submit": "in.txt --dry-run",
    "work": "json:loads --burst --queue none",
    "results": "mail/r1",
    "explain": "mail/r1",
    "purge": "mail --state dead",
    "move": "mail --to other --state dead",
    "apply": "plan",
    "import": "mail.ndjson",
    "export": "mail",
    "select": "mail",
    "top": "--once",
    "wait": "mail/r1 --timeout 10ms",
    "inspect": "mail/r1/2",
    "workers ack": "mail w1",
    "workers claim": "mail w1 --to w2",
    "workers requeue": "mail w1",
    "group create": "mail g start",
    "group move": "mail g start",
    "group rm": "mail g",
    "workers rm": "mail w1",
    "dlq group": "2df58f99 --queue mail",
    "dlq edit": "mail/r1/2 --payload x",
    "edit": "mail/r1/2 --payload x",
    "delay edit": "later/e1 --payload x",
    "delay add": "later/e9 x --in 5s --dry-run",
    "delay reschedule": "later --in 5s",
    "request limit": "mail/r1 5",
    "request priority": "mail/r1 5",
    "request": "mail/r1",
    "request ls": "mail",
    "client": "mail ann",
    "client weight": "mail ann 2",
    "client cap": "mail ann 2",
    "client rate": "mail ann 2/s",
    "periodic add": "later/p x",
    "periodic edit": "later/hourly",
    "acl": "viewer",
}
"""the words before an option; of other commands the name of a queue"""
ALONE = {"ls", "log", "discover", "undo", "config", "doctor", "workers ls", "workers rm"}
CODES = {0, 1, 2, 3, 5, 124}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    within = command.context_class(command)
    for name in command.list_commands(within):
        if (*path, name) not in {("spark",), ("demo",)}:  # they start a JVM, a dashboard
            yield from commands(command.get_command(within, name), (*path, name))


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize("value", ["\udcff", "9" * 5000, "", "a\x1b]0;x\x07\n\u202eb"])
def test_no_value_of_an_option_is_a_traceback(
    value: str, deployment: redis.Redis, redisq: Redisq, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq("replay", "mail", "--plan", "plan")
    before, tried = picture(deployment), 0
    for name, command in commands(get_command(app)):
        words = OPTIONS.get(name, OPTIONS.get(name.split()[0], "" if name in ALONE else "mail"))
        for param in command.params:
            if param.param_type_name != "option" or param.is_flag or param.name == "help":
                continue
            line = [*name.split(), *words.split(), f"{param.opts[0]}={value}"]
            if is_file := "FILE" in (param.metavar or ""):
                line[-1] = f"{param.opts[0]}=./new/{value}"  # there is no such folder
            capsys.readouterr()
            with patch.dict(os.environ, REDIS_URL=redisq.url):
                code = cli.run(line)
            out, said = capsys.readouterr()
            if name == "check" and code == 3:  # monitors show what is on stdout
                assert out.startswith("UNKNOWN") and out.count("\n") == 1, (line, out)
                continue
            assert code in CODES, (line, said)
            is_free = is_file or param.metavar in ("EXPR", "REGEX")
            assert code == 2 or is_free or value != "\udcff", (line, said)
            assert code != 2 or (said.startswith("redisq: ") and said.count("\n") == 1), (
                line,
                said,
            )
            assert said.replace("\n", "").isprintable(), (line, said)
            tried += 1
    assert tried > 150
    assert picture(deployment) == before


URLS = {
    "{}/-1": "'-1' is not the number of a database",
    "{}/abc": "'abc' is not the number of a database",
    "{}/1.5": "'1.5' is not the number of a database",
    "{}/1/2": "'1/2' is not the number of a database",
    "{}/99": "the server has no database of the number",
    "{}?db=-1": "db=-1: a number from 0",
    "{}?credential_provider=x": "'credential_provider' is no option",
    "{}?redis_connect_func=x": "'redis_connect_func' is no option",
    "{}?retry_on_error=x": "'retry_on_error' is no option",
    "{}?encoding=utf-16": "'encoding' is no option",
    "{}?socket_timeout=nan": "socket_timeout=nan: a number from",
    "{}?socket_timeout=-1": "socket_timeout=-1: a number from",
    "{}?protocol=9": "protocol=9: a number from 2 to 3",
    "{}?client_name=a%20b": "client_name in the URL",
    "redis+cluster://h/abc": "'abc' is not the number of a database",
    "redis+cluster://h?socket_timeout=nan": "socket_timeout=nan: a number from",
    "redis+sentinel://h/m/abc": "'abc' is not the number of a database",
    "redis+sentinel://h/m?event_dispatcher=x": "'event_dispatcher' is no option",
    "unix:///nowhere?db=abc": "db=abc: a number from",
    "rediss://h?ssl_ca_certs=/nowhere": "tls_ca: No such file or directory: /nowhere",
    "rediss://h?ssl_keyfile=.": "tls_key: Is a directory: .",
    "rediss://h?ssl_cert_reqs=banana": "ssl_cert_reqs=banana: required, optional, none",
    "rediss://h?ssl_min_version=7": "ssl_min_version=7: a number from",
    "": "not a URL of a server",
}


@pytest.mark.alike
def test_what_a_url_can_not_mean_is_refused(redisq: Redisq) -> None:
    for url, why in URLS.items():
        assert why in redisq.refusal("--url", url.format(redisq.url), "ls", code=2), url


@pytest.mark.alike
def test_settings_that_can_not_be_used_are_named(
    redisq: Redisq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = {
        ("--prefix", "a{b", "ls"): "--prefix: prefix 'a{b' can't be used",
        ("--log-format", "xml", "ls"): "--log-format xml: text or json",
        ("work", "--exec", "a 'b"): "--exec a 'b: No closing quotation",
        ("work", "json:loads", "--processes", "1" + "0" * 20): "1 to 1000",
        ("log", "--max", "1" + "0" * 20): "'--max'",
    }
    for words, why in refused.items():
        assert why in redisq.refusal(*words, code=2)
    for name, value, why in (
        ("REDISQ_PREFIX", "a{b", "REDISQ_PREFIX: prefix 'a{b' can't be used"),
        ("REDISQ_QUEUE", "\udcff", "REDISQ_QUEUE: queue must be UTF-8 text"),
        (
            "REDISQ_MAX_ENTRIES",
            "9" * 5000,
            "REDISQ_MAX_ENTRIES: max_entries must be a whole",
        ),
        ("REDISQ_PASSWORD_FILE", str(tmp_path), f"can't read password file {tmp_path}: Is a"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            assert redisq.refusal("waiting", "ls", code=2).startswith(why)
    (tmp_path / "redisq" / "config.toml").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert redisq.refusal("ls", code=2).endswith("redisq/config.toml: Is a directory")
