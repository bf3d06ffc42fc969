-- Parents and children: a parent waits until all its children ended, and keeps how each one ended.
-- USES: jobs type_check
-- The parent's key, if there is one that counts this job among its children.
local function flow_parent(e)
  local key = jobs_of(e).parentKey
  return key and key ~= '' and redis.call('EXISTS', key) == 1 and key or nil
end

local function flow_fit(e)
  local job, parent = jobs_of(e), flow_parent(e)
  if job.beside > 0 then
    type_check_key(job.key .. ':dependencies', 'set')
    type_check_key(job.key .. ':unsuccessful', 'zset')
  end
  if not parent then return end
  type_check_key(parent .. ':dependencies', 'set')
  type_check_key(parent .. ':unsuccessful', 'zset')
  type_check_key(parent .. ':failed', 'hash')
  type_check_key((parent:match('^.*:') or '') .. 'waiting-children', 'zset')
end

local function flow_has_children(e)
  local job = jobs_of(e)
  return job.beside > 0 and redis.call('EXISTS', job.key .. ':dependencies', job.key .. ':processed',
    job.key .. ':failed', job.key .. ':unsuccessful') > 0
end

local function flow_state_is(key, state)
  local base, id = key:match('^(.*:)([^:]+)$')
  return base and redis.call('ZSCORE', base .. state, id)
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
-- not replayed, and a failed parent only after its children.
local function flow_refuses(e, to)
  if to == 'trash' or to == 'gone' then return flow_parent(e) or flow_has_children(e) end
  local replayed = to == 'waiting' and jobs_place(e).state == 'failed'
  return replayed and (flow_lacks_child(e) or not flow_remember(e))
end

-- As BullMQ does it: the parent waits for it again, if it had noted that the child failed.
local function flow_join(e)
  if not (e.unsuccessful or e.failed) then return end
  redis.call('ZREM', e.parent .. ':unsuccessful', e.child)
  redis.call('HDEL', e.parent .. ':failed', e.child)
  redis.call('SADD', e.parent .. ':dependencies', e.child)
end

local function flow_joinable(e) return not e.parent or redis.call('EXISTS', e.parent) == 1 end

local function flow_leave(e)
  if not (e.unsuccessful or e.failed) then return end
  redis.call('SREM', e.parent .. ':dependencies', e.child)
  if e.unsuccessful then redis.call('ZADD', e.parent .. ':unsuccessful', e.unsuccessful, e.child) end
  if e.failed then redis.call('HSET', e.parent .. ':failed', e.child, e.failed) end
end
