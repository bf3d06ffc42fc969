-- What Bull keeps beside a job's place, and why a job stays there: the order of priorities, the rate
-- limiter's sets, and schedules.
-- EXTENDS: foreign.bullmq
-- REPLACES: beside
-- USES: jobs type_check
local MARKED = 5000 -- ms after a check: by then workers have locked what they took before it
local beside_types = {wait = 'list', paused = 'list', active = 'list', delayed = 'zset', failed = 'zset',
  completed = 'zset', priority = 'zset', ['repeat'] = 'zset', stalled = 'set',
  ['stalled-check'] = 'string', ['limiter:index'] = 'hash'}

local function limited(e)
  return redis.call('HGET', jobs_place(e).base .. 'limiter:index', e.member) or nil
end

local function beside_fit(e)
  local set = limited(e)
  if set then type_check_key(set, 'set') end
end

-- A worker takes a job in one step and locks it in the next one. Between these it looks like that of a
-- killed worker; only Bull's mark, set by a check every 30 s, shows that it has been there for a while.
local function is_busy(e)
  local base = jobs_place(e).base
  -- mutant lock ignored: return true =>
  if redis.call('EXISTS', jobs_of(e).key .. ':lock') == 1 then return true end
  if jobs_place(e).state ~= 'active' then return false end
  local checked = tonumber(redis.call('GET', base .. 'stalled-check') or nil) or 0
  -- mutant mark ignored: 0 or => 2 or
  return redis.call('SISMEMBER', base .. 'stalled', e.member) == 0 or now - checked < MARKED
end

-- The next job of a schedule: when a worker takes it, Bull adds the one after it.
local function is_recurring(e)
  local at = jobs_place(e).state ~= 'failed' and e.member:match('^repeat:.*:(%d+)$')
  return at and redis.call('ZCOUNT', jobs_place(e).base .. 'repeat', at, at) > 0
end

local function beside_refuses(e, leaves)
  return is_busy(e) and 'busy' or leaves and is_recurring(e) and 'recurring'
end

local function beside_leaves(e, gone)
  local base = jobs_place(e).base
  e.priority = redis.call('ZSCORE', base .. 'priority', e.member) or nil
  -- mutant priority left
  redis.call('ZREM', base .. 'priority', e.member)
  e.limited = gone and limited(e) or nil
  if e.limited then
    redis.call('SREM', e.limited, e.member)
    redis.call('HDEL', base .. 'limiter:index', e.member)
  end
end

local function beside_waits(e)
  if jobs_place(e).state == 'failed' then
    redis.call('HSET', jobs_of(e).key, 'retriedOn', string.format('%.0f', now))
  end
end

local function beside_taken_back(e)
  -- mutant undo leaves the priority
  redis.call('ZREM', jobs_place(e).base .. 'priority', e.member)
end

local function beside_restorable() return true end

local function beside_returns(e)
  local place = jobs_place(e)
  -- mutant undo forgets the priority: if e.priority => if false
  if e.priority then redis.call('ZADD', place.base .. 'priority', e.priority, e.member) end
  if e.limited then
    redis.call('SADD', e.limited, e.member)
    redis.call('HSET', place.base .. 'limiter:index', e.member, e.limited)
  end
end
