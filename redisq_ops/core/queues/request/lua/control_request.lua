-- Change a live request: cancel, reopen (cancel's inverse), pause, resume, limit, priority.
-- Tokens already in lists are of the old generation and die when popped.
-- ARGV: caller seq verb rid value was
-- USES: idempotency transitions
-- FLAGS: allow-oom
-- `was`: a limit or priority is changed only where it is that now; '' where it is anything.
-- Returns the word `ok`, `same` or `changed` (it isn't what it `was`), and what the value was before.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller
local q = request(rid)
if not q then return {err = 'NOTFOUND no such request: ' .. rid} end
local live = q.state == 'open' or q.state == 'sealed'
local before, word = '-', 'ok'
touch(q)
ready()
if verb == 'reopen' then must_be(p_ .. q.priority, 'list') end
if verb == 'cancel' then
  if not live then return {err = 'CLOSED the request is already ' .. q.state} end
  before, q.state = q.state, 'cancelled'
  redis.call('ZREM', open, rid)
  redis.call('ZADD', fin, now, rid)
  redis.call('ZADD', retire, now + conf.trash_ms, rid)
  redis.call('HSET', r_ .. rid, 'closed', now)
  redis.pcall('PUBLISH', r_ .. rid, 'cancelled')
elseif verb == 'reopen' then
  if q.state ~= 'cancelled' then return {err = 'CLOSED the request is ' .. q.state} end
  if tonumber(redis.call('ZSCORE', retire, rid)) <= now then -- half of it may be gone
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
  if was ~= '' and before ~= was and before ~= value then return remember({'changed', before}) end
  q[verb] = tonumber(value)
end
if before == tostring(q[verb]) or (verb == 'pause' and before == '1')
  or (verb == 'resume' and before == '0') then
  word = 'same'
else
  q.gen, q.tok = reserve('gen', 1) + 1, 0
  note('op', table.concat({caller, verb, rid, value == '' and '-' or value}, '|'))
end
flush()
return remember({word, before})
