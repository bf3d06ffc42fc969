-- An entry's payload, stored with its client in front of it.
-- KEYS: body
-- IMPLEMENTS: storage_payload storage_set_payload
local function storage_payload(id)
  local kept = redis.call('HGET', body, id)
  return kept and kept:sub(kept:find(' ', 1, true) + 1)
end

local function storage_set_payload(id, payload)
  local kept = redis.call('HGET', body, id)
  redis.call('HSET', body, id, kept:sub(1, kept:find(' ', 1, true)) .. payload)
end
