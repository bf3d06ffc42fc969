-- A message's content, and another one in its place: wherever it is, in Carmine's sight or out of it.
-- KEYS: messages body
local function place_of(id)
  return redis.call('HEXISTS', messages, id) == 1 and messages or body
end

local function content(id)
  return redis.call('HGET', place_of(id), id)
end

local function rewrite(id, payload)
  redis.call('HSET', place_of(id), id, payload)
end
