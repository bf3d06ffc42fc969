-- Strike one of Resque's workers, if its beat and its work still are what was read; what it had goes
-- to the failed list, as Resque itself does with a worker that is silent for five minutes.
-- KEYS: t_workers t_worker_ t_heartbeats
-- ARGV: caller seq identity beat working text side queue failed
-- USES: guard burial
-- FLAGS: allow-oom
-- Returns pruned | changed | unknown.
local said, late = replayed()
if late then return superseded end
if said then return said end
by = caller:match('^[^:]*')
if redis.call('SISMEMBER', t_workers, identity) == 0 then return remember({'unknown'}) end
local has = redis.call('GET', t_worker_ .. identity) or ''
if (redis.call('HGET', t_heartbeats, identity) or '') ~= beat or has ~= working then
  return remember({'changed'})
end
redis.call('SREM', t_workers, identity)
redis.call('UNLINK', t_worker_ .. identity, t_worker_ .. identity .. ':started',
  t_stat_ .. 'processed:' .. identity, t_stat_ .. 'failed:' .. identity)
redis.call('HDEL', t_heartbeats, identity)
if text ~= '' then
  redis.call('RPUSH', failed, text .. stamp('date') .. '}')
  note('dead', by .. '|pruned')
end
note('op', by .. '|prune|1')
write_history()
return remember({'pruned'})
