-- What is to run after a message's present delivery: its content then.
-- KEYS: next
local function following(ids)
  return redis.call('HMGET', next, unpack(ids))
end

local function follow(id, row)
  redis.call('HSET', next, id, row)
end

local function unfollow(ids)
  redis.call('HDEL', next, unpack(ids))
end
