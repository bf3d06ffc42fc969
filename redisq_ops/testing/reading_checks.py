"""Whether a kind shows what is there, whatever is written beside it, and writes nothing."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from redisq_ops.core.model.entry import STATES, Entry, State
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.model.quoting import text
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import Discovery, RegisteredFind, named

from .interference import interrupted
from .stage import Stage, Step

SCORES: Mapping[str, Callable[[int, float], float]] = {
    "a fraction apart": lambda n, score: score + n / 10,
    "equal": lambda n, score: 1_900_000_000.25,
    "infinite": lambda n, score: math.inf if n % 2 else -math.inf,
    "negative": lambda n, score: -float(n) / 3,
}
ODD = b"\xff\xfe {*}|\x00"
"""bytes that no program would choose"""


def statements(stage: Stage, checks: Collection[str] = ()) -> Iterator[str]:
    """The specimen has an entry for every verb, and no statement about what isn't there."""
    specimen = stage.specimen
    steps = {(step.verb, step.state) for step in stage.steps}
    for verb, states in stage.deeds.items():
        for state in states:
            refused = stage.movable(state) and not stage.of_deed(verb, state)
            if state != "trash" and (verb, state) not in steps and not refused:
                yield f"{verb} of {state} entries isn't tried: there is none"
    for verb, state in specimen.own_verbs.keys() - steps:
        yield f"own_verbs has {verb} of {state} entries, which the kind doesn't do"
    for name in specimen.skips.keys() - checks:
        yield f"skips has {name}, and there is no such check"
    known = {id for ids in stage.stated.values() for id in ids}
    for odd in (specimen.fixed - known) | (specimen.unordered - set(STATES)):
        yield f"fixed or unordered has {odd}, which isn't there"


def recognition(stage: Stage) -> Iterator[str]:
    """`discover` finds another program's queue, and takes none of its keys for another kind's."""
    found = run(stage.client, _found(Deployment(stage.client)))
    name = stage.specimen.queue
    if stage.queue.owner and name not in (row.entry.name for row in found):
        yield f"discover doesn't find it, but {_some([row.entry.name for row in found])}"
    for row in found:
        if row.find.kind != stage.queue.kind and row.find.what in stage.theirs.keys:
            yield f"discover takes key {text(row.find.what)} for {row.entry.name}"


async def _found(deployment: Deployment) -> list[RegisteredFind]:
    discovery = Discovery(deployment)
    while await discovery.step():
        pass
    return await named(deployment, await discovery.finds())


def states(stage: Stage) -> Iterator[str]:
    """Each state has the stated entries, in the stated order, on pages of any size."""
    counts = stage.queue.full_counts()
    for state in STATES:
        stated, found = [*stage.stated.get(state, ())], stage.ids(state)
        ordered = sorted if state in stage.specimen.unordered else list
        if ordered(found) != ordered(stated):
            yield f"{state} has {_some(found)} where the specimen has {_some(stated)}"
        if counts.of(state) not in (None, len(stated)):
            yield f"{counts.of(state)} {state} entries are counted, and there are {len(stated)}"
        for size in (1, 3):
            if ordered(stage.ids(state, size)) != ordered(found):
                yield f"pages of {size} of the {state} entries are others than one page of all"
        for id in found:
            entry = stage.queue.get(id)
            if entry is None or (entry.id, entry.state) != (id, state):
                yield f"the {state} entry {id} isn't found by its id"


def shown(stage: Stage) -> Iterator[str]:
    """Payloads and times are shown as the specimen states them."""
    for id, payload in stage.specimen.payloads(stage.client).items():
        if not _same(payload, seen := _shown(stage, id).payload):
            yield f"the payload of {id} is {seen!r}, and should be {payload!r}"
    for id, at_ms in stage.specimen.times(stage.client).items():
        if (time := _shown(stage, id).at_ms) != at_ms:
            yield f"the time of {id} is {time}, and should be {at_ms}"


def _shown(stage: Stage, id: str) -> Entry:
    states = (state for state, ids in stage.stated.items() if id in ids)
    pages = (stage.queue.page(state, max=1000, payloads=True).entries for state in states)
    found: Entry = next(entry for page in pages for entry in page if entry.id == id)
    return found


