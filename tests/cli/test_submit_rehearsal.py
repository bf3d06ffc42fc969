"""`submit --dry-run` refuses what submit refuses, in the same words, and writes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author

from ..command_line import Redisq
from ..model.wire import picture

Client = redis.Redis


def closed(client: Client) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="old")
    run(client, control.drain(queue, Author("ada", "laptop")))


def full(client: Client) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"], id="old")
    client.hset(queue.keys["cfg"], "max_waiting", 3)


def other_content(client: Client) -> None:
    queue = RequestQueue(client, "mail")
    for id in ("r", "r-2"):
        queue.submit([b"one", b"other", b"three"], id=id)


def cancelled(client: Client) -> None:
    other_content(client)
    queue = RequestQueue(client, "mail")
    queue.control("cancel-1", 1, "cancel", "r")
    queue.control("cancel-1", 2, "cancel", "r-2")


def other_kind(client: Client) -> None:
    FairQueue(client, "mail").submit("ann", [("e", b"x")])


def other_type(client: Client) -> None:
    client.set("redisq:{mail}:prios", "x")


def nothing(client: Client) -> None:
    client.set("unrelated", "x")


@pytest.mark.alike
@pytest.mark.parametrize("per_line", [False, True])
@pytest.mark.parametrize(
    ("before", "more"),
    [
        (closed, []),
        (full, []),
        (other_content, []),
        (cancelled, []),
        (other_kind, []),
        (other_type, []),
        (nothing, ["--queue", "sidekiq:x"]),
        (nothing, ["--queue", "sidekiq:x", "--in", "1h"]),
        (nothing, ["--id", "a/b"]),
        (nothing, ["--priority", "100"]),
        (nothing, ["--limit", "0"]),
        (nothing, ["--max-payload", "3"]),
    ],
)
def test_it_refuses_what_submit_refuses(
    redisq: Redisq,
    client: Client,
    tmp_path: Path,
    before: Callable[[Client], None],
    more: list[str],
    per_line: bool,
) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"one\ntwo\nthree\n")
    before(client)
    words = ["submit", str(file), "--queue", "mail", "--id", "r", *more]
    words += ["--per-line"] if per_line else []
    was = picture(client)
    redisq(*words, "--dry-run", code=None)
    code, said = redisq.code, redisq.err
    assert code and picture(client) == was
    redisq(*words, code=None)
    assert redisq.code == code
    if "--max-payload" not in more:
        (last,) = said.splitlines()
        # How many wait has changed by then.
        assert last.split("; ")[0].rpartition("entries wait")[2] in redisq.err


def fair(client: Client) -> Any:
    FairQueue(client, "mail").submit("ann", [("r-2", b"other")])
    return FairQueue(client, "mail")


def delay(client: Client) -> Any:
    DelaySet(client, "mail").schedule([("r-2", b"other")])
    return DelaySet(client, "mail")


def circular(client: Client) -> Any:
    CircularQueue(client, "mail").push([("r-2", b"other")])
    return CircularQueue(client, "mail")


@pytest.mark.parametrize(
    ("made", "more"),
    [(fair, ["--for-client", "ann"]), (delay, ["--in", "1h"]), (delay, []), (circular, [])],
)
def test_entries_of_a_queue_without_requests(
    redisq: Redisq, client: Client, tmp_path: Path, made: Callable[[Client], Any], more: list[str]
) -> None:
    queue, file = made(client), tmp_path / "in"
    file.write_bytes(b"one\ntwo\n")
    words = ["submit", str(file), "--queue", "mail", "--id"]

    def refused(*more: str) -> str:
        was = picture(client)
        said = redisq.refusal(*words, *more, "--dry-run", code=2 if "--wait" in more else 1)
        assert picture(client) == was
        assert redisq.refusal(*words, *more, code=redisq.code).splitlines()[-1] == said
        return said

    assert "are for requests" in refused("new", *more, "--wait")
    if not queue.pushes_again:
        assert "r-2 exists with other content" in refused("r", *more)
    assert "2 entries, not sent" in redisq(*words, "new", *more, "--dry-run")
    (row,) = redisq.rows(*words, "new", *more)
    assert (row["word"], row["total"], row["state"]) == ("ok", 2, None)
    found = [queue.get(f"new-{n}") for n in (1, 2)]
    assert [entry.payload for entry in found] == [b"one", b"two"]
    if more[:1] != ["--in"]:  # of which each call means another time
        assert redisq.rows(*words, "new", *more)[0]["word"] == "same"
    client.hset(queue.keys["cfg"], "max_waiting", 3)
    assert "max_waiting is 3" in refused("full", *more)
    run(client, control.drain(queue, Author("ada", "laptop")))
    assert "draining" in refused("full", *more)


@pytest.mark.parametrize(
    ("more", "kind"),
    [(["--for-client", "ann"], "fair"), (["--in", "1h"], "delay"), ([], "request")],
)
def test_a_new_queue_is_of_the_kind_that_the_options_need(
    redisq: Redisq, client: Client, tmp_path: Path, more: list[str], kind: str
) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"one\ntwo\n")
    words = ["submit", str(file), "--queue", "mail", "--id", "r", *more]
    redisq(*words, "--dry-run")
    assert client.dbsize() == 0
    redisq(*words)
    (row,) = redisq.rows("ls", "mail")
    assert (row["kind"], row["waiting"] + row["delayed"]) == (kind, 2)


@pytest.mark.alike
@pytest.mark.parametrize(("made", "more"), [(fair, ["--for-client", "ann"]), (delay, [])])
def test_entries_that_are_done_are_not_added_again(
    redisq: Redisq, client: Client, tmp_path: Path, made: Callable[[Client], Any], more: list[str]
) -> None:
    queue, file = made(client), tmp_path / "in"
    file.write_bytes(b"one\ntwo\n")
    words = ["submit", str(file), "--queue", "mail", "--id", "new", *more]
    redisq(*words)
    taken = queue.take(9, consumer="w").deliveries
    queue.settle([Settlement(each, "ack") for each in taken])
    assert redisq.rows(*words)[0]["word"] == "same"
    file.write_bytes(b"one\ntwo\nthree\n")
    redisq(*words)
    assert [each.id for each in queue.take(9, consumer="w").deliveries] == ["new-3"]


def test_it_accepts_what_submit_continues(redisq: Redisq, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"one\ntwo\nthree\n")
    words = ("submit", str(file), "--queue", "mail", "--id", "r")
    for per_line in ([], ["--per-line"]):
        assert "3 lines" in redisq(*words, *per_line, "--dry-run")
        assert client.exists("redisq:queues") + len(client.keys("*{mail}*")) == 0 or per_line
        redisq(*words, *per_line)
        assert "3 lines" in redisq(*words, *per_line, "--dry-run")


def test_it_refuses_a_user_without_rights(redisq: Redisq, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"one\n")
    command: Any = client.execute_command  # untyped in redis-py
    command(
        "ACL",
        "SETUSER",
        "reader",
        "on",
        ">secret",
        "~*",
        "+@read",
        "+@connection",
        "+info",
        "+time",
        "+evalsha",
        "+eval",
    )
    try:
        redisq.url = redisq.url.replace("redis://", "redis://reader:secret@")
        for exists in (False, True):
            said = redisq.refusal("submit", str(file), "--queue", "mail", "--dry-run", code=1)
            assert "reader" in said or "ACL" in said
            if not exists:
                RequestQueue(client, "mail").submit([b"x"], id="old")
    finally:
        command("ACL", "DELUSER", "reader")
