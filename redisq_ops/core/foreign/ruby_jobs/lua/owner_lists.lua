-- The owner's lists and sets. `side` is the end jobs are taken from: RIGHT is Sidekiq's, LEFT Resque's.
-- The script using this names ARGV `side`, `queue` and `failed` (Resque: the key of the failed list).
-- KEYS: t_queues t_queue_ t_failed_queues
-- NEEDS: side failed queue
-- USES: type_check
local sidekiq = side == 'RIGHT'

local function to_end(name, payload)
  redis.call('SADD', t_queues, name)
  redis.call(sidekiq and 'LPUSH' or 'RPUSH', t_queue_ .. name, payload)
end

-- The last one given is the next one taken.
local function to_front(name, payload)
  redis.call('SADD', t_queues, name)
  redis.call(sidekiq and 'RPUSH' or 'LPUSH', t_queue_ .. name, payload)
end

-- Whether a queue can take a job: its key may be somebody else's, found out before anything is taken.
local function fits(name)
  local kind = redis.call('TYPE', t_queue_ .. name).ok
  return kind == 'list' or kind == 'none'
end

-- Where failures of a queue's jobs go in Resque. Its other backend has a list for each queue and
-- enters it into `failed_queues` at each failure; where that set is, that backend is in use.
local function failures_of(name)
  if redis.call('EXISTS', t_failed_queues) == 0 then return failed end
  return failed:gsub('failed$', function() return name .. '_failed' end), name .. '_failed'
end

-- The call fails where one of the keys that jobs come back to is of another type.
local function fit_lists()
  type_check_all()
  type_check_key(t_queue_ .. queue, 'list')
  if not sidekiq then type_check_key((failures_of(queue)), 'list') end
end

local function fit_place(kind, key)
  if kind == 'list' or kind == 'zset' then type_check_key(key, kind) end
end

local function to_failed(name, text)
  local key, entered = failures_of(name)
  if entered then redis.call('SADD', t_failed_queues, entered) end
  redis.call('RPUSH', key, text)
end

local function seconds(ms)
  return string.format('%.3f', ms / 1000)
end

-- A set has a member once: two jobs of the very same bytes would become one. JSON doesn't mind a
-- space at its end, so the second gets one.
local function into_set(key, score, payload)
  while redis.call('ZADD', key, 'NX', score, payload) == 0 do payload = payload .. ' ' end
  return payload
end
