-- Resque's part of the jobs interface: lists taken from the left, and lists of failures.
-- EXTENDS: foreign.ruby_jobs
-- IMPLEMENTS: jobs_append jobs_prepend jobs_pop jobs_paused jobs_in_list jobs_fit jobs_bury jobs_lost
-- IMPLEMENTS: jobs_id
-- KEYS: t_queues t_queue_ t_paused t_failed t_failed_queues
-- NEEDS: queue
-- USES: type_check job_records job_counters
local function jobs_append(name, ...)
  redis.call('SADD', t_queues, name)
  -- mutant wrong end: RPUSH => LPUSH
  redis.call('RPUSH', t_queue_ .. name, ...)
end

local function jobs_prepend(name, job)
  redis.call('SADD', t_queues, name)
  redis.call('LPUSH', t_queue_ .. name, job)
end

local function jobs_pop(name, n)
  return redis.call('LPOP', t_queue_ .. name, n)
end

local function jobs_paused()
  return redis.call('GET', t_paused) == 'true'
end

local function jobs_in_list() return true end

-- The list of a queue's failures. Resque's other backend has a list for each queue and adds its name to
-- `failed_queues` at each failure; where that set is, that backend is in use.
local function failures_of(name)
  if redis.call('EXISTS', t_failed_queues) == 0 then return t_failed end
  return t_failed:gsub('failed$', function() return name .. '_failed' end), name .. '_failed'
end

local function jobs_fit()
  type_check_key((failures_of(queue)), 'list')
end

local function jobs_bury(name, record)
  local key, entered = failures_of(name)
  if entered then redis.call('SADD', t_failed_queues, entered) end
  redis.call('RPUSH', key, record)
end

local function jobs_id(payload)
  return redis.sha1hex(payload):sub(1, 16)
end

local function jobs_lost(payload, times, consumer)
  local why = quoted('its worker was lost ' .. times .. ' times, the last was ' .. consumer)
  if not read_record(payload) then
    payload = '{"class":null,"args":[],"raw_hex":"' .. hex(payload) .. '"}'
  end
  return table.concat({'{"payload":', payload, ',"exception":"Redisq::LostLease","error":', why,
    ',"backtrace":[],"worker":', quoted(consumer), ',"queue":', quoted(queue), ',"failed_at":',
    stamp('date'), '}'})
end
