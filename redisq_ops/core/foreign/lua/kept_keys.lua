-- Whole keys of an owner's, kept and put back exactly: bytes, encoding, and the time they expire.
local function kept_keys_dump(keys)
  local kept = {}
  for i, key in ipairs(keys) do
    local text = redis.call('DUMP', key)
    if text then kept[#kept + 1] = {key, text, redis.call('PEXPIRETIME', key)} end
  end
  return kept
end

-- Whether none of them is there again, or would have expired since.
local function kept_keys_restorable(kept)
  for _, row in ipairs(kept) do
    if redis.call('EXISTS', row[1]) == 1 or row[3] >= 0 and row[3] <= now then return false end
  end
  return true
end

local function kept_keys_restore(kept)
  for _, row in ipairs(kept) do
    if row[3] < 0 then
      redis.call('RESTORE', row[1], 0, row[2])
    else
      redis.call('RESTORE', row[1], string.format('%.0f', row[3]), row[2], 'ABSTTL')
    end
  end
end

-- Fields of a hash, and when keys expire: what a change writes over.
local function kept_keys_fields(hash, names, keys)
  local kept = {values = redis.call('HMGET', hash, unpack(names)), times = {}}
  for i, key in ipairs(keys) do kept.times[i] = redis.call('PEXPIRETIME', key) end
  return kept
end

local function kept_keys_put_fields(hash, names, keys, kept)
  for i, name in ipairs(names) do
    if kept.values[i] then
      redis.call('HSET', hash, name, kept.values[i])
    else
      redis.call('HDEL', hash, name)
    end
  end
  for i, key in ipairs(keys) do
    if kept.times[i] >= 0 then
      redis.call('PEXPIREAT', key, string.format('%.0f', kept.times[i]))
    else
      redis.call('PERSIST', key)
    end
  end
end
