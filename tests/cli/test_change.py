"""Putting queues right from the command line: what is shown first, what is done, and undone."""

import io
import json
import os
import pty
import re
import select as readable
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.cli import confirm_and_run
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.states import VERBS
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.destroy import DestroySteps
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment

from ..command_line import ERROR, Redisq, dead_letters, everywhere
from ..dead_entries import KINDS
from ..model.wire import picture

pytestmark = pytest.mark.alike


@pytest.fixture
def own(server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """A server that a test may spoil."""
    with EmbeddedServer(Path(server._command[0])) as spoilt:
        yield spoilt


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Somebody sits at the terminal and types this."""

    def types(text: str) -> None:
        monkeypatch.setattr(confirm_and_run, "interactive", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return types


def states(queue: RequestQueue[redis.Redis]) -> dict[str, Any]:
    """Every entry of r1 by number with what matters of it, its counts and its tokens."""
    entries = {n: queue.get(f"r1/{n}") for n in range(1, 9)}
    request = queue.request("r1")
    assert request is not None and queue.invariants() == []
    shown: dict[str, Any] = {
        str(n): (e.state, e.failures, e.lost, e.consumer, e.reason, e.error, e.at_ms)
        for n, e in entries.items()
        if e is not None
    }
    return shown | {
        "counts": (request.waiting, request.pending, request.delayed, request.dead, request.trash),
        "state": (request.state, request.paused, request.limit, request.priority),
        "queue": queue.settings(),
    }


CHANGES = [
    ("replay mail", ["r1/2"], "waiting"),
    ("dlq replay mail/r1/2", ["r1/2"], "waiting"),
    ("dlq purge mail/r1", ["r1/2"], "trash"),
    ("pending requeue mail", ["r1/5"], "waiting"),
    ("pending claim mail/r1 --consumer me", ["r1/5"], "pending"),
    ("claim --queue mail r1/5 --consumer me", ["r1/5"], "pending"),
    ("pending purge --queue mail", ["r1/5"], "trash"),
    ("delay requeue mail", ["r1/3"], "waiting"),
    ("requeue mail/r1/3", ["r1/3"], "waiting"),
    ("requeue mail/r1/5", ["r1/5"], "waiting"),
    ("delay purge r1", ["r1/3"], "trash"),
    ("purge mail/r1/6", ["r1/6"], "trash"),
    ("purge mail --state waiting --max 3", ["r1/4", "r1/6", "r1/7"], "trash"),
    ("waiting purge mail/r1/7 mail/r1/6", ["r1/7", "r1/6"], "trash"),
    ("purge r1 --state dead", ["r1/2"], "trash"),
    ("replay mail --match mailbox --older-than 0s", ["r1/2"], "waiting"),
]


@pytest.mark.parametrize(("words", "ids", "state"), CHANGES)
def test_entries_are_moved_and_put_back(
    redisq: Redisq, client: redis.Redis, words: str, ids: list[str], state: str
) -> None:
    queue = everywhere(client)
    before, untouched = states(queue), picture(client)
    (planned,) = redisq.rows(*words.split(), "--dry-run")
    assert (planned["queue"], planned["matched"], planned["sample"]) == ("mail", len(ids), ids)
    assert picture(client) == untouched
    (refused,) = redisq.rows(*words.split(), code=5)
    assert refused == planned
    assert json.loads(redisq.err)["exit"] == 5 and "--yes" in redisq.err
    assert picture(client) == untouched

    (outcome,) = redisq.rows(*words.split(), "--yes")
    n = len(ids)
    assert outcome == {"op": outcome["op"], "matched": n, "done": n, "skipped": {}}
    assert redisq.err == ""
    after = states(queue)
    for n in range(1, 9):
        assert after[str(n)][0] == (state if f"r1/{n}" in ids else before[str(n)][0])
    if "claim" in words:
        assert after["5"][3] == ("me" if "me" in words else "operator")
    (undone,) = redisq.rows("undo", outcome["op"], "--yes")
    assert (undone["matched"], undone["done"], undone["skipped"]) == (len(ids), len(ids), {})
    assert states(queue) == before


@pytest.mark.parametrize("words", ["pending purge mail", "pending purge mail --hard"])
def test_a_purge_of_pending_entries_says_that_workers_lose_them(
    redisq: Redisq, client: redis.Redis, words: str
) -> None:
    everywhere(client)
    held = "a worker that holds one can't settle it any more"
    assert held in redisq(*words.split(), "--dry-run")
    assert held not in redisq(*words.replace("pending", "dlq").split(), "--dry-run")


def test_restore_and_empty(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    before = states(queue)
    redisq("purge", "mail/r1/2", "mail/r1/2", "--yes")
    redisq("purge", "mail/r1/3", "--yes")
    assert len(redisq.rows("trash", "ls", "mail")) == 2
    redisq("trash", "restore", "mail", "--yes")
    assert states(queue)["counts"] == before["counts"]
    assert "undid" in redisq("undo", "--yes")  # of the restore: both are in the trash again
    assert redisq.rows("trash", "rm", "mail/r1/3", "--yes")[0]["done"] == 1
    assert [row["id"] for row in redisq.rows("trash", "ls", "mail")] == ["r1/2"]
    assert queue.invariants() == []
    hard = redisq.rows("log")[0]["id"]
    assert "removed for good" in redisq.refusal("undo", hard, "--yes", code=1)


def test_purge_hard_leaves_nothing_to_undo(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    (outcome,) = redisq.rows("dlq", "purge", "mail", "--hard", "--yes")
    assert outcome["done"] == 1
    assert queue.counts().dead == queue.counts().trash == 0
    assert client.xlen(queue.keys["s_"] + "r1") == 6
    assert "nothing to undo" in redisq.refusal("undo", "--yes", code=1)


def test_bare_verbs_are_the_nouns_verbs(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    both = [redisq(*words, "mail", "--dry-run") for words in (["replay"], ["dlq", "replay"])]
    assert both[0] == both[1] != ""


def test_every_verb_of_the_core_is_offered_where_it_can_start(redisq: Redisq) -> None:
    nouns = {
        "pending": "pending",
        "dlq": "dead",
        "delay": "delayed",
        "trash": "trash",
        "waiting": "waiting",
    }
    for noun, state in nouns.items():
        shown = redisq(noun, "--help").split("Commands:")[1]
        offered = {line.split()[0] for line in shown.splitlines() if line[2:3].strip()}
        others = {"acknowledge", "add", "group", "groups", "stop"}
        alone = {"trash": {"restore", "rm"}, "delay": {"reschedule"}}.get(noun, set())
        assert offered - others == alone | {"ls"}
        for verb, (sources, _) in VERBS.items():
            if state in sources and verb != "hard":  # takes it, though no help lists it
                assert "--dry-run" in redisq(noun, verb, "--help")


# --- plans and questions ------------------------------------------------------


@pytest.mark.parametrize("words", [["mail", "r1"], ["mail", "r1/2"], ["r1/2", "mail"]])
def test_a_queue_beside_a_part_of_it_is_not_all_of_it(
    redisq: Redisq, client: redis.Redis, words: list[str]
) -> None:
    queue = dead_letters(client, 3)
    assert "write mail/r1" in redisq.refusal("purge", *words, "--state", "dead", "--yes", code=2)
    assert queue.counts().dead == 3


def test_an_empty_match_is_no_filter_and_not_everything(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = dead_letters(client, 3)
    assert "leave --match out" in redisq.refusal("purge", "mail", "--match", "", "--yes", code=2)
    assert queue.counts().dead == 3


def test_the_plan_says_how_many_of_what(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 1200)
    said = redisq("replay", "mail", "--match", "mailbox", "--rate", "100/s", "--dry-run")
    assert said.startswith(
        "replay 1,200 dead entries of mail (filter: match 'mailbox'): 1,200 rejected\n"
        "  r1/1, r1/10, r1/100, …\n"
    )
    assert "about 12s at 100/s" in said


def test_nothing_matched_is_no_failure_and_writes_nothing(
    redisq: Redisq, client: redis.Redis
) -> None:
    everywhere(client)
    before = picture(client)
    for more in ([], ["--yes"], ["--dry-run"]):
        assert redisq("replay", "mail", "--match", "zzz", *more).startswith("0 matched: ")
    assert redisq.rows("replay", "mail/r1/5", "--yes") == [
        {"op": None, "matched": 0, "done": 0, "skipped": {}}
    ]
    assert "r1/5 is pending, not dead" in redisq("replay", "mail/r1/5")
    assert picture(client) == before


def test_a_person_is_asked(
    redisq: Redisq, client: redis.Redis, person: Callable[[str], None]
) -> None:
    queue = everywhere(client)
    before = picture(client)
    for answer in ("", "\n", "n\n", "no\n", "yess\n"):
        person(answer)
        assert redisq("replay", "mail", code=1) == ""
        assert "replay 1 dead entry" in redisq.err and "[y/N]" in redisq.err
        assert picture(client) == before
    person("y\n")
    assert "1 of 1" in redisq("replay", "mail")
    assert "redisq undo replay-" in redisq.err
    assert queue.counts().dead == 0


def test_many_take_the_number_and_for_good_takes_the_name(
    redisq: Redisq, client: redis.Redis, person: Callable[[str], None]
) -> None:
    queue = dead_letters(client, 1001)
    for words, wrong, right in (
        (("dlq", "purge", "mail"), "y", "1001"),
        (("trash", "rm", "mail"), "1001", "mail"),
    ):
        before = picture(client)
        person(f"{wrong}\n")
        redisq(*words, code=1)
        assert f"Type {right} to go ahead" in redisq.err
        assert picture(client) == before
        person(f"{right}\n")
        redisq(*words)
    assert queue.counts().dead == queue.counts().trash == 0


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
def test_on_a_real_terminal(client: redis.Redis, url: str) -> None:
    queue = everywhere(client)
    words = ["redisq", "replay", "mail", "--url", url]
    leader, terminal = pty.openpty()
    with subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        while b"[y/N]" not in shown:
            assert readable.select([leader], [], [], 30)[0], shown
            shown += os.read(leader, 4096)
        assert queue.counts().dead == 1
        os.write(leader, b"y\n")
        assert process.wait() == 0
    os.close(leader)
    assert b"replay 1 dead entry of mail" in shown
    assert queue.counts().dead == 0


# --- what can happen meanwhile ------------------------------------------------


def test_some_done_some_not(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dead_letters(client, 3)
    original = confirm_and_run.agreed

    def meanwhile(*args: Any) -> bool:
        queue.move("other", 1, ["r1/2"], source="dead", target="waiting", high_water_ms=2**52)
        return original(*args)

    monkeypatch.setattr("redisq_ops.cli.change_entries.agreed", meanwhile)
    (outcome,) = redisq.rows("replay", "mail", "--yes", code=3)
    assert (outcome["matched"], outcome["done"], outcome["skipped"]) == (3, 2, {"changed": 1})


def test_undo_leaves_alone_what_went_on(redisq: Redisq, client: redis.Redis) -> None:
    queue = dead_letters(client, 3)
    redisq("replay", "mail", "--yes")
    queue.settle([Settlement(d, "ack") for d in queue.take(1, consumer="w2").deliveries])
    who = next(word for word in redisq("log").split() if "@" in word)
    assert f" in queue mail by {who} " in redisq("undo", "--dry-run")
    (undone,) = redisq.rows("undo", "--yes", code=3)
    assert (undone["done"], undone["skipped"]) == (2, {"changed": 1})
    assert queue.counts().dead == 2 and queue.invariants() == []


def test_ctrl_c_counts_a_step_whose_reply_was_never_read(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dead_letters(client, 700)
    step = ChangeRun.step
    steps = 0

    async def interrupted(self: ChangeRun[Any]) -> bool:
        nonlocal steps
        steps += 1
        before = self.outcome.done
        more = await step(self)
        if steps == 3:
            self.outcome.done = before
            raise KeyboardInterrupt
        return more

    monkeypatch.setattr(ChangeRun, "step", interrupted)
    (outcome,) = redisq.rows("replay", "mail", "--yes", code=130)
    moved = 700 - queue.counts().dead
    assert 0 < moved < 700
    assert (outcome["matched"], outcome["done"]) == (700, moved)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_signal_ends_a_change_that_says_what_it_did_and_how_to_go_on(
    redisq: Redisq, client: redis.Redis, url: str, number: int, code: int
) -> None:
    queue = dead_letters(client, 100)
    words = ("replay", "mail", "--max", "90", "--yes")
    with subprocess.Popen(
        [sys.executable, "-m", "redisq_ops", "--url", url, *words, "--rate", "20/s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while queue.counts().dead == 100:
            assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    moved = 100 - queue.counts().dead
    assert process.returncode == code and f": {moved} of 90 (op replay-" in out, (out, err)
    again = f"redisq --url {url} replay mail --max {90 - moved} --yes --rate 20/s"
    assert f"interrupted, {90 - moved} left; continue with: {again}\n" in err
    assert redisq.rows("log")[0]["ended"] is False
    # The rest by that command, no more than was chosen first; and each part can be undone.
    rest = ("replay", "mail", "--max", str(90 - moved), "--yes")
    assert redisq.rows(*rest)[0]["done"] == 90 - moved
    (first,) = re.findall(r"\(op (.+)\)", out)
    assert redisq.rows("undo", first, "--yes")[0]["done"] == moved
    assert redisq.rows("undo", "--yes")[0]["done"] == 90 - moved
    assert queue.counts().dead == 100


def test_ctrl_c_before_the_first_write(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(client)
    before = picture(client)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("redisq_ops.cli.confirm_and_run._answer", interrupt)
    monkeypatch.setattr(confirm_and_run, "interactive", lambda: True)
    redisq("replay", "mail", code=130)
    assert "nothing was changed" in redisq.err
    assert picture(client) == before


def test_an_interrupted_undo_goes_on(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dead_letters(client, 700)
    op = redisq.rows("replay", "mail", "--yes")[0]["op"]
    step = ChangeRun.step
    steps = 0

    async def interrupted(self: ChangeRun[Any]) -> bool:
        nonlocal steps
        steps += 1
        more = await step(self)
        if steps == 2:
            raise KeyboardInterrupt
        return more

    monkeypatch.setattr(ChangeRun, "step", interrupted)
    redisq("undo", "--yes", code=130)
    monkeypatch.undo()
    # By its name: another change may be the latest by then.
    assert f"left; continue with: redisq undo --yes {op}\n" in redisq.err
    first = redisq.rows("log")[0]
    assert first["done"] == queue.counts().dead
    assert [row["done"] for row in redisq.rows("log")] == [first["done"], 700]
    (second,) = redisq.rows("undo", "--yes")
    assert first["done"] + second["done"] == second["matched"] == 700
    assert second["skipped"] == {"by another undo": first["done"]}


def test_what_a_killed_undo_left_alone_has_changed_and_not_expired(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = dead_letters(client, 5)
    redisq("replay", "mail", "--yes")
    queue.take(5, consumer="worker")

    async def killed(self: UndoSteps) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr(UndoSteps, "end", killed)
        assert redisq.rows("undo", "--yes", code=130)[0]["skipped"] == {"changed": 5}
    assert redisq.rows("undo", "--yes", code=1)[0]["skipped"] == {"changed": 5}


def test_a_server_lost_half_way_is_told_with_how_far_it_came(
    redisq: Redisq, own: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    redisq.url = own.url
    with redis.Redis.from_url(own.url) as client:
        dead_letters(client, 700)
    step = ChangeRun.step
    steps = 0

    async def cut(self: ChangeRun[Any]) -> bool:
        nonlocal steps
        steps += 1
        if steps == 3:
            own.kill()
        return await step(self)

    monkeypatch.setattr(ChangeRun, "step", cut)
    redisq("replay", "mail", "--yes", code=4)
    assert "stopped after" in redisq.err and "of 700 (op replay-" in redisq.err
    assert "continue with: redisq replay mail --yes" in redisq.err


# --- requests, queues, settings -----------------------------------------------


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("request pause r1", "paused", True),
        ("request limit mail/r1 16", "limit", 16),
        ("request priority mail/r1 0", "priority", 0),
        ("request cancel mail/r1", "state", "cancelled"),
    ],
)
def test_requests_are_changed_and_put_back(
    redisq: Redisq, client: redis.Redis, words: str, field: str, value: object
) -> None:
    queue = everywhere(client)
    before, untouched = queue.request("r1"), picture(client)
    (planned,) = redisq.rows(*words.split(), "--dry-run")
    assert planned["request"] == "r1"
    redisq(*words.split(), code=5)
    assert picture(client) == untouched
    (outcome,) = redisq.rows(*words.split(), "--yes")
    assert (outcome["matched"], outcome["done"]) == (1, 1)
    assert getattr(queue.request("r1"), field) == value
    assert queue.invariants() == []
    (undone,) = redisq.rows("undo", "--yes")
    assert undone["done"] == 1
    assert getattr(queue.request("r1"), field) == getattr(before, field)
    assert queue.invariants() == []


def test_what_is_so_already_is_not_written_down_again(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    redisq("request", "pause", "r1", "--yes")
    redisq("queue", "pause", "mail", "--yes")
    before = picture(client)
    for words in ("request pause r1", "queue pause mail", "request limit r1 8"):
        assert redisq.rows(*words.split(), "--yes")[0]["matched"] == 0
    assert redisq("request", "priority", "r1", "50", "--yes").startswith("0 matched")
    assert picture(client) == before
    redisq("request", "resume", "r1", "--yes")
    assert redisq.rows("inspect", "r1")[0]["paused"] is False


def test_queues_are_paused_drained_and_resumed(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    redisq("queue", "pause", "mail", "--reason", "deploy", "--yes")
    assert queue.take(1, consumer="w").deliveries == ()
    redisq("queue", "drain", "mail", "--yes")
    (row,) = redisq.rows("ls")
    assert row["paused"] == "deploy" and row["draining"].startswith("by ")
    assert redisq.rows("queue", "resume", "mail", "--yes")[0]["done"] == 2
    assert len(queue.take(1, consumer="w").deliveries) == 1
    assert redisq.rows("undo", "--yes")[0]["done"] == 2  # of the resume: both flags
    again = redisq.rows("ls")[0]
    assert (again["paused"], again["draining"]) == (row["paused"], row["draining"])


def test_destroy(redisq: Redisq, client: redis.Redis, person: Callable[[str], None]) -> None:
    everywhere(client)
    before = picture(client)
    assert "not empty (4 waiting, 1 pending" in redisq.refusal(
        "queue", "rm", "mail", "--yes", code=1
    )
    redisq("queue", "rm", "mail", "--hard", "--dry-run")
    person("y\n")
    redisq("queue", "rm", "mail", "--hard", code=1)
    assert "Type mail to go ahead" in redisq.err
    assert picture(client) == before
    person("mail\n")
    redisq("queue", "rm", "mail", "--hard")
    # Minute counters go by themselves.
    assert all(client.ttl(key) > 0 and b":rate:" in key for key in client.scan_iter())
    assert "no queue" in redisq.refusal("queue", "rm", "mail", code=1)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_destroy_that_was_interrupted_is_logged_and_continued(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    queue, advance, steps = everywhere(client), DestroySteps.step, 0

    async def interrupted(self: DestroySteps, size: int) -> int | None:
        nonlocal steps
        steps += 1
        if steps == step:
            raise KeyboardInterrupt
        return await advance(self, size)

    monkeypatch.setattr(DestroySteps, "step", interrupted)
    destroy = ("queue", "rm", "mail", "--hard", "--yes", "--reason", "moved away")
    redisq(*destroy, code=130)
    assert "continue with: redisq queue rm mail --hard" in redisq.err
    monkeypatch.undo()
    if step == 1:  # later the audit log is gone
        (logged,) = redisq.rows("log")
        assert (logged["verb"], logged["reason"], logged["ended"]) == (
            "rm",
            "moved away",
            False,
        )
        assert not logged["undoable"] and queue.counts().closed == "moved away"
    redisq(*destroy)
    assert all(client.ttl(key) > 0 and b":rate:" in key for key in client.scan_iter())


def test_settings(redisq: Redisq, client: redis.Redis) -> None:
    queue = everywhere(client)
    shown = {row["name"]: row for row in redisq.rows("settings", "mail")}
    assert (shown["max_lost"]["value"], shown["max_lost"]["default"]) == ("3", True)
    redisq("settings", "mail", "keep_ms=48h", "max_lost=5", "history=all", "--yes")
    assert "keep_ms: 86400000 (1d 0h) to 172800000 (2d 0h)" in redisq.err
    have = {"keep_ms": "172800000", "max_lost": "5", "history": "all"}
    assert queue.settings() == have
    redisq("settings", "mail", "max_lost=", "--yes")
    assert "max_lost" not in queue.settings()
    redisq("undo", "--yes")
    assert queue.settings() == have
    first = redisq.rows("log")[-1]["id"]
    assert redisq.rows("undo", first, "--yes")[0]["done"] == 3
    assert queue.settings() == {}


# --- the delay set ------------------------------------------------------------


def test_schedule_and_reschedule(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = DelaySet(client, "later")
    at = "2100-01-01T00:00:00+01:00"
    for _ in range(2):
        (row,) = redisq.rows("delay", "add", "later/e1", "hello", "--at", at)
        assert row["ready_ms"] == 4_102_441_200_000
    assert row["word"] == "same"
    assert "there already" in redisq.refusal(
        "delay", "add", "later/e1", "other", "--at", at, code=1
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff\n")))
    redisq("delay", "add", "later/e2", "-", "--in", "1h")
    entry = queue.get("e2")
    assert entry is not None and entry.payload == b"\x00\xff\n"
    assert "ready 2099-12-31 23:00:00+00:00" in redisq(
        "delay", "add", "later/e1", "hello", "--at", at, "--utc"
    )
    words = ("delay", "reschedule", "later/e1", "--in", "5m")
    redisq(*words, "--dry-run")
    (outcome,) = redisq.rows(*words, "--yes")
    entry = queue.get("e1")
    assert entry is not None and entry.at_ms is not None
    seconds, _ = client.time()
    assert 280 <= entry.at_ms / 1000 - seconds <= 301
    redisq("undo", outcome["op"], "--yes")
    entry = queue.get("e1")
    assert entry is not None and entry.at_ms == 4_102_441_200_000


# --- refusals -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "fragment"),
    [
        ("replay", 1, "no queue is named, and none is called 'default'"),
        ("replay --queue nope", 1, "no queue 'nope'"),
        ("replay nope", 1, "nothing here is called 'nope'"),
        ("replay mail/r1/99", 1, "no entry r1/99"),
        ("replay mail/nope", 1, "no request nope"),
        ("replay mail/r1/2 mail/r1/99", 1, "no entry r1/99"),
        ("replay a{b}", 2, "can't be used"),
        ("replay mail --match [", 2, "column 1: missing ]"),
        ("replay mail --older-than 5", 2, "not a time span"),
        ("replay mail --max 0", 2, "a whole number from 1 to 1,000,000,000, not 0"),
        ("replay mail --rate fast", 2, "not a rate"),
        ("replay mail --rate 0/s", 2, "not a rate"),
        ("purge mail", 2, "--state: waiting, pending, delayed, dead"),
        ("purge mail/r1", 2, "--state"),
        ("purge mail --state lost", 2, "not 'lost'"),
        ("requeue --queue mail", 2, "--state: pending, delayed"),
        ("dlq requeue mail", 2, "write redisq replay"),
        ("pending replay mail", 2, "write redisq requeue"),
        ("retry mail", 2, "write redisq replay"),
        ("pending claim mail --consumer ~waiting", 2, "reserved"),
        ("pending claim mail --consumer a|b", 2, "can't be used"),
        ("pending claim mail", 2, "Missing option '--consumer'"),
        ("claim mail", 2, "Missing option '--consumer'"),
        ("purge mail --state trash --hard", 2, "use redisq trash rm mail"),
        ("delay reschedule mail --in 5m", 1, "can't reschedule"),
        ("delay reschedule later", 2, "--at or --in"),
        ("delay reschedule later --in 5m --at 03:12", 2, "--at or --in"),
        ("delay reschedule later --at 25:61", 2, "not a time of day"),
        ("delay reschedule later --at 2026-01-01", 2, "lacks a UTC offset"),
        ("delay add later hello --in 5m", 2, "QUEUE/ID"),
        ("delay add later/a|b hello --in 5m", 2, "can't be used"),
        ("delay add later/e9 hello", 2, "--at or --in"),
        ("delay add later/e9 hello --in 99999999d", 2, "a hundred years"),
        ("delay add mail/e9 hello --in 5m", 1, "is a request queue"),
        ("request limit mail/r1 0", 2, "limit 0"),
        ("request limit mail/r1 1001", 2, "limit 1001"),
        ("request limit mail/r1 many", 2, "many"),
        ("request priority mail/r1 100", 2, "priority 100"),
        ("request priority mail/r1 -- -1", 2, "priority -1"),
        ("request pause mail", 2, "is a queue"),
        ("request pause later/e1", 1, "no requests"),
        ("request cancel mail/over", 1, "done already"),
        ("request pause mail/nope", 1, "no request nope"),
        ("queue pause nope", 1, "no queue"),
        ("queue rm mail", 1, "not empty"),
        ("settings mail max_lost=0", 2, "from 1"),
        ("settings mail max_lost=x", 2, "max_lost"),
        ("settings mail keep_ms=soon", 2, "not a time span"),
        ("settings mail history=some", 2, "off, ops or all"),
        ("settings mail nope=1", 2, "no setting 'nope'"),
        ("settings mail max_lost", 2, "NAME=VALUE"),
        ("undo nope-1", 1, "no operation"),
        ("undo", 1, "nothing to undo"),
    ],
)
def test_bad_input_is_one_line_and_touches_nothing(
    redisq: Redisq, client: redis.Redis, words: str, code: int, fragment: str
) -> None:
    queue = everywhere(client)
    queue.submit([], id="over")
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    before = picture(client)
    front, dashes, behind = words.partition(" -- ")
    more = [] if words.startswith("delay add ") else ["--yes"]
    said = redisq.refusal(*front.split(), *more, *dashes.split(), *behind.split(), code=code)
    assert fragment in said
    assert picture(client) == before


def test_a_reason_is_text_and_shown_escaped(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    for words in ("replay mail", "queue pause mail", "request pause mail/r1"):
        said = redisq.refusal(*words.split(), "--reason", "caf\udce9", "--yes", code=2)
        assert "'--reason': not UTF-8" in said
    redisq("replay", "mail", "--reason", "caf\u00e9 \x1b[31m", "--yes")
    assert redisq.rows("log")[0]["reason"] == "caf\u00e9 \x1b[31m"
    assert "\x1b" not in redisq("log")


def test_a_journal_has_any_bytes_escaped_and_stays_readable(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = everywhere(client)
    monkeypatch.setenv("REDISQ_USER", "M\udcfcller")
    redisq("replay", "mail", "--where", '-error~"Ger\udce4t"', "--yes")
    (row,) = redisq.rows("log")
    assert row["user"] == "M\\udcfcller" and "Ger\\udce4t" in row["what"]
    client.hset(queue.keys["op_"] + row["id"], "whence", b"caf\xe9")  # by another hand
    assert redisq.rows("log")[0]["host"] == "caf\\xe9"
    assert "undid" in redisq("undo", row["id"], "--yes")


def test_a_read_only_configuration_refuses_before_any_plan(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere(client)
    monkeypatch.setenv("REDISQ_READ_ONLY", "yes")
    before = picture(client)
    for words in (
        "replay mail",
        "queue pause mail",
        "request cancel r1",
        "settings mail aging=3",
        "delay add later/e1 x --in 5m",
    ):
        more = [] if words.startswith("delay add ") else ["--yes"]
        assert "read-only" in redisq.refusal(*words.split(), *more, code=1)
    redisq("replay", "mail", "--dry-run")
    assert picture(client) == before


def test_a_newer_schema_is_not_touched_and_hides_nothing(
    redisq: Redisq, client: redis.Redis
) -> None:
    everywhere(client)
    client.hset("redisq:registry", "tomorrow", '{"kind":"request","schema":99,"created_ms":0}')
    before = picture(client)
    for words in ("replay --queue tomorrow", "queue pause tomorrow", "replay tomorrow"):
        assert "newer release" in redisq.refusal(*words.split(), "--yes", code=1)
    assert picture(client) == before
    assert redisq.rows("replay", "r1", "--yes")[0]["done"] == 1
    assert redisq.rows("undo", "--yes")[0]["done"] == 1


def test_a_read_only_replica_says_so(redisq: Redisq, own: EmbeddedServer) -> None:
    redisq.url = own.url
    with redis.Redis.from_url(own.url, protocol=3) as client:
        everywhere(client)
        client.replicaof("127.0.0.1", 1)
        before = picture(client)
        for words in ("replay mail", "queue pause mail", "request pause r1"):
            redisq(*words.split(), "--yes", code=1)
            assert "read-only replica" in redisq.err and "stopped after" not in redisq.err
        assert redisq.rows("dlq", "ls", "mail")[0]["id"] == "r1/2"
        assert picture(client) == before


def test_a_full_server_can_still_be_put_right(redisq: Redisq, own: EmbeddedServer) -> None:
    redisq.url = own.url
    with redis.Redis.from_url(own.url, protocol=3) as client:
        queue = everywhere(client)
        client.config_set("maxmemory", 1)
        with pytest.raises(Exception, match="full"):
            queue.submit([b"more"], id="r2")
        assert redisq.rows("dlq", "purge", "mail", "--yes")[0]["done"] == 1
        assert redisq.rows("undo", "--yes")[0]["done"] == 1
        assert redisq.rows("dlq", "purge", "mail", "--hard", "--yes")[0]["done"] == 1
        assert redisq.rows("queue", "pause", "mail", "--yes")[0]["done"] == 1
        assert "full" in redisq.refusal("delay", "add", "later/e1", "x", "--in", "5m", code=1)
        assert len(redisq.rows("log")) == 4
        client.config_set("maxmemory", 0)
        assert queue.invariants() == []


def test_a_key_of_another_type_in_the_way(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    client.delete("redisq:{mail}:dead")
    client.set("redisq:{mail}:dead", "mine")
    before = picture(client)
    assert "another type" in redisq.refusal("replay", "mail", "--yes", code=1)
    assert picture(client) == before


def test_two_queues_are_two_operations(redisq: Redisq, client: redis.Redis) -> None:
    first, second = everywhere(client), everywhere(client, "news")
    outcomes = redisq.rows("replay", "mail/r1/2", "news", "--yes")
    assert [outcome["done"] for outcome in outcomes] == [1, 1]
    assert first.counts().dead == second.counts().dead == 0
    for outcome in outcomes:
        redisq("undo", outcome["op"], "--yes")
    assert first.counts().dead == second.counts().dead == 1


def test_an_error_shown_in_a_plan_is_escaped(redisq: Redisq, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r1")
    (delivery,) = queue.take(1, consumer="w").deliveries
    hostile = ERROR.encoded().replace(b"SMTP", b"\\u001b[31m")
    queue.settle([Settlement(delivery, "fail", hostile, 60)])
    assert "\\x1b[31m" in redisq("delay", "requeue", "mail", "--dry-run")


def test_an_undo_that_found_nothing_untouched_is_not_offered_again(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = everywhere(client)
    redisq("settings", "mail", "aging=16", "--yes")
    redisq("dlq", "replay", "mail", "--yes")
    (replay,) = [row["id"] for row in redisq.rows("log") if row["verb"] == "replay"]
    taken = queue.take(8, consumer="w2").deliveries
    assert any(delivery.id == "r1/2" for delivery in taken)
    redisq("undo", replay, "--yes", code=1)
    assert "untouched" in redisq.refusal("undo", replay, "--yes", code=1)
    said = redisq.refusal("undo", "--yes", code=1)  # never by itself the one before it
    assert f"the latest change, {replay}, can't be undone" in said and "aging" in queue.settings()
    redisq(*shlex.split(said.rpartition("redisq ")[2]))
    assert "aging" not in queue.settings()


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_process_that_comes_to_a_full_server_can_work_and_pause(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    make, fill = KINDS[kind]
    queue = make(client, "q")
    fill(queue)
    client.config_set("maxmemory", 1)
    try:
        taken = make(client, "q").take(3, consumer="w").deliveries
        assert len(taken) == 3
        said = make(client, "q").settle([Settlement(one, "ack") for one in taken])
        assert said == ["done"] * 3
        for verb in ("pause", "resume", "drain"):
            assert redisq.rows("queue", verb, queue.name, "--yes")[0]["done"] == 1
    finally:
        client.config_set("maxmemory", 0)
    assert queue.invariants() == []


def test_undo_and_cancel_of_many_are_confirmed_by_their_number(
    redisq: Redisq, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    RequestQueue(client, "mail").submit([b""] * 1100, id="r1")
    redisq("purge", "mail", "--state", "waiting", "--yes")
    monkeypatch.setattr(confirm_and_run, "interactive", lambda: True)
    for words, left in ((("undo",), 0), (("request", "cancel", "mail/r1"), 1100)):
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        redisq(*words, code=1)
        assert "Type 1100 to go ahead" in redisq.err
        assert RequestQueue(client, "mail").counts().waiting == left
        monkeypatch.setattr(sys, "stdin", io.StringIO("1100\n"))
        redisq(*words)


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "close"), [("stdout", ">&-"), ("stdin", "<&-")])
def test_a_closed_stream_is_no_reason_to_fail(
    url: str, client: redis.Redis, stream: str, close: str
) -> None:
    dead_letters(client, 3)
    command = f"{sys.executable} -m redisq_ops --url {url} replay mail --max 2"
    for words, code in (("--yes", 0), ("", 5)):
        done = subprocess.run(
            ["sh", "-c", f"{command} {words} {close}"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert RequestQueue(client, "mail").counts().waiting == 2


@pytest.mark.slow
@pytest.mark.parametrize("json_", ["", "--json"])
@pytest.mark.usefixtures("on_path")
def test_a_full_stdout_does_not_hide_what_was_done(
    redisq: Redisq, url: str, client: redis.Redis, json_: str
) -> None:
    dead_letters(client, 3)
    command = f"redisq --url {url} replay mail --yes {json_} >/dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    (row,) = redisq.rows("log")
    assert row["done"] == 3 and row["id"] in done.stderr
    assert done.returncode == 0 and "stdout: No space left on device" in done.stderr
    command = f"redisq --url {url} log {json_} >/dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("json_", ["", "--json"])
@pytest.mark.parametrize(
    "words",
    [
        "workers requeue mail w1 --min-idle 0s --yes",
        "delay add later/e x --in 1h",
        "submit /etc/hostname --queue mail",
    ],
)
@pytest.mark.usefixtures("on_path")
def test_a_full_stdout_makes_no_change_look_like_a_failure(
    words: str, json_: str, url: str, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="r")
    queue.take(1, consumer="w1")
    command = f"redisq --url {url} {words} {json_} >/dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "stdout: No space left on device" in done.stderr


def kept_of(client: redis.Redis) -> list[bytes]:
    """Keys of the journal, and of what undoes its changes."""
    return [key for key in client.scan_iter() if re.search(rb":(op|undo|ops)\b", key)]


@pytest.mark.parametrize("kind", list(KINDS))
def test_with_a_queue_goes_what_its_changes_could_be_undone_with(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    make, fill = KINDS[kind]
    queue = make(client, "q")
    fill(queue)
    taken = queue.take(12, consumer="w").deliveries
    queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken])
    for args in (
        ("dlq", "edit", f"{queue.name}/{taken[0].id}", "--payload", "new"),
        ("purge", queue.name, "--state", "dead", "--max", "5"),
        ("undo",),
        ("purge", queue.name, "--state", "dead"),
        ("replay", queue.name),
    ):
        redisq(*args, "--yes")
    # Shares of many hands, each with numbers of its own; and a step that came after a thousand.
    id = run(client, audit_log.log(Deployment(client))).operations[0].id
    run(client, audit_log.note(queue, id, parts=2))
    say = {"source": "waiting", "target": "trash", "high_water_ms": queue.now()}
    ids = [entry.id for entry in queue.page("waiting", max=4).entries]
    for k in range(2):
        queue.move(audit_log.part(id, k), 1 + 1000 * k, ids[2 * k : 2 * k + 2], **say)
    undoing = [key for key in kept_of(client) if b":undo:" in key]
    assert len(undoing) > 3 and any(b":undo:edit-" in key for key in undoing)
    redisq("queue", "rm", queue.name, "--hard", "--yes")
    assert kept_of(client) == []
    assert client.keys("redisq:registry") == []


def test_with_a_request_s_queue_goes_what_cancelling_it_fenced_off(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b""] * 5, id="r1")
    queue.take(1, consumer="w")
    redisq("request", "cancel", "mail/r1", "--yes")
    assert any(b"-fence" in key for key in kept_of(client))
    redisq("queue", "rm", "mail", "--hard", "--yes")
    assert kept_of(client) == []


def test_shards_given_up_keep_nothing_of_a_destroyed_queue_either(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = ShardedDelaySet(client, "q", shards=5)
    queue.schedule([(f"e{n}", b"x") for n in range(50)], after=60)
    redisq("purge", "q", "--state", "delayed", "--max", "20", "--yes")
    assert queue.resize(2) == 0
    assert any(key.startswith(b"redisq:{q/4}:undo:") for key in kept_of(client))
    redisq("queue", "rm", "q", "--hard", "--yes")
    assert kept_of(client) == []


@pytest.mark.parametrize("spoilt", [False, True])
def test_a_journal_that_ran_out_or_was_spoilt_keeps_no_queue_from_going(
    redisq: Redisq, client: redis.Redis, spoilt: bool
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b""] * 5, id="r1")
    redisq("purge", "mail", "--state", "waiting", "--yes")
    old = run(client, audit_log.log(Deployment(client))).operations[0].id
    client.delete(queue.keys["op_"] + old)  # after thirty days
    if spoilt:
        client.zadd(queue.keys["ops"], {"text": 1, "steps": 2})
        client.set(queue.keys["op_"] + "text", "x")
        client.hset(queue.keys["op_"] + "steps", mapping={"steps": 10**15, "parts": "many"})
    redisq("queue", "rm", "mail", "--hard", "--yes")
    left = [key for key in client.scan_iter() if b":rate:" not in key and b":undo:" not in key]
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_queue_of_a_destroyed_ones_name_begins_at_nothing(
    redisq: Redisq, client: redis.Redis, kind: str
) -> None:
    make, fill = KINDS[kind]
    queue = make(client, "q")
    fill(queue)
    assert sum(queue.rates(queue.now()).arrived) >= 25
    redisq("queue", "rm", queue.name, "--hard", "--yes")
    assert client.keys("redisq:*") == []
    again = make(client, "q")
    fill(again)
    redisq("purge", queue.name, "--state", "waiting", "--yes")
    assert sum(again.rates(again.now()).arrived) == again.counts().trash


def test_a_queue_has_settings_before_its_first_submission(
    redisq: Redisq, client: redis.Redis
) -> None:
    assert "max_failures  20" in redisq("settings", "later")
    assert redisq.err == "queue later does not exist yet: these are the defaults\n"
    assert not client.keys()
    redisq("settings", "later", "history=all", "--dry-run")
    assert not client.keys()
    assert "it becomes a request queue" in redisq("settings", "later", "history=all", code=5)
    redisq("settings", "later", "history=all", "trash_ms=1h", "--yes")
    queue = RequestQueue(client, "later")
    queue.submit([b"x"], id="r1")
    rows = {row["name"]: row["value"] for row in redisq.rows("settings", "later")}
    assert (rows["history"], rows["trash_ms"]) == ("all", "3600000")
    assert "r1" in redisq("history", "later")  # of the level "all"
    redisq("undo", "--yes")
    assert queue.settings() == {}
    assert "other programs'" in redisq.refusal("settings", "resque:x", "keep_ms=1", code=2)


def test_a_pause_of_another_program_s_queue_says_who_heeds_it(
    redisq: Redisq, client: redis.Redis
) -> None:
    client.sadd("queues", "low")
    client.lpush("queue:low", '{"class": "A", "args": [], "jid": "1"}')
    said = redisq("queue", "pause", "sidekiq:low", "--dry-run")
    assert "their workers and redisq's heed it, those of Sidekiq alone go on" in said
    assert "no worker gets one" not in said
    said = redisq("queue", "drain", "sidekiq:low", "--dry-run")
    assert "only redisq's workers and producers heed it; Sidekiq's own go on" in said
    client.sadd("resque:queues", "low")
    client.rpush("resque:queue:low", '{"class": "A", "args": []}')
    said = redisq("queue", "pause", "resque:low", "--dry-run")
    assert "only redisq's workers and producers heed it; Resque's own go on" in said
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    said = redisq("queue", "pause", "mail", "--dry-run")
    assert "heed" not in said and said.count("waiting") == 1
