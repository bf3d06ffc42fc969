-- What Bull writes when a job goes from one of its lists or sets to another. `e.member` is its id.
-- EXTENDS: foreign.bullmq
-- REPLACES: moves
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- USES: jobs holds indexes waiting delays element remove_from_list kept_keys type_check
-- mutant undo forgets the failure: 'processedOn', 'finishedOn', 'failedReason', =>
local CHANGED = {'processedOn', 'finishedOn', 'failedReason', 'retriedOn', 'delay'}
local TYPES = {wait = 'list', paused = 'list', active = 'list', delayed = 'zset', failed = 'zset',
  completed = 'zset', priority = 'zset', ['repeat'] = 'zset', stalled = 'set',
  ['stalled-check'] = 'string', ['limiter:index'] = 'hash'}

local function moves_fit(e)
  local base, job = jobs_place(e).base, jobs_of(e)
  -- mutant a neighbour's type check off: TYPES => {}
  for part, kind in pairs(TYPES) do type_check_key(base .. part, kind) end
  local limited = indexes_limited(e)
  if job.deid then type_check_key(base .. 'de:' .. job.deid, 'string') end
  if limited then type_check_key(limited, 'set') end
end

local function moves_take_out(e, to)
  -- mutant comparison off: if not jobs_seen(e) then return nil end => e.shown = ''
  if not jobs_seen(e) then return nil end
  local place, job, leaves = jobs_place(e), jobs_of(e), to == 'trash' or to == 'gone'
  if holds_busy(e) then return nil, 'busy' end
  if leaves and holds_recurring(e) then return nil, 'recurring' end
  if e.dry then return true end
  local ok, why = element_leaves(e, TYPES[place.state])
  if not ok then return nil, why end
  e.stalled = redis.call('SREM', place.base .. 'stalled', e.member) == 1 or nil
  indexes_leave(e, leaves)
  if leaves then
    jobs_remove(e, to == 'trash')
    jobs_changed(e)
  else
    e.before, e.made = kept_keys_fields(job, CHANGED, {}), job.timestamp
  end
  return true
end

local function moves_put_in(e, to, at)
  local state, key = jobs_place(e).state, jobs_of(e).key
  e.stamp = nil
  if to == 'delayed' then
    delays_until(e, at)
    return jobs_changed(e)
  end
  if state == 'failed' then
    -- mutant end of the failure left
    redis.call('HDEL', key, 'finishedOn', 'processedOn', 'failedReason')
    redis.call('HSET', key, 'retriedOn', string.format('%.0f', now))
  elseif state == 'delayed' then
    -- mutant delay left
    redis.call('HSET', key, 'delay', '0')
  end
  local list, member = waiting_add(e)
  jobs_changed(e)
  return list, member
end

local function moves_take_back(e, to, list, seen)
  local place, job = jobs_place(e), jobs_of(e)
  if job.timestamp ~= e.made then return nil end -- its id came again
  local began = place.state ~= 'failed' and e.before.values[1] or nil
  if job.processedOn ~= began then return nil end -- a worker had it
  if list then
    local ok, why = out_of_list(list, e.member, seen)
    -- mutant undo leaves the priority
    if ok then redis.call('ZREM', place.base .. 'priority', e.member) end
    return ok, why
  end
  return element_leaves_again(e, e.key)
end

local function moves_restorable(e)
  if e.kept then return kept_keys_restorable(e.kept) end
  return redis.call('EXISTS', jobs_of(e).key) == 1
end

local function moves_put_back(e)
  local place = jobs_place(e)
  local base, state = place.base, place.state
  if e.kept then kept_keys_restore(e.kept)
  else kept_keys_put_fields(CHANGED, {jobs_of(e).key}, e.before) end
  -- mutant undo forgets the mark
  if e.stalled then redis.call('SADD', base .. 'stalled', e.member) end
  indexes_put_back(e)
  waiting_wake_for(state, base)
  -- The queue may have been paused or resumed meanwhile.
  if not e.score and state ~= 'active' then e.key = waiting_list(base) end
  return element_returns(e, true)
end
