-- How long lists are, and what came last in each: as many as it is longer than `before`, and 50 that
-- were there; `most` at most. At one moment, so that both agree. Reads only.
-- KEYS: t_failed
-- ARGV: most
-- REST: key before
-- FLAGS: no-writes
-- Returns of each list its length, and its last elements.
local said = {}
for i = first, #ARGV, width do
  local size = redis.call('LLEN', ARGV[i])
  local n = math.min(tonumber(most), math.max(0, size - tonumber(ARGV[i + 1])) + 50)
  said[#said + 1] = {size, redis.call('LRANGE', ARGV[i], -n, -1)}
end
return said
