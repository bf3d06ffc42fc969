-- Keys beside its place that have a job's id: the order of priorities, and the rate limiter's sets.
-- USES: jobs
local function indexes_limited(e)
  return redis.call('HGET', jobs_place(e).base .. 'limiter:index', e.member) or nil
end

local function indexes_leave(e, gone)
  local base = jobs_place(e).base
  e.priority = redis.call('ZSCORE', base .. 'priority', e.member) or nil
  -- mutant priority left
  redis.call('ZREM', base .. 'priority', e.member)
  e.limited = gone and indexes_limited(e) or nil
  if e.limited then
    redis.call('SREM', e.limited, e.member)
    redis.call('HDEL', base .. 'limiter:index', e.member)
  end
end

local function indexes_put_back(e)
  local base = jobs_place(e).base
  -- mutant undo forgets the priority: if e.priority => if false
  if e.priority then redis.call('ZADD', base .. 'priority', e.priority, e.member) end
  if e.limited then
    redis.call('SADD', e.limited, e.member)
    redis.call('HSET', base .. 'limiter:index', e.member, e.limited)
  end
end
