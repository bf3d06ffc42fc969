-- Elements of an owner's keys, by their kind: a field of a `hash`, a member of a `zset` (its value is
-- the score) or of a `set` (its value is 1), a `string`, a whole `key` of any type (its value is 1),
-- an event of a `stream`, which is only added (its value is how many events stay, about; it is left out
-- if no id is left), and an element of a `list`, which is only added at its left end (its value is the
-- seconds after which the list expires). A value is = and its bytes; empty: the element isn't there.
-- USES: type_check kept_keys
local function element_now(kind, key, member)
  if kind == 'key' then return redis.call('EXISTS', key) == 1 and '1' end
  type_check_key(key, kind)
  if kind == 'hash' then return redis.call('HGET', key, member) end
  if kind == 'zset' then return redis.call('ZSCORE', key, member) end
  if kind == 'set' then return redis.call('SISMEMBER', key, member) == 1 and '1' end
  return kind == 'string' and redis.call('GET', key)
end

local function elements_hold(row, value)
  local kind, key, member = unpack(row)
  local is = element_now(kind, key, member)
  if value == '' or not is then return value == '' and not is end
  local wanted = value:sub(2)
  return is == wanted or kind == 'zset' and tonumber(is) == tonumber(wanted)
end

local function elements_set(row, value)
  local kind, key, member = unpack(row)
  local bytes = value:sub(2)
  if kind == 'key' then
    redis.call('UNLINK', key)
  elseif kind == 'stream' then
    local fields = {}
    for field in member:gmatch('%Z+') do fields[#fields + 1] = field end
    redis.pcall('XADD', key, 'MAXLEN', '~', bytes, '*', unpack(fields))
  elseif kind == 'list' then
    redis.call('LPUSH', key, member)
    redis.call('EXPIRE', key, bytes)
  elseif kind == 'hash' then
    if value == '' then redis.call('HDEL', key, member) else redis.call('HSET', key, member, bytes) end
  elseif kind == 'zset' then
    if value == '' then redis.call('ZREM', key, member) else redis.call('ZADD', key, bytes, member) end
  elseif kind == 'set' then
    if value == '' then redis.call('SREM', key, member) else redis.call('SADD', key, member) end
  elseif value == '' then
    redis.call('UNLINK', key)
  else
    redis.call('SET', key, bytes, 'KEEPTTL')
  end
end

-- What `elements_return` needs beside the value before: the bytes of a removed key, and when a string
-- would have expired.
local function elements_kept(row)
  if row[1] == 'key' or row[1] == 'string' then return kept_keys_dump({row[2]}) end
  return {}
end

local function elements_returnable(row)
  if row[1] == 'stream' then return true end
  if not elements_hold(row, row[5]) then return false end
  return #row[6] == 0 or row[5] ~= '' or kept_keys_restorable(row[6])
end

local function elements_return(row)
  if row[1] == 'stream' then return end
  if #row[6] > 0 and row[5] == '' then
    kept_keys_restore(row[6])
  else
    elements_set(row, row[4])
  end
end
