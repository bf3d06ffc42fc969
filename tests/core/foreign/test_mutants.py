"""Faults planted in how other programs' queues are read and changed: `conform` alone finds each."""

from __future__ import annotations

from importlib import import_module

import pytest
import redis

from redisq_ops.testing.conformance import conform

from ...model.spoiling import Change, spoilt
from ..own_specimens import OWN
from .specimens import SPECIMENS

NO_SCORE = (
    "element",
    "local same = e.score and tonumber(e.score) == tonumber(e.seen)",
    "local same = e.score",
)
NO_PLACE = ("element", "into_list(e.key, e.member, e.left, ", "into_list(e.key, e.member, nil, ")
IN_LIST = ("remove_from_list", "redis.call('LINDEX', key, at) == member", "true")
NEIGHBOURS: dict[str, Change] = {
    "undone in disorder": (
        "undo",
        "back[#back + 1] = entries[i]",
        "table.insert(back, 1, entries[i])",
    ),
    "restored in disorder": (
        "move",
        "rank(a) < rank(b) or rank(a) == rank(b) and a < b",
        "a < b",
    ),
    "kept in disorder": (
        "move",
        "table.sort(undo, function(a, b) return a.rank < b.rank end)",
        "local _",
    ),
}
"""faults in the order of neighbours of one list"""

PURGED: dict[str, Change] = {
    "another's in the trash": (
        "move",
        "e = kept and tonumber(since) == tonumber(e.seen) and kept",
        "e = kept",
    ),
}
"""a fault in what is in the trash"""
HELD: dict[str, Change] = {
    "settled, and moved": (
        "moves",
        "if not payload then return nil end",
        "payload = payload or '{}'",
    ),
    "settled, and undone": (
        "moves",
        "if not redis.call('HGET', body, e.there) then return nil end",
        "",
    ),
}
"""faults in what our workers hold"""


def put_in(was: str, now: str) -> Change:
    """A job that waits again is another one, and the undo knows it."""
    put = f"e.put = ((e.put or e.member):gsub({was}, {now}))"
    return "moves", "local payload = e.put or e.member", f"{put} local payload = e.put"


SAME_ID: Change = ("kept_keys", "redis.call('EXISTS', row[1]) == 1 or ", "")

