-- What release 0.1.0 kept for an undo, as the entries of today. It described a place by its kind (list,
-- zset, held, trash), its key, ticket or label, the job's bytes, and its score; `line` is the record of
-- a job that was leased.
-- IMPLEMENTS: moves_first_trash moves_first_step
-- KEYS: lease
local function entry_of(kind, key, payload, score, line)
  local held = kind == 'held'
  return {key = held and lease or key, ticket = held and key or nil, member = payload, score = score,
    line = line}
end

local function moves_first_trash(row, label, payload)
  local op, kind, key, score, line = unpack(row, 1, 5)
  if type(kind) ~= 'string' or type(key) ~= 'string' then return nil end
  local e = entry_of(kind, key, payload, score, line)
  e.id = label
  return e
end

local function moves_first_step(row)
  local kind, key, payload, score = unpack(row[1], 1, 4)
  if kind == 'trash' then return 'trash', {label = key}, '', '' end
  local to, e = kind == 'list' and 'waiting' or kind == 'zset' and 'delayed' or 'pending', nil
  if row[2][1] == 'trash' then -- it was restored
    local _, label, bytes, since, packed = unpack(row[2], 1, 5)
    local readable, was = pcall(cmsgpack.unpack, packed)
    e = readable and type(was) == 'table' and moves_first_trash(was, label, bytes) or {}
    to, e.op, e.since = 'restore', readable and was[1] or nil, since
  else
    e = entry_of(unpack(row[2], 1, 5))
  end
  if type(e.key) ~= 'string' or type(e.member) ~= 'string' then return nil end
  if kind == 'list' then
    e.put = payload
    return to, e, key, redis.sha1hex(payload)
  end
  e.there, e.at = kind == 'zset' and payload or key, score
  return to, e, '', ''
end
