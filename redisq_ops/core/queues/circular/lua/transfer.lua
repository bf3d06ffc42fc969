-- What follows an id's present delivery: the payload of the next run, or how many runs. And what a move
-- from another queue asks of this one.
-- KEYS: again body
-- IMPLEMENTS: storage_following storage_follow storage_unfollow storage_here storage_waiting_count
-- USES: elements
local function storage_following(ids)
  return redis.call('HMGET', again, unpack(ids))
end

local function storage_follow(id, row)
  redis.call('HSET', again, id, row)
end

local function storage_unfollow(ids)
  redis.call('HDEL', again, unpack(ids))
end

local function storage_here(id)
  return redis.call('HEXISTS', body, id) == 1
end

local function storage_waiting_count()
  return elements_waiting()
end
