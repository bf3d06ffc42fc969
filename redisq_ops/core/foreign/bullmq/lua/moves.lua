-- What BullMQ writes when a job goes from one of its lists or sets to another. `e.member` is its id.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- USES: jobs events flow waiting delays element remove_from_list kept_keys type_check
-- mutant undo forgets the failure: 'processedOn', 'finishedOn', 'failedReason', =>
local CHANGED = {'processedOn', 'finishedOn', 'failedReason', 'delay'}
local LISTS = {wait = true, paused = true, active = true}
local TYPES = {wait = 'list', paused = 'list', prioritized = 'zset', delayed = 'zset', marker = 'zset',
  events = 'stream', meta = 'hash', stalled = 'set', ['repeat'] = 'zset', active = 'list'}

local function moves_fit(e)
  local place, job = jobs_place(e), jobs_of(e)
  local base = place.base
  type_check_key(e.key, LISTS[place.state] and 'list' or 'zset')
  -- mutant a neighbour's type check off: TYPES => {}
  for part, kind in pairs(TYPES) do type_check_key(base .. part, kind) end
  if job.deid then type_check_key(base .. 'de:' .. job.deid, 'string') end
  flow_fit(e)
end

local function moves_take_out(e, to)
  -- mutant comparison off: if not jobs_seen(e) then return nil end => e.shown = ''
  if not jobs_seen(e) then return nil end
  local place, job = jobs_place(e), jobs_of(e)
  local base, state = place.base, place.state
  local locked = job.beside > 0 and redis.call('EXISTS', job.key .. ':lock') == 1
  -- mutant lock ignored: locked or =>
  if locked or job.defa then return nil, 'busy' end
  local leaves = to == 'trash' or to == 'gone'
  if (leaves or state == 'delayed') and jobs_recurring(e) then return nil, 'recurring' end
  if flow_refuses(e, to) then return nil, 'linked' end
  if jobs_too_old(e) or to == 'waiting' and not waiting_list(base) then return nil, 'unclear' end
  if e.dry then return true end
  local ok, why = element_leaves(e, LISTS[state] and 'list' or 'zset')
  if not ok then return nil, why end
  e.stalled = state == 'active' and redis.call('SREM', base .. 'stalled', e.member) == 1 or nil
  if leaves then
    jobs_remove(e, to == 'trash')
    jobs_changed(e)
  else
    e.before, e.made = kept_keys_fields(job, CHANGED, {}), job.timestamp
  end
  return true
end

local function moves_put_in(e, to, at)
  local place, key = jobs_place(e), jobs_of(e).key
  e.stamp = nil
  if to == 'delayed' then
    delays_until(e, at)
    return jobs_changed(e)
  end
  -- mutant end of the failure left: place.state == 'failed' => false
  if place.state == 'failed' then
    redis.call('HDEL', key, 'finishedOn', 'processedOn', 'failedReason')
  end
  -- mutant delay left: place.state == 'delayed' => false
  if place.state == 'delayed' then redis.call('HSET', key, 'delay', '0') end
  local list
  list, e.there = waiting_add(e, place.state == 'active')
  flow_join(e)
  events_add(place.base, 'waiting', 'jobId', e.member, 'prev', place.state)
  jobs_changed(e)
  return list, e.member
end

local function moves_take_back(e, to, list, seen)
  if jobs_of(e).timestamp ~= e.made then return nil end -- its id came again
  if list then return out_of_list(list, e.member, seen) end
  return element_leaves_again(e, jobs_place(e).base .. (to == 'delayed' and 'delayed' or 'prioritized'))
end

local function moves_restorable(e)
  if e.kept then return kept_keys_restorable(e.kept) end
  return redis.call('EXISTS', jobs_of(e).key) == 1 and flow_joinable(e)
end

local function moves_put_back(e)
  local place = jobs_place(e)
  if e.kept then kept_keys_restore(e.kept)
  else kept_keys_put_fields(CHANGED, {jobs_of(e).key}, e.before) end
  flow_leave(e)
  if e.stalled then redis.call('SADD', place.base .. 'stalled', e.member) end
  waiting_wake_for(place.state, place.base)
  return element_returns(e, true)
end
