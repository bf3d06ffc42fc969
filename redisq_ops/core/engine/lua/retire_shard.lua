-- Remove what a shard that is given up leaves behind, unless it is in use again, or something is left
-- in it. Its layout stays for late producers, the rest of `stat` for late receipts.
-- KEYS: stat hist wake ops callers seen
-- ARGV: layout
-- USES: config storage_clear storage_empty
-- FLAGS: allow-oom
-- Returns how many entries were settled here.
if config.layout ~= layout or not config.retired or not storage_empty() then
  return 0
end
local done = tonumber(redis.call('HGET', stat, 'done') or '0')
redis.call('HDEL', stat, 'done')
storage_clear()
redis.call('UNLINK', hist, wake, ops, callers, seen)
-- mutant a shard's count goes with it: done => 0
return done
