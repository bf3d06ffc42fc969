-- What the way in from another queue asks of a kind: whether an id is here, and how many wait.
-- KEYS: body stat delay
local function here(id)
  return redis.call('HEXISTS', body, id) == 1
end

-- Kinds that don't count what waits have it in one sorted set with what is delayed.
local function crowd()
  return counted.waiting or redis.call('ZCARD', delay)
end
