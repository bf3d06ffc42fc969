"""The model must notice: each mutant is one line of Lua spoilt on purpose, and has to be caught.

A mutant that lives means that the model looks away there, or that the line does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from redisq_ops import core

from .carmine_shards import ShardedCarmineModel
from .carmines import CarmineModel
from .circle_shards import ShardedCircleModel
from .circles import CircleModel
from .delay_shards import ShardedDelayModel
from .delays import DelayModel
from .fair_shards import ShardedFairModel
from .fairs import FairModel
from .model import Model
from .requests import RequestModel
from .spoiling import Change, noticed, spoilt

BOTH = (RequestModel, DelayModel)
TELLING = {
    "an edit undone though touched-RequestModel": 1,
    "a block goes with the last entry-FairModel": 1,
    "any content of that length is the same-RequestModel": 2,
    "a shorter submission passes for a part-RequestModel": 1,
    "refused as dead between two shards-ShardedCarmineModel": 1,
    "done with delayed ones-RequestModel": 1,
    "places that are wanted packed away-FairModel": 1,
    "an older change undone over a newer one-SidekiqModel": 3,
    "numbers compared as words-RequestModel": 15,
    "a run that forgets what leaves the dead-RequestModel": 12,
    "arrived by an old layout-ShardedCarmineModel": 3,
    "arrived by an old layout-ShardedDelayModel": 7,
    "arrived by an old layout-ShardedCircleModel": 18,
    "departed by an old layout-ShardedDelayModel": 6,
    "departed by an old layout-ShardedCircleModel": 3,
    "a late receipt hides the good one-CircleModel": 5,
    "new clients get no rules in a shard that isn't empty yet-ShardedFairModel": 12,
    "known clients keep their rules in a shard that is given up-ShardedFairModel": 9,
    "the fence stands open-ShardedFairModel": 11,
    "what they settled isn't counted-ShardedFairModel": 5,
    "latecomers edited-RequestModel": 8,
    "held ids leave a list that turns-CircleModel": 4,
    "what follows comes but once-CircleModel": 2,
    "a late receipt hides the good one-DelayModel": 3,
    "settled twice in a batch-ResqueModel": 1,
    "tokens of a namesake that is gone-RequestModel": 6,
    "equals in the order of chance-FairModel": 1,
    "a paused queue goes on-RequestModel": 3,
    "edits outlive their entries-RequestModel": 3,
    "a late receipt hides the good one-CarmineModel": 5,
    "what was edited is delivered as it was-RequestModel": 4,
    "extend without fence-FairModel": 1,
    "undo of what was touched-CircleModel": 1,
    "undone in disorder-ResqueModel": 2,
}
"""of cases that most stories say nothing of: the seed of one that does, and soon"""


@dataclass(frozen=True)
class Mutant:
    name: str
    changes: tuple[Change, ...]
    models: tuple[type[Model], ...]
    often: tuple[str, ...] = ()
    """rules of the model that a story about this line is made of"""


def mutant(
    name: str,
    *changes: Change,
    models: tuple[type[Model], ...] = BOTH,
    often: tuple[str, ...] = (),
) -> Mutant:
    return Mutant(name, changes, models, often)


REQUESTS, DELAYS = (RequestModel,), (DelayModel,)
MUTANTS = [
    mutant(
        "settle without fence",
        (
            "settle",
            "find(line, receipt, 1, true) ~= 1 or byte(line, #receipt + 1) ~= 32",
            "byte(line) == 45",
        ),
    ),
    mutant(
        "extend without fence",
        ("extend", "r.receipt ~= '-' and r.receipt == ", "r.receipt ~= '-' and '' ~= "),
    ),
    mutant(
        "no guard against re-sending", ("idempotency", "redis.call('HGET', callers, caller)", "nil")
    ),
    mutant(
        "leases not looked at",
        ("reclaim_expired", "lease, '-inf', now_text,", "lease, '-inf', '+inf',"),
    ),
    mutant(
        "one over the limit",
        ("take", "q.limit - q.pending, q.waiting", "q.limit + 1 - q.pending, q.waiting"),
        ("request_tokens", "q.limit - q.pending, q.waiting", "q.limit + 1 - q.pending, q.waiting"),
        models=REQUESTS,
    ),
    mutant(
        "one under the limit",
        ("request_tokens", "q.limit - q.pending, q.waiting", "q.limit - 1 - q.pending, q.waiting"),
        models=REQUESTS,
    ),
    mutant(
        "tokens not given back", ("storage", "    request_tokens_sync(q)\n", ""), models=REQUESTS
    ),
    mutant(
        "tokens of another generation taken",
        ("take", "q and request_tokens_word(q) == word and", "q and"),
        models=REQUESTS,
    ),
    mutant(
        "tokens of a namesake that is gone",
        ("begin_request", "counters_reserve('gen', 1) + 1", "1"),
        models=REQUESTS,
    ),
    mutant(
        "done with one to go", ("request_completion", "live == 0", "live <= 1"), models=REQUESTS
    ),
    mutant(
        "done with delayed ones",
        ("request_completion", "q.waiting + q.pending + q.delayed", "q.waiting + q.pending"),
        models=REQUESTS,
    ),
    mutant(
        "a finished request never opens again",
        ("request_completion", "q.state == 'done' and live > 0", "false"),
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
        "what was purged is the same",
        ("submit", "if gone == 0 then", "if true then"),
        models=REQUESTS,
    ),
    mutant(
        "a shorter submission passes for a part",
        ("submit", "rows > 0 and seal ~= '1'", "rows > 0"),
        models=REQUESTS,
    ),
    mutant(
        "undo of what was touched",
        ("undo_entries", "ours = f and line:find", "ours = true or line:find"),
    ),
    mutant(
        "moves without looking again", ("move", "not seen[id] and storage_score(id, from)", "'0'")
    ),
    mutant("an id twice in a step", ("move", "not seen[id] and storage_score", "storage_score")),
    mutant("latecomers moved too", ("move", "r.since > tonumber(high_water)", "false")),
    mutant(
        "moved when purged for good",
        ("entry_state", "return there and there[1] and began or nil", "return began"),
        models=REQUESTS,
        often=("move", "submit"),
    ),
    mutant(
        "an id under another spelling",
        ("entry_state", " or rid .. '/' .. n ~= id then", " then"),
        models=REQUESTS,
    ),
    mutant(
        "purged ones delivered", ("take", "if q.trash > 0 and", "if false and"), models=REQUESTS
    ),
    mutant("settled twice in a batch", ("settle", "not line or settled[id] or", "not line or")),
    mutant(
        "a late receipt hides the good one",
        ("settle", "    reply[k] = 'stale'\n", "    reply[k], settled[id] = 'stale', true\n"),
    ),
    mutant(
        "errors kept for ever",
        ("transitions", "redis.call('HDEL', err, unpack(write_buffer_forgotten))", ""),
    ),
    mutant(
        "errors of what was done kept",
        ("transitions", "redis.call('HDEL', err, unpack(concluded))", ""),
    ),
    mutant(
        "numbers compared as words",
        (
            "request",
            "#digits > #q.upto or #digits == #q.upto and digits > q.upto",
            "digits > q.upto",
        ),
        models=REQUESTS,
    ),
    mutant(
        "records kept for ever",
        ("write_buffer", "if r.first == 0 and r.op == '-' then", "if false then"),
    ),
    mutant(
        "receipts outlive the delivery", ("transitions", "if to ~= 'pending' then", "if false then")
    ),
    mutant("lost leases not counted", ("reclaim_expired", "r.lost = r.lost + 1", "")),
    mutant(
        "dead one lost lease late",
        ("reclaim_expired", "r.lost >= config.max_lost", "r.lost > config.max_lost"),
    ),
    mutant(
        "dead one failure late",
        ("settle", "r.failures >= config.max", "r.failures > config.max"),
        often=("submit", "schedule", "take", "settle"),
    ),
    mutant(
        "delayed ones back too early",
        ("take", "delay, '-inf', now_text,", "delay, '-inf', '+inf',"),
    ),
    mutant(
        "results lost",
        (
            "storage",
            "request_results_keep(q, entry, value, entry)",
            "request_results_keep(q, entry, '', entry)",
        ),
        models=REQUESTS,
    ),
    mutant(
        "the lowest priority first",
        ("take", "'ZRANGE', prios, '0', '-1')", "'ZREVRANGE', prios, '0', '-1')"),
        models=REQUESTS,
    ),
    mutant("a paused queue goes on", ("take", "config.paused and {}", "{} and nil")),
    mutant(
        "a paused request goes on",
        ("take", "return live and q.paused ~= 1 and", "return live and"),
        ("request_tokens", "return live and q.paused ~= 1 and", "return live and"),
        models=REQUESTS,
        often=("control", "take", "submit"),
    ),
    mutant(
        "done entries stay in the stream", ("stream", "if #q.dels > 0", "if false"), models=REQUESTS
    ),
    mutant(
        "what is taken stays to be taken again",
        ("take", "redis.call('ZREMRANGEBYRANK', again_", "redis.call('ZCOUNT', again_"),
        models=REQUESTS,
    ),
    mutant(
        "what ran again stays in its set",
        ("stream", "if #went > 0 then more = -redis.call('ZREM', key, unpack(went)) end", ""),
        models=REQUESTS,
    ),
    mutant(
        "requests retired with dead letters",
        ("retire_requests", "q.dead > 0 or q.trash", "q.trash"),
        models=REQUESTS,
        often=("pass_an_hour",),
    ),
    mutant(
        "a cancelled request half gone reopens",
        ("control_request", "tonumber(redis.call('ZSCORE', retire, rid)) <= now", "false"),
        models=REQUESTS,
        often=("control", "pass_time"),
    ),
    mutant("receipts that repeat", ("deliver", "number_words(fence, n,", "number_words(0, n,")),
    mutant(
        "order lost with a lease",
        ("reclaim_expired", "r.ready > 0 and math.min(r.ready, now) or now", "now"),
        models=DELAYS,
    ),
    mutant(
        "the next run forgotten",
        ("storage", "if not row then return nil end", "if true then return nil end"),
        models=DELAYS,
    ),
    mutant(
        "a rescheduled entry undone",
        ("schedule", "r.op, r.since = '-',", "r.op, r.since = r.op,"),
        models=DELAYS,
    ),
    mutant(
        "an older viewport wins",
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
TOOLKIT = [
    mutant(
        "latecomers moved with their state",
        ("move_range", "'-inf', high_water, 'BYSCORE'", "'-inf', '+inf', 'BYSCORE'"),
        models=BOTH,
        often=("move_whole",),
    ),
    mutant(
        "what an undo put back since moved with its state",
        ("move_range", "(since <= limit or since > now) and ", ""),
        models=BOTH,
        often=("move_whole", "undo"),
    ),
    mutant(
        "nobody learns that an undo put anything back",
        (
            "transitions",
            "if transitions_backdated then redis.call('HSET', stat, 'put_back', now) end",
            "",
        ),
        models=BOTH,
        often=("move_whole", "undo"),
    ),
    mutant(
        "a front step done twice",
        ("move_range", "if reply then return reply end", ""),
        often=("move_whole",),
    ),
    mutant(
        "a step behind its operation's undo",
        ("move_range", "if logged[1] then return {} end", ""),
        models=BOTH,
        often=("move_whole", "undo"),
    ),
    mutant(
        "attempts kept by a whole replay",
        ("move_range", "{'- 0 0', RECORD_REPLAYED,", "{'- 1 0', RECORD_REPLAYED,"),
        often=("move_whole",),
    ),
    mutant(
        "delivered before a replay, and forgotten",
        ("move_range", "{'- 0 0', RECORD_REPLAYED,", "{'- 0 0', 0,"),
        often=("move_whole",),
    ),
    mutant(
        "undone twice, and dead since the first undo",
        ("move_range", "scores[k] = score_of[ids[k]]", ""),
        models=BOTH,
        often=("move_whole", "undo"),
    ),
    mutant(
        "one too many leaves a whole state",
        ("move_range", "left + moved - 1)", "left + moved)"),
        often=("move_whole",),
    ),
    mutant(
        "a run that forgets what leaves the dead",
        (
            "range",
            "q[from] - run, q[to] + run, 0",
            "q[from], q[to] + run, 0",
        ),
        models=REQUESTS,
        often=("move_whole",),
    ),
    mutant(
        "a run that goes on into the next request",
        ("range", "find(id, ahead, 1, true) == 1", "true"),
        models=REQUESTS,
        often=("move_whole",),
    ),
    mutant(
        "a whole state emptied, and its payloads kept",
        ("storage", "list_append(gone, moved)", ""),
        models=DELAYS,
        often=("move_whole",),
    ),
    mutant(
        "undo of what was taken",
        ("deliver", "tail, consumer, '-', now", "tail, consumer, r.op, now"),
        models=REQUESTS,
        often=("move_whole", "undo", "take", "settle"),
    ),
    mutant(
        "payloads changed unread",
        ("edit", "or redis.sha1hex(had) ~= ARGV[at + 1]", ""),
        often=("edit",),
    ),
    mutant("latecomers edited", ("edit", "r.since > tonumber(high_water)", "false")),
    mutant("an edit done twice", ("edit", "if reply then return reply end", ""), often=("edit",)),
    mutant(
        "an edit undone though touched",
        ("undo_edit", "r.op == op and", ""),
        often=("edit", "undo", "submit", "schedule", "take", "settle"),
    ),
    mutant(
        "records of an edit that was undone",
        ("undo_edit", "write_buffer_retain(id, r)", "keep(id, packed(r))"),
        models=DELAYS,
        often=("edit", "undo"),
    ),
    mutant(
        "what was edited is delivered as it was",
        ("take", "redis.call('HGET', edited, taken[i]) or payloads[i]", "payloads[i]"),
        models=REQUESTS,
        often=("edit", "move"),
    ),
    mutant(
        "edits outlive their entries",
        ("storage", "redis.call('HDEL', edited, unpack(request_edits_ended))", ""),
        models=REQUESTS,
        often=("edit", "submit", "take", "settle"),
    ),
]
CIRCLES = (CircleModel,)
MUTANTS += [
    *(
        replace(mutant, models=CIRCLES)
        for mutant in MUTANTS
        if mutant.models is BOTH and mutant.name != "a paused queue goes on"
    ),
    mutant("a paused circle goes on", ("take", "not config.paused\n  and (", "("), models=CIRCLES),
    mutant(
        "the last in comes first",
        ("pop_list", "'RPOP', queue, math", "'LPOP', queue, math"),
        models=CIRCLES,
    ),
    mutant(
        "what lost its turn goes behind",
        ("storage", "from == 'pending' and r and r.first > 0", "false"),
        models=CIRCLES,
    ),
    mutant(
        "pushed while worked on, and forgotten",
        ("push", "if #touched > 0 then", "if #touched > 999 then"),
        models=CIRCLES,
    ),
    mutant(
        "what follows has the payload of before",
        ("state", "redis.call('HSET', body, unpack(renewed))", ""),
        models=CIRCLES,
    ),
    mutant(
        "what follows comes but once",
        ("state", "if not elements_each or elements_number(row) <= 1 then", "if true then"),
        models=CIRCLES,
    ),
    mutant(
        "what was pushed meanwhile dies with it",
        ("storage", "from == 'pending' and storage_again(id)", "false"),
        models=CIRCLES,
    ),
    mutant(
        "a push of what waits runs it twice",
        ("push", "if #runs > 0 and", "if #runs > 999 and"),
        models=CIRCLES,
    ),
    mutant(
        "a push undone", ("push", "if not met[id] and (r.op", "if false and (r.op"), models=CIRCLES
    ),
    mutant(
        "a dead id can't be pushed",
        ("push", "or state == 'dead' or state == 'trash' then", "or state == 'trash' then"),
        models=CIRCLES,
    ),
    mutant(
        "purged elements delivered",
        ("batch", "if not batch_clean and elements_unspend(id) then", "if false then"),
        models=CIRCLES,
    ),
    mutant(
        "two elements for one id",
        ("elements", "'EXISTS', spent) == 1", "'EXISTS', spent) == 7"),
        models=CIRCLES,
    ),
    mutant(
        "an id twice in a take",
        ("batch", "batch_held[id] and 'pending' or content and", "content and"),
        models=CIRCLES,
    ),
    mutant(
        "a foreign push forgotten",
        ("batch", "owe(id, state, content or '')", ""),
        models=CIRCLES,
    ),
    mutant(
        "illegal ids thrown away",
        ("batch", "        bury(name, id)\n", ""),
        models=CIRCLES,
    ),
    mutant(
        "the next run outlives its id",
        (
            "storage",
            "if state_follows ~= false then redis.call('HDEL', again, unpack(ended)) end",
            "",
        ),
        models=CIRCLES,
    ),
    mutant(
        "held ids leave a list that turns",
        (
            "batch",
            "(state == 'pending' or state == 'delayed' or",
            "(state == 'pending' or",
        ),
        models=CIRCLES,
    ),
]
CARMINES = (CarmineModel,)
MUTANTS += [
    *(
        replace(mutant, models=CARMINES)
        for mutant in MUTANTS
        if mutant.models is BOTH or mutant.name == "order lost with a lease"
    ),
    mutant(
        "what runs again has the content of before",
        ("deliveries", "visible_add(visible_puts, messages, id, content)", ""),
        models=CARMINES,
    ),
    mutant(
        "it runs again for ever",
        ("deliveries", "visible_add(visible_cuts, next, id)", ""),
        models=CARMINES,
    ),
    mutant(
        "to be queued again for ever",
        ("deliveries", "visible_add(visible_parts, requeued, id)", ""),
        models=CARMINES,
    ),
    mutant(
        "it runs again without the backoff",
        ("deliveries", "return now + wait", "return now"),
        models=CARMINES,
    ),
    mutant(
        "newer content dies with the old",
        ("visible", "#ids == 0 or not", "true or not"),
        models=CARMINES,
    ),
    mutant(
        "locks that stay",
        ("storage", "from == 'pending' and to ~= 'pending'", "false"),
        models=CARMINES,
    ),
    mutant(
        "locks not renewed",
        ("deadlines", "redis.call('HSET', locks, unpack(held))", ""),
        models=CARMINES,
    ),
    mutant(
        "dead ones in sight",
        ("visible", "for _, key in ipairs({messages, ", "for _, key in ipairs({"),
        models=CARMINES,
    ),
    mutant(
        "attempts not counted there",
        (
            "storage",
            "if tries > 0 then",
            "if false then",
        ),
        models=CARMINES,
    ),
    mutant(
        "collected before its time",
        ("circle", "(tonumber(til) or 0) > now", "false"),
        models=CARMINES,
    ),
    mutant(
        "never collected",
        ("circle", "if done[i] == 1 and not held[id] then", "if false then"),
        models=CARMINES,
    ),
    mutant(
        "twice in the circle", ("circle", "there == 1 and back or fresh", "fresh"), models=CARMINES
    ),
    mutant(
        "a lock that lets in",
        ("enqueue", "word == 'locked' and requeue == '1'", "word == 'locked'"),
        models=CARMINES,
    ),
    mutant(
        "dead ones changed",
        ("enqueue", "open = {queued", "open = {dead = true, queued"),
        models=CARMINES,
    ),
    mutant(
        "older content runs last",
        ("enqueue", "it.follows and follow or contents", "contents"),
        models=CARMINES,
    ),
    mutant("new content undone", ("enqueue", "r.op = '-'", ""), models=CARMINES),
    mutant(
        "a backoff cut short",
        ("enqueue", "math.max(it.over, ready_at)", "ready_at"),
        models=CARMINES,
    ),
    mutant(
        "attempts of its last life",
        ("enqueue", "redis.call('HDEL', nattempts, unpack(reset))", ""),
        models=CARMINES,
    ),
    mutant(
        "done and queued",
        ("enqueue", "redis.call('SREM', finished, unpack(reset))", ""),
        models=CARMINES,
    ),
    mutant(
        "dry runs not counted",
        ("empty_polls", "redis.pcall('INCR', dry_runs)", "1"),
        models=CARMINES,
    ),
]
FAIRS = (FairModel,)
MUTANTS += [
    *(
        replace(mutant, models=FAIRS)
        for mutant in MUTANTS
        if mutant.models is BOTH and mutant.name != "a paused queue goes on"
    ),
    mutant(
        "a paused queue serves", ("take", "if not config.paused then", "if true then"), models=FAIRS
    ),
    mutant("turns not counted", ("select_clients", "a.vt + a.cost", "a.vt"), models=FAIRS),
    mutant(
        "weights ignored", ("select_clients", "math.floor(TURN / a.weight)", "TURN"), models=FAIRS
    ),
    mutant(
        "history counts for a newcomer",
        ("client_ring", "math.max(a.vt, (accounts_virtual_time()))", "a.vt"),
        models=FAIRS,
    ),
    mutant(
        "a debt forgotten", ("client_ring", "and a.vt <= accounts_virtual_time()", ""), models=FAIRS
    ),
    mutant("a debt for ever", ("take", "others > 0 and math", "true and math"), models=FAIRS),
    mutant(
        "equals in the order of chance",
        ("select_clients", "line[at].vt == a.vt and line[at].name > a.name", "false"),
        models=FAIRS,
    ),
    mutant(
        "a cap within a batch",
        ("select_clients", "math.min(a.waiting, a.cap - a.pending)", "a.waiting"),
        models=FAIRS,
    ),
    mutant("a cap in the ring", ("accounts", "a.pending < a.cap", "true"), models=FAIRS),
    mutant("blocked ones served", ("accounts", "and a.blocked == 0 and", "and"), models=FAIRS),
    mutant(
        "pending ones never counted back",
        ("storage", "math.max(0, a.pending - 1)", "a.pending"),
        models=FAIRS,
    ),
    mutant(
        "purged ones delivered from their holes",
        ("leave_list", "if not marks[i] then got", "if true then got"),
        models=FAIRS,
    ),
    mutant(
        "two places for one entry",
        ("waiting_lists", "if not marks[i] then fresh", "if true then fresh"),
        models=FAIRS,
    ),
    mutant("places moved", ("leave_list", "a.head = a.head + #ids", ""), models=FAIRS),
    mutant(
        "what failed comes first",
        ("storage", "(failed or from == 'dead') and backs or fronts", "fronts"),
        models=FAIRS,
    ),
    mutant(
        "what was lost comes last",
        (
            "storage",
            "waiting_lists_add(accounts_change(name), list, true)",
            "waiting_lists_add(accounts_change(name), list)",
        ),
        models=FAIRS,
    ),
    mutant(
        "what comes back comes backwards",
        ("waiting_lists", "reversed[n + 1 - i] = id", "reversed[i] = id"),
        models=FAIRS,
    ),
    mutant("spent holes kept", ("pack_lists", "marks[i] ~= '1' then", "true then"), models=FAIRS),
    mutant(
        "places that are wanted packed away",
        ("pack_lists", "marks[i] ~= '1' then", "not marks[i] then"),
        models=FAIRS,
    ),
    mutant("owners kept", ("storage", "ipairs({body, owner})", "ipairs({body})"), models=FAIRS),
    mutant("taken ids overwritten", ("submit", "old == content and", "true and"), models=FAIRS),
    mutant("ended together, counted once", ("deliveries", "counts[name] + 1", "1"), models=FAIRS),
    mutant(
        "clients nobody knows any more are known",
        ("deliveries", "left > 0 or left == 0 and waiting ~= '0'", "left >= 0"),
        models=FAIRS,
    ),
    mutant(
        "below its cap and not in the ring",
        ("deliveries", "( %-?%d+ %d+)$", "( .*)$"),
        models=FAIRS,
    ),
    mutant(
        "ended and still there",
        ("deliveries", "  redis.call('HDEL', body, unpack(gone))\n", ""),
        models=FAIRS,
    ),
    mutant(
        "what made a key large stays there",
        ("bulk_write", "  redis.call('HDEL', key, LONG)\n", ""),
        models=FAIRS,
    ),
    mutant(
        "what made a set large stays there",
        ("bulk_write", "  redis.call('ZREM', key, LONG)\n", ""),
        models=FAIRS,
    ),
    mutant(
        "receipts after ten begin anew",
        ("number_words", "digit == 0 or not head", "not head"),
        models=FAIRS,
    ),
    mutant(
        "a rule that isn't kept",
        ("set_client_rule", "accounts_touched[client] = a\n", ""),
        models=FAIRS,
    ),
    mutant(
        "a rule that isn't changed",
        ("set_client_rule", "= tonumber(value)", "= a[rule]"),
        models=FAIRS,
    ),
    mutant(
        "a rule kept as text", ("set_client_rule", "= tonumber(value)", "= value"), models=FAIRS
    ),
    mutant(
        "a rule's change that is new each time",
        ("set_client_rule", "before == value and 'same' or 'ok'", "'ok'"),
        models=FAIRS,
    ),
    mutant(
        "a rule changed twice",
        ("set_client_rule", "if reply then return reply end", ""),
        models=FAIRS,
        often=("set_client_rule",),
    ),
    mutant(
        "a weight goes with the last entry",
        ("client_ring", " and a.weight == 1 and", " and"),
        models=FAIRS,
    ),
    mutant(
        "a cap goes with the last entry",
        ("client_ring", "a.cap + a.blocked == 0", "a.blocked == 0"),
        models=FAIRS,
    ),
    mutant(
        "a block goes with the last entry",
        ("client_ring", "a.cap + a.blocked == 0", "a.cap == 0"),
        models=FAIRS,
    ),
]
FAIR_SHARDS = (ShardedFairModel,)
MUTANTS += [
    mutant(
        "an old layout is good enough",
        ("submit", "elseif newer then", "elseif false then"),
        models=FAIR_SHARDS,
        often=("submit", "resize"),
    ),
    mutant(
        "the fence stands open",
        ("reject_stale_layout", "redis.call('HSET', cfg, 'layout', layout)", ""),
        models=FAIR_SHARDS,
    ),
    mutant(
        "known clients keep their rules in a shard that is given up",
        ("set_client_rule", "if a.new and config", "if config"),
        models=FAIR_SHARDS,
        often=("set_client_rule",),
    ),
    mutant(
        "new clients get no rules in a shard that lives",
        ("set_client_rule", "config.retired", "true"),
        models=FAIR_SHARDS,
        often=("set_client_rule",),
    ),
    mutant(
        "new clients get no rules in a shard that isn't empty yet",
        ("set_client_rule", " and redis.call('EXISTS', body) == 0 then", " then"),
        models=FAIR_SHARDS,
        often=("set_client_rule",),
    ),
    mutant(
        "what they settled isn't counted",
        ("retire_shard", "return done", "return 0"),
        models=FAIR_SHARDS,
        often=("resize",),
    ),
]
DELAY_SHARDS, CIRCLE_SHARDS = (ShardedDelayModel,), (ShardedCircleModel,)
CARMINE_SHARDS = (ShardedCarmineModel,)
CARRIED = (*DELAY_SHARDS, *CIRCLE_SHARDS, *CARMINE_SHARDS)
NEWER = "(tonumber(config.layout) or 0) > tonumber(layout)"
CHANGES = ("resize", "stop_a_mover")
MUTANTS += [
    mutant(
        "what arrives is never known",
        ("transfer_memory", "at and tonumber(at) > now - config.keep_ms and 'same'", "false"),
        models=CARRIED,
        often=CHANGES,
    ),
    mutant(
        "what arrived is known for ever",
        ("storage", "redis.call('ZREM', seen, unpack(old))", "old = {}"),
        models=(*DELAY_SHARDS, *CIRCLE_SHARDS),
    ),
    mutant(
        "what arrived is known for ever",
        ("sweep_circle", "redis.call('ZREM', seen, unpack(old))", "old = {}"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "arrived by an old layout",
        ("transfer_accept", NEWER, "false"),
        models=(*DELAY_SHARDS, *CARMINE_SHARDS),
        often=CHANGES,
    ),
    mutant(
        "arrived by an old layout",
        ("transfer_accept", NEWER, "false"),
        models=CIRCLE_SHARDS,
        often=(*CHANGES, "move"),
    ),
    mutant(
        "departed by an old layout",
        ("transfer_hold", NEWER, "false"),
        models=CARRIED,
        often=CHANGES,
    ),
    mutant(
        "each departure has a mark of its own",
        (
            "transfer_hold",
            "{'held', mark,",
            "{'held', redis.call('HINCRBY', stat, 'fence', 1) .. '',",
        ),
        models=CARRIED,
    ),
    mutant(
        "departed and still there",
        ("transfer_hold", "table.insert(list_of(write_buffer_drops, zset), id)", ""),
        models=CARRIED,
    ),
    mutant(
        "departed and in sight",
        ("transfer_hold", "storage_moved(id, state, 'transit')", ""),
        models=(*CIRCLE_SHARDS, *CARMINE_SHARDS),
    ),
    mutant(
        "moved twice",
        ("transfer_drop", "{transit, body, meta,", "{transit, meta,"),
        models=CARRIED,
    ),
    mutant("left behind", ("transfer_drop", "{transit, body,", "{body,"), models=CARRIED),
    mutant("moved without its record", ("transfer_enter", "line ~= ''", "false"), models=CARRIED),
    mutant(
        "moved without its error", ("transfer_accept", "failure ~= ''", "false"), models=CARRIED
    ),
    mutant(
        "moved without what follows",
        ("transfer_accept", "following ~= ''", "false"),
        models=CARRIED,
    ),
    mutant(
        "dead ones arrive alive",
        (
            "transfer_enter",
            "write_buffer_add(state_zsets[state],",
            "write_buffer_add(state_zsets.delayed,",
        ),
        models=CARRIED,
    ),
    mutant(
        "moved while it is worked on",
        ("transfer_hold", "'trash', 'done'}", "'trash', 'done', 'pending'}"),
        models=CARRIED,
    ),
    mutant(
        "moved and in no list",
        ("transfer_enter", "storage_moved(id, from,", "tostring(id, from,"),
        models=(*CIRCLE_SHARDS, *CARMINE_SHARDS),
    ),
    mutant(
        "scheduled between two shards",
        ("schedule", "redis.call('HEXISTS', transit, id) == 1", "false"),
        models=DELAY_SHARDS,
        often=CHANGES,
    ),
    mutant(
        "scheduled by an old layout",
        ("schedule", "elseif newer then", "elseif false then"),
        models=DELAY_SHARDS,
        often=("schedule", "resize"),
    ),
    mutant(
        "pushed between two shards",
        ("push", "state == 'transit' or", "false or"),
        models=CIRCLE_SHARDS,
        often=CHANGES,
    ),
    mutant(
        "pushed by an old layout",
        ("push", "or newer and not state", "or false"),
        models=CIRCLE_SHARDS,
        often=("push", "resize"),
    ),
    mutant(
        "what is done is guarded at its old home alone",
        ("transfer_hold", "state == 'done' and tonumber(at) <= now", "state == 'done'"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "done, and gone from there",
        ("storage", "visible_add(visible_parts, finished, id)", ""),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "done, and out of sight where it arrives",
        ("storage", "to ~= 'done' or from == 'transit'", "to ~= 'done'"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "equal ones let in where it arrives",
        ("transfer_enter", "tonumber(score) - now", "0"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "attempts forgotten on the way",
        ("transfer_enter", "record_unpack(line)", "record_unpack(nil)"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "to be queued again, forgotten on the way",
        ("visible", "if coming[i] then visible_add(joins, requeued, ids[i]) end", ""),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "refused as dead between two shards",
        ("message_facts", "and 'trash' or 'elsewhere'", "and 'trash' or 'dead'"),
        models=CARMINE_SHARDS,
        often=CHANGES,
    ),
    mutant(
        "enqueued by an old layout",
        ("message_facts", NEWER, "false"),
        models=CARMINE_SHARDS,
        often=("enqueue", "resize"),
    ),
    mutant(
        "a shard's count goes with it", ("retire_shard", "return done", "return 0"), models=CARRIED
    ),
    mutant(
        "no fence where shards change",
        ("reject_stale_layout", "redis.call('HSET', cfg, 'layout', layout)", ""),
        models=CARRIED,
        often=CHANGES,
    ),
]
MUTANTS += TOOLKIT
CASES = [
    pytest.param(mutant, model, id=f"{mutant.name}-{model.__name__}")
    for mutant in MUTANTS
    for model in mutant.models
]


def test_every_line_to_spoil_is_in_its_file() -> None:
    texts: dict[str, list[str]] = {}
    for path in Path(core.__file__).parent.rglob("*.lua"):
        texts.setdefault(path.stem, []).append(path.read_text())
    missing = [
        (mutant.name, file)
        for mutant in MUTANTS
        for file, good, _ in mutant.changes
        if not any(good in text for text in texts.get(file, ()))
    ]
    assert missing == []


def test_every_rule_that_a_mutant_needs_often_is_a_rule_of_its_models() -> None:
    unknown = [
        (mutant.name, rule)
        for mutant in MUTANTS
        for rule in mutant.often
        if not any(hasattr(model, rule) for model in (*BOTH, *mutant.models))
    ]
    assert unknown == []


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "model"), CASES)
def test_a_spoilt_line_is_noticed(valkey_url: str, mutant: Mutant, model: type[Model]) -> None:
    first = TELLING.get(f"{mutant.name}-{model.__name__}", 0)
    with spoilt(mutant.changes):
        assert noticed(valkey_url, model, mutant.often, first), "it did all that was asked of it"
