-- Change a live request: cancel, reopen (undoes a cancel), pause, resume, limit, priority. Tokens that
-- are in lists already belong to an older generation then, and are dropped when they are popped. `was`:
-- change a limit or priority only if it has this value now; '': in any case.
-- KEYS: p_ open fin retire r_
-- ARGV: caller seq verb rid value was
-- USES: idempotency transitions config counters history request type_check
-- FLAGS: allow-oom
-- Returns the word `ok`, `same` or `changed` (it isn't what it `was`), and the value before.
local reply, late = idempotency_replayed()
if late then return idempotency_superseded end
if reply then return reply end
history_by = caller
local q = request_get(rid)
if not q then return {err = 'NOTFOUND no such request: ' .. rid} end
local live = q.state == 'open' or q.state == 'sealed'
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
