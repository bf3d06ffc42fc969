"""The model must notice: each mutant is one line of Lua spoilt on purpose, and has to be caught.

A mutant that lives means that the model looks away there, or that the line does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import redis

from redisq_ops.core import scripts
from redisq_ops.core.errors import RedisqError

from .delays import DelayModel
from .model import Model
from .requests import RequestModel
from .seeds import STEPS

BOTH = (RequestModel, DelayModel)
TRIES = 15
"""seeds a mutant may live through; the sound queues live through all of them"""


@dataclass(frozen=True)
class Mutant:
    name: str
    changes: tuple[tuple[str, str, str], ...]
    """(file, text, what stands there instead)"""
    models: tuple[type[Model], ...]
    quick: bool = False


def mutant(
    name: str,
    *changes: tuple[str, str, str],
    models: tuple[type[Model], ...] = BOTH,
    quick: bool = False,
) -> Mutant:
    return Mutant(name, changes, models, quick)


REQUESTS, DELAYS = (RequestModel,), (DelayModel,)
MUTANTS = [
    mutant(
        "settle without fence",
        ("settle", "line:sub(1, #receipt + 1) ~= receipt .. ' '", "line:sub(1, 2) == '- '"),
        quick=True,
    ),
    mutant(
        "extend without fence",
        ("extend", "r.receipt ~= '-' and r.receipt == ", "r.receipt ~= '-' and '' ~= "),
        quick=True,
    ),
    mutant(
        "no guard against re-sending",
        ("guard", "redis.call('HGET', callers, caller)", "nil"),
        quick=True,
    ),
    mutant(
        "leases not looked at", ("due", "lease, '-inf', now,", "lease, '-inf', '+inf',"), quick=True
    ),
    mutant(
        "one over the limit",
        ("take", "q.limit - q.pending, q.waiting", "q.limit + 1 - q.pending, q.waiting"),
        ("room", "q.limit - q.pending, q.waiting", "q.limit + 1 - q.pending, q.waiting"),
        models=REQUESTS,
        quick=True,
    ),
    mutant(
        "one under the limit",
        ("room", "q.limit - q.pending, q.waiting", "q.limit - 1 - q.pending, q.waiting"),
        models=REQUESTS,
    ),
    mutant("tokens not given back", ("room", "    sync(q)\n", ""), models=REQUESTS),
    mutant(
        "tokens of another generation taken",
        ("take", "q and token(q) == word and", "q and"),
        models=REQUESTS,
    ),
    mutant(
        "tokens of a namesake that is gone",
        ("submit", "redis.call('HINCRBY', stat, 'gen', 1)", "1"),
        models=REQUESTS,
    ),
    mutant("done with one to go", ("room", "live == 0", "live <= 1"), models=REQUESTS),
    mutant(
        "done with delayed ones",
        ("room", "q.waiting + q.pending + q.delayed", "q.waiting + q.pending"),
        models=REQUESTS,
    ),
    mutant(
        "a finished request never opens again",
        ("room", "q.state == 'done' and live > 0", "false"),
        models=REQUESTS,
    ),
    mutant(
        "a chunk put behind any content",
        ("submit", " or known ~= before then", " then"),
        models=REQUESTS,
    ),
    mutant(
        "any content of that length is the same",
        ("submit", "q.total == last and known == after and", "q.total == last and"),
        models=REQUESTS,
    ),
    mutant(
        "a shorter submission passes for a part",
        ("submit", "rows > 0 and seal ~= '1'", "rows > 0"),
        models=REQUESTS,
    ),
    mutant("undo of what was touched", ("undo", "if r.op == op and", "if")),
    mutant("moves without looking again", ("move", "not seen[id] and room_score(id, from)", "'0'")),
    mutant("an id twice in a step", ("move", "not seen[id] and room_score", "room_score")),
    mutant("latecomers moved too", ("move", "r.since > tonumber(high_water)", "false")),
    mutant(
        "moved when purged for good",
        ("room", "return there and there[1] and '0' or nil", "return '0'"),
        models=REQUESTS,
    ),
    mutant(
        "an id under another spelling",
        ("room", " or rid .. '/' .. n ~= id then", " then"),
        models=REQUESTS,
    ),
    mutant(
        "purged ones delivered", ("take", "if q.trash > 0 and", "if false and"), models=REQUESTS
    ),
    mutant("settled twice in a batch", ("settle", "not line or settled[id] or", "not line or")),
    mutant(
        "a late receipt hides the good one",
        ("settle", "if said[k] ~= 'stale' then settled[id]", "if true then settled[id]"),
    ),
    mutant("errors kept for ever", ("moves", "redis.call('HDEL', err, unpack(forgotten))", "")),
    mutant(
        "records kept for ever", ("moves", "if r.first == 0 and r.op == '-' then", "if false then")
    ),
    mutant("receipts outlive the delivery", ("moves", "if to ~= 'pending' then", "if false then")),
    mutant("lost leases not counted", ("due", "r.lost = r.lost + 1", "")),
    mutant(
        "dead one lost lease late", ("due", "r.lost >= conf.max_lost", "r.lost > conf.max_lost")
    ),
    mutant("dead one failure late", ("settle", "r.failures >= conf.max", "r.failures > conf.max")),
    mutant(
        "delayed ones back too early",
        ("take", "delay, '-inf', now,", "delay, '-inf', '+inf',"),
        quick=True,
    ),
    mutant(
        "results lost",
        ("room", "redis.call('HSET', res_", "redis.call('HGET', res_"),
        models=REQUESTS,
    ),
    mutant(
        "the lowest priority first",
        ("take", "'ZRANGE', prios, 0, -1)", "'ZREVRANGE', prios, 0, -1)"),
        models=REQUESTS,
    ),
    mutant("a paused queue goes on", ("take", "conf.paused and {}", "{} and nil")),
    mutant(
        "a paused request goes on",
        ("take", "and q.paused ~= 1 then", "then"),
        ("room", "or q.paused == 1 then", "then"),
        models=REQUESTS,
    ),
    mutant(
        "done entries stay in the stream", ("room", "if #q.dels > 0", "if false"), models=REQUESTS
    ),
    mutant(
        "requests retired with dead letters",
        ("room", "q.dead > 0 or q.trash", "q.trash"),
        models=REQUESTS,
    ),
    mutant(
        "a cancelled request half gone reopens",
        ("control", "tonumber(redis.call('ZSCORE', retire, rid)) <= now", "false"),
        models=REQUESTS,
    ),
    mutant("receipts that repeat", ("take", "(fence + i) .. tail", "'1' .. tail")),
    mutant(
        "order lost with a lease", ("due", "r.ready > 0 and r.ready or now", "now"), models=DELAYS
    ),
    mutant(
        "the next run forgotten",
        ("room", "if not row then return nil end", "if true then return nil end"),
        models=DELAYS,
    ),
    mutant("a rescheduled entry undone", ("schedule", "r.op = '-'", ""), models=DELAYS),
    mutant(
        "an older wish wins",
        (
            "schedule",
            "if #moved > 0 then redis.call('HDEL'",
            "if #moved > 0 then redis.call('HMGET'",
        ),
        models=DELAYS,
    ),
    mutant(
        "taken names overwritten", ("schedule", "there == content and", "true and"), models=DELAYS
    ),
]
CASES = [
    pytest.param(
        mutant, model, id=f"{mutant.name}-{model.__name__}",
        marks=() if mutant.quick else pytest.mark.slow,
    )
    for mutant in MUTANTS
    for model in mutant.models
]  # fmt: skip


class Spoiler:
    """Stands in for the reader of Lua files and gives spoilt ones."""

    def __init__(self, mutant: Mutant) -> None:
        self.changes = mutant.changes
        self.read = scripts._read
        self.done: set[str] = set()

    def __call__(self, room: str, name: str) -> str:
        text = self.read(room, name)
        for file, good, bad in self.changes:
            if file == name:
                if good not in text:
                    raise LookupError(f"no such line in {name}.lua any more: {good}")
                text = text.replace(good, bad)
                self.done.add(file)
        return text


@pytest.mark.parametrize(("mutant", "model"), CASES)
def test_a_spoilt_line_is_noticed(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, mutant: Mutant, model: type[Model]
) -> None:
    spoiler = Spoiler(mutant)
    monkeypatch.setattr(scripts, "_read", spoiler)
    scripts.script.cache_clear()
    try:
        with redis.Redis.from_url(valkey_url, protocol=3) as client:
            assert noticed(client, model), "it did all that was asked of it"
    finally:
        scripts.script.cache_clear()
    assert spoiler.done == {file for file, _, _ in mutant.changes}


def noticed(client: redis.Redis, model: type[Model]) -> bool:
    for seed in range(TRIES):
        client.flushall()
        try:
            model(client, seed).play(STEPS)
        except (AssertionError, pytest.fail.Exception, RedisqError, redis.ResponseError):
            return True
    return False
