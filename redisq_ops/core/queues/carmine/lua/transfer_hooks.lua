-- What the way in from another queue asks: whether a message is here, in Carmine's sight (done and not
-- cleared yet, too) or out of it, and how many wait.
-- KEYS: messages body delay
local function here(id)
  return redis.call('HEXISTS', messages, id) + redis.call('HEXISTS', body, id) > 0
end

local function crowd()
  return redis.call('ZCARD', delay)
end
