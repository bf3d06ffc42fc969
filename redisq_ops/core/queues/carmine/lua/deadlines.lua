-- Carmine's copies of the times at which a lease or a back-off ends: its lock and its backoff.
-- KEYS: locks backoffs lease
-- IMPLEMENTS: storage_relative_times storage_timed storage_extended
-- USES: visible
local storage_relative_times = true -- a backoff is counted from when it was set

local function storage_timed(zset, id, at)
  if zset == lease then
    visible_add(visible_puts, locks, id, at)
  elseif at > now then
    visible_add(visible_puts, backoffs, id, at)
  else
    visible_add(visible_cuts, backoffs, id)
  end
end

local function storage_extended(scores)
  local held = {}
  for i = 1, #scores, 2 do held[i], held[i + 1] = scores[i + 1], scores[i] end
  -- mutant locks not renewed
  redis.call('HSET', locks, unpack(held))
end
