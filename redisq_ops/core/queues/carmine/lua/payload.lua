-- A message's content, where it is visible to Carmine or hidden.
-- KEYS: messages body
-- IMPLEMENTS: storage_payload storage_set_payload
local function place_of(id)
  return redis.call('HEXISTS', messages, id) == 1 and messages or body
end

local function storage_payload(id)
  return redis.call('HGET', place_of(id), id)
end

local function storage_set_payload(id, payload)
  redis.call('HSET', place_of(id), id, payload)
end
