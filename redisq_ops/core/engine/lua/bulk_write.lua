-- Write many elements to one key. Redis keeps a small hash, set or sorted set in a compact form that it
-- searches from end to end at every write. To make Redis switch to the form for large keys first,
-- an element that is too long for the compact form is added, and removed again.
local LONG, MANY = string.rep(' ', 65), 16 -- no id, client name or ticket has a space

local function bulk_write_fields(key, rows)
  local n = #rows
  if n < 2 * MANY then return redis.call('HSET', key, unpack(rows)) end
  rows[n + 1], rows[n + 2] = LONG, ''
  redis.call('HSET', key, unpack(rows))
  -- mutant what made a key large stays there
  redis.call('HDEL', key, LONG)
end

local function bulk_write_scores(key, rows)
  if #rows < 2 * MANY then return redis.call('ZADD', key, unpack(rows)) end
  redis.call('ZADD', key, 0, LONG)
  redis.call('ZADD', key, unpack(rows))
  -- mutant what made a set large stays there
  redis.call('ZREM', key, LONG)
end

local function bulk_write_members(key, members)
  if #members < MANY then return redis.call('SADD', key, unpack(members)) end
  redis.call('SADD', key, LONG, unpack(members))
  redis.call('SREM', key, LONG)
end
