"""What another program does between an operator's look and the script that changes the entry.

Every key and field that mentions the entry is changed, one at a time, at exactly that moment. The
entry is skipped and nothing is written, or the change is one that doesn't matter: `MATTERS` says
which do, and the test finds out whether the kind agrees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue_types import LAYOUTS
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Description, exchange

from .test_conformance import SPECIMENS, ids, steps

Client = redis.Redis
Snapshot = dict[bytes, tuple[bytes, int]]

MATTERS: dict[str, str] = {
    "rq": r"(failed|scheduled):low score|.* gone|job:{id} (status|created_at|enqueued_at|ended_at)",
    "bullmq": r"(failed|delayed|prioritized) score|.* gone"
    r"|{id} (timestamp|processedOn|finishedOn|atm)",
    "dramatiq": r".*",
    "arq": r".*",
    "celery": r".*",
    "sidekiq": r".*",
    "resque": r".*",
}
"""kind -> the changes after which its entry is another one: the key without the owner's prefix, and
what is changed there"""


def snapshot(client: Client) -> Snapshot:
    return {key: (client.dump(key), client.pexpiretime(key)) for key in client.scan_iter()}  # type: ignore[misc]


def restore(client: Client, kept: Snapshot) -> None:
    client.flushall()
    for key, (data, until) in kept.items():
        client.restore(key, max(0, until), data, absttl=until > 0)


def changes(client: Client, id: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    """What mentions the entry: its name, with {id} for the id, and how to change it."""
    mentions = re.compile(rb"(?<![\w-])" + re.escape(id) + rb"(?![\w-])").search
    anything: Any = client
    for key in sorted(client.scan_iter()):
        if b"redisq:" in key:
            continue
        of, name = client.type(key), key.replace(id, b"{id}").decode()

        def do(*words: Any) -> Callable[[], object]:
            return lambda: anything.execute_command(*words)

        if of == b"zset":
            for member, score in anything.zrange(key, 0, -1, withscores=True):
                if mentions(member):
                    yield f"{name} score", do("ZADD", key, score + 1, member)
                    yield f"{name} gone", do("ZREM", key, member)
        elif of == b"list":
            for at, element in enumerate(anything.lrange(key, 0, -1)):
                if mentions(element):
                    yield f"{name} gone", do("LREM", key, 0, element)
                    yield f"{name} changed", do("LSET", key, at, element + b" ")
        elif of == b"hash":
            for field, value in anything.hgetall(key).items():
                if mentions(key) or mentions(field):
                    shown = field.replace(id, b"{id}").decode()
                    yield f"{name} {shown}", do("HSET", key, field, value + b"0")
        elif of == b"string" and mentions(key):
            yield f"{name} changed", do("APPEND", key, b" ")
            yield f"{name} gone", do("DEL", key)
        elif of == b"set" and anything.sismember(key, id):
            yield f"{name} gone", do("SREM", key, id)
        if mentions(key) and of != b"string":
            yield f"{name} gone", do("DEL", key)


def raced(client: Client, change: Description[list[str]], meanwhile: Callable[[], object]) -> Any:
    """Run a change; ``meanwhile`` comes between its last look and its script."""
    assert not hasattr(change, "result")
    try:
        calls = change.send(None)  # type: ignore[union-attr]
        while True:
            if any(call.source for call in calls):
                meanwhile()
            calls = change.send(exchange(client, calls))  # type: ignore[union-attr]
    except StopIteration as stop:
        return stop.value


def cases() -> Iterator[Any]:
    for param in steps():
        name, verb, state = param.values
        if name in LAYOUTS and state in ("waiting", "delayed", "dead") and verb != "hard":
            yield pytest.param(name, verb, state, id=param.id)


@pytest.mark.parametrize(("name", "verb", "state"), cases())
def test_an_entry_that_changes_after_the_look_is_left_alone(
    client: Client, name: str, verb: Verb, state: State
) -> None:
    queue: Any = SPECIMENS[name](client)
    (id,) = ids(queue, state)[-1:]
    entry = queue.get(id)

    def step(seq: int) -> Description[list[str]]:
        now = queue.now()
        made: Description[list[str]] = queue.move.op(
            "op-1", seq, [id], source=state, target=VERBS[verb][1], high_water_ms=now + 60_000,
            lease_ms=now + 7_200_000 if verb == "reschedule" else 60_000,
        )  # fmt: skip
        return made

    raced(client, queue.would_move.op([id], state, VERBS[verb][1]), lambda: None)  # registers
    kept = snapshot(client)
    said: dict[str, tuple[str, bool]] = {}
    made = list(changes(client, (entry.payload if name == "celery" else id.encode()) and id.encode()))
    assert made
    for seq, (what, change) in enumerate(made):
        before: list[Snapshot] = []

        def meanwhile() -> None:
            change()
            before.append(snapshot(client))

        (word,) = raced(client, step(seq), meanwhile)
        theirs = {k: v for k, v in snapshot(client).items() if b"redisq:" not in k}
        was = {k: v for k, v in before[-1].items() if b"redisq:" not in k}
        said[what] = word, theirs == was
        if theirs != was and word != "moved": print([(k, theirs.get(k), was.get(k)) for k in {*theirs,*was} if theirs.get(k)!=was.get(k)][:3])
        restore(client, kept)
    for what, (word, same) in said.items():
        print(name, verb, state, what, word, same)
