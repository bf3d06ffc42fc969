-- The payload of an entry as the layout has it, with whatever else it keeps there.
-- KEYS: body
local function payload(id)
  return redis.call('HGET', body, id)
end
