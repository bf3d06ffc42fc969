-- Turn away producers who know an older layout of the queue's shards. It only ever grows, so a late
-- fence opens nothing. A shard that is given up (`retired`) takes nothing new at all.
-- KEYS: cfg
-- ARGV: layout retired
-- USES: config
-- FLAGS: allow-oom
-- Returns the layout that counts here.
local known = tonumber(config.layout) or 0
if known < tonumber(layout) then
  redis.call('HSET', cfg, 'layout', layout)
  if retired == '1' then
    redis.call('HSET', cfg, 'retired', 1)
  else
    redis.call('HDEL', cfg, 'retired')
  end
end
return math.max(known, tonumber(layout))
