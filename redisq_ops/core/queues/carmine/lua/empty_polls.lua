-- Polls that found nothing, as Carmine records them: how many in a row, and a flag that exists for as
-- long as its workers would not poll again. Our workers are woken and don't read it.
-- KEYS: eoq dry_runs
local function empty_polls_count()
  if redis.call('EXISTS', eoq) == 1 then return end
  -- mutant dry runs not counted: redis.pcall('INCR', dry_runs) => 1
  local dry = redis.pcall('INCR', dry_runs)
  if type(dry) ~= 'number' then -- a corrupt value: count anew
    dry = 1
    redis.call('SET', dry_runs, dry)
  end
  redis.call('SET', eoq, 'true', 'PXAT', now + 750 * 2 ^ math.min(dry - 1, 4))
end

local function empty_polls_reset()
  if redis.call('GET', dry_runs) ~= '0' then redis.call('SET', dry_runs, 0) end
  redis.call('UNLINK', eoq)
end
