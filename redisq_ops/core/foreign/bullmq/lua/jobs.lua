-- The keys of one queue of Bull or BullMQ, all of which begin with `base`, and what keeps a job where it
-- is.
-- IMPLEMENTS: moves_lacks_record
-- USES: kept_keys events
local IDENTITY, PLAIN = {'timestamp', 'processedOn', 'finishedOn', 'atm', 'attemptsMade', 'name', 'data',
  'opts', 'priority'}, 5

local function jobs_base(e) return e.key:match('^(.*:)[^:]+$') end

local function jobs_state(e) return e.key:match('[^:]+$') end

local function jobs_key(e) return jobs_base(e) .. e.member end

local function moves_lacks_record(e)
  if redis.call('EXISTS', jobs_key(e) .. ':lock') == 1 then return nil, 'busy' end
  return redis.call('EXISTS', jobs_key(e)) == 0
end

-- Fields of a job that nothing here writes, read at once.
local FIELDS = {'timestamp', 'parentKey', 'defa', 'rjk', 'deid', 'attemptsMade', 'priority', 'opts'}
local known = {}

local function jobs_field(e, name)
  local key = jobs_key(e)
  if not known[key] then
    known[key] = {}
    local values = redis.call('HMGET', key, unpack(FIELDS))
    for i, field in ipairs(FIELDS) do known[key][field] = values[i] end
  end
  return known[key][name]
end

-- The same job, in the same state as it was read: the first of these fields as they are, the others by
-- their digests.
local function jobs_seen(e)
  local values, at = redis.call('HMGET', jobs_key(e), unpack(IDENTITY)), 1
  for i, value in ipairs(values) do
    local from, to, was = e.stamp:find('(%S+) ', at)
    if i > PLAIN then value = redis.sha1hex(value or '') end
    local is = value and value ~= '' and value or '-'
    if from ~= at or was ~= is and was ~= '*' then return false end
    at = to + 1
  end
  e.shown = e.stamp:sub(at)
  return values[1] ~= false
end

-- Whether a release before 5 ran the job, and the queue doesn't say that a later release has it now.
local function jobs_too_old(e)
  return jobs_field(e, 'attemptsMade') and redis.call('HEXISTS', jobs_base(e) .. 'meta', 'version') == 0
end

-- A job of a schedule that its scheduler will go on from.
local function jobs_recurring(e)
  local schedule = jobs_field(e, 'rjk')
  local at = schedule and redis.call('ZSCORE', jobs_base(e) .. 'repeat', schedule)
  return at and e.member == 'repeat:' .. schedule .. ':' .. at
end

-- What the program removes with a job; the key by which it refuses duplicates only if it is this job's.
local function jobs_keys(e)
  local key, base, once = jobs_key(e), jobs_base(e), jobs_field(e, 'deid')
  local keys = {key, key .. ':logs'}
  if once and redis.call('GET', base .. 'de:' .. once) == e.member then
    keys[3], keys[4] = base .. 'de:' .. once, base .. 'dn:' .. once
  end
  return keys
end

local function jobs_remove(e, keep)
  local keys = jobs_keys(e)
  e.kept = keep and kept_keys_dump(keys) or nil
  redis.call('UNLINK', unpack(keys))
  events_add(jobs_base(e), 'removed', 'jobId', e.member, 'prev', jobs_state(e))
end
