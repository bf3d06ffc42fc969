-- Purged entries past their time go for good. Whoever purges sees to it too: a queue that no worker
-- of ours works on has nobody else.
-- KEYS: trash was purged
-- USES: config
local function empty_trash(max)
  local old = redis.call('ZRANGE', trash, '-inf', now - config.trash_ms, 'BYSCORE', 'LIMIT', 0, max)
  if #old > 0 then
    redis.call('ZREM', trash, unpack(old))
    redis.call('HDEL', was, unpack(old))
    redis.call('HDEL', purged, unpack(old))
  end
  return #old
end
