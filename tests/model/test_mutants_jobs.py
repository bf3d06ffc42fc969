"""Spoilt lines of the scripts behind Resque's and Sidekiq's layouts: the model must notice each."""

from __future__ import annotations

import pytest

from .jobs import JobModel, ResqueModel, SidekiqModel
from .spoiling import Change, noticed, spoilt
from .test_mutants import TELLING

BOTH: tuple[type[JobModel], ...] = (SidekiqModel, ResqueModel)
SIDEKIQ: tuple[type[JobModel], ...] = (SidekiqModel,)
# (Where an undo looks for an entry matters in long lists only: tests/test_sidekiq.py has these.)
MUTANTS = {
    "settle without fence": (("settle", "payloads[k], 'ack'", "payloads[k] or '{}', 'ack'"), BOTH),
    "settled twice in a batch": (("settle", "or settled[ticket] then", "then"), BOTH),
    "extend without fence": (("extend", "r.receipt ~= '-' and r.receipt ==", "'' ~="), BOTH),
    "no guard against re-sending": (
        ("idempotency", "redis.call('HGET', callers, caller)", "nil"),
        BOTH,
    ),
    "leases not looked at": (
        ("leased_jobs", "lease, '-inf', now_text,", "lease, '-inf', '+inf',"),
        BOTH,
    ),
    "promoted too early": (("promote", "'-inf', due_by", "'-inf', '+inf'"), SIDEKIQ),
    "promoted and still there": (("promote", "redis.call('ZREM', key, payload)", ""), SIDEKIQ),
    "promoted in other bytes": (
        ("promote", "jobs_append(name, payload)", "jobs_append(name, cjson.encode(job))"),
        SIDEKIQ,
    ),
    "tickets that come again": (
        ("leased_jobs", "counters_reserve('fence', n)", "0"),
        BOTH,
    ),
    "lost workers not counted": (
        ("leased_jobs", "if times >= config", "if 1 >= config"),
        BOTH,
    ),
    "dead one lost worker late": (("leased_jobs", "times >= config", "times > config"), BOTH),
    "lost workers counted for ever": (("settle", "if known then", "if false then"), BOTH),
    "what was lost comes back in disorder": (
        ("leased_jobs", "for i = #late, 1, -1 do", "for i = 1, #late do"),
        BOTH,
    ),
    "what was released comes back in disorder": (
        ("settle", "for i = #back, 1, -1 do", "for i = 1, #back do"),
        BOTH,
    ),
    "released to the end": (("settle", "do jobs_prepend(queue", "do jobs_append(queue"), BOTH),
    "requeued to the end": (("moves", "if e.ticket then front", "if false then front"), BOTH),
    "moved and still there": (("moves", "    redis.call('ZREM', e.key, e.member)\n", ""), SIDEKIQ),
    "marks left behind": (("move", "sweep_marks()\n", ""), BOTH),
    "undone in disorder": (
        ("undo", "back[#back + 1] = entries[i]", "table.insert(back, 1, entries[i])"),
        SIDEKIQ,
    ),
    "an older change undone over a newer one": (
        ("moves", "if not score or tonumber(score) ~= tonumber(e.at) then", "if not score then"),
        SIDEKIQ,
    ),
    "undone but not what was seen": (
        ("moves", "return out_of_list(list, e.put or e.member, seen)", "return nil"),
        BOTH,
    ),
    "trash let go too early": (("trash", "now - config.trash_ms", "now"), BOTH),
}
CASES = [
    pytest.param(name, change, model, id=f"{name}-{model.__name__}")
    for name, (change, models) in MUTANTS.items()
    for model in models
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change", "model"), CASES)
def test_a_spoilt_line_is_noticed(
    valkey_url: str, name: str, change: Change, model: type[JobModel]
) -> None:
    first = TELLING.get(f"{name}-{model.__name__}", 0)
    with spoilt([change]):
        assert noticed(valkey_url, model, first=first), "it did all that was asked of it"
