-- Putting a job where BullMQ's workers take it next, and waking them.
-- IMPLEMENTS: moves_done moves_renamed
-- USES: jobs
local LIMIT = 4294967296 -- of the counter that orders jobs of one priority

-- The list for jobs that wait; nil if nobody can tell: in release 5 a paused queue has another list, and
-- what is in the usual one is lost when the queue goes on.
local function list_of(base)
  local paused, version = unpack(redis.call('HMGET', base .. 'meta', 'paused', 'version'))
  if not paused then return base .. 'wait' end
  if redis.call('EXISTS', base .. 'paused') == 1 then return base .. 'paused' end
  local release = tonumber((version or ''):match('bullmq[^:]*:(%d+)') or nil)
  return release and base .. (release < 6 and 'paused' or 'wait')
end

local lists, woken, later = {}, {}, {}
local function waiting_list(base)
  if lists[base] == nil then lists[base] = list_of(base) or false end
  return lists[base]
end

-- In release 5 a pause, and its end, renames the list.
local pauses = {}
local function moves_renamed(key, named)
  local base = key:match('^(.*:)wait$') or key:match('^(.*:)paused$')
  if not base then return key end
  pauses[base] = pauses[base] or redis.call('HEXISTS', base .. 'meta', 'paused')
  local paused = pauses[base]
  return named and named ~= paused and waiting_list(base) or key, paused
end

-- Workers sleep on a sorted set: a job that can be taken, or the time of the first delayed one.
local function wake(base)
  local paused, most = unpack(redis.call('HMGET', base .. 'meta', 'paused', 'concurrency'))
  if paused or most and redis.call('LLEN', base .. 'active') >= (tonumber(most) or math.huge) then
    return
  end
  redis.call('ZADD', base .. 'marker', 0, '0')
end

local function wake_later(base)
  local first = redis.call('ZRANGE', base .. 'delayed', 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', base .. 'marker', string.format('%.0f', first[2] / 4096), '1')
  end
end

local function waiting_wake_for(state, base)
  if state == 'delayed' then later[base] = true end
  if state == 'wait' or state == 'prioritized' then woken[base] = true end
end

local function moves_done()
  for base in pairs(woken) do wake(base) end
  for base in pairs(later) do wake_later(base) end
end

-- Behind the others of its priority; in front of them if a worker had it. Returns the list, or nil and
-- the score.
local function waiting_add(e)
  local base, job, key, score = jobs_place(e).base, jobs_of(e), nil, nil
  local front = jobs_place(e).state == 'active'
  local priority = tonumber(job.priority or nil) or 0
  -- mutant priority ignored: priority > 0 => false
  if priority > 0 then
    local n = not front and redis.pcall('INCR', base .. 'pc')
    n = type(n) == 'number' and n % LIMIT or 0 -- first, if the counter can't count
    score = string.format('%.0f', priority * LIMIT + n)
    redis.call('ZADD', base .. 'prioritized', score, e.member)
  else
    key = waiting_list(base)
    local last = jobs_place(e).state ~= 'delayed' and jobs_lifo(job)
    -- mutant wrong end: LPUSH => RPUSH
    if front or last then redis.call('RPUSH', key, e.member) else redis.call('LPUSH', key, e.member) end
  end
  woken[base] = true
  return key, score
end
