-- The keys of one queue of Bull or BullMQ, all of which begin with `base`, and the reasons why
-- a job stays where it is.
-- IMPLEMENTS: moves_lacks_record
-- USES: kept_keys type_check events stamps
local IDENTITY = {'timestamp', 'processedOn', 'finishedOn', 'atm', 'attemptsMade', 'name', 'data',
  'opts', 'priority'}
local FIELDS = {'timestamp', 'processedOn', 'finishedOn', 'attemptsMade', 'priority', 'parentKey',
  'defa', 'rjk', 'deid', 'failedReason', 'delay', 'retriedOn'}

local SHOWN = {'name', 'data', 'opts', 'priority', 'parentKey'} -- in the trash

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
  return jobs_of(e).timestamp and stamps_hold(jobs_of(e).key, IDENTITY, e.stamp)
end

-- Remove what the program removes with a job: also the key by which the program refuses duplicates,
-- if that key is this job's.
local function jobs_remove(e, keep)
  local place, job = jobs_place(e), jobs_of(e)
  local keys = {job.key, job.key .. ':logs'}
  if job.deid and redis.call('GET', place.base .. 'de:' .. job.deid) == e.member then
    keys[3], keys[4] = place.base .. 'de:' .. job.deid, place.base .. 'dn:' .. job.deid
  end
  if keep then
    e.kept = kept_keys_dump(keys)
    e.shown = stamps_told(redis.call('HMGET', job.key, unpack(SHOWN)))
  end
  -- mutant record left
  redis.call('UNLINK', unpack(keys))
  events_add(place.base, 'removed', 'jobId', e.member, 'prev', place.state)
end

local function jobs_lifo(job)
  return (redis.call('HGET', job.key, 'opts') or ''):find('"lifo":true', 1, true)
end

-- This step has written to the job: an entry of the same id is read again.
local function jobs_changed(e) known[jobs_place(e).base][e.member] = nil end
