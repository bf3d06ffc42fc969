-- Change a live request: cancel, reopen (undoes a cancel), pause, resume, limit, priority. Tokens that
-- are in lists already belong to an older generation then, and are dropped when they are popped. `was`:
-- change a limit or priority only if it has this value now; '': in any case.
-- KEYS: p_ open fin retire r_
-- ARGV: caller seq verb rid value was
-- USES: idempotency transitions config counters history request type_check
-- FLAGS: allow-oom
-- Returns the word `ok`, `same` or `changed` (it isn't what it `was`), and the value before.
local reply = idempotency_replayed()
if reply then return reply end
history_by = caller
local q = request_get(rid)
if not q then return {err = 'NOTFOUND no such request: ' .. rid} end
local function is_live(q) return q.state == 'open' or q.state == 'sealed' end
local live = is_live(q)
-- The request that this one follows, or the one that follows it (see submit.lua).
local function other(field)
  local id = redis.call('HGET', r_ .. rid, field)
  return id and request_get(id) or {}
end
local waits_for, goes_on -- of one that reopens: which it follows, and whether that is done
if verb == 'cancel' and live then
  local follower = other('then')
  if is_live(follower) then
    return {err = 'CLOSED request ' .. follower.rid .. ' follows it and would wait for ever: '
      .. 'cancel that one first'}
  end
elseif (verb == 'pause' or verb == 'resume') and live and q.paused == 1 then
  local leader = other('follows')
  if is_live(leader) then -- it is paused until then, and a second pause would end with the first
    return {err = 'CLOSED the request goes on when ' .. leader.rid .. ' is done, which it follows'
      .. (verb == 'pause' and ': to hold both, pause that one' or '')}
  end
elseif verb == 'reopen' then
  local leader = other('follows')
  if leader.state == 'cancelled' then
    return {err = 'CLOSED the request follows ' .. leader.rid .. ', which is cancelled: undo that first'}
  end
  local follows = redis.call('HGET', r_ .. rid, 'follows')
  local follower = follows and redis.call('HGET', r_ .. follows, 'then') or rid
  if is_live(leader) and follower ~= rid and (request_get(follower) or {}).state ~= 'cancelled' then
    return {err = 'CLOSED request ' .. follower .. ' follows ' .. follows .. ' in its place: '
      .. 'cancel that one first'}
  end
  waits_for = follows
  goes_on = follows and not is_live(leader)
end
local before, word = '-', 'ok'
request_touch(q)
transitions_check()
if verb == 'reopen' then type_check_key(p_ .. q.priority, 'list') end
if verb == 'cancel' then
  if not live then return {err = 'CLOSED the request is already ' .. q.state} end
  before, q.state = q.state, 'cancelled'
  redis.call('ZREM', open, rid)
  redis.call('ZADD', fin, now, rid)
  redis.call('ZADD', retire, now + config.trash_ms, rid)
  redis.call('HSET', r_ .. rid, 'closed', now)
  redis.pcall('PUBLISH', r_ .. rid, 'cancelled')
elseif verb == 'reopen' then
  if q.state ~= 'cancelled' then return {err = 'CLOSED the request is ' .. q.state} end
  -- mutant a cancelled request half gone reopens:
  --   tonumber(redis.call('ZSCORE', retire, rid)) <= now => false
  if tonumber(redis.call('ZSCORE', retire, rid)) <= now then -- part of it may be removed by now
    return {err = 'CLOSED the request was cancelled too long ago'}
  end
  before, q.state = 'cancelled', value
  if goes_on then
    redis.call('HDEL', r_ .. rid, 'follows')
    q.paused = 0
  elseif waits_for then
    redis.call('HSET', r_ .. waits_for, 'then', rid)
  end
  redis.call('ZADD', open, q.created, rid)
  redis.call('ZREM', fin, rid)
  redis.call('ZREM', retire, rid)
  redis.call('HDEL', r_ .. rid, 'closed')
elseif not live then
  return {err = 'CLOSED the request is already ' .. q.state}
elseif verb == 'pause' or verb == 'resume' then
  before = tostring(q.paused)
  q.paused = verb == 'pause' and 1 or 0
else
  before = tostring(q[verb])
  if was ~= '' and before ~= was and before ~= value then
    return idempotency_remember({'changed', before})
  end
  q[verb] = tonumber(value)
end
if before == tostring(q[verb]) or (verb == 'pause' and before == '1')
  or (verb == 'resume' and before == '0') then
  word = 'same'
else
  q.gen, q.tok = counters_reserve('gen', 1) + 1, 0
  history_note('op', table.concat({caller, verb, rid, value == '' and '-' or value}, '|'))
end
transitions_flush()
return idempotency_remember({word, before})
