-- What follows a message's present delivery: its content then. And whether a message is here: in
-- Carmine's sight (a done one too, until it is removed) or out of it.
-- KEYS: next messages body
-- IMPLEMENTS: storage_following storage_follow storage_unfollow storage_here
local function storage_following(ids)
  return redis.call('HMGET', next, unpack(ids))
end

local function storage_follow(id, row)
  redis.call('HSET', next, id, row)
end

local function storage_unfollow(ids)
  redis.call('HDEL', next, unpack(ids))
end

local function storage_here(id)
  return redis.call('HEXISTS', messages, id) + redis.call('HEXISTS', body, id) > 0
end
