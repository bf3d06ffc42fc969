-- The lists of waiting jobs that Resque and Sidekiq keep, and their sorted sets.
-- KEYS: t_queue_
-- NEEDS: queue
-- USES: type_check jobs_fit
local function can_wait(name)
  return not type_check_mismatch(t_queue_ .. name, 'list')
end

-- The call fails where one of the keys to which jobs come back is of another type.
local function fit_lists()
  type_check_all()
  type_check_key(t_queue_ .. queue, 'list')
  jobs_fit()
end

local function seconds(ms)
  return string.format('%.3f', ms / 1000)
end

-- A sorted set has a member once, and two jobs of the same bytes would become one. JSON allows a space
-- at its end, so the second job gets one.
local function into_set(key, score, payload)
  -- mutant id that came again:
  --   ('ZADD', key, 'NX', score, payload) == 0 => ('ZADD', key, score, payload) == -1
  while redis.call('ZADD', key, 'NX', score, payload) == 0 do payload = payload .. ' ' end
  return payload
end
