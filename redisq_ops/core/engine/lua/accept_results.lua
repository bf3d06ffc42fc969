-- Results that come from a shard that is given up: of each entry the latest is kept.
-- KEYS: result result_at
-- REST: id at value
-- USES: type_check
-- FLAGS: allow-oom
-- Returns how many were taken in.
type_check_key(result, 'hash')
type_check_key(result_at, 'zset')
local taken = 0
for at = first, #ARGV, width do
  local id, ended = ARGV[at], ARGV[at + 1]
  local known = redis.call('ZSCORE', result_at, id)
  if not known or tonumber(known) < tonumber(ended) then
    redis.call('HSET', result, id, ARGV[at + 2])
    redis.call('ZADD', result_at, ended, id)
    taken = taken + 1
  end
end
return taken
