-- Bounds of the fields in a request's record: a value beyond them is corrupt, and fails the call.
-- Counts of entries in a state have no bounds: where a field was removed, its count falls below 0.
-- KEYS: r_
-- USES: corrupt_values
local STATES = {open = true, sealed = true, cancelled = true, done = true}
local HIGH = 2 ^ 53
local COUNTED = {'read', 'gen', 'total', 'bytes'}

local function within(q, field, most)
  local number = q[field]
  if number < 0 or number > most then
    corrupt_values_fail(r_ .. q.rid, field, string.format('a number from 0 to %.0f', most))
  end
end

local function request_bounds_check(q)
  if not STATES[q.state] then corrupt_values_fail(r_ .. q.rid, 'state', 'a state') end
  within(q, 'priority', 99)
  within(q, 'limit', 1000)
  for i = 1, 4 do within(q, COUNTED[i], HIGH) end
end
