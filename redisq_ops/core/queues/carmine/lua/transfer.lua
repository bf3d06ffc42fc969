-- The content that runs after a message's present delivery; and whether a message is here, visible
-- to Carmine or hidden. A done one is here while equal ones are refused; after that, a new message
-- with its id takes its place in the circle. The id `end-of-circle` is always taken.
-- KEYS: next messages body finished backoffs nattempts stray
-- IMPLEMENTS: storage_next_runs storage_here storage_place
local storage_next_runs = next

local function storage_here(id)
  if redis.call('HEXISTS', messages, id) == 0 then
    return id == 'end-of-circle' or redis.call('HEXISTS', body, id) == 1
  end
  return redis.call('SISMEMBER', finished, id) == 0
    or (tonumber(redis.call('HGET', backoffs, id)) or 0) > now
end

local function storage_place(id, content)
  if redis.call('SREM', finished, id) == 1 then
    for _, key in ipairs({messages, backoffs, nattempts}) do redis.call('HDEL', key, id) end
    redis.call('SADD', stray, id)
  end
  redis.call('HSET', body, id, content)
  return id, 'ok'
end
