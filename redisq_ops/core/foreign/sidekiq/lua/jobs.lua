-- Sidekiq's part of the jobs interface: lists taken from the right, and the sets `retry` and `dead`.
-- EXTENDS: foreign.ruby_jobs
-- IMPLEMENTS: jobs_append jobs_prepend jobs_pop jobs_taken_right jobs_paused jobs_in_list jobs_retry
-- IMPLEMENTS: jobs_bury jobs_daily jobs_linked
-- KEYS: t_queues t_queue_ t_paused t_retry t_dead
-- NEEDS: queue
-- USES: job_lists calendar
local function jobs_append(name, ...)
  redis.call('SADD', t_queues, name)
  -- mutant wrong end: LPUSH => RPUSH
  redis.call('LPUSH', t_queue_ .. name, ...)
end

local function jobs_prepend(name, job)
  redis.call('SADD', t_queues, name)
  redis.call('RPUSH', t_queue_ .. name, job)
end

local function jobs_pop(name, n)
  return redis.call('RPOP', t_queue_ .. name, n)
end

local function jobs_taken_right() return true end

local function jobs_paused()
  return redis.call('SISMEMBER', t_paused, queue) == 1
end

local function jobs_in_list(key)
  return key:sub(1, #t_queue_) == t_queue_
end

local function jobs_retry(job, ms)
  into_set(t_retry, seconds(ms), job)
end

local function jobs_bury(name, record)
  into_set(t_dead, seconds(now), record)
end

local function jobs_daily(key, n)
  local year, month, day = calendar_date(now)
  local daily = string.format('%s:%04d-%02d-%02d', key, year, month, day)
  if type(redis.pcall('INCRBY', daily, n)) == 'number' then redis.call('EXPIRE', daily, 157680000) end
end

-- A batch waits until each of its jobs has succeeded. Its record has one of two names: that of the gem
-- sidekiq-batch, or that of Sidekiq Pro.
local function jobs_linked(batch)
  if batch == '' then return false end
  local at = t_queue_:match('^(.*)queue:$')
  return redis.call('EXISTS', at .. 'BID-' .. batch, at .. 'b-' .. batch) > 0
end
