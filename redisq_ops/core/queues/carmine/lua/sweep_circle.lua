-- Remove done messages that the circle has come round to, and old marks. `seen`: marks of messages that
-- came from other shards -> when; each is taken in once.
-- KEYS: seen
-- IMPLEMENTS: storage_retire
-- USES: config circle
local function storage_retire(max)
  local old = redis.call('ZRANGE', seen, '-inf', now - config.keep_ms, 'BYSCORE', 'LIMIT', 0, max)
  -- mutant what arrived is known for ever: redis.call('ZREM', seen, unpack(old)) => old = {}
  if #old > 0 then redis.call('ZREM', seen, unpack(old)) end
  -- The circle of a shard that was given up may belong to Carmine alone by now.
  return #old + (config.retired and 0 or circle_rotate(max, max, max))
end
