-- What follows a message's present delivery: its content then. And whether a message is here: in
-- Carmine's sight or out of it. A done one is, while equal ones are refused; after that a message of its
-- id takes its place in the circle. The circle's own mark is no message.
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
