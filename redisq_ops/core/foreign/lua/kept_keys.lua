-- Whole keys of an owner's, kept and put back exactly: bytes, encoding, and the time they expire.
local function kept_keys_dump(keys)
  local kept = {}
  for i, key in ipairs(keys) do
    local text = redis.call('DUMP', key)
    if text then kept[#kept + 1] = {key, text, redis.call('PEXPIRETIME', key)} end
  end
  return kept
end

-- True if no key exists again, and the first one, the record, would not have expired since. Of the keys
-- beside it those that would have are let go.
local function kept_keys_restorable(kept)
  for i = #kept, 1, -1 do
    local key, expires = kept[i][1], kept[i][3]
    if expires >= 0 and expires <= now then
      if i == 1 then return false end
      table.remove(kept, i)
    -- mutant id that came again: redis.call('EXISTS', key) == 1 => false
    elseif redis.call('EXISTS', key) == 1 then
      return false
    end
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

-- Keeps what a change overwrites: the fields `names` of `record`, and when `keys` expire.
local function kept_keys_fields(record, names, keys)
  local kept = {values = {}, times = {}}
  for i, name in ipairs(names) do kept.values[i] = record[name] or false end
  for i, key in ipairs(keys) do kept.times[i] = redis.call('PEXPIRETIME', key) end
  return kept
end

-- Puts back the fields `names` of a hash, the first of `keys`, and when `keys` expire.
-- `kept.values`: false for a field that wasn't there. `kept.times`: replies of PEXPIRETIME.
local function kept_keys_put_fields(names, keys, kept)
  local there, absent = {}, {}
  for i, name in ipairs(names) do
    if kept.values[i] then
      there[#there + 1], there[#there + 2] = name, kept.values[i]
    else
      absent[#absent + 1] = name
    end
  end
  if #there > 0 then redis.call('HSET', keys[1], unpack(there)) end
  if #absent > 0 then redis.call('HDEL', keys[1], unpack(absent)) end
  for i, at in ipairs(kept.times) do
    if at >= 0 then
      redis.call('PEXPIREAT', keys[i], string.format('%.0f', at))
    else
      redis.call('PERSIST', keys[i])
    end
  end
end
