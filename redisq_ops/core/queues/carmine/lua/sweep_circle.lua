-- What a sweep lets go of beside the trash: what the circle comes round to, and old marks. `seen`: marks
-- of what came from other shards, by when; each is taken in once.
-- KEYS: seen
-- USES: config circle
local function room_retire(max)
  local old = redis.call('ZRANGE', seen, '-inf', now - conf.keep_ms, 'BYSCORE', 'LIMIT', 0, max)
  if #old > 0 then redis.call('ZREM', seen, unpack(old)) end
  -- The circle of a shard that was given up may be Carmine's by now.
  return #old + (conf.retired and 0 or rotate(max, max, max))
end
