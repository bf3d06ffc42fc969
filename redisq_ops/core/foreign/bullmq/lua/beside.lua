-- What BullMQ keeps beside a job's place, and why a job stays there: parents and children. A parent
-- waits until all its children ended, and keeps how each one ended.
-- USES: jobs waiting type_check
local beside_types = {wait = 'list', paused = 'list', active = 'list', prioritized = 'zset',
  delayed = 'zset', ['waiting-children'] = 'zset', failed = 'zset', completed = 'zset', marker = 'zset',
  events = 'stream', meta = 'hash', stalled = 'set', ['repeat'] = 'zset'}

local COLONS = 8 -- of an id, at most

-- How the keys of a job's queue begin, and the job's id. An id may have colons, as that of a
-- schedule's job (`repeat:ID:TIME`): of what may be a queue, the longest that has a `meta` is one.
local function flow_place(key)
  local longest = key:match('^.*:') or ''
  local base, tag = longest, longest:match('{.-}') or '' -- on a Cluster all its keys have it
  for _ = 0, COLONS do
    if redis.call('EXISTS', base .. 'meta') == 1 then return base, key:sub(#base + 1) end
    base = base:match('^(.*:)[^:]*:$')
    if not base or not base:find(tag, 1, true) then break end
  end
  return longest, key:sub(#longest + 1)
end

-- The parent's key, if there is one that counts this job among its children.
local function flow_parent(e)
  local key = jobs_of(e).parentKey
  return key and key ~= '' and redis.call('EXISTS', key) == 1 and key or nil
end

local function beside_fit(e)
  local job, parent = jobs_of(e), flow_parent(e)
  if job.beside > 0 then
    type_check_key(job.key .. ':dependencies', 'set')
    type_check_key(job.key .. ':unsuccessful', 'zset')
  end
  if not parent then return end
  type_check_key(parent .. ':dependencies', 'set')
  type_check_key(parent .. ':unsuccessful', 'zset')
  type_check_key(parent .. ':failed', 'hash')
  local base = flow_place(parent)
  type_check_key(base .. 'waiting-children', 'zset')
end

local function flow_has_children(e)
  local job = jobs_of(e)
  return job.beside > 0 and redis.call('EXISTS', job.key .. ':dependencies', job.key .. ':processed',
    job.key .. ':failed', job.key .. ':unsuccessful') > 0
end

local function flow_state_is(key, state)
  local base, id = flow_place(key)
  return redis.call('ZSCORE', base .. state, id)
end

-- Remember how a parent counts a child that failed. False: the parent went on without it.
local function flow_remember(e)
  local parent = flow_parent(e)
  if not parent then return true end
  if not flow_state_is(parent, 'waiting-children') and not flow_state_is(parent, 'failed') then
    return false
  end
  e.parent, e.child = parent, jobs_of(e).key
  e.unsuccessful = redis.call('ZSCORE', parent .. ':unsuccessful', e.child)
  e.failed = redis.call('HGET', parent .. ':failed', e.child)
  return true
end

-- Whether a replayed parent would run without a child's value: a child has not ended, or a child that
-- made the parent fail can still be replayed.
local function flow_lacks_child(e)
  local job = jobs_of(e)
  if job.beside == 0 then return false end
  if redis.call('SCARD', job.key .. ':dependencies') > 0 then return true end
  for _, child in ipairs(redis.call('ZRANGE', job.key .. ':unsuccessful', 0, 99)) do
    if flow_state_is(child, 'failed') then return true end
  end
end

-- No parent or child is removed: the other one would wait for ever. A child whose parent went on is
-- not replayed, nor one that is done: its parent has its value. A failed parent is replayed only after
-- its children.
local function flow_refuses(e, leaves, to)
  if leaves then return flow_parent(e) or flow_has_children(e) end
  if jobs_place(e).state == 'completed' then return flow_parent(e) end
  local replayed = to == 'waiting' and jobs_place(e).state == 'failed'
  return replayed and (flow_lacks_child(e) or not flow_remember(e))
end

-- Whether a job is the one from which its schedule goes on.
local function is_recurring(e)
  local schedule = jobs_of(e).rjk
  local at = schedule and redis.call('ZSCORE', jobs_place(e).base .. 'repeat', schedule)
  -- Of a schedule that a release before 5 added, the id has a digest in place of its name.
  return at and e.member:sub(1, 7) == 'repeat:' and e.member:sub(-#at - 1) == ':' .. at
end

local function beside_refuses(e, leaves, to)
  local place, job = jobs_place(e), jobs_of(e)
  local locked = job.beside > 0 and redis.call('EXISTS', job.key .. ':lock') == 1
  -- mutant lock ignored: locked or =>
  if locked or job.defa then return 'busy' end
  local stays = to == 'waiting' and place.state == 'delayed' -- as `job.promote()`: the schedule goes on
  if (leaves or place.state == 'delayed' and not stays) and is_recurring(e) then return 'recurring' end
  if flow_refuses(e, leaves, to) then return 'linked' end
  if to == 'waiting' and not waiting_list(place.base) then return 'unclear' end
end

local function beside_leaves() end

-- As BullMQ does it: the parent waits for it again, if it had noted that the child failed.
local function beside_waits(e)
  if not (e.unsuccessful or e.failed) then return end
  redis.call('ZREM', e.parent .. ':unsuccessful', e.child)
  redis.call('HDEL', e.parent .. ':failed', e.child)
  redis.call('SADD', e.parent .. ':dependencies', e.child)
end

local function beside_taken_back() end

local function beside_restorable(e) return not e.parent or redis.call('EXISTS', e.parent) == 1 end

local function beside_returns(e)
  if not (e.unsuccessful or e.failed) then return end
  redis.call('SREM', e.parent .. ':dependencies', e.child)
  if e.unsuccessful then redis.call('ZADD', e.parent .. ':unsuccessful', e.unsuccessful, e.child) end
  if e.failed then redis.call('HSET', e.parent .. ':failed', e.child, e.failed) end
end
