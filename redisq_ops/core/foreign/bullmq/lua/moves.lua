-- What BullMQ writes when a job goes from one of its lists or sets to another. `e.member` is its id.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- USES: jobs events places flow waiting delays remove_from_list put_into_list kept_keys type_check
local CHANGED = {'processedOn', 'finishedOn', 'failedReason', 'delay'}
local LISTS = {wait = true, paused = true, active = true}
local TYPES = {wait = 'list', paused = 'list', prioritized = 'zset', delayed = 'zset', marker = 'zset',
  events = 'stream', meta = 'hash', stalled = 'set', ['repeat'] = 'zset', active = 'list'}

local function moves_fit(e)
  local base = jobs_base(e)
  type_check_key(e.key, LISTS[jobs_state(e)] and 'list' or 'zset')
  type_check_key(jobs_key(e), 'hash')
  for part, kind in pairs(TYPES) do type_check_key(base .. part, kind) end
  local once = jobs_field(e, 'deid')
  if once then type_check_key(base .. 'de:' .. once, 'string') end
  flow_fit(e)
end

local function moves_take_out(e, to)
  if not jobs_seen(e) then return nil end
  local base, state, key = jobs_base(e), jobs_state(e), jobs_key(e)
  if redis.call('EXISTS', key .. ':lock') == 1 or jobs_field(e, 'defa') then return nil, 'busy' end
  local leaves = to == 'trash' or to == 'gone'
  if (leaves or state == 'delayed') and jobs_recurring(e) then return nil, 'recurring' end
  if flow_refuses(e, to) then return nil, 'linked' end
  if jobs_too_old(e) or to == 'waiting' and not waiting_list(base) then return nil, 'unclear' end
  if e.dry then return true end
  local ok, why = places_leave(e, LISTS[state])
  if not ok then return nil, why end
  e.stalled = state == 'active' and redis.call('SREM', base .. 'stalled', e.member) == 1 or nil
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
  if state == 'failed' then redis.call('HDEL', key, 'finishedOn', 'processedOn', 'failedReason') end
  if state == 'delayed' then redis.call('HSET', key, 'delay', '0') end
  local list
  list, e.there = waiting_add(e, state == 'active')
  flow_join(e)
  events_add(jobs_base(e), 'waiting', 'jobId', e.member, 'prev', state)
  return list, e.member
end

local function moves_take_back(e, to, list, seen)
  local base = jobs_base(e)
  if to == 'restore' then
    e.seen = seen or e.seen
    return moves_take_out(e, 'trash')
  end
  if jobs_field(e, 'timestamp') ~= e.stamp:match('^%S+') then return nil end -- its id came again
  if list then return out_of_list(list, e.member, seen) end
  local set = base .. (to == 'delayed' and 'delayed' or 'prioritized')
  if tonumber(redis.call('ZSCORE', set, e.member) or nil) ~= tonumber(e.there) then return nil end
  redis.call('ZREM', set, e.member)
  return true
end

local function moves_restorable(e)
  if e.kept then return kept_keys_restorable(e.kept) end
  return redis.call('EXISTS', jobs_key(e)) == 1 and flow_joinable(e)
end

local function moves_put_back(e)
  if e.kept then kept_keys_restore(e.kept)
  else kept_keys_put_fields(jobs_key(e), CHANGED, {}, e.before) end
  flow_leave(e)
  if e.stalled then redis.call('SADD', jobs_base(e) .. 'stalled', e.member) end
  if e.score then
    redis.call('ZADD', e.key, e.score, e.member)
  else
    into_list(e.key, e.member, e.left, true)
  end
  waiting_wake_for(jobs_state(e), jobs_base(e))
  if not e.score then return e.key, e.member end
end
