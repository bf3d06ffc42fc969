"""`redisq check` as a monitor runs it: one line, perfdata, exit codes 0 to 3."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest
import redis

from redisq_ops.core.engine.registry import Registered, server_ms
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run, together
from redisq_ops.demo.other_programs import register_found
from redisq_ops.ops.change.acknowledge import acknowledge
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register

from ..changes import AUTHOR
from ..command_line import Redisq, dead_letters, everywhere
from ..fleet import cards_die

PERFDATA = re.compile(r"(\w+=(\d+s?|U) ?)+")


def line(redisq: Redisq, *words: str, code: int) -> tuple[str, dict[str, str]]:
    """The sentence and the numbers behind the bar."""
    text = redisq("check", *words, code=code)
    assert text.count("\n") == 1 and text.count("|") == 1
    sentence, _, numbers = text.partition(" | ")
    assert PERFDATA.fullmatch(numbers.strip())
    return sentence, dict(pair.split("=") for pair in numbers.split())


def test_every_queue_is_judged_by_every_rule_however_many_there_are(
    redisq: Redisq, client: redis.Redis
) -> None:
    for n in range(125):
        queue = DelaySet(client, f"q{n}")
        queue.schedule([("e", b"x")], after=0)
        held = queue.take(1, consumer="w").deliveries
        for _ in range(10):
            _, taken = queue.settle_and_take(
                [Settlement(held[0], "fail", b"no", delay=0)], 1, consumer="w"
            )
            held = taken.deliveries
    (row,) = redisq.rows("check", code=1)
    assert {one["queue"] for one in row["findings"] if one["rule"] == "poison"} == {
        f"q{n}" for n in range(125)
    }


def test_nothing_is_known_of_no_queue_and_nothing_wrong_with_a_healthy_one(
    redisq: Redisq, client: redis.Redis
) -> None:
    sidekiq_job = b'{"class": "Mail", "args": [], "jid": "%024d"}' % 1
    client.zadd("dead", {sidekiq_job: 1})
    assert line(redisq, code=3)[0].startswith("UNKNOWN: no queue is registered: redisq discover")
    assert redisq.rows("check", code=3)[0]["status"] == "unknown"
    DelaySet(client, "later").schedule([("e", b"x")], after=60)
    sentence, numbers = line(redisq, code=0)
    assert sentence == "OK: 1 queue, no rule broken"
    assert numbers == {
        "queues": "1",
        "critical": "0",
        "warning": "0",
        "waiting": "0",
        "pending": "0",
        "delayed": "1",
        "dead": "0",
        "oldest": "0s",
    }


def test_a_warning_is_1_and_what_is_critical_is_2(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client, "mail")
    sentence, numbers = line(redisq, "--warning", "dead>0", code=1)
    assert sentence == "WARNING: mail: 1 dead, mostly SMTP; mail: dead>0"
    assert numbers["warning"] == "2"
    sentence, numbers = line(redisq, "--warning", "dead>0", "--critical", "waiting>3", code=2)
    assert sentence == "CRITICAL: mail: waiting>3; mail: 1 dead, mostly SMTP; mail: dead>0"
    assert (numbers["critical"], numbers["dead"], numbers["waiting"]) == ("1", "1", "4")


def test_a_number_that_no_queue_keeps_is_unknown_and_not_0(
    redisq: Redisq, client: redis.Redis
) -> None:
    client.lpush("celery", b"{}")
    client.hset("unacked", "tag", b"[]")  # of some worker: nobody can tell which queues it has
    client.sadd("_kombu.binding.celery", b"celery\x06\x16\x06\x16celery")
    redisq("discover", "--register", "--yes")
    sentence, numbers = line(redisq, "--set", "no_worker=1d", code=0)
    assert sentence.startswith("OK: 1 queue, no rule broken; unknown: ")
    assert "dead" in sentence and sentence.endswith("oldest, workers of celery:celery")
    assert (numbers["waiting"], numbers["dead"], numbers["oldest"]) == ("1", "U", "U")
    stands = {row["rule"]: row["known"] for row in redisq.rows("check", "--explain", code=0)[:-1]}
    assert (stands["no-worker"], stands["dying"], stands["deep"]) == (False, False, True)
    (row,) = redisq.rows("ls")
    assert (row["waiting"], row["dead"], row["oldest_age_ms"]) == (1, None, None)
    everywhere(client, "mail")
    sentence, numbers = line(redisq, "--set", "no_worker=1d", code=1)
    assert numbers["dead"] == "1" and "oldest, workers of celery:celery" in sentence


def test_an_entry_of_a_queue_and_of_its_whole_deployment_is_summed_once(
    redisq: Redisq, client: redis.Redis
) -> None:
    cards_die(client, 6)
    register_found(client)
    run(client, register(Deployment(client), [Registered("sidekiq", "sidekiq", 1, 0)]))
    rows = {row["name"]: row["dead"] for row in redisq.rows("ls")}
    assert rows == {"sidekiq": 6, "sidekiq:cards": 6}
    _, numbers = line(redisq, "--critical", "dead>1000", code=1)
    assert (numbers["queues"], numbers["dead"]) == ("2", "6")


def test_the_worst_that_a_rule_finds_is_its_severity(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 3)
    limit = ("--set", "many_dead_letters=3", "--set", "dead=100")
    assert line(redisq, *limit, code=2)[0] == "CRITICAL: mail: 3 dead, mostly SMTP"
    assert line(redisq, "--set", "dead=100", code=1)[0] == "WARNING: mail: 3 dead, mostly SMTP"


def test_acknowledged_dead_letters_are_no_trouble_until_others_die_or_the_time_is_over(
    redisq: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 3)
    assert line(redisq, "--set", "dead=100", code=1)[0] == "WARNING: mail: 3 dead, mostly SMTP"
    plan = redisq("dlq", "acknowledge", "mail", "--until", "3d", code=5)
    assert "3 dead: no trouble until " in plan
    redisq("dlq", "acknowledge", "mail", "--until", "3d", "--reason", "known", "--yes")
    line(redisq, "--set", "dead=100", code=0)
    time.sleep(0.002)
    redisq("dlq", "purge", "mail", "--max", "2", "--yes")  # the number falls below the known one
    mail = RequestQueue(client, "mail")
    mail.submit([b"x"], id="r2")
    mail.settle([Settlement(mail.take(1, consumer="w").deliveries[0], "reject", b"{}")])
    found = line(redisq, "--set", "dead=100", code=1)[0]
    assert found.startswith("WARNING: mail: 1 dead since acknowledged"), found
    redisq("dlq", "acknowledge", "mail", "--end", "--yes")
    assert line(redisq, "--set", "dead=100", code=1)[0].startswith("WARNING: mail: 2 dead")
    ended = redisq.rows("log", "--queue", "mail")[0]["id"]
    redisq("undo", ended, "--yes")
    assert "since acknowledged" in line(redisq, "--set", "dead=100", code=1)[0]
    redisq("dlq", "acknowledge", "mail", "--until", "1ms", "--yes")
    assert line(redisq, "--set", "dead=100", code=1)[0].startswith("WARNING: mail: 2 dead")


def test_what_died_while_the_question_was_open_is_not_acknowledged(
    redisq: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 3)
    mail = RequestQueue(client, "mail")
    at_ms, counts = run(client, together([server_ms(), mail.counts.op()]))
    time.sleep(0.002)
    mail.submit([b"x", b"x"], id="r2", limit=2)
    for delivery in mail.take(2, consumer="w").deliveries:
        mail.settle([Settlement(delivery, "reject", b"{}")])
    assert run(client, acknowledge(mail, AUTHOR, counts, at_ms)).op is not None
    found = line(redisq, "--set", "dead=100", code=1)[0]
    assert found.startswith("WARNING: mail: 2 dead since acknowledged"), found
    with pytest.raises(NotFound, match="somebody else acknowledged them meanwhile"):
        run(client, acknowledge(mail, AUTHOR, counts, at_ms - 1))


def test_what_an_acknowledgement_refuses(redisq: Redisq, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r")
    redisq("dlq", "acknowledge", "mail", "--yes", code=0)
    assert not client.exists("redisq:acknowledged")
    redisq("dlq", "acknowledge", "mail", "--until", "soon", "--yes", code=2)
    redisq("dlq", "acknowledge", "mail", "--until", "2020-01-01T00:00:00Z", "--yes", code=2)
    redisq("dlq", "acknowledge", "mail", "--until", "3d", "--end", "--yes", code=2)
    client.hset("redisq:acknowledged", "mail", "{}")  # corrupt: nothing is acknowledged
    dead_letters(client, 1)
    line(redisq, "--set", "dead=100", code=1)
    client.sadd("_kombu.binding.jobs", b"jobs\x06\x16\x06\x16jobs")
    said = redisq.refusal("dlq", "acknowledge", "celery:jobs", "--yes", code=1)
    assert "no check reports them, and none can be acknowledged" in said


def test_a_due_retry_is_work_that_waits_for_a_worker(redisq: Redisq, client: redis.Redis) -> None:
    mail = RequestQueue(client, "mail")
    mail.submit([b"x"], id="r")
    (delivery,) = mail.take(1, consumer="w").deliveries
    mail.settle([Settlement(delivery, "fail", b"{}", 0.001)])
    time.sleep(0.01)
    sentence, numbers = line(redisq, "--set", "no_worker=1ms", code=2)
    assert sentence == "CRITICAL: mail: no worker for 0 s"
    assert (numbers["waiting"], numbers["delayed"]) == ("0", "1")


def test_minutes_is_the_period_in_which_deaths_count(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client, "mail")
    (dead,) = RequestQueue(client, "mail").page("dead").entries
    client.zincrby("redisq:{mail}:dead", -600_000, dead.id)  # it died ten minutes ago
    assert line(redisq, "--set", "dead=1", code=1)[0] == "WARNING: mail: 1 dead, mostly SMTP"
    sentence, _ = line(redisq, "--set", "dead=1", "--set", "minutes=30", code=2)
    assert "1 dead in 30 m, mostly" in sentence
    refused = redisq("check", "--set", "minutes=61", code=3)
    assert "a whole number, 1 to 60" in refused


def test_only_queues_of_a_pattern_are_checked(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client, "mail")
    RequestQueue(client, "news").submit([b"x"], id="r")
    assert line(redisq, "ne*", "--critical", "dead>0", code=0)[1]["queues"] == "1"
    assert line(redisq, "mail", "ne*", code=1)[1]["queues"] == "2"
    assert redisq("check", "nothing*", code=3).startswith("UNKNOWN: no queue matches 'nothing*' (")


def test_a_name_that_is_absent_hides_no_trouble_of_the_others(
    redisq: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 3, "web")
    said = "no queue matches 'mail' (redisq ls shows what there is)"
    sentence, numbers = line(redisq, "mail", "web", "--set", "dead_letters=2", code=1)
    assert sentence == f"WARNING: web: 3 dead, mostly SMTP; {said}" and numbers["queues"] == "1"
    (row,) = redisq.rows("check", "mail", "web", "--critical", "dead>0", code=2)
    assert (row["status"], row["error"]["message"]) == ("critical", said)
    assert {one["queue"] for one in row["findings"]} == {"web"}
    redisq("dlq", "purge", "web", "--yes")
    assert redisq("check", "mail", "web", code=3) == f"UNKNOWN: {said}\n"


def test_names_and_patterns_choose_queues_in_every_list(
    redisq: Redisq, client: redis.Redis
) -> None:
    everywhere(client, "mail")
    everywhere(client, "mails")
    RequestQueue(client, "news").submit([b"x"], id="r")
    for words, name in (
        ("ls", "name"),
        ("fsck", "queue"),
        ("dlq ls", "queue"),
        ("waiting ls", "queue"),
        ("dlq groups", "queue"),
        ("select", "queue"),
        ("workers ls", "queue"),
    ):
        for names in (["mail*"], ["mail", "mails"]):
            found = {row[name] for row in redisq.rows(*words.split(), *names)}
            assert found == {"mail", "mails"}, words
    for words in ("ls", "fsck", "dlq ls", "dlq groups", "select", "workers ls", "tasks"):
        said = redisq.refusal(*words.split(), "mail", "nope*", code=1)
        assert "no queue matches 'nope*'" in said, words
    for words in ("metrics --once", "periodic ls"):
        redisq.refusal(*words.split(), "nope", code=1)


def test_a_paused_queue_is_a_warning_unless_the_file_says_otherwise(
    redisq: Redisq, tmp_path: Path, client: redis.Redis
) -> None:
    everywhere(client, "mail")
    redisq("queue", "pause", "mail", "--reason", "db | migration", "--yes")
    sentence, _ = line(redisq, code=1)
    assert "paused by" in sentence and "db / migration" in sentence
    rules = tmp_path / "check.toml"
    rules.write_text(
        '[[check]]\nqueues = "mail"\nignore = ["paused", "dead"]\n'
        '[[check]]\nqueues = "mial"\ndead = 1\n'
    )
    line(redisq, "--rules", str(rules), code=0)
    explained = redisq("check", "--rules", str(rules), "--explain", code=0)
    assert re.search(r"^mail +paused +warning +ignored$", explained, re.M)
    assert re.search(r"^mail +no-worker +critical +ok$", explained, re.M)
    assert re.search(r"^mail +deep +warning +ignored$", explained, re.M)  # it has no threshold
    assert redisq.err == "no queue matches 'mial': the rules for it check nothing\n"


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
def test_what_can_not_be_checked_is_unknown(redisq: Redisq, tmp_path: Path) -> None:
    rules = tmp_path / "check.toml"
    rules.write_text("[[check]]\ndead = 0\n")
    assert redisq("check", "--rules", str(rules), code=3) == (
        f"UNKNOWN: {rules}, line 2: dead: expected a whole number, 1 or more\n"
    )
    for words, why in (
        (["--bogus"], "No such option: --bogus (see redisq check --help)"),
        (["--warning", "wating>1"], "--warning: wating>1 (column 1: there is no count 'wating'"),
        (["--context", "none"], "there is no context 'none'"),
    ):
        assert redisq("check", *words, code=3).startswith(f"UNKNOWN: {why}")
    missing = redisq("check", "--rules", str(tmp_path / "none.toml"), code=3)
    assert missing.startswith("UNKNOWN: ") and "No such file" in missing
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    done = subprocess.run(
        ["redisq", "--url", f"redis://127.0.0.1:{port}", "check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3 and done.stdout.startswith("UNKNOWN: can't reach the server")
    assert done.stdout.count("\n") == 1


def test_as_json(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client, "mail")
    (row,) = redisq.rows("check", "--critical", "dead>0", code=2)
    assert row == {
        "status": "critical",
        "queues": 1,
        "findings": [
            {"severity": "critical", "queue": "mail", "rule": "condition", "reason": "dead>0"},
            {
                "severity": "warning",
                "queue": "mail",
                "rule": "dead",
                "reason": "1 dead, mostly SMTP",
            },
        ],
        "error": None,
    }
    rules = redisq.rows("check", "--explain", code=1)[:-1]
    assert {row["rule"] for row in rules} > {"no-worker", "old", "paused"}
    assert json.loads(redisq("check", "x", "--json", code=3))["status"] == "unknown"


@pytest.mark.slow
def test_the_server_is_checked_when_asked(redisq: Redisq, client: redis.Redis) -> None:
    RequestQueue(client, "news").submit([], id="r")
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        line(redisq, code=0)
        sentence, _ = line(redisq, "--server", code=2)
        assert sentence.startswith("CRITICAL: server: ") and "allkeys-lru" in sentence
        told = redisq("check", "--server", "--explain", code=2)
        assert re.search(r"^server +eviction +critical +maxmemory-policy is allk", told, re.M)
    finally:
        client.config_set("maxmemory-policy", "noeviction")


def test_the_worst_comes_first_and_the_same_trouble_of_several_queues_is_one(
    redisq: Redisq, client: redis.Redis
) -> None:
    for minutes, number, name in (
        *((2, 2, f"auth-{n}") for n in range(6)),
        *((2, 1, f"batch-{n}") for n in range(2)),
        (180, 500, "no-workers"),
    ):
        queue = RequestQueue(client, name)
        clock = FakeClock(queue.now() - minutes * 60_000)
        queue = RequestQueue(client, name, clock=clock)
        queue.submit([b"x"] * (number + 1), id="r", limit=1000)
        queue.settle([Settlement(queue.take(1, consumer="w").deliveries[0], "ack")])
    sentence, numbers = line(redisq, code=2)
    assert sentence == "CRITICAL: 9 queues: no worker for 2 m to 3 h; no-workers: oldest waits 3 h"
    assert numbers["critical"] == "9"
    queues = [row["queue"] for row in redisq.rows("check", code=2)[0]["findings"]]
    assert queues[0] == "no-workers" and queues[-1] == "no-workers"
    dead_letters(client, 1200, "zz")
    sentence, _ = line(redisq, code=2)
    assert sentence.startswith("CRITICAL: zz: 1,200 dead in 5 m")


def test_entries_of_a_consumer_that_asks_for_nothing_are_held_although_others_ask(
    redisq: Redisq, client: redis.Redis
) -> None:
    now = RequestQueue(client, "mail").now()
    queue = RequestQueue(client, "mail", clock=FakeClock(now - 300 * 60_000))
    queue.submit([b"x"] * 11, id="r", limit=1000)
    queue.take(10, consumer="geo-3:777", lease=24 * 3600)
    later = RequestQueue(client, "mail", clock=FakeClock(now - 10 * 60_000))
    later.take(1, consumer="busy", lease=24 * 3600)
    RequestQueue(client, "mail").take(1, consumer="idle")
    sentence, _ = line(redisq, code=1)
    assert sentence == "WARNING: mail: 10 held by geo-3:777, silent for 5 h"
