-- BullMQ's keys of one queue, all of which begin with `base`, and what keeps a job where it is.
-- IMPLEMENTS: moves_lacks_record
-- USES: kept_keys
local IDENTITY = {'timestamp', 'processedOn', 'finishedOn', 'atm'}

local function jobs_base(e) return e.key:match('^(.*:)[^:]+$') end

local function jobs_state(e) return e.key:match('[^:]+$') end

local function jobs_key(e) return jobs_base(e) .. e.member end

local function moves_lacks_record(e)
  if redis.call('EXISTS', jobs_key(e) .. ':lock') == 1 then return nil, 'busy' end
  return redis.call('EXISTS', jobs_key(e)) == 0
end

local function jobs_field(e, name) return redis.call('HGET', jobs_key(e), name) end

-- The same job, in the same state as it was read.
local function jobs_seen(e)
  local values = redis.call('HMGET', jobs_key(e), unpack(IDENTITY))
  for i = 1, #IDENTITY do values[i] = values[i] or '-' end
  local stamp = table.concat(values, ' ') .. ' '
  if values[1] == '-' or e.stamp:sub(1, #stamp) ~= stamp then return false end
  e.shown = e.stamp:sub(#stamp + 1)
  return true
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

-- What BullMQ removes with a job; the key by which it refuses duplicates only if it is this job's.
local function jobs_keys(e)
  local key, base, once = jobs_key(e), jobs_base(e), jobs_field(e, 'deid')
  local keys = {key, key .. ':logs'}
  if once and redis.call('GET', base .. 'de:' .. once) == e.member then
    keys[3], keys[4] = base .. 'de:' .. once, base .. 'dn:' .. once
  end
  return keys
end

-- Comes after writes: where events can't be written, as at the last possible id, there are none.
local function jobs_event(base, ...)
  local most = redis.call('HGET', base .. 'meta', 'opts.maxLenEvents') or ''
  if not most:find('^%d+$') or #most > 15 then most = 10000 end
  redis.pcall('XADD', base .. 'events', 'MAXLEN', '~', most, '*', 'event', ...)
end

local function jobs_remove(e, keep)
  local keys = jobs_keys(e)
  e.kept = keep and kept_keys_dump(keys) or nil
  redis.call('UNLINK', unpack(keys))
  jobs_event(jobs_base(e), 'removed', 'jobId', e.member, 'prev', jobs_state(e))
end
