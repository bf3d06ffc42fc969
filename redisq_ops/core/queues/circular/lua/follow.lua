-- What is to run after an id's present delivery: the payload then, or how many runs.
-- KEYS: again
local function following(ids)
  return redis.call('HMGET', again, unpack(ids))
end

local function follow(id, row)
  redis.call('HSET', again, id, row)
end

local function unfollow(ids)
  redis.call('HDEL', again, unpack(ids))
end
