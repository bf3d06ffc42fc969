"""What somebody stumbles over who has never seen the tool: widths, counts, words, examples."""

import fcntl
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
import redis

from redisq_ops.cli.session import start_logging
from redisq_ops.core.engine.registry import all_queues
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.prune_processes import job_outcomes
from redisq_ops.ops.terminal import printable

from ..command_line import ERROR, Redisq, dead_letters, everywhere

pytestmark = [pytest.mark.alike, pytest.mark.usefixtures("on_path")]


def on_terminal(url: str, columns: int, *words: str) -> str:
    """What a terminal of so many columns is sent, stdout and stderr together."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        ["redisq", "--url", url, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"TERM": "xterm"},
    ) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # it has ended: Linux says so with EIO
                break
            if not part:
                break
            said += part
        assert process.wait(90) == 0, said
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


def test_an_errors_text_neither_forges_a_log_line_nor_moves_the_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_logging(0, "text")
    log, hostile = logging.getLogger("redisq_ops.x"), "a\x1b[2J\u202e\n2026-01-01 ERROR forged"
    log.warning("failed: %s", hostile)
    try:
        raise ValueError(hostile)
    except ValueError:
        log.exception("failed")
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if not line.startswith("    ")]) == 2
    assert all(printable(line) == line for line in lines) and "forged" in lines[-1]


@pytest.mark.slow
def test_a_terminal_gets_no_raw_bytes_of_a_result(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1")
    (one,) = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(one, "result", b"\x1b]52;c;aGk=\x07\xff\nfine\xe3\x85\xa4")])
    said = on_terminal(url, 80, "results", "mail/r1", "--raw")
    assert said == "\\x1b]52;c;aGk=\\x07\\xff⏎fine\\u3164\n"
    command = ["redisq", "--url", url, "results", "mail/r1", "--raw"]
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    assert piped == b"\x1b]52;c;aGk=\x07\xff\nfine\xe3\x85\xa4\n"


@pytest.mark.slow
def test_a_table_fits_the_terminal(url: str, client: redis.Redis) -> None:
    dead_letters(client, 3)
    said = on_terminal(url, 80, "dlq", "ls", "mail")
    assert "mail/r1/3" in said and "…" in said
    assert max(map(len, said.splitlines())) <= 80
    wide = on_terminal(url, 160, "dlq", "ls", "mail")
    assert "no such [red]mailbox" in wide and "…" not in wide


@pytest.mark.slow
def test_queues_without_trouble_fit_80_columns(url: str, client: redis.Redis) -> None:
    queue = DelaySet(client, "reminders-eu")  # with the word trouble behind it: 84 columns
    queue.schedule([("e1", b"x")], after=0)
    said = on_terminal(url, 80, "ls").splitlines()
    assert len(said) == 2 and max(map(len, said)) <= 80 and "trouble" not in said[0]
    queue.configure("pause-1", 1, {"paused": "smtp is down"})
    assert "paused: smtp is down" in on_terminal(url, 80, "ls")


def test_in_a_pipe_a_table_is_whole(client: redis.Redis, redisq: Redisq) -> None:
    dead_letters(client, 1)
    assert "no such [red]mailbox" in redisq("dlq", "ls", "mail")


@pytest.mark.slow
def test_quick_work_shows_no_progress(url: str, client: redis.Redis) -> None:
    everywhere(client)
    assert "\x1b" not in on_terminal(url, 120, "select", "mail")


def test_an_event_of_many_entries_is_one_line_of_some(client: redis.Redis, redisq: Redisq) -> None:
    dead_letters(client, 50)
    (line,) = redisq("history", "mail").splitlines()
    assert "r1/1|rejected" in line and "… and 42 more" in line and "r1/50" not in line
    (event,) = redisq.rows("history", "mail")
    assert len(event["what"]["dead"]) == 50  # programs get all
    assert "r1/50" in redisq("inspect", "mail/r1/50").splitlines()[-1]


def test_select_tells_only_of_states_it_did_not_look_through(
    client: redis.Redis, redisq: Redisq
) -> None:
    everywhere(client)
    redisq("select", "mail", "--window", "2")
    (last,) = redisq.err.splitlines()
    assert last.endswith("examined 2 of 4 waiting")


def test_counts_leave_out_what_is_empty_for_people(client: redis.Redis, redisq: Redisq) -> None:
    everywhere(client)
    states = [line.split()[1] for line in redisq("select", "mail", "--count").splitlines()[1:]]
    assert states == ["waiting", "pending", "delayed", "dead"]
    assert redisq.err == "7 entries\n"
    rows = redisq.rows("select", "mail", "--count")
    assert [row["state"] for row in rows] == [*states, "trash"]


def test_the_latest_of_what_waits_is_refused_with_what_to_do(
    client: redis.Redis, redisq: Redisq
) -> None:
    everywhere(client)
    assert "--where 'state:dead'" in redisq.refusal("select", "mail", "--window", "-2", code=2)
    assert "mail/r1/" in redisq("select", "mail", "--window", "-2", "--where", "state:dead")


@pytest.mark.parametrize("verb", ["replay", "requeue", "claim", "purge"])
def test_the_example_of_a_verb_can_be_run(client: redis.Redis, redisq: Redisq, verb: str) -> None:
    everywhere(client)
    lines = [line.split() for line in redisq(verb, "--help").splitlines()]
    (words,) = [line[1:] for line in lines if line[:2] == ["redisq", verb] and "--yes" in line]
    assert redisq(*words).startswith("0 matched")


def test_a_rule_that_is_so_already_is_nothing_to_do(client: redis.Redis, redisq: Redisq) -> None:
    FairQueue(client, "jobs").submit("acme", [b"x"])
    redisq("client", "weight", "jobs", "acme", "3", "--yes")
    before = client.xlen("redisq:{jobs}:hist"), redisq("log")
    assert redisq("client", "weight", "jobs", "acme", "3").endswith("nothing would change\n")
    assert redisq.rows("client", "weight", "jobs", "acme", "3", "--yes") == [
        {"op": None, "matched": 0, "done": 0, "skipped": {}}
    ]
    assert (client.xlen("redisq:{jobs}:hist"), redisq("log")) == before


def test_the_rate_of_a_context_is_shown_as_it_is_written(
    redisq: Redisq, configuration: Path
) -> None:
    configuration.write_text('max_rate = "200/s"\n')
    (line,) = [row for row in redisq("config").splitlines() if row.startswith("max_rate")]
    assert line.split()[1] == "200/s"


def test_a_stream_that_was_changed_is_not_found_again_under_another_name(
    client: redis.Redis, redisq: Redisq
) -> None:
    client.xadd("orders", {"n": "1"})
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "w1", {"orders": ">"})
    redisq("workers", "claim", "stream:orders", "w1", "--to", "w2", "--min-idle", "0s", "--yes")
    (found,) = redisq.rows("discover", "--register", "--yes")[:1]
    assert (found["name"], found["registered"]) == ("stream:orders", True)
    assert [entry.name for entry in run(client, all_queues())] == ["stream:orders"]


@pytest.mark.parametrize(
    "url",
    [
        "redis://:s3cr3t@[bad",
        "redis://:s3cr3t\u2100@h",
        "redis://:s3cr3t@h:x",
        "redis://:s3cr3t/x@h/0",
        "redis://u:x?s3cr3t@h",
        "redis+cluster://u:s3cr3t#x@h:1",
    ],
)
def test_a_url_that_can_not_be_read_is_one_line_without_its_password(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Redisq(url, capsys).refusal("ls", code=2)
    assert "s3cr3t" not in said


@pytest.mark.parametrize("url", ["redis://h/0?sentinel_tls=no", "rediss+cluster://h?sentinel_tls="])
def test_only_sentinels_may_have_no_tls(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "for …+sentinel:// URLs" in Redisq(url, capsys).refusal("ls", code=2)


def test_it_says_which_version_it_is(redisq: Redisq) -> None:
    assert redisq("--version") == f"redisq {version('redisq-ops')}\n"
    assert redisq("ls", "--version") == redisq("--version")


def test_one_job_and_several() -> None:
    assert job_outcomes(Counter(waiting=1, dead=2, lost=1)) == [
        "1 job waiting again",
        "2 jobs recorded as failed",
        "1 job lost",
    ]


def test_a_plan_of_one_call_says_so(client: redis.Redis, redisq: Redisq) -> None:
    everywhere(client)
    assert "server: 1 call, " in redisq("replay", "mail", "--dry-run")


def test_an_import_of_one_request_says_so(
    client: redis.Redis, redisq: Redisq, tmp_path: Path
) -> None:
    RequestQueue(client, "mail").submit([b"a", b"b"], id="r1")
    file = str(tmp_path / "mail.ndjson")
    redisq("export", "mail", "-o", file)
    assert "  as 1 request, sealed" in redisq("import", file, "--dry-run")


@pytest.mark.parametrize("shards", [1, 3])
def test_several_entries_are_what_each_is_by_itself(client: redis.Redis, shards: int) -> None:
    queue = DelaySet(client, "later") if shards == 1 else ShardedDelaySet(client, "later", shards=3)
    queue.schedule([(f"e{n}", b"%d" % n) for n in range(8)], after=0)
    queue.schedule([(f"d{n}", b"%d" % n) for n in range(4)], after=3600)
    taken = [d for _ in range(6) for d in queue.take(1, consumer="w1").deliveries]
    queue.settle([Settlement(taken[0], "reject", ERROR.encoded()), Settlement(taken[1], "result")])
    ids = [f"{letter}{n}" for n in range(8) for letter in "eda"]
    found = queue.get_many(ids)
    assert found == [queue.get(id) for id in ids]
    states = {entry.state for entry in found if entry is not None}
    assert states >= {"waiting", "pending", "delayed", "dead"} and None in found
    assert queue.get_many([]) == []


def test_what_an_import_finds_there_is_looked_up_together(
    client: redis.Redis, redisq: Redisq, tmp_path: Path
) -> None:
    file = str(tmp_path / "later.ndjson")
    DelaySet(client, "later").schedule([(f"e{n}", b"x") for n in range(200)], after=3600)
    redisq("export", "later", "-o", file)
    client.config_resetstat()
    assert redisq.rows("import", file, "--yes")[-1]["skipped"] == {"same": 200}
    calls = {name: row["calls"] for name, row in client.info("commandstats").items()}
    assert calls["cmdstat_hexists"] == 200  # the script that would take them in asks for each
    assert calls["cmdstat_zmscore"] <= 12 and calls["cmdstat_time"] < 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("report",),
        ("groups",),
        ("critical-path", "later/r1"),
        ("sql", "select 1"),
        ("submit", "README.md", "--queue", "later"),
    ],
)
def test_a_command_of_spark_where_spark_is_not_installed_says_what_to_install(
    words: tuple[str, ...], url: str, client: redis.Redis
) -> None:
    DelaySet(client, "later").schedule([("e1", b"x")], after=0)
    packages = ["pyspark", "pyarrow", "pandas", "sqlglot"]
    missing = f"import sys; sys.modules.update(dict.fromkeys({packages}))"
    line = f"{missing}; from redisq_ops.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", line, "--url", url, "spark", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    said = r"redisq: (Spark|pyarrow|sqlglot) isn't installed: pip install 'redisq-ops\[spark\]'\n"
    assert re.fullmatch(said, done.stderr)
