-- What a request's record may say: whatever is beyond that was spoilt by hand, and fails the call. How
-- many are in a state isn't bounded: where a field was removed, the count of the rest goes below 0.
-- KEYS: r_
-- USES: spoilt
local STATES = {open = true, sealed = true, cancelled = true, done = true}
local HIGH = 2 ^ 53
local MOST = {priority = 99, limit = 1000, read = HIGH, gen = HIGH, total = HIGH, bytes = HIGH}

local function within_bounds(q)
  if not STATES[q.state] then spoilt(r_ .. q.rid, 'state', 'a state') end
  for field, most in pairs(MOST) do
    if q[field] < 0 or q[field] > most then
      spoilt(r_ .. q.rid, field, string.format('a number from 0 to %.0f', most))
    end
  end
end
