-- Store a newer layout of the queue's shards, so that producers with an older one are turned away. It
-- only ever grows, so a call that arrives late undoes nothing. A shard that is given up (`retired`)
-- takes no new entries at all.
-- KEYS: cfg
-- ARGV: layout retired
-- USES: config
-- FLAGS: allow-oom
-- Returns the layout that is valid here.
local known = tonumber(config.layout) or 0
if known < tonumber(layout) then
  -- mutant no fence where shards change
  redis.call('HSET', cfg, 'layout', layout)
  if retired == '1' then
    redis.call('HSET', cfg, 'retired', 1)
  else
    redis.call('HDEL', cfg, 'retired')
  end
end
return math.max(known, tonumber(layout))
