"""Exit codes: the same mistake has the same code in every command, and one clear line says why."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import redis

from redisq_ops.core.delay import DelaySet
from redisq_ops.core.request import RequestQueue

from .cli import Redisq, everywhere
from .model.wire import picture

QUEUE = [
    "work json:loads --once --queue {}",
    "inspect queue {}",
    "waiting ls {}",
    "dlq ls {}",
    "dlq groups {}",
    "history {}",
    "log --queue {}",
    "select {}",
    "export {}",
    "fsck {}",
    "explain {}",
    "consumers ls {}",
    "client ls {}",
    "workers ls {}",
    "replay {}",
    "purge {} --state dead",
    "move mail --to {} --state dead",
    "queue pause {} --yes",
    "queue destroy {} --yes",
    "retention {}",
    "wait when dead>0 --queue {}",
    "wait request r1 --queue {}",
    "results r1 --queue {}",
    "top --once --queue {}",
    "forget {}",
]
REQUEST = [
    "inspect request {}",
    "explain {}",
    "waiting ls {}",
    "wait request {}",
    "results {}",
    "request cancel {} --yes",
    "request pause {} --yes",
    "request limit {} 5 --yes",
    "purge {} --state dead --yes",
]
ENTRY = ["inspect entry {}", "explain {}", "replay {} --yes", "purge {} --yes", "dlq edit {}"]
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
    "queue destroy mail --hard",
    "request cancel mail/r1",
    "request limit mail/r1 7",
    "retention mail trash_ms=1000",
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
    ("no such queue", "forget nosuch --yes", 1),
    *of("no such request", 1, REQUEST, "mail/nosuch"),
    *of("no such entry", 1, ENTRY, "mail/r1/99"),
    *of("no such id", 1, [*REQUEST, *ENTRY], "nosuch"),
    *of("no requests in it", 1, ["request pause {} --yes", "wait request {}"], "later/e1"),
    *of("no requests in it", 1, ["results {}", "request limit {} 5 --yes"], "later/e1"),
    ("no requests in it", "submit in.txt --queue later", 1),
    ("no clients in it", "client ls mail", 1),
    ("no clients in it", "client block mail ann --yes", 1),
    *of("no such operation", 1, ["undo {} --yes"], "replay-0000000000"),
    *of("no such file", 2, FILES, "nosuch"),
    *of("a directory", 2, FILES, "."),
    *of("no such folder", 2, OUTPUTS, "nosuch"),
    *of("not confirmed", 5, CHANGES, ""),
    *of("a bad name", 2, ["inspect queue {}", "waiting ls {}", "submit in.txt --queue {}"], "{x}"),
    *of("a bad name", 2, ["queue pause {}", "wait when dead>0 --queue {}"], "{x}"),
    *of(
        "a bad time span", 2, ["dlq ls mail --older-than {}", "wait request r1 --timeout {}"], "5x"
    ),
    *of("a bad time span", 2, ["work json:loads --lease {}"], "5x"),
    *of("a bad expression", 2, ["select mail --where {}", "replay mail --where {}"], "state:"),
    *of("a bad expression", 2, ["wait when {}"], "ded>1"),
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
    DelaySet(client, "later").schedule([("e1", b"x")], after_ms=60_000)
    RequestQueue(client, "other").submit([b"x"], id="o1")
    Path("in.txt").write_bytes(b"one\n")
    redisq("export", "mail", "--state", "dead", "--raw-payloads", "-o", "mail.ndjson")
    return client


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


@pytest.mark.alike
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_server_that_is_gone_or_refuses_has_one_code(
    deployment: redis.Redis, redisq: Redisq, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [*LOOKS, *CHANGES, "submit in.txt", "work json:loads --once", "wait request r1"]
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
