-- Purged entries: the hash `was` has the operation and the entry, packed; `purged` has what is shown of
-- it. Entries older than `trash_ms` are deleted here, also by each purge: without workers of ours
-- nobody sweeps the queue.
-- KEYS: trash was purged
-- USES: config renamed
local function empty_trash(max)
  -- mutant trash let go too early: - config.trash_ms =>
  local old = redis.call('ZRANGE', trash, '-inf', now - config.trash_ms, 'BYSCORE', 'LIMIT', 0, max)
  if #old > 0 then
    redis.call('ZREM', trash, unpack(old))
    redis.call('HDEL', was, unpack(old))
    redis.call('HDEL', purged, unpack(old))
  end
  return #old
end

-- A label that is free. Thousands of entries may have the same id, so not every label is tried.
local function trash_label(id)
  local function label(n) return n == 1 and id or id .. '~' .. n end
  local taken, free = 0, 1
  while redis.call('ZSCORE', trash, label(free)) do taken, free = free, 2 * free end
  while free - taken > 1 do
    local n = math.floor((taken + free) / 2)
    if redis.call('ZSCORE', trash, label(n)) then taken = n else free = n end
  end
  return label(free)
end

-- Put an entry into the trash; its bytes are kept once. Returns the label it got.
local function trash_put(op, e, since)
  local label = trash_label(e.id)
  redis.call('ZADD', trash, since or now, label)
  redis.call('HSET', purged, label, e.shown or e.member)
  if e.shown then e.shown = nil else e.member = nil end
  redis.call('HSET', was, label, cmsgpack.pack({op, renamed_kept(e)}))
  return label
end

-- The operation, the entry, and when it went to the trash; nil: it isn't there, or is corrupt.
local function trash_get(label)
  local since, text = redis.call('ZSCORE', trash, label), redis.call('HGET', was, label)
  local payload = redis.call('HGET', purged, label)
  if not since or not text or not payload then return nil end
  local readable, row = pcall(cmsgpack.unpack, text)
  if not readable or type(row) ~= 'table' or type(row[2]) ~= 'table' then return nil end
  local e = row[2]
  if e.member then e.shown = payload else e.member = payload end
  return row[1], renamed_now(e), since
end

local function trash_drop(label)
  redis.call('ZREM', trash, label)
  redis.call('HDEL', was, label)
  redis.call('HDEL', purged, label)
end
