-- Set or remove a periodic entry. The same specification again leaves its next time as it is, so every
-- worker may declare it when it starts, and no missed run is forgotten. One that an operator paused
-- stays paused: its score is inf.
-- KEYS: periodic periodic_at periodic_run
-- ARGV: name spec at
-- USES: registered
-- FLAGS: allow-oom
-- Returns: ok | same | changed | gone (removed, with an empty spec).
registered_check()
local was = redis.call('HGET', periodic, name)
if spec == '' then
  redis.call('HDEL', periodic, name)
  redis.call('ZREM', periodic_at, name)
  redis.call('HDEL', periodic_run, name)
  return was and 'gone' or 'same'
end
if was == spec then return 'same' end
redis.call('HSET', periodic, name, spec)
if redis.call('ZSCORE', periodic_at, name) ~= 'inf' then redis.call('ZADD', periodic_at, at, name) end
return was and 'changed' or 'ok'
