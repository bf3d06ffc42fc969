"""A layout of no program: jobs are hashes, and each queue keeps them in keys of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
import redis

from redisq_ops.core.foreign.declarations import Declared, List, Zset
from redisq_ops.core.foreign.job_hashes import JobHash, JobHashQueue, Note
from redisq_ops.core.foreign.places import Place
from redisq_ops.core.foreign.recogniser import KeyLook, NamedQueues
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.model.quoting import bytes_of
from redisq_ops.core.redis.key_scan import Lane
from redisq_ops.core.redis.operation import C_co, run

from ...queue_steps import ids


class DepotQueue(JobHashQueue[C_co]):
    """``depot:<queue>``; the job of an id is the hash ``depot:<queue>:job:ID``."""

    kind: ClassVar[str] = "depot"
    owner: ClassVar[str] = "Depot"
    home: ClassVar[str] = "depot:"
    package: ClassVar[str] = "foreign.streams"
    theirs: ClassVar[dict[str, str]] = {"queues": "set"}
    states: ClassVar[Mapping[State, Sequence[Declared]]] = {
        "waiting": (List("{q}:jobs", "jobs"),),
        "dead": (Zset("{q}:failed", "failed"),),
    }
    fields: ClassVar[tuple[str, ...]] = ("at", "task")
    of_every_job: ClassVar[tuple[str, ...]] = ("task",)
    wait_fields: ClassVar[tuple[str, ...]] = ("at",)
    paused_by: ClassVar[tuple[str, str] | None] = "{q}:stop", "stopped in Depot"

    def job_key(self, place: Place, id: bytes) -> bytes:
        return bytes_of(place.key.rpartition(":")[0]) + b":job:" + id

    def entry(self, state: State, place: Place, id: str, at_ms: int | None, job: JobHash) -> Entry:
        return Entry(id, state, payload=job.values["task"], called=place.called)

    def waits_since(self, job: JobHash) -> int | None:
        return job.number("at")


@pytest.fixture
def depot(client: redis.Redis) -> Any:
    """A whole deployment of two queues; both have a job 1, each its own."""
    for queue, at in (("low", 7000), ("high", 5000)):
        client.sadd("depot:queues", queue)
        client.rpush(f"depot:{queue}:jobs", 1)
        client.zadd(f"depot:{queue}:failed", {f"{queue}-2": 1})
        for id in (1, f"{queue}-2", f"{queue}-lost"):
            client.hset(f"depot:{queue}:job:{id}", mapping={"task": f"{queue} {id}", "at": at})
    return DepotQueue(client, "depot", own_name="", at="depot:")


def test_a_whole_deployment_is_shown_though_each_queue_has_keys_of_its_own(depot: Any) -> None:
    assert [e.payload for e in depot.page("waiting").entries] == [b"high 1", b"low 1"]
    assert [e.payload for e in depot.page("dead").entries] == [b"high high-2", b"low low-2"]
    assert depot.get("low-2").payload == b"low low-2"
    assert ids(depot.get_many(["high-2", "low-2"])) == ["high-2", "low-2"]
    assert depot.counts().oldest_ms == 5000


def test_a_job_that_no_queue_lists_is_told_whichever_queue_has_its_hash(depot: Any) -> None:
    for id in ("high-lost", "low-lost"):
        with pytest.raises(WrongKind, match="in no list or set"):
            depot.get(id)
    assert depot.get("none") is None


def test_the_key_that_stops_a_queue_is_its_own(client: redis.Redis) -> None:
    client.set("depot:low:stop", 1)
    said = [DepotQueue(client, f"depot:{queue}").counts().paused for queue in ("low", "high")]
    assert said == ["stopped in Depot", None]


def test_a_stamp_tells_what_was_read_and_not_only_what_it_is() -> None:
    whole = ((b"1", b"2"), (b"12", b""), (b"", b"12"), (b"1", None))
    partly = ((b"1", Note(b"2")), (Note(b"2"), b"1"))
    stamps = {JobHash({"a": a, "b": b}).stamp(("a", "b")) for a, b in whole + partly}
    assert len(stamps) == 6


class DepotRecogniser(NamedQueues):
    kind: ClassVar[str] = "depot"
    owner: ClassVar[str] = "Depot"
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("list"), Lane("zset"))
    named: ClassVar[re.Pattern[bytes] | None] = re.compile(rb"(depot:)(.+):(?:jobs|failed)", re.S)


def test_names_of_keys_alone_tell_queues_and_whose_keys_are_theirs(client: redis.Redis) -> None:
    depot = DepotRecogniser()
    looks = [("list", b"depot:low:jobs"), ("hash", b"depot:x:jobs"), ("list", b"depot:low:others")]
    claimed = [run(client, depot.by_name(KeyLook(type, key, 0))) for type, key in looks]
    assert claimed == [True, False, False]
    assert [(find.at, find.what) for find in run(client, depot.finds())] == [(b"depot:", b"low")]
    keys = (b"depot:low:failed", b"depot:high:failed", b"depot:low:others")
    assert [depot.owns(key) for key in keys] == [True, False, False]
