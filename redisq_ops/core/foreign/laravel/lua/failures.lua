-- Failed jobs as Horizon keeps them: `e.key` is its `failed_jobs`, `e.member` an id, with which the name
-- of a hash ends. A job that is retried stays there; the retry is another job.
-- KEYS: t_queues_
-- USES: stamps
-- NEEDS: queue
-- mutant a field isn't compared: failed_at => payload
local COMPARED = {'status', 'queue', 'connection', 'name', 'payload', 'failed_at', 'retried_by'}
local HOUR = 3600 -- seconds after which Horizon forgets a pending job, unless it is set otherwise
local list, notify = t_queues_ .. queue, t_queues_ .. queue .. ':notify'

-- What Horizon's keys begin with, its sets of pending jobs, and the job's hash; nil for any other job.
local function failures_keys(e)
  local at = e.key ~= list and e.key:match('^(.*)failed_jobs$')
  if not at then return nil, {} end
  return at, {at .. 'recent_jobs', at .. 'pending_jobs'}, at .. e.member
end

-- The values of `COMPARED`, if they are as they were read, apart from the note of this retry.
local function failures_values(e)
  local _, _, hash = failures_keys(e)
  local values = redis.call('HMGET', hash, unpack(COMPARED))
  if e.new and values[7] ~= e.retried then return nil end
  if e.new then values[7] = e.before or false end
  -- mutant comparison off: stamps_of(values) == e.stamp and values or nil => values
  return stamps_of(values) == e.stamp and values or nil
end

local function failures_push_retry(e)
  local at, sets = failures_keys(e)
  local s = string.format('%.4f', now / 1000)
  for _, set in ipairs(sets) do redis.call('ZADD', set, '-' .. s, e.new) end
  redis.call('HSET', at .. e.new, 'id', e.new, 'connection', e.of[1], 'queue', queue, 'name', e.of[2],
    'status', 'pending', 'payload', e.again, 'created_at', s, 'updated_at', s)
  redis.call('EXPIRE', at .. e.new, HOUR)
end

local function failures_drop_retry(e)
  local at, sets = failures_keys(e)
  for _, set in ipairs(sets) do redis.call('ZREM', set, e.new) end
  redis.call('UNLINK', at .. e.new)
end
