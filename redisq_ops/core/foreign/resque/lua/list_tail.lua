-- Read how long lists are, and their last elements: as many as each is longer than `before`, and 50
-- more, `most` at most.
-- KEYS: t_failed
-- ARGV: most
-- REST: key before
-- FLAGS: no-writes
-- Returns of each list its length, and its last elements.
local reply = {}
for i = first, #ARGV, width do
  local size = redis.call('LLEN', ARGV[i])
  local n = math.min(tonumber(most), math.max(0, size - tonumber(ARGV[i + 1])) + 50)
  reply[#reply + 1] = {size, redis.call('LRANGE', ARGV[i], -n, -1)}
end
return reply
