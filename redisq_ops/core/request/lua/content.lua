-- A sub-request's payload, and another one in its place. A stream's entries can't be changed, so what
-- was edited is kept beside it, and goes with the entry.
-- KEYS: edited s_
local function content(id)
  local other = redis.call('HGET', edited, id)
  if other then return other end
  local rid, n = split(id)
  local found = redis.call('XRANGE', s_ .. rid, n .. '-0', n .. '-0')
  return found[1] and found[1][2][2] or false
end

local function rewrite(id, payload)
  redis.call('HSET', edited, id, payload)
end
