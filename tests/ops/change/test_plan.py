"""Plans: written without changing anything, applied to just their entries, and what goes wrong."""

import errno
import io
import json
import os
import re
import resource
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from math import nan
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.cli import confirm_and_run
from redisq_ops.cli.outcome_report import OutcomeReport
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, Settlement, State
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change import audit_log, impact
from redisq_ops.ops.change.apply import PlanSteps
from redisq_ops.ops.change.impact import Breakdown
from redisq_ops.ops.change.outcome import OTHERS
from redisq_ops.ops.change.plan import Draft, PlanFile
from redisq_ops.ops.change.plan_header import PlanHeader
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.scope import select_entries
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change, plan_change
from ...command_line import ERROR, Redisq, dead_letters, everywhere
from ...model.wire import picture
from ...sealed_files import seal

pytestmark = [pytest.mark.alike, pytest.mark.slow]

ME = audit_log.Author("ada", "laptop", "because")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of one's own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own(server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """A server that a test may spoil."""
    with EmbeddedServer(Path(server._command[0])) as spoilt:
        yield spoilt


def lines(path: str = "p") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def states(queue: Queue[Any]) -> tuple[int, int]:
    counts = queue.counts()
    return counts.dead, counts.waiting


# --- writing one --------------------------------------------------------------


def test_a_plan_names_its_entries_and_changes_nothing(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 700)
    before = picture(client)
    (said,) = redisq.rows("dlq", "replay", "mail", "--plan", "p", "--reason", "smtp is back")
    assert picture(client) == before
    header, facts, *entries, end = lines()
    assert (header["redisq"], header["version"], header["verb"]) == ("plan", 1, "replay")
    assert (header["queue"], header["state"], header["filter"]) == ("mail", "dead", "all")
    assert header["why"] == "smtp is back"
    assert header["op"] == said["op"]
    assert facts["consequences"]["count"] == facts["matched"] == end["entries"] == 700
    dead = {entry.id: entry.since_ms for entry in queue.page("dead", max=700).entries}
    assert {entry["id"]: entry["since_ms"] for entry in entries} == dead
    assert os.listdir() == ["p"]
    assert "redisq apply q" in (redisq("replay", "mail", "--plan", "q"), redisq.err)[1]


@pytest.mark.usefixtures("on_path")
def test_a_plan_can_go_to_stdout(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 3)
    done = subprocess.run(
        ["redisq", "--url", redisq.url, "replay", "mail", "--plan", "-"],
        capture_output=True,
        check=True,
    )
    Path("p").write_bytes(done.stdout)
    assert redisq.rows("apply", "p", "--yes")[0]["done"] == 3


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("replay mail", "dead"),
        ("delay requeue mail", "delayed"),
        ("pending claim mail --consumer me", "pending"),
        ("waiting purge mail", "waiting"),
        ("dlq purge mail --hard", "dead"),
        ("delay reschedule later --in 1h", "delayed"),
    ],
)
def test_every_verb_can_be_planned(
    redisq: Redisq, client: redis.Redis, words: str, state: State
) -> None:
    queues: dict[str, Queue[Any]] = {"mail": everywhere(client), "later": DelaySet(client, "later")}
    queues["later"].schedule([("e1", b"x"), ("e2", b"y")], after=60)  # type: ignore[attr-defined]
    queue = queues["later" if "later" in words else "mail"]
    before = queue.counts().of(state) or 0
    redisq(*words.split(), "--plan", "p")
    (outcome,) = redisq.rows("apply", "p", "--yes")
    assert outcome["done"] == outcome["matched"] == before > 0
    if "claim" in words:
        assert {entry.consumer for entry in queue.page("pending").entries} == {"me"}
    elif "reschedule" in words:
        assert {e.at_ms for e in queue.page("delayed").entries} == {lines()[0]["argument"]}
    else:
        assert queue.counts().of(state) == 0
    assert queue.invariants() == []


def test_a_restore_can_be_planned(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 5)
    redisq("dlq", "purge", "mail", "--yes")
    redisq("trash", "restore", "mail", "--plan", "p")
    assert redisq.rows("apply", "p", "--yes")[0]["done"] == 5
    assert states(queue) == (5, 0)


