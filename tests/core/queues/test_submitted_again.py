"""What is said of a submission that is sent again: `same` only where the entry is there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue_classes import queue_class, sharded_class
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.pipeline.sink.input_split import DatasetOptions
from redisq_ops.pipeline.sink.request_writer import RequestWriter
from redisq_ops.pipeline.source.connection import Server

from ...command_line import Redisq

SUBMIT: dict[str, Callable[[Any], str]] = {
    "request": lambda q: str(q.submit([b"one", b"two"], id="e").word),
    "delay": lambda q: str(q.schedule([("e", b"one")], after=0)[0].word),
    "fair": lambda q: str(q.submit("ann", [("e", b"one")])[0].word),
    "circular": lambda q: str(q.push([("e", b"one")])[0]),
    "carmine": lambda q: str(q.enqueue([("e", b"one")])[0].word),
}
WORDS = {  # of an entry in the trash, and of one that is back
    "request": ("trash", "same"),
    "delay": ("trash", "exists"),  # restored, it is due now: another time
    "fair": ("trash", "same"),
    "circular": ("new", "queued"),  # a push of what was purged is a fresh start
    "carmine": ("trash", "queued"),
}


@pytest.fixture(params=[(kind, shards) for kind in SUBMIT for shards in (1, 3)], ids=str)
def queue(client: redis.Redis, request: pytest.FixtureRequest) -> Any:
    kind, shards = request.param
    name = "carmine:q" if kind == "carmine" else "q"
    if shards > 1:
        return sharded_class(kind)(client, name, shards=shards)
    made = queue_class(kind)
    assert made is not None
    return made(client, name)


def test_what_was_purged_is_not_the_same(redisq: Redisq, queue: Any) -> None:
    purged, back = WORDS[queue.kind]
    SUBMIT[queue.kind](queue)
    redisq("purge", queue.name, "--state", "waiting", "--yes")
    assert SUBMIT[queue.kind](queue) == purged
    if purged == "trash":
        assert queue.counts().waiting == 0
        redisq("trash", "restore", queue.name, "--yes")
    assert SUBMIT[queue.kind](queue) == back


def test_a_former_home_of_a_client_is_asked_too(client: redis.Redis, redisq: Redisq) -> None:
    queue: Any = sharded_class("fair")(client, "q", shards=3)

    def submitted() -> set[str]:
        return {queue.submit(f"client-{n}", [(f"e{n}", b"one")])[0].word for n in range(20)}

    assert submitted() == {"ok"}
    queue.resize(7)
    redisq("purge", "q", "--state", "waiting", "--yes")
    assert submitted() == {"trash"}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\nthree\n")
    return str(path)


def test_a_request_that_was_purged_in_part_is_refused(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    submit = ("submit", file, "--queue", "q", "--id", "r")
    redisq(*submit)
    assert redisq.rows(*submit)[0]["word"] == "same"
    redisq("purge", "q/r/2", "--yes")
    for more in ([], ["--dry-run"]):
        said = redisq.refusal(*submit, *more, code=1)
        assert said.startswith(
            "request r was submitted before, but 1 of its 3 sub-requests were purged or moved to "
            "another queue: undo that, or use another id (--id)"
        )
    redisq("trash", "rm", "q", "--yes")  # for good
    assert "1 of its 3" in redisq.refusal(*submit, code=1)
    redisq("purge", "q", "--state", "waiting", "--yes")
    assert "3 of its 3" in redisq.refusal(*submit, code=1)


def test_a_request_per_line_goes_on_behind_what_was_purged(
    client: redis.Redis, redisq: Redisq, file: str
) -> None:
    submit = ("submit", file, "--queue", "q", "--id", "r", "--per-line")
    redisq(*submit)
    redisq("purge", "q/r-2/1", "--yes")
    Path(file).write_text("one\ntwo\nthree\nfour\n")
    (done,) = redisq.rows(*submit, code=3)
    assert (done["word"], done["total"], done["purged"]) == ("ok", 4, 1)
    assert redisq.rows(*submit, "--dry-run", code=3)[0]["purged"] == 1
    redisq(*submit, code=3)
    assert "1 request of these, the first r-2, had been submitted before" in redisq.err
    redisq("purge", "q", "--state", "waiting", "--yes")
    assert redisq.rows(*submit, code=1)[0]["purged"] == 4


def test_an_entry_in_the_trash_is_not_scheduled(redisq: Redisq) -> None:
    schedule = ("delay", "add", "later/e", "--at", "2099-01-01T00:00:00Z", "payload")
    redisq(*schedule)
    redisq(*schedule)
    redisq("delay", "purge", "later/e", "--yes")
    said = redisq.refusal(*schedule, code=1)
    assert "is in the trash" in said and "redisq trash restore later/e" in said


@pytest.mark.parametrize("rows", [3, 250])
def test_a_dataset_reports_what_was_purged(client: redis.Redis, redisq: Redisq, rows: int) -> None:
    def submitted() -> Any:
        options = DatasetOptions("q", id="id")
        writer = RequestWriter(Server(ServerAddress(redisq.url)), options, "job")
        return writer.write(("r", 5, [b"x"]) for _ in range(rows))

    assert submitted().requests == {"ok": 1}
    assert submitted().requests == {"same": 1}
    redisq("purge", "q/r/1", "--yes")
    done = submitted()
    assert (done.requests, done.entries) == ({"trash": 1}, 0)
    assert f"1 of its {rows} sub-requests were purged" in done.samples["trash"][0]
