-- The payloads of entries as the layout has them, with whatever else it keeps there.
-- KEYS: body
local function payloads(ids)
  return redis.call('HMGET', body, unpack(ids))
end