def test_what_can_not_be_planned(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    everywhere(client, "news")
    assert "one queue" in redisq.refusal("replay", "mail", "news", "--plan", "p", code=2)
    assert "one of them" in redisq.refusal("replay", "mail", "--plan", "p", "--dry-run", code=2)
    assert "no/such" in redisq.refusal("replay", "mail", "--plan", "no/such/p", code=2)
    assert os.listdir() == []


def test_what_is_redacted_is_in_no_plan(
    redisq: Redisq, client: redis.Redis, configuration: Path
) -> None:
    dead_letters(client, 2)
    configuration.write_text("[redact.patterns]\nmine = 'SMTP'\n")
    for state in ("dead", "waiting"):
        redisq("purge", "mail", "--state", state, "--plan", state)
        assert "SMTP" not in Path(state).read_text() + redisq.err
        redisq("replay", "mail", "--yes")


def test_an_empty_plan_is_one(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    redisq("replay", "mail", "--match", "zzz", "--plan", "p")
    assert redisq.rows("apply", "p", "--yes")[0]["matched"] == 0


def test_a_read_only_context_plans_and_does_not_apply(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 2)
    monkeypatch.setenv("REDISQ_READ_ONLY", "1")
    redisq("replay", "mail", "--plan", "p")
    before = picture(client)
    assert "read-only" in redisq.refusal("apply", "p", "--yes", code=1)
    assert picture(client) == before


def test_a_full_disk_leaves_no_half_plan(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 2000)
    before = picture(client)

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = subprocess.run(
        [sys.executable, "-m", "redisq_ops", "--url", redisq.url, "replay", "mail", "--plan", "p"],
        capture_output=True,
        text=True,
        preexec_fn=full,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "redisq: File too large: p")
    assert os.listdir() == []
    assert picture(client) == before


@pytest.mark.parametrize("path", ["", "folder", "pipe"])
def test_only_a_file_becomes_a_plan(redisq: Redisq, client: redis.Redis, path: str) -> None:
    """Not even an empty name, of a variable that isn't set, makes the change itself of it."""
    queue = dead_letters(client, 3)
    os.mkdir("folder")
    os.mkfifo("pipe")
    before = sorted(os.listdir())
    said = redisq.refusal("replay", "mail", "--plan", path, "--yes", code=2)
    assert "is no file" in said
    assert sorted(os.listdir()) == before and states(queue) == (3, 0)


def test_a_plan_goes_behind_a_link(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 3)
    os.symlink("real", "link")
    redisq("replay", "mail", "--plan", "link")
    assert os.path.islink("link")
    assert redisq.rows("apply", "real", "--yes")[0]["done"] == 3


WRITES = {
    "plan": "replay mail --plan f",
    "report": "apply p --yes --report f",
    "undo report": "undo {op} --yes --report f",
    "export": "export mail -o f",
    "rejects": "submit addresses --queue q --skip-invalid f",
}


def of_another_user(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a name somebody else's; who may not give it away becomes somebody else."""
    try:
        os.lchown(path, 4242, -1)
    except PermissionError:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)


@pytest.mark.parametrize("what", WRITES)
def test_what_is_written_is_private_and_behind_no_one_elses_link(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    dead_letters(client, 3)
    redisq("replay", "mail", "--max", "1", "--plan", "p")
    op = redisq.rows("purge", "mail/r1/3", "--yes")[-1]["op"]
    command = WRITES[what].format(op=op).split()
    Path("addresses").write_text("ann@example.org\n")
    Path("mine").write_text("")
    os.symlink("mine", "f")
    before, folder = client.dbsize(), sorted(os.listdir())
    with monkeypatch.context() as meanwhile:
        of_another_user("f", meanwhile)
        said = redisq.refusal(*command, code=1)
    assert said == "f is a symbolic link that belongs to another user: name the file itself"
    assert not Path("mine").read_text() and sorted(os.listdir()) == folder
    assert client.dbsize() == before
    Path("f").unlink()
    redisq(*command)
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o600
    assert not [name for name in os.listdir() if name.endswith(".part")]


def test_an_export_goes_to_what_a_shell_names(url: str, client: redis.Redis) -> None:
    """A process substitution, and stdout by its name, as a pipe and as a file."""
    dead_letters(client, 3)
    export = f"{sys.executable} -m redisq_ops --url {url} export mail -o"
    for line in (
        "{} >(cat > out; touch end); until [ -e end ]; do sleep 0.01; done",
        "{} /dev/stdout | cat > out",
        "{} /dev/stdout > out",
    ):
        subprocess.run(["bash", "-c", line.format(export)], check=True, capture_output=True)
        lines = Path("out").read_text().splitlines()
        assert len([row for row in lines if '"id"' in row]) == 3, line
        Path("out").unlink()


def test_a_pipe_that_another_user_laid_out_is_not_written_to(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 3)
    os.mkdir("shared")
    os.chmod("shared", 0o1777)
    os.mkfifo("shared/f")
    reader = os.open("shared/f", os.O_RDONLY | os.O_NONBLOCK)
    redisq("export", "mail", "-o", "shared/f")
    assert os.read(reader, 100)
    while os.read(reader, 65536):
        pass
    of_another_user("shared/f", monkeypatch)
    said = redisq.refusal("export", "mail", "-o", "shared/f", code=1)
    assert said == "shared/f belongs to another user: name another file"
    assert not os.read(reader, 100)
    os.close(reader)


def test_nothing_is_written_over_a_plan_that_was_begun(redisq: Redisq, client: redis.Redis) -> None:
    """Its file alone can go on with it; so it is refused before a server is asked for anything."""
    queue = dead_letters(client, 5)
    redisq("replay", "mail", "--plan", "p")
    os.symlink("p", "link")
    redisq("apply", "p", "--max", "2", "--yes")
    before, url = Path("p").read_bytes(), redisq.url
    redisq.url = "redis://127.0.0.1:1"
    for path in ("p", "link"):
        assert redisq.refusal("replay", "mail", "--plan", path, code=2) == (
            f"--plan {path} exists, a plan that may have been begun: name another file, or "
            "remove it"
        )
    redisq.url = url
    assert Path("p").read_bytes() == before and sorted(os.listdir()) == ["link", "p"]
    assert redisq.rows("apply", "p", "--yes")[0]["done"] == 5
    assert states(queue) == (0, 5)


def test_a_plan_takes_the_place_of_no_file_but_an_empty_one(
    redisq: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 2)
    Path("notes").write_text("mine\n")
    said = redisq.refusal("move", "mail", "--to", "b", "--plan", "notes", code=2)
    assert said == "--plan notes exists: name another file, or remove it"
    assert Path("notes").read_text() == "mine\n"
    Path("made").touch()  # as mktemp does
    redisq("replay", "mail", "--plan", "made")
    assert redisq.rows("apply", "made", "--yes")[0]["done"] == 2


def test_of_two_that_plan_to_one_file_the_later_is_refused(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 2)
    compose = Draft._compose

    def meanwhile(*given: Any) -> None:
        compose(*given)
        Path("p").write_text("another's\n")

    monkeypatch.setattr(Draft, "_compose", meanwhile)
    redisq("replay", "mail", "--plan", "p", code=2)
    assert "--plan p exists" in redisq.err
    assert Path("p").read_text() == "another's\n" and os.listdir() == ["p"]


@pytest.mark.parametrize("there", [False, True])
def test_a_plan_is_put_where_the_file_system_has_no_links(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    dead_letters(client, 2)

    def refused(*_: Any) -> None:
        if there:
            Path("p").write_text("another's\n")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    redisq("replay", "mail", "--plan", "p", code=2 if there else 0)
    assert os.listdir() == ["p"]
    if not there:
        assert redisq.rows("apply", "p", "--yes")[0]["done"] == 2


def test_a_report_is_not_written_over_its_plan(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    os.symlink("p", "r")
    before = Path("p").read_bytes()
    said = redisq.refusal("apply", "p", "--report", "r", "--yes", code=2)
    assert "would overwrite the plan" in said
    assert Path("p").read_bytes() == before and states(queue) == (3, 0)


def test_a_report_goes_on_with_its_own_and_leaves_any_other_alone(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = dead_letters(client, 5)
    redisq("replay", "mail", "--max", "2", "--plan", "p")
    (first,) = redisq.rows("apply", "p", "--max", "1", "--yes", "--report", "r")
    (second,) = redisq.rows("apply", "p", "--yes", "--report", "r")
    _, one, end, *again = lines("r")  # the last step of a run is told of again by the next
    assert (one["said"], end, again[-1]) == ("moved", first, second)
    assert {row["id"] for row in (one, *again[:-1])} == {row["id"] for row in lines("p")[2:-1]}
    before = Path("r").read_bytes()
    redisq("replay", "mail", "--plan", "q")
    said = redisq.refusal("apply", "q", "--report", "r", "--yes", code=2)
    assert said == "--report r exists and is no report of this plan: name another file"
    Path("notes").write_text("mine\n")
    redisq.refusal("apply", "q", "--report", "notes", "--yes", code=2)
    assert Path("notes").read_text() == "mine\n" and Path("r").read_bytes() == before
    assert states(queue) == (3, 2)


def test_memory_does_not_grow_with_a_plan(client: redis.Redis) -> None:
    """The selection of a plan holds no ids: they are in the file already."""
    queue = dead_letters(client, 1200)
    with Draft("p", "replay-x") as draft:
        chosen, weight = run(client, select_entries(queue, "dead", Filter(), keep=draft.add))
        assert (chosen.count, chosen.pages, len(chosen.sample)) == (1200, [], 10)
        assert (weight.count, draft.count) == (1200, 1200)
    assert os.listdir() == []


# --- consequences -------------------------------------------------------------


def test_consequences_of_a_fair_queue(redisq: Redisq, client: redis.Redis) -> None:
    queue = FairQueue(client, "fair")
    for client_name, n in (("ann", 6), ("bob", 2)):
        for i in range(n):
            queue.submit(client_name, [(f"{client_name}-{i}", b"xy")])
    error = ERROR.encoded()
    for i, delivery in enumerate(queue.take(8, consumer="w").deliveries):
        outcome: Any = "reject" if i < 7 else "ack"
        queue.settle([Settlement(delivery, outcome, error)])
    (early,) = redisq.rows("replay", "fair", "--dry-run")
    assert early["consequences"]["drain_ms"] is None, "too little was done to tell"
    queue.submit("cy", [b"xy"] * 40)
    done = queue.take(40, consumer="w").deliveries
    queue.settle([Settlement(delivery, "ack") for delivery in done])
    (plan,) = redisq.rows("replay", "fair", "--dry-run")
    about = plan["consequences"]
    assert about["count"] == 7 and sum(about["clients"].values()) == 7
    assert set(about["clients"]) == {"ann", "bob"}
    assert about["ages"] == {"under 1m": 7}
    ((group, n),) = about["errors"].items()
    assert n == 7 and about["error_types"] == {group: "SMTP"}
    pace = about["settled_a_minute"]  # of one minute, or of two should one have begun meanwhile
    assert 20 < pace <= 48 and about["drain_ms"] == pytest.approx(7 * 60_000 / pace, abs=1)
    assert "ann's" in about["fairness"]
    said = redisq("replay", "fair", "--dry-run")
    assert "clients: ann" in said and "others go on" in said
    assert re.search(r"drains in ≈ \d+s \(lately \d\d a minute\)", said)
    assert redisq.rows("dlq", "purge", "fair", "--dry-run")[0]["consequences"]["drain_ms"] is None


def test_consequences_tell_priorities_of_requests(redisq: Redisq, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 3, id="r1", priority=5)
    queue.submit([b"x"] * 2, id="r2", priority=70)
    (plan,) = redisq.rows("waiting", "purge", "mail", "--dry-run")
    about = plan["consequences"]
    assert (about["priorities"], about["ages"]) == ({"5": 3, "70": 2}, {"unknown": 5})


def test_consequences_are_what_a_person_is_shown(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 3)
    monkeypatch.setattr(confirm_and_run, "interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    redisq("replay", "mail", code=1)
    assert "priorities: 50 (3)" in redisq.err and "SMTP (3)" in redisq.err
    assert len(redisq.err.splitlines()) < 12


def test_breakdowns_are_bounded_and_add_up() -> None:
    values = Breakdown()
    for i in range(5000):
        values.add(f"rare-{i}")
        values.add("common")
    top = values.top()
    assert len(top) <= impact.TOP + 1 and sum(top.values()) == 10_000
    assert max(top, key=lambda name: (name != "other", top[name])) == "common"
    assert len(values._values.counts) <= 1000


def test_ages_are_in_buckets(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    weight = impact.Consequences(queue, 10 * 86_400_000)
    now, day = weight.now_ms, 86_400_000
    ages = (0, 59_999, 60_000, 3_600_000, day, 7 * day)
    known = [Entry(f"r/{i}", "dead", since_ms=now - old) for i, old in enumerate(ages)]
    run(client, weight.add([*known, Entry("r/9", "waiting")]))
    assert weight.facts("replay")["ages"] == {
        "under 1m": 2,
        "under 1h": 1,
        "under 1d": 1,
        "under 7d": 1,
        "7d and more": 1,
        "unknown": 1,
    }


def test_calls_of_every_shard_are_counted(redisq: Redisq, client: redis.Redis) -> None:
    from redisq_ops.core.queues.delay.sharded import ShardedDelaySet

    wide = ShardedDelaySet(client, "wide", shards=4)
    wide.schedule([(f"e{n}", b"x") for n in range(73)], after=60)
    assert "server: ≈ 8 calls, " in redisq("delay", "purge", "wide", "--dry-run")
    client.config_resetstat()
    redisq("delay", "purge", "wide", "--yes")
    calls = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    # With the rights asked for in each shard first, and the audit log before and after.
    assert 8 <= calls <= 8 + 4 + 2


# --- applying one -------------------------------------------------------------


def test_only_planned_entries_are_touched(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 10)
    redisq("replay", "mail/r1/1", "mail/r1/2", "mail/r1/3", "mail/r1/4", "--plan", "p")
    high = queue.now()
    while queue.now() == high:  # so that what comes now is later than the plan
        pass
    queue.move("other", 1, ["r1/1", "r1/2"], source="dead", target="waiting", high_water_ms=2**52)
    (again,) = queue.take(1, consumer="w").deliveries
    queue.settle([Settlement(again, "reject", ERROR.encoded())])  # dead again, of another cause
    (looked,) = redisq.rows("apply", "p", "--dry-run")
    assert looked["now"] == {"dead": 2, "late": 1, "waiting": 1}
    (outcome,) = redisq.rows("apply", "p", "--yes", "--report", "r", code=3)
    assert (outcome["matched"], outcome["done"], outcome["left"]) == (4, 2, 0)
    assert outcome["skipped"] == {"late": 1, "changed": 1}
    _, *report, end = lines("r")
    said = {row["id"]: row["said"] for row in report}
    other = ({"r1/1", "r1/2"} - {again.id}).pop()
    assert said == {again.id: "late", other: "changed", "r1/3": "moved", "r1/4": "moved"}
    assert end == outcome
    assert states(queue) == (7, 3)
    assert queue.get(again.id).state == "dead"  # type: ignore[union-attr]


def test_what_an_undo_brought_back_is_late_in_the_dry_run_too(
    redisq: Redisq, client: redis.Redis
) -> None:
    """It is dead for as long as before, which is what listings show; the record knows better."""
    fair: FairQueue[redis.Redis] = FairQueue(client, "fs")
    fair.submit("ann", [b"x"] * 7)
    for delivery in fair.take(7, consumer="w").deliveries:
        fair.settle([Settlement(delivery, "reject", ERROR.encoded())])
    redisq("replay", "fs", "--max", "5", "--plan", "p")
    assert redisq.rows("apply", "p", "--dry-run")[0]["now"] == {"dead": 5}
    high = fair.now()
    while fair.now() == high:
        pass
    purge = redisq.rows("purge", "fs", "--state", "dead", "--max", "4", "--yes")[-1]
    redisq("undo", purge["op"], "--yes")
    assert redisq.rows("apply", "p", "--dry-run")[0]["now"] == {"late": 4, "dead": 1}
    (outcome,) = redisq.rows("apply", "p", "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (1, {"late": 4})


def test_another_entry_of_the_same_id_is_late(redisq: Redisq, client: redis.Redis) -> None:
    """Delay sets keep no record of an entry that nobody took: its time tells it."""
    later = DelaySet(client, "later")
    later.schedule([("e1", b"old"), ("e2", b"old")], after=0)
    redisq("purge", "later", "--state", "waiting", "--plan", "p")
    for delivery in later.take(1, consumer="w").deliveries:
        later.settle([Settlement(delivery, "ack")])
    later.schedule([(delivery.id, b"new")], at=(later.now() - 1000) / 1000)
    assert redisq.rows("apply", "p", "--dry-run")[0]["now"] == {"late": 1, "waiting": 1}
    (outcome,) = redisq.rows("apply", "p", "--yes", code=3)
    assert (outcome["done"], outcome["skipped"]) == (1, {"changed": 1})
    (left,) = later.take(5, consumer="w").deliveries
    assert (left.id, left.payload) == (delivery.id, b"new")


def test_max_stops_exactly_and_apply_goes_on(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 300)
    redisq("replay", "mail", "--plan", "p")
    for most, left in ((7, 293), (130, 163), (1, 162)):
        (outcome,) = redisq.rows("apply", "p", "--max", str(most), "--yes", "--report", "r")
        assert (outcome["done"], outcome["left"]) == (300 - left, left)
        assert states(queue) == (left, 300 - left)
    told = [row["id"] for row in lines("r") if row.get("said") == "moved"]
    (outcome,) = redisq.rows("apply", "p", "--yes")
    assert (outcome["done"], outcome["left"], outcome["skipped"]) == (300, 0, {})
    assert len([row for row in redisq.rows("log") if row["verb"] == "replay"]) == 1
    assert {f"r1/{n}" for n in range(1, 301)} >= set(told) and len(set(told)) == 138
    assert redisq.rows("undo", "--yes")[0]["done"] == 300
    assert states(queue) == (300, 0)


def test_a_plan_is_applied_once(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 5)
    redisq("replay", "mail", "--plan", "p", "--reason", "planned so")
    redisq("apply", "p", "--yes")
    queue.take(2, consumer="w")
    before = picture(client)
    assert redisq("apply", "p", "--yes").startswith("already applied ")
    (again,) = redisq.rows("apply", "p", "--yes")
    assert (again["done"], again["left"], again["already"]) == (5, 0, True)
    assert picture(client) == before
    assert redisq.rows("log")[0]["reason"] == "planned so"
    assert redisq.rows("undo", "--yes", code=3)[0]["done"] == 3
    assert "applied and undone" in redisq.refusal("apply", "p", "--yes", code=1)
    assert "undone already" in redisq.refusal("undo", lines()[0]["op"], "--yes", code=1)


def test_who_when_why_and_whence(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 2)
    monkeypatch.setenv("REDISQ_USER", "ada")
    redisq("replay", "mail", "--plan", "p", "--reason", "first thought")
    monkeypatch.setenv("REDISQ_USER", "bob")
    redisq("apply", "p", "--yes", "--reason", "smtp is back")
    (row,) = redisq.rows("log")
    assert (row["user"], row["reason"]) == ("bob", "smtp is back")
    assert row["what"].startswith("all (planned by ada@") and row["host"]
    shown = redisq("log")
    assert "bob@" in shown and "smtp is back" in shown and "planned by ada@" in shown


def test_many_are_typed(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dead_letters(client, 1001)
    redisq("replay", "mail", "--plan", "p")
    assert "--yes" in redisq("apply", "p", code=5) + redisq.err
    monkeypatch.setattr(confirm_and_run, "interactive", lambda: True)
    for typed, code in (("y\n", 1), ("1001\n", 0)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        redisq("apply", "p", code=code)
        assert "Type 1001" in redisq.err
    assert states(queue) == (0, 1001)


def test_a_hard_purge_is_typed_by_name_and_has_no_undo(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 2)
    redisq("dlq", "purge", "mail", "--hard", "--plan", "p")
    monkeypatch.setattr(confirm_and_run, "interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("mail\n"))
    redisq("apply", "p")
    assert "removed for good: there is no undo" in redisq.err and "undo with" not in redisq.err
    assert "removed for good" in redisq.refusal("undo", lines()[0]["op"], code=1)


# --- two at once, kills, zombies ----------------------------------------------


def drive(
    client: redis.Redis,
    change: ChangeRun[Any],
    steps: int = -1,
) -> bool:
    """Some steps of a change; whether it is at its end."""
    while steps:
        if not run(client, change.step()):
            return True
        steps -= 1
    return False


def applying(client: redis.Redis, path: str = "p", **more: Any) -> ChangeRun[PlanSteps]:
    plan = PlanFile(path)
    queue = run(client, Deployment(client).queue(plan.header.queue))
    return plan_change(plan, queue, ME, clock=Ticks(), **more)


class Ticks:
    """Every call takes half a millisecond, one that does nothing too: steps stay at 50."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 0.0005
        return self._now


@pytest.mark.parametrize("shards", [1, 4])
def test_the_same_step_of_two_is_told_by_who_was_first(
    redisq: Redisq, client: redis.Redis, shards: int
) -> None:
    """Also where both send it at once, and where a run goes on behind a kill; one's own stays."""
    from redisq_ops.core.queues.delay.sharded import ShardedDelaySet

    made: Any = DelaySet(client, "q") if shards == 1 else ShardedDelaySet(client, "q", shards=4)
    made.schedule([(f"e{n}", b"x") for n in range(100)], after=60)
    redisq("delay", "purge", "q", "--plan", "p")
    rows: dict[str, list[tuple[str, str]]] = {"a1": [], "b2": [], "c3": []}

    def by(hand: str) -> ChangeRun[PlanSteps]:
        return applying(client, report=lambda *row: rows[hand].append(row), hand=hand)

    ann, bob = by("a1"), by("b2")
    for change in (ann, bob):  # before either of them moved anything
        run(client, change.open())
    drive(client, ann, 1)
    drive(client, bob, 1)
    assert [said for _, said in rows["a1"]] == ["moved"] * 50
    assert [said for _, said in rows["b2"]] == ["earlier"] * 50
    assert {id for id, _ in rows["a1"]} == {id for id, _ in rows["b2"]}
    drive(client, bob, 1)
    assert [said for _, said in rows["b2"][50:]] == ["moved"] * 50
    again, other = by("b2"), by("c3")  # what was on its way when a run was killed
    drive(client, again)
    drive(client, other)
    assert rows["b2"][150:] == rows["b2"][50:100]
    assert [said for _, said in rows["c3"]] == ["earlier"] * 100
    for change in (ann, again, other):
        drive(client, change)
        run(client, change.steps.finish())
        assert (change.outcome.done, change.outcome.skipped) == (100, {})


def test_two_reports_share_no_moved_entry(redisq: Redisq, client: redis.Redis) -> None:
    """Each run says the last step of the one before again: as its own only in the same file."""
    dead_letters(client, 120)
    redisq("replay", "mail", "--plan", "p")
    redisq("apply", "p", "--yes", "--report", "r", "--max", "30")
    redisq("apply", "p", "--yes", "--report", "s", "--max", "30")
    redisq("apply", "p", "--yes", "--report", "r")
    one, two = ({x["id"] for x in lines(name) if x.get("said") == "moved"} for name in "rs")
    assert len(one | two) == 120 and not one & two and len(two) == 30


@pytest.mark.parametrize("shards", [1, 4])
def test_what_is_being_undone_is_not_applied_further(
    redisq: Redisq, client: redis.Redis, shards: int
) -> None:
    from redisq_ops.core.queues.delay.sharded import ShardedDelaySet

    made: Any = DelaySet(client, "q") if shards == 1 else ShardedDelaySet(client, "q", shards=4)
    for at in range(0, 400, 100):
        made.schedule([(f"e{at + n}", b"x") for n in range(100)], after=60)
    redisq("delay", "purge", "q", "--plan", "p")
    zombie = applying(client)
    assert not drive(client, zombie, 3)
    op = zombie.op
    assert redisq.rows("undo", op, "--yes")[0]["done"] == 150
    before = picture(client)
    with pytest.raises(Exception, match="applied and undone"):
        drive(client, zombie)
    assert "applied and undone" in redisq.refusal("apply", "p", "--yes", code=1)
    assert picture(client) == before
    assert made.counts().delayed == 400


def test_a_change_undone_while_it_runs_stops(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 300)
    bulk = entry_change(run(client, select(queue, "dead", Filter())), "replay", ME, clock=Ticks())
    drive(client, bulk, 2)
    assert redisq.rows("undo", bulk.op, "--yes")[0]["done"] == 100
    with pytest.raises(Exception, match="was undone"):
        drive(client, bulk)
    assert states(queue) == (300, 0)


@pytest.mark.parametrize("ends", ["undo", "destroy"])
@pytest.mark.usefixtures("on_path")
def test_nobody_is_told_to_go_on_with_what_another_ended(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    dead_letters(client, 300)
    redisq("replay", "mail", "--plan", "p")
    (op,) = {line["op"] for line in lines() if "op" in line}
    words = {"undo": ["undo", op], "destroy": ["queue", "rm", "mail", "--hard"]}
    step, steps = ChangeRun.step, count(1)

    async def meanwhile(self: ChangeRun[Any]) -> bool:
        if next(steps) == 3:
            command = ["redisq", *words[ends], "--yes"]
            subprocess.run(command, env=os.environ | {"REDIS_URL": redisq.url}, check=True)
        return await step(self)

    monkeypatch.setattr(ChangeRun, "step", meanwhile)
    redisq("apply", "p", "--yes", code=1)
    assert "go on with" not in redisq.err
    assert ("undone" if ends == "undo" else "removed") in redisq.err


def test_two_undos_at_once_share_the_work(redisq: Redisq, client: redis.Redis) -> None:
    """Who finds the other's half done says so, and calls nothing expired."""
    queue = dead_letters(client, 300)
    (ended,) = redisq.rows("replay", "mail", "--yes")
    _, operation = run(client, audit_log.find(Deployment(client), ended["op"]))
    first, second = (ChangeRun(UndoSteps(queue, operation), ME) for _ in range(2))
    assert run(client, first.step()) and run(client, second.step())
    for change in (first, second):
        while run(client, change.step()):
            pass
    assert states(queue) == (300, 0)
    outcomes = first.outcome, second.outcome
    assert sum(outcome.done for outcome in outcomes) == 300
    assert second.outcome.skipped[OTHERS] > 200
    for outcome in outcomes:
        assert outcome.matched == 300
        assert outcome.skipped.get(OTHERS, 0) == 300 - outcome.done
        assert set(outcome.skipped) <= {OTHERS} and outcome.exit_code == 0


def test_an_undo_that_begins_in_the_midst_of_another_speaks_of_the_whole(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = dead_letters(client, 300)
    (ended,) = redisq.rows("replay", "mail", "--yes")
    queue.take(9, consumer="w")
    found, operation = run(client, audit_log.find(Deployment(client), ended["op"]))
    first = ChangeRun(UndoSteps(found, operation), ME)
    assert not drive(client, first, 2)
    _, now = run(client, audit_log.find(Deployment(client), ended["op"]))
    assert now.undone == first.outcome.done > 0
    second = ChangeRun(UndoSteps(found, now), ME)
    late = ChangeRun(UndoSteps(found, operation), ME)  # it looked before the first began
    for change in (first, second, late):
        drive(client, change)
    for outcome in (first.outcome, second.outcome, late.outcome):
        assert (outcome.matched, outcome.exit_code) == (300, 3)
        assert outcome.skipped["changed"] == 9
    assert first.outcome.done == 291
    for outcome in (second.outcome, late.outcome):
        assert outcome.done == 0 and outcome.skipped[OTHERS] == 291
    assert states(queue)[0] == 291


def test_a_step_of_which_a_shard_never_heard_is_sent_again(client: redis.Redis) -> None:
    from redisq_ops.core.queues.delay.sharded import ShardedDelaySet

    made = ShardedDelaySet(client, "q", shards=4)
    made.schedule([(f"e{n}", b"x") for n in range(100)], after=60)
    queue = run(client, Deployment(client).queue("q"))
    with Draft("p", "purge-x") as draft:
        chosen, weight = run(client, select_entries(queue, "delayed", Filter(), keep=draft.add))
        header = PlanHeader(
            "purge-x",
            "q",
            "delay",
            "redisq",
            0,
            "",
            "purge",
            "delayed",
            "operator",
            0,
            chosen.high_water_ms,
            "all",
            "ada",
            "laptop",
            "",
            queue.now(),
            500,
        )
        draft.finish(header, {"consequences": weight.facts("purge")})
    change = applying(client)
    drive(client, change, 1)
    # As if it had been killed between two shards: one never got the step. Which shards it was about
    # is chance: entries of one time stand in any order.
    k = next(k for k in (1, 2, 3) if client.exists(f"redisq:{{q/{k}}}:undo:purge-x:1"))
    client.hdel(f"redisq:{{q/{k}}}:callers", "purge-x")
    client.delete(f"redisq:{{q/{k}}}:op:purge-x")
    back = made._shard(k)
    run(client, back.undo.op("purge-x", 1, target="trash", by="hand", seq=1))
    client.delete(f"redisq:{{q/{k}}}:op:purge-x")
    again = applying(client)
    drive(client, again)
    run(client, again.steps.finish())
    assert (again.outcome.done, made.counts().trash) == (100, 100)


@pytest.mark.slow
def test_apply_survives_three_kills(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 6000)
    redisq("dlq", "purge", "mail", "--plan", "p")
    command = [sys.executable, "-m", "redisq_ops", "--url", redisq.url, "apply", "p", "--yes"]
    reached = 0
    for n in range(3):
        process = subprocess.Popen(
            [*command, "--rate", "2500/s", "--report", f"r{n}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 90
        while (queue.counts().trash or 0) < reached + 300:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.wait()
        reached = queue.counts().trash
        assert 0 < reached < 6000
        assert queue.invariants() == []
    (outcome,) = redisq.rows("apply", "p", "--yes", "--report", "r")
    assert (outcome["done"], outcome["left"], outcome["skipped"]) == (6000, 0, {})
    assert (queue.counts().trash, queue.counts().dead) == (6000, 0)
    assert [row["id"] for row in lines("r")[1:-1]] == [row["id"] for row in lines("p")[2:-1]]
    assert redisq.rows("undo", "--yes")[0]["done"] == 6000
    assert states(queue) == (6000, 0) and queue.invariants() == []


@pytest.mark.parametrize("heard", [True, False])
def test_ctrl_c_says_what_was_done_and_what_goes_on(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, heard: bool
) -> None:
    queue = dead_letters(client, 700)
    redisq("replay", "mail", "--plan", "p")
    step, steps = ChangeRun.step, 0

    async def interrupted(self: ChangeRun[Any]) -> bool:
        nonlocal steps
        steps += 1
        before = self.outcome.done
        more = await step(self)
        if steps == 3:
            if not heard:
                self.outcome.done = before
            raise KeyboardInterrupt
        return more

    with monkeypatch.context() as patch:
        patch.setattr(ChangeRun, "step", interrupted)
        out = redisq("apply", "p", "--yes", code=130)
    moved = queue.counts().waiting
    assert 0 < moved < 700
    assert f"{moved} of 700" in out and "redisq apply p --yes\n" in redisq.err
    (outcome,) = redisq.rows("apply", "p", "--yes")
    assert (outcome["done"], outcome["skipped"]) == (700, {})


def test_ctrl_c_before_the_first_write_says_that_nothing_was_done(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")

    async def interrupted(_: PlanSteps) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PlanSteps, "prepare", interrupted)
        out = redisq("apply", "p", "--yes", code=130)
    assert "0 of 3" in out and "3 left; continue with: redisq apply p --yes\n" in redisq.err
    assert queue.counts().dead == 3
    (outcome,) = redisq.rows("apply", "p", "--yes")
    assert (outcome["done"], outcome["skipped"]) == (3, {})


def test_ctrl_c_while_planning_leaves_nothing(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 3)
    before = picture(client)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Draft, "add", interrupt)
    assert "nothing was changed" in redisq.refusal("replay", "mail", "--plan", "p", code=130)
    assert os.listdir() == [] and picture(client) == before


def test_a_report_that_can_not_be_written_is_told(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    redisq("apply", "p", "--yes", "--report", "nowhere/r", code=2)
    assert "nowhere/r" in redisq.err.splitlines()[-1]
    assert states(queue) == (3, 0)
    redisq("apply", "p", "--yes", "--report", "/dev/full", code=1)
    assert "No space left" in redisq.err and states(queue) == (3, 0)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert "--report /dev/full: No space left on device: nothing was changed" in redisq.err
    monkeypatch.setattr(OutcomeReport, "_each", full)
    redisq("apply", "p", "--yes", "--report", "it's", code=3)
    assert "--report it's: No space left on device\n" in redisq.err and states(queue) == (0, 3)
    again = shlex.join(["redisq", "apply", "p", "--yes", "--report", "it's"])
    assert f"stopped: 3 of 3; continue with: {again}\n" in redisq.err


def test_a_report_grows_by_what_is_new_and_heals(redisq: Redisq, client: redis.Redis) -> None:
    """Each entry has a line, the last step of a run two; one that was cut in two goes."""
    dead_letters(client, 300)
    redisq("replay", "mail", "--plan", "p")
    for _ in range(3):
        redisq("apply", "p", "--max", "100", "--yes", "--report", "r")
    told = [row["id"] for row in lines("r") if "said" in row]
    assert len(set(told)) == 300 and len(told) <= 500
    assert [row for row in lines("r") if row.get("said") == "earlier"] == []
    # What a run did that wrote no report is told by the next one.
    redisq("undo", "--yes")
    redisq("replay", "mail", "--plan", "q")
    redisq("apply", "q", "--max", "10", "--yes", "--report", "s")
    redisq("apply", "q", "--max", "50", "--yes")
    whole = Path("s").read_bytes()
    Path("s").write_bytes(whole + b'{"id": "r1/2')
    redisq("apply", "q", "--max", "200", "--yes", "--report", "s")
    assert Path("s").read_bytes().startswith(whole + b'{"id": ')
    redisq("apply", "q", "--yes", "--report", "s")
    assert {row["id"] for row in lines("s") if "said" in row} == {f"r1/{n}" for n in range(1, 301)}
    redisq("undo", "--yes")
    redisq("replay", "mail", "--plan", "u")
    op = lines("u")[0]["op"]
    Path("t").write_text(
        f'{{"redisq": "report", "version": 1, "op": "{op[:3]}'
    )  # full from its first line on
    redisq("apply", "u", "--yes", "--report", "t")
    assert lines("t")[0] == {"redisq": "report", "version": 1, "op": op} and len(lines("t")) == 302


# --- plans that are not what they were ----------------------------------------


def spoilt(how: Callable[[list[bytes]], list[bytes]]) -> None:
    Path("p").write_bytes(b"".join(how(Path("p").read_bytes().splitlines(keepends=True))))


def swapped(rows: list[bytes]) -> list[bytes]:
    return [*rows[:5], rows[6], rows[5], *rows[7:]]


def edited(number: int, old: bytes, new: bytes) -> Callable[[list[bytes]], list[bytes]]:
    def edit(rows: list[bytes]) -> list[bytes]:
        assert old in rows[number - 1]
        return [
            row.replace(old, new) if n == number else row for n, row in enumerate(rows, start=1)
        ]

    return edit


@pytest.mark.parametrize(
    ("how", "line"),
    [
        (edited(1, b'"queue": "mail"', b'"queue": "news"'), 1),
        (edited(1, b'"replay"', b'"purge"'), 1),
        (edited(2, b'"matched": 20', b'"matched": 99'), 2),
        (edited(7, b'"id": "r1/', b'"id": "r1/9'), 7),
        (edited(23, b'"entries": 20', b'"entries": 21'), 23),
        (swapped, 6),
        (lambda rows: rows[:9] + rows[10:], 10),
        (lambda rows: [*rows[:9], rows[8], *rows[9:]], 10),
        (lambda rows: rows[:12], 13),
        (lambda rows: [*rows[:12], rows[12][:20]], 13),
        (lambda rows: rows[:-1], 23),
        (lambda rows: [*rows[:-1], rows[-1].rstrip()], 23),
        (lambda rows: [*rows, rows[-1]], 24),
        (lambda rows: [*rows[:3], b"\xff\xfe\n", *rows[4:]], 4),
        (lambda rows: [b"hello\n"], 1),
        (lambda rows: [b"[" * 200_000], 1),
        (lambda rows: [b'{"id":"r1/1"}\n', *rows], 1),
        (lambda rows: [], 1),
    ],
)
def test_a_spoilt_plan_is_refused_with_its_line(
    redisq: Redisq, client: redis.Redis, how: Any, line: int
) -> None:
    dead_letters(client, 20)
    redisq("replay", "mail", "--plan", "p")
    before = picture(client)
    spoilt(how)
    said = redisq.refusal("apply", "p", "--yes", code=2)
    assert re.match(rf"p, line {line}: ", said) and "nothing was done" in said
    assert picture(client) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("verb", []),
        ("verb", "explode"),
        ("state", "waiting"),
        ("high_water_ms", "1"),
        ("op", 5),
        ("queue", 7),
        ("step", 0),
        ("step", "9"),
        ("rate", 0),
        ("rate", "x"),
        ("rate", nan),
        ("planned_ms", None),
        ("created_ms", "x"),
        ("why", None),
    ],
)
def test_a_plan_of_another_hand_is_refused(
    redisq: Redisq, client: redis.Redis, name: str, value: Any
) -> None:
    """Its checksums are right, and what it says can't be."""
    dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    before = picture(client)
    header = lines()[0] | {name: value}
    crafted(header)
    said = redisq.refusal("apply", "p", "--yes", code=2)
    assert re.match(rf"p, line 1: (that can't be its .*{name}|plan.{name} must be)", said)
    assert picture(client) == before


def test_a_plan_with_an_id_that_can_t_be_is_refused_before_it_begins(
    redisq: Redisq, client: redis.Redis
) -> None:
    dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    before = picture(client)
    header, *others, _ = lines()
    crafted(header, [*others, {"id": "\ud800"}])
    said = redisq.refusal("apply", "p", "--yes", code=2)
    assert said.startswith("p, line 6: an entry lacks its id; nothing was done")
    assert picture(client) == before


def crafted(header: dict[str, Any], others: list[dict[str, Any]] | None = None) -> None:
    """The same plan under a header, or with other lines, that nothing of ours would write."""
    Path("p").write_bytes(seal([header, *(others or lines()[1:-1])]))


def test_a_plan_of_a_newer_release(redisq: Redisq, client: redis.Redis) -> None:
    Path("p").write_bytes(b'{"redisq": "plan", "version": 2}\n')
    assert "p, line 1: plan of format 2" in redisq.refusal("apply", "p", "--yes", code=1)
    assert "No such file" in redisq.refusal("apply", "q", "--yes", code=2)


def test_a_plan_from_another_server(
    redisq: Redisq, client: redis.Redis, own: EmbeddedServer
) -> None:
    dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    with redis.Redis.from_url(own.url, protocol=3) as other:
        dead_letters(other, 3)
        before = picture(other)
        redisq.url = own.url
        assert "another server" in redisq.refusal("apply", "p", "--yes", code=1)
        assert picture(other) == before


def test_a_plan_of_a_queue_that_is_another_by_now(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    redisq("queue", "rm", "mail", "--hard", "--yes")
    assert "no queue 'mail'" in redisq.refusal("apply", "p", "--yes", code=1)
    queue = dead_letters(client, 3)
    assert "created again" in redisq.refusal("apply", "p", "--yes", code=1)
    assert states(queue) == (3, 0)
    redisq("queue", "rm", "mail", "--hard", "--yes")
    DelaySet(client, "mail").schedule([("e", b"x")], after=1)
    assert "delay queue" in redisq.refusal("apply", "p", "--yes", code=1)
    assert "prefix" in redisq.refusal("--prefix", "other", "apply", "p", "--yes", code=1)


def test_a_plan_outlives_a_restart(redisq: Redisq, own: EmbeddedServer) -> None:
    redisq.url = own.url
    with redis.Redis.from_url(own.url, protocol=3) as client:
        queue = dead_letters(client, 3)
        redisq("replay", "mail", "--plan", "p")
        (header, *_) = lines()
        assert header["server"] == client.info("server")["run_id"]
        header = lines()[0] | {"server": "0" * 40}
        rewrite(header)
        assert redisq.rows("apply", "p", "--yes")[0]["done"] == 3
        assert states(queue) == (0, 3)


def rewrite(header: dict[str, Any], facts: dict[str, Any] | None = None) -> None:
    """The same plan under another header and with other facts, whole again."""
    plan = PlanFile("p")
    header = {name: header[name] for name in header if name in PlanHeader.__slots__}
    entries = [Entry(row["id"], "dead", since_ms=row["since_ms"]) for row in lines()[2:-1]]
    os.unlink("p")
    with Draft("p", header["op"]) as draft:
        draft.add(entries)
        draft.finish(PlanHeader(**header), facts or {"consequences": {}})
    plan.close()


@pytest.mark.parametrize(
    "facts",
    [
        {"consequences": 5},
        {"consequences": {"count": "many"}, "matched": [], "sample": 1},
        {"consequences": {"count": 1, "bytes": 1, "priorities": {"0": 1}}, "matched": 1},
    ],
    ids=str,
)
def test_what_a_plan_does_is_computed_whatever_its_file_says(
    redisq: Redisq, client: redis.Redis, facts: dict[str, Any]
) -> None:
    dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    rewrite(lines()[0], facts)
    (true,) = redisq.rows("apply", "p", code=5)
    about = true["consequences"]
    assert (true["matched"], about["count"], about["bytes"]) == (3, 3, 3)
    assert about["priorities"] == {"50": 3} and len(true["sample"]) == 3
    assert redisq.rows("apply", "p", "--yes")[0]["done"] == 3


def test_a_plan_comes_from_no_pipe(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    os.mkfifo("pipe")
    feed = "open('pipe', 'wb').write(open('p', 'rb').read())"
    feeding = subprocess.Popen([sys.executable, "-c", feed], stderr=subprocess.DEVNULL)
    try:
        said = redisq.refusal("apply", "pipe", "--yes", code=2)
    finally:
        feeding.kill()
        feeding.wait()
    assert said == (
        "pipe is a pipe: a plan is read from a file, more than once: redisq apply p.ndjson"
    )
    assert states(queue) == (3, 0)


def test_a_plan_older_than_the_journal(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    rewrite(lines()[0] | {"planned_ms": lines()[0]["planned_ms"] - 31 * 86_400_000})
    said = redisq.refusal("apply", "p", "--yes", code=1)
    assert "planned 31d" in said and "audit log" in said
    assert states(queue) == (3, 0)


def test_a_full_server_is_purged_by_plans(redisq: Redisq, own: EmbeddedServer) -> None:
    redisq.url = own.url
    with redis.Redis.from_url(own.url, protocol=3) as client:
        queue = dead_letters(client, 300)
        client.config_set("maxmemory", 1)
        redisq("dlq", "purge", "mail", "--max", "100", "--plan", "soft")
        redisq("dlq", "purge", "mail", "--hard", "--plan", "hard")
        assert redisq.rows("apply", "soft", "--yes")[0]["done"] == 100
        assert redisq.rows("undo", "--yes")[0]["done"] == 100
        (outcome,) = redisq.rows("apply", "hard", "--yes", code=3)
        assert (outcome["done"], outcome["skipped"]) == (200, {"late": 100})
        client.config_set("maxmemory", 0)
        assert states(queue) == (100, 0) and queue.invariants() == []


def test_another_program_s_queue_is_told_by_its_server(
    redisq: Redisq, client: redis.Redis, own: EmbeddedServer
) -> None:
    job = json.dumps({"class": "Mail", "args": [1]})

    def fill(there: redis.Redis) -> None:
        there.sadd("resque:queues", "low")
        there.rpush("resque:queue:low", job)

    fill(client)
    redisq("purge", "resque:low", "--state", "waiting", "--plan", "p")
    assert lines()[0]["created_ms"] is None
    with redis.Redis.from_url(own.url) as other:
        fill(other)
        redisq.url, here = own.url, redisq.url
        assert "another server" in redisq.refusal("apply", "p", "--yes", code=1)
        assert other.llen("resque:queue:low") == 1
    redisq.url = here
    redisq("apply", "p", "--yes")
    assert client.llen("resque:queue:low") == 0


def test_whose_step_it_was_is_known_of_another_program_s_jobs_too(client: redis.Redis) -> None:
    client.sadd("resque:queues", "low")
    client.rpush(
        "resque:queue:low", *(json.dumps({"class": "Mail", "args": [n]}) for n in range(3))
    )
    queue = run(client, Deployment(client).queue("resque:low"))
    ids = [entry.id for entry in queue.page("waiting").entries]

    def sent(hand: str) -> list[str]:
        said: list[str] = queue.move(
            "purge-x",
            1,
            ids[:2],
            source="waiting",
            target="trash",
            high_water_ms=2**52,
            span=f"0-2-{hand}",
        )
        return said

    assert (sent("a1"), sent("b2"), sent("a1")) == (["moved"] * 2, ["theirs"] * 2, ["moved"] * 2)
    assert client.llen("resque:queue:low") == 1
