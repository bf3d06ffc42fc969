-- Clear what a shard that is given up leaves behind, once its clients are forgotten (`forget`),
-- unless it was taken up again meanwhile. Its fence stays for late producers, the rest of `stat` for
-- late receipts.
-- KEYS: stat hist wake ops callers holes packing ring accounts clients body
-- ARGV: layout
-- USES: config
-- FLAGS: allow-oom
-- Returns how many entries were settled here.
if conf.layout ~= layout or not conf.retired
  or redis.call('EXISTS', body, clients) > 0 then
  return 0
end
local done = tonumber(redis.call('HGET', stat, 'done') or '0')
redis.call('HDEL', stat, 'done', 'waiting', 'vt', 'vt_latest', 'looked')
redis.call('UNLINK', hist, wake, ops, callers, holes, packing, ring, accounts)
return done
