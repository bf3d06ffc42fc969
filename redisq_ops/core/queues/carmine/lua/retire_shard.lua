-- Clear what a shard that is given up leaves behind, unless it was taken up again meanwhile: our keys
-- and Carmine's, but where another program wrote, its messages and their circle.
-- Its fence stays for late producers, the rest of `stat` for late receipts.
-- KEYS: stat hist wake ops callers seen messages circle stray eoq dry_runs
-- ARGV: layout
-- USES: config
-- FLAGS: allow-oom
-- Returns how many entries were settled here.
if conf.layout ~= layout or not conf.retired then
  return 0
end
local done = tonumber(redis.call('HGET', stat, 'done') or '0')
redis.call('HDEL', stat, 'done')
redis.call('UNLINK', hist, wake, ops, callers, seen)
if redis.call('EXISTS', messages) == 0 then
  redis.call('UNLINK', circle, stray, eoq, dry_runs)
end
return done
