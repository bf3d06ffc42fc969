-- Taking one entry out of the place it was seen in, and putting it into another, by its exact bytes.
-- A place is a `list` or `zset` of the owner's (by its key), `held` (by ticket) or `trash` (by name).
-- KEYS: trash was purged body meta lease t_queue_
-- NEEDS: queue
-- USES: remove_from_list leased_jobs owner_lists record
-- Returns what is needed to put it back: its bytes, and what went with them; or nil, and why.
local function take_out(kind, key, member, seen)
  if kind == 'zset' then
    local score = redis.call('ZSCORE', key, member)
    if not score then return nil end
    redis.call('ZREM', key, member)
    return {kind, key, member, score}
  elseif kind == 'list' then
    local ok, why = out_of_list(key, member, tonumber(seen))
    if not ok then return nil, why end
    return {kind, key, member, ''}
  elseif kind == 'held' then
    local payload = redis.call('HGET', body, member)
    if not payload then return nil end
    local line, deadline = redis.call('HGET', meta, member), redis.call('ZSCORE', lease, member)
    let_go({member})
    return {kind, member, payload, deadline, line}
  elseif kind == 'trash' then
    local since = redis.call('ZSCORE', trash, member)
    local row, payload = redis.call('HGET', was, member), redis.call('HGET', purged, member)
    if not since or not payload then return nil end
    redis.call('ZREM', trash, member)
    redis.call('HDEL', was, member)
    redis.call('HDEL', purged, member)
    return {kind, member, payload, since, row}
  end
end

-- Whether an entry can go back to a place: its key may be somebody else's now. Asked before it is taken
-- out of where it is.
local function open_for(kind, key)
  if kind ~= 'list' and kind ~= 'zset' then return true end
  local is = redis.call('TYPE', key).ok
  return is == kind or is == 'none'
end

-- Operation, kind, key, score and record of what is in the trash; nil where somebody spoilt it.
local function origin_of(name)
  local readable, row = pcall(cmsgpack.unpack, redis.call('HGET', was, name))
  local sound = readable and type(row) == 'table' and type(row[2]) == 'string'
  return sound and type(row[3]) == 'string' and row or nil
end

local function restorable(name)
  local origin = origin_of(name)
  if not origin then return not redis.call('ZSCORE', trash, name) end -- gone meanwhile, or spoilt
  if origin[2] == 'held' then return fits(queue) end -- its holder is long gone
  return open_for(origin[2], origin[3])
end

-- Back to where `take_out` had it from; lists get it at the end where new ones come.
local function put_back(row)
  local kind, key, payload, score = row[1], row[2], row[3], row[4]
  if kind == 'zset' then
    return into_set(key, score, payload)
  elseif kind == 'list' then
    local name = key:sub(1, #t_queue_) == t_queue_ and key:sub(#t_queue_ + 1)
    if name then to_end(name, payload) else redis.call('RPUSH', key, payload) end
  elseif kind == 'held' then
    hold(key, payload, row[5] or record_pack(record_unpack(nil)), score or now)
  elseif kind == 'trash' then
    local label, n = key, 1
    while redis.call('ZSCORE', trash, label) do n = n + 1; label = key .. '~' .. n end
    redis.call('ZADD', trash, score, label)
    redis.call('HSET', was, label, row[5] or '')
    redis.call('HSET', purged, label, payload)
  end
  return payload
end
