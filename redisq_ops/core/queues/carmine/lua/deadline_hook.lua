-- What else is kept of the time at which a lease or a back-off ends: Carmine's lock, Carmine's backoff.
-- KEYS: locks backoffs
-- USES: visible_state
local RELATIVE = true -- whether all ready times are so long from when they were said

local function timed(zset, id, at)
  if zset == lease then
    add(puts, locks, id, at)
  elseif at > now then
    add(puts, backoffs, id, at)
  else
    add(cuts, backoffs, id)
  end
end
