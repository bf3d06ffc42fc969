-- The keys of RQ's jobs, and whether a job is gone. `e.member` is its id, or that of its execution.
-- IMPLEMENTS: moves_lacks_record
-- KEYS: t_workers t_job_ t_wip_
-- USES: type_check
local FIELDS = {'created_at', 'enqueued_at', 'ended_at', 'status', 'rate_limit_key', 'started_at',
  'exc_info', 'origin', 'ttl', 'enqueue_at_front'}

-- The job's hash, and what else RQ removes with a job.
local function jobs_keys(e)
  local job = t_job_ .. e.member
  -- mutant dependents left: job .. ':dependents' => job
  return {job, job .. ':dependents', t_job_ .. ':' .. e.member .. ':dependencies'}
end

-- A job as it was before this step wrote to it: its FIELDS, the key of its hash, and its `keys`, without
-- those that aren't there.
local known = {}
local function jobs_of(e)
  local job = known[e.member]
  if not job then
    local keys = jobs_keys(e)
    -- mutant type check off
    type_check_key(keys[1], 'hash')
    local values = redis.call('HMGET', keys[1], unpack(FIELDS))
    if redis.call('EXISTS', keys[2], keys[3]) == 0 then keys[2], keys[3] = nil, nil end
    job = {key = keys[1], keys = keys}
    for i, field in ipairs(FIELDS) do job[field] = values[i] or nil end
    known[e.member] = job
  end
  return job
end

-- This step has written to the job: an entry of the same id is read again.
local function jobs_changed(e) known[e.member] = nil end

-- Whether a living worker says that it runs a job: by its execution since RQ 3, by its id before.
local function is_running(member, id)
  for _, worker in ipairs(redis.call('SMEMBERS', t_workers)) do
    local fields = redis.call('HMGET', worker, 'last_heartbeat', 'death', 'current_job')
    local beat, death, job = unpack(fields)
    if beat and (death or '') == '' and (job == member or job == id
      or redis.call('SISMEMBER', worker .. ':executions', member) == 1) then return true end
  end
  return false
end

-- A started job has its execution's id behind its own since RQ 2; its score is the time (s) up to which
-- its worker said that it runs it, or infinite: then only the workers know.
local function moves_lacks_record(e)
  if e.key:sub(1, #t_wip_) == t_wip_ then
    local till = tonumber(e.score or redis.call('ZSCORE', e.key, e.member) or nil)
    local id = #e.member > 33 and e.member:sub(-33):match('^:%x+$') and e.member:sub(1, -34)
    if till and till >= now / 1000 and (till < math.huge or is_running(e.member, id)) then
      return nil, 'busy'
    end
    if id and redis.call('EXISTS', t_job_ .. id) == 1 then return nil end
  end
  return redis.call('EXISTS', t_job_ .. e.member) == 0
end
