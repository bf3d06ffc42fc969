-- The keys of one queue of Bull or BullMQ, all of which begin with `base`, and the reasons why
-- a job stays where it is.
-- IMPLEMENTS: moves_lacks_record
-- USES: kept_keys type_check events stamps
local IDENTITY = {'timestamp', 'processedOn', 'finishedOn', 'atm', 'attemptsMade', 'name', 'data',
  'opts', 'priority'}
local FIELDS = {'timestamp', 'processedOn', 'finishedOn', 'attemptsMade', 'priority', 'parentKey',
  'defa', 'rjk', 'deid', 'failedReason', 'delay', 'retriedOn'}

-- Where an entry was read: `base`, and `state`, the rest of the key's name.
local places = {}
local function jobs_place(e)
  local place = places[e.key]
  if not place then
    local base, state = e.key:match('^(.*:)([^:]+)$')
    place = {base = base, state = state}
    places[e.key] = place
  end
  return place
end

-- An entry's job as it was before this step wrote to it: its `key`, its FIELDS, and `beside`:
-- how many of the keys for its worker's lock and for its children exist.
local known = {}
local function jobs_of(e)
  local base = jobs_place(e).base
  local jobs = known[base] or {}
  known[base] = jobs
  local job = jobs[e.member]
  if not job then
    local key = base .. e.member
    -- mutant type check off
    type_check_key(key, 'hash')
    local values = redis.call('HMGET', key, unpack(FIELDS))
    job = {key = key, beside = redis.call('EXISTS', key .. ':lock', key .. ':dependencies',
      key .. ':processed', key .. ':failed', key .. ':unsuccessful')}
    for i, field in ipairs(FIELDS) do job[field] = values[i] or nil end
    jobs[e.member] = job
  end
  return job
end

local function moves_lacks_record(e)
  local key = jobs_place(e).base .. e.member
  if redis.call('EXISTS', key .. ':lock') == 1 then return nil, 'busy' end
  return redis.call('EXISTS', key) == 0
end

-- Whether it is the same job, in the same state, as when it was read.
local function jobs_seen(e)
  return jobs_of(e).timestamp and stamps_fields(jobs_of(e).key, IDENTITY, e.stamp)
end

-- Whether a release before 5 ran the job, and the queue doesn't say that a later release has it now.
local function jobs_too_old(e)
  return jobs_of(e).attemptsMade and redis.call('HEXISTS', jobs_place(e).base .. 'meta', 'version') == 0
end

-- Whether a job is the one from which its schedule goes on.
local function jobs_recurring(e)
  local schedule = jobs_of(e).rjk
  local at = schedule and redis.call('ZSCORE', jobs_place(e).base .. 'repeat', schedule)
  return at and e.member == 'repeat:' .. schedule .. ':' .. at
end

-- Remove what the program removes with a job: also the key by which the program refuses duplicates,
-- if that key is this job's.
local function jobs_remove(e, keep)
  local place, job = jobs_place(e), jobs_of(e)
  local keys = {job.key, job.key .. ':logs'}
  if job.deid and redis.call('GET', place.base .. 'de:' .. job.deid) == e.member then
    keys[3], keys[4] = place.base .. 'de:' .. job.deid, place.base .. 'dn:' .. job.deid
  end
  e.kept = keep and kept_keys_dump(keys) or nil
  -- mutant record left
  redis.call('UNLINK', unpack(keys))
  events_add(place.base, 'removed', 'jobId', e.member, 'prev', place.state)
end

local function jobs_lifo(job)
  return (redis.call('HGET', job.key, 'opts') or ''):find('"lifo":true', 1, true)
end

-- This step has written to the job: an entry of the same id is read again.
local function jobs_changed(e) known[jobs_place(e).base][e.member] = nil end
