"""Every argument of every public call, of a wrong type, unit or size: an error of ours that names
it, and nothing is written. The calls are found, not listed: a new one is tested, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, product
from typing import Any

import pytest
import redis

import redisq_ops
from redisq_ops import Delivery, Job, Periodic, Settlement, async_wait, connect, tasks, wait
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import BadInput, RedisqError
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.fair.client import ClientQueue

WRONG: list[Any] = [
    *(None, True, "9", "", b"x", -1, 0, 1.5, 10**20, 10**400, float("nan"), float("inf")),
    *("\ud800", "a b", datetime(2026, 1, 1), datetime.max.replace(tzinfo=UTC), timedelta.max),
    *([5], [None], ["x"], [b"x"], [[]], {"a": 1}, object(), print, Ellipsis),
]
DELIVERY = Delivery("q", "e", b"x", "1-a", 0, 0, 0, "w")
GOOD: dict[str, Any] = {
    **{"id": "e", "ids": ["e"], "client": "ann", "consumer": "w", "state": "dead", "name": "p"},
    **{"payloads": [b"x"], "before": "0", "after": "0", "start": 1, "n": 1, "shards": 2},
    **{"deliveries": [DELIVERY], "settlements": [Settlement(DELIVERY, "ack")], "now_ms": 10**12},
    **{
        "target": print,
        "weight": 2,
        "cap": 2,
        "rate": "10/s",
        "op": "op-1",
        "spec": Periodic("p", "* * * * *"),
        "specs": [Periodic("p", "* * * * *")],
        "ending": "~cron",
    },
    "entries": [("e", b"x")],
    "jobs": [Job("A", [])],
}
CLASSES: list[type[Queue[Any]]] = [
    getattr(redisq_ops, name)
    for name in redisq_ops.__all__
    if (name.endswith(("Queue", "Set")) and not name.startswith("Sharded"))
    or name == "ShardedDelaySet"
]


def opened(cls: type[Any], client: Any) -> Any:
    foreign = cls.__module__.startswith("redisq_ops.core.foreign") or cls.kind == "carmine"
    return cls(client, f"{cls.kind}:q" if foreign else "q")


def arguments(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(call).parameters
    return {name: each for name, each in found.items() if name != "self"}


def wrong_calls(call: Callable[..., Any]) -> Iterator[tuple[str, Any, Callable[[], Any]]]:
    """For each argument and each wrong value: their names and a call with it."""
    names = arguments(call)
    good = {name: GOOD[name] for name, each in names.items() if each.default is each.empty}
    for name, value in product(names, WRONG):
        yield name, value, partial(call, **good | {name: value})
        if name != "state" and "state" in good:
            yield name, value, partial(call, **good | {name: value, "state": "waiting"})


def writes(client: redis.Redis) -> int:
    """How many writes the server has counted."""
    info: Any = client.info("persistence")
    return int(info["rdb_changes_since_last_save"])


def refused(client: redis.Redis, name: str, value: Any, call: Callable[[], Any]) -> str:
    """What is wrong with a call: it raised what isn't ours, or wrote before it refused."""
    before = writes(client)
    try:
        result = call()
        if inspect.isgenerator(result):
            result.close()
    except RedisqError as error:
        text = str(error)
        if "\n" in text or len(text) > 400:
            return f"{name}={value!r:.40}: {text!r:.200}"
        return "" if writes(client) == before else f"{name}={value!r:.40}: refused after a write"
    except TimeoutError:
        return ""
    except Exception as error:
        return f"{name}={value!r:.40}: {type(error).__name__}: {error!s:.80}"
    return ""


@pytest.mark.alike
@pytest.mark.parametrize("cls", [*CLASSES, ClientQueue], ids=lambda cls: cls.__name__)
def test_a_wrong_argument_of_a_queues_call_is_an_error_of_ours(
    client: redis.Redis, cls: type[Any]
) -> None:
    faults = set()
    queue = FairQueue(client, "q").of("ann") if cls is ClientQueue else opened(cls, client)
    names = [name for name in dir(cls) if not name.startswith("_")]
    for method in (getattr(queue, name) for name in names):
        if not callable(method):
            continue
        for name, value, call in wrong_calls(method):
            if said := refused(client, name, value, call):
                faults.add(f"{method.__name__}({said})")
    assert not sorted(faults)


