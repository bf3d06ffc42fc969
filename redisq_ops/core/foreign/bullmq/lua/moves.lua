-- What Bull or BullMQ writes when a job goes from one of its lists or sets to another. `e.member` is
-- its id.
-- IMPLEMENTS: moves_fit moves_take_out moves_put_in moves_take_back moves_restorable moves_put_back
-- USES: jobs events beside waiting delays element remove_from_list kept_keys type_check
-- mutant undo forgets the end: 'processedOn', 'finishedOn', 'failedReason', 'returnvalue', =>
local CHANGED = {'processedOn', 'finishedOn', 'failedReason', 'returnvalue', 'retriedOn', 'delay'}
local ENDED = {failed = 'failedReason', completed = 'returnvalue'} -- place -> the field that says how

local fit = {}
local function moves_fit(e)
  local base, job = jobs_place(e).base, jobs_of(e)
  if not fit[base] then
    -- mutant a neighbour's type check off: beside_types => {}
    for part, kind in pairs(beside_types) do type_check_key(base .. part, kind) end
    fit[base] = true
  end
  if job.deid then type_check_key(base .. 'de:' .. job.deid, 'string') end
  beside_fit(e)
end

local function moves_take_out(e, to)
  -- mutant comparison off: if not jobs_seen(e) then return nil end => e.shown = ''
  if not jobs_seen(e) then return nil end
  local place, job, leaves = jobs_place(e), jobs_of(e), to == 'trash' or to == 'gone'
  local refused = beside_refuses(e, leaves, to)
  if refused then return nil, refused end
  if e.dry then return true end
  local ok, why = element_leaves(e, beside_types[place.state])
  if not ok then return nil, why end
  local active = place.state == 'active'
  e.stalled = active and redis.call('SREM', place.base .. 'stalled', e.member) == 1 or nil
  beside_leaves(e, leaves)
  if leaves then
    jobs_remove(e, to == 'trash')
    jobs_changed(e)
  else
    job.returnvalue = redis.call('HGET', job.key, 'returnvalue') -- of any size: not read before
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
  local how = ENDED[place.state]
  -- mutant end left: if how then => if false then
  if how then redis.call('HDEL', key, 'finishedOn', 'processedOn', how) end
  -- mutant delay left: place.state == 'delayed' => false
  if place.state == 'delayed' then redis.call('HSET', key, 'delay', '0') end
  local list
  list, e.there = waiting_add(e)
  beside_waits(e)
  events_add(place.base, 'waiting', 'jobId', e.member, 'prev', place.state)
  jobs_changed(e)
  return list, e.member
end

local function moves_take_back(e, to, list, seen)
  local place, job = jobs_place(e), jobs_of(e)
  if job.timestamp ~= e.made then return nil end -- its id came again
  local began = not ENDED[place.state] and e.before.values[1] or nil
  if job.processedOn ~= began then return nil end -- a worker had it
  if not list then
    return element_leaves_again(e, place.base .. (to == 'delayed' and 'delayed' or 'prioritized'))
  end
  local ok, why = out_of_list(list, e.member, seen)
  if ok then beside_taken_back(e) end
  return ok, why
end

local function moves_restorable(e)
  if e.kept then return kept_keys_restorable(e.kept) end
  return redis.call('EXISTS', jobs_of(e).key) == 1 and beside_restorable(e)
end

local function moves_put_back(e)
  local place = jobs_place(e)
  if e.kept then kept_keys_restore(e.kept)
  else kept_keys_put_fields(CHANGED, {jobs_of(e).key}, e.before) end
  beside_returns(e)
  -- mutant undo forgets the mark
  if e.stalled then redis.call('SADD', place.base .. 'stalled', e.member) end
  waiting_wake_for(place.state, place.base)
  return element_returns(e, true)
end
