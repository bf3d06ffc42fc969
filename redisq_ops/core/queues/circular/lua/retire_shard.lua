-- Clear what a shard that is given up leaves behind, unless it was taken up again meanwhile, or another
-- producer's push is in its list. Its fence stays for late producers, the rest of `stat` for late
-- receipts.
-- KEYS: stat hist wake ops callers seen
-- ARGV: layout
-- USES: elements
-- FLAGS: allow-oom
-- Returns how many entries were settled here.
if conf.layout ~= layout or not conf.retired
  or room_waiting() > 0 then
  return 0
end
local done = tonumber(redis.call('HGET', stat, 'done') or '0')
redis.call('HDEL', stat, 'done', 'spent', 'sentinel', 'lap', 'barren', 'vain')
redis.call('UNLINK', queue, spent, hist, wake, ops, callers, seen)
return done
