"""Commands to copy: whatever a name looks like, a shell and the command line take them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.cli import main as cli
from redisq_ops.cli.session import command_line
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.url import masked
from redisq_ops.ops.hint import hint, set_connection_options, words_of

from ..command_line import Redisq, dead_letters

ODD = "-w$;ird'q"


def test_name_that_begins_with_a_dash() -> None:
    assert hint("replay", "it's/1") == "redisq replay 'it'\"'\"'s/1'"
    assert hint("workers", "claim", "s", "w", to="x") == "redisq workers claim s w --to x"
    assert hint("workers", "claim", "s", "-w", to="-x") == ("redisq workers claim s --to -x -- -w")
    assert hint("request", "priority", "-q/r1", "0") == "redisq request priority -- -q/r1 0"


@pytest.mark.parametrize("name", ["mail", "-q", "it's", "a b"])
def test_the_words_of_a_hint_are_those_it_was_made_of(name: str) -> None:
    set_connection_options({"url": "redis://h:1/0", "context": None})
    try:
        command = hint("workers", "claim", name, "w1", group="-g", to=name)
    finally:
        known = words_of(command)
        set_connection_options({})
    assert " --url redis://h:1/0" in command
    assert known == (["workers", "claim", name, "w1"], {"group": "-g", "to": name})


def rejected(queue: RequestQueue[redis.Redis] | DelaySet[redis.Redis]) -> None:
    queue.settle(
        [
            Settlement(given, "reject", Failure("T", "m").encoded())
            for given in queue.take(1, consumer="-w1").deliveries
        ]
    )


def told(redisq: Redisq, *words: str) -> dict[str, Any]:
    """The one row that is said of a name with a dash."""
    (line,) = redisq(*words[:-1], "--json", "--", words[-1]).splitlines()
    row: dict[str, Any] = json.loads(line)
    return row


def test_hints_for_names_with_dashes_run(redisq: Redisq, client: redis.Redis) -> None:
    queue = RequestQueue(client, ODD)
    queue.submit([b"x"] * 3, id="-r1")
    rejected(queue)
    queue.take(1, consumer="-w1")
    for id, verb in ((f"{ODD}/-r1/1", "replay"), (f"{ODD}/-r1/2", "requeue")):
        row = told(redisq, "explain", id)
        assert row["verb"] == verb
        name, *words = shlex.split(row["command"])
        assert name == "redisq" and "--" in words
        redisq(words[0], "--yes", *words[1:])
        assert queue.get(id.partition("/")[2]).state == "waiting"  # type: ignore[union-attr]
    redisq("queue", "pause", "--yes", "--reason", "x", "--", ODD)
    row = told(redisq, "explain", ODD)
    _, *words = shlex.split(row["command"])
    redisq(*words[:2], "--yes", *words[2:])
    assert queue.counts().paused is None
    rejected(queue)
    group = told(redisq, "dlq", "groups", ODD)
    offered = redisq("dlq", "group", "--", ODD, group["group"]).splitlines()
    (offer,) = [one for one in offered if one.startswith("  redisq replay")]
    _, *words = shlex.split(offer)
    redisq(words[0], "--yes", *words[1:])
    assert queue.counts().dead == 0


def test_a_stream_and_its_consumer_with_dashes(redisq: Redisq, client: redis.Redis) -> None:
    id = client.xadd("orders", {"n": 1}).decode()  # type: ignore[union-attr]
    client.xgroup_create("orders", "-g", id="0")
    client.xreadgroup("-g", "-w", {"orders": ">"})
    client.xclaim("orders", "-g", "-w", 0, [id], idle=600_000)
    (row,) = redisq.rows("explain", f"stream:orders/{id}")
    assert row["command"] == "redisq workers claim stream:orders --group -g --to NAME -- -w"
    _, *words = shlex.split(row["command"])
    redisq(*words[:2], "--yes", "--min-idle", "0s", *words[2:])
    (row,) = redisq.rows("explain", f"stream:orders/{id}")
    assert row["facts"]["consumer"] == "NAME"


ELSEWHERE = "redis://127.0.0.1:1"


def test_hints_reach_the_same_server(
    client: redis.Redis,
    url: str,
    configuration: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Commands that are copied say where, if the one before did; the shell knows of another."""
    monkeypatch.chdir(configuration.parent)
    monkeypatch.setenv("REDIS_URL", ELSEWHERE)
    configuration.write_text(f"[contexts.prod]\nurl = '{url}'\n")
    queue = dead_letters(client, 3)

    def said(*words: str, code: int = 0) -> str:
        assert cli.run(words) == code
        out, err = capsys.readouterr()
        return out + err

    def offered(text: str, before: str) -> list[str]:
        """The words of the command behind a text."""
        (line,) = [line for line in text.splitlines() if line.startswith(f"{before}redisq ")]
        return shlex.split(line.removeprefix(before))[1:]

    for where in (
        ("--url", url),
        ("--context", "prod"),
        ("--context", "prod", "--prefix", "redisq"),
    ):
        told = said(*where, "explain", "mail/r1/1")
        replay = offered(told, "    ")
        assert replay[-len(where) :] == list(where)
        undo = offered(said(*replay, "--yes"), "undo with: ")
        assert undo[-len(where) :] == list(where) and queue.counts().dead == 2
        said(*undo, "--yes")
        assert queue.counts().dead == 3
        plan = f"{len(where)}{where[0]}"
        asked = said("replay", "mail", "--plan", plan, *where)
        assert f"do it with: redisq apply {plan} {shlex.join(where)}" in asked
        gone = said("history", "mial", *where, code=1)
        assert f"redisq ls {shlex.join(where)} shows what there is" in gone
    monkeypatch.setenv("REDIS_URL", url)
    assert "    redisq replay mail/r1/1\n" in said("explain", "mail/r1/1")


@pytest.mark.alike
@pytest.mark.parametrize(
    "secret",
    [
        "redis://u:se@same@h:1/0",
        "rediss://:sesame@h",
        "redis://h?a=b&password=sesame&db=1",
        "redis+sentinel://h1,h2/m?sentinel_password=sesame",
        "redis://:se/same@h",
        "redis://u:?sesame@h",
        "u:sesame@h:6379",
        "sesame@h",
        "u:se@same@h",
        "//u:sesame@h",
        "redis:/u:sesame@h",
        "u:sesame",
        "redis:u:sesame@h",
        "redis://u:sesame",
        "redis://u:sesame/0",
        "h?password=sesame",
    ],
)
def test_hints_contain_no_password(secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--url", secret), (f"--url={secret}",)):
        again = command_line((*words, "undo", "--reason", "x?y&password=z"))
        assert "same" not in again and "***" in again and "x?y&password=z" in again
    assert cli.run(["--url", secret, "submit", "/dev/null"]) == 2
    assert "same" not in "".join(capsys.readouterr())


def test_hints_keep_the_rest_of_the_url() -> None:
    for url in (
        "redis://h:6379/0?client_name=a@b",
        "redis+sentinel://h:1,g:2/m",
        "redis://[::1]:1",
        "redis://h",
        "unix:///a@b",
    ):
        assert masked(url) == str(ServerAddress(url)) == url
    for url in ("h", "h:6379", "h:6379/0", "redis://h:6379", "redis://[::1]:1/2"):
        assert str(ServerAddress(url)) == url
    assert (
        masked("redis://:x@h:1,g:2/0?client_name=a@b") == "redis://:***@h:1,g:2/0?client_name=a@b"
    )
