-- An entry's payload, and another one in its place; the client in front of it stays.
-- KEYS: body
local function content(id)
  local kept = redis.call('HGET', body, id)
  return kept and kept:sub(kept:find(' ', 1, true) + 1)
end

local function rewrite(id, payload)
  local kept = redis.call('HGET', body, id)
  redis.call('HSET', body, id, kept:sub(1, kept:find(' ', 1, true)) .. payload)
end
