-- The run that follows an entry's present delivery: its time and payload.
-- KEYS: next
-- IMPLEMENTS: storage_following storage_follow storage_unfollow
local function storage_following(ids)
  return redis.call('HMGET', next, unpack(ids))
end

local function storage_follow(id, row)
  redis.call('HSET', next, id, row)
end

local function storage_unfollow(ids)
  redis.call('HDEL', next, unpack(ids))
end
