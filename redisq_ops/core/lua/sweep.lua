-- Let go of what is past its time, a little per call: purged entries after `trash_ms`, finished
-- requests and results after `keep_ms`, callers not heard of for a day. Dead letters never.
-- KEYS: callers ops op_
-- ARGV: max
-- USES: due
-- FLAGS: allow-oom
-- Returns how many things went; 0 means nothing was due.
local went = reap(tonumber(max))
flush()
local old = redis.call('ZRANGE', trash, '-inf', now - conf.trash_ms, 'BYSCORE', 'LIMIT', 0, max)
for i, r in ipairs(records(old)) do move(old[i], 'trash', 'gone', 0, r) end
flush()
went = went + #old + room_retire(tonumber(max))
flush()
local page = redis.call('HSCAN', callers, redis.call('HGET', stat, 'sweep') or '0', 'COUNT', 50)
redis.call('HSET', stat, 'sweep', page[1])
for i = 1, #page[2], 2 do
  local at = tonumber(page[2][i + 1]:match('^%d+ (%d+)'))
  if at and at < now - 86400000 then redis.call('HDEL', callers, page[2][i]) end
end
for _, op in ipairs(redis.call('ZRANGE', ops, '-inf', now - 2592000000, 'BYSCORE', 'LIMIT', 0, 20)) do
  redis.call('ZREM', ops, op)
  redis.call('DEL', op_ .. op)
end
return went