def made(client: Any) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Calls that a queue's methods don't show: how values and queues are made, and what waits."""
    later, mail = redisq_ops.DelaySet(client, "q"), redisq_ops.RequestQueue(client, "q")
    jobs = redisq_ops.SidekiqQueue(client, "sidekiq:q")

    made: Any = tasks.Tasks("made")
    number = count()

    def job(x: int = 0) -> int:
        return x

    made.connect(client)
    task = made.task()(job)
    ended = task.submit()
    made.worker(burst=True).run()

    def settled(**fields: Any) -> Any:
        return later.settle([Settlement(**fields)])

    return {
        "Periodic": (
            lambda **fields: later.set_periodic(Periodic(**fields)),
            {"name": "p", "cron": "* * * * *", "payload": b"", "zone": "UTC", "missed": "one"}
            | {"overlap": False},
        ),
        "Job": (
            lambda **fields: jobs.push([Job(**fields)]),
            {"klass": "A", "args": [], "jid": "", "options": {}},
        ),
        "Settlement": (
            settled,
            {"delivery": DELIVERY, "outcome": "fail", "value": b"", "delay": 0},
        ),
        "Delivery": (
            lambda **fields: settled(delivery=DELIVERY._replace(**fields), outcome="fail"),
            {"id": "e", "receipt": "1-a", "consumer": "w"},
        ),
        "Worker": (
            partial(redisq_ops.Worker, mail, print),
            {"lease": 30, "grace": 25, "timeout": None, "consumer": None, "concurrency": 8}
            | {"batch": 1, "burst": True, "in_order": False},
        ),
        "run_processes": (
            lambda n: n == 1 or redisq_ops.run_processes(n, str),
            {"n": 1},
        ),
        "Tasks": (
            tasks.Tasks,
            {"name": "jobs", "url": None, "prefix": None, "levels": ["default"], "release": None}
            | {"concurrency": 8},
        ),
        "Tasks.task": (
            lambda function, **options: tasks.Tasks().task(**options)(function),
            {"function": job, "name": None, "retries": 5, "backoff": 1, "timeout": 30}
            | {"priority": None},
        ),
        "Tasks.cron": (
            lambda **fields: made.cron(**fields)(made.task(name=f"t{next(number)}")(job)),
            {"expression": "* * * * *", "zone": "UTC", "missed": "one", "overlap": False},
        ),
        "Tasks.hook": (
            lambda when, function: tasks.Tasks().hook(when)(function),
            {"when": "before", "function": print},
        ),
        "Task.submit": (
            task.submit,
            {"in_": None, "at": None, "unique": None, "priority": None, "then": (), "x": 1}
            | {"expires": None},
        ),
        "Task.map": (task.map, {"values": [], "limit": 1, "then": ()}),
        "Task.job": (task.job, {"id": "e", "priority": None}),
        "Job.result": (ended.result, {"timeout": 0}),
        "wait": (partial(wait, mail), {"ids": "r", "timeout": 0, "progress": None, "reread": 1}),
        "connect": (connect, {"url": None, "context": None, "prefix": None, "role": "x"}),
        "DelaySet": (partial(redisq_ops.DelaySet, client), {"name": "q", "prefix": None}),
        "CircularQueue": (
            partial(redisq_ops.CircularQueue, client, "q"),
            {"turns": 3, "pause": 1, "residence": None, "idle": None},
        ),
        "ShardedDelaySet": (partial(redisq_ops.ShardedDelaySet, client, "q"), {"shards": 2}),
    }


@pytest.mark.alike
def test_a_wrong_argument_of_other_calls_is_an_error_of_ours(client: redis.Redis) -> None:
    faults = set()
    for what, (call, good) in made(client).items():
        call(**good)  # which is right
        for name, value in product(good, WRONG):
            if said := refused(client, name, value, partial(call, **good | {name: value})):
                faults.add(f"{what}({said})")
    assert not sorted(faults)


def test_no_public_argument_has_its_unit_in_its_name() -> None:
    """Durations are seconds or timedeltas; what ends in _ms is a time that a server returned."""
    names = set[str]()
    for public in (getattr(home, name) for home in (redisq_ops, tasks) for name in home.__all__):
        methods = dir(public) if inspect.isclass(public) else []
        for call in (public, *(getattr(public, name) for name in methods if name[0] != "_")):
            with suppress(ValueError, TypeError):  # has no signature: a module, a C function
                names |= {*arguments(call)}
    assert {"lease", "grace", "timeout", "interval", "silent", "delay", "after"} <= names
    times = {"now_ms", "deadline_ms", "taken_ms"}
    assert {one for one in names if one.endswith(("_ms", "_s"))} == times


def test_one_id_is_waited_for_as_it_is_and_other_mistakes_are_told_before_waiting(
    client: redis.Redis,
) -> None:
    queue = redisq_ops.RequestQueue(client, "q")
    queue.submit([], id="abc")
    assert [request.id for request in wait(queue, "abc", 5)] == ["abc"]
    circle: Any = redisq_ops.CircularQueue(client, "q")
    mistakes: list[tuple[Callable[[], Any], str]] = [
        (lambda: wait(queue, ["a", 5]), "ids must be texts (str), not int"),  # type: ignore[list-item]
        (lambda: wait(queue, "abc", "5"), "timeout is seconds or a timedelta, not str"),  # type: ignore[arg-type]
        (lambda: wait(circle, "a"), "delay set or a fair queue, not CircularQueue"),
        (lambda: async_wait(queue, "abc"), "queue has a client that is blocking"),  # type: ignore[arg-type]
    ]
    for call, said in mistakes:
        with pytest.raises(BadInput) as refusal:
            call()
        assert said in str(refusal.value)
