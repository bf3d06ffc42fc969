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

from redisq_ops.core.engine.queue_types import KINDS, LAYOUTS
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.commands import coroutine_of
from redisq_ops.core.redis.operation import Description, exchange, run

from .test_conformance import SPECIMENS, steps

Client = redis.Redis
Snapshot = dict[bytes, tuple[bytes, int]]

MATTERS: dict[str, str] = {
    "rq": r"\S+ (score|changed)|rq:(failed|scheduled|queue):low gone"
    r"|rq:job:{id} (gone|status|created_at|enqueued_at|ended_at)",
    "bullmq": r"bull:mail:\S+ (score|gone)"
    r"|bull:mail:{id} (timestamp|processedOn|finishedOn|atm|name|data|opts|priority)",
    "dramatiq": r".*",
    "arq": r".*",
    "celery": r".*",
    "sidekiq": r".*",
    "resque": r".*",
}
"""kind -> after which changes its entry is another one: the key, and what is changed there"""


def snapshot(client: Client) -> Snapshot:
    return {key: (client.dump(key), client.pexpiretime(key)) for key in client.scan_iter()}  # type: ignore[misc]


def owners(kept: Snapshot) -> Snapshot:
    """Without our own keys beside the owner's."""
    return {key: value for key, value in kept.items() if b"redisq:" not in key}


def restore(client: Client, kept: Snapshot) -> None:
    client.flushall()
    for key, (data, until) in kept.items():
        client.restore(key, max(0, until), data, absttl=until > 0)


def changes(client: Client, entry: Entry) -> Iterator[tuple[str, Callable[[], object]]]:
    """What mentions the entry: its name, with {id} for the id, and how to change it."""
    anything: Any = client
    id = entry.id.encode()
    whole = re.compile(rb"(?<![\w-])" + re.escape(id) + rb"(?![\w-])")

    def mentions(text: bytes) -> bool:  # a job of Resque has no id
        return bool(whole.search(text) or (entry.payload and entry.payload in text))

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
    coroutine = coroutine_of(change)
    try:
        calls = coroutine.send(None)
        while True:
            if any(call.source for call in calls):
                meanwhile()
            calls = coroutine.send(exchange(client, calls))
    except StopIteration as stop:
        return stop.value


def cases() -> Iterator[Any]:
    for param in steps():
        name, verb, state = param.values
        if (
            name in LAYOUTS
            and name not in KINDS
            and state in ("waiting", "delayed", "dead")
            and verb != "hard"
        ):
            yield pytest.param(name, verb, state, id=param.id)


@pytest.mark.alike
@pytest.mark.parametrize(("name", "verb", "state"), cases())
def test_an_entry_that_changes_after_the_look_is_left_alone(
    client: Client, name: str, verb: Verb, state: State
) -> None:
    queue: Any = SPECIMENS[name](client)
    held = ("rq", "deferred")  # until other jobs end: nobody else may move it
    found = queue.page(state, max=1000).entries
    entry = [entry for entry in found if (queue.kind, entry.called) != held][-1]

    def step(seq: int) -> Description[list[str]]:
        now = queue.now()
        made: Description[list[str]] = queue.move.op(
            "op-1", seq, [entry.id], source=state, target=VERBS[verb][1],
            high_water_ms=now + 60_000, lease_ms=now + 7_200_000,
        )  # fmt: skip
        return made

    run(client, queue._ensure_registered())
    kept = snapshot(client)
    disagreed = []
    made = list(changes(client, queue.get(entry.id)))
    assert made
    for seq, (what, change) in enumerate(made):
        was: list[Snapshot] = []

        def meanwhile(change: Callable[[], object] = change, was: list[Snapshot] = was) -> None:
            change()
            was.append(owners(snapshot(client)))

        (word,) = raced(client, step(seq), meanwhile)
        assert word == "moved" or owners(snapshot(client)) == was[0], f"half done: {what}"
        if (word == "moved") is bool(re.fullmatch(MATTERS[name], what)):
            disagreed.append((what, word))
        restore(client, kept)
    assert not disagreed
    assert raced(client, step(99), lambda: None) == ["moved"]
