-- Why a job may not be touched now.
-- USES: jobs
local MARKED = 5000 -- ms after a check: by then workers have locked what they took before it

-- A worker takes a job in one step and locks it in the next one. Between these it looks like that of a
-- killed worker; only Bull's mark, set by a check every 30 s, shows that it has been there for a while.
local function holds_busy(e)
  local base = jobs_place(e).base
  -- mutant lock ignored: return true =>
  if redis.call('EXISTS', jobs_of(e).key .. ':lock') == 1 then return true end
  if jobs_place(e).state ~= 'active' then return false end
  local checked = tonumber(redis.call('GET', base .. 'stalled-check') or nil) or 0
  -- mutant mark ignored: 0 or => 2 or
  return redis.call('SISMEMBER', base .. 'stalled', e.member) == 0 or now - checked < MARKED
end

-- The next job of a schedule: when a worker takes it, Bull adds the one after it.
local function holds_recurring(e)
  local at = jobs_place(e).state ~= 'failed' and e.member:match('^repeat:.*:(%d+)$')
  return at and redis.call('ZCOUNT', jobs_place(e).base .. 'repeat', at, at) > 0
end
