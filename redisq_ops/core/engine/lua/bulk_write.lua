-- Many elements at once into a key. What has few elements, all short, is kept in a form that is searched
-- from end to end at every write, and a hundred of them are that a hundred times. An element too long
-- for that form, gone again at once, puts the key into the form of large ones.
local LONG, MANY = string.rep(' ', 65), 16 -- no id, name of a client or ticket has a space

local function bulk_write_fields(key, rows)
  local n = #rows
  if n < 2 * MANY then return redis.call('HSET', key, unpack(rows)) end
  rows[n + 1], rows[n + 2] = LONG, ''
  redis.call('HSET', key, unpack(rows))
  redis.call('HDEL', key, LONG)
end

local function bulk_write_scores(key, rows)
  if #rows < 2 * MANY then return redis.call('ZADD', key, unpack(rows)) end
  redis.call('ZADD', key, 0, LONG)
  redis.call('ZADD', key, unpack(rows))
  redis.call('ZREM', key, LONG)
end

local function bulk_write_members(key, members)
  if #members < MANY then return redis.call('SADD', key, unpack(members)) end
  redis.call('SADD', key, LONG, unpack(members))
  redis.call('SREM', key, LONG)
end
