-- An entry's payload, and another one in its place.
-- KEYS: body
local function content(id)
  return redis.call('HGET', body, id)
end

local function rewrite(id, payload)
  redis.call('HSET', body, id, payload)
end