MUTANTS: dict[str, dict[str, Change]] = {
    "rq": {
        **NEIGHBOURS,
        **PURGED,
        "id that came again": SAME_ID,
        "comparison off": ("moves", ", ' ') ~= e.stamp", ", ' ') == nil"),
        "score ignored": NO_SCORE,
        "wrong end": ("moves", "front and 'LPUSH' or 'RPUSH'", "'LPUSH'"),
        "state not set": ("moves", "'status', 'queued', 'enqueued_at'", "'enqueued_at'"),
        "times left": ("moves", "'started_at', '', 'ended_at', '', ", ""),
        "results left": ("moves", "keys[#keys + 1] = t_results_ .. e.member", ""),
        "expiry left": ("moves", "redis.call('PERSIST', key)", ""),
        "type check off": ("jobs", "type_check_key(keys[1], 'hash')", ""),
        "list's type check off": ("moves", "type_check_key(list_of(e), 'list')", ""),
        "undo forgets the state": ("moves", "CHANGED = {'status', ", "CHANGED = {"),
        "undo forgets the score": (
            "element",
            "redis.call('ZADD', e.key, e.score",
            "redis.call('ZADD', e.key, 1",
        ),
        "undo of what runs again": (
            "moves",
            "if job.status ~= 'queued' or job.enqueued_at ~= e.there then return nil end",
            "",
        ),
        "another's place in the list": IN_LIST,
        "dependents left": ("jobs", "{job, job .. ':dependents', ", "{job, job, "),
    },
    "bullmq": {
        **NEIGHBOURS,
        **PURGED,
        "id that came again": SAME_ID,
        "comparison off": ("moves", "if not jobs_seen(e) then return nil end", "e.shown = ''"),
        "lock ignored": ("moves", "if locked or job.defa then", "if job.defa then"),
        "score ignored": NO_SCORE,
        "wrong end": (
            "waiting",
            "else redis.call('LPUSH', key, e.member)",
            "else redis.call('RPUSH', key, e.member)",
        ),
        "end of the failure left": (
            "moves",
            "if place.state == 'failed' then",
            "if false then",
        ),
        "delay left": (
            "moves",
            "if place.state == 'delayed' then redis.call('HSET'",
            "if false then redis.call('HSET'",
        ),
        "priority ignored": ("waiting", "if priority > 0 then", "if false then"),
        "type check off": ("jobs", "type_check_key(key, 'hash')", ""),
        "a neighbour's type check off": (
            "moves",
            "for part, kind in pairs(TYPES)",
            "for part, kind in pairs({})",
        ),
        "record left": ("jobs", "redis.call('UNLINK', unpack(keys))", ""),
        "undo of another score": (
            "moves",
            "if tonumber(redis.call('ZSCORE', set, e.member) or nil) ~= tonumber(e.there) then",
            "if false then",
        ),
        "undo forgets the failure": (
            "moves",
            "CHANGED = {'processedOn', 'finishedOn', 'failedReason', ",
            "CHANGED = {",
        ),
        "undo at the wrong place": NO_PLACE,
        "another's place in the list": IN_LIST,
    },
    "bull": {
        **NEIGHBOURS,
        **PURGED,
        "comparison off": ("moves", "if not jobs_seen(e) then return nil end", "e.shown = ''"),
        "lock ignored": ("holds", "':lock') == 1 then return true", "':lock') == 1 then"),
        "mark ignored": ("holds", "'stalled', e.member) == 0 or", "'stalled', e.member) == 2 or"),
        "score ignored": NO_SCORE,
        "wrong end": ("waiting", "ahead and 'RPUSH' or 'LPUSH'", "ahead and 'LPUSH' or 'RPUSH'"),
        "lifo ignored": ("waiting", "state == 'failed' and jobs_lifo(job)", "false"),
        "promoted without priority": (
            "waiting",
            "if state == 'delayed' and priority",
            "if false and priority",
        ),
        "retried by priority": ("waiting", "if state == 'delayed' and priority", "if priority"),
        "before its equals": (
            "waiting",
            "'priority', 0, priority) - 1",
            "'priority', 0, priority)",
        ),
        "out of the priorities": (
            "waiting",
            "redis.call('ZADD', base .. 'priority', priority, id)",
            "",
        ),
        "priority left": ("indexes", "redis.call('ZREM', base .. 'priority', e.member)", ""),
        "end of the failure left": (
            "moves",
            "redis.call('HDEL', key, 'finishedOn', 'processedOn', 'failedReason')",
            "",
        ),
        "delay left": ("moves", "redis.call('HSET', key, 'delay', '0')", ""),
        "record left": ("jobs", "redis.call('UNLINK', unpack(keys))", ""),
        "type check off": ("jobs", "type_check_key(key, 'hash')", ""),
        "a neighbour's type check off": (
            "moves",
            "for part, kind in pairs(TYPES)",
            "for part, kind in pairs({})",
        ),
        "undo forgets the failure": (
            "moves",
            "CHANGED = {'processedOn', 'finishedOn', 'failedReason', ",
            "CHANGED = {",
        ),
        "undo forgets the mark": (
            "moves",
            "if e.stalled then redis.call('SADD', base .. 'stalled', e.member) end",
            "",
        ),
        "undo forgets the priority": ("indexes", "if e.priority then", "if false then"),
        "undo leaves the priority": (
            "moves",
            "if ok then redis.call('ZREM', place.base .. 'priority', e.member) end",
            "",
        ),
        "undo of another score": (
            "moves",
            "if tonumber(redis.call('ZSCORE', e.key, e.member) or nil) ~= tonumber(e.there) then",
            "if false then",
        ),
        "undo at the wrong place": NO_PLACE,
        "another's place in the list": IN_LIST,
    },
    "dramatiq": {
        **NEIGHBOURS,
        **PURGED,
        "id that came again": (
            "moves",
            "return e.went == e.key or redis.call('HEXISTS', messages_of(e), e.member) == 0",
            "return true",
        ),
        "wrong end": (
            "moves",
            "redis.call('RPUSH', e.went, e.member)",
            "redis.call('LPUSH', e.went, e.member)",
        ),
        "comparison off": ("messages", "redis.sha1hex(message) == digest and message", "message"),
        "score ignored": NO_SCORE,
        "message left": ("moves", "redis.call('HDEL', messages, e.member)", ""),
        "type check off": ("moves", "type_check_key(messages_of(e), 'hash')", ""),
        "list's type check off": ("moves", "type_check_key(list, 'list')", ""),
        "undo of another message": (
            "moves",
            "if not messages_get(went .. '.msgs', e, e.stamp) then return nil end",
            "",
        ),
        "undo forgets the message": (
            "moves",
            "redis.call('HSET', messages_of(e), e.member, e.message)",
            "",
        ),
        "undo at the wrong place": NO_PLACE,
        "another's place in the list": IN_LIST,
    },
    "arq": {
        **PURGED,
        "comparison off": ("moves", "data and redis.sha1hex(data) == digest", "data and true"),
        "score ignored": (
            "moves",
            "if is_job and tonumber(score or nil) ~= tonumber(e.seen)",
            "if false",
        ),
        "mark ignored": ("moves", "if not what or jobs_in_progress(e)", "if not what"),
        "record left": ("moves", "redis.call('UNLINK', unpack(keys))", ""),
        "type check off": ("moves", "type_check_key(prefix .. e.member, 'string')", ""),
        "set's type check off": ("moves", "type_check_key(e.key, 'zset')", ""),
        "undo forgets the score": (
            "moves",
            "redis.call('ZADD', e.key, e.score",
            "redis.call('ZADD', e.key, 1",
        ),
        "undo forgets the record": ("moves", "kept_keys_restore(e.kept)", ""),
    },
    "asynq": {
        **NEIGHBOURS,
        "comparison off": ("moves", "if task.stamp ~= e.stamp then return nil end", ""),
        "message not compared": ("moves", "redis.sha1hex(task.msg)", "e.stamp:sub(1, 40)"),
        "score ignored": NO_SCORE,
        "wrong end": ("moves", "redis.call('LPUSH', t_pending", "redis.call('RPUSH', t_pending"),
        "state not set": (
            "moves",
            "redis.call('HSET', t_job_ .. e.member, 'state', 'pending')",
            "",
        ),
        "lock left": ("moves", "then keys[2] = task.lock end", "then keys[2] = nil end"),
        "another's lock": ("moves", "redis.call('GET', task.lock) == e.member", "true"),
        "record left": ("moves", "redis.call('UNLINK', unpack(keys))", ""),
        "empty group left": ("moves", "redis.call('SREM', t_groups, task.group)", ""),
        "type check off": ("moves", "[t_job_ .. e.member] = 'hash'", ""),
        "lock's type check off": ("moves", "type_check_key(lock, 'string')", ""),
        "groups' type check off": ("moves", "[t_groups] = 'set',", ""),
        "undo forgets the state": (
            "moves",
            "redis.call('HSET', t_job_ .. e.member, 'state', e.state)",
            "redis.call('EXISTS', t_job_)",
        ),
        "undo forgets the score": (
            "element",
            "redis.call('ZADD', e.key, e.score",
            "redis.call('ZADD', e.key, 1",
        ),
        "undo forgets the group": ("moves", "redis.call('SADD', t_groups, e.group)", ""),
        "undo of another task": ("moves", "if task_of(e).stamp ~= e.there then return nil end", ""),
        "undo at the wrong place": NO_PLACE,
        "another's place in the list": IN_LIST,
    },
    "celery": {
        **NEIGHBOURS,
        **PURGED,
        "comparison off": IN_LIST,
        "type check off": ("moves", "type_check_key(e.key, 'list')", ""),
        "undo at the wrong place": NO_PLACE,
    },
    "sidekiq": {
        **NEIGHBOURS,
        **PURGED,
        **HELD,
        "id that came again": (
            "job_lists",
            "while redis.call('ZADD', key, 'NX', score, payload) == 0 do",
            "while redis.call('ZADD', key, score, payload) == -1 do",
        ),
        "another retry_count": put_in("'\"retry_count\":0'", "'\"retry_count\":7'"),
        "another class": put_in('\'"class":"Task"\'', '\'"class":"Other"\''),
        "comparison off": IN_LIST,
        "score ignored": (
            "moves",
            "if e.key ~= lease and tonumber(e.score) ~= tonumber(e.seen) then",
            "if false then",
        ),
        "wrong end": (
            "jobs",
            "redis.call('LPUSH', t_queue_ .. name, ...)",
            "redis.call('RPUSH', t_queue_ .. name, ...)",
        ),
        "job left": ("moves", "else\n    redis.call('ZREM', e.key, e.member)", "else"),
        "type check off": ("moves", "if to and not e.label then", "if false then"),
        "undo forgets the score": (
            "moves",
            "into_set(e.key, e.score, e.member)",
            "into_set(e.key, 1, e.member)",
        ),
        "undo at the wrong place": (
            "moves",
            "into_list(e.key, e.member, e.left, ",
            "into_list(e.key, e.member, nil, ",
        ),
    },
    "laravel": {
        **NEIGHBOURS,
        "comparison off": (
            "failures",
            "digest == e.stamp and values or nil",
            "values",
        ),
        "a field isn't compared": (
            "failures",
            "'payload', 'failed_at', ",
            "'payload', 'payload', ",
        ),
        "score ignored": ("moves", "or tonumber(score) ~= tonumber(e.seen) or", "or"),
        "wrong end": ("moves", "redis.call('RPUSH', list,", "redis.call('LPUSH', list,"),
        "nobody is woken": ("moves", "redis.call('RPUSH', notify, '1')", ""),
        "notification left": ("moves", "redis.call('RPOP', notify)", ""),
        "retry not noted": ("moves", "redis.call('HSET', hash, 'retried_by', e.retried)", ""),
        "note of the retry left": ("moves", "redis.call('HDEL', hash, 'retried_by')", ""),
        "retry unknown to Horizon": ("moves", "if e.new then failures_push_retry(e) end", ""),
        "retry left": ("moves", "if e.new then failures_drop_retry(e) end", ""),
        "failed job left": ("moves", "redis.call('UNLINK', hash)", ""),
        "type check off": ("moves", "if hash then type_check_key(hash, 'hash') end", ""),
        "list's type check off": (
            "moves",
            "for _, key in ipairs({list, notify})",
            "for _ in ipairs({})",
        ),
        "set's type check off": (
            "moves",
            "for _, set in ipairs(sets) do type",
            "for _ in ipairs({}) do type",
        ),
        "undo forgets the score": (
            "element",
            "redis.call('ZADD', e.key, e.score",
            "redis.call('ZADD', e.key, 1",
        ),
        "undo at the wrong place": NO_PLACE,
        "undo of another failure": (
            "moves",
            "if e.new then return score == e.score and failures_values(e) end",
            "if e.new then return true end",
        ),
        "another's place in the list": IN_LIST,
    },
    "resque": {
        **NEIGHBOURS,
        **PURGED,
        **HELD,
        "wrong end": (
            "jobs",
            "redis.call('RPUSH', t_queue_ .. name, ...)",
            "redis.call('LPUSH', t_queue_ .. name, ...)",
        ),
        "comparison off": IN_LIST,
        "type check off": ("moves", "if to and not e.label then", "if false then"),
        "undo at the wrong place": (
            "moves",
            "into_list(e.key, e.member, e.left, ",
            "into_list(e.key, e.member, nil, ",
        ),
    },
}
"""kind -> fault -> where it is planted"""
for kind in OWN:
    MUTANTS[kind] = {
        "score ignored": ("move", "times[k] ~= '-' and tonumber", "false and tonumber"),
        "undo forgets the score": ("undo_entries", "since = scores[k]", "since = now_text"),
    }


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in MUTANTS for name in MUTANTS[k]])
def test_a_fault_is_found(client: redis.Redis, kind: str, name: str) -> None:
    with spoilt([MUTANTS[kind][name]]):
        found = next(conform(client, (SPECIMENS | OWN)[kind]), "")
    assert found and "compiling" not in found, "what doesn't run at all would be noticed anyway"


RECOGNISERS = [
    (kind, method)
    for kind in SPECIMENS
    for method in ("by_name", "finds")
    if (kind, method) != ("arq", "by_name")  # its set is recognised by its content, too
]


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize(("kind", "method"), RECOGNISERS)
def test_a_fault_of_a_recogniser_is_found(
    client: redis.Redis, kind: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no(*_: object) -> bool:
        return False

    async def nothing(*_: object) -> list[object]:
        return []

    module = import_module(f"redisq_ops.core.foreign.{kind}.recogniser")
    name = "JobRecogniser" if kind in ("sidekiq", "resque") else f"{kind.title()}Recogniser"
    recogniser = getattr(module, name)
    spoiled = {"by_name": no, "finds": nothing}[method]
    monkeypatch.setattr(recogniser, method, spoiled)
    assert next(conform(client, SPECIMENS[kind]), None)