def _same(one: bytes, other: bytes | None) -> bool:
    if other is None or one == other:
        return one == other
    with suppress(ValueError):
        return bool(json.loads(one) == json.loads(other))
    return False


def scores(stage: Stage) -> Iterator[str]:
    """Whatever the scores are, pages have each entry once."""
    before = sum(len(stage.ids(state)) for state in STATES)
    for name, score in SCORES.items():
        stage.put_back()
        for key, was in stage.theirs.keys.items():
            if was.type == b"zset":
                scored = enumerate(_zset(was.content))
                stage.client.zadd(key, {member: score(n, old) for n, (member, old) in scored})
        whole = {state: Counter(stage.ids(state)) for state in STATES}
        if sum(found.total() for found in whole.values()) != before:
            yield f"with scores {name}, entries are missing"
        for state, found in whole.items():
            if Counter(stage.ids(state, 1)) != found:
                yield f"with scores {name}, pages of {state} entries repeat or leave out some"


def _zset(content: Any) -> Sequence[tuple[bytes, float]]:
    return [*content.items()]


def odd_bytes(stage: Stage) -> Iterator[str]:
    """Elements of any bytes are shown, or named in an error."""
    for key, was in stage.picture.keys.items():
        if was.type == b"list":
            stage.client.lpush(key, ODD)
            stage.client.rpush(key, ODD, b"")
        elif was.type == b"zset":
            stage.client.zadd(key, {ODD: 1.5, b"": 1_900_000_000})
        elif was.type == b"set":
            stage.client.sadd(key, ODD)
        elif was.type == b"hash" and not key.endswith(b":registry"):
            stage.client.hset(key, ODD, ODD)
    yield from _looks(stage)


def writes_nothing(stage: Stage) -> Iterator[str]:
    """A look changes no key."""
    yield from _looks(stage)
    changed = stage.picture.changed(stage.look())
    yield from (f"a look changed {text(key)} {part}" for key, part in changed)


def vanishing(stage: Stage) -> Iterator[str]:
    """A record that vanishes while a page is read is never a traceback."""
    for state, ids in stage.stated.items():
        entry = stage.queue.get(ids[-1]) if ids else None
        step = entry and Step("hard", state, entry, stage.picture)
        changes = stage.changes(step, stage.picture) if step else ()
        for change in [change for change in changes if change.what.endswith(" gone")]:
            for number in range(1, 4):
                stage.put_back()
                page = stage.queue.page.op(state, max=1000, payloads=True)
                try:
                    interrupted(
                        stage.client, page, partial(_is, number), partial(change, stage.client)
                    )
                except RedisqError:
                    pass  # it names what can't be read
                except Exception as error:
                    yield f"{change.what} while {state} entries are read: {error!r}"


def _is(number: int, calls: object, n: int) -> bool:
    return n == number


def _looks(stage: Stage) -> Iterator[str]:
    queue = stage.queue
    now = queue.now()
    looks: dict[str, Callable[[], object]] = {
        "exists": queue.exists,
        "counts": lambda: queue.full_counts(now),
        "fsck": lambda: queue.checkup(thorough=True),
        "position": queue.queue_position,
        "activity": lambda: queue.activity(now - 60_000),
        "rates": lambda: queue.rates(now, 60),
        **{f"the {state} entries": _page_of(stage, state) for state in STATES},
        "attachments": lambda: _attachments(stage),
    }
    for name, look in looks.items():
        try:
            look()
        except RedisqError:
            pass  # it says which key or element can't be read
        except Exception as error:
            yield f"a look at {name} ends with {type(error).__name__}: {error}"


def _page_of(stage: Stage, state: State) -> Callable[[], object]:
    return lambda: stage.queue.page(state, max=1000, payloads=True)


def _attachments(stage: Stage) -> None:
    for state in STATES:
        for entry in stage.queue.page(state, max=3, payloads=True).entries:
            stage.queue.attachments(entry)


def _some(ids: Sequence[str]) -> str:
    return ", ".join(islice(ids, 12)) or "none"
