-- Parents and children: a parent waits until each of its children has ended, and keeps how.
-- USES: jobs type_check
-- The parent's key, if there is one that counts this job among its children.
local function flow_parent(e)
  local key = jobs_field(e, 'parentKey')
  return key and key ~= '' and redis.call('EXISTS', key) == 1 and key or nil
end

local function flow_fit(e)
  local parent = flow_parent(e)
  if not parent then return end
  type_check_key(parent .. ':dependencies', 'set')
  type_check_key(parent .. ':unsuccessful', 'zset')
  type_check_key(parent .. ':failed', 'hash')
  type_check_key((parent:match('^.*:') or '') .. 'waiting-children', 'zset')
end

local function flow_has_children(e)
  local key = jobs_key(e)
  return redis.call('EXISTS', key .. ':dependencies', key .. ':processed', key .. ':failed',
    key .. ':unsuccessful') > 0
end

-- Remember how a parent counts a child that failed. False: the parent went on without it.
local function flow_remember(e)
  local parent = flow_parent(e)
  if not parent then return true end
  local base, id = parent:match('^(.*:)([^:]+)$')
  if not base or not redis.call('ZSCORE', base .. 'waiting-children', id) then return false end
  e.parent, e.child = parent, jobs_key(e)
  e.unsuccessful = redis.call('ZSCORE', parent .. ':unsuccessful', e.child)
  e.failed = redis.call('HGET', parent .. ':failed', e.child)
  return true
end

-- A parent or a child stays: the other one would wait for ever. A child whose parent went on is not
-- replayed.
local function flow_refuses(e, to)
  if to == 'trash' or to == 'gone' then return flow_parent(e) or flow_has_children(e) end
  return to == 'waiting' and jobs_state(e) == 'failed' and not flow_remember(e)
end

-- The parent waits for it again.
local function flow_join(e)
  if not e.parent then return end
  redis.call('ZREM', e.parent .. ':unsuccessful', e.child)
  redis.call('HDEL', e.parent .. ':failed', e.child)
  redis.call('SADD', e.parent .. ':dependencies', e.child)
end

local function flow_joinable(e) return not e.parent or redis.call('EXISTS', e.parent) == 1 end

local function flow_leave(e)
  if not e.parent then return end
  redis.call('SREM', e.parent .. ':dependencies', e.child)
  if e.unsuccessful then redis.call('ZADD', e.parent .. ':unsuccessful', e.unsuccessful, e.child) end
  if e.failed then redis.call('HSET', e.parent .. ':failed', e.child, e.failed) end
end
