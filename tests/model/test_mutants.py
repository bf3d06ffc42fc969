"""The model must notice: each mutant is one line of Lua spoilt on purpose, and has to be caught.

A mutant that lives means that the model looks away there, or that the line does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

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
    "arrived by an old layout-ShardedDelayModel": 7,
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
    "a late receipt hides the good one-CarmineModel": 1,
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
    mutant("no guard against re-sending", ("guard", "redis.call('HGET', callers, caller)", "nil")),
    mutant("leases not looked at", ("due", "lease, '-inf', now,", "lease, '-inf', '+inf',")),
    mutant(
        "one over the limit",
        ("take", "q.limit - q.pending, q.waiting", "q.limit + 1 - q.pending, q.waiting"),
        ("room", "q.limit - q.pending, q.waiting", "q.limit + 1 - q.pending, q.waiting"),
        models=REQUESTS,
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
        ("begin", "reserve('gen', 1) + 1", "1"),
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
    mutant(
        "undo of what was touched", ("undo", "ours = f and line:find", "ours = true or line:find")
    ),
    mutant("moves without looking again", ("move", "not seen[id] and room_score(id, from)", "'0'")),
    mutant("an id twice in a step", ("move", "not seen[id] and room_score", "room_score")),
    mutant("latecomers moved too", ("move", "r.since > tonumber(high_water)", "false")),
    mutant(
        "moved when purged for good",
        ("room", "return there and there[1] and began or nil", "return began"),
        models=REQUESTS,
        often=("move", "submit"),
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
        ("settle", "    said[k] = 'stale'\n", "    said[k], settled[id] = 'stale', true\n"),
    ),
    mutant("errors kept for ever", ("moves", "redis.call('HDEL', err, unpack(forgotten))", "")),
    mutant(
        "errors of what was done kept", ("moves", "redis.call('HDEL', err, unpack(concluded))", "")
    ),
    mutant(
        "numbers compared as words",
        (
            "requests",
            "#digits > #q.upto or #digits == #q.upto and digits > q.upto",
            "digits > q.upto",
        ),
        models=REQUESTS,
    ),
    mutant(
        "records kept for ever", ("noted", "if r.first == 0 and r.op == '-' then", "if false then")
    ),
    mutant("receipts outlive the delivery", ("moves", "if to ~= 'pending' then", "if false then")),
    mutant("lost leases not counted", ("due", "r.lost = r.lost + 1", "")),
    mutant(
        "dead one lost lease late", ("due", "r.lost >= conf.max_lost", "r.lost > conf.max_lost")
    ),
    mutant(
        "dead one failure late",
        ("settle", "r.failures >= conf.max", "r.failures > conf.max"),
        often=("submit", "schedule", "take", "settle"),
    ),
    mutant(
        "delayed ones back too early", ("take", "delay, '-inf', now,", "delay, '-inf', '+inf',")
    ),
    mutant(
        "results lost",
        ("room", "keep_result(q, entry, value, entry)", "keep_result(q, entry, '', entry)"),
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
        ("take", "return live and q.paused ~= 1 and", "return live and"),
        ("room", "or q.paused == 1 then", "then"),
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
        ("room", "q.dead > 0 or q.trash", "q.trash"),
        models=REQUESTS,
        often=("pass_an_hour",),
    ),
    mutant(
        "a cancelled request half gone reopens",
        ("control", "tonumber(redis.call('ZSCORE', retire, rid)) <= now", "false"),
        models=REQUESTS,
        often=("control", "pass_time"),
    ),
    mutant("receipts that repeat", ("deliver", "numbered(fence, n,", "numbered(0, n,")),
    mutant(
        "order lost with a lease",
        ("due", "r.ready > 0 and math.min(r.ready, now) or now", "now"),
        models=DELAYS,
    ),
    mutant(
        "the next run forgotten",
        ("room", "if not row then return nil end", "if true then return nil end"),
        models=DELAYS,
    ),
    mutant(
        "a rescheduled entry undone",
        ("schedule", "r.op, r.since = '-',", "r.op, r.since = r.op,"),
        models=DELAYS,
    ),
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
TOOLKIT = [
    mutant(
        "latecomers moved with their state",
        ("front", "'-inf', high_water, 'BYSCORE'", "'-inf', '+inf', 'BYSCORE'"),
        models=BOTH,
        often=("move_whole",),
    ),
    mutant(
        "what an undo put back since moved with its state",
        ("front", "(since <= limit or since > now) and ", ""),
        models=BOTH,
        often=("move_whole", "undo"),
    ),
    mutant(
        "nobody learns that an undo put anything back",
        ("moves", "if backdated then redis.call('HSET', stat, 'put_back', now) end", ""),
        models=BOTH,
        often=("move_whole", "undo"),
    ),
    mutant(
        "a front step done twice",
        ("front", "if said then return said end", ""),
        often=("move_whole",),
    ),
    mutant(
        "a step behind its operation's undo",
        ("front", "if journal[1] then return {} end", ""),
        models=BOTH,
        often=("move_whole", "undo"),
    ),
    mutant(
        "attempts kept by a whole replay",
        ("front", "{'- 0 0', REPLAYED,", "{'- 1 0', REPLAYED,"),
        often=("move_whole",),
    ),
    mutant(
        "delivered before a replay, and forgotten",
        ("front", "{'- 0 0', REPLAYED,", "{'- 0 0', 0,"),
        often=("move_whole",),
    ),
    mutant(
        "undone twice, and dead since the first undo",
        ("front", "scores[k] = score_of[ids[k]]", ""),
        models=BOTH,
        often=("move_whole", "undo"),
    ),
    mutant(
        "one too many leaves a whole state",
        ("front", "left + moved - 1)", "left + moved)"),
        often=("move_whole",),
    ),
    mutant(
        "a run that forgets what leaves the dead",
        (
            "run",
            "whose.dead, whose[to] = whose.dead - 1, whose[to] + 1",
            "whose[to] = whose[to] + 1",
        ),
        models=REQUESTS,
        often=("move_whole",),
    ),
    mutant(
        "a run that goes on into the next request",
        ("run", "find(id, ahead, 1, true) == 1", "true"),
        models=REQUESTS,
        often=("move_whole",),
    ),
    mutant(
        "a whole state emptied, and its payloads kept",
        ("run", "append(gone, moved)", ""),
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
    mutant("an edit done twice", ("edit", "if said then return said end", ""), often=("edit",)),
    mutant(
        "an edit undone though touched",
        ("unedit", "r.op == op and", ""),
        often=("edit", "undo", "submit", "schedule", "take", "settle"),
    ),
    mutant(
        "records of an edit that was undone",
        ("unedit", "retain(id, r)", "keep(id, packed(r))"),
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
        ("room", "redis.call('HDEL', edited, unpack(ended))", ""),
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
    mutant("a paused circle goes on", ("take", "not conf.paused and (", "("), models=CIRCLES),
    mutant(
        "the last in comes first",
        ("pop", "'RPOP', queue, math", "'LPOP', queue, math"),
        models=CIRCLES,
    ),
    mutant(
        "what lost its turn goes behind",
        ("room", "from == 'pending' and r and r.first > 0", "false"),
        models=CIRCLES,
    ),
    mutant(
        "pushed while worked on, and forgotten",
        ("push", "if #touched > 0 then", "if #touched > 999 then"),
        models=CIRCLES,
    ),
    mutant(
        "what follows has the payload of before",
        ("known", "redis.call('HSET', body, unpack(renewed))", ""),
        models=CIRCLES,
    ),
    mutant(
        "what follows comes but once",
        ("known", "if not each or many(row) <= 1 then", "if true then"),
        models=CIRCLES,
    ),
    mutant(
        "what was pushed meanwhile dies with it",
        ("room", "from == 'pending' and room_again(id)", "false"),
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
        ("met", "if not clean and unspend(id) then", "if false then"),
        models=CIRCLES,
    ),
    mutant(
        "two elements for one id",
        ("elements", "'EXISTS', spent) == 1", "'EXISTS', spent) == 7"),
        models=CIRCLES,
    ),
    mutant(
        "an id twice in a take",
        ("met", "held[id] and 'pending' or content and", "content and"),
        models=CIRCLES,
    ),
    mutant(
        "a foreign push forgotten", ("met", "owe(id, state, content or '')", ""), models=CIRCLES
    ),
    mutant("illegal ids thrown away", ("met", "        bury(name, id)\n", ""), models=CIRCLES),
    mutant(
        "the next run outlives its id",
        ("room", "if follows ~= false then redis.call('HDEL', again, unpack(ended)) end", ""),
        models=CIRCLES,
    ),
    mutant(
        "held ids leave a list that turns",
        ("met", "(state == 'pending' or state == 'delayed' or", "(state == 'pending' or"),
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
        ("again", "add(puts, messages, id, content)", ""),
        models=CARMINES,
    ),
    mutant("it runs again for ever", ("again", "add(cuts, next, id)", ""), models=CARMINES),
    mutant(
        "to be queued again for ever",
        ("again", "add(parts, requeued, id)", ""),
        models=CARMINES,
    ),
    mutant(
        "it runs again without the backoff",
        ("again", "return now + wait", "return now"),
        models=CARMINES,
    ),
    mutant(
        "newer content dies with the old",
        ("sight", "#ids == 0 or not", "true or not"),
        models=CARMINES,
    ),
    mutant(
        "locks that stay",
        ("room", "from == 'pending' and to ~= 'pending'", "false"),
        models=CARMINES,
    ),
    mutant(
        "locks not renewed",
        ("extend", "redis.call('HSET', locks, unpack(lock))", ""),
        models=CARMINES,
    ),
    mutant(
        "dead ones in sight",
        ("sight", "for _, key in ipairs({messages, ", "for _, key in ipairs({"),
        models=CARMINES,
    ),
    mutant(
        "attempts not counted there",
        ("room", "if tries > 0 then add(puts", "if false then add(puts"),
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
    mutant("dry runs not counted", ("dry", "redis.pcall('INCR', dry_runs)", "1"), models=CARMINES),
]
FAIRS = (FairModel,)
MUTANTS += [
    *(
        replace(mutant, models=FAIRS)
        for mutant in MUTANTS
        if mutant.models is BOTH and mutant.name != "a paused queue goes on"
    ),
    mutant(
        "a paused queue serves", ("take", "if not conf.paused then", "if true then"), models=FAIRS
    ),
    mutant("turns not counted", ("turns", "a.vt + a.cost", "a.vt"), models=FAIRS),
    mutant("weights ignored", ("turns", "math.floor(TURN / a.weight)", "TURN"), models=FAIRS),
    mutant(
        "history counts for a newcomer",
        ("ring", "math.max(a.vt, (virtual_time()))", "a.vt"),
        models=FAIRS,
    ),
    mutant("a debt forgotten", ("ring", "and a.vt <= virtual_time()", ""), models=FAIRS),
    mutant("a debt for ever", ("take", "others > 0 and math", "true and math"), models=FAIRS),
    mutant(
        "equals in the order of chance",
        ("turns", "line[at].vt == a.vt and line[at].name > a.name", "false"),
        models=FAIRS,
    ),
    mutant(
        "a cap within a batch",
        ("turns", "math.min(a.waiting, a.cap - a.pending)", "a.waiting"),
        models=FAIRS,
    ),
    mutant("a cap in the ring", ("accounts", "a.pending < a.cap", "true"), models=FAIRS),
    mutant("blocked ones served", ("accounts", "and a.blocked == 0 and", "and"), models=FAIRS),
    mutant(
        "pending ones never counted back",
        ("room", "math.max(0, a.pending - 1)", "a.pending"),
        models=FAIRS,
    ),
    mutant(
        "purged ones delivered from their holes",
        ("leave", "if not marks[i] then got", "if true then got"),
        models=FAIRS,
    ),
    mutant(
        "two places for one entry",
        ("lists", "if not marks[i] then fresh", "if true then fresh"),
        models=FAIRS,
    ),
    mutant("places moved", ("leave", "a.head = a.head + #ids", ""), models=FAIRS),
    mutant(
        "what failed comes first",
        ("room", "(failed or from == 'dead') and backs or fronts", "fronts"),
        models=FAIRS,
    ),
    mutant(
        "what was lost comes last",
        ("room", "join(account(name), list, true)", "join(account(name), list)"),
        models=FAIRS,
    ),
    mutant(
        "what comes back comes backwards",
        ("lists", "reversed[n + 1 - i] = id", "reversed[i] = id"),
        models=FAIRS,
    ),
    mutant("spent holes kept", ("pack", "marks[i] ~= '1' then", "true then"), models=FAIRS),
    mutant(
        "places that are wanted packed away",
        ("pack", "marks[i] ~= '1' then", "not marks[i] then"),
        models=FAIRS,
    ),
    mutant("owners kept", ("room", "ipairs({body, owner})", "ipairs({body})"), models=FAIRS),
    mutant("taken ids overwritten", ("submit", "old == content and", "true and"), models=FAIRS),
    mutant("ended together, counted once", ("back", "counts[name] + 1", "1"), models=FAIRS),
    mutant(
        "clients nobody knows any more are known",
        ("back", "left > 0 or left == 0 and waiting ~= '0'", "left >= 0"),
        models=FAIRS,
    ),
    mutant("below its cap and not in the ring", ("back", "( %-?%d+ %d+)$", "( .*)$"), models=FAIRS),
    mutant(
        "ended and still there",
        ("back", "  redis.call('HDEL', body, unpack(gone))\n", ""),
        models=FAIRS,
    ),
    mutant(
        "what made a key large stays there",
        ("large", "  redis.call('HDEL', key, LONG)\n", ""),
        models=FAIRS,
    ),
    mutant(
        "what made a set large stays there",
        ("large", "  redis.call('ZREM', key, LONG)\n", ""),
        models=FAIRS,
    ),
    mutant(
        "receipts after ten begin anew",
        ("numbers", "digit == 0 or not head", "not head"),
        models=FAIRS,
    ),
    mutant("a rule that isn't kept", ("govern", "touched[client] = a\n", ""), models=FAIRS),
    mutant("a rule that isn't changed", ("govern", "= tonumber(value)", "= a[rule]"), models=FAIRS),
    mutant("a rule kept as text", ("govern", "= tonumber(value)", "= value"), models=FAIRS),
    mutant(
        "a rule's change that is new each time",
        ("govern", "before == value and 'same' or 'ok'", "'ok'"),
        models=FAIRS,
    ),
    mutant(
        "a rule changed twice",
        ("govern", "if said then return said end", ""),
        models=FAIRS,
        often=("govern",),
    ),
    mutant(
        "a weight goes with the last entry",
        ("ring", " and a.weight == 1 and", " and"),
        models=FAIRS,
    ),
    mutant(
        "a cap goes with the last entry",
        ("ring", "a.cap + a.blocked == 0", "a.blocked == 0"),
        models=FAIRS,
    ),
    mutant(
        "a block goes with the last entry",
        ("ring", "a.cap + a.blocked == 0", "a.cap == 0"),
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
        ("fence", "redis.call('HSET', cfg, 'layout', layout)", ""),
        models=FAIR_SHARDS,
    ),
    mutant(
        "known clients keep their rules in a shard that is given up",
        ("govern", "if a.new and conf", "if conf"),
        models=FAIR_SHARDS,
        often=("govern",),
    ),
    mutant(
        "new clients get no rules in a shard that lives",
        ("govern", "conf.retired", "true"),
        models=FAIR_SHARDS,
        often=("govern",),
    ),
    mutant(
        "new clients get no rules in a shard that isn't empty yet",
        ("govern", " and redis.call('EXISTS', body) == 0 then", " then"),
        models=FAIR_SHARDS,
        often=("govern",),
    ),
    mutant(
        "what they settled isn't counted",
        ("retire", "return done", "return 0"),
        models=FAIR_SHARDS,
        often=("resize",),
    ),
]
DELAY_SHARDS, CIRCLE_SHARDS = (ShardedDelayModel,), (ShardedCircleModel,)
CARMINE_SHARDS = (ShardedCarmineModel,)
CARRIED = (*DELAY_SHARDS, *CIRCLE_SHARDS, *CARMINE_SHARDS)
NEWER = "(tonumber(conf.layout) or 0) > tonumber(layout)"
CHANGES = ("resize", "stop_a_mover")
MUTANTS += [
    mutant(
        "what arrives is never known",
        ("arrive", "elseif came and tonumber(came) > now - conf.keep_ms then", "elseif false then"),
        models=CARRIED,
        often=CHANGES,
    ),
    mutant(
        "what arrived is known for ever",
        ("room", "redis.call('ZREM', seen, unpack(old))", "old = {}"),
        models=(*DELAY_SHARDS, *CIRCLE_SHARDS),
    ),
    mutant(
        "what arrived is known for ever",
        ("sweeping", "redis.call('ZREM', seen, unpack(old))", "old = {}"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "arrived by an old layout",
        ("arrive", NEWER, "false"),
        models=(*DELAY_SHARDS, *CARMINE_SHARDS),
        often=CHANGES,
    ),
    mutant(
        "arrived by an old layout",
        ("arrive", NEWER, "false"),
        models=CIRCLE_SHARDS,
        often=(*CHANGES, "move"),
    ),
    mutant("departed by an old layout", ("depart", NEWER, "false"), models=CARRIED, often=CHANGES),
    mutant(
        "each departure has a mark of its own",
        (
            "depart",
            "answer('off', mark,",
            "answer('off', redis.call('HINCRBY', stat, 'fence', 1) .. '',",
        ),
        models=CARRIED,
    ),
    mutant(
        "departed and still there",
        ("depart", "redis.call('ZREM', zset, id)", ""),
        models=(*DELAY_SHARDS, *CIRCLE_SHARDS),
    ),
    mutant("moved twice", ("departed", "{transit, body, meta,", "{transit, meta,"), models=CARRIED),
    mutant("left behind", ("departed", "{transit, body,", "{body,"), models=CARRIED),
    mutant("moved without its record", ("arrive", "record ~= ''", "false"), models=CARRIED),
    mutant("moved without its error", ("arrive", "failure ~= ''", "false"), models=CARRIED),
    mutant(
        "moved without the run that follows",
        ("arrive", "following ~= '' then", "false then"),
        models=(*DELAY_SHARDS, *CARMINE_SHARDS),
    ),
    mutant(
        "moved without the runs that follow",
        ("arrive", "local row = following ~= '' and", "local row = false and"),
        models=CIRCLE_SHARDS,
    ),
    mutant(
        "dead ones arrive alive",
        ("arrive", "zset_of[state] or delay", "delay"),
        models=DELAY_SHARDS,
    ),
    mutant(
        "moved while it is worked on",
        ("depart", "state ~= 'pending' and state ~= 'transit'", "state ~= 'transit'"),
        models=CIRCLE_SHARDS,
    ),
    mutant(
        "its element stays",
        ("depart", "leaving[#leaving + 1] = id", ""),
        models=CIRCLE_SHARDS,
    ),
    mutant(
        "moved and in no list",
        ("arrive", "if resides(state) then enter(id) end", ""),
        models=CIRCLE_SHARDS,
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
        "queued and between two shards",
        ("depart", "redis.call('ZREM', zset_of[state], id)", ""),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "between two shards, and in sight",
        ("depart", "if at and sighted then leave_sight(id) end", ""),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "what is done is guarded at its old home alone",
        ("depart", "state == 'done' and tonumber(at) <= now", "state == 'done'"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "done, and gone from there",
        ("depart", "redis.call('SREM', finished, id)", ""),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "done, and queued where it arrives",
        ("arrive", "redis.call('SADD', finished, id)", ""),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "equal ones let in where it arrives",
        ("arrive", "if tonumber(at) > now then", "if false then"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "dead ones arrive in sight",
        ("arrive", "state == 'dead' or state == 'trash'", "false"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "moved and in no circle",
        ("arrive", "if #coming > 0 then", "if false then"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "attempts forgotten on the way",
        ("arrive", "r.failures + r.lost > 0", "false"),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "to be queued again, forgotten on the way",
        ("arrive", "redis.call('SADD', requeued, id)", ""),
        models=CARMINE_SHARDS,
    ),
    mutant(
        "refused as dead between two shards",
        ("known", "and 'trash' or 'elsewhere'", "and 'trash' or 'dead'"),
        models=CARMINE_SHARDS,
        often=CHANGES,
    ),
    mutant(
        "enqueued by an old layout",
        ("known", NEWER, "false"),
        models=CARMINE_SHARDS,
        often=("enqueue", "resize"),
    ),
    mutant("a shard's count goes with it", ("retire", "return done", "return 0"), models=CARRIED),
    mutant(
        "no fence where shards change",
        ("fence", "redis.call('HSET', cfg, 'layout', layout)", ""),
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


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "model"), CASES)
def test_a_spoilt_line_is_noticed(valkey_url: str, mutant: Mutant, model: type[Model]) -> None:
    first = TELLING.get(f"{mutant.name}-{model.__name__}", 0)
    with spoilt(mutant.changes):
        assert noticed(valkey_url, model, mutant.often, first), "it did all that was asked of it"
