-- What Bull writes when a job goes from one of its lists or sets to another. `e.member` is its id.
-- EXTENDS: foreign.bullmq
-- REPLACES: moves
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- USES: jobs holds places indexes waiting delays remove_from_list put_into_list kept_keys type_check
local CHANGED = {'processedOn', 'finishedOn', 'failedReason', 'retriedOn', 'delay'}
local TYPES = {wait = 'list', paused = 'list', active = 'list', delayed = 'zset', failed = 'zset',
  completed = 'zset', priority = 'zset', ['repeat'] = 'zset', stalled = 'set',
  ['stalled-check'] = 'string', ['limiter:index'] = 'hash'}

local function moves_fit(e)
  local base = jobs_base(e)
  type_check_key(jobs_key(e), 'hash')
  for part, kind in pairs(TYPES) do type_check_key(base .. part, kind) end
  local once, limited = jobs_field(e, 'deid'), indexes_limited(e)
  if once then type_check_key(base .. 'de:' .. once, 'string') end
  if limited then type_check_key(limited, 'set') end
end

local function moves_take_out(e, to)
  if not jobs_seen(e) then return nil end
  local base, key, leaves = jobs_base(e), jobs_key(e), to == 'trash' or to == 'gone'
  if holds_busy(e) then return nil, 'busy' end
  if leaves and holds_recurring(e) then return nil, 'recurring' end
  if e.dry then return true end
  local ok, why = places_leave(e, TYPES[jobs_state(e)] == 'list')
  if not ok then return nil, why end
  e.stalled = redis.call('SREM', base .. 'stalled', e.member) == 1 or nil
  indexes_leave(e, leaves)
  if leaves then
    jobs_remove(e, to == 'trash')
  else
    e.before = kept_keys_fields(key, CHANGED, {})
  end
  return true
end

local function moves_put_in(e, to, at)
  local state, key = jobs_state(e), jobs_key(e)
  if to == 'delayed' then return delays_until(e, at) end
  if state == 'failed' then
    redis.call('HDEL', key, 'finishedOn', 'processedOn', 'failedReason')
    redis.call('HSET', key, 'retriedOn', string.format('%.0f', now))
  elseif state == 'delayed' then
    redis.call('HSET', key, 'delay', '0')
  end
  return waiting_add(e)
end

local function moves_take_back(e, to, list, seen)
  if to == 'restore' then
    e.seen = seen or e.seen
    return moves_take_out(e, 'trash')
  end
  local made, began = unpack(redis.call('HMGET', jobs_key(e), 'timestamp', 'processedOn'))
  if made ~= e.stamp:match('^%S+') then return nil end -- its id came again
  if began ~= (jobs_state(e) ~= 'failed' and e.before.values[1]) then return nil end -- a worker had it
  if list then
    local ok, why = out_of_list(list, e.member, seen)
    if ok then redis.call('ZREM', jobs_base(e) .. 'priority', e.member) end
    return ok, why
  end
  if tonumber(redis.call('ZSCORE', e.key, e.member) or nil) ~= tonumber(e.there) then return nil end
  return redis.call('ZREM', e.key, e.member) == 1
end

local function moves_restorable(e)
  if e.kept then return kept_keys_restorable(e.kept) end
  return redis.call('EXISTS', jobs_key(e)) == 1
end

local function moves_put_back(e)
  local base, state = jobs_base(e), jobs_state(e)
  if e.kept then kept_keys_restore(e.kept)
  else kept_keys_put_fields(jobs_key(e), CHANGED, {}, e.before) end
  if e.stalled then redis.call('SADD', base .. 'stalled', e.member) end
  indexes_put_back(e)
  waiting_wake_for(state, base)
  if e.score then
    redis.call('ZADD', e.key, e.score, e.member)
    return nil
  end
  if state ~= 'active' then e.key = waiting_list(base) end -- it was paused meanwhile, or goes on
  into_list(e.key, e.member, e.left, true)
  return e.key, e.member
end
