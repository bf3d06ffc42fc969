-- Putting a job where Bull's workers take it.
-- REPLACES: waiting
-- IMPLEMENTS: moves_done moves_renamed
-- USES: jobs
local lists, later = {}, {}

-- A paused queue has another list. When the queue is resumed, that list is renamed to the usual one
-- and replaces it.
local function waiting_list(base)
  local paused = lists[base] or redis.call('EXISTS', base .. 'meta-paused') == 1 and 'paused' or 'wait'
  lists[base] = paused
  return base .. paused
end

local function moves_renamed(key, named)
  local base = key:match('^(.*:)wait$') or key:match('^(.*:)paused$')
  if not base then return key end
  local list = waiting_list(base)
  return named and named ~= list and list or key, list
end

-- The set `priority` has the waiting jobs with a priority: they come before jobs without one.
local function add_by_priority(base, list, priority, id)
  -- mutant out of the priorities
  redis.call('ZADD', base .. 'priority', priority, id)
  -- mutant before its equals: 'priority', 0, priority) - 1 => 'priority', 0, priority)
  local before = redis.call('ZCOUNT', base .. 'priority', 0, priority) - 1
  local behind = redis.call('LINDEX', list, redis.call('LLEN', list) - before)
  if behind then
    redis.call('LINSERT', list, 'BEFORE', behind, id)
  else
    redis.call('RPUSH', list, id)
  end
end

-- As Bull: a stalled job is next; a failed one is last, whatever its priority, or next if it is `lifo`;
-- a delayed one goes by its priority.
local function waiting_add(e)
  local base, state, job = jobs_place(e).base, jobs_place(e).state, jobs_of(e)
  local list, priority = waiting_list(base), tonumber(job.priority or nil) or 0
  -- mutant lifo ignored: state == 'failed' and jobs_lifo(job) => false
  local ahead = state == 'active' or state == 'failed' and jobs_lifo(job)
  -- mutant promoted without priority: state == 'delayed' => false
  -- mutant retried by priority: state == 'delayed' and =>
  if state == 'delayed' and priority ~= 0 and priority == priority then
    add_by_priority(base, list, priority, e.member)
  else
    -- mutant wrong end: 'RPUSH' or 'LPUSH' => 'LPUSH' or 'RPUSH'
    redis.call(ahead and 'RPUSH' or 'LPUSH', list, e.member)
  end
  return list
end

-- A worker sleeps until the time of the first delayed job that it knows of, 5 s at most.
local function waiting_wake_for(state, base)
  if state == 'delayed' then later[base] = true end
end

local function moves_done()
  for base in pairs(later) do
    local first = redis.call('ZRANGE', base .. 'delayed', 0, 0, 'WITHSCORES')
    local at = first[2] and string.format('%.0f', first[2] / 4096)
    if at then redis.pcall('PUBLISH', base .. 'delayed', at) end
  end
end
