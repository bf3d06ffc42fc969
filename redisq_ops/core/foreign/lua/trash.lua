-- Purged entries: in `was` the operation and what is needed to put one back, in `purged` what is shown
-- of it. Those past their time go for good. Whoever purges sees to it too: a queue that no worker of
-- ours works on has nobody else.
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

-- The label under which an entry went to the trash.
local function trash_put(op, entry, shown, since)
  local label, n = entry.id, 1
  while redis.call('ZSCORE', trash, label) do n = n + 1; label = entry.id .. '~' .. n end
  redis.call('ZADD', trash, since or now, label)
  redis.call('HSET', was, label, cmsgpack.pack({op, entry}))
  redis.call('HSET', purged, label, shown)
  return label
end

-- The operation, the entry, and since when; nil where it went meanwhile, or somebody spoilt it.
local function trash_get(label)
  local since, text = redis.call('ZSCORE', trash, label), redis.call('HGET', was, label)
  if not since or not text then return nil end
  local readable, row = pcall(cmsgpack.unpack, text)
  if not readable or type(row) ~= 'table' or type(row[2]) ~= 'table' then return nil end
  return row[1], row[2], since
end

local function trash_drop(label)
  redis.call('ZREM', trash, label)
  redis.call('HDEL', was, label)
  redis.call('HDEL', purged, label)
end
